#!/bin/sh
# A daemon with two jobs stays away: does a launcher on its host serve its own job
# and say so, is nobody of the other job refused or stopped, and does the daemon
# get its port back at once?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
daemon d "$port"
for job in one two; do
    for name in a b; do
        node "$job$name" --nnodes=2 --max_restarts=1 --rdzv_id=$job \
            --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
    done
done
wait_round 1 4
sleep 2.5 # two beats: these jobs cannot shrink, so their leases are long ones
kill -KILL "$(pid_of d)"
ends_with 137 d
says="no server answers at 127.0.0.1 port $port any more: this launcher serves"
served()
{
    for job in one two; do
        grep -q "$says its own run" ${job}a.err ${job}b.err && served=$job
    done
    [ -n "${served-}" ]
}
eventually 30 served || fail 'no launcher serves'
other=one
[ $served = two ] || other=two
for name in a b; do
    wait_for 'lost the connection to the rendezvous: .*; workers run on; trying again' $served$name.err
    wait_for 'connected to the rendezvous again' $served$name.err
done
# Time enough to be refused.
sleep 3
for name in a b; do
    has_not 'refused this node\|workers are killed' $other$name.err
done
ctl 78 "127.0.0.1:$port" end $other
has 'for its own run only: ask again when a server of other runs' ctl.out
ctl 0 "127.0.0.1:$port" top --once
has "in the place of the daemon, for run '$served' only" ctl.out

began=$(now_ms)
daemon d "$port"
has "a launcher that served port $port in the place of the daemon gave it back" \
    d.err
measured "the daemon has its port back after $(took) ms"
for name in a b; do
    wait_lines 2 'connected to the rendezvous again' $served$name.err
    wait_lines 1 'connected to the rendezvous again' $other$name.err
done
# Nothing was restarted; what fails now is dealt with.
same 4 "$(wc -l <started)" 'workers so far'
ctl 0 "127.0.0.1:$port" top --once
has '^  one ' ctl.out
has '^  two ' ctl.out
has_not 'in the place of the daemon' ctl.out
kill -KILL "$(worker_of 0 1 | head -n 1)"
wait_round 2 2
open_gate
for job in one two; do
    ends_with 0 ${job}a
    ends_with 0 ${job}b
done
kill -TERM "$(pid_of d)"
ends_with 0 d
nothing_left
