/* links: tests/lib/obey tests/unit/rendezvous/core/status_hand CORE ACCOUNT */
/* links: rendezvous/http/{http_routes,http_hosts,status,page,overview} */
/* links: rendezvous/http/{groups,metrics,http} */
/* links: rendezvous/base/{log,utc,err,mono,rng,buf,json,utf8} */
/* links: rendezvous/proto/{msg,term,exits} */
/* libs: -lcjson */
/* What is shown of the core, in /status and /metrics: is it what is so, in
 * order, and still JSON when the names are not nice? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "tests/unit/rendezvous/core/status_hand.h"

/* -- tests ----------------------------------------------------------------- */

TEST(test_status_of_nothing)
{
    get_status("/status");
    same_string(shown, "version", DDPRUN_VERSION);
    same_string(shown, "incarnation", "ab12");
    same_number(shown, "uptime_s", 12.3);
    same_number(shown, "connections", 7);
    ck_assert(cJSON_IsFalse(field(shown, "token")));
    same_number(field(shown, "limits"), "runs", 4);
    same_number(field(shown, "limits"), "nodes", 32);
    ck_assert_int_eq(cJSON_GetArraySize(field(shown, "runs")), 0);
}

TEST(test_status_of_a_run_that_gathers)
{
    join(1, "n1");
    now_us += 10 * MONO_S;
    get_status("/status");
    same_string(shown_run(0), "id", "r");
    same_string(shown_run(0), "state", "gather");
    same_string(shown_run(0), "instance", "");
    same_number(shown_run(0), "round", 0);
    same_number(shown_run(0), "nodes", 1);
    same_number(shown_run(0), "uptime_s", 10);
    same_number(field(shown_run(0), "waiting"), "have", 1);
    same_number(field(shown_run(0), "waiting"), "min", 2);
    same_number(field(shown_run(0), "waiting"), "left_s", 590);
    same_string(shown_node(0, 0), "state", "waiting");
    same_number(shown_node(0, 0), "group_rank", -1);
    same_number(shown_node(0, 0), "base_rank", -1);
    /* The last call runs: that is what is waited for now. */
    struct msg beat = {.kind = MSG_KIND_beat, .beat = {.seq = 1}};
    say(1, &beat); /* else its lease is over, and it is waited for */
    join(2, "n2");
    get_status("/status");
    same_number(field(shown_run(0), "waiting"), "have", 2);
    same_number(field(shown_run(0), "waiting"), "left_s", 1);
}

/* Members by rank, then spares; ranks, leases, ages. */
TEST(test_status_of_a_round)
{
    like.nodes_min = 1; /* so that there may be spares */
    join(1, "n10");
    join(2, "n9");
    join(3, "n2");
    join(4, "s10");
    join(5, "s9");
    now_us += 2 * MONO_S;
    step(&(struct rdzv_event){.kind = RDZV_CLOSED, .conn = 2});
    get_status("/status");
    same_string(shown_run(0), "state", "active");
    same_number(shown_run(0), "round", 1);
    same_number(shown_run(0), "nodes", 3);
    same_number(shown_run(0), "spares", 2);
    same_number(shown_run(0), "absent", 1);
    same_number(shown_run(0), "world_size", 6);
    same_number(shown_run(0), "master_port", 4711);
    same_string(shown_run(0), "master_addr", "10.0.0.1");
    same_number(shown_run(0), "round_uptime_s", 2);
    ck_assert_uint_eq(strlen(string(shown_run(0), "instance")), 12);
    same_number(field(shown_run(0), "authority"), "term", 1);
    ck_assert(cJSON_IsTrue(field(field(shown_run(0), "authority"), "may_act")));
    same_number(field(shown_run(0), "authority"), "voters", 3);
    static const char *const names[] = {"n2", "n9", "n10", "s9", "s10"};
    static const char *const states[] = {"running", "absent", "running",
                                         "spare", "spare"};
    for (int i = 0; i < 5; i++) {
        same_string(shown_node(0, i), "name", names[i]);
        same_string(shown_node(0, i), "state", states[i]);
        same_number(shown_node(0, i), "group_rank", i < 3 ? i : -1);
        same_number(shown_node(0, i), "base_rank", i < 3 ? 2 * i : -1);
        same_number(shown_node(0, i), "uptime_s", 2);
        ck_assert(cJSON_IsBool(field(shown_node(0, i), "connected")));
        ck_assert_int_eq(cJSON_IsTrue(field(shown_node(0, i), "connected")),
                         i != 1);
    }
    same_number(shown_node(0, 0), "lease_s", 3);
    get_status("/status?run=r");
    ck_assert_int_eq(cJSON_GetArraySize(field(shown, "runs")), 1);
    get_status("/status?run=other");
    ck_assert_int_eq(cJSON_GetArraySize(field(shown, "runs")), 0);
    ck_assert_int_eq(get("/status?run=%00"), 400);
}

/* A failure is shown until another one comes, and so is the end. */
TEST(test_status_of_a_failure_and_the_end)
{
    like.max_restarts = 1;
    join(1, "n1");
    join(2, "n2");
    join(3, "n3");
    fail_worker(2, 1);
    get_status("/status");
    same_string(shown_run(0), "state", "drain");
    same_string(shown_node(0, 0), "state", "stopping");
    for (int i = 1; i <= 3; i++)
        ready(i, 1);
    now_us += 4 * MONO_S;
    get_status("/status");
    same_string(shown_run(0), "state", "active");
    same_number(shown_run(0), "round", 2);
    same_number(shown_run(0), "restarts", 1);
    same_number(shown_run(0), "max_restarts", 1);
    const cJSON *last = field(shown_run(0), "last_failure");
    same_number(last, "round", 1);
    same_string(last, "node", "n2");
    same_number(last, "rank", 5);
    same_number(last, "local_rank", 1);
    same_number(last, "pid", 543);
    same_number(last, "signal", 9);
    same_number(last, "age_s", 5);
    same_string(last, "text", "why \"it\" died");
    fail_worker(1, 2);
    for (int i = 1; i <= 3; i++)
        ready(i, 2);
    now_us += 3 * MONO_S;
    get_status("/status");
    same_string(shown_run(0), "state", "ended");
    same_number(field(shown_run(0), "end"), "status", 137);
    same_number(field(shown_run(0), "end"), "age_s", 3);
    ck_assert_ptr_nonnull(strstr(string(field(shown_run(0), "end"), "text"),
                                 "rank 5 on n1 failed"));
    same_number(shown_run(0), "uptime_s", 4);
    same_string(shown_node(0, 0), "state", "leaving");
    /* The id is used again: the run that lives stands first. */
    join(4, "m1");
    get_status("/status?run=r");
    same_string(shown_run(0), "state", "gather");
    same_string(shown_run(1), "state", "ended");
    /* Of an id that ended, /metrics has no line; each id is there once. */
    ck_assert_int_eq(get("/metrics"), 200);
    const char *at = strstr(text(), "ddprun_run_round{run=\"r\"} 0\n");
    ck_assert_ptr_nonnull(at);
    ck_assert_ptr_null(strstr(at + 1, "ddprun_run_round{"));
    ck_assert_ptr_nonnull(
        strstr(text(), "\nddprun_restarts_charged_total 1\n"));
    ck_assert_ptr_nonnull(strstr(text(), "\nddprun_failures_total 2\n"));
    ck_assert_ptr_nonnull(strstr(text(), "\nddprun_runs{state=\"ended\"} 1\n"));
}

/* -- what peers call themselves -------------------------------------------- */

static const char *const hostile[] = {
    "\"},{\"id\":\"forged\"",
    "a\\",
    "\x1b[31mred\x07",
    "\xff\xfe\xc3",
    "x\"} 1\nforged_metric{a=\"",
    ("\xc2\x9b"
     "2J"),
};

TEST_EACH(test_status_of_hostile_names_is_json, hostile)
{
    msg_set(like.run, hostile[_i]);
    msg_set(like.options, hostile[_i]);
    msg_set(like.role, hostile[_i]);
    join(1, hostile[_i]);
    get_status("/status");
    ck_assert_int_eq(cJSON_GetArraySize(field(shown, "runs")), 1);
    for (const char *p = text(); *p != '\0'; p++)
        ck_assert((*p >= ' ' && *p != 0x7f) || *p == '\n' ||
                  (unsigned char)*p >= 0x80);
    const char *id = string(shown_run(0), "id");
    if (strchr(hostile[_i], '\xff') == NULL)
        ck_assert_str_eq(id, hostile[_i]);
    ck_assert_str_eq(id, string(shown_node(0, 0), "name"));
}

/* name{label="value",...} number */
static void check_sample(const char *line)
{
    const char *p = line;
    ck_assert_msg(strncmp(p, "ddprun_", 7) == 0, "'%s'", line);
    p += strspn(p, "abcdefghijklmnopqrstuvwxyz_0123456789");
    if (*p == '{') {
        do {
            p++;
            p += strspn(p, "abcdefghijklmnopqrstuvwxyz");
            ck_assert_msg(p[0] == '=' && p[1] == '"', "'%s'", line);
            for (p += 2; *p != '"'; p += 1 + (*p == '\\'))
                ck_assert_msg(*p != '\0', "'%s'", line);
            p++;
        } while (*p == ',');
        ck_assert_msg(*p++ == '}', "'%s'", line);
    }
    ck_assert_msg(*p++ == ' ', "'%s'", line);
    ck_assert_uint_gt(strlen(p), 0);
    ck_assert_msg(strspn(p, "-.0123456789") == strlen(p), "'%s'", line);
}

/* Each metric has its two lines first, once, and is what it says. */
TEST_LOOP(test_metrics_are_well_formed,
          0,
          sizeof(hostile) / sizeof(hostile[0]) + 1)
{
    char seen[8000] = "";
    char name[100] = "";
    if (_i > 0)
        msg_set(like.run, hostile[_i - 1]);
    join(1, "n1");
    join(2, "n2");
    status_count_http(&counts, 200);
    status_count_http(&counts, 404);
    status_count_http(&counts, 200);
    ck_assert_int_eq(get("/metrics"), 200);
    ck_assert_str_eq(answer.type, "text/plain; version=0.0.4; charset=utf-8");
    ck_assert_ptr_nonnull(
        strstr(text(), "ddprun_http_requests_total{code=\"200\"} 2\n"));
    char *all = strdup(text());
    ck_assert_ptr_nonnull(all);
    char *rest = all;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && *line != '\0';) {
        char entry[110];
        if (strncmp(line, "# HELP ", 7) == 0) {
            ck_assert_int_eq(sscanf(line, "# HELP %98s", name), 1);
            (void)snprintf(entry, sizeof(entry), "%s ", name);
            ck_assert_ptr_null(strstr(seen, entry));
            strncat(seen, entry, sizeof(seen) - strlen(seen) - 1);
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            char type[20];
            ck_assert_int_eq(sscanf(line, "# TYPE %109s %19s", entry, type), 2);
            ck_assert_str_eq(entry, name);
            ck_assert_int_eq(strcmp(type, "counter") == 0,
                             strstr(name, "_total") != NULL ||
                                 strstr(name, "lag_seconds_sum") != NULL ||
                                 strstr(name, "lag_seconds_count") != NULL);
        } else {
            ck_assert_msg(strncmp(line, name, strlen(name)) == 0 &&
                              strchr("{ ", line[strlen(name)]) != NULL,
                          "'%s' behind %s", line, name);
            check_sample(line);
        }
    }
    ck_assert_ptr_null(rest == NULL ? NULL : strchr(rest, '#'));
    free(all);
}

/* What Prometheus says that it takes, by default and if it wants text. */
static const struct {
    const char *accept;
    bool openmetrics;
} scrapers[] = {
    {"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
     "application/openmetrics-text;version=0.0.1;q=0.5,"
     "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
     true},
    {"application/openmetrics-text", true},
    {"text/plain;version=0.0.4;q=0.6,application/openmetrics-text;q=0.5",
     false},
    {"application/openmetrics-text;q=0,*/*", false},
    {"*/*", false},
};

/* No two metrics are declared by one name: a counter without its "_total" is
 * not called as a gauge is. */
static void check_names_differ(const char *metrics)
{
    char line[200];
    for (const char *at = metrics; (at = strstr(at, "# TYPE ")) != NULL; at++) {
        size_t len = strcspn(at + 7, " ") + 8;
        ck_assert_uint_lt(len, sizeof(line));
        (void)snprintf(line, sizeof(line), "%.*s", (int)len, at);
        ck_assert_msg(strstr(at + 1, line) == NULL, "'%s' twice", line);
    }
}

/* Both formats have the same samples; of OpenMetrics a counter's name ends
 * before "_total", and the text has an end. */
TEST_EACH(test_metrics_are_openmetrics_if_asked, scrapers)
{
    join(1, "n1");
    ck_assert_int_eq(get("/metrics"), 200);
    char *plain = strdup(text());
    ck_assert_ptr_nonnull(plain);
    accepted = scrapers[_i].accept;
    ck_assert_int_eq(get("/metrics"), 200);
    accepted = "*/*";
    size_t len = strlen(text());
    if (!scrapers[_i].openmetrics) {
        ck_assert_str_eq(answer.type,
                         "text/plain; version=0.0.4; charset=utf-8");
        ck_assert_str_eq(text(), plain);
    } else {
        ck_assert_str_eq(
            answer.type,
            "application/openmetrics-text; version=1.0.0; charset=utf-8");
        ck_assert_str_eq(text() + len - 7, "\n# EOF\n");
        check_names_differ(text());
        ck_assert_ptr_nonnull(strstr(text(), "# TYPE ddprun_joins counter\n"));
        ck_assert_ptr_nonnull(strstr(text(), "\nddprun_joins_total 1\n"));
        ck_assert_ptr_nonnull(strstr(text(), "# TYPE ddprun_runs gauge\n"));
        for (char *rest = plain, *line; (line = strsep(&rest, "\n")) != NULL;)
            if (line[0] != '#')
                ck_assert_msg(strstr(text(), line) != NULL, "no '%s'", line);
    }
    free(plain);
}

/* Names that would look the same are told apart. */
TEST(test_metrics_of_similar_names_are_two)
{
    msg_set(like.run, "a\x01");
    join(1, "n1");
    msg_set(like.run, "a\\x01");
    join(2, "n2");
    ck_assert_int_eq(get("/metrics"), 200);
    ck_assert_ptr_nonnull(strstr(text(), "run_round{run=\"a\\\\x01\"} 0\n"));
    ck_assert_ptr_nonnull(strstr(text(), "run_round{run=\"a\\\\x5cx01\"} 0\n"));
}

/* An agent's whole id is its own: who knows it could join in its place. */
TEST(test_status_shows_no_whole_id_of_an_agent)
{
    struct msg m = make_join(1, "n1");
    msg_set(m.join.agent, "0123456789abcdef0123456789abcdef");
    say(1, &m);
    get_status("/status");
    same_string(shown_node(0, 0), "agent", "0123456789ab");
    ck_assert_ptr_null(strstr(text(), "0123456789abc"));
}

/* -- who may see it -------------------------------------------------------- */

TEST(test_site_paths)
{
    ck_assert_int_eq(get("/healthz"), 200);
    ck_assert_str_eq(text(), "ok\n");
    ck_assert_int_eq(get("/"), 200);
    ck_assert_ptr_nonnull(strstr(text(), "/metrics"));
    ck_assert_int_eq(get("/Status"), 404);
    ck_assert_int_eq(get("/status/"), 404);
    ck_assert_int_eq(get("/../status"), 404);
}

/* A browser gets the page, with a policy that names its script and its style by
 * their hashes and nothing else; anybody else gets text. */
TEST(test_site_root_is_a_page_for_browsers)
{
    static const char *const policy[] = {
        "default-src 'none';", "script-src 'sha256-", "style-src 'sha256-",
        "connect-src 'self';", "frame-ancestors 'none'"};
    ck_assert_int_eq(get("/"), 200);
    ck_assert_ptr_null(strstr(text(), "<"));
    accepted = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8";
    ck_assert_int_eq(get("/"), 200);
    ck_assert_str_eq(answer.type, "text/html; charset=utf-8");
    ck_assert_int_eq(strncmp(text(), "<!doctype html>", 15), 0);
    ck_assert_uint_le(strlen(text()), 26 * 1024);
    for (size_t i = 0; i < sizeof(policy) / sizeof(policy[0]); i++)
        ck_assert_ptr_nonnull(strstr(answer.more, policy[i]));
    ck_assert_ptr_null(strstr(answer.more, "unsafe"));
    accepted = "*/*";
}

/* /events is for the viewers, by the same rules as the rest. */
TEST(test_site_events_are_watched)
{
    ck_assert_int_eq(get("/events"), 200);
    ck_assert(answer.watches);
    ck_assert_str_eq(answer.type, "text/event-stream");
    asked_host = "evil.example";
    ck_assert_int_eq(get("/events"), 403);
    ck_assert(!answer.watches);
    asked_host = NULL;
    token = true;
    ck_assert_int_eq(get("/events"), 403);
    ck_assert(!answer.watches);
    ck_assert_int_eq(get_by("/events", true, 1u << 20), 200);
    ck_assert(answer.watches);
}

TEST_LOOP(test_site_without_the_token_shows_nothing, 0, 2)
{
    static const char *const paths[] = {"/",        "/status",  "/status?run=r",
                                        "/metrics", "/nothing", "/events"};
    token = true;
    open_metrics = _i == 1;
    for (int i = 0; i < 6; i++) {
        bool open = _i == 1 && strcmp(paths[i], "/metrics") == 0;
        ck_assert_int_eq(get(paths[i]), open ? 200 : 403);
        if (!open)
            ck_assert_ptr_nonnull(strstr(text(), "token"));
    }
    ck_assert_int_eq(get("/healthz"), 200);
    ck_assert_int_eq(get_by("/metrics", true, 1u << 20), 200);
    ck_assert_int_eq(get_by("/status", true, 1u << 20), 200);
    ck_assert_ptr_nonnull(strstr(text(), "\"token\":true"));
}

/* A page elsewhere has a browser ask in the page's own name: it sees that the
 * server lives, and no more. */
TEST(test_site_by_another_name_shows_nothing)
{
    static const char *const paths[] = {"/status", "/metrics", "/", "/x"};
    asked_host = "evil.example:29400";
    ck_assert_int_eq(get("/healthz"), 200);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        ck_assert_int_eq(get(paths[i]), 403);
        ck_assert_ptr_nonnull(strstr(text(), "--http_hosts=NAME"));
        ck_assert_ptr_null(strstr(text(), "evil"));
    }
    ck_assert_int_eq(get_by("/status", true, 1u << 20), 200); /* by TLS */
    ck_assert_int_eq(get("http://127.0.0.1/status"), 200);
    asked_host = "127.0.0.1:29400";
    ck_assert_int_eq(get("/status"), 200);
    ck_assert_int_eq(get("http://evil.example/status"), 403);
    asked_host = "metrics.example";
    ck_assert_int_eq(get("/metrics"), 200);
    asked_host = NULL;
}

/* Too much was asked already: that it lives is told all the same. */
TEST(test_site_that_is_busy_answers_what_costs_nothing)
{
    busy = true;
    ck_assert_int_eq(get("/healthz"), 200);
    ck_assert_int_eq(get("/"), 200);
    ck_assert_int_eq(get("/nothing"), 404);
    ck_assert_int_eq(get("/status"), -1);
    ck_assert_int_eq(get("/metrics"), -1);
    token = true;
    ck_assert_int_eq(get("/metrics"), 403);
}

static void is_in_brief(void)
{
    cJSON_Delete(shown);
    shown = cJSON_Parse(text());
    ck_assert(cJSON_IsTrue(field(shown_run(0), "brief")));
}

/* An answer that does not fit is no answer, wherever it is cut; of runs as much
 * is told as fits. */
TEST_LOOP(test_site_answer_that_does_not_fit_is_told, 0, 2)
{
    static const char *const paths[] = {"/status", "/metrics"};
    join(1, "n1");
    join(2, "n2");
    ck_assert_int_eq(get(paths[_i]), 200);
    size_t whole = buf_len(&answer.body); /* with the NUL of get_by */
    for (size_t room = 0; room + 1 < whole; room += 1 + room / 50)
        if (get_by(paths[_i], false, room) != -1)
            is_in_brief();
    ck_assert_int_eq(get_by(paths[_i], false, whole), 200);
}

SUITE("status", "fast", FIXTURE(setup, teardown))
