/*
 * launcher/rdzv/resolver: asks the system for the addresses of a name, on a
 * thread of its own, since a name server may not answer for long. One name at a
 * time.
 */
#ifndef LAUNCHER_RDZV_RESOLVER_H
#define LAUNCHER_RDZV_RESOLVER_H

#include <pthread.h>
#include <stdbool.h>
#include <uv.h>

#include "rendezvous/base/err.h"
#include "rendezvous/net/addr.h"

/* The caller's storage, as long as the process lives: a lookup cannot be ended.
 * The fields are resolver.c's own. */
struct resolver {
    uint32_t magic;
    uv_async_t done;
    pthread_t thread;
    bool busy;
    char host[256];
    char port[8];
    int rc; /* of getaddrinfo(3), and its errno */
    int sys_errno;
    struct addrinfo *all;
    void (*on_resolved)(void *ctx,
                        const struct addr_list *list,
                        const struct ddp_err *err);
    void *ctx;
};

/* `on_resolved` is called from the loop, once for each resolver_start, with the
 * addresses, or with `list` NULL and what went wrong (UNREACHABLE, and the text
 * names the host). Both are borrowed for the call. Errors: DDP_E_NOMEM. */
int resolver_init(struct resolver *r,
                  uv_loop_t *loop,
                  void (*on_resolved)(void *ctx,
                                      const struct addr_list *list,
                                      const struct ddp_err *err),
                  void *ctx,
                  struct ddp_err *err);

/* Not while a lookup is under way. Errors: DDP_E_NOMEM, there is no thread to
 * be had; on_resolved does not follow. */
int resolver_start(struct resolver *r,
                   const char *host,
                   int port,
                   struct ddp_err *err);

/* Whether the host needs none of this: it is an address, or localhost, which is
 * loopback whatever /etc/hosts says or if there is none (RFC 6761, 6.3). Its
 * address is in `list` then. */
bool resolver_is_needless(const char *host, int port, struct addr_list *list);

/* Whether on_resolved is still to come. */
bool resolver_is_busy(const struct resolver *r);

#endif
