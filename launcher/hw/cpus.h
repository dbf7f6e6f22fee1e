/*
 * launcher/hw/cpus: sets of CPUs as the kernel writes them ("0-3,8"), and the
 * CPUs that this process may use. No allocation; a set is a plain value.
 */
#ifndef LAUNCHER_HW_CPUS_H
#define LAUNCHER_HW_CPUS_H

#include <stdbool.h>
#include <stddef.h>

#define CPUS_MAX       4096 /* CPUs 0..CPUS_MAX-1; Linux 6 has at most 8192 */
#define CPUS_WORD_BITS ((int)(8 * sizeof(unsigned long)))

/* The layout that sched_setaffinity(2) takes. */
struct cpus {
    unsigned long bits[CPUS_MAX / (8 * sizeof(unsigned long))];
};

void cpus_add(struct cpus *set, int cpu);
bool cpus_has(const struct cpus *set, int cpu);
int cpus_count(const struct cpus *set);

/* The lowest CPU that is at least `from` (>= 0); -1 if there is none. */
int cpus_next(const struct cpus *set, int from);

/* *set becomes the intersection, the union, the difference of both. */
void cpus_and(struct cpus *set, const struct cpus *other);
void cpus_or(struct cpus *set, const struct cpus *other);
void cpus_drop(struct cpus *set, const struct cpus *other);

/* Reads "0-3,8", with or without a newline; "" is the empty set. False if it is
 * no such list. CPUs beyond CPUS_MAX are left out. */
bool cpus_read(const char *text, struct cpus *set);

/* Writes the list; a long one is cut to `cap` bytes, with "..." at its end.
 * Returns `text`. */
char *cpus_format(const struct cpus *set, char *text, size_t cap);

/* The CPUs that the affinity of this thread allows. Never empty: CPU 0 if the
 * kernel does not say. */
void cpus_allowed(struct cpus *set);

/*
 * The CPU quota of this process's cgroup in CPUs, rounded up: the least cpu.max
 * of the group and its parents (v2), or cpu.cfs_quota_us (v1). 0: no limit, or
 * none was found. `root` is "" except in tests, where it is put before
 * /proc/self/cgroup, /proc/self/mountinfo and each mount point.
 */
int cpus_quota(const char *root);

#endif
