/*
 * worker_rt/store: one request at a time: connect if need be, send it, read
 * the one reply, until the deadline.
 *
 * A request that failed half way leaves the connection in a state that nobody
 * knows (a reply under way, a request half sent), so every failure closes it.
 * No request is repeated by itself: ADD is not idempotent, and a store that is
 * gone means that the round is over.
 */
#include "worker_rt/store.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/proto/c10d.h"
#include "worker_rt/ddp.h"
#include "worker_rt/sock.h"

#define BUF_MAX     (C10D_VALUE_MAX + C10D_KEY_MAX + READ_LARGE)
#define TRY_MAX_US  (5 * MONO_S) /* for one address */
#define PAUSE_FIRST 10u          /* ms, doubled .. */
#define PAUSE_MAX   1000u        /* .. up to */
#define READ_SIZE   4096u
#define READ_LARGE  65536u /* once a reply is known to be long */

_Static_assert(DDP_STORE_KEY_MAX + 1 <= C10D_KEY_MAX, "ddp.h promises less");
_Static_assert(DDP_STORE_VALUE_MAX <= C10D_VALUE_MAX, "ddp.h promises less");

void store_init(struct store *s, const char *host, uint16_t port)
{
    *s = (struct store){.port = port, .fd = -1};
    (void)snprintf(s->host, sizeof(s->host), "%s", host); /* fits: header */
    buf_init(&s->in, BUF_MAX);
    buf_init(&s->out, BUF_MAX);
}

static void drop(struct store *s)
{
    if (s->fd >= 0)
        (void)close(s->fd); /* nothing of it is wanted any more */
    s->fd = -1;
    buf_free(&s->in);
    buf_free(&s->out);
}

void store_free(struct store *s)
{
    drop(s);
}

/* -- waiting --------------------------------------------------------------- */

/* 1: ready, 0: the deadline came, -1 with errno. */
static int wait_fd(int fd, short events, int64_t deadline_us)
{
    struct pollfd p = {.fd = fd, .events = events};
    for (;;) {
        int n = poll(&p, 1, sock_poll_ms(deadline_us));
        if (n > 0)
            return 1;
        if (n == 0 && mono_now_us() >= deadline_us)
            return 0;
        if (n < 0 && errno != EINTR)
            return -1;
    }
}

static int timed_out(struct store *s, struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_TIMEOUT,
                       "the store at %s port %u did not answer in time",
                       s->host, s->port);
}

static int lost(struct store *s, struct ddp_err *err)
{
    if (errno == 0)
        return ddp_err_set(err, DDP_E_LOST,
                           "the store at %s port %u closed the connection",
                           s->host, s->port);
    return ddp_err_sys(err, DDP_E_LOST,
                       "the connection to the store at %s port %u broke",
                       s->host, s->port);
}

static int
wait_io(struct store *s, short events, int64_t deadline_us, struct ddp_err *err)
{
    int ready = wait_fd(s->fd, events, deadline_us);
    if (ready < 0)
        return lost(s, err);
    return ready > 0 ? 0 : timed_out(s, err);
}

/* -- connecting ------------------------------------------------------------ */

/* One address; -1 with errno. */
static int dial(const struct addrinfo *to, int64_t deadline_us)
{
    int fd =
        socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    sock_tune(fd);
    int why = 0;
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0)
        why = errno;
    if (why == EINPROGRESS || why == EINTR) {
        int ready = wait_fd(fd, POLLOUT, deadline_us);
        why = ready > 0 ? sock_error(fd) : ready == 0 ? ETIMEDOUT : errno;
    }
    /* A store always reads: silence means that the line is cut. */
    unsigned silent_ms = SOCK_SILENT_MS;
    if (why == 0 && setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent_ms,
                               sizeof(silent_ms)) == 0)
        return fd;
    if (why == 0)
        why = errno;
    (void)close(fd); /* nothing was sent yet */
    errno = why;
    return -1;
}

/* All addresses of the host once; -1 with `why` saying how the last failed. */
static int
dial_all(struct store *s, int64_t deadline_us, char *why, size_t why_len)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", s->port); /* five digits */
    int rc = getaddrinfo(s->host, port, &hints, &list);
    if (rc != 0) {
        (void)snprintf(why, why_len, "%s", gai_strerror(rc)); /* short */
        return -1;
    }
    int fd = -1;
    for (struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next) {
        int64_t try_us = mono_after(mono_now_us(), TRY_MAX_US);
        fd = dial(a, mono_min(try_us, deadline_us));
        if (fd < 0)
            (void)snprintf(why, why_len, "%s", strerror(errno)); /* short */
    }
    freeaddrinfo(list);
    return fd;
}

static int unreachable(struct store *s,
                       int64_t since_us,
                       const char *why,
                       struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_UNREACHABLE,
                       "no connection to the store at %s port %u (MASTER_ADDR, "
                       "MASTER_PORT) within %.1f s: %s",
                       s->host, s->port,
                       (double)(mono_now_us() - since_us) / (double)MONO_S,
                       why);
}

/* All workers of a job start in one moment: the pauses are jittered, so that
 * they do not come back in one moment too. */
static int
connect_until(struct store *s, int64_t deadline_us, struct ddp_err *err)
{
    int64_t since_us = mono_now_us();
    uint32_t pause_ms = PAUSE_FIRST;
    char why[128] = "";
    struct rng jitter;
    rng_init(&jitter, rng_seed());
    for (;;) {
        s->fd = dial_all(s, deadline_us, why, sizeof(why));
        if (s->fd >= 0)
            return c10d_put_hello(&s->out, err);
        int64_t wake_us =
            mono_after(mono_now_us(),
                       (pause_ms / 2 + rng_below(&jitter, pause_ms)) * MONO_MS);
        if (wake_us >= deadline_us)
            return unreachable(s, since_us, why, err);
        (void)wait_fd(-1, 0, wake_us); /* only sleeps */
        pause_ms = pause_ms * 2 > PAUSE_MAX ? PAUSE_MAX : pause_ms * 2;
    }
}

int store_ready(struct store *s, int64_t deadline_us, struct ddp_err *err)
{
    if (*s->host == '\0')
        return ddp_err_set(err, DDP_E_UNREACHABLE,
                           "there is no store: MASTER_ADDR and MASTER_PORT "
                           "are not set");
    return s->fd >= 0 ? 0 : connect_until(s, deadline_us, err);
}

/* -- bytes ----------------------------------------------------------------- */

static int flush(struct store *s, int64_t deadline_us, struct ddp_err *err)
{
    while (buf_len(&s->out) > 0) {
        ssize_t n =
            send(s->fd, buf_head(&s->out), buf_len(&s->out), MSG_NOSIGNAL);
        if (n >= 0)
            buf_take(&s->out, (size_t)n);
        else if (errno == EAGAIN && wait_io(s, POLLOUT, deadline_us, err) != 0)
            return -1;
        else if (errno != EAGAIN && errno != EINTR)
            return lost(s, err);
    }
    return 0;
}

static int read_more(struct store *s, int64_t deadline_us, struct ddp_err *err)
{
    size_t size = buf_len(&s->in) < READ_SIZE ? READ_SIZE : READ_LARGE;
    for (;;) {
        uint8_t *room = buf_reserve(&s->in, size);
        if (room == NULL)
            return ddp_err_set(err, DDP_E_NOMEM, "no memory for a reply");
        ssize_t n = recv(s->fd, room, size, 0);
        if (n > 0) {
            buf_commit(&s->in, (size_t)n);
            return 0;
        }
        if (n == 0)
            errno = 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0 || errno != EAGAIN)
            return lost(s, err);
        if (wait_io(s, POLLIN, deadline_us, err) != 0)
            return -1;
    }
}

/* -- replies --------------------------------------------------------------- */

static enum c10d_status
look(struct store *s, struct store_reply *r, struct ddp_err *err)
{
    const uint8_t *data = buf_head(&s->in);
    size_t len = buf_len(&s->in);
    if (len == 0)
        return C10D_MORE;
    switch (r->kind) {
    case REPLY_NONE:
        return C10D_DONE;
    case REPLY_BYTE:
        return c10d_reply_byte(data, len, &r->byte, &r->used, err);
    case REPLY_NUMBER:
        return c10d_reply_number(data, len, &r->number, &r->used);
    case REPLY_VALUE:
        return c10d_reply_value(data, len, &r->value, &r->used, err);
    }
    DDP_WRONG("kind of reply");
}

/* Sends what stands in s->out and reads the reply. */
int store_talk(struct store *s,
               struct store_reply *r,
               int64_t deadline_us,
               struct ddp_err *err)
{
    if (flush(s, deadline_us, err) != 0)
        return -1;
    if (r->kind == REPLY_NONE)
        return 0;
    for (;;) {
        switch (look(s, r, err)) {
        case C10D_DONE:
            return 0;
        case C10D_BAD:
            return -1;
        case C10D_MORE:
            if (read_more(s, deadline_us, err) != 0)
                return -1;
        }
    }
}

/* -- requests -------------------------------------------------------------- */

int store_wire_key(char out[C10D_KEY_MAX + 1],
                   const char *key,
                   struct c10d_slice *slice,
                   struct ddp_err *err)
{
    size_t len = strlen(key);
    if (len > DDP_STORE_KEY_MAX)
        return ddp_err_set(err, DDP_E_USAGE,
                           "a key of %zu bytes is longer than %d", len,
                           DDP_STORE_KEY_MAX);
    out[0] = '/';
    memcpy(out + 1, key, len);
    *slice = (struct c10d_slice){.data = (uint8_t *)out, .len = len + 1};
    return 0;
}

static int put(struct store *s,
               enum c10d_op op,
               struct c10d_slice key,
               struct c10d_slice value,
               struct ddp_err *err)
{
    if (op == C10D_SET)
        return c10d_put_set(&s->out, key, value, err);
    if (op == C10D_GET)
        return c10d_put_get(&s->out, key, err);
    ddp_assert(op == C10D_WAIT);
    return c10d_put_wait(&s->out, &key, 1, err);
}

int store_fail(struct store *s,
               enum c10d_op op,
               const char *key,
               struct ddp_err *err)
{
    if (err->code != DDP_E_USAGE)
        drop(s);
    return ddp_err_wrap(err, "store: %s %.100s", c10d_op_name(op), key);
}

/* One request and its reply, whole or not at all: see above. */
static int request(struct store *s,
                   enum c10d_op op,
                   const char *key,
                   struct c10d_slice value,
                   struct store_reply *r,
                   int64_t deadline_us,
                   struct ddp_err *err)
{
    char wire[C10D_KEY_MAX + 1];
    struct c10d_slice slice;
    if (store_wire_key(wire, key, &slice, err) != 0)
        return -1;
    if (store_ready(s, deadline_us, err) == 0 &&
        put(s, op, slice, value, err) == 0 &&
        store_talk(s, r, deadline_us, err) == 0)
        return 0;
    return store_fail(s, op, key, err);
}

int store_set(struct store *s,
              const char *key,
              const void *value,
              size_t len,
              int64_t deadline_us,
              struct ddp_err *err)
{
    if (len > DDP_STORE_VALUE_MAX)
        return ddp_err_set(err, DDP_E_USAGE,
                           "a value of %zu bytes is longer than %u", len,
                           DDP_STORE_VALUE_MAX);
    struct c10d_slice slice = {.data = value, .len = len};
    struct store_reply r = {.kind = REPLY_NONE};
    return request(s, C10D_SET, key, slice, &r, deadline_us, err);
}

int store_wait(struct store *s,
               const char *key,
               int64_t deadline_us,
               struct ddp_err *err)
{
    struct c10d_slice none = {0};
    struct store_reply r = {.kind = REPLY_BYTE};
    if (request(s, C10D_WAIT, key, none, &r, deadline_us, err) != 0)
        return -1;
    buf_take(&s->in, r.used);
    if (r.byte == C10D_STOP_WAITING)
        return 0;
    drop(s);
    return ddp_err_set(err, DDP_E_PROTO, "store: a wait ended by itself");
}

int store_get(struct store *s,
              const char *key,
              void *value,
              size_t cap,
              size_t *len,
              int64_t deadline_us,
              struct ddp_err *err)
{
    if (store_wait(s, key, deadline_us, err) != 0)
        return -1;
    struct c10d_slice none = {0};
    struct store_reply r = {.kind = REPLY_VALUE};
    if (request(s, C10D_GET, key, none, &r, deadline_us, err) != 0)
        return -1;
    *len = r.value.len;
    bool fits = r.value.len <= cap;
    if (fits && r.value.len > 0)
        memcpy(value, r.value.data, r.value.len);
    buf_take(&s->in, r.used);
    if (fits)
        return 0;
    return ddp_err_set(err, DDP_E_USAGE,
                       "store: the value of %.100s has %zu bytes, and there "
                       "is room for %zu",
                       key, *len, cap);
}

int store_local_addr(struct store *s,
                     struct sockaddr_storage *addr,
                     socklen_t *len,
                     int64_t deadline_us,
                     struct ddp_err *err)
{
    if (store_ready(s, deadline_us, err) != 0) {
        drop(s);
        return -1;
    }
    *len = sizeof(*addr);
    if (getsockname(s->fd, (struct sockaddr *)addr, len) == 0)
        return 0;
    return ddp_err_sys(err, DDP_E_BUG, "a connected socket has no address");
}
