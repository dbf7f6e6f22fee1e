/* links: rendezvous/ctl/{picture,table,facts,fields,document,text} */
/* links: rendezvous/base/{utf8,err,log,mono,signals_name} */
/* libs: -lcjson */
/*
 * What ddpctl top --once prints, from JSON as the daemon sends it and as a
 * hostile one might: what there is, that it fits, and that nothing in it
 * reaches a terminal as more than letters.
 */
#include <check.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/ctl/document.h"
#include "rendezvous/ctl/fields.h"
#include "rendezvous/ctl/picture.h"
#include "tests/lib/lines_fit.h"
#include "tests/lib/suite.h"

static char *page;
static struct picture view;

static void setup(void)
{
    /* glibc has it built in, or the tests of width mean nothing. */
    ck_assert_ptr_nonnull(setlocale(LC_CTYPE, "C.UTF-8"));
    view = (struct picture){.style = {.utf8 = true, .width = 80},
                            .where = "head:29400"};
    page = NULL;
}

static void teardown(void)
{
    free(page);
}

/* Returns how many runs there are; -1: it is no status. */
static int show(const char *json)
{
    size_t size;
    struct ddp_err err;
    cJSON *status = ctl_document_parse(json, strlen(json), &err);
    if (status == NULL) {
        ck_assert_int_eq(err.code, DDP_E_PROTO);
        return -1;
    }
    free(page);
    FILE *f = open_memstream(&page, &size);
    ck_assert_ptr_nonnull(f);
    picture_draw(&view, status, f);
    ck_assert_int_eq(fclose(f), 0);
    int runs = (int)field_count(field_of(status, "runs"));
    cJSON_Delete(status);
    return runs;
}

static bool has(const char *text)
{
    return strstr(page, text) != NULL;
}

#define HEAD                                                                   \
    "{\"version\":\"0.1.0\",\"uptime_s\":200.5,\"token\":false,\"runs\":["
#define RUN(id, state, more)                                                   \
    "{\"id\":\"" id "\",\"state\":\"" state "\",\"round\":3,"                  \
    "\"prog\":\"train.py\",\"nodes_min\":1,\"nodes_max\":4,\"nodes\":3,"       \
    "\"spares\":1,\"world_size\":12,\"master_addr\":\"10.0.0.1\","             \
    "\"master_port\":4711,\"restarts\":1,\"max_restarts\":3,\"window_s\":0,"   \
    "\"uptime_s\":6000.2,\"round_uptime_s\":20.1" more "}"
#define NODE(name, agent, state, rank, base)                                   \
    "{\"name\":\"" name "\",\"agent\":\"" agent "\",\"state\":\"" state "\","  \
    "\"group_rank\":" #rank ",\"base_rank\":" #base ",\"nproc\":4,"            \
    "\"addr\":\"10.0.0.1\",\"lease_s\":4.2,\"uptime_s\":100.1,"                \
    "\"hosts\":false}"

#define WAITS ",\"waiting\":{\"have\":1,\"min\":2,\"left_s\":590.0}"
#define ENDED(status, text)                                                    \
    ",\"end\":{\"status\":" #status ",\"text\":\"" text "\",\"age_s\":3}"
#define FAILED                                                                 \
    ",\"last_failure\":{\"round\":2,\"node\":\"n1\",\"rank\":5,\"pid\":3,"     \
    "\"code\":0,\"signal\":9,\"age_s\":20.3,\"text\":\"\"}"
#define NODES(list) ",\"nodes_list\":[" list "],\"nodes_left_out\":0"

TEST(test_once_of_nothing_is_clear)
{
    ck_assert_int_eq(show(HEAD "]}"), 0);
    ck_assert_str_eq(page, "head:29400: rendezvous 0.1.0, up 3 min; 0 runs\n"
                           "  nothing runs here\n");
}

/* What the time went to; numbers that no daemon sends are not shown. */
TEST(test_once_of_goodput)
{
#define GOODPUT(share)                                                         \
    HEAD RUN("x", "active",                                                    \
             ",\"goodput\":{\"wall_s\":1200,\"ran_s\":1110,\"waited_s\":60,"   \
             "\"detect_s\":20,\"restart_s\":10,\"share\":" share               \
             ",\"repeated_steps\":1}") "]}"
    static const char *const wrong[] = {GOODPUT("1e300"), GOODPUT("-1"),
                                        GOODPUT("0"), GOODPUT("\"x\"")};
    ck_assert_int_eq(show(GOODPUT("0.925")), 1);
    (void)lines_fit(&view.style, page);
    ck_assert(has("] goodput 92.5 % of 20 min; waiting 1 min, detection 20 s, "
                  "restarts 10 s\n  1 step done twice\n"));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ck_assert_int_eq(show(wrong[i]), 1);
        ck_assert(!has("goodput"));
    }
}

/* A restart takes milliseconds: it is no 0 s. */
TEST(test_once_of_goodput_shows_milliseconds)
{
    ck_assert_int_eq(show(HEAD RUN("x", "active",
                                   ",\"goodput\":{\"wall_s\":3.6,\"ran_s\":2.9,"
                                   "\"waited_s\":0.668,\"detect_s\":0.0004,"
                                   "\"restart_s\":0.0369,\"share\":0.8}") "]}"),
                     1);
    ck_assert(has("] goodput 80.0 % of 3 s; waiting 0.67 s, detection 0 s, "
                  "restarts 0.037 s\n"));
}

TEST(test_once_of_a_run_says_all)
{
    const char *n0 = NODE("n0", "aa", "running", 0, 0);
    const char *n1 = NODE("n1", "bb", "absent", 1, 4);
    const char *n2 = NODE("n2", "cc", "spare", -1, 0);
    char json[4096];
    (void)snprintf(json, sizeof(json),
                   HEAD RUN("llama", "active", FAILED NODES("%s,%s,%s")) "]}",
                   n0, n1, n2);
    ck_assert_int_eq(show(json), 1);
    (void)lines_fit(&view.style, page);
    ck_assert_str_eq(
        page, "head:29400: rendezvous 0.1.0, up 3 min; 1 run\n"
              "\n"
              "  RUN    STATE   ROUND  NODES     WORLD  RESTARTS\n"
              "  llama  active      3  3 of 1:4     12  1 of 3\n"
              "  last failure: rank 5 on n1 killed by SIGKILL, 20 s ago\n"
              "  train.py, round 3 up 20 s, 1 spare, master 10.0.0.1:4711\n"
              "  RANK  NODE  STATE    RANKS  LEASE  UP\n"
              "     1  n1    absent   4-7    4.2 s  1 min\n"
              "     -  n2    spare    -      4.2 s  1 min\n"
              "     0  n0    running  0-3    4.2 s  1 min\n");
}

TEST(test_once_of_runs_that_wait_or_ended)
{
    const char *a = RUN("a", "gather", WAITS);
    const char *b =
        RUN("b", "ended", ENDED(84, "ended by ddpctl from 10.0.0.5"));
    const char *c = RUN("c", "ended", ENDED(0, ""));
    char json[4096];
    (void)snprintf(json, sizeof(json), HEAD "%s,%s,%s]}", a, b, c);
    ck_assert_int_eq(show(json), 3);
    (void)lines_fit(&view.style, page);
    ck_assert(has("1 run, 2 that ended\n"));
    ck_assert(has("  waiting for nodes: 1 of at least 2 have joined, gives up "
                  "in 9 min\n"));
    ck_assert(has("  ended 3 s ago with status 84: ended by ddpctl from "
                  "10.0.0.5 (train.py)\n"));
    ck_assert(has("  ended 3 s ago: all workers succeeded (train.py)\n"));
    ck_assert(!has(" 12 ")); /* the last round's world */
}

#define AUTHORITY(term, leads, may_act, here, answer)                          \
    ",\"authority\":{\"term\":" #term ",\"leads\":" #leads                     \
    ",\"may_act\":" #may_act ",\"voters\":3,\"here\":" #here                   \
    ",\"answer\":" #answer "}"

/* Whether it has the run, and if not, how many are missing. */
TEST(test_once_says_who_votes)
{
    char json[4096];
    const char *a = RUN("a", "active", AUTHORITY(2, true, true, 3, 2) WAITS);
    const char *b = RUN("b", "gather", AUTHORITY(2, true, false, 3, 1));
    const char *c = RUN("c", "gather", AUTHORITY(0, false, false, 1, 0));
    (void)snprintf(json, sizeof(json), HEAD "%s,%s,%s]}", a, b, c);
    ck_assert_int_eq(show(json), 3);
    (void)lines_fit(&view.style, page);
    ck_assert(has("  no majority: 1 of 3 voters answer, half are needed\n"));
    ck_assert(has("  this server does not have the run: 1 of 3 voters are "
                  "here, more than half"));
    ck_assert(has("  term 2, 2 of 3 voters answer\n"));
}

#define VOTER(name, addr, hosts)                                               \
    "{\"name\":\"" name "\",\"agent\":\"0123456789ab\","                       \
    "\"state\":\"running\",\"nproc\":4,\"addr\":\"" addr                       \
    "\",\"votes\":true,\"serve_port\":29500,\"hosts\":" #hosts "}"

/* Where the run would go on: the voters but the one that serves. */
TEST(test_once_says_who_is_next)
{
    char json[4096];
    const char *a = RUN(
        "a", "active",
        AUTHORITY(1, true, true, 3, 3)
            NODES(VOTER("n0", "10.0.0.1", true) "," VOTER(
                "n1", "10.0.0.2", false) "," VOTER("n2", "fd00::3", false)));
    (void)snprintf(json, sizeof(json), HEAD "%s]}", a);
    ck_assert_int_eq(show(json), 1);
    (void)lines_fit(&view.style, page);
    ck_assert(
        has("  would be served next at 10.0.0.2:29500, [fd00::3]:29500\n"));
}

/* Found by outsiders: how far it is was on the page alone. */
TEST(test_once_of_a_run_says_its_step)
{
    ck_assert_int_eq(
        show(HEAD RUN("a", "active",
                      ",\"progress\":{\"step\":40,\"steps_per_s\":2.5}") "]}"),
        1);
    ck_assert(has("  step 40, 2.5 a second\n"));
}

/* A run that keeps its steps on one node each says so. */
TEST(test_once_of_a_run_says_that_no_step_is_on_two_nodes)
{
    ck_assert_int_eq(
        show(HEAD RUN("a", "active",
                      ",\"progress\":{\"step\":40,\"mirrored\":-1}") "]}"),
        1);
    ck_assert(has("  step 40\n  no step is on two nodes\n"));
}

/* The last round's world, and how long ago that was sealed, are of no use once
 * its workers are gone. */
TEST(test_once_between_two_rounds_shows_nothing_old)
{
    const char *a = RUN("a", "gather", WAITS);
    const char *b = RUN("b", "drain", "");
    char json[4096];
    (void)snprintf(json, sizeof(json), HEAD "%s,%s]}", a, b);
    ck_assert_int_eq(show(json), 2);
    (void)lines_fit(&view.style, page);
    ck_assert(has("a    gather      3  1 of 1:4      -  1 of 3"));
    ck_assert(has("  train.py, 1 spare\n"));
    ck_assert(has("b    drain      3  3 of 1:4     12  1 of 3"));
    ck_assert(has("  train.py, round 3 is being stopped, 1 spare\n"));
    ck_assert(!has("20 s"));
}

/* Two launchers on a host: only their ids tell them apart. */
TEST(test_once_shows_agents_where_names_are_the_same)
{
    const char *n0 = NODE("n", "0123456789ab", "running", 0, 0);
    const char *n1 = NODE("n", "fedcba9876", "running", 1, 4);
    char json[4096];
    (void)snprintf(json, sizeof(json),
                   HEAD RUN("r", "active", NODES("%s,%s")) "]}", n0, n1);
    ck_assert_int_eq(show(json), 1);
    ck_assert(has("AGENT") && has("01234567 ") && has("fedcba98 "));
    (void)lines_fit(&view.style, page);
}

/* Of a run of many nodes the document has counts, and those that are not well.
 */
TEST(test_once_sums_many_nodes_up)
{
    ck_assert_int_eq(
        show(HEAD RUN(
            "big", "active",
            ",\"groups\":[{\"nodes\":100,\"running\":99,"
            "\"absent\":1},{\"nodes\":9900,\"running\":9899,"
            "\"absent\":1}],\"unwell\":2"
            ",\"nodes_list\":[" NODE("n77", "ab", "absent", 77, 8) "]") "]}"),
        1);
    (void)lines_fit(&view.style, page);
    ck_assert(has("  10,000 nodes, 9,998 running, 2 absent, those that are not "
                  "well are listed\n"));
    ck_assert(has("n77"));
}

/* Long ids, wide letters, huge numbers: cut in the middle. */
TEST_LOOP(test_once_fits_whatever_there_is, 0, 4)
{
    static const int widths[] = {40, 60, 80, 132};
    char id[129], json[4096];
    view.style.width = widths[_i];
    memset(id, 'x', sizeof(id));
    memcpy(id, "first", 5);
    memcpy(id + 123, "last", 5);
    int n = snprintf(
        json, sizeof(json),
        HEAD "{\"id\":\"%s\",\"state\":\"active\",\"round\":1000000000,"
             "\"nodes\":100000,\"nodes_min\":100000,\"nodes_max\":100001,"
             "\"world_size\":409600000,\"restarts\":64,\"max_restarts\":64,"
             "\"restarts_in_window\":64,\"window_s\":86400000,"
             "\"uptime_s\":1e300,\"prog\":\"%s\",\"nodes_list\":[{\"name\":"
             "\"%.64s\",\"state\":\"absent\",\"lease_s\":86400000,"
             "\"group_rank\":99999,\"base_rank\":409599999,\"nproc\":4096,"
             "\"addr\":\"fe80:1234:5678:9abc:def0:1234:5678:9abc%%eth0\","
             "\"uptime_s\":1e9},{\"name\":\"\xe6\xbc\xa2\xe5\xad\x97\"}]}]}",
        id, id, id);
    ck_assert(n > 0 && (size_t)n < sizeof(json));
    ck_assert_int_eq(show(json), 1);
    (void)lines_fit(&view.style, page);
    ck_assert(has("\xe2\x80\xa6"));
    ck_assert(_i < 3 || (has("  firstx") && has("xlast  active")));
    view.style.utf8 = false;
    ck_assert_int_eq(show(json), 1);
    (void)lines_fit(&view.style, page);
    for (const char *p = page; *p != '\0'; p++)
        ck_assert((unsigned char)*p < 0x80);
}

/* Escape sequences, in every text there is. */
TEST_LOOP(test_once_shows_hostile_texts_as_letters, 0, 10)
{
    static const char *const evil[] = {
        "\\u001b[2Jx",
        "a\\nb\\tc\\rd",
        "\\u009b31m",
        "\x7f\x1b",
        "\\u202egnp.jpg",
        ("\xc2\x9b"
         "0m"),
        "\xff\xfe\x80 \xc0\xaf",
        "e\\u0301",
        "\\u0000cut",
        "%s%n%n%n",
    };
    char json[4096];
    const char *e = evil[_i];
    int n = snprintf(
        json, sizeof(json),
        "{\"version\":\"%s\",\"uptime_s\":\"x\",\"runs\":[{\"id\":\"%s\","
        "\"state\":\"%s\",\"round\":\"%s\",\"prog\":\"%s\",\"master_addr\":"
        "\"%s\",\"last_failure\":{\"node\":\"%s\",\"text\":\"%s\"},\"end\":{"
        "\"status\":3,\"text\":\"%s\"},\"waiting\":{\"have\":-1e300},"
        "\"nodes_list\":[{\"name\":\"%s\",\"agent\":\"%s\",\"addr\":\"%s\","
        "\"state\":\"%s\",\"hosts\":true},{\"name\":\"%s\"},7,null,[]]}]}",
        e, e, e, e, e, e, e, e, e, e, e, e, e, e);
    ck_assert(n > 0 && (size_t)n < sizeof(json));
    if (show(json) < 0)
        return; /* raw control characters are no JSON: as good */
    (void)lines_fit(&view.style, page);
    for (const char *p = page; (p = strchr(p, '\xc2')) != NULL; p++)
        ck_assert((unsigned char)p[1] >= 0xa0); /* no C1 */
    ck_assert(!has("\xe2\x80\xae") && !has("\xcc\x81"));
}

TEST_LOOP(test_once_of_what_is_no_status_is_an_error, 0, 2)
{
    static const char *const bad[] = {
        "", "x", "[]", "{}", "{\"runs\":3}", "{\"runs\":[", "null",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_int_eq(show(bad[i]), -1);
    size_t len = 10u << 20;
    char *deep = malloc(len + 1);
    ck_assert_ptr_nonnull(deep);
    memset(deep, _i == 0 ? '[' : ',', len);
    memcpy(deep, "{\"runs\":[", 9);
    deep[len] = '\0';
    ck_assert_int_eq(show(deep), -1);
    free(deep);
}

TEST(test_once_json_for_a_terminal_is_clean)
{
    struct ddp_err err;
    size_t size;
    const char *json = "{\"runs\":[{\"id\":\"a\xc2\x9b"
                       "b\x7f\"}]}";
    cJSON *status = ctl_document_parse(json, strlen(json), &err);
    ck_assert_ptr_nonnull(status);
    FILE *f = open_memstream(&page, &size);
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(ctl_document_json(&view.style, status, f), 0);
    ck_assert_int_eq(fclose(f), 0);
    cJSON_Delete(status);
    (void)lines_fit(&view.style, page);
    ck_assert(has("  \"runs\": [{\n      \"id\": \"a?b?\"\n"));
}

TEST(test_once_colours_only_where_asked)
{
    const char *json = HEAD RUN("r", "active", "") "]}";
    ck_assert_int_eq(show(json), 1);
    ck_assert_ptr_null(strchr(page, '\033'));
    view.style.color = true;
    ck_assert_int_eq(show(json), 1);
    ck_assert(has("\033[32mactive\033[0m"));
}

/* -- small things ---------------------------------------------------------- */

TEST(test_text_spans)
{
    static const struct {
        double s;
        const char *text;
    } cases[] = {
        {-5, "0 s"},        {0.9, "0 s"},     {59.9, "59 s"},
        {60, "1 min"},      {3599, "59 min"}, {3600, "1 h 0 min"},
        {90000, "1 d 1 h"}, {864e4, "100 d"}, {1e300, "11,574,074 d"},
        {0.0 / 0.0, "0 s"},
    };
    char text[24];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ctl_span(cases[i].s, text);
        ck_assert_str_eq(text, cases[i].text);
    }
}

TEST(test_text_is_cut_in_the_middle)
{
    char text[16] = "abcdefghij";
    ctl_fit(&view.style, text, sizeof(text), 10);
    ck_assert_str_eq(text, "abcdefghij");
    ctl_fit(&view.style, text, sizeof(text), 9);
    ck_assert_str_eq(text, "abcd\xe2\x80\xa6ghij");
    ctl_fit(&view.style, text, sizeof(text), 4);
    ck_assert_str_eq(text, "ab\xe2\x80\xa6j");
    ctl_fit(&view.style, text, sizeof(text), 1);
    ck_assert_str_eq(text, "\xe2\x80\xa6");
    (void)snprintf(text, sizeof(text), "abcdef");
    ctl_fit_end(&view.style, text, sizeof(text), 4);
    ck_assert_str_eq(text, "abc\xe2\x80\xa6");
    view.style.utf8 = false;
    (void)snprintf(text, sizeof(text), "abcdef");
    ctl_fit(&view.style, text, sizeof(text), 5);
    ck_assert_str_eq(text, "ab~ef");
}

SUITE("ctl_once", "fast", FIXTURE(setup, teardown))
