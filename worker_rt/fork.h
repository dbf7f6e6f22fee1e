/*
 * worker_rt/fork: descriptors that a forked child must not hold. As long as a
 * child has a copy of a connection, peers do not see the death of its parent;
 * as long as it has one of a locked file, nobody else gets the lock.
 *
 * The child gets /dev/null in their place: the numbers stay taken, so that what
 * it closes later is its own.
 */
#ifndef WORKER_RT_FORK_H
#define WORKER_RT_FORK_H

#include <stddef.h>

/* `n` descriptors, -1 among them, the next one `stride` bytes behind the one
 * before. They may change while they are watched. All zero: not watched. */
struct fork_watch {
    struct fork_watch *next;
    int *first;
    size_t n;
    size_t stride;
};

/* Borrows both until fork_forget, which may be called on what is not watched.
 * From any thread. */
void fork_watch(struct fork_watch *f, int *first, size_t n, size_t stride);
void fork_forget(struct fork_watch *f);

#endif
