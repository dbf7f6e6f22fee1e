/*
 * launcher/standby/order: what a standby is told, and the messages with
 * descriptors between launcher, importer and standby.
 */
#ifndef LAUNCHER_STANDBY_ORDER_H
#define LAUNCHER_STANDBY_ORDER_H

#include <stddef.h>
#include <sys/types.h>

#include "launcher/worker/spawn.h"

#define ORDER_FDS 4 /* the order's file, and the three streams */

/*
 * A file in memory with the order for one worker: fields that end with a zero
 * byte. They are `watched` (0 or 1), the CPUs to be bound to ("": as we are),
 * the number of arguments, the arguments, and the environment. Returns the
 * descriptor, the caller's; -1 with errno.
 */
int order_write(const struct spawn_request *req);

/* The same with any bytes; `flags` are memfd_create(2)'s. */
int order_file(const void *data, size_t len, unsigned flags);

/* Two ends, the caller's: pair[0] is ours, and tells who sent a message. -1
 * with errno. */
int order_pair(int pair[2]);

/* Sends `byte` with n descriptors, now or not at all. -1 with errno. */
int order_send(int chan, char byte, const int *fds, int n);

/*
 * Reads a message, and who sent it (0: not known), at our end of a pair.
 * Returns its length, 0 if the other end is closed, -1 if none is there.
 */
ssize_t order_receive(int chan, char *text, size_t cap, pid_t *sender);

#endif
