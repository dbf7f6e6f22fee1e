#!/bin/sh
# A Python worker whose interpreter is not up yet, or broken, makes no progress. gdb
# has it write its lines, and what does that breaks: is the worker as it was, so
# that the hang is what is told?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v gdb >/dev/null || skip 'needs gdb'
# As _PyRuntime is in the first moments: nothing behind the pointer.
cat >starts.c <<'C'
#include <unistd.h>
void *volatile main_thread;
void _Py_DumpTracebackThreads(int fd, void *interp, void *thread);
void _Py_DumpTracebackThreads(int fd, void *interp, void *thread)
{
    (void)interp, (void)thread;
    (void)!write(fd, *(char **)main_thread, 1);
}
int main(void)
{
    for (;;)
        sleep(1);
}
C
cc -rdynamic -o python3 starts.c || fail 'cannot compile'
launch 82 --hang_timeout=1.5 ./python3
has 'made no progress' it.err
has_not 'signal 11' it.err
