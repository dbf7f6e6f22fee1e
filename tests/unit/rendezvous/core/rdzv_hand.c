/* links: CORE rendezvous/proto/{msg,exits,term} tests/lib/obey */
/* links: rendezvous/base/{err,mono,rng,json,utf8,buf} */
#include "tests/unit/rendezvous/core/rdzv_hand.h"
#include "tests/lib/obey.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rdzv *rdzv;
int64_t now_us;
char said[8000];
char notes[8000];
struct msg last[CONNS];
struct msg_lease granted[CONNS];
struct msg_world placed[CONNS];
bool answers;
struct msg_join like;
int world_of_rejoins;
char members_said[4000];
int members_pieces;
char server_id[MSG_VOTER_LEN + 1];
int64_t server_began_us;
bool embedded_server;
bool strangers_may_join;
bool orders_are_trusted;
const char *comes_from;
void (*on_said)(int conn, const struct msg *m);

static void append(char *text, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t size, const char *fmt, ...)
{
    size_t len = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text + len, size - len, fmt, ap);
    va_end(ap);
}

/* Whatever nodes said before: what the server sends must be understood. */
static void expect_decodes(const struct msg *m)
{
    static char json[MSG_JSON_MAX];
    struct msg heard;
    struct ddp_err err = {.code = DDP_E_OK};
    int len = msg_encode(m, json, sizeof(json));
    ck_assert_int_gt(len, 0);
    ck_assert_msg(msg_decode(json, (size_t)len, &heard, &err) == 0,
                  "%s cannot be decoded: %s", msg_name(m->kind), err.text);
}

/* What tests call it: some kinds say several things. */
static const char *name_of(const struct msg *m)
{
    return m->kind == MSG_KIND_stop && m->stop.drain ? "drain"
                                                     : msg_name(m->kind);
}

static void emit(void *ctx, const struct rdzv_action *a)
{
    (void)ctx;
    switch (a->kind) {
    case RDZV_SEND:
        expect_decodes(a->msg);
        last[a->conn] = *a->msg;
        if (a->msg->kind == MSG_KIND_lease)
            granted[a->conn] = a->msg->lease;
        if (a->msg->kind == MSG_KIND_world)
            placed[a->conn] = a->msg->world;
        if (on_said != NULL)
            on_said(a->conn, a->msg);
        if (a->msg->kind == MSG_KIND_members) {
            if (members_pieces++ == 0)
                append(members_said, sizeof(members_said),
                       "%d: ", (int)a->msg->members.round);
            append(members_said, sizeof(members_said), "%s",
                   a->msg->members.addrs);
        }
        append(said, sizeof(said), "%d:%s ", a->conn, name_of(a->msg));
        return;
    case RDZV_DROP:
        append(said, sizeof(said), "%d:drop ", a->conn);
        return;
    case RDZV_NOTE:
        if (note_level(a->note->kind) == NOTE_FACT)
            return; /* check_account, check_status_history */
        append(notes, sizeof(notes), "%s ", note_name(a->note->kind));
        return;
    }
}

/* What the agents said that came last on each connection. */
static struct msg_join joined[CONNS];
static bool goes_on; /* what is told next belongs to what was told */

void step(const struct rdzv_event *ev)
{
    struct rdzv_event now = *ev;
    struct rdzv_actions out = {.emit = emit};
    now.now_us = now_us;
    if (!goes_on)
        said[0] = notes[0] = '\0';
    if (answers)
        obey_step(rdzv, &now, &out);
    else
        rdzv_step(rdzv, &now, &out);
    rdzv_check(rdzv);
}

void say(int conn, const struct msg *m)
{
    if (m->kind == MSG_KIND_join)
        joined[conn] = m->join;
    step(&(struct rdzv_event){.kind = RDZV_MSG,
                              .conn = conn,
                              .msg = m,
                              .peer_addr = comes_from,
                              .here_addr = HAND_HERE,
                              .trusted = orders_are_trusted});
}

void tick(int64_t lag_us)
{
    step(&(struct rdzv_event){.kind = RDZV_TICK, .lag_us = lag_us});
}

void pass(int64_t us)
{
    int64_t end_us = now_us + us;
    for (int turns = 0; rdzv_deadline(rdzv) <= end_us; turns++) {
        ck_assert_int_lt(turns, 1000);
        if (rdzv_deadline(rdzv) > now_us)
            now_us = rdzv_deadline(rdzv);
        tick(0);
    }
    now_us = end_us;
    said[0] = notes[0] = '\0';
    tick(0);
}

/* Of one that has no vote. */
struct msg make_farewell(int conn)
{
    struct msg m = {.kind = MSG_KIND_vote, .vote.last = 1};
    m.vote.version = MSG_VERSION;
    m.vote.group_rank = -1;
    msg_set(m.vote.run, joined[conn].run);
    msg_set(m.vote.agent, joined[conn].agent);
    msg_set(m.vote.name, joined[conn].name);
    return m;
}

void closed(int conn, bool farewell)
{
    struct msg m = make_farewell(conn);
    step(&(struct rdzv_event){.kind = RDZV_CLOSED, .conn = conn});
    goes_on = true;
    if (farewell)
        say(GUARDS, &m);
    goes_on = false;
}

/* -- what agents say ------------------------------------------------------- */

struct msg make_join(int who)
{
    struct msg m = {.kind = MSG_KIND_join, .join = like};
    (void)snprintf(m.join.name, sizeof(m.join.name), "n%d", who);
    (void)snprintf(m.join.agent, sizeof(m.join.agent), "%016d%016d", who, who);
    return m;
}

void join(int who)
{
    struct msg m = make_join(who);
    say(who, &m);
}

struct msg make_rejoin(int who, int64_t round, enum msg_state state)
{
    struct msg m = make_join(who);
    (void)snprintf(m.join.instance, sizeof(m.join.instance), "%032d", 77);
    m.join.instance_ms = 3600000;
    m.join.round = round;
    m.join.state = (int64_t)state;
    m.join.group_rank = state == MSG_STATE_NONE ? -1 : who;
    m.join.lease_ms = HEARTBEAT / 2 / MONO_MS;
    return m;
}

struct msg holds(int who, const struct msg_world *w, enum msg_state state)
{
    struct msg m = make_rejoin(who, w->round, state);
    msg_set(m.join.instance, w->instance);
    m.join.group_rank = w->group_rank;
    return m;
}

void rejoin_voted(int conn, const struct msg *m, const char *row)
{
    struct msg join = *m, voted;
    obey_voted(&join.join, row, world_of_rejoins, &voted);
    say(conn, &join);
    say(conn, &voted);
}

void beat_of(int conn, int64_t seq, int64_t heard, int64_t round)
{
    struct msg m = {.kind = MSG_KIND_beat};
    m.beat.seq = seq;
    m.beat.heard = heard;
    m.beat.round = round;
    say(conn, &m);
}

void ready(int conn, int64_t round)
{
    struct msg m = {.kind = MSG_KIND_ready, .ready.round = round};
    say(conn, &m);
}

void done(int conn, int64_t round)
{
    struct msg m = {.kind = MSG_KIND_ready,
                    .ready = {.round = round, .done = 1}};
    say(conn, &m);
}

void leave(int conn, bool all)
{
    struct msg m = {
        .kind = MSG_KIND_leave,
        .leave = {.what = all ? MSG_LEAVE_ALL : MSG_LEAVE_NODE, .signal = 15}};
    say(conn, &m);
}

void bye(int conn)
{
    struct msg m = {.kind = MSG_KIND_leave, .leave.what = MSG_LEAVE_ENDED};
    say(conn, &m);
}

void failed(int conn, int64_t round, int code, int64_t age_us)
{
    struct msg m = {.kind = MSG_KIND_failed,
                    .failed = {.pid = 7,
                               .round = round,
                               .rank = conn,
                               .code = code,
                               .age_us = age_us}};
    say(conn, &m);
}

static void
order(enum msg_verb verb, const char *run, const char *node, bool sure)
{
    struct msg m = {
        .kind = MSG_KIND_order,
        .order = {.version = MSG_VERSION, .verb = verb, .sure = sure}};
    msg_set(m.order.run, run);
    msg_set(m.order.node, node);
    say(ORDERS, &m);
}

void order_drain(const char *run, const char *node, bool force)
{
    order(MSG_ORDER_DRAIN, run, node, force);
}

void order_end(const char *run)
{
    order(MSG_ORDER_END, run, "", false);
}

void order_go_on(const char *run, bool sure)
{
    order(MSG_ORDER_GO_ON, run, "", sure);
}

bool told(int conn, const char *what)
{
    char text[40];
    (void)snprintf(text, sizeof(text), "%d:%s ", conn, what);
    return strstr(said, text) != NULL;
}

bool noted(const char *what)
{
    char text[40];
    (void)snprintf(text, sizeof(text), "%s ", what);
    return strstr(notes, text) != NULL;
}

/* -- worlds ---------------------------------------------------------------- */

void new_server(void)
{
    struct rdzv_limits limits = {
        .runs_max = 2, .nodes_max = 8, .conns_max = CONNS};
    msg_set(limits.server, server_id);
    limits.embedded = embedded_server;
    limits.began_us = server_began_us;
    limits.trusted = !strangers_may_join;
    rdzv_del(rdzv);
    rdzv = rdzv_new(&limits, 1 + strtoull(server_id, NULL, 16));
}

void hand_setup(void)
{
    rdzv = NULL;
    server_began_us = 0;
    memset(joined, 0, sizeof(joined));
    answers = true;
    world_of_rejoins = 2;
    members_said[0] = '\0';
    members_pieces = 0;
    now_us = 1000 * MONO_S;
    (void)snprintf(server_id, sizeof(server_id), "%016x", 0xaa);
    embedded_server = strangers_may_join = false;
    orders_are_trusted = true;
    on_said = NULL;
    comes_from = "10.0.0.1";
    new_server();
    like = (struct msg_join){.version = MSG_VERSION,
                             .nodes_min = 2,
                             .nodes_max = 2,
                             .nproc = 1,
                             .max_restarts = 1,
                             .node_rank = -1,
                             .group_rank = -1,
                             .answered_ms = -1,
                             .join_ms = 60000,
                             .last_call_ms = 2000,
                             .heartbeat_ms = 1000,
                             .reconnect_ms = 30000};
    msg_set(like.run, "r");
    msg_set(like.options, "--nnodes=2\n--crash_loop=0\ntrain");
}

void hand_teardown(void)
{
    rdzv_del(rdzv);
}

void limits_of(int min, int max)
{
    like.nodes_min = min;
    like.nodes_max = max;
}

void run_two(int min, int max)
{
    limits_of(min, max);
    like.last_call_ms = 1;
    join(0);
    join(1);
    like.last_call_ms = 0;
    if (!told(0, "world")) {
        now_us += MONO_MS;
        tick(0);
    }
    ck_assert(told(0, "world") && told(1, "world"));
    ck_assert_int_eq(placed[0].round, 1);
}

void both_ready(int64_t round)
{
    ready(0, round);
    ready(1, round);
}

void later(int64_t us, int n, int64_t round)
{
    static int64_t seq;
    int64_t end_us = now_us + us;
    while (now_us < end_us) {
        now_us = mono_min(end_us, now_us + 400 * MONO_MS);
        seq++;
        for (int i = 0; i < n; i++)
            beat_of(i, seq, seq - 1, round);
    }
}

void fail_round(int64_t round, bool progress)
{
    failed(1, round, 9, 0);
    struct msg m = {.kind = MSG_KIND_ready,
                    .ready = {.round = round, .progress = progress}};
    ready(1, round);
    say(0, &m);
}
