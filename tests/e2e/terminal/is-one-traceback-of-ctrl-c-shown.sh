#!/bin/sh
# Ctrl-C while four workers import: is there one traceback, and a line about those of
# the others, whose log files have them?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'

cat >imports.py <<'PROGRAM'
import os, time
print("importing", flush=True)
time.sleep(300)
PROGRAM

# interrupted OPTION...: by SIGINT, once all four are there.
interrupted()
{
    node it --nproc_per_node=4 "$@" imports.py
    wait_lines 4 importing it.out
    kill -INT "$(pid_of it)"
    ends_with 130 it
}

interrupted
lines 1 KeyboardInterrupt it.err
has '^ddprun: [0-9]* more lines on stderr after Ctrl-C, of 3 other workers (--red' it.err

interrupted --log-dir=logs --tee=3
lines 1 KeyboardInterrupt it.err
has ' more lines on stderr after Ctrl-C, of 3 other workers: in the log files' it.err
same 4 "$(cat logs/*/*/*/stderr.log | grep -c KeyboardInterrupt)" 'tracebacks in files'
