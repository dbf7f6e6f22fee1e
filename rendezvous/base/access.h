/*
 * base/access: what may be done with a file.
 *
 * faccessat(3) in sandboxes: for some flags, and from glibc 2.33 on for all, it
 * is a call of Linux 5.8; if a sandbox answers EPERM to that, glibc takes it
 * for the answer of the file.
 */
#ifndef RENDEZVOUS_BASE_ACCESS_H
#define RENDEZVOUS_BASE_ACCESS_H

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As faccessat. If the sandbox refuses, AT_EACCESS and AT_SYMLINK_NOFOLLOW in
 * `flags` have no effect: the real user counts, and links are followed. */
static inline int access_at(int dir, const char *path, int mode, int flags)
{
    if (faccessat(dir, path, mode, flags) == 0)
        return 0;
    if (errno != EPERM)
        return -1;
    return (int)syscall(SYS_faccessat, dir, path, mode);
}

#endif
