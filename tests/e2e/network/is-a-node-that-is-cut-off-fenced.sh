#!/bin/sh
# A node's cable is cut silently: are its workers dead before the others go on
# without it, and does it come back without disturbing when it is healed?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

careful_worker
network host other
nodes_on "host other" --nnodes=1:2 --nproc_per_node=2 \
    --rdzv_endpoint=host:29500 --rdzv_conf=heartbeat_timeout=1 \
    ./careful
wait_round 1 4
began=$(now_ms)
cut_off other
eventually 30 has_lines 1 'the workers are killed' other.err ||
    fail 'the node that is cut off does not fence itself'
fenced=$(took)
for pid in $(workers_on other 1); do
    eventually 1 is_gone "$pid" || fail "worker $pid of the lost node lives"
done
wait_round 2 2
took=$(took_to 2)
measured "cut off with heartbeat_timeout=1: fenced after $fenced ms," \
    "the others run again after $took ms"
in_time 1300 "$took" 'the survivor'
none_overlap
same '01' "$(ranks_on host 2)" 'ranks of the survivor'
same '0 ' "$(values restarts 2)" restarts
has 'the workers are killed, since another round may start' other.err
heal other
# It has room: a larger world, again without a charge.
wait_round 3 4 30
same '4 ' "$(values world 3)" 'world size after the healing'
same '0 ' "$(values restarts 3)" restarts
same '01' "$(ranks_on host 3)" 'ranks of the survivor'
open_gate
all_end 0 host other
nothing_left
