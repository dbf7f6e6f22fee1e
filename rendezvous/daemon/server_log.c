/*
 * Two allowances: one for complaints (rejected connections, refused joins and
 * orders), which a hostile peer can cause without end, and a larger one for
 * notes about nodes, so that a thousand nodes that join at once are all told
 * of. A line that is left out starts a timer; when it fires, how many were left
 * out until then is told.
 */
#include "rendezvous/daemon/server_log.h"

#include <stdlib.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/log_limit.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/conn.h"

#define LOG_MAGIC          0x536c6f67u
#define COMPLAINTS_AT_ONCE 10 /* lines about what is refused ... */
#define COMPLAINTS_PER_SEC 2
#define NOTES_AT_ONCE      500 /* ... and about what nodes do */
#define NOTES_PER_SEC      2

struct server_log {
    unsigned magic;
    struct server_log_conf conf;
    uv_timer_t timer; /* runs while something is left out */
    bool closing;
    struct log_limit complaints, notes;
};

static struct server_log *log_of(void *data)
{
    struct server_log *l = data;
    ddp_assert(l->magic == LOG_MAGIC);
    return l;
}

static void tell_left_out(struct server_log *l)
{
    char line[160];
    while (log_limit_tell(&l->complaints, line, sizeof(line)) ||
           log_limit_tell(&l->notes, line, sizeof(line)))
        log_warnx("%s", line);
}

static void on_timer(uv_timer_t *timer)
{
    tell_left_out(log_of(timer->data));
}

/* Whether one more line may be logged. */
static bool may_say(struct server_log *l, struct log_limit *h)
{
    if (log_limit_may(h, mono_now_us()))
        return true;
    if (!l->closing && !uv_is_active((uv_handle_t *)&l->timer))
        (void)uv_timer_start(&l->timer, on_timer, LOG_LIMIT_TELL_US / MONO_MS,
                             0);
    return false;
}

void server_log_closed(struct server_log *l,
                       const struct conn *c,
                       const char *why)
{
    char peer[ADDR_TEXT_MAX] = "";
    if (c != NULL)
        conn_peer(c, peer);
    if (may_say(l, &l->complaints))
        log_warnx("connection from %s closed: %s",
                  peer[0] != '\0' ? peer : "an unknown address", why);
}

void server_log_broken(struct server_log *l,
                       const struct conn *c,
                       const char *why)
{
    char peer[ADDR_TEXT_MAX] = "";
    conn_peer(c, peer);
    if (l->conf.debug || (!l->conf.quiet && may_say(l, &l->complaints)))
        log_warnx("connection of a node at %s broke: %s", peer, why);
}

void server_log_rejected(struct server_log *l,
                         const struct conn *c,
                         enum reject what,
                         const char *why)
{
    ddp_assert((unsigned)what < REJECT_COUNT);
    l->conf.counts->rejected[what]++;
    server_log_closed(l, c, why);
}

void server_log_stuck(struct server_log *l, const char *why)
{
    l->conf.counts->rejected[REJECT_NOT_ACCEPTED]++;
    if (may_say(l, &l->complaints))
        log_warnx(
            "cannot accept connections: %s; new ones wait in the kernel's "
            "queue until a descriptor is free (ulimit -n)",
            why);
}

void server_log_note(struct server_log *l, const struct note *n)
{
    enum note_level level = note_level(n->kind);
    bool refused = n->kind == NOTE_refused || n->kind == NOTE_order_refused;
    if (level == NOTE_FACT)
        return;
    if (!l->conf.debug && (l->conf.quiet || level == NOTE_DEBUG ||
                           !may_say(l, refused ? &l->complaints : &l->notes)))
        return;
    char line[1024];
    note_format(n, line, sizeof(line));
    if (level == NOTE_WARN)
        log_warnx("%s", line);
    else
        log_info("%s", line);
}

struct server_log *server_log_open(uv_loop_t *loop,
                                   const struct server_log_conf *conf)
{
    struct server_log *l = calloc(1, sizeof(*l));
    if (l == NULL)
        DDP_WRONG("out of memory while the server is made");
    l->magic = LOG_MAGIC;
    l->conf = *conf;
    log_limit_init(&l->complaints, COMPLAINTS_AT_ONCE, COMPLAINTS_PER_SEC);
    log_limit_init(&l->notes, NOTES_AT_ONCE, NOTES_PER_SEC);
    (void)uv_timer_init(loop, &l->timer); /* cannot fail */
    l->timer.data = l;
    return l;
}

static void on_handle_closed(uv_handle_t *h)
{
    struct server_log *l = log_of(h->data);
    l->magic = 0;
    free(l);
}

void server_log_close(struct server_log *l)
{
    ddp_assert(!l->closing);
    l->closing = true;
    tell_left_out(l);
    uv_close((uv_handle_t *)&l->timer, on_handle_closed);
}
