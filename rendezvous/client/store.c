/*
 * client/store: one request at a time: connect if need be, send it, read the
 * one reply, until the deadline.
 *
 * Happy path: store_client_ready connects and puts the hello into `out`; the
 * encoder appends the request; store_client_talk sends both and reads until the
 * reply is whole.
 *
 * Failure modes: no store listens yet, or the line is cut (UNREACHABLE after
 * attempts with growing pauses); the store is gone in the middle (LOST); it
 * does not answer (TIMEOUT); it answers what no store answers (PROTO); a signal
 * stopped the wait (ABORTED). A request that failed half way leaves the
 * connection in an unknown state (a reply under way, a request half
 * sent), so every failure closes it. No request is repeated by itself: ADD is
 * not idempotent, and a store that is gone means that the round is over.
 */
#include "rendezvous/client/store.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"

/* The longest value or request, and what one read may bring behind it. */
#define BUF_MAX     (C10D_VALUE_MAX + C10D_KEY_MAX + READ_LARGE)
#define TRY_MAX_US  (5 * MONO_S) /* for all addresses of the host once */
#define ADDRS_MAX   16
#define PAUSE_FIRST 10u   /* ms, doubled .. */
#define PAUSE_MAX   1000u /* .. up to */
#define READ_SIZE   4096u
#define READ_LARGE  65536u /* once a reply is known to be long */

_Static_assert(STORE_CLIENT_KEY_MAX + 1 <= C10D_KEY_MAX, "and a '/' fit");

void store_client_init(struct store_client *s, const char *host, uint16_t port)
{
    *s = (struct store_client){.port = port, .fd = -1};
    (void)snprintf(s->host, sizeof(s->host), "%s", host); /* cut: header */
    buf_init(&s->in, BUF_MAX);
    buf_init(&s->out, BUF_MAX);
}

void store_client_free(struct store_client *s)
{
    if (s->fd >= 0)
        (void)close(s->fd); /* nothing of it is wanted any more */
    s->fd = -1;
    buf_free(&s->in);
    buf_free(&s->out);
}

/* -- waiting --------------------------------------------------------------- */

/* The connection ended, in the way that errno says; 0 is an end of file. */
static int lost(struct store_client *s, struct ddp_err *err)
{
    if (errno == 0)
        return ddp_err_set(err, DDP_E_LOST,
                           "the store at %s port %u closed the connection",
                           s->host, s->port);
    return ddp_err_sys(err, DDP_E_LOST,
                       "the connection to the store at %s port %u broke",
                       s->host, s->port);
}

static int stopped(struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_ABORTED, "stopped by a signal");
}

static int wait_io(struct store_client *s,
                   short events,
                   int64_t deadline_us,
                   struct ddp_err *err)
{
    ddp_assert(s->fd >= 0);
    if (dial_wait(s->fd, events, deadline_us, s->stop) == 0)
        return 0;
    if (errno == ECANCELED)
        return stopped(err);
    if (errno != ETIMEDOUT)
        return lost(s, err);
    return ddp_err_set(err, DDP_E_TIMEOUT,
                       "the store at %s port %u did not answer in time",
                       s->host, s->port);
}

/* -- connecting ------------------------------------------------------------ */

/* What went wrong with the last attempt. */
struct store_attempt {
    int gai; /* getaddrinfo's code, 0: it found addresses */
    int sys; /* else errno */
};

/* All addresses of the host once, each for its share of TRY_MAX_US. The name is
 * looked up in each attempt: that of a host that is just starting may not be
 * known yet, or change. getaddrinfo itself cannot be stopped. */
static int dial_all(struct store_client *s,
                    int64_t deadline_us,
                    struct store_attempt *last)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    struct sockaddr_storage to[ADDRS_MAX];
    int n = 0;
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", s->port); /* five digits */
    *last = (struct store_attempt){
        .gai = getaddrinfo(s->host, port, &hints, &list)};
    if (last->gai != 0)
        return -1;
    for (struct addrinfo *a = list; a != NULL && n < ADDRS_MAX; a = a->ai_next)
        if (a->ai_family == AF_INET || a->ai_family == AF_INET6)
            memcpy(&to[n++], a->ai_addr, a->ai_addrlen);
    freeaddrinfo(list);
    int64_t try_us = mono_after(mono_now_us(), TRY_MAX_US);
    int fd = dial_any(to, n, mono_min(try_us, deadline_us), s->stop);
    /* A store always reads: unacknowledged data means that the line is cut. */
    unsigned silent_ms = DIAL_SILENT_MS;
    if (fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent_ms,
                              sizeof(silent_ms)) == 0)
        return fd;
    last->sys = errno;
    if (fd >= 0)
        (void)close(fd); /* nothing was sent yet */
    return -1;
}

static int unreachable(const struct store_client *s,
                       int64_t since_us,
                       const struct store_attempt *last,
                       struct ddp_err *err)
{
    int64_t took_us = mono_now_us() - since_us;
    (void)ddp_err_set(
        err, DDP_E_UNREACHABLE,
        "cannot connect to the store at %s port %u (MASTER_ADDR, MASTER_PORT); "
        "tried for %.1f s: %s",
        s->host, s->port, (double)took_us / (double)MONO_S,
        last->gai != 0 ? gai_strerror(last->gai) : strerror(last->sys));
    err->sys_errno = last->sys;
    return -1;
}

/* All workers of a job start in one moment: the pauses are jittered, so that
 * they do not come back in one moment too. */
static int
connect_until(struct store_client *s, int64_t deadline_us, struct ddp_err *err)
{
    int64_t since_us = mono_now_us();
    uint32_t pause_ms = PAUSE_FIRST;
    struct store_attempt last;
    struct rng jitter;
    rng_init(&jitter, rng_seed());
    for (;;) {
        s->fd = dial_all(s, deadline_us, &last);
        if (s->fd >= 0) /* the hello goes out with the first request */
            return c10d_put(&s->out,
                            &(struct c10d_request){.op = C10D_VALIDATE}, err);
        /* A pause that ends after the deadline leaves no time to try again. */
        int64_t wake_us =
            mono_after(mono_now_us(),
                       (pause_ms / 2 + rng_below(&jitter, pause_ms)) * MONO_MS);
        if (last.sys != ECANCELED && wake_us >= deadline_us)
            return unreachable(s, since_us, &last, err);
        if (last.sys == ECANCELED ||
            (dial_wait(-1, 0, wake_us, s->stop) != 0 && errno == ECANCELED))
            return stopped(err);
        pause_ms = pause_ms * 2 > PAUSE_MAX ? PAUSE_MAX : pause_ms * 2;
    }
}

int store_client_ready(struct store_client *s,
                       int64_t deadline_us,
                       struct ddp_err *err)
{
    if (*s->host == '\0')
        return ddp_err_set(err, DDP_E_UNREACHABLE,
                           "there is no store: MASTER_ADDR and MASTER_PORT "
                           "are not set");
    return s->fd >= 0 ? 0 : connect_until(s, deadline_us, err);
}

/* -- bytes ----------------------------------------------------------------- */

/* The socket does not block, so each wait for it ends at the deadline. */
static int
flush(struct store_client *s, int64_t deadline_us, struct ddp_err *err)
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

/* A few bytes at first, as most replies are; more once one is known to be long.
 * The buffer's limit bounds what a store can make us hold. */
static int
read_more(struct store_client *s, int64_t deadline_us, struct ddp_err *err)
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

/* Whether the reply is whole. A value in it is borrowed from s->in until the
 * caller takes `used` bytes from there. */
static enum c10d_status
look(struct store_client *s, struct store_reply *r, struct ddp_err *err)
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

/* Sends what stands in s->out and reads the reply. A request without a reply,
 * SET, is done once the kernel has it: a store that dies then is noticed by the
 * next request. */
int store_client_talk(struct store_client *s,
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

/* PyTorch's client puts a '/' before each key (TCPStore's regularPrefix): so do
 * we, and both see the same keys. */
int store_client_key(char out[C10D_KEY_MAX + 1],
                     const char *key,
                     struct c10d_slice *slice,
                     struct ddp_err *err)
{
    size_t len = strlen(key);
    if (len > STORE_CLIENT_KEY_MAX)
        return ddp_err_set(err, DDP_E_USAGE,
                           "a key of %zu bytes is over the limit of %d", len,
                           STORE_CLIENT_KEY_MAX);
    out[0] = '/';
    memcpy(out + 1, key, len);
    *slice = (struct c10d_slice){.data = (uint8_t *)out, .len = len + 1};
    return 0;
}

/* The requests of one key. Requests of several keys, and ADD, are encoded in
 * worker_rt/store_ops. */
static int put(struct store_client *s,
               enum c10d_op op,
               struct c10d_slice key,
               struct c10d_slice value,
               struct ddp_err *err)
{
    const struct c10d_request req = {
        .op = op, .key = key, .value = value, .count = 1, .list = &key};
    return c10d_put(&s->out, &req, err);
}

/* A wrong argument is found before anything is sent, so only that error leaves
 * the connection as it was. */
int store_client_fail(struct store_client *s,
                      enum c10d_op op,
                      const char *key,
                      struct ddp_err *err)
{
    if (err->code != DDP_E_USAGE)
        store_client_free(s);
    return ddp_err_wrap(err, "store: %s %.100s", c10d_op_name(op), key);
}

/* One request and its reply, whole or not at all: see above. */
static int request(struct store_client *s,
                   enum c10d_op op,
                   const char *key,
                   struct c10d_slice value,
                   struct store_reply *r,
                   int64_t deadline_us,
                   struct ddp_err *err)
{
    char wire[C10D_KEY_MAX + 1];
    struct c10d_slice slice;
    if (store_client_key(wire, key, &slice, err) != 0)
        return -1;
    if (store_client_ready(s, deadline_us, err) == 0 &&
        put(s, op, slice, value, err) == 0 &&
        store_client_talk(s, r, deadline_us, err) == 0)
        return 0;
    return store_client_fail(s, op, key, err);
}

int store_client_set(struct store_client *s,
                     const char *key,
                     const void *value,
                     size_t len,
                     int64_t deadline_us,
                     struct ddp_err *err)
{
    if (len > C10D_VALUE_MAX)
        return ddp_err_set(err, DDP_E_USAGE,
                           "a value of %zu bytes is over the limit of %zu", len,
                           C10D_VALUE_MAX);
    struct c10d_slice slice = {.data = value, .len = len};
    struct store_reply r = {.kind = REPLY_NONE};
    return request(s, C10D_SET, key, slice, &r, deadline_us, err);
}

int store_client_wait(struct store_client *s,
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
    /* The other answer is that to CANCEL_WAIT, which this client never sends:
     * the replies are out of step, and none can be believed any more. */
    store_client_free(s);
    return ddp_err_set(err, DDP_E_PROTO,
                       "store: it ended the wait for %.100s before the key was "
                       "set",
                       key);
}

/* Waits for the key and asks for its value, which stays in s->in. c10d's GET
 * has no answer for a key that is not there, so PyTorch waits first too
 * (TCPStore, doGet). */
static int get(struct store_client *s,
               const char *key,
               struct store_reply *r,
               int64_t deadline_us,
               struct ddp_err *err)
{
    struct c10d_slice none = {0};
    *r = (struct store_reply){.kind = REPLY_VALUE};
    if (store_client_wait(s, key, deadline_us, err) != 0)
        return -1;
    return request(s, C10D_GET, key, none, r, deadline_us, err);
}

int store_client_get(struct store_client *s,
                     const char *key,
                     void *value,
                     size_t cap,
                     size_t *len,
                     int64_t deadline_us,
                     struct ddp_err *err)
{
    struct store_reply r;
    if (get(s, key, &r, deadline_us, err) != 0)
        return -1;
    *len = r.value.len; /* also if it does not fit: the caller may come again */
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

int store_client_text(struct store_client *s,
                      const char *key,
                      char **text,
                      int64_t deadline_us,
                      struct ddp_err *err)
{
    struct store_reply r;
    if (get(s, key, &r, deadline_us, err) != 0)
        return -1;
    *text = calloc(r.value.len + 1, 1); /* and a NUL */
    if (*text != NULL && r.value.len > 0)
        memcpy(*text, r.value.data, r.value.len);
    buf_take(&s->in, r.used);
    if (*text != NULL)
        return 0;
    return ddp_err_set(err, DDP_E_NOMEM, "store: no memory for the value");
}

int store_client_check(struct store_client *s,
                       const char *key,
                       bool *there,
                       int64_t deadline_us,
                       struct ddp_err *err)
{
    struct c10d_slice none = {0};
    struct store_reply r = {.kind = REPLY_BYTE};
    if (request(s, C10D_CHECK, key, none, &r, deadline_us, err) != 0)
        return -1;
    buf_take(&s->in, r.used);
    *there = r.byte == C10D_READY;
    return 0;
}

/* Where the store sees this host, other ranks that see the store mostly can
 * reach it: the kernel has chosen the address by the route. */
int store_client_local_addr(struct store_client *s,
                            struct sockaddr_storage *addr,
                            socklen_t *len,
                            int64_t deadline_us,
                            struct ddp_err *err)
{
    if (store_client_ready(s, deadline_us, err) != 0) {
        store_client_free(s);
        return -1;
    }
    *len = sizeof(*addr);
    if (getsockname(s->fd, (struct sockaddr *)addr, len) == 0)
        return 0;
    return ddp_err_sys(err, DDP_E_BUG, "a connected socket has no address");
}
