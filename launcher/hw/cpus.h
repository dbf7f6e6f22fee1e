/*
 * launcher/hw/cpus: sets of CPUs as the kernel writes them ("0-3,8"), and which
 * of them this process may use. No allocation; a set is a plain value.
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

/* The lowest that is at least `from`; -1 where there is none. */
int cpus_next(const struct cpus *set, int from);

/* *set becomes what is in both, in any of both, in itself only. */
void cpus_and(struct cpus *set, const struct cpus *other);
void cpus_or(struct cpus *set, const struct cpus *other);
void cpus_drop(struct cpus *set, const struct cpus *other);

/* Reads "0-3,8", a new line at its end allowed; "" is no CPU. False where it
 * is no such list; CPUs beyond CPUS_MAX are left out. */
bool cpus_read(const char *text, struct cpus *set);

/* Writes the list, cut to `cap` bytes with "..." at its end; returns `text`. */
char *cpus_format(const struct cpus *set, char *text, size_t cap);

/* What the affinity of this thread allows; never empty (CPU 0 where the kernel
 * does not say). */
void cpus_allowed(struct cpus *set);

/*
 * How many CPUs' time the cgroup of this process gives, rounded up: the least
 * cpu.max of it and its parents (v2), or cpu.cfs_quota_us (v1). 0: no limit,
 * or none that can be found. `root` is "" but in tests: ROOT/proc/self/cgroup
 * and ROOT/proc/self/mountinfo are read, and ROOT before each mount point.
 */
int cpus_quota(const char *root);

#endif
