#!/bin/sh
# One node: is what a failure prints of ours short, on 80 columns, with one line
# for neighbours that were only told to stop, and without a word about other
# nodes? Is the one who went by itself after the first still named? Has
# nobody a pid who was never started? Does a spare end with a status of its own?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

launch 3 --nproc_per_node=8 sh -c 'case $RANK in
    5) until [ -e up ]; do sleep 0.02; done; exit 3 ;;
    2) trap "exit 9" TERM; >up; while :; do sleep 0.02; done ;;
    esac; exec sleep 300'
has 'first failure   rank 5 on .* (local rank 5, pid [0-9]*): exit code 3$' \
    it.err
has "then            rank 2 on .* (local rank 2, pid [0-9]*): exit code 9$" it.err
for ranks in 0-1 3-4 6-7; do
    has "^ddprun:  *ranks $ranks on .* (local $ranks): stopped (SIGTERM)$" it.err
done
has 'exit status     3$' it.err
has_not 'more: \|every node\|waiting for nodes\|^.\{81\}' it.err

# A limit that only a part of the workers fits into: what to do about it?
(
    no_look_for_leaks
    ulimit -n 64 && exec env "E2E_MARK=$E2E_DIR:it" "$DDPRUN" \
        --nproc_per_node=64 --redirects=3 --log_dir=logs sleep 300
) 2>it.err 9<&-
same 71 $? 'without descriptors'
has 'could not be started$' it.err
has 'ulimit -n' it.err
has_not 'pid 0' it.err

# A third node where two are wanted.
port=$(free_port)
for name in a b c; do
    node $name --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
    wait_listener "$port"
done
wait_round 1 2
cat ./*.err >all
has 'round 1: rank 0 of 2, node 0 of 2' all
has 'round 1: rank 1 of 2, node 1 of 2' all
eventually 30 grep -q 'waits as a spare' a.err b.err c.err || fail 'no spare'
open_gate
for name in a b c; do
    grep -q 'waits as a spare' $name.err && status=85 || status=0
    ends_with $status $name
done
cat ./*.err >all
lines 1 "run 'none' succeeded without this node" all
