/*
 * A tick is never judged before every socket was read: the timer only marks it
 * as due, and the check handle, which libuv runs behind the poll, steps the
 * core. So a beat that lies in a socket's buffer counts, however late the
 * server wakes. An idle handle keeps that poll from sleeping.
 */
#include "rendezvous/daemon/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/core/rdzv.h"
#include "rendezvous/daemon/hush.h"
#include "rendezvous/daemon/site.h"
#include "rendezvous/daemon/slots.h"
#include "rendezvous/net/conn.h"
#include "rendezvous/net/door.h"
#include "rendezvous/net/handover.h"
#include "rendezvous/proto/frame.h"

#define SERVER_MAGIC        0x72647a76u
#define SPARE_CONNS         64 /* for those who are refused, and for reconnects */
#define SPARE_FILES         32 /* not for connections: the loop, stderr, a log */
#define SPARE_HTTP          2  /* of these */
#define CONNS_MIN           8
#define HELLO_US            (10 * MONO_S) /* to say join */
#define HELLO_FULL_US       (1 * MONO_S) /* the same where others want the room */
#define HELLO_STORE_US      (2 * MONO_S) /* with a store to hand the silent to */
#define HELLO_STORE_FULL_US (100 * MONO_MS)
#define HELLO_SWEEP_MS      1000
#define STORE_CONNS         2048 /* more strangers at one time, with a store */
#define LAG_WORTH_US        (50 * MONO_MS)
#define COMPLAINTS_AT_ONCE  10 /* lines about strangers, of each source ... */
#define COMPLAINTS_PER_SEC  2
#define NOTES_AT_ONCE       500 /* ... and about what nodes do */
#define NOTES_PER_SEC       2
#define STRANGER_FRAME_MAX  8192 /* a join has no more, however escaped */

struct server {
    unsigned magic;
    struct server_conf conf;
    uv_loop_t *loop;
    struct door *door;
    uv_timer_t timer;
    uv_timer_t hello_timer;
    uv_timer_t hush_timer;
    uv_check_t check;
    uv_idle_t idle; /* runs while a tick is due */
    struct rdzv *rdzv;
    struct giver *giver; /* to the store, or NULL */
    struct httpd *httpd; /* NULL: HTTP is not served */
    struct status_counts counts;
    char incarnation[RNG_ID_LEN + 1];
    int64_t opened_us;
    struct slots *slots;
    int64_t due_us; /* when the timer was to fire */
    bool tick_due;
    int64_t turn; /* of the loop */
    bool served;  /* a run was here */
    bool closing;
    int open_handles;
    /* What was sent last: a round's end is told to all in the same words. */
    struct msg sent;
    char sent_json[MSG_JSON_MAX];
    int sent_len; /* 0: nothing yet */
    struct hush complaints, notes;
};

static void step(struct server *s, const struct rdzv_event *ev);

static struct server *server_of(void *data)
{
    struct server *s = data;
    ddp_assert(s->magic == SERVER_MAGIC);
    return s;
}

static void slot_free(struct slot *slot)
{
    slots_free(slot->server->slots, slot);
}

static int slot_index(const struct slot *slot)
{
    return slots_index(slot->server->slots, slot);
}

/* -- the log --------------------------------------------------------------- */

static void tell_left_out(struct hush *h)
{
    char line[160];
    while (hush_tell(h, line, sizeof(line)))
        log_warnx("%s", line);
}

static void on_hush_timer(uv_timer_t *timer)
{
    struct server *s = server_of(timer->data);
    tell_left_out(&s->complaints);
    tell_left_out(&s->notes);
}

/* Whether one more line about whoever is at `addr` may be said. */
static bool may_say(struct server *s, struct hush *h, const char *addr)
{
    if (hush_may(h, addr, mono_now_us()))
        return true;
    if (!s->closing && !uv_is_active((uv_handle_t *)&s->hush_timer))
        (void)uv_timer_start(&s->hush_timer, on_hush_timer,
                             HUSH_TELL_US / MONO_MS, 0);
    return false;
}

/* `c` may be NULL: none was made. */
static void complain(struct server *s, const struct conn *c, const char *why)
{
    char peer[ADDR_TEXT_MAX] = "";
    if (c != NULL)
        conn_peer(c, peer);
    if (may_say(s, &s->complaints, peer))
        log_warnx("connection closed: %s peer=%s", why, peer);
}

static void complain_of(struct server *s,
                        const struct conn *c,
                        enum stranger what,
                        const char *why)
{
    s->counts.strangers[what]++;
    complain(s, c, why);
}

/* -- the core's actions ---------------------------------------------------- */

static void act_note(struct server *s, const struct note *n)
{
    enum note_level level = note_level(n->kind);
    bool refused = n->kind == NOTE_refused || n->kind == NOTE_order_refused;
    if (!s->conf.debug &&
        (s->conf.quiet || level == NOTE_DEBUG ||
         !may_say(s, refused ? &s->complaints : &s->notes, n->account)))
        return;
    char line[1024];
    note_format(n, line, sizeof(line));
    if (level == NOTE_WARN)
        log_warnx("%s", line);
    else
        log_info("%s", line);
}

static void act_send(struct server *s, struct conn *c, const struct msg *m)
{
    if (s->sent_len == 0 || memcmp(m, &s->sent, sizeof(*m)) != 0) {
        s->sent_len = msg_encode(m, s->sent_json, sizeof(s->sent_json));
        ddp_assert(s->sent_len > 0);
        s->sent = *m;
    }
    conn_send_json(c, s->sent_json, (size_t)s->sent_len);
}

static void act(void *ctx, const struct rdzv_action *a)
{
    struct server *s = server_of(ctx);
    switch (a->kind) {
    case RDZV_SEND:
        act_send(s, slots_at(s->slots, a->conn)->conn, a->msg);
        return;
    case RDZV_DROP: {
        struct slot *slot = slots_at(s->slots, a->conn);
        struct conn *c = slot->conn;
        slot_free(slot);
        conn_finish(c);
        return;
    }
    case RDZV_NOTE:
        act_note(s, a->note);
        return;
    }
    DDP_WRONG("action");
}

/* -- time ------------------------------------------------------------------ */

static void on_idle(uv_idle_t *idle)
{
    (void)server_of(idle->data); /* that it is active is all that it is for */
}

static void on_timer(uv_timer_t *timer)
{
    struct server *s = server_of(timer->data);
    s->tick_due = true;
    (void)uv_idle_start(&s->idle, on_idle); /* cannot fail */
}

static void arm(struct server *s)
{
    int64_t at_us = rdzv_deadline(s->rdzv);
    if (at_us == s->due_us && uv_is_active((uv_handle_t *)&s->timer))
        return;
    s->due_us = at_us;
    if (at_us == MONO_NEVER) {
        (void)uv_timer_stop(&s->timer);
        return;
    }
    int64_t ms = mono_ms_until(mono_now_us(), at_us);
    uv_update_time(s->loop);
    (void)uv_timer_start(&s->timer, on_timer, (uint64_t)ms, 0);
}

static void count_lag(struct server *s, int64_t lag_us)
{
    if (lag_us < 0)
        return;
    s->counts.ticks++;
    s->counts.lag_us += lag_us;
    if (lag_us > s->counts.lag_max_us)
        s->counts.lag_max_us = lag_us;
}

static void on_tick_due(struct server *s)
{
    s->tick_due = false;
    (void)uv_idle_stop(&s->idle);
    int64_t now_us = mono_now_us();
    int64_t lag_us = now_us - s->due_us;
    count_lag(s, lag_us);
    struct rdzv_event ev = {
        .kind = RDZV_TICK,
        .now_us = now_us,
        .lag_us = lag_us > LAG_WORTH_US ? lag_us : 0,
    };
    if (now_us < s->due_us)
        arm(s); /* the deadline has moved */
    else
        step(s, &ev);
}

static void on_check(uv_check_t *check)
{
    struct server *s = server_of(check->data);
    s->turn++;
    if (s->tick_due && !s->closing)
        on_tick_due(s);
}

static void step(struct server *s, const struct rdzv_event *ev)
{
    struct rdzv_actions out = {.emit = act, .ctx = s};
    rdzv_step(s->rdzv, ev, &out);
    s->served |= rdzv_nodes(s->rdzv) > 0;
    if (s->served && s->conf.on_idle != NULL && rdzv_nodes(s->rdzv) == 0 &&
        rdzv_live_runs(s->rdzv) == 0) {
        s->conf.on_idle(s->conf.ctx);
        return;
    }
    arm(s);
}

/* To the process that serves the store. */
static void hand_over(struct slot *slot)
{
    struct server *s = slot->server;
    struct buf rest;
    int fd = conn_yield(slot->conn, &rest);
    if (fd < 0) {
        complain(s, slot->conn, "no descriptor to hand it to the store");
        conn_close(slot->conn);
    } else if (giver_give(s->giver, fd, &rest) != 0) {
        complain(s, NULL, "the store does not take its connections");
    }
    slot_free(slot);
}

static void turn_away(struct slot *slot, const char *why)
{
    if (slot->server->giver != NULL && conn_may_yield(slot->conn)) {
        hand_over(slot); /* it may be a client that waits to be called */
        return;
    }
    complain_of(slot->server, slot->conn, STRANGER_SILENT, why);
    conn_close(slot->conn);
    slot_free(slot);
}

/* Who connects and says nothing costs a descriptor for ten seconds. */
static void on_hello_timer(uv_timer_t *timer)
{
    struct server *s = server_of(timer->data);
    int64_t now_us = mono_now_us();
    int64_t hello_us = s->giver != NULL ? HELLO_STORE_US : HELLO_US;
    struct slot *slot;
    while ((slot = slots_oldest(s->slots)) != NULL &&
           now_us >= slot->since_us + hello_us)
        turn_away(slot, s->giver != NULL ? "it did not say who it is"
                                         : "it said nothing for 10 s");
    if (slots_strangers(s->slots) == 0)
        (void)uv_timer_stop(timer);
}

/*
 * Whether it may go where others want its place. What it said right behind its
 * connecting has been read after two turns of the loop: a launcher says all
 * that it takes by then, or with a token half of that, by which it proves that
 * it has the token. An older PyTorch has nothing to say (see turn_away).
 */
static bool may_go(const struct slot *slot)
{
    const struct server *s = slot->server;
    int64_t full_us = s->giver != NULL ? HELLO_STORE_FULL_US : HELLO_FULL_US;
    if (mono_now_us() >= slot->since_us + full_us)
        return true;
    return s->giver == NULL && s->turn >= slot->turn + 2 &&
           !conn_is_proved(slot->conn);
}

/* Strangers who hold every connection must not keep nodes out: one of them goes
 * for a connection that comes from `addr`. */
static void make_room(struct server *s, const char *addr)
{
    struct slot *slot = slots_victim(s->slots, addr, may_go);
    if (slot != NULL)
        turn_away(slot, "it said nothing, and others wait for its place");
}

/* -- connections ----------------------------------------------------------- */

static bool is_loopback(const char *addr)
{
    return strncmp(addr, "127.", 4) == 0 || strcmp(addr, "::1") == 0;
}

/* NULL where orders from there are carried out, else why they are not. */
static const char *why_no_orders(const struct server *s, const char *peer)
{
    switch (s->conf.orders) {
    case SERVER_ORDERS_NONE:
        return "this rendezvous takes no orders (--orders=none)";
    case SERVER_ORDERS_ANY:
        return NULL;
    case SERVER_ORDERS_DEFAULT:
        if (s->conf.key != NULL || is_loopback(peer))
            return NULL;
        return "without a token this rendezvous takes orders from its own host "
               "only, over loopback: run ddpctl there, or start ddprdzvd with "
               "--token_file or with --orders=any";
    case SERVER_ORDERS_LOCAL:
        if (is_loopback(peer))
            return NULL;
        return "this rendezvous takes orders from its own host only, over "
               "loopback (--orders=local): run ddpctl there";
    }
    DDP_WRONG("orders");
}

/* True where that was an order, and it was refused. */
static bool refuse_order(struct slot *slot, const struct msg *m)
{
    struct msg no = {.kind = MSG_KIND_refused, .refused.code = DDP_E_CONFIG};
    char peer[ADDR_TEXT_MAX];
    if (msg_sender(m->kind) != MSG_CTL || slot->joined)
        return false;
    conn_peer(slot->conn, peer);
    const char *why = why_no_orders(slot->server, peer);
    if (why == NULL)
        return false;
    msg_set(no.refused.text, why);
    complain(slot->server, slot->conn, "it gives orders and may not");
    conn_send(slot->conn, &no);
    conn_finish(slot->conn);
    slot_free(slot);
    return true;
}

static void on_msg(void *ctx, struct conn *c, const struct msg *m)
{
    struct slot *slot = ctx;
    struct server *s = server_of(slot->server);
    char peer[ADDR_TEXT_MAX] = "";
    char here[ADDR_TEXT_MAX] = "";
    if (refuse_order(slot, m))
        return;
    if (!slot->joined) {
        slots_join(s->slots, slot);
        conn_limit_frames(c, s->conf.frame_max > 0 ? (size_t)s->conf.frame_max
                                                   : FRAME_AGENT_MAX);
        conn_peer(c, peer);
        conn_here(c, here);
    }
    struct rdzv_event ev = {
        .kind = RDZV_MSG,
        .now_us = mono_now_us(),
        .conn = slot_index(slot),
        .msg = m,
        .peer_addr = peer,
        .here_addr = here,
    };
    step(s, &ev);
}

static void on_closed(
    void *ctx, struct conn *c, bool orderly, bool refused, const char *why)
{
    (void)refused;
    struct slot *slot = ctx;
    struct server *s = server_of(slot->server);
    struct rdzv_event ev = {
        .kind = RDZV_CLOSED,
        .now_us = mono_now_us(),
        .conn = slot_index(slot),
        .orderly = orderly,
    };
    bool joined = slot->joined;
    if (!orderly && joined) {
        s->counts.broken++;
        complain(s, c, why);
    } else if (!orderly) {
        complain_of(s, c,
                    conn_token_differs(c) ? STRANGER_TOKEN : STRANGER_PROTOCOL,
                    why);
    }
    slot_free(slot);
    if (joined)
        step(s, &ev);
}

/* Who asks by HTTP takes no node's place, nor does who wants the store. */
static void on_foreign(void *ctx, struct conn *c, enum first first)
{
    struct slot *slot = ctx;
    struct server *s = server_of(slot->server);
    if (first == FIRST_C10D && s->giver != NULL && conn_may_yield(c)) {
        hand_over(slot);
        return;
    }
    if (first != FIRST_HTTP || s->httpd == NULL)
        return;
    slot_free(slot);
    httpd_take(s->httpd, c);
}

static const struct conn_handler handler = {
    .on_msg = on_msg,
    .on_closed = on_closed,
    .on_foreign = on_foreign,
};

static void on_fd(void *ctx, int fd)
{
    struct server *s = server_of(ctx);
    struct ddp_err err;
    struct conn *c = conn_accept(s->loop, fd, &handler, NULL, &err);
    if (c == NULL) {
        complain_of(s, NULL, STRANGER_NOT_ACCEPTED, err.text);
        return;
    }
    s->counts.accepted++;
    conn_count(c, &s->counts.conn);
    conn_secure(c, s->conf.key);
    conn_limit_frames(c, STRANGER_FRAME_MAX);
    char peer[ADDR_TEXT_MAX];
    conn_peer(c, peer);
    if (slots_used(s->slots) == slots_max(s->slots))
        make_room(s, peer);
    struct slot *slot = slots_take(s->slots, c, peer);
    if (slot == NULL) {
        complain_of(s, c, STRANGER_NO_ROOM,
                    "there is no room for more connections");
        conn_close(c);
        return;
    }
    slot->server = s;
    slot->since_us = mono_now_us();
    slot->turn = s->turn;
    conn_set_ctx(c, slot);
    if (!uv_is_active((uv_handle_t *)&s->hello_timer))
        (void)uv_timer_start(&s->hello_timer, on_hello_timer, HELLO_SWEEP_MS,
                             HELLO_SWEEP_MS);
}

/* Fewer descriptors than were promised: the limit was lowered, or the whole
 * machine has none left. Those who wait come in for strangers who may go. */
static bool on_stuck(void *ctx, const char *why)
{
    struct server *s = server_of(ctx);
    int gone = 0;
    struct slot *slot;
    while (gone < DOOR_PER_TURN && (slot = slots_oldest(s->slots)) != NULL &&
           may_go(slot)) {
        turn_away(slot, "it said nothing, and others wait for its place");
        gone++;
    }
    if (gone > 0)
        return true;
    s->counts.strangers[STRANGER_NOT_ACCEPTED]++;
    if (may_say(s, &s->complaints, ""))
        log_warnx("cannot take connections: %s; who comes now waits until "
                  "there is room",
                  why);
    return false;
}

static const struct door_handler door_handler = {.on_fd = on_fd,
                                                 .on_stuck = on_stuck};

/* -- what is shown --------------------------------------------------------- */

static int on_get(void *ctx,
                  const struct http *request,
                  bool trusted,
                  struct httpd_answer *answer)
{
    const struct server *s = server_of(ctx);
    int64_t now_us = mono_now_us();
    struct site_view view = {
        .rdzv = s->rdzv,
        .daemon = {.incarnation = s->incarnation,
                   .uptime_us = now_us - s->opened_us,
                   .token = s->conf.key != NULL,
                   .nodes = slots_used(s->slots) - slots_strangers(s->slots),
                   .strangers = slots_strangers(s->slots),
                   .http = httpd_count(s->httpd),
                   .conns_max = slots_max(s->slots),
                   .http_max = s->conf.http_max,
                   .counts = &s->counts},
        .open_metrics = s->conf.open_metrics,
        .now_us = now_us,
    };
    return site_answer(&view, request, trusted, answer);
}

static void on_told(void *ctx, int status)
{
    status_count_http(&server_of(ctx)->counts, status);
}

static void serve_http(struct server *s, uv_loop_t *loop)
{
    struct httpd_conf conf = {.conns_max = s->conf.http_max,
                              .answer = on_get,
                              .told = on_told,
                              .ctx = s};
    if (s->conf.http_max > 0)
        s->httpd = httpd_open(loop, &conf);
}

void server_describe(const struct server *s, char *text, size_t size)
{
    int runs = rdzv_live_runs(s->rdzv);
    int nodes = rdzv_nodes(s->rdzv);
    (void)snprintf(text, /* cut, it is still a line */
                   size, "%d run%s, %d node%s", runs, runs == 1 ? "" : "s",
                   nodes, nodes == 1 ? "" : "s");
}

/* -- open and close -------------------------------------------------------- */

int server_raise_files(void)
{
    struct rlimit lim;
    if (getrlimit(RLIMIT_NOFILE, &lim) != 0)
        return 1024;
    rlim_t hard = lim.rlim_max == RLIM_INFINITY ? 1 << 20 : lim.rlim_max;
    if (lim.rlim_cur < hard) {
        lim.rlim_cur = hard;
        if (setrlimit(RLIMIT_NOFILE, &lim) != 0)
            (void)getrlimit(RLIMIT_NOFILE, &lim); /* as it was, then */
    }
    return lim.rlim_cur > 1 << 20 ? 1 << 20 : (int)lim.rlim_cur;
}

static void on_handle_closed(uv_handle_t *h)
{
    struct server *s = server_of(h->data);
    if (--s->open_handles > 0)
        return;
    rdzv_del(s->rdzv);
    slots_del(s->slots);
    s->magic = 0;
    free(s);
}

void server_close(struct server *s)
{
    if (s->closing)
        return;
    s->closing = true;
    tell_left_out(&s->complaints);
    tell_left_out(&s->notes);
    for (int i = 0; i < slots_max(s->slots); i++)
        if (slots_at(s->slots, i)->conn != NULL)
            conn_close(slots_at(s->slots, i)->conn);
    if (s->httpd != NULL)
        httpd_close(s->httpd);
    if (s->door != NULL)
        door_close(s->door);
    uv_close((uv_handle_t *)&s->timer, on_handle_closed);
    uv_close((uv_handle_t *)&s->hello_timer, on_handle_closed);
    uv_close((uv_handle_t *)&s->hush_timer, on_handle_closed);
    uv_close((uv_handle_t *)&s->check, on_handle_closed);
    uv_close((uv_handle_t *)&s->idle, on_handle_closed);
    if (s->giver != NULL)
        giver_close(s->giver);
    s->giver = NULL;
}

static int start_listening(struct server *s, int listen_fd, struct ddp_err *err)
{
    (void)uv_check_start(&s->check, on_check); /* cannot fail */
    conn_tune_listener(listen_fd);
    return door_open(&s->door, s->loop, listen_fd, &door_handler, s, err);
}

/*
 * Where descriptors are too few for all nodes that may come, fewer may come:
 * who is one too many must still get a connection, to be told so.
 */
static void fit_nodes(struct server *s, int conns_max, int files)
{
    int spare = conns_max / 4 < SPARE_CONNS ? conns_max / 4 : SPARE_CONNS;
    int fit = conns_max - spare;
    if (s->conf.nodes_max <= fit)
        return;
    if (conns_max == s->conf.conns_max)
        log_warnx("room for %d nodes, not for %d: only %d connections are "
                  "allowed (--max_connections)",
                  fit, s->conf.nodes_max, conns_max);
    else
        log_warnx("room for %d nodes, not for %d: only %d open files are "
                  "allowed (ulimit -n)",
                  fit, s->conf.nodes_max, files);
    s->conf.nodes_max = fit;
}

/* HTTP gets a sixteenth of few descriptors; returns how many that takes beside
 * the spare ones, of which two are for it. */
static int fit_http(struct server *s, int files)
{
    int room = (files - SPARE_FILES - CONNS_MIN) / 16 + SPARE_HTTP;
    if (s->conf.http_max > room)
        s->conf.http_max = room;
    return s->conf.http_max > SPARE_HTTP ? s->conf.http_max - SPARE_HTTP : 0;
}

/* Room for all that may be connected, as far as descriptors go. */
static int make_slots(struct server *s, struct ddp_err *err)
{
    int files = server_raise_files();
    int wanted = s->conf.conns_max > 0 ? s->conf.conns_max
                                       : s->conf.nodes_max + SPARE_CONNS;
    int room = files - SPARE_FILES - fit_http(s, files);
    if (s->conf.store_chan > 0) { /* and what waits to be handed over */
        int extra = room / 4 < STORE_CONNS ? room / 4 : STORE_CONNS;
        wanted += extra;
        room -= extra;
    }
    if (room < CONNS_MIN)
        return ddp_err_set(err, DDP_E_NOMEM,
                           "%d open files are too few to serve the rendezvous, "
                           "%d is the least (ulimit -n)",
                           files, SPARE_FILES + CONNS_MIN);
    wanted = wanted > CONNS_MIN ? wanted : CONNS_MIN;
    s->conf.conns_max = wanted;
    int conns_max = wanted < room ? wanted : room;
    fit_nodes(s, conns_max, files);
    s->slots = slots_new(conns_max);
    return 0;
}

static int share_of(int all, int percent)
{
    if (percent == 0)
        return all;
    return (int)(((int64_t)all * percent + 99) / 100);
}

/* Who has the token is trusted with all that there is. */
static struct rdzv_limits limits_of(const struct server *s)
{
    struct rdzv_limits limits = {.runs_max = s->conf.runs_max,
                                 .nodes_max = s->conf.nodes_max,
                                 .conns_max = slots_max(s->slots)};
    if (s->conf.key != NULL)
        return limits;
    limits.runs_share = share_of(limits.runs_max, s->conf.runs_share);
    limits.nodes_share = share_of(limits.nodes_max, s->conf.nodes_share);
    return limits;
}

int server_open(struct server **out,
                uv_loop_t *loop,
                int listen_fd,
                const struct server_conf *conf,
                struct ddp_err *err)
{
    struct server *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a server");
    s->magic = SERVER_MAGIC;
    s->conf = *conf;
    s->loop = loop;
    if (make_slots(s, err) != 0 ||
        (conf->store_chan > 0 &&
         giver_open(&s->giver, loop, conf->store_chan, err) != 0)) {
        slots_del(s->slots);
        free(s);
        return -1;
    }
    struct rdzv_limits limits = limits_of(s);
    s->rdzv = rdzv_new(&limits, rng_seed());
    hush_init(&s->complaints, COMPLAINTS_AT_ONCE, COMPLAINTS_PER_SEC);
    hush_init(&s->notes, NOTES_AT_ONCE, NOTES_PER_SEC);
    rng_id(s->incarnation);
    s->opened_us = mono_now_us();
    (void)uv_timer_init(loop, &s->timer);
    (void)uv_timer_init(loop, &s->hello_timer);
    (void)uv_timer_init(loop, &s->hush_timer);
    (void)uv_check_init(loop, &s->check);
    (void)uv_idle_init(loop, &s->idle);
    s->open_handles = 5;
    s->timer.data = s->hello_timer.data = s->hush_timer.data = s->check.data =
        s->idle.data = s;
    serve_http(s, loop);
    if (start_listening(s, listen_fd, err) != 0) {
        server_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

/* -- as a process ---------------------------------------------------------- */

/* Connections that are being finished may have an END to bring: the loop runs
 * until they are gone. */
static void close_when_idle(void *ctx)
{
    server_close(*(struct server **)ctx);
}

void server_main(int listen_fd,
                 int store_chan,
                 int nodes_max,
                 bool debug,
                 struct tls_key *key)
{
    uv_loop_t loop;
    struct server *s = NULL;
    struct ddp_err err;
    struct server_conf conf = {
        .runs_max = 16,
        .nodes_max = nodes_max,
        .runs_share = 75, /* its own job has one */
        .nodes_share = 100,
        .http_max = 8,
        .debug = debug,
        .quiet = true,
        .key = key,
        .store_chan = store_chan,
        .on_idle = close_when_idle,
        .ctx = &s,
    };
    if (uv_loop_init(&loop) != 0)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "cannot start an event loop");
    if (server_open(&s, &loop, listen_fd, &conf, &err) != 0)
        fatalx(ddp_code_exit(err.code), "%s", err.text);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    _exit(0);
}
