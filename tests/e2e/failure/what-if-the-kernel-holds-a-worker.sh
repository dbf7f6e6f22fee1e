#!/bin/sh
# A worker that SIGKILL does not end, since the kernel holds it in uninterruptible
# sleep (a frozen cgroup of version 1 stands for a disk that does not answer): is
# it named, does its node leave when the user's limit is over, and do the others
# go on without it; and is a launch without a limit told, and does it end by itself
# once the kernel lets go?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

need_root 'to freeze a worker'
mkdir freezer
mount -t cgroup -o freezer none freezer 2>/dev/null ||
    skip 'needs the freezer of cgroup version 1'
MOUNTS=$E2E_DIR/freezer
ice=$E2E_DIR/freezer/ddpe2e-$$
mkdir "$ice" || skip 'no cgroup can be made here'
thaw()
{
    echo THAWED >"$ice/freezer.state"
}
trap 'thaw; eventually 5 rmdir "$ice" 2>/dev/null; cleanup' EXIT

# freeze PID
freeze()
{
    echo "$1" >"$ice/cgroup.procs" && echo FROZEN >"$ice/freezer.state" ||
        fail "$1 cannot be frozen"
    eventually 5 grep -q '^State:.D' "/proc/$1/status" || fail 'it is not frozen'
}

# said FILE PID: the sentence.
said()
{
    wait_for "pid $2) on .* was sent SIGKILL .* (state D, in " "$1"
}

port=$(free_port)
daemon d "$port"
export TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=7
nodes "a b" --nnodes=1:2 --max_restarts=1 --rdzv_conf=is_host=0 \
    --rdzv_endpoint="127.0.0.1:$port" "$WORKER" hold
unset TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT
wait_round 1 2
held=$(workers_on b 1)
freeze "$held"
began=$(now_ms)
kill -KILL "$(workers_on a 1)"
said b.err "$held"
has 'this node leaves 7 s after SIGKILL' b.err
ends_with 81 b
took=$(took)
[ "$took" -ge 7000 ] || fail "b left after $took ms"
has 'this node is not fit: rank . (local rank 0, pid '"$held"')' b.err
wait_round 2 1
grep -q '^State:.D' "/proc/$held/status" || fail 'nothing held the worker'
thaw
eventually 5 test ! -e "/proc/$held" || fail 'the worker lives on'
kill -TERM "$(pid_of a)"
ends_with 143 a

: >started
node it --failure_grace=1 "$WORKER" hold
wait_round 1 1
held=$(worker_of 0 1)
freeze "$held"
kill -TERM "$(pid_of it)"
kill -TERM "$(pid_of it)"
said it.err "$held"
has 'TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=SECONDS' it.err
thaw
ends_with 143 it
for name in a b it; do
    nothing_left $name
done
