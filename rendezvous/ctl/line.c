/*
 * Happy path: resolve, connect, with a token the TLS handshake, then reads and
 * writes until the peer closes. With a token the bytes of the socket go through
 * net/tls, a filter without I/O: what it wants to send lies in `sealed` and is
 * written out after each step. Nothing is asked before both ends have proved
 * that they have the token.
 *
 * Failure modes: the name does not resolve in time (an alarm ends the process);
 * an address does not answer in its share of the time (the next one is tried,
 * and the first one's error is told); one end has no token or another one (the
 * first byte, or TLS's alert, tells which); the peer speaks another protocol;
 * the connection is cut, which in TLS is no end but an error; a signal.
 */
#include "rendezvous/ctl/line.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "rendezvous/base/dial.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/proto/frame.h"

#define SEALED_MAX (256u * 1024u)
#define PIECE      16384

struct ctl_line {
    const struct ctl_peer *peer;
    int fd;
    int64_t deadline_us;
    struct tls *tls;
    struct buf sealed; /* what TLS wants to send */
    bool heard;        /* the first byte was looked at */
    bool pending;      /* the last piece is not all taken from TLS */
    uint8_t piece[PIECE];
};

/* -- names ----------------------------------------------------------------- */

static char late[400];

static void on_alarm(int signo)
{
    (void)signo;
    ssize_t n = write(STDERR_FILENO, late, strlen(late));
    _exit(n < 0 ? ddp_code_exit(DDP_E_IO) : ddp_code_exit(DDP_E_UNREACHABLE));
}

int ctl_resolve(struct ctl_peer *peer, int64_t timeout_us, struct ddp_err *err)
{
    struct itimerval after = {.it_value = {.tv_sec = timeout_us / MONO_S,
                                           .tv_usec = timeout_us % MONO_S}};
    struct itimerval off = {.it_value = {.tv_sec = 0}};
    struct sigaction sa = {.sa_handler = on_alarm};
    /* Loopback, whatever /etc/hosts says (RFC 6761, 6.3). */
    const char *host =
        strcasecmp(peer->host, "localhost") == 0 ? "127.0.0.1" : peer->host;
    (void)snprintf(late, sizeof(late), /* fits */
                   "ddpctl: cannot look up the name '%s': no name server "
                   "answers; give an address (--endpoint)\n",
                   peer->host);
    (void)sigaction(SIGALRM, &sa, NULL); /* a valid signal: cannot fail */
    (void)setitimer(ITIMER_REAL, &after, NULL);
    int rc = addr_resolve(host, peer->port, &peer->addrs, err);
    (void)setitimer(ITIMER_REAL, &off, NULL);
    return rc;
}

/* -- waiting --------------------------------------------------------------- */

/* Every signal that ddpctl catches ends a wait. */
static const struct dial_stop any_signal = {.told = NULL};

/* Why dial_wait or dial_any returned -1, from errno. */
static int failed(struct ddp_err *err)
{
    if (errno == ETIMEDOUT)
        return ddp_err_set(err, DDP_E_UNREACHABLE,
                           "no answer in time (--timeout)");
    if (errno == ECANCELED)
        return ddp_err_set(err, DDP_E_ABORTED, "interrupted");
    return ddp_err_set(err, DDP_E_UNREACHABLE, "%s", strerror(errno));
}

/* Until the descriptor is ready or the deadline has come. */
static int await(struct ctl_line *l, short events, struct ddp_err *err)
{
    int rc = dial_wait(l->fd, events, l->deadline_us, &any_signal);
    return rc == 0 ? 0 : failed(err);
}

/* -- opening --------------------------------------------------------------- */

static int start_tls(struct ctl_line *l, struct ddp_err *err);

struct ctl_line *ctl_line_open(const struct ctl_peer *peer,
                               int64_t deadline_us,
                               struct ddp_err *err)
{
    struct ctl_line *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        ddp_err_set(err, DDP_E_NOMEM, "no memory for a connection");
        return NULL;
    }
    l->peer = peer;
    l->deadline_us = deadline_us;
    buf_init(&l->sealed, SEALED_MAX);
    l->fd = dial_any(peer->addrs.at, peer->addrs.n, deadline_us, &any_signal);
    if (l->fd < 0)
        (void)failed(err);
    else if (start_tls(l, err) == 0)
        return l;
    ctl_line_close(l);
    return NULL;
}

void ctl_line_close(struct ctl_line *l)
{
    if (l == NULL)
        return;
    if (l->tls != NULL && tls_state(l->tls) == TLS_UP) {
        tls_end(l->tls); /* sent if the socket takes it at once */
        (void)send(l->fd, buf_head(&l->sealed), buf_len(&l->sealed),
                   MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    tls_free(l->tls);
    buf_free(&l->sealed);
    if (l->fd >= 0)
        (void)close(l->fd); /* all was sent */
    free(l);
}

void ctl_line_renew(struct ctl_line *l, int64_t deadline_us)
{
    l->deadline_us = deadline_us;
}

/* -- bytes ----------------------------------------------------------------- */

static int
push(struct ctl_line *l, const uint8_t *data, size_t len, struct ddp_err *err)
{
    while (len > 0) {
        ssize_t n = send(l->fd, data, len, MSG_NOSIGNAL);
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        } else if (errno != EAGAIN && errno != EINTR) {
            return ddp_err_set(err, DDP_E_UNREACHABLE,
                               "the connection broke (%s)", strerror(errno));
        } else if (await(l, POLLOUT, err) != 0) {
            return -1;
        }
    }
    return 0;
}

static int push_sealed(struct ctl_line *l, struct ddp_err *err)
{
    int rc = push(l, buf_head(&l->sealed), buf_len(&l->sealed), err);
    buf_take(&l->sealed, buf_len(&l->sealed));
    return rc;
}

/* As it comes from the socket. */
static long
pull(struct ctl_line *l, uint8_t *room, size_t len, struct ddp_err *err)
{
    for (;;) {
        ssize_t n = recv(l->fd, room, len, 0);
        if (n >= 0)
            return n;
        if (errno != EAGAIN && errno != EINTR)
            return ddp_err_set(err, DDP_E_UNREACHABLE,
                               "the connection broke (%s)", strerror(errno));
        if (await(l, POLLIN, err) != 0)
            return -1;
    }
}

/* -- TLS ------------------------------------------------------------------- */

static int fail_tls(const struct ctl_line *l, struct ddp_err *err)
{
    if (tls_token_differs(l->tls))
        return ddp_err_set(err, DDP_E_CONFIG,
                           "the token differs from that of the rendezvous; "
                           "give the same file as to ddprdzvd (--token_file)");
    return ddp_err_set(err, DDP_E_UNREACHABLE, "%s", tls_why(l->tls));
}

/* A peer that answers TLS in plain text has no token, or is no rendezvous. */
static int check_first(struct ctl_line *l, uint8_t first, struct ddp_err *err)
{
    if (l->heard)
        return 0;
    l->heard = true;
    if (first == TLS_FIRST_BYTE || first == TLS_ALERT_BYTE)
        return 0;
    if (first == (uint8_t)FRAME_HELLO[0])
        return ddp_err_set(err, DDP_E_CONFIG,
                           "this rendezvous has no token: leave out "
                           "--token_file (DDPRUN_TOKEN_FILE)");
    return ddp_err_set(err, DDP_E_PROTO,
                       "the answer is not from a ddprun rendezvous with a "
                       "token");
}

/* Reads once from the socket and gives it to TLS. 0: the end. */
static long feed(struct ctl_line *l, struct ddp_err *err)
{
    long n = pull(l, l->piece, sizeof(l->piece), err);
    if (n <= 0)
        return n;
    if (check_first(l, l->piece[0], err) != 0)
        return -1;
    tls_give(l->tls, l->piece, (size_t)n);
    l->pending = true;
    return n;
}

static int start_tls(struct ctl_line *l, struct ddp_err *err)
{
    uint8_t none[1];
    if (l->peer->key == NULL)
        return 0;
    l->tls = tls_new(l->peer->key, false, &l->sealed);
    if (l->tls == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for TLS");
    while (tls_state(l->tls) == TLS_HANDSHAKE) {
        if (push_sealed(l, err) != 0)
            return -1;
        long n = feed(l, err);
        if (n < 0)
            return -1;
        if (n == 0)
            return ddp_err_set(
                err, DDP_E_UNREACHABLE,
                "the connection was closed during the TLS handshake");
        /* The rendezvous sends nothing before it is asked. */
        if (tls_take(l->tls, none, sizeof(none)) != 0)
            return ddp_err_set(err, DDP_E_PROTO,
                               "the rendezvous answered before it was asked");
        l->pending = false;
    }
    if (tls_state(l->tls) != TLS_UP) {
        (void)push_sealed(l, NULL); /* the alert, if the peer still reads it */
        return fail_tls(l, err);
    }
    return push_sealed(l, err);
}

/* -- for all --------------------------------------------------------------- */

int ctl_line_write(struct ctl_line *l,
                   const void *data,
                   size_t len,
                   struct ddp_err *err)
{
    if (l->tls == NULL)
        return push(l, data, len, err);
    if (tls_seal(l->tls, data, len) != 0)
        return ddp_err_set(err, DDP_E_UNREACHABLE, "TLS failed");
    return push_sealed(l, err);
}

static long
read_sealed(struct ctl_line *l, void *room, size_t len, struct ddp_err *err)
{
    for (;;) {
        size_t n = l->pending ? tls_take(l->tls, room, len) : 0;
        if (n > 0)
            return (long)n;
        l->pending = false;
        if (tls_state(l->tls) == TLS_FAILED)
            return fail_tls(l, err);
        if (tls_state(l->tls) == TLS_OVER)
            return 0;
        long got = feed(l, err);
        if (got == 0)
            return ddp_err_set(err, DDP_E_UNREACHABLE,
                               "the connection was cut off");
        if (got < 0)
            return -1;
    }
}

long ctl_line_read(struct ctl_line *l,
                   void *room,
                   size_t room_len,
                   struct ddp_err *err)
{
    if (l->tls != NULL)
        return read_sealed(l, room, room_len, err);
    return pull(l, room, room_len, err);
}

bool ctl_line_wait(const struct ctl_line *l, int fd, short events)
{
    struct pollfd two[] = {{.fd = l->fd, .events = POLLIN},
                           {.fd = fd, .events = events}};
    /* A signal ends it, too: the read tells. */
    (void)poll(two, 2, l->pending ? 0 : dial_poll_ms(l->deadline_us));
    return two[1].revents != 0;
}

int ctl_token_missing(struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_CONFIG,
                       "the rendezvous needs a token: give the same file as to "
                       "ddprdzvd (--token_file, DDPRUN_TOKEN_FILE)");
}
