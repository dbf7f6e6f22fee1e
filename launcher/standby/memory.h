/*
 * launcher/standby/memory: whether there is room for an importer. A standby
 * must never be the reason why a job has too little memory.
 */
#ifndef LAUNCHER_STANDBY_MEMORY_H
#define LAUNCHER_STANDBY_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What all importers of a node may take of the memory that is free. */
#define MEMORY_SHARE 4 /* a quarter */

/* The machine's free memory, or what this cgroup may still take if that is
 * less, in bytes; -1: not known. */
int64_t memory_free(void);

/* What a process has in memory, its importer's upper bound; -1: not known. */
int64_t memory_of(pid_t pid);

/* Pure. Not if either is not known. */
bool memory_fits(int64_t of_worker, int64_t free);

/* Pure: of the text of /proc/meminfo, -1: it does not say. */
int64_t memory_parse(const char *meminfo);

#endif
