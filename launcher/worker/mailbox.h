/*
 * launcher/worker/mailbox: the files by which a worker and its launcher tell
 * each other what signals cannot. The worker tells its progress, the step that
 * is on two nodes, and the time of its own part of a step ($DDP_PROGRESS_FILE).
 * The launcher asks the worker to leave at a step ($DDP_STOP_FILE), if the
 * worker has said there that it looks. Both are in rendezvous/base/stop_page.h.
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

/* The stop pages of all workers of a round. */
struct mailbox_pages {
    int fd;   /* -1: none */
    void *at; /* NULL: none */
    size_t len;
};

struct mailbox {
    int progress_fd;        /* -1: none */
    int memory_fd;          /* for snapshots, borrowed; -1: none */
    int stop_fd;            /* of all pages, borrowed; -1: none */
    struct stop_page *page; /* this worker's, borrowed; NULL: none */
};

/* No pages yet. */
#define MAILBOX_PAGES_NONE                                                     \
    {                                                                          \
        -1, NULL, 0                                                            \
    }

/* No files yet; nothing to close. */
#define MAILBOX_NONE                                                           \
    {                                                                          \
        -1, -1, -1, NULL                                                       \
    }

/* Makes fresh pages for so many workers, and lets go of those of before, which
 * no mailbox may have any more. If a sandbox refuses memfd_create there are
 * none, and workers are asked by signals. -1: no descriptors are left (errno).
 */
int mailbox_open_pages(struct mailbox_pages *pages, int workers);

/* Makes a fresh file for one worker, closes that which `m` has, and borrows the
 * worker's page. If a sandbox refuses memfd_create there is no file. -1: no
 * descriptors are left (errno). */
int mailbox_open(struct mailbox *m,
                 const struct mailbox_pages *pages,
                 int local_rank);
void mailbox_close(struct mailbox *m);

/* The path of one of the descriptors, for the worker's environment; "" if it is
 * -1. */
void mailbox_path(int fd, char path[MAILBOX_PATH_MAX]);

/*
 * Memory for the snapshots of this node's workers ($DDP_SNAPSHOT_MEMORY), which
 * may use `size` bytes of it: see base/stop_page. It outlives the workers,
 * but not the launcher. Its pages are taken as they are written to. It is
 * smaller if no file may be so large (ulimit -f). Returns a descriptor; -1:
 * there is no memory.
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

/* Reads what libddp says there of the state that it keeps: the newest step that
 * is in the memory of two nodes, -1: none is. False: it says nothing. */
bool mailbox_read_mirrored(const struct mailbox *m, int64_t *step);

/* Of messages.def; more is no step. */
#define MAILBOX_STEPS_MAX INT64_C(9000000000000000)

/* Adds to a beat what one worker says of mirrors, if that is less than the
 * others say. */
void mailbox_take_mirrored(const struct mailbox *m, struct msg_beat *beat);

/* Reads how long libddp says there that the worker's own part of a step takes,
 * and by how much its last steps differ (worker_rt/own_part). False: it says
 * nothing. */
bool mailbox_read_own(const struct mailbox *m,
                      int64_t *mean_us,
                      int64_t *noise_us);

/* How many launches before this one, in a row, left no newer step on the disk,
 * if this one has not, either; -1: it is not known. */
int64_t mailbox_read_barren(const struct mailbox *m);

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
