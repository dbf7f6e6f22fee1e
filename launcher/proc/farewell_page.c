/*
 * Happy path: the agent writes the half that is not in use and makes it the one
 * in use. When it is dead the guard connects to the server, writes the bytes
 * and ends its side; the server ends the other one, and the guard is done,
 * after a round trip or two.
 *
 * Failure modes: nobody listens there, the host is silent, or something that is
 * no server takes the connection: the next places are told. None hears it: the
 * others wait for this node's lease. The agent dies while it writes: the half
 * before that is said.
 */
#include "launcher/proc/farewell_page.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

#define ANSWER_US (250 * MONO_MS)

static struct shared {
    atomic_int used; /* which half */
    struct farewell_page half[2];
} * shared;

int farewell_page_share(void)
{
    ddp_assert(shared == NULL); /* called once */
    void *at = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared = at != MAP_FAILED ? at : NULL;
    return shared != NULL ? 0 : -1;
}

void farewell_page_write(const struct farewell_page *page)
{
    ddp_assert(page->len <= FAREWELL_BYTES_MAX);
    ddp_assert(page->n_places <= FAREWELL_PLACES_MAX);
    if (shared == NULL)
        return;
    int next = 1 - atomic_load(&shared->used);
    memcpy(&shared->half[next], page, sizeof(*page));
    atomic_store(&shared->used, next);
}

/* -- saying it ------------------------------------------------------------- */

/* One place. */
struct call {
    int fd; /* -1: it is over */
    size_t sent;
    bool answered;
};

static void hang_up(struct call *c)
{
    if (c->fd >= 0)
        (void)close(c->fd); /* nothing that could be done about it */
    c->fd = -1;
}

static socklen_t length_of(const struct sockaddr_storage *at)
{
    return at->ss_family == AF_INET ? sizeof(struct sockaddr_in)
                                    : sizeof(struct sockaddr_in6);
}

static struct call dial(const struct sockaddr_storage *at)
{
    struct call c = {.fd = -1};
    if (at->ss_family != AF_INET && at->ss_family != AF_INET6)
        return c;
    c.fd = socket(at->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c.fd >= 0 &&
        connect(c.fd, (const struct sockaddr *)at, length_of(at)) != 0 &&
        errno != EINPROGRESS)
        hang_up(&c);
    return c;
}

static bool may_come_later(void)
{
    return errno == EAGAIN || errno == EINTR;
}

static void go_on_saying(struct call *c, const struct farewell_page *page)
{
    ssize_t n = send(c->fd, page->bytes + c->sent, page->len - c->sent,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && !may_come_later()) {
        hang_up(c);
        return;
    }
    c->sent += n > 0 ? (size_t)n : 0;
    if (c->sent == page->len)
        (void)shutdown(c->fd, SHUT_WR); /* the peer sees the end, or is gone */
}

/* What a server says before it ends the connection tells nothing. */
static void hear(struct call *c)
{
    char any[512];
    ssize_t n = recv(c->fd, any, sizeof(any), MSG_DONTWAIT);
    if (n > 0 || (n < 0 && may_come_later()))
        return;
    c->answered = n == 0;
    hang_up(c);
}

static void
turn(struct call *c, const struct farewell_page *page, short happened)
{
    if (happened == 0)
        return;
    if (c->sent < page->len)
        go_on_saying(c, page);
    else
        hear(c);
}

static int fill(struct pollfd fds[FAREWELL_PLACES_MAX],
                const struct call *calls,
                int n,
                const struct farewell_page *page)
{
    int open = 0;
    for (int i = 0; i < n; i++) {
        short what = calls[i].sent < page->len ? POLLOUT : POLLIN;
        fds[i] = (struct pollfd){.fd = calls[i].fd, .events = what};
        open += calls[i].fd >= 0;
    }
    return open;
}

/* To `n` places, at once. How many have answered. */
static int say_to(const struct farewell_page *page,
                  const struct sockaddr_storage *places,
                  int n)
{
    struct call calls[FAREWELL_PLACES_MAX];
    struct pollfd fds[FAREWELL_PLACES_MAX];
    int64_t until_us = mono_now_us() + ANSWER_US;
    int answered = 0;
    ddp_assert(n <= FAREWELL_PLACES_MAX);
    for (int i = 0; i < n; i++)
        calls[i] = dial(&places[i]);
    while (fill(fds, calls, n, page) > 0 && mono_now_us() < until_us) {
        int64_t ms = mono_ms_until(mono_now_us(), until_us);
        if (poll(fds, (nfds_t)n, (int)ms) < 0 && errno != EINTR)
            break; /* no memory: nobody hears it */
        for (int i = 0; i < n; i++)
            turn(&calls[i], page, calls[i].fd >= 0 ? fds[i].revents : 0);
    }
    for (int i = 0; i < n; i++) {
        answered += calls[i].answered;
        hang_up(&calls[i]);
    }
    return answered;
}

void farewell_page_say(void)
{
    if (shared == NULL)
        return;
    const struct farewell_page *page =
        &shared->half[atomic_load(&shared->used)];
    if (page->len == 0 || page->n_places == 0 ||
        say_to(page, page->places, 1) > 0)
        return;
    (void)say_to(page, page->places + 1, page->n_places - 1);
}
