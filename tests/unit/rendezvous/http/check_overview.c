/* links: tests/lib/obey CORE ACCOUNT */
/* links: rendezvous/http/{overview,groups,status,http} */
/* links: rendezvous/base/{log,utc,err,mono,rng,buf,json,utf8} */
/* links: rendezvous/proto/{msg,exits,term} */
/* libs: -lcjson */
/* The document of the page: is it /status for few nodes, is it small for many,
 * and does it show what is not well? */
#include <check.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/http/overview.h"
#include "tests/lib/obey.h"
#include "tests/lib/suite.h"

#define CONNS 12000
#define RUNS  100

static struct rdzv *rdzv;
static struct account accounts[RUNS];
static int64_t now_us;
static int nodes; /* that have joined */
static struct overview *overview;
static struct msg_join like;
static cJSON *shown;
static size_t shown_len;

static void emit(void *ctx, const struct rdzv_action *a)
{
    (void)ctx;
    if (a->kind == RDZV_NOTE && a->note->run_at >= 0)
        account_take(&accounts[a->note->run_at], a->note);
}

static void step(const struct rdzv_event *ev)
{
    struct rdzv_event now = *ev;
    struct rdzv_actions out = {.emit = emit};
    now.now_us = now_us;
    obey_step(rdzv, &now, &out);
}

static void join(int n)
{
    for (int i = 0; i < n; i++, nodes++) {
        struct msg m = {.kind = MSG_KIND_join, .join = like};
        (void)snprintf(m.join.name, sizeof(m.join.name), "n%d", nodes);
        (void)snprintf(m.join.agent, sizeof(m.join.agent), "%016d%016d", nodes,
                       nodes);
        step(&(struct rdzv_event){.kind = RDZV_MSG,
                                  .conn = nodes,
                                  .msg = &m,
                                  .peer_addr = "10.0.0.1",
                                  .here_addr = "10.0.0.9"});
    }
}

static void setup(void)
{
    struct rdzv_limits limits = {
        .runs_max = RUNS, .nodes_max = CONNS, .conns_max = CONNS};
    now_us = 1000 * MONO_S;
    nodes = 0;
    msg_set(limits.server, "00000000000000aa");
    rdzv = rdzv_new(&limits, 1);
    memset(accounts, 0, sizeof(accounts));
    overview = overview_new();
    like = (struct msg_join){
        .version = MSG_VERSION,
        .run = "r",
        .nodes_min = 1,
        .nodes_max = 1,
        .nproc = 8,
        .max_restarts = 3,
        .node_rank = -1,
        .options = "--nnodes=1\ntrain.py",
        .role = "default",
        .port = 4711,
        .join_ms = 600000,
        .last_call_ms = 1000,
        .heartbeat_ms = 5000,
        .reconnect_ms = 60000,
        .group_rank = -1,
        .answered_ms = -1,
    };
}

static void teardown(void)
{
    cJSON_Delete(shown);
    shown = NULL;
    overview_del(overview);
    rdzv_del(rdzv);
}

static int step_of(struct buf *out)
{
    static struct status_counts counts;
    struct status_daemon d = {
        .incarnation = "ab12", .counts = &counts, .accounts = accounts};
    struct status_when when = {.now_us = now_us};
    return overview_step(overview, out, rdzv, &d, &when, NULL);
}

/* What is left of a document, of which some steps may have been taken. Returns
 * how many there were. */
static int look_on(struct buf *out)
{
    int rc, steps = 0;
    do {
        rc = step_of(out);
        steps++;
    } while (rc > 0);
    ck_assert_int_eq(rc, 0);
    return steps;
}

static void parse(struct buf *out)
{
    shown_len = buf_len(out);
    ck_assert_ptr_null(memchr(buf_head(out), '\n', shown_len));
    ck_assert_int_eq(buf_put(out, "", 1), 0);
    cJSON_Delete(shown);
    shown = cJSON_Parse((const char *)buf_head(out));
    ck_assert_ptr_nonnull(shown);
}

static int look(void)
{
    struct buf out;
    buf_init(&out, 2u << 20);
    int steps = look_on(&out);
    parse(&out);
    buf_free(&out);
    return steps;
}

static const cJSON *run_at(int i)
{
    const cJSON *run =
        cJSON_GetArrayItem(cJSON_GetObjectItem(shown, "runs"), i);
    ck_assert_ptr_nonnull(run);
    return run;
}

static const cJSON *list_of(const cJSON *run, const char *name)
{
    const cJSON *list = cJSON_GetObjectItem(run, name);
    ck_assert_msg(cJSON_IsArray(list), "no %s", name);
    return list;
}

/* -1: it is not there. */
static int number(const cJSON *obj, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(obj, name);
    return cJSON_IsNumber(item) ? item->valueint : -1;
}

/* A round of so many nodes. */
static void round_of(int n)
{
    like.nodes_min = like.nodes_max = n;
    join(n);
}

TEST(test_overview_of_few_nodes_has_them_all)
{
    round_of(OVERVIEW_NODES_MAX);
    look();
    ck_assert_int_eq(cJSON_GetArraySize(list_of(run_at(0), "nodes_list")),
                     OVERVIEW_NODES_MAX);
    ck_assert_ptr_null(cJSON_GetObjectItem(run_at(0), "groups"));
    const cJSON *first =
        cJSON_GetArrayItem(list_of(run_at(0), "nodes_list"), 0);
    ck_assert_int_eq(number(first, "group_rank"), 0); /* in their order */
    ck_assert_int_eq(number(shown, "runs_left_out"), 0);
}

static const struct {
    int nodes, groups, size;
} sizes[] = {
    {OVERVIEW_NODES_MAX + 1, 26, 10},
    {1000, 100, 10},
    {1001, 51, 20},
    {2001, 41, 50},
    {10000, 100, 100},
};

/* All are in groups, in the order of their ranks; none is listed. */
TEST_EACH(test_overview_of_many_nodes_has_groups, sizes)
{
    round_of(sizes[_i].nodes);
    look();
    const cJSON *groups = list_of(run_at(0), "groups");
    const cJSON *group;
    int all = 0, first = 0;
    ck_assert_int_eq(cJSON_GetArraySize(groups), sizes[_i].groups);
    ck_assert_int_eq(number(run_at(0), "group_size"), sizes[_i].size);
    cJSON_ArrayForEach(group, groups)
    {
        ck_assert_int_eq(number(group, "first"), first);
        ck_assert_int_eq(number(group, "running"), number(group, "nodes"));
        ck_assert_int_eq(number(group, "ranks"), 8 * number(group, "nodes"));
        first += sizes[_i].size;
        all += number(group, "nodes");
    }
    ck_assert_int_eq(all, sizes[_i].nodes);
    ck_assert_int_eq(cJSON_GetArraySize(list_of(run_at(0), "nodes_list")), 0);
    ck_assert_uint_lt(shown_len, 16000);
}

/* Nodes whose connection broke are listed, so many as there is room for. */
TEST_LOOP(test_overview_lists_what_is_not_well, 0, 2)
{
    const int broken = _i == 0 ? 3 : GROUPS_UNWELL_MAX + 5;
    round_of(1000);
    for (int i = 0; i < broken; i++)
        step(&(struct rdzv_event){.kind = RDZV_CLOSED, .conn = 10 * i});
    look();
    const cJSON *sick = list_of(run_at(0), "nodes_list");
    ck_assert_int_eq(number(run_at(0), "unwell"), broken);
    ck_assert_int_eq(cJSON_GetArraySize(sick),
                     broken < GROUPS_UNWELL_MAX ? broken : GROUPS_UNWELL_MAX);
    ck_assert_str_eq(
        cJSON_GetObjectItem(cJSON_GetArrayItem(sick, 0), "state")->valuestring,
        "absent");
    int absent = 0;
    const cJSON *group;
    cJSON_ArrayForEach(group, list_of(run_at(0), "groups"))
    {
        int n = number(group, "absent");
        absent += n > 0 ? n : 0;
    }
    ck_assert_int_eq(absent, broken);
}

/* Nodes without a place are a group of their own. */
TEST(test_overview_of_nodes_that_wait)
{
    like.nodes_min = like.nodes_max = 400;
    join(300);
    look();
    const cJSON *groups = list_of(run_at(0), "groups");
    ck_assert_int_eq(cJSON_GetArraySize(groups), 1);
    ck_assert_int_eq(number(cJSON_GetArrayItem(groups, 0), "first"), -1);
    ck_assert_int_eq(number(cJSON_GetArrayItem(groups, 0), "waiting"), 300);
}

/* Of many runs the first have all, the next a line, the rest a number. */
TEST(test_overview_of_many_runs_is_short)
{
    for (int i = 0; i < OVERVIEW_RUNS_MAX + 6; i++) {
        (void)snprintf(like.run, sizeof(like.run), "run%d", i);
        round_of(1);
    }
    look();
    ck_assert_int_eq(cJSON_GetArraySize(list_of(shown, "runs")),
                     OVERVIEW_RUNS_MAX);
    ck_assert_int_eq(number(shown, "runs_left_out"), 6);
    for (int i = 0; i < OVERVIEW_RUNS_MAX; i++) {
        bool brief = cJSON_GetObjectItem(run_at(i), "brief") != NULL;
        ck_assert_int_eq(brief, i >= OVERVIEW_RUNS_FULL);
    }
}

/* The listed nodes of all runs are bounded, too. */
TEST(test_overview_of_several_large_runs_is_bounded)
{
    for (int i = 0; i < 4; i++) {
        (void)snprintf(like.run, sizeof(like.run), "run%d", i);
        round_of(200);
    }
    look();
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(cJSON_GetObjectItem(run_at(i), "groups") != NULL,
                         i >= OVERVIEW_LISTED_MAX / 200);
}

/* A run that has ended is behind those that have not. */
TEST(test_overview_has_ended_runs_last)
{
    msg_set(like.run, "a");
    round_of(1);
    struct msg order = {.kind = MSG_KIND_order, .order.verb = MSG_ORDER_END};
    order.order.version = MSG_VERSION;
    msg_set(order.order.run, "a");
    step(&(struct rdzv_event){.kind = RDZV_MSG,
                              .conn = CONNS - 1,
                              .msg = &order,
                              .peer_addr = "127.0.0.1",
                              .here_addr = "127.0.0.1",
                              .trusted = true});
    msg_set(like.run, "b");
    round_of(1);
    look();
    ck_assert_str_eq(cJSON_GetObjectItem(run_at(0), "id")->valuestring, "b");
    ck_assert_str_eq(cJSON_GetObjectItem(run_at(1), "state")->valuestring,
                     "ended");
}

/* Texts so long that not all fits: runs in brief; not even those: an error. */
TEST(test_overview_that_does_not_fit_is_brief_or_none)
{
    struct buf out;
    int full = 0, brief = 0;
    round_of(200);
    for (size_t room = 0; room < 80000; room += 200) {
        buf_init(&out, room);
        int rc;
        do
            rc = step_of(&out);
        while (rc > 0);
        bool is_brief = rc == 0 && memmem(buf_head(&out), buf_len(&out),
                                          "\"brief\":true", 12) != NULL;
        ck_assert(full == 0 || (rc == 0 && !is_brief));
        ck_assert(brief == 0 || rc == 0);
        brief += is_brief;
        full += rc == 0 && !is_brief;
        buf_free(&out);
    }
    ck_assert_int_gt(brief, 0);
    ck_assert_int_gt(full, 0);
}

/* -- steps ----------------------------------------------------------------- */

/* However many nodes there are, a step looks at so many: one for the plan, and
 * one for each run, beside them. */
TEST(test_overview_is_made_in_steps)
{
    round_of(OVERVIEW_NODES_MAX);
    ck_assert_int_eq(look(), 2);
    msg_set(like.run, "large");
    round_of(10 * OVERVIEW_PLACES);
    ck_assert_int_eq(look(), 1 + 11 + 2);
    msg_set(like.run, "small");
    round_of(1);
    ck_assert_int_eq(look(), 1 + 11 + 3);
}

/* The node is gone, and is not waited for. */
static void leave(int conn)
{
    struct msg m = {
        .kind = MSG_KIND_vote,
        .vote = {.version = MSG_VERSION, .last = 1, .group_rank = -1}};
    msg_set(m.vote.run, like.run);
    (void)snprintf(m.vote.agent, sizeof(m.vote.agent), "%016d%016d", conn,
                   conn);
    step(&(struct rdzv_event){.kind = RDZV_CLOSED, .conn = conn});
    step(&(struct rdzv_event){.kind = RDZV_MSG, .conn = conn, .msg = &m});
}

/* Steps of a document, of which the rest is to come. */
static void look_at(struct buf *out, int steps)
{
    buf_init(out, 2u << 20);
    for (int i = 0; i < steps; i++)
        ck_assert_int_eq(step_of(out), 1);
}

/* A node is lost, so that all others stop; some of these are gone, too, when
 * they are to be listed. */
TEST(test_overview_leaves_out_nodes_that_went_meanwhile)
{
    struct buf out;
    round_of(1000);
    leave(0);
    look_at(&out, 1 + 1000 / OVERVIEW_PLACES);
    for (int i = 1; i <= 3; i++)
        leave(i);
    (void)look_on(&out);
    parse(&out);
    buf_free(&out);
    const cJSON *list = list_of(run_at(0), "nodes_list");
    const cJSON *first = cJSON_GetArrayItem(list, 0);
    ck_assert_int_eq(cJSON_GetArraySize(list), GROUPS_UNWELL_MAX - 3);
    ck_assert_str_eq(cJSON_GetObjectItem(first, "name")->valuestring, "n4");
    ck_assert_int_eq(number(run_at(0), "unwell"), 999 - 3);
}

/* Groups are as they were counted, all else as it is when it is written. */
TEST(test_overview_has_groups_of_a_moment_before)
{
    struct buf out;
    round_of(1000);
    look_at(&out, 1 + 1000 / OVERVIEW_PLACES);
    step(&(struct rdzv_event){.kind = RDZV_CLOSED, .conn = 0});
    (void)look_on(&out);
    parse(&out);
    const cJSON *group = cJSON_GetArrayItem(list_of(run_at(0), "groups"), 0);
    ck_assert_int_eq(number(group, "running"), 10);
    ck_assert_int_eq(number(run_at(0), "absent"), 1);
    buf_free(&out);
    look();
    group = cJSON_GetArrayItem(list_of(run_at(0), "groups"), 0);
    ck_assert_int_eq(number(group, "running"), 9);
    ck_assert_int_eq(number(group, "absent"), 1);
}

/* A run that is forgotten meanwhile is left out, and the one that has its slot
 * then comes with the next document. */
TEST_LOOP(test_overview_leaves_out_runs_that_went_meanwhile, 0, 2)
{
    struct buf out;
    like.nodes_min = like.nodes_max = 2;
    msg_set(like.run, "a");
    join(1);
    msg_set(like.run, "b");
    join(1);
    look_at(&out, 1);
    leave(0);
    if (_i == 1) {
        msg_set(like.run, "c");
        join(1);
    }
    (void)look_on(&out);
    parse(&out);
    buf_free(&out);
    const cJSON *runs = list_of(shown, "runs");
    const cJSON *run;
    cJSON_ArrayForEach(run, runs)
    {
        const char *id = cJSON_GetObjectItem(run, "id")->valuestring;
        ck_assert_msg(strcmp(id, "b") == 0, "run %s", id);
    }
    ck_assert_int_eq(cJSON_GetArraySize(runs), 1);
}

SUITE("overview", "fast", .limit_s = 60, FIXTURE(setup, teardown))
