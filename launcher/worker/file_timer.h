/*
 * launcher/worker/file_timer: PyTorch's file timers (torch.distributed.elastic
 * .timer). A program says through a pipe until when it will have done a thing,
 * and then that it has; a process that overruns gets the signal that it named.
 *
 * They are served if TORCHELASTIC_ENABLE_FILE_TIMER is 1, as by torchrun.
 * TORCHELASTIC_TIMER_FILE, which workers inherit, is then the path of the pipe:
 * a named one there if the user has set it, else one without a name.
 */
#ifndef LAUNCHER_WORKER_FILE_TIMER_H
#define LAUNCHER_WORKER_FILE_TIMER_H

#include <uv.h>

#include "launcher/worker/workers.h"

#define FILE_TIMERS_MAX 1024 /* at once, of all workers of this node */

struct file_timer;

/*
 * Opens the pipe and sets the variable in our own environment. NULL: they are
 * not asked for, or there is no pipe, which is said. The functions below take
 * NULL. Borrows `workers` for the life of the process.
 */
struct file_timer *
file_timer_new(uv_loop_t *loop, const struct workers *workers, int nproc);

/* Before the workers of a round are started: what those before them said is
 * dropped. */
void file_timer_round(struct file_timer *f);

/* Removes the named pipe. */
void file_timer_end(const struct file_timer *f);

#endif
