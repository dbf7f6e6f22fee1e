#!/bin/sh
# Does each error of the launcher's own end it with the status that ddprun(1)
# names, and a sentence? Those that need more than a line are asked elsewhere,
# and the last part of this looks whether there is a test for each of them.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
at=127.0.0.1:$port

# 65: the nodes of one run disagree.
node a --nnodes=2 --rdzv_endpoint="$at" "$WORKER" gate
wait_listener "$port"
launch 65 --nnodes=3 --rdzv_endpoint="$at" "$WORKER" gate
has 'refused this node' it.err
kill -TERM "$(pid_of a)"
ends_with 143 a

# 66: a needed file cannot be read.
launch 66 --nnodes=2 --rdzv_endpoint="$at" --rdzv_token_file=not-there true
has 'token file not-there: No such file' it.err

# 69: nobody is there; 72: they were, and did not come back.
launch 69 --nnodes=2 --rdzv_endpoint="$at" \
    --rdzv_conf=is_host=0,join_timeout=0.2 true
has "the rendezvous at 127.0.0.1 port $port was not reached in 0 s: .*refused. Check that .*no other program has the port" \
    it.err
daemon d "$port"
node a --nnodes=2 --rdzv_endpoint="$at" \
    --rdzv_conf=is_host=0,reconnect_timeout=0.3 true
wait_for 'joined node' d.err
sleep 0.3
kill -KILL "$(pid_of d)"
ends_with 72 a
has "the rendezvous at 127.0.0.1 port $port was lost and did not come back in .*reconnect_timeout=" \
    a.err

# 70: a bug. An assertion that does not hold aborts.
node a "$WORKER" hold
wait_lines 1 ' world=1 ' started
kill -ABRT "$(agent_of a)"
ends_with 70 a
has 'SIGABRT.*a bug of ddprun' a.err
nothing_left a

# 78: a port that another job has.
node a --master_port="$port" "$WORKER" hold
wait_lines 2 ' world=1 ' started
launch 78 --master_port="$port" true
has 'cannot listen on .* port [0-9]*: Address already in use; another job or program has that port .*--master_port' \
    it.err
kill -TERM "$(pid_of a)"
ends_with 143 a

# 74: nothing can be written.
for what in --help --version --print_completion=bash; do
    "$DDPRUN" $what >/dev/full 2>full.err
    same 74 $? "status of $what"
    lines 1 'cannot write' full.err
done

# 77: a peer dies. A launcher ends with the status of whoever failed first, so
# this asks the worker itself, without one.
if [ -x "$E2E_BIN/ddptrain" ]; then
    background store "$DDPRDZVD" --listen="$at" --c10d
    wait_for 'serving on port' store.err
    for rank in 0 1; do
        background rank$rank env RANK=$rank WORLD_SIZE=2 LOCAL_RANK=0 \
            LOCAL_WORLD_SIZE=1 GROUP_RANK=$rank MASTER_ADDR=127.0.0.1 \
            MASTER_PORT="$port" "$E2E_BIN/ddptrain" 100000 100000 --model=linear
    done
    wait_for '^epoch' rank0.out
    kill -KILL "$(pid_of rank1)"
    ends_with 77 rank0
    has 'rank 1 died' rank0.err
    kill "$(pid_of store)"
    ends_with 0 store
fi

# 79: no program of ours cancels its own operation, but one on libddp may.
if [ -x "$E2E_BIN/aborted" ]; then
    launch 79 "$E2E_BIN/aborted"
    has '^aborted: .*aborted' it.err
    has 'first failure .*: exit code 79' it.err
fi

# Each of errors.def is in the manual and has a test that ends a process with
# it, and not one that has its number or its name among other words; 0 and those of workers
# are asked in which-status-does-the-launcher-end-with, 137 in
# is-nothing-left-of-a-killed-launcher.
tests=$E2E_LIB/../..
test_of()
{
    case $1 in
    0 | 2 | 126 | 127)
        echo e2e/report/which-status-does-the-launcher-end-with.sh
        ;;
    65 | 66 | 69 | 70 | 72 | 74 | 77 | 79)
        echo e2e/report/does-each-error-have-its-status.sh
        ;;
    67) echo e2e/training/what-if-the-snapshot-is-damaged.sh ;;
    68) echo e2e/failure/does-a-crash-loop-end-early.sh ;;
    71) echo e2e/failure/what-if-descriptors-run-out.sh ;;
    75) echo e2e/nodes/who-came-when-too-few-came.sh ;;
    76) echo e2e/security/can-a-false-server-hurt-a-launcher.sh ;;
    78) echo e2e/security/is-a-node-without-the-token-told-so.sh ;;
    80) echo e2e/daemon/can-a-node-be-drained.sh ;;
    81) echo e2e/nodes/does-an-unfit-node-leave-to-a-spare.sh ;;
    82) echo e2e/failure/is-a-worker-without-progress-found.sh ;;
    83) echo e2e/preflight/is-a-blocked-port-named.sh ;;
    84) echo e2e/daemon/can-a-run-be-ended.sh ;;
    85) echo e2e/daemon/does-a-crash-loop-outlive-the-daemon.sh ;;
    86) echo e2e/failure/is-a-job-that-only-fails-told-not-to-be-submitted.sh ;;
    esac
}
sed -n 's/^DDP_ERROR(\([A-Z]*\), *\([0-9]*\),.*/\2 \1/p' \
    "$tests/../rendezvous/base/errors.def" >errors
[ "$(wc -l <errors)" -gt 20 ] || fail 'errors.def is not read'
while read -r status name; do
    lines 1 "^\\.It $status Ta " "$tests/../man/ddprun.1"
    file=$(test_of "$status")
    grep -Eq "^ *(launch|ends_with|all_end|preflight|same|(asked|join) [^ ]*) $status( |\$)" \
        "$tests/${file:?no test ends with $status, $name}" ||
        fail "$file does not end with $status, $name"
done <errors
nothing_left
