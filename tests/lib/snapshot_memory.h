/*
 * tests/lib/snapshot_memory: the memory that ddprun gives its workers for
 * snapshots (launcher/worker/mailbox makes it, worker_rt/snapshot/mem_slots
 * uses it).
 */
#ifndef SNAPSHOT_MEMORY_H
#define SNAPSHOT_MEMORY_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rendezvous/base/stop_page.h"

/* Makes it, with `len` bytes that may be used, and names it in the environment,
 * for as long as this process lives. Returns 0, or -1 with errno. */
static inline int snapshot_memory_give(uint64_t len)
{
    char path[48];
    int fd = memfd_create(MEMFD_SNAPSHOTS, 0);
    if (fd < 0 || ftruncate(fd, (off_t)snapshot_slots_length(len)) != 0)
        return -1;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(),
                   fd); /* fits */
    return setenv("DDP_SNAPSHOT_MEMORY", path, 1);
}

#endif
