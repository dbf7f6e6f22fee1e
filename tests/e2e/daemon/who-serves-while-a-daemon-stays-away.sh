#!/bin/sh
# A daemon stays away: does a launcher on its host serve in its place and say
# so, is the daemon told why it cannot have the port, and does it get it when
# the job is over?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
daemon d "$port"
for name in a b; do
    node $name --nnodes=2 --max_restarts=1 \
        --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
done
wait_round 1 2
kill -KILL "$(pid_of d)"
ends_with 137 d
for name in a b; do
    wait_for 'lost the connection to the rendezvous: .*; workers run on; trying again' $name.err
    wait_for 'connected to the rendezvous again' $name.err
done
cat a.err b.err >both
lines 1 "no server answers at 127.0.0.1 port $port any more: this launcher" \
    both
background d "$DDPRDZVD" --listen="127.0.0.1:$port"
ends_with 78 d
has "Address already in use; another ddprdzvd, a job or another program has that port" d.err

# Nothing was restarted; what fails now is dealt with.
same 2 "$(wc -l <started)" 'workers so far'
kill -KILL "$(worker_of 0 1)"
wait_round 2 2
for name in a b; do
    has 'round 2: rank . of 2, node . of 2; restarts used 1 of 1$' $name.err
done
open_gate
ends_with 0 a
ends_with 0 b
daemon d "$port"
