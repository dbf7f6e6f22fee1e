#!/bin/sh
# A node is killed while its run waits for more; then one is cut off at that
# time, so that it is counted in and never hears of the round: do the others run
# without it, with no charge, and does it come in when its cable is whole again?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

careful_worker
network server a b c
daemon_on server d 29500

# come RUN LAST_CALL: three nodes join, two are enough, four may come.
come()
{
    : >started
    nodes_on "a b c" --rdzv_id="$1" --nnodes=2:4 --max_restarts=1 \
        --scale_interval=0 --rdzv_endpoint=server:29500 \
        --rdzv_conf="heartbeat_timeout=1,last_call_timeout=$2" ./careful
    wait_for "run $1 .*, 3 of 2..4" d.err
}

come killed 1
kill_node c
wait_world 2
same '2 ' "$(values world 1)" 'world size without the one that was killed'
same '0 ' "$(values restarts 1)" restarts
open_gate
all_end 0 a b
end_of c
close_gate

come cut 0.5
cut_off c
began=$(now_ms)
eventually 30 has_lines 2 '^round=.* groups=2 ' started ||
    fail 'the others do not run without the one that was cut off'
measured "a node cut off in the last call of 0.5 s, heartbeat_timeout=1:" \
    "the others run after $(took) ms"
in_time 4000 "$(took)" 'the round of the others'
lines 0 ' node=c ' started
alone=$(newest_round)
heal c
wait_world 3 "$alone"
same '0 ' "$(values restarts "$ROUND")" restarts
open_gate
for name in a b c; do ends_with 0 $name; done
none_overlap
for name in a b c; do nothing_left $name; done
