/*
 * store/server: serves a TCPStore on a socket, both families of the protocol
 * side by side. A libuv shell around proto/c10d and store/store, on one thread.
 *
 * No client waits for another: a request is served when it is complete. A
 * client that sends half of one costs the bytes that it sent; one that does not
 * read is closed when too much waits for it. A silent connection is never timed
 * out: PyTorch's clients hold one for the whole job. A connection that is
 * closed for what its peer did gets a line in the log. Each source may cause
 * ten such lines at once, then one a second (base/log_limit).
 *
 * The process must ignore SIGPIPE.
 */
#ifndef RENDEZVOUS_STORE_SERVER_H
#define RENDEZVOUS_STORE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "rendezvous/base/err.h"

struct store_server;

struct store_server_limits {
    uint32_t conn_max;  /* connections; further ones are closed at once */
    size_t store_bytes; /* what keys, values and waits may take */
    size_t reply_bytes; /* what may wait to be read by one connection */
    size_t held_bytes;  /* memory of half requests and unread replies of all
                           connections, at any moment; for what would go beyond
                           it those that hold most are closed */
    /* Which peers may connect; NULL: all. */
    bool (*admits)(void *ctx, const struct sockaddr *peer);
    void *ctx;
};

/* 1 GiB, 64 MiB, 512 MiB, and as many connections as the soft limit of
 * descriptors allows, less some for others. */
struct store_server_limits store_server_limits_default(void);

/*
 * Serves on `loop` behind `listen_fd`, which is bound and listens already; -1:
 * there is none, all connections are adopted. Owns `listen_fd` from here on,
 * also if it fails. Errors: DDP_E_NOMEM; DDP_E_IO, the descriptor cannot be
 * used.
 */
int store_server_open(struct store_server **out,
                      uv_loop_t *loop,
                      int listen_fd,
                      const struct store_server_limits *limits,
                      struct ddp_err *err);

/*
 * Serves a connection that another process accepted and from which it has read
 * `data` so far (`len` may be 0). Owns `fd` from here on.
 */
void store_server_adopt(struct store_server *s,
                        int fd,
                        const void *data,
                        size_t len);

/* Closes every connection and forgets every key. `s` is gone for the caller;
 * its memory is freed by the loop, which must run until then. */
void store_server_close(struct store_server *s);

#endif
