#!/bin/sh
# The cable is cut for 1.5 s, right before a beat, with default settings and a
# job that could go on without that node: is no worker restarted?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v ss >/dev/null || skip 'needs ss'
network host other
nodes_on "host other" --nnodes=1:2 --nproc_per_node=2 \
    --rdzv_endpoint=host:29500 "$WORKER" gate
wait_round 1 4

# The last beat went out so long ago; the next one comes half a second after it.
beat_is_near()
{
    _last=$(ip netns exec dpe$$-other ss -Htin 'dport = :29500' |
        sed -n 's/.* lastsnd:\([0-9]*\) .*/\1/p')
    [ "${_last:-0}" -gt 420 ] && [ "$_last" -lt 470 ]
}
sleep 1.1 # the first beats come sooner
eventually 30 beat_is_near || fail 'no beat comes after half a second'
cut_off other
sleep 1.5
heal other
sleep 2.5 # until the lease from before would be over
lines 4 '^round=' started
for machine in host other; do
    has_not 'are killed' $machine.err
done
open_gate
all_end 0 host other
