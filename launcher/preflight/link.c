/*
 * The measuring side of a link: connect, say hello with the run's secret, ping
 * for the round-trip time and the other's clock, then send as much as the
 * socket takes for SEND_US and count what was acknowledged.
 *
 * What goes wrong is a result, not an error: no connection (NO), no answer of a
 * probe (MUTE), or small packets that arrive while large ones do not (STUCK),
 * which is what a wrong MTU looks like. Only SIGTERM (ABORTED) ends it.
 */
#include "launcher/preflight/link.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "launcher/preflight/io.h"
#include "launcher/preflight/wire.h"
#include "rendezvous/base/mono.h"

#define CONNECT_US (2500 * MONO_MS) /* SYNs after 0 and 1 s */
#define ANSWER_US  (2500 * MONO_MS)
#define PINGS      21

#define WARM_US   (50 * MONO_MS) /* slow start is not counted */
#define SEND_US   (300 * MONO_MS)
#define STUCK_US  (2 * MONO_S) /* so long nothing large came through */
#define BYTES_MAX ((uint64_t)4 << 30)
#define MOVED_MIN ((uint64_t)16 << 10)

_Static_assert(CONNECT_US + ANSWER_US + STUCK_US + SEND_US <=
                   PREFLIGHT_LINK_MOST_US,
               "what the header promises");

struct measure {
    int fd;
    struct preflight_link *link;
};

/* Makes a failure of the connection a result of the measurement; -1 only if the
 * probe itself was asked to end. */
static int failed(struct measure *m,
                  enum preflight_state state,
                  const struct ddp_err *why,
                  struct ddp_err *err)
{
    if (why->code == DDP_E_ABORTED) {
        if (err != NULL)
            *err = *why;
        return -1;
    }
    ddp_assert(state != PREFLIGHT_OK);
    m->link->state = state;
    m->link->code = why->sys_errno;
    (void)snprintf(m->link->reason, sizeof(m->link->reason), "%.90s",
                   why->text);
    return 0;
}

/* -- pings ----------------------------------------------------------------- */

/* For the difference of two hosts' clocks only. */
static int64_t wall_us(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts); /* cannot fail */
    return (int64_t)ts.tv_sec * MONO_S + ts.tv_nsec / 1000;
}

static int64_t exact_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    int64_t x, y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

/* One round trip. The other's wall clock was read in the middle of it. */
static int ping(int fd,
                int64_t deadline_us,
                int64_t *took_ns,
                int64_t *clock_us,
                struct ddp_err *err)
{
    struct preflight_frame f = {.op = PREFLIGHT_PING}, r;
    int64_t began_ns = exact_ns(), wall = wall_us();
    if (preflight_io_send(fd, &f, sizeof(f), deadline_us, err) != 0 ||
        preflight_io_recv(fd, &r, sizeof(r), deadline_us, err) != 0)
        return -1;
    *took_ns = exact_ns() - began_ns;
    if (r.op != PREFLIGHT_PING)
        return ddp_err_set(err, DDP_E_PROTO, "another program answers there");
    *clock_us = (int64_t)be64toh(r.value) - (wall + *took_ns / 2000);
    return 0;
}

/* The median is the round trip. The fastest ping gives the clock: the less time
 * it took, the less wrong is the assumption that both ways took the same. */
static int pings(struct measure *m, struct ddp_err *err)
{
    int64_t deadline_us = mono_now_us() + ANSWER_US;
    int64_t took_ns[PINGS], least_ns = INT64_MAX;
    for (int i = -1; i < PINGS; i++) { /* the first one is not counted */
        int64_t ns = 0, clock_us = 0;
        if (ping(m->fd, deadline_us, &ns, &clock_us, err) != 0)
            return -1;
        if (i < 0)
            continue;
        took_ns[i] = ns;
        if (ns < least_ns)
            m->link->clock_us = clock_us;
        least_ns = ns < least_ns ? ns : least_ns;
    }
    qsort(took_ns, PINGS, sizeof(took_ns[0]), by_size);
    m->link->rtt_us = (took_ns[PINGS / 2] + 500) / 1000;
    return 0;
}

/* -- bandwidth ------------------------------------------------------------- */

/* Bytes that the other kernel has acknowledged. Bytes written to the socket
 * would count the send buffer, which takes megabytes at once. */
static uint64_t acked(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    (void)getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len);
    return info.tcpi_bytes_acked;
}

/* Sends what the socket takes. -1: the connection failed. */
static int pour(int fd, size_t *at, uint64_t *sent, struct ddp_err *err)
{
    static struct {
        struct preflight_frame head;
        char zeros[PREFLIGHT_DATA_LEN];
    } block = {.head = {.op = 0}};
    block.head.op = PREFLIGHT_DATA;
    while (*sent < BYTES_MAX) {
        ssize_t n = send(fd, (const char *)&block + *at, sizeof(block) - *at,
                         MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR
                       ? 0
                       : ddp_err_sys(err, DDP_E_LOST, "the connection failed");
        *at = (*at + (size_t)n) % sizeof(block);
        *sent += (uint64_t)n;
        if (*at != 0)
            return 0; /* the socket is full */
    }
    return 0;
}

/* Sends until enough time has passed and something has arrived, or until
 * nothing has arrived for STUCK_US. */
static int push(struct measure *m, struct ddp_err *err)
{
    int64_t began_us = mono_now_us(), warm_us = 0, now_us = began_us;
    uint64_t first = acked(m->fd), warm = first, sent = 0, last = first;
    size_t at = 0;
    int lowat = 256 << 10; /* bytes that wait unsent would count as sent */
    (void)setsockopt(m->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &lowat,
                     sizeof(lowat));
    while (now_us < began_us + SEND_US ||
           (last - first < MOVED_MIN && now_us < began_us + STUCK_US)) {
        struct ddp_err e = {.code = DDP_E_OK};
        if (pour(m->fd, &at, &sent, err) != 0)
            return -1;
        if (preflight_io_wait(m->fd, sent < BYTES_MAX ? POLLOUT : 0,
                              now_us + 5 * MONO_MS, &e) != 0 &&
            e.code != DDP_E_TIMEOUT) {
            *err = e;
            return -1;
        }
        now_us = mono_now_us();
        last = acked(m->fd);
        if (warm_us == 0 && now_us >= began_us + WARM_US) {
            warm_us = now_us;
            warm = last;
        }
        if (sent >= BYTES_MAX && last - first >= sent)
            break;
    }
    if (last - first < MOVED_MIN)
        return ddp_err_set(err, DDP_E_TIMEOUT,
                           "small packets pass, large ones do not");
    if (warm_us == 0 || last == warm || now_us - warm_us < 10 * MONO_MS) {
        warm_us = began_us; /* all of it came in the warm-up */
        warm = first;
    }
    ddp_assert(now_us > warm_us && last >= warm);
    m->link->rate = (int64_t)((double)(last - warm) * 8 /
                              ((double)(now_us - warm_us) / MONO_S));
    return 0;
}

/* -- the whole ------------------------------------------------------------- */

/* The MTU of the path as the kernel knows it after the data went through. */
static int64_t path_mtu(int fd)
{
    int mtu = 0;
    socklen_t len = sizeof(mtu);
    if (getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &len) == 0)
        return mtu;
    len = sizeof(mtu);
    if (getsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &mtu, &len) == 0)
        return mtu;
    return 0;
}

/* The responder closes a connection that does not begin with the secret. */
static int say_hello(int fd, const char *secret, struct ddp_err *err)
{
    struct preflight_frame f = {.op = PREFLIGHT_HELLO};
    char text[PREFLIGHT_SECRET_MAX] = "";
    int64_t deadline_us = mono_now_us() + ANSWER_US;
    (void)snprintf(text, sizeof(text), "%s", secret);
    if (preflight_io_send(fd, &f, sizeof(f), deadline_us, err) != 0)
        return -1;
    return preflight_io_send(fd, text, sizeof(text), deadline_us, err);
}

int preflight_link_measure(struct preflight_link *link,
                           const char *addr,
                           int port,
                           const char *secret,
                           struct ddp_err *err)
{
    ddp_assert(port > 0 && secret != NULL);
    struct measure m = {.fd = -1, .link = link};
    struct ddp_err why = {.code = DDP_E_OK};
    int rc = 0;
    link->state = PREFLIGHT_OK;
    if (preflight_io_dial(addr, port, mono_now_us() + CONNECT_US, &m.fd,
                          &why) != 0)
        return failed(&m, PREFLIGHT_NO, &why, err);
    if (say_hello(m.fd, secret, &why) != 0 || pings(&m, &why) != 0)
        rc = failed(&m, PREFLIGHT_MUTE, &why, err);
    else if (push(&m, &why) != 0)
        rc = failed(
            &m, why.code == DDP_E_TIMEOUT ? PREFLIGHT_STUCK : PREFLIGHT_MUTE,
            &why, err);
    link->mtu = path_mtu(m.fd);
    /* Drops the unsent bytes, which a slow line would carry for long. */
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(m.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    (void)close(m.fd);
    return rc;
}
