#!/bin/sh
# Three nodes of which one is enough. Two of them, with the one that serves, lose
# their cables at the same moment: does the third one stop and wait, since it
# cannot know that they are dead? Does it go on once an operator says so, and only
# then? Is one of the others that comes back a newcomer, and does nobody but the
# operator's word make two worlds?
# limit: 90
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

# ctl_on MACHINE WORD...: ddpctl on that machine, where orders need no token.
ctl_on()
{
    STATUS=0
    _on=$1
    shift
    (in_machine "$_on" "$DDPCTL" "$@") \
        >ctl.out 2>&1 </dev/null || STATUS=$?
}

careful_worker
network a b c
nodes_on "a b c" --rdzv_id=job --nnodes=1:3 --max_restarts=1 \
    --scale_interval=0 --rdzv_endpoint=a:29500 \
    --rdzv_conf=heartbeat_timeout=2 ./careful
wait_world 3
first=$ROUND
ctl_on a go-on job --yes
same 2 "$STATUS" 'status while nobody is missing'
has 'needs no such order: 3 of its 3 voters are here' ctl.out

cut_off a
cut_off b
for name in a b c; do
    for pid in $(workers_on $name "$first"); do
        eventually 30 is_gone "$pid" ||
            fail "worker $pid of $name lives without a lease"
    done
done
eventually 30 grep -q 'see go-on in ddpctl(1)' c.err ||
    fail 'the third node does not say what may be done'
same "$first" "$(newest_round)" 'newest round'

ctl_on c go-on job
same 2 "$STATUS" 'status without a terminal and without --yes'
has 'give --yes' ctl.out
ctl_on c go-on job --yes
same 0 "$STATUS" 'status of go-on'
has "run 'job' goes on with 1 of its 3 voters" ctl.out
began=$(now_ms)
wait_world 1 "$first"
measured "the order was given: the third node runs alone after" \
    "$(took_to "$ROUND") ms"
same '0 ' "$(values restarts "$ROUND")" restarts
alone=$ROUND

heal b
wait_world 2 "$alone" 30
same 1 "$(sed -n 's/.*instance=\([^ ]*\).*/\1/p' started | sort -u | wc -l)" \
    instances
none_overlap
open_gate
for name in b c; do ends_with 0 $name; done
has 'the rendezvous was taken over from a:29500 by 10\.77\.0\.3:[0-9]* ' c.err
kill_node a
end_of a
for name in a b c; do nothing_left $name; done
