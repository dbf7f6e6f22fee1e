/*
 * launcher/worker/mailbox: the files by which a worker and its launcher tell
 * each other what signals cannot. The worker says that it makes progress
 * ($DDP_PROGRESS_FILE) and that it looks whether it is asked to leave; the
 * launcher asks it ($DDP_STOP_FILE, the page of rendezvous/base/stop_page.h).
 *
 * All are memfds of the agent, which workers open through /proc. So nothing is
 * left behind when the launcher ends, in whatever way, and no disk can be full.
 * A worker in another PID namespace does not find them, and runs without.
 */
#ifndef LAUNCHER_WORKER_MAILBOX_H
#define LAUNCHER_WORKER_MAILBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "rendezvous/base/stop_page.h"
#include "rendezvous/proto/msg.h"

#define MAILBOX_PATH_MAX 48

struct mailbox {
    int progress_fd, stop_fd; /* -1: none */
    int memory_fd;            /* for snapshots, borrowed; -1: none */
};

/* No files yet; nothing to close. */
#define MAILBOX_NONE                                                           \
    {                                                                          \
        -1, -1, -1                                                             \
    }

/* Makes fresh files for one worker, and closes those that `m` has. If a sandbox
 * refuses memfd_create there are none, and the worker is asked by a signal. -1:
 * no descriptors are left (errno). */
int mailbox_open(struct mailbox *m);
void mailbox_close(struct mailbox *m);

/* The paths for the worker's environment; "" if there is no file. */
void mailbox_progress_path(const struct mailbox *m,
                           char path[MAILBOX_PATH_MAX]);
void mailbox_stop_path(const struct mailbox *m, char path[MAILBOX_PATH_MAX]);
void mailbox_memory_path(const struct mailbox *m, char path[MAILBOX_PATH_MAX]);

/*
 * Memory for the snapshots of this node's workers ($DDP_SNAPSHOT_MEMORY). It
 * outlives the workers, but not the launcher. Its pages are taken as they are
 * written to. It is smaller if no file may be so large (ulimit -f). Returns a
 * descriptor; -1: there is no memory.
 */
int mailbox_open_memory(uint64_t size);

/* Whether the worker wrote anything to its progress file. */
bool mailbox_progressed(const struct mailbox *m);

/*
 * Reads the progress file: `written` changes with each write; `step` is the
 * number in it (which ddp_beat writes), or -1 if it is empty or holds anything
 * else.
 */
void mailbox_read(const struct mailbox *m, int64_t *written, int64_t *step);

/* Asks the worker to leave, and says why. Returns whether the worker looks; if
 * not, it has to be asked by a signal. */
bool mailbox_ask(const struct mailbox *m, enum msg_graceful graceful);

/*
 * Tells the worker why a signal comes. After STOP_PAGE_FAILED SIGTERM ends it
 * at once, even if it notes that signal to leave at a step
 * (ddp_stop_on_signal); after STOP_PAGE_SIGNAL ddp_should_stop says so even if
 * the program handles the signal itself. Returns whether it could be told; if
 * not, the signal alone has to do.
 */
bool mailbox_tell(const struct mailbox *m, enum stop_page_why why);

#endif
