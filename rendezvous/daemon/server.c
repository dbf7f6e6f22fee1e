/*
 * Happy path: the listener accepts a descriptor (on_fd), daemon/pending gives
 * the connection a slot, and its first message joins the slot (on_msg). From
 * then on each message, each end and each tick is one event of the core. The
 * core's actions are carried out at once (act).
 *
 * A tick is never judged before every socket was read: the timer only marks it
 * as due, and the check handle, which libuv runs behind the poll, steps the
 * core. So a beat that lies in a socket's buffer counts, however late the
 * server wakes. An idle handle keeps that poll from sleeping.
 *
 * What else happens:
 * - first bytes that are another protocol's: HTTP goes to http/httpd, c10d to
 *   the store, anything else ends the connection (on_foreign);
 * - a connection ends before it joined: it is counted as rejected, and the core
 *   never hears of it. After that the core is told;
 * - no slot: daemon/pending makes one give way, or the newcomer is closed;
 * - no descriptor: pending connections give way, or the kernel's queue waits;
 * - an order that may not be given here: it is refused with the reason;
 * - the core runs out of deadlines: no timer runs.
 */
#include "rendezvous/daemon/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/account/account.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/utc.h"
#include "rendezvous/base/open_files.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/core/rdzv.h"
#include "rendezvous/daemon/conn_slots.h"
#include "rendezvous/daemon/outbox.h"
#include "rendezvous/daemon/pending.h"
#include "rendezvous/daemon/server_log.h"
#include "rendezvous/http/http_routes.h"
#include "rendezvous/http/overview.h"
#include "rendezvous/http/viewers.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/net/conn.h"
#include "rendezvous/net/listener.h"
#include "rendezvous/proto/frame.h"

#define SERVER_MAGIC      0x72647a76u
#define LAG_WORTH_US      (50 * MONO_MS)
#define PENDING_FRAME_MAX 8192 /* no join is longer, however escaped */

struct server {
    unsigned magic;
    struct server_conf conf;
    uv_loop_t *loop;
    struct listener *listeners[2]; /* NULL: not open */
    uv_timer_t timer;
    uv_check_t check;
    uv_idle_t idle; /* runs while a tick is due */
    struct rdzv *rdzv;
    struct account *accounts;  /* what the time of each run went to */
    struct httpd *httpd;       /* NULL: HTTP is not served */
    struct viewers *viewers;   /* NULL: as httpd */
    struct overview *overview; /* what they are shown; NULL: as httpd */
    struct overview *status;   /* the same for who asks once */
    struct http_hosts http_hosts;
    struct status_counts counts;
    char incarnation[RNG_ID_LEN + 1];
    int64_t opened_us;
    struct server_capacity capacity;
    struct conn_slots *slots;
    struct outbox *outbox;
    struct server_log *log;
    struct pending_conns *pending;
    int64_t due_us; /* when the timer was to fire */
    bool tick_due;
    bool closing;
    int open_handles;
};

static void step(struct server *s, const struct rdzv_event *ev);

static struct server *server_of(void *data)
{
    struct server *s = data;
    ddp_assert(s->magic == SERVER_MAGIC);
    return s;
}

/* What the page shows has changed: all but the beats and their answers. */
static void tell_viewers(struct server *s)
{
    if (s->viewers != NULL)
        viewers_changed(s->viewers);
}

/* -- the core's actions ---------------------------------------------------- */

static bool is_known(const struct conn_slot *slot)
{
    return slot->state == CONN_SLOT_JOINED || slot->asks;
}

/* The core speaks of connections that it was told of, and of no others. */
static struct conn_slot *known_at(struct server *s, int conn)
{
    struct conn_slot *slot = conn_slots_at(s->slots, conn);
    ddp_assert(is_known(slot) && slot->server == s);
    return slot;
}

static void act(void *ctx, const struct rdzv_action *a)
{
    struct server *s = server_of(ctx);
    if (a->kind != RDZV_SEND || a->msg->kind != MSG_KIND_lease)
        tell_viewers(s);
    switch (a->kind) {
    case RDZV_SEND:
        outbox_send(s->outbox, known_at(s, a->conn), a->msg);
        return;
    case RDZV_DROP: {
        struct conn_slot *slot = known_at(s, a->conn);
        struct conn *c = slot->conn;
        conn_slots_free(s->slots, slot);
        conn_finish(c);
        return;
    }
    case RDZV_NOTE:
        if (a->note->run_at >= 0)
            account_take(&s->accounts[a->note->run_at], a->note);
        server_log_note(s->log, a->note);
        return;
    }
    DDP_WRONG("action");
}

/* -- time ------------------------------------------------------------------ */

static void on_idle(uv_idle_t *idle)
{
    (void)server_of(idle->data); /* it only keeps the poll from sleeping */
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
    pending_turn(s->pending);
    if (s->tick_due && !s->closing)
        on_tick_due(s);
}

/* While no run has ended here nodes may come that look for one, be it served
 * elsewhere by now: they are told where it is. */
static bool is_idle(const struct server *s)
{
    return rdzv_ended_runs(s->rdzv) > 0 && rdzv_nodes(s->rdzv) == 0 &&
           rdzv_live_runs(s->rdzv) == 0;
}

static void step(struct server *s, const struct rdzv_event *ev)
{
    struct rdzv_actions out = {.emit = act, .ctx = s};
    rdzv_step(s->rdzv, ev, &out);
    outbox_flush(s->outbox);
    if (s->conf.on_idle != NULL && is_idle(s)) {
        s->conf.on_idle(s->conf.ctx);
        return;
    }
    arm(s);
}

/* -- connections ----------------------------------------------------------- */

/* No other host can connect from one of these addresses. "": it is not known.
 */
static bool is_of_this_host(const char *peer, const char *here)
{
    if (peer[0] == '\0')
        return false;
    return strncmp(peer, "127.", 4) == 0 || strcmp(peer, "::1") == 0 ||
           strcmp(peer, here) == 0;
}

/* Orders from this peer are carried out, whichever run they are about. */
static bool
is_trusted(const struct server *s, const char *peer, const char *here)
{
    return s->conf.orders == SERVER_ORDERS_ANY ||
           (s->conf.orders == SERVER_ORDERS_DEFAULT && s->conf.key != NULL) ||
           is_of_this_host(peer, here);
}

/* NULL: orders from this peer may be carried out; else why they are not. */
static const char *
why_no_orders(const struct server *s, const char *peer, const char *here)
{
    if (s->conf.orders == SERVER_ORDERS_NONE)
        return "this rendezvous takes no orders (--orders=none)";
    if (s->conf.orders == SERVER_ORDERS_LOCAL && !is_of_this_host(peer, here))
        return "this rendezvous takes orders from its own host only "
               "(--orders=local): run ddpctl there";
    return NULL;
}

/* True: the message was an order, and it was refused. */
static bool
refuse_order(struct server *s, struct conn_slot *slot, const struct msg *m)
{
    char peer[ADDR_TEXT_MAX], here[ADDR_TEXT_MAX];
    if (!msg_is_from(m->kind, MSG_CTL))
        return false;
    conn_peer(slot->conn, peer);
    conn_here(slot->conn, here);
    const char *why = why_no_orders(s, peer, here);
    if (why == NULL)
        return false;
    struct msg no = {.kind = MSG_KIND_refused, .refused.code = DDP_E_CONFIG};
    msg_set(no.refused.text, why);
    server_log_closed(s->log, slot->conn,
                      "orders are not taken from this address");
    conn_send(slot->conn, &no);
    conn_finish(slot->conn);
    conn_slots_free(s->slots, slot);
    return true;
}

/* Whether the page shows more than before by what a node says. Most beats say
 * only that it lives. */
static bool is_news(struct conn_slot *slot, const struct msg *m)
{
    if (m->kind != MSG_KIND_beat)
        return true;
    bool stands = m->beat.stands[0] != '\0';
    bool same = slot->round == m->beat.round && slot->steps == m->beat.steps &&
                slot->stands == stands;
    slot->round = m->beat.round;
    slot->steps = m->beat.steps;
    slot->stands = stands;
    return !same;
}

/* What the core knows of has ended here. */
static void tell_closed(struct server *s, int conn)
{
    struct rdzv_event ev = {
        .kind = RDZV_CLOSED, .now_us = mono_now_us(), .conn = conn};
    tell_viewers(s);
    step(s, &ev);
}

/* Whose peer has said something else before, be it only a question: who gives
 * orders is known of the first message alone. */
static void end_late_order(struct server *s, struct conn_slot *slot)
{
    struct conn *c = slot->conn;
    int conn = conn_slots_index(s->slots, slot);
    server_log_closed(s->log, c, "an order is the first message, or none");
    conn_slots_free(s->slots, slot);
    conn_finish(c);
    tell_closed(s, conn);
}

/* The first message; or after questions, which make nobody of their peer. */
static void
welcome(struct server *s, struct conn_slot *slot, enum msg_kind kind)
{
    if (kind == MSG_KIND_serves) {
        conn_slots_ask(s->slots, slot);
        slot->since_us = mono_now_us();
        return;
    }
    conn_slots_join(s->slots, slot);
    conn_limit_frames(slot->conn, s->conf.frame_max > 0
                                      ? (size_t)s->conf.frame_max
                                      : FRAME_AGENT_MAX);
}

static void on_msg(void *ctx, struct conn *c, const struct msg *m)
{
    struct conn_slot *slot = conn_slot_of(ctx);
    struct server *s = server_of(slot->server);
    char peer[ADDR_TEXT_MAX] = "";
    char here[ADDR_TEXT_MAX] = "";
    ddp_assert(slot->conn == c && !s->closing);
    if (msg_is_from(m->kind, MSG_CTL) && is_known(slot)) {
        end_late_order(s, slot);
        return;
    }
    if (refuse_order(s, slot, m))
        return;
    if (slot->state == CONN_SLOT_PENDING) {
        conn_peer(c, peer);
        conn_here(c, here);
        welcome(s, slot, m->kind);
    }
    if (is_news(slot, m))
        tell_viewers(s);
    struct rdzv_event ev = {
        .kind = RDZV_MSG,
        .now_us = mono_now_us(),
        .conn = conn_slots_index(s->slots, slot),
        .msg = m,
        .peer_addr = peer,
        .here_addr = here,
        .trusted = is_trusted(s, peer, here),
    };
    step(s, &ev);
}

static void on_closed(void *ctx, struct conn *c, const char *why)
{
    struct conn_slot *slot = conn_slot_of(ctx);
    struct server *s = server_of(slot->server);
    int conn = conn_slots_index(s->slots, slot);
    bool known = is_known(slot);
    bool broke = !conn_was_finished(c);
    if (broke && known) {
        s->counts.broken++;
        server_log_broken(s->log, c, why);
    } else if (broke && !conn_has_heard(c)) {
        s->counts.rejected[REJECT_SILENT]++; /* looked whether we listen */
    } else if (broke) {
        server_log_rejected(
            s->log, c, conn_token_differs(c) ? REJECT_TOKEN : REJECT_PROTOCOL,
            why);
    }
    conn_slots_free(s->slots, slot);
    if (known)
        tell_closed(s, conn);
}

/* Neither an HTTP request nor a client of the store takes a node's place. */
static void on_foreign(void *ctx, struct conn *c, enum first first)
{
    struct conn_slot *slot = conn_slot_of(ctx);
    struct server *s = server_of(slot->server);
    ddp_assert(slot->state == CONN_SLOT_PENDING);
    if (first == FIRST_C10D && pending_hand_over(s->pending, slot))
        return;
    if (first != FIRST_HTTP || s->httpd == NULL)
        return;
    conn_slots_free(s->slots, slot);
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
        server_log_rejected(s->log, NULL, REJECT_NOT_ACCEPTED, err.text);
        return;
    }
    s->counts.accepted++;
    conn_count(c, &s->counts.conn);
    conn_secure(c, s->conf.key);
    conn_limit_frames(c, PENDING_FRAME_MAX);
    struct conn_slot *slot = pending_take(s->pending, c);
    if (slot == NULL) {
        server_log_rejected(s->log, c, REJECT_NO_ROOM,
                            "all connections that are allowed are in use");
        conn_close(c);
        return;
    }
    slot->server = s;
    conn_set_ctx(c, slot);
}

/* Fewer descriptors than were promised: the limit was lowered, or the whole
 * machine has none left. Pending connections give way to those that wait. */
static bool on_stuck(void *ctx, const char *why)
{
    struct server *s = server_of(ctx);
    if (pending_give_way(s->pending))
        return true;
    server_log_stuck(s->log, why);
    return false;
}

static const struct listener_handler listener_handler = {.on_fd = on_fd,
                                                         .on_stuck = on_stuck};

/* -- what is shown --------------------------------------------------------- */

static struct status_daemon describe(const struct server *s, int64_t now_us)
{
    return (struct status_daemon){
        .incarnation = s->incarnation,
        .uptime_us = now_us - s->opened_us,
        .token = s->conf.key != NULL,
        .nodes = conn_slots_used(s->slots) - conn_slots_pending(s->slots),
        .pending = conn_slots_pending(s->slots),
        .http = httpd_count(s->httpd) + viewers_count(s->viewers),
        .conns_max = conn_slots_max(s->slots),
        .http_max = s->capacity.http_max,
        .counts = &s->counts,
        .accounts = s->accounts,
    };
}

static int on_get(void *ctx,
                  const struct http *request,
                  bool trusted,
                  struct httpd_answer *answer)
{
    const struct server *s = server_of(ctx);
    int64_t now_us = mono_now_us();
    struct http_routes_view view = {
        .rdzv = s->rdzv,
        .overview = s->status,
        .daemon = describe(s, now_us),
        .hosts = &s->http_hosts,
        .open_metrics = s->conf.open_metrics,
        .when = {.now_us = now_us, .unix_us = utc_unix_us()},
    };
    return http_routes_answer(&view, request, trusted, answer);
}

static bool on_viewer(void *ctx, struct conn *c)
{
    return viewers_take(server_of(ctx)->viewers, c);
}

static int on_document(void *ctx, struct buf *out)
{
    const struct server *s = server_of(ctx);
    struct status_when when = {.now_us = mono_now_us(),
                               .unix_us = utc_unix_us()};
    struct status_daemon d = describe(s, when.now_us);
    return overview_step(s->overview, out, s->rdzv, &d, &when, NULL);
}

static void on_told(void *ctx, int status)
{
    status_count_http(&server_of(ctx)->counts, status);
}

static void serve_http(struct server *s, uv_loop_t *loop)
{
    int viewers_max = viewers_share(s->capacity.http_max);
    struct httpd_conf conf = {.conns_max = s->capacity.http_max - viewers_max,
                              .answer = on_get,
                              .on_viewer = on_viewer,
                              .told = on_told,
                              .ctx = s};
    struct viewers_conf viewers = {
        .max = viewers_max, .document = on_document, .ctx = s};
    const char *names = s->conf.http_hosts;
    http_hosts_init(&s->http_hosts, names != NULL ? names : "");
    if (s->capacity.http_max == 0)
        return;
    s->httpd = httpd_open(loop, &conf);
    s->overview = overview_new();
    s->status = overview_new();
    s->viewers = viewers_open(loop, &viewers);
}

void server_describe(const struct server *s, char *text, size_t size)
{
    int runs = rdzv_live_runs(s->rdzv);
    int nodes = rdzv_nodes(s->rdzv);
    (void)snprintf(text, /* may be cut */ size, "%d run%s, %d node%s", runs,
                   runs == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s");
}

/* -- open and close -------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *h)
{
    struct server *s = server_of(h->data);
    ddp_assert(s->closing && s->open_handles > 0);
    if (--s->open_handles > 0)
        return;
    rdzv_del(s->rdzv);
    free(s->accounts);
    outbox_del(s->outbox);
    conn_slots_del(s->slots);
    s->magic = 0;
    free(s);
}

void server_close(struct server *s)
{
    if (s->closing)
        return;
    s->closing = true;
    for (int i = 0; i < conn_slots_max(s->slots); i++)
        if (conn_slots_at(s->slots, i)->conn != NULL)
            conn_close(conn_slots_at(s->slots, i)->conn);
    if (s->httpd != NULL) {
        httpd_close(s->httpd);
        viewers_close(s->viewers);
        overview_del(s->overview);
        overview_del(s->status);
    }
    for (int i = 0; i < 2; i++)
        if (s->listeners[i] != NULL)
            listener_close(s->listeners[i]);
    uv_close((uv_handle_t *)&s->timer, on_handle_closed);
    uv_close((uv_handle_t *)&s->check, on_handle_closed);
    uv_close((uv_handle_t *)&s->idle, on_handle_closed);
    if (s->pending != NULL)
        pending_close(s->pending);
    server_log_close(s->log);
}

static int start_listening(struct server *s, int listen_fd, struct ddp_err *err)
{
    (void)uv_check_start(&s->check, on_check); /* cannot fail */
    conn_tune_listener(listen_fd);
    return listener_open(&s->listeners[0], s->loop, listen_fd,
                         &listener_handler, s, err);
}

/* All that needs no I/O. */
static void make_parts(struct server *s)
{
    struct rdzv_limits limits = {.runs_max = s->conf.limits.runs_max,
                                 .nodes_max = s->capacity.nodes_max,
                                 .conns_max = s->capacity.conns_max,
                                 .trusted = s->conf.key != NULL,
                                 .embedded = s->conf.embedded};
    rng_id(s->incarnation);
    s->opened_us = limits.began_us = mono_now_us();
    memcpy(limits.server, s->incarnation, MSG_VOTER_LEN); /* ends with NUL */
    struct server_log_conf log = {
        .counts = &s->counts, .debug = s->conf.debug, .quiet = s->conf.quiet};
    s->slots = conn_slots_new(s->capacity.conns_max);
    s->outbox = outbox_new(s->slots);
    s->rdzv = rdzv_new(&limits, rng_seed());
    s->accounts = calloc((size_t)limits.runs_max, sizeof(s->accounts[0]));
    if (s->accounts == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for the runs' sums");
    s->log = server_log_open(s->loop, &log);
    (void)uv_timer_init(s->loop, &s->timer); /* these three cannot fail */
    (void)uv_check_init(s->loop, &s->check);
    (void)uv_idle_init(s->loop, &s->idle);
    s->open_handles = 3;
    s->timer.data = s->check.data = s->idle.data = s;
    serve_http(s, s->loop);
}

int server_open(struct server **out,
                uv_loop_t *loop,
                int listen_fd,
                const struct server_conf *conf,
                struct ddp_err *err)
{
    struct server *s = calloc(1, sizeof(*s));
    if (s == NULL)
        ddp_err_set(err, DDP_E_NOMEM, "no memory for the rendezvous server");
    if (s == NULL ||
        server_fit(&s->capacity, &conf->limits, conf->store_chan > 0,
                   open_files_raise(), err) != 0) {
        (void)close(listen_fd);
        if (conf->store_chan > 0)
            (void)close(conf->store_chan);
        free(s);
        return -1;
    }
    s->magic = SERVER_MAGIC;
    s->conf = *conf;
    s->loop = loop;
    make_parts(s);
    int rc = pending_open(&s->pending, loop, s->slots, s->log, conf->store_chan,
                          err);
    if (rc != 0)
        (void)close(listen_fd);
    else
        rc = start_listening(s, listen_fd, err);
    if (rc != 0) {
        server_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

/* -- as a process ---------------------------------------------------------- */

/* At this socket as well, which it owns from here on, also if it fails. */
static int listen_too(struct server *s, int listen_fd, struct ddp_err *err)
{
    ddp_assert(s->listeners[1] == NULL && !s->closing);
    conn_tune_listener(listen_fd);
    return listener_open(&s->listeners[1], s->loop, listen_fd,
                         &listener_handler, s, err);
}

/* Connections that are being finished may still have an END to send: the loop
 * runs until they are gone. */
static void close_when_idle(void *ctx)
{
    struct server **s = ctx;
    if (*s != NULL)
        server_close(*s);
    *s = NULL;
}

void server_main(const struct server_process *p)
{
    uv_loop_t loop;
    struct server *s = NULL;
    struct ddp_err err;
    struct server_conf conf = {
        .limits = {.runs_max = 16, .nodes_max = p->nodes_max, .http_max = 32},
        .debug = p->debug,
        .quiet = true,
        .embedded = true,
        .http_hosts = p->http_hosts,
        .key = p->key,
        .store_chan = p->store_chan,
        .on_idle = close_when_idle,
        .ctx = &s,
    };
    int rc = uv_loop_init(&loop);
    if (rc != 0)
        fatalx(ddp_code_exit(DDP_E_NOMEM),
               "cannot start the rendezvous server: no event loop: %s",
               uv_strerror(rc));
    if (server_open(&s, &loop, p->listen_fd, &conf, &err) != 0 ||
        (p->also_fd > 0 && listen_too(s, p->also_fd, &err) != 0))
        fatalx(ddp_code_exit(err.code), "%s", err.text);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    _exit(0);
}
