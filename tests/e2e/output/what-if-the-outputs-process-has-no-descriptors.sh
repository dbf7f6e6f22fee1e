#!/bin/sh
# The process that the output passes through has no descriptor for the pipes of a
# worker: does the worker hang, is output lost, is it said?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v prlimit >/dev/null || skip 'needs prlimit'
relay_of()
{
    for pid in $(pgrep -P "$(agent_of it)"); do
        for fd in "/proc/$pid/fd"/*; do
            case $(readlink "$fd") in
            *stdout.log) echo "$pid" && return ;;
            esac
        done
    done
}
# More than a pipe holds.
# shellcheck disable=SC2016 # for the worker
node it --nproc_per_node=2 --max_restarts=1 --redirects=1 --log_dir=log sh -c '
    if [ "$TORCHELASTIC_RESTART_COUNT" = 0 ]; then
        echo up
        until [ -e "$E2E_DIR/go" ]; do sleep 0.02; done
        exit 1
    fi
    yes "a line of the second round" | head -n 50000'
eventually 30 sh -c 'grep -qs up log/*/attempt_0/0/stdout.log' || fail 'no start'
relay=$(relay_of)
prlimit --pid "${relay:?there is no relay}" --nofile=5:5
touch go
ends_with 0 it
has 'no file descriptor is free for the output of the worker with local rank' \
    it.err
has "the process for the workers' output ended for lack of descriptors or memory; another one was started" it.err
for rank in 0 1; do
    lines 50000 '^a line of the second round$' log/*/attempt_1/$rank/stdout.log
done
nothing_left
