#!/bin/sh
# --failure_grace when something else comes meanwhile, or is set beside it: is it
# 0, longer than --shutdown_timeout, cut short by a second Ctrl-C, not extended by
# SIGTERM, the same on a node that lost another, half a second on all nodes for a
# worker that a signal killed, and no wait for those that end?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# begin OPTION...: three workers run that take 10 s for SIGTERM.
begin()
{
    rm -f started terms
    node it --nproc_per_node=3 "$@" "$WORKER" slow 10
    wait_round 1 3
    for rank in 1 2; do
        eventually 30 grep -q '^SigCgt:.*[4-7c-f]...$' \
            "/proc/$(worker_of $rank 1)/status"
    done
    began=$(now_ms)
    kill -KILL "$(worker_of 0 1)"
}

# between FROM_MS TO_MS WHAT
between()
{
    took=$(took)
    [ "$took" -ge "$1" ] || fail "$3 took only $took ms"
    in_time "$2" "$took" "$3"
}

begin --failure_grace=0
ends_with 137 it
between 0 1000 '--failure_grace=0'
has '2 workers, after 0 s (--failure_grace)' it.err

begin --failure_grace=20 --shutdown_timeout=1
ends_with 137 it
between 950 2500 'a grace above --shutdown_timeout'
has 'failure_grace=20: it cannot be longer than --shutdown_timeout' it.err
has '2 workers, after 1 s (--shutdown_timeout)' it.err

# A worker fails and SIGTERM comes: the status is the signal's.
begin --failure_grace=1.5
wait_lines 2 '^term ' terms
sleep 0.5
kill -TERM "$(pid_of it)"
ends_with 143 it
between 1450 2500 'a grace in which SIGTERM came'
has '2 workers, after 1.5 s (--failure_grace)' it.err
lines 2 '^term ' terms

begin --failure_grace=20
wait_lines 2 '^term ' terms
kill -INT "$(pid_of it)"
wait_for 'a second signal kills' it.err
kill -INT "$(pid_of it)"
ends_with 130 it
between 0 5000 'a second Ctrl-C'
has 'killing workers that did not stop: a second signal came' it.err

# Those that end with 0 by SIGTERM are not waited for, and have not succeeded.
rm started terms
node it --nproc_per_node=3 --failure_grace=20 "$WORKER" report
wait_round 1 3
for rank in 1 2; do
    eventually 30 grep -q '^SigCgt:.*[4-7c-f]...$' \
        "/proc/$(worker_of $rank 1)/status"
done
began=$(now_ms)
kill -KILL "$(worker_of 0 1)"
ends_with 137 it
between 0 2000 'the end of workers that obey'
has_not 'killing' it.err
lines 2 '^term ' terms

# A node is lost; then a worker of the node that is left fails.
rm started terms
port=$(free_port)
daemon d "$port"
nodes "a b" --nnodes=1:2 --nproc_per_node=2 --failure_grace=1 \
    --rdzv_conf=is_host=0 --rdzv_endpoint="127.0.0.1:$port" \
    "$WORKER" slow 10
wait_round 1 4
for rank in 0 1 2 3; do
    eventually 30 grep -q '^SigCgt:.*[4-7c-f]...$' \
        "/proc/$(worker_of $rank 1)/status"
done
began=$(now_ms)
kill -KILL "$(pid_of b)"
wait_round 2 2
took=$(took_to 2)
[ "$took" -ge 950 ] || fail "a: the handlers had only $took ms"
in_time 2500 "$took" 'the round of a'
has '2 workers, after 1 s (--failure_grace)' a.err
kill -KILL "$(worker_of 0 2)"
ends_with 137 a
nothing_left a

# A signal kills a worker of another node, for which these most likely wait.
rm started terms
nodes "x y" --nnodes=2 --nproc_per_node=1 --rdzv_id=death --max_restarts=1 \
    --rdzv_conf=is_host=0 --rdzv_endpoint="127.0.0.1:$port" \
    "$WORKER" slow 10
wait_round 1 2
for rank in 0 1; do
    eventually 30 grep -q '^SigCgt:.*[4-7c-f]...$' \
        "/proc/$(worker_of $rank 1)/status"
done
began=$(now_ms)
kill -KILL "$(worker_of 0 1)"
wait_round 2 2
took=$(took_to 2)
[ "$took" -ge 450 ] || fail "the handler had only $took ms"
in_time 2000 "$took" 'the round after a death on another node'
cat x.err y.err >both.err
has '1 worker, after 0.5 s (--failure_grace)' both.err
kill -INT "$(pid_of x)" "$(pid_of y)"
