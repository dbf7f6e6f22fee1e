/*
 * launcher/proc/memory: how much memory this process and what it starts may
 * have, by the machine and by the cgroups that it is in, and how much of that
 * is free. And whether there is room for an importer of standbys, and whether
 * there still is: a standby must never be the reason why a job has too little.
 */
#ifndef LAUNCHER_PROC_MEMORY_H
#define LAUNCHER_PROC_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What all importers of a node may take of the memory that is free. */
#define MEMORY_SHARE 4 /* a quarter */

/* The machine's memory, or the limit of this cgroup or of one above it if that
 * is less, in bytes. */
int64_t memory_all(void);

/* The machine's free memory, or what this cgroup or one above it may still take
 * if that is less, in bytes; -1: not known. The page cache counts as free. */
int64_t memory_free(void);

/* What a process has in memory, its importer's upper bound; -1: not known. */
int64_t memory_of(pid_t pid);

/* Pure. Not if either is not known. */
bool memory_fits(int64_t of_worker, int64_t free);

/* Pure: less is free than an importer takes, so its end helps. Not if either is
 * not known. */
bool memory_short(int64_t of_importer, int64_t free);

/* Pure: of the text of /proc/meminfo, -1: it does not say. */
int64_t memory_parse(const char *meminfo);

/* Pure: the page cache, of the text of a cgroup's memory.stat; 0: it does not
 * say. With `all` that of the groups below it as well (version 1). */
int64_t memory_cache(const char *stat, bool all);

#endif
