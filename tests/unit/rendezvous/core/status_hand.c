#include "tests/unit/rendezvous/core/status_hand.h"
#include "tests/lib/obey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/http/overview.h"

#define CONNS 40
#define RUNS  4

static struct account accounts[RUNS];
static struct overview *overview;

struct rdzv *rdzv;
int64_t now_us;
struct msg_join like;
struct status_counts counts;
bool token, open_metrics, busy;
cJSON *shown; /* the last /status */
struct httpd_answer answer;

static void emit(void *ctx, const struct rdzv_action *a)
{
    (void)ctx;
    if (a->kind == RDZV_NOTE && a->note->run_at >= 0)
        account_take(&accounts[a->note->run_at], a->note);
}

void step(const struct rdzv_event *ev)
{
    struct rdzv_event now = *ev;
    struct rdzv_actions out = {.emit = emit};
    now.now_us = now_us;
    obey_step(rdzv, &now, &out);
    rdzv_check(rdzv);
    for (int i = 0; i < RUNS; i++)
        account_check(&accounts[i], now_us);
}

void say(int conn, const struct msg *m)
{
    step(&(struct rdzv_event){.kind = RDZV_MSG,
                              .conn = conn,
                              .msg = m,
                              .peer_addr = "10.0.0.1",
                              .here_addr = "10.0.0.9"});
}

struct msg make_join(int conn, const char *name)
{
    struct msg m = {.kind = MSG_KIND_join, .join = like};
    msg_set(m.join.name, name);
    (void)snprintf(m.join.agent, sizeof(m.join.agent), "%016d%016d", conn,
                   conn);
    return m;
}

void join(int conn, const char *name)
{
    struct msg m = make_join(conn, name);
    say(conn, &m);
}

void new_core(void)
{
    struct rdzv_limits limits = {
        .runs_max = RUNS, .nodes_max = 32, .conns_max = CONNS};
    rdzv_del(rdzv);
    memset(accounts, 0, sizeof(accounts));
    msg_set(limits.server, "00000000000000aa");
    rdzv = rdzv_new(&limits, 1);
}

void setup(void)
{
    now_us = 1000 * MONO_S;
    token = open_metrics = busy = false;
    memset(&counts, 0, sizeof(counts));
    new_core();
    overview = overview_new();
    like = (struct msg_join){
        .version = MSG_VERSION,
        .run = "r",
        .nodes_min = 2,
        .nodes_max = 3,
        .nproc = 2,
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

void teardown(void)
{
    cJSON_Delete(shown);
    shown = NULL;
    buf_free(&answer.body);
    overview_del(overview);
    rdzv_del(rdzv);
    rdzv = NULL;
}

/* -- asking ---------------------------------------------------------------- */

const char *asked_host; /* NULL: the request has none */
const char *accepted = "*/*";

int get_by(const char *target, bool trusted, size_t room)
{
    static struct http request;
    static struct http_field accept;
    char bytes[400];
    struct http_hosts hosts;
    http_hosts_init(&hosts, "metrics.example");
    struct http_routes_view v = {
        .rdzv = rdzv,
        .overview = overview,
        .hosts = &hosts,
        .daemon = {.incarnation = "ab12",
                   .uptime_us = 12300 * MONO_MS,
                   .token = token,
                   .nodes = 5,
                   .pending = 1,
                   .http = 1,
                   .counts = &counts,
                   .accounts = accounts},
        .open_metrics = open_metrics,
        .when = {.now_us = now_us, .unix_us = UNIX_US}};
    (void)snprintf(
        bytes, sizeof(bytes), "GET %s HTTP/1.0\r\nAccept: %s\r\n%s%s%s\r\n",
        target, accepted, asked_host != NULL ? "Host: " : "",
        asked_host != NULL ? asked_host : "", asked_host != NULL ? "\r\n" : "");
    http_init(&request);
    accept = (struct http_field){.name = "Accept"};
    request.fields = &accept;
    request.n_fields = 1;
    ck_assert(http_feed(&request, bytes, strlen(bytes)));
    ck_assert_int_eq(request.status, 0);
    buf_free(&answer.body);
    answer = (struct httpd_answer){.status = 200, .type = "?", .busy = busy};
    buf_init(&answer.body, room);
    if (http_routes_answer(&v, &request, trusted, &answer) != 0)
        return -1;
    ck_assert_int_eq(buf_put(&answer.body, "", 1), 0);
    return answer.status;
}

const char *text(void)
{
    return (const char *)buf_head(&answer.body);
}

int get(const char *target)
{
    return get_by(target, false, 1u << 20);
}

void get_status(const char *target)
{
    ck_assert_int_eq(get(target), 200);
    ck_assert_str_eq(answer.type, "application/json");
    cJSON_Delete(shown);
    shown = cJSON_Parse(text());
    ck_assert_ptr_nonnull(shown);
}

const cJSON *field(const cJSON *obj, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(obj, name);
    ck_assert_msg(item != NULL, "no %s in %s", name, text());
    return item;
}

double number(const cJSON *obj, const char *name)
{
    ck_assert(cJSON_IsNumber(field(obj, name)));
    return field(obj, name)->valuedouble;
}

const char *string(const cJSON *obj, const char *name)
{
    ck_assert(cJSON_IsString(field(obj, name)));
    return field(obj, name)->valuestring;
}

const cJSON *shown_run(int i)
{
    const cJSON *run = cJSON_GetArrayItem(field(shown, "runs"), i);
    ck_assert_ptr_nonnull(run);
    return run;
}

const cJSON *shown_node(int run, int i)
{
    const cJSON *node =
        cJSON_GetArrayItem(field(shown_run(run), "nodes_list"), i);
    ck_assert_ptr_nonnull(node);
    return node;
}

void fail_worker(int conn, int64_t round)
{
    struct msg m = {.kind = MSG_KIND_failed,
                    .failed = {.round = round,
                               .rank = 5,
                               .local_rank = 1,
                               .pid = 543,
                               .signal = 9,
                               .age_us = MONO_S,
                               .text = "why \"it\" died"}};
    say(conn, &m);
}

void ready(int conn, int64_t round)
{
    struct msg m = {.kind = MSG_KIND_ready, .ready.round = round};
    say(conn, &m);
}
