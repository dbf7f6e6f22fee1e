#!/bin/sh
# Is a --local_addr that does not resolve told while the job runs, since the
# workers of other nodes would look for it in vain? It ends nothing: the name may
# be made known later.
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

node a --local_addr=foo.invalid "$WORKER" hold
wait_lines 1 ' world=1 ' started
wait_for "local_addr: the name 'foo.invalid' does not resolve here" a.err 30
kill -TERM "$(pid_of a)"
ends_with 143 a
for addr in localhost 127.0.0.1 ::1; do
    launch 0 --local_addr=$addr sleep 0.2
    has_not 'resolve' it.err
done
nothing_left
