#!/bin/sh
# A daemon with two jobs stays away: does a launcher of each job serve its own, is
# nobody refused or stopped, is the port free for the daemon that comes back, and
# has the daemon its jobs again, without that a worker stops?
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
kill -KILL "$(pid_of d)"
ends_with 137 d
for job in one two; do
    for name in a b; do
        wait_for 'connected to the rendezvous again' $job$name.err
    done
done
sleep 6 # longer than a lease
for job in one two; do
    for name in a b; do
        has_not 'refused this node\|workers are killed' $job$name.err
    done
done
began=$(now_ms)
daemon d "$port"
measured "the daemon has its port back after $(took) ms"
for job in one two; do
    for name in a b; do
        wait_lines 2 'connected to the rendezvous again' $job$name.err
    done
    wait_for "run $job .*: elected" d.err
done
measured "and its two jobs after $(took) ms"
sleep 2
for job in one two; do
    ctl 0 "127.0.0.1:$port" status --json $job
done
# Nothing was restarted; what fails now is dealt with, in its own job.
same 4 "$(wc -l <started)" 'workers so far'
kill -KILL "$(worker_of 0 1 | head -n 1)"
wait_round 2 2
open_gate
for job in one two; do
    all_end 0 ${job}a ${job}b
done
kill -TERM "$(pid_of d)"
ends_with 0 d
nothing_left
