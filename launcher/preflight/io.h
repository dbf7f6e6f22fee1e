/*
 * launcher/preflight/io: waiting and connecting for a preflight's probe, which
 * is a process of its own and blocks. Deadlines are microseconds of base/mono.
 */
#ifndef LAUNCHER_PREFLIGHT_IO_H
#define LAUNCHER_PREFLIGHT_IO_H

#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/dial.h"
#include "rendezvous/base/err.h"

/*
 * From now on SIGTERM ends the waits below (ABORTED), and those that follow,
 * instead of the process. For the probe that has something to say first.
 */
void preflight_io_catch_term(void);

/* What ends the waits, for others that wait (client/store). */
const struct dial_stop *preflight_io_stop(void);

/* Waits for poll(2) events; fd -1 only waits. 0: ready. Errors: TIMEOUT,
 * ABORTED, IO. */
int preflight_io_wait(int fd,
                      short events,
                      int64_t deadline_us,
                      struct ddp_err *err);

/*
 * Connects to a numeric address or a name; *fd is the caller's, non-blocking,
 * close-on-exec and without Nagle's pauses. Errors: UNREACHABLE with the
 * reason only in the text, and sys_errno (ETIMEDOUT, ECONNREFUSED, ...);
 * ABORTED.
 */
int preflight_io_dial(const char *host,
                      int port,
                      int64_t deadline_us,
                      int *fd,
                      struct ddp_err *err);

/* All of it, or -1: TIMEOUT, LOST, ABORTED. */
int preflight_io_send(int fd,
                      const void *data,
                      size_t len,
                      int64_t deadline_us,
                      struct ddp_err *err);
int preflight_io_recv(
    int fd, void *data, size_t len, int64_t deadline_us, struct ddp_err *err);

#endif
