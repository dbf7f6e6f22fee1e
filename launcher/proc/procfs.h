/*
 * launcher/proc/procfs: what /proc says of a process, and whether its numbers
 * are ours. A pid namespace that was made without a /proc of its own (unshare
 * -fp, a chroot, a sandbox) shows the processes of another one. A number from
 * there names another process here, and must not be used.
 */
#ifndef LAUNCHER_PROC_PROCFS_H
#define LAUNCHER_PROC_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct procfs_process {
    char state;          /* proc(5): R, S, D, T, t, Z, X, ... */
    pid_t parent, group; /* the process group */
};

/* Whether the numbers in /proc are those of our own pid namespace. Also false
 * if that cannot be seen: no /proc, no descriptor is free. */
bool procfs_is_ours(void);

/* Our own number in /proc, whosever it is; 0: we are not in it. */
pid_t procfs_self(void);

/* The beginning of a file, as text. False: it cannot be read, or is empty; ""
 * then. The second one is of /proc/PID/NAME. */
bool procfs_read_file(const char *path, char *text, size_t size);
bool procfs_read_text(pid_t pid, const char *name, char *text, size_t size);

/* Whether a file whose path has one of the n names in it is mapped into the
 * process; false also if that is not shown. */
bool procfs_has_mapped(pid_t pid, const char *const *names, size_t n);

/* False: there is no such process (any more), or errno is EMFILE or ENFILE. */
bool procfs_read(pid_t pid, struct procfs_process *out);

/* Whether the main thread of a process is past its last instruction; the wait
 * status of that (0 if it ends alone, or if we may not know). */
bool procfs_is_ending(pid_t pid, int *wait_status);

/* The text of /proc/PID/stat. False: it is not whole. */
bool procfs_parse_stat(const char *text, struct procfs_process *out);

/* The text of /proc/PID/status: whether the process has no other number than
 * `pid` from that /proc's namespace downwards. A kernel that does not tell
 * (Linux before 4.1) is believed. */
bool procfs_parse_status(const char *text, pid_t pid);

#endif
