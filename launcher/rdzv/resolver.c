/*
 * Happy path: resolver_start makes a thread, which calls getaddrinfo(3) and
 * wakes the loop; on_done joins the thread and tells the result.
 *
 * This is not uv_getaddrinfo, since libuv ends the process (abort) if it cannot
 * start the threads of its pool, and where processes are scarce (ulimit -u, a
 * container's pids.max) a launcher must be able to say so and to try again.
 *
 * Failure modes:
 *  - No thread can be had: resolver_start fails.
 *  - The name server does not answer: the thread goes on, the loop too. Nothing
 *    ends getaddrinfo(3) but its own time limit.
 */
#include "launcher/rdzv/resolver.h"

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define RESOLVER_MAGIC 0x7265736fu

static struct resolver *resolver_of(void *data)
{
    struct resolver *r = data;
    ddp_assert(r != NULL && r->magic == RESOLVER_MAGIC);
    return r;
}

static void *look_up(void *arg)
{
    struct resolver *r = resolver_of(arg);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    r->all = NULL;
    r->rc = getaddrinfo(r->host, r->port, &hints, &r->all);
    r->sys_errno = errno;
    (void)uv_async_send(&r->done); /* cannot fail */
    return NULL;
}

static void on_done(uv_async_t *async)
{
    struct resolver *r = resolver_of(async->data);
    struct addr_list list;
    struct ddp_err err;
    ddp_assert(r->busy);
    (void)pthread_join(r->thread, NULL); /* it is about to return */
    r->busy = false;
    if (r->rc != 0) {
        ddp_err_set(&err, DDP_E_UNREACHABLE,
                    "the name '%.100s' does not resolve here (%s)", r->host,
                    r->rc == EAI_SYSTEM ? strerror(r->sys_errno)
                                        : gai_strerror(r->rc));
        r->on_resolved(r->ctx, NULL, &err);
        return;
    }
    addr_list_fill(&list, r->all);
    freeaddrinfo(r->all);
    r->on_resolved(r->ctx, &list, NULL);
}

int resolver_init(struct resolver *r,
                  uv_loop_t *loop,
                  void (*on_resolved)(void *ctx,
                                      const struct addr_list *list,
                                      const struct ddp_err *err),
                  void *ctx,
                  struct ddp_err *err)
{
    *r = (struct resolver){
        .magic = RESOLVER_MAGIC, .on_resolved = on_resolved, .ctx = ctx};
    int rc = uv_async_init(loop, &r->done, on_done);
    if (rc != 0)
        return ddp_err_set(err, DDP_E_NOMEM, "cannot resolve names: %s",
                           uv_strerror(rc));
    r->done.data = r;
    uv_unref((uv_handle_t *)&r->done); /* it keeps no loop running */
    return 0;
}

/* Signals are for the main thread. */
static int make_thread(struct resolver *r)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* valid arguments */
    int rc = pthread_create(&r->thread, NULL, look_up, r);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int resolver_start(struct resolver *r,
                   const char *host,
                   int port,
                   struct ddp_err *err)
{
    ddp_assert(r->magic == RESOLVER_MAGIC && !r->busy);
    ddp_assert(port >= 0 && port <= 65535);
    (void)snprintf(r->host, sizeof(r->host), "%s", host);
    (void)snprintf(r->port, sizeof(r->port), "%u", (unsigned)port % 65536u);
    int rc = make_thread(r);
    if (rc != 0) {
        errno = rc;
        return ddp_err_sys(err, DDP_E_NOMEM,
                           "cannot start a thread that resolves the name "
                           "'%.60s'%s",
                           host,
                           rc == EAGAIN ? " (too few processes: raise the "
                                          "limit, ulimit -u or a container's "
                                          "pids.max)"
                                        : "");
    }
    r->busy = true;
    return 0;
}

bool resolver_is_needless(const char *host, int port, struct addr_list *list)
{
    struct ddp_err err;
    if (strcasecmp(host, "localhost") == 0)
        host = "127.0.0.1";
    return addr_is_number(host) && addr_resolve(host, port, list, &err) == 0;
}

bool resolver_is_busy(const struct resolver *r)
{
    return r->busy;
}
