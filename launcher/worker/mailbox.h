/*
 * launcher/worker/mailbox: what a worker and its launcher tell each other
 * beside signals: that it makes progress (it writes to $DDP_PROGRESS_FILE),
 * that it looks whether it is asked to stop, and that it is ($DDP_STOP_FILE,
 * whose layout is rendezvous/base/stop_page.h).
 *
 * All are memfds of the agent, which workers reach through /proc: nothing is
 * left behind however the launcher ends, and no disk can be full. A worker in
 * another PID namespace does not find them, and does without.
 */
#ifndef LAUNCHER_WORKER_MAILBOX_H
#define LAUNCHER_WORKER_MAILBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "rendezvous/proto/msg.h"

#define MAILBOX_PATH_MAX 48

struct mailbox {
    int progress_fd, stop_fd; /* -1: none */
    int memory_fd;            /* the workers's, borrowed; -1: none */
};

/* No files yet; nothing to close. */
#define MAILBOX_NONE                                                           \
    {                                                                          \
        -1, -1, -1                                                             \
    }

/* Fresh files for one worker, instead of those that `m` has. Where descriptors
 * run out there are none, and the worker is asked by a signal. */
void mailbox_open(struct mailbox *m);
void mailbox_close(struct mailbox *m);

/* The paths for the worker's environment; "" where there is no file. */
void mailbox_progress_path(const struct mailbox *m,
                           char path[MAILBOX_PATH_MAX]);
void mailbox_stop_path(const struct mailbox *m, char path[MAILBOX_PATH_MAX]);
void mailbox_memory_path(const struct mailbox *m, char path[MAILBOX_PATH_MAX]);

/*
 * Memory for the snapshots of this node's workers, which outlives them and not
 * the launcher ($DDP_SNAPSHOT_MEMORY). It is taken as it is written to. -1: it
 * cannot be had.
 */
int mailbox_open_memory(uint64_t size);

/* Whether the worker wrote anything to its progress file. */
bool mailbox_progressed(const struct mailbox *m);

/*
 * What can be seen of its progress file: `written` changes with each write;
 * `step` is the number in it (which ddp_beat writes), -1 where it is empty or
 * holds anything else.
 */
void mailbox_read(const struct mailbox *m, int64_t *written, int64_t *step);

/* Asks the worker to leave; returns whether it looks for that. */
bool mailbox_ask(const struct mailbox *m, enum msg_graceful graceful);

#endif
