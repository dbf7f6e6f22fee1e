#!/bin/sh
# A kernel without CONFIG_PROC_CHILDREN has no /proc/PID/task/TID/children: is
# all that workers left behind killed nevertheless?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"
. "$E2E_LIB/strangers.sh"
need_tools cc
leaver

cat >hide.c <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int hide(const char *path, int flags, int mode)
{
    size_t len = strlen(path);
    if (len > 9 && strcmp(path + len - 9, "/children") == 0) {
        errno = ENOENT;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

#define HIDE(name)                      \
    int name(const char *path, int flags, ...) \
    {                                   \
        va_list args;                   \
        va_start(args, flags);          \
        int mode = va_arg(args, int);   \
        va_end(args);                   \
        return hide(path, flags, mode); \
    }
HIDE(open)
HIDE(open64)
C
cc -O1 -shared -fPIC -o hide.so hide.c || skip 'cc makes no library'
hidden()
{
    background it env LD_PRELOAD="$E2E_DIR/hide.so" "$DDPRUN" --cgroup=none "$@"
}

hidden --nproc_per_node=2 --max_restarts=2 ./leaver 2
ends_with 0 it
same '' "$(marked it)" 'processes that are left'
hidden --nproc_per_node=2 "$WORKER" family
wait_round 1 2
eventually 30 has_lines 2 family families || fail 'no families'
kill -KILL "$(agent_among it)"
ends_with 137 it
same '' "$(marked it)" 'processes that are left of a killed agent'
has 'every process that it had started was killed' it.err
