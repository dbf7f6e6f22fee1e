#!/bin/sh
# Workers hang that no debugger may look into, since their user may not (they
# are not dumpable) on a machine with kernel.yama.ptrace_scope=3: does the log
# say so in a sentence, in place of what a debugger says? May the launcher's
# children look where only ancestors may, since each worker allows it?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

need_namespaces
command -v setpriv >/dev/null || skip 'needs setpriv'
python=$(command -v /usr/bin/python3) || skip 'needs /usr/bin/python3'
command -v cc >/dev/null || skip 'needs cc'
chmod 711 "$E2E_WORK" "$E2E_DIR"
mkdir -m 777 home
cat >stuck.py <<'PY'
import ctypes, time
PR_SET_DUMPABLE = 4
ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
time.sleep(1000)
PY
# What the kernel says of Yama is laid over; what it forbids is real.
# shellcheck disable=SC2016 # for the inner shell
background it unshare --mount sh -c '
    mount -t tmpfs tmpfs /proc/sys/kernel && mkdir /proc/sys/kernel/yama &&
        echo 3 >/proc/sys/kernel/yama/ptrace_scope &&
        exec setpriv --reuid=54321 --regid=54321 --clear-groups \
            env TMPDIR="$E2E_DIR/home" "$@"
    ' sh "$DDPRUN" --hang_timeout=0.5 --no_python "$python" stuck.py
ends_with 82 it
has 'no stacks: .* lets nobody look into it: Operation not permitted$' it.err
has 'kernel.yama.ptrace_scope is 3: none may, until the next boot)$' it.err
has '  thread [0-9]* (python.*): state S, where it waits may not be read$' it.err
has_not 'ptrace:\|No threads\|neither gdb' it.err

# Yama itself is on few machines that tests run on: what the worker asks of it.
cat >asked.c <<'C'
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int prctl(int what, ...)
{
    va_list ap;
    va_start(ap, what);
    unsigned long arg = va_arg(ap, unsigned long);
    va_end(ap);
    int fd = open(getenv("ASKED"), O_WRONLY | O_APPEND | O_CREAT, 0666);
    if (what == PR_SET_PTRACER)
        dprintf(fd, "may look: %lu\n", arg);
    close(fd);
    return (int)syscall(SYS_prctl, what, arg, 0, 0, 0);
}
C
cc -O1 -shared -fPIC -o asked.so asked.c || skip 'cc makes no library'
background it env LD_PRELOAD="$E2E_DIR/asked.so" ASKED="$E2E_DIR/asked" \
    "$DDPRUN" --hang_timeout=60 "$WORKER" hold
wait_round 1 1
agent=$(agent_of it)
kill -TERM "$(pid_of it)"
end_of it
same "may look: $agent" "$(cat asked)" 'who may look'
nothing_left
