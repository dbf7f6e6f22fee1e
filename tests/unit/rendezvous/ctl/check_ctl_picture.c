/* links: rendezvous/ctl/{picture,table,facts,fields,document,text} */
/* links: rendezvous/base/{utf8,err,log,mono,signals_name} */
/* libs: -lcjson */
/*
 * What ddpctl top draws: every line fits at every size, there are as many as
 * the terminal has, and hostile texts are letters; what keys choose; how bytes
 * of a terminal become keys.
 */
#include <check.h>
#include <locale.h>
#include <string.h>

#include "rendezvous/ctl/picture.h"
#include "rendezvous/ctl/document.h"
#include "tests/lib/lines_fit.h"
#include "tests/lib/suite.h"

static struct picture p;
static char *page;
static cJSON *status;

static void setup(void)
{
    /* glibc has it built in, or the tests of width mean nothing. */
    ck_assert_ptr_nonnull(setlocale(LC_CTYPE, "C.UTF-8"));
    p = (struct picture){.style = {.utf8 = true, .width = 80},
                         .rows = 24,
                         .where = "head:29400"};
    page = NULL;
    status = NULL;
}

static void teardown(void)
{
    free(page);
    cJSON_Delete(status);
}

static void take(const char *json)
{
    struct ddp_err err;
    cJSON_Delete(status);
    status = ctl_document_parse(json, strlen(json), &err);
    ck_assert_msg(status != NULL, "no status: %s", json);
}

static void draw(void)
{
    size_t size;
    free(page);
    FILE *f = open_memstream(&page, &size);
    ck_assert_ptr_nonnull(f);
    picture_draw(&p, status, f);
    ck_assert_int_eq(fclose(f), 0);
}

static bool has(const char *text)
{
    return strstr(page, text) != NULL;
}

/* As many lines as the terminal has; each fits, and holds letters only. */
static void check_lines(void)
{
    int lines = lines_fit(&p.style, page);
    if (p.rows > 0)
        ck_assert_int_eq(lines, p.rows);
}

#define HEAD "{\"version\":\"0.3.0\",\"uptime_s\":200.5,\"runs\":["
#define RUN(id, state, more)                                                   \
    "{\"id\":\"" id "\",\"state\":\"" state "\",\"round\":3,"                  \
    "\"prog\":\"train.py\",\"nodes_min\":1,\"nodes_max\":4,\"nodes\":3,"       \
    "\"world_size\":12,\"restarts\":1,\"max_restarts\":3,\"uptime_s\":6000,"   \
    "\"round_uptime_s\":20.1" more "}"
#define NODE(name, state, rank, more)                                          \
    "{\"name\":\"" name "\",\"state\":\"" state "\",\"group_rank\":" #rank     \
    ",\"base_rank\":" #rank "0,\"nproc\":4,\"addr\":\"10.0.0.1\","             \
    "\"uptime_s\":100.1" more "}"
#define NODES                                                                        \
    ",\"nodes_list\":[" NODE(                                                        \
        "n2", "running", 0,                                                          \
        ",\"step\":50,\"strikes\":2,\"lease_s\":9") "," NODE("n10", "running",       \
                                                             1,                      \
                                                             ",\"step\":"            \
                                                             "40,\"failed_"          \
                                                             "first\":"              \
                                                             "true,"                 \
                                                             "\"lease_s\":"          \
                                                             "8") "," NODE("n"       \
                                                                           "1",      \
                                                                           "a"       \
                                                                           "b"       \
                                                                           "s"       \
                                                                           "e"       \
                                                                           "n"       \
                                                                           "t",      \
                                                                           2,        \
                                                                           ","       \
                                                                           "\"step"  \
                                                                           "\":60,"  \
                                                                           "\"lease" \
                                                                           "_"       \
                                                                           "s"       \
                                                                           "\":1."   \
                                                                           "5") "]"
#define ALL_TOLD                                                               \
    ",\"stands\":{\"node\":\"n10\",\"text\":\"rank 5 is "                      \
    "stopped\",\"age_s\":75}"                                                  \
    ",\"goodput\":{\"share\":0.75,\"wall_s\":100,\"ran_s\":75,\"waited_s\":"   \
    "15,"                                                                      \
    "\"detect_s\":2,\"restart_s\":8,\"repeated_steps\":1},"                    \
    "\"progress\":{\"step\":40,\"step_max\":60,\"steps_per_s\":12.34,"         \
    "\"mirrored\":38,\"mirrored_behind\":2,"                                   \
    "\"slow\":[{\"rank\":6,\"node\":\"n10\",\"local_rank\":2,"                 \
    "\"slower_permille\":123,\"part_s\":0.1123,\"since_s\":75}],"              \
    "\"slowest\":[{\"rank\":5,\"node\":\"n10\",\"step\":40}]},"                \
    "\"authority\":{\"term\":4,\"may_act\":true,\"voters\":3,\"answer\":3},"   \
    "\"last_failure\":{\"node\":\"n10\",\"rank\":5,\"signal\":9,"              \
    "\"age_s\":20,\"tail\":[\"one\",\"two\",\"three\",\"four\"]},"             \
    "\"timeline\":[{\"round\":2,\"ran_s\":60,\"ended\":\"failed\","            \
    "\"text\":\"rank 5\",\"detect_s\":0.25,\"restart_s\":2},{\"round\":3}]"

#define BAR                                                                    \
    "\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88" \
    "\xe2\x96\x88\xe2\x96\x92\xe2\x96\x91"

/* Line by line, but the empty ones. */
TEST(test_picture_of_a_run_says_all)
{
    static const char *const lines[] = {
        "head:29400: rendezvous 0.3.0, up 3 min; 1 run",
        "  RUN    STATE   ROUND  NODES     WORLD  STEP  STEPS/S  GOODPUT  "
        "RESTARTS",
        "  job42  active      3  3 of 1:4     12    40     12.3   75.0 %  "
        "1 of 3",
        "  stands still, as n10 tells for 1 min: rank 5 is stopped",
        "  last failure: rank 5 on n10 killed by SIGKILL, 20 s ago",
        "    | two",
        "    | three",
        "    | four",
        "  train.py, round 3 up 20 s",
        "  [" BAR
        "] goodput 75.0 % of 1 min; waiting 15 s, detection 2 s, restarts 8 s",
        "  1 step done twice",
        "  steps 40 to 60, 12.3 a second, slowest: rank 5 on n10 (40)",
        "  slow: rank 6 (local rank 2) on n10 is 12.3 % slower for 1 min",
        "  newest step on two nodes: 38, 2 behind",
        "  round 2 ran 1 min, then: failed: rank 5, detection 0.25 s, restart "
        "2 s",
        "  RANK  NODE  STATE    NOTE          RANKS  STEP  STRIKES  LEASE  UP",
        "     2  n1    absent   -             20-23    60        -  1.5 s  "
        "1 min",
        "     1  n10   running  failed first  10-13    40        -  8.0 s  "
        "1 min",
        "     0  n2    running  -             0-3      50        2  9.0 s  "
        "1 min",
        "q quit  ? help  r one run  p pause",
    };
    take(HEAD RUN("job42", "active", ALL_TOLD NODES) "]}");
    draw();
    check_lines();
    size_t n = 0;
    for (char *at = strtok(page, "\n"); at != NULL; at = strtok(NULL, "\n"))
        ck_assert_str_eq(at, lines[n++]);
    ck_assert_uint_eq(n, sizeof(lines) / sizeof(lines[0]));
}

/* Found by outsiders: two launchers of one host could not be told apart. */
TEST(test_picture_of_namesakes_shows_their_agents)
{
    take(HEAD RUN(
        "a", "active",
        ",\"nodes_list\":["
        "{\"name\":\"vm\",\"agent\":\"0123456789ab\",\"state\":"
        "\"running\"},"
        "{\"name\":\"vm\",\"agent\":\"ba9876543210\",\"hosts\":true,\"state\":"
        "\"running\"}]") "]}");
    draw();
    ck_assert(has("AGENT") && has("01234567 ") && has("ba987654 "));
    ck_assert(has("vm ba987654 serves the rendezvous"));
    take(HEAD RUN("job42", "active", ALL_TOLD NODES) "]}");
    draw();
    ck_assert(!has("AGENT"));
}

/* The bar gives way to the numbers; they are those of the column. */
TEST(test_picture_of_goodput_cuts_no_number)
{
    static const char number[] = "goodput 75.0 % of 1 min; waiting 15 s, "
                                 "detection 2 s, restarts 8 s\n";
    take(HEAD RUN("job42", "active", ALL_TOLD NODES) "]}");
    for (int width = 160; width >= 72; width--) {
        p.style.width = width;
        draw();
        ck_assert_msg(has(number) && has("75.0 %  "), "%d: %s", width, page);
        ck_assert_int_eq(has("] goodput"), width >= 76);
    }
}

/* An older daemon does not tell steps and goodput. */
TEST(test_picture_leaves_out_what_is_not_told)
{
    take(HEAD RUN("old", "active", "") "]}");
    draw();
    check_lines();
    ck_assert(has("old"));
    ck_assert(!has("STEP") && !has("GOODPUT") && !has("goodput"));
    ck_assert(!has("RANK") && !has("NaN") && !has("-1"));
    take(HEAD "]}");
    draw();
    check_lines();
    ck_assert(has("nothing runs here"));
}

static const int sizes[][2] = {{80, 24}, {40, 10}, {40, 3},  {20, 1}, {200, 60},
                               {20, 5},  {80, 2},  {500, 4}, {59, 8}};
#define SIZES (int)(sizeof(sizes) / sizeof(sizes[0]))

/* With hostile names, many runs and many nodes. */
TEST_LOOP(test_picture_fits_every_terminal, 0, SIZES)
{
    char *json;
    size_t size;
    FILE *f = open_memstream(&json, &size);
    ck_assert_ptr_nonnull(f);
    fputs(HEAD, f);
    for (int i = 0; i < 30; i++) {
        fprintf(f,
                "%s{\"id\":\"\\u001b[2J\xe6\xbc\xa2\xe5\xad\x97 run%d\","
                "\"state\":\"active\"" ALL_TOLD ",\"nodes_list\":[",
                i > 0 ? "," : "", i);
        for (int n = 0; n < 50; n++)
            fprintf(f,
                    "%s{\"name\":\"\\u202e\\u0007node-%d-\xe6\xbc\xa2\","
                    "\"state\":\"a\\nb\",\"group_rank\":%d,\"base_rank\":0,"
                    "\"nproc\":1,\"addr\":\"\\u009b1m\",\"step\":%d}",
                    n > 0 ? "," : "", n, n, n);
        fputs("]}", f);
    }
    fputs("]}", f);
    ck_assert_int_eq(fclose(f), 0);
    take(json);
    free(json);
    p.style.width = sizes[_i][0];
    p.rows = sizes[_i][1];
    for (int key = KEY_NONE; key <= KEY_PAUSE; key++) {
        picture_press(&p, (enum picture_key)key, status);
        draw();
        check_lines();
    }
    p.style.utf8 = false;
    p.rows = 0;
    draw();
    check_lines();
}

TEST(test_picture_chooses_runs)
{
    take(HEAD RUN("a", "active", NODES) "," RUN("b", "gather", "") "]}");
    draw();
    ck_assert(has("> a") && has("n10"));
    picture_press(&p, KEY_DOWN, status);
    draw();
    ck_assert(has("> b") && !has("n10"));
    picture_press(&p, KEY_DOWN, status); /* there is none below */
    picture_press(&p, KEY_ONE, status);
    draw();
    ck_assert(has("  b ") && !has("  a "));
    take(HEAD RUN("a", "active", NODES) "]}"); /* it has gone meanwhile */
    draw();
    ck_assert(has("this run is not there any more"));
    picture_press(&p, KEY_ONE, status);
    draw();
    ck_assert(has("  a ") && has("n10"));
}

TEST(test_picture_moves_within_the_nodes)
{
    take(HEAD RUN("a", "active", NODES) "]}");
    p.rows = 8;
    draw();
    check_lines();
    ck_assert_uint_eq(p.page, 2);
    ck_assert(has("nodes 1-2 of 3") && has("n1 ") && !has("n2 "));
    picture_press(&p, KEY_PAGE_DOWN, status);
    draw();
    ck_assert(has("nodes 2-3 of 3") && has("n2 "));
    picture_press(&p, KEY_HOME, status);
    draw();
    ck_assert(has("nodes 1-2 of 3"));
    picture_press(&p, KEY_END, status);
    picture_press(&p, KEY_DOWN, status);
    draw();
    ck_assert(has("nodes 2-3 of 3"));
    picture_press(&p, KEY_UP, status);
    draw();
    ck_assert(has("nodes 1-2 of 3"));
}

/* What it was stays, grey; the news is not. */
TEST(test_picture_greys_what_is_old)
{
    take(HEAD RUN("a", "active", NODES) "]}");
    p.style.color = true;
    draw();
    ck_assert(has("\033[32mactive"));
    p.style.grey = true;
    (void)snprintf(p.news, sizeof(p.news), "head:29400 has not answered");
    draw();
    ck_assert(!has("\033[32m") && has("\033[2mactive"));
    ck_assert(strncmp(page, "\033[31mhead:29400 has not", 23) == 0);
    p.style.color = false;
    draw();
    ck_assert(!has("\033"));
    check_lines();
}

TEST(test_picture_without_an_end_has_all_runs_and_nodes)
{
    take(
        HEAD RUN("a", "active", NODES ALL_TOLD) "," RUN("b", "ended", "") "]}");
    p.rows = 0;
    draw();
    check_lines();
    ck_assert(has("  a ") && has("  b ") && has("n10") && has("| one"));
    ck_assert(!has("q quit"));
}

TEST(test_picture_keys_of_bytes)
{
    static const struct {
        const char *bytes;
        enum picture_key key;
        size_t used;
    } cases[] = {
        {"q", KEY_QUIT, 1},          {"\033[A", KEY_UP, 3},
        {"\033OBq", KEY_DOWN, 3},    {"\033[6~", KEY_PAGE_DOWN, 4},
        {"\r", KEY_ONE, 1},          {"R", KEY_NONE, 1},
        {"\033[1;5Aq", KEY_NONE, 6}, {"\033", KEY_NONE, 1},
        {"\033[", KEY_NONE, 2},      {"\033[200~", KEY_NONE, 6},
        {"\xc3\xa4", KEY_NONE, 1},   {"", KEY_NONE, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t used;
        ck_assert_int_eq(
            picture_key_of(cases[i].bytes, strlen(cases[i].bytes), &used),
            cases[i].key);
        ck_assert_uint_eq(used, cases[i].used);
    }
}

/* The daemon may be anything: numbers that are none, lists that are not. */
TEST_LOOP(test_picture_of_odd_json_is_only_odd, 0, 4)
{
    static const char *const odd[] = {
        HEAD "1,null,[],\"x\"]}",
        HEAD RUN(
            "a", "active",
            ",\"nodes_list\":7,\"goodput\":[],"
            "\"progress\":\"x\",\"timeline\":{},\"last_failure\":[1]") "]}",
        HEAD RUN(
            "a", "active",
            ",\"goodput\":{\"share\":1e308,"
            "\"ran_s\":-1e308},\"progress\":{\"step\":1e300,"
            "\"steps_per_s\":-1e300},\"nodes_list\":[3,{\"step\":\"x\"}]") "]}",
        HEAD RUN("a", "active",
                 ",\"goodput\":{\"share\":0.5,\"ran_s\":1e308,"
                 "\"waited_s\":1e308,\"detect_s\":1e308,\"restart_s\":-5},"
                 "\"last_failure\":{\"tail\":[1,[],\"x\"]}") "]}",
    };
    take(odd[_i]);
    for (p.rows = 0; p.rows < 30; p.rows += 6) {
        draw();
        check_lines();
    }
}

SUITE("ctl_picture", "fast", FIXTURE(setup, teardown))
