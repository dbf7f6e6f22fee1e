#!/bin/sh
# ddpctl stacks of a job on two nodes: of all ranks, of some; of a rank that there is not;
# without a debugger; to somebody whose orders are not taken. Do the workers go on?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v gdb >/dev/null || command -v eu-stack >/dev/null ||
    skip 'needs gdb or eu-stack'

port=$(free_port)
daemon server "$port"
nodes "a b" --nnodes=2 --nproc_per_node=2 --rdzv_id=job \
    --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
wait_round 1 4

ctl 0 "127.0.0.1:$port" stacks job
lines 4 '^rank [0-3] (local rank [01]) on .*:$' ctl.out
for rank in 0 1 2 3; do
    has "^rank $rank (pid $(worker_of $rank 1)): stacks$" ctl.out
done
lines 4 '^  thread [0-9]* (.*): state ' ctl.out
has '^#0 ' ctl.out
ctl 0 "127.0.0.1:$port" stacks job 3 0-1
same '3 0 1' "$(sed -n 's/^rank \([0-9]\) (local.*/\1/p' ctl.out | xargs)" order
ctl 2 "127.0.0.1:$port" stacks job 2 4
lines 1 '^rank 2 (local' ctl.out
has "run 'job' has no rank 4: it has 4" ctl.out
ctl 2 "127.0.0.1:$port" stacks job 1-
has "'1-' is no rank" ctl.out
ctl 2 "127.0.0.1:$port" stacks nothing
has "there is no run 'nothing'" ctl.out
has 'ordered node=.*: stacks of rank 3, by ddpctl from 127.0.0.1' server.err

open_gate
all_end 0 a b
lines 4 '^round=' started
nothing_left a
nothing_left b

# No debugger in PATH.
mkdir none
for tool in sh date; do
    ln -s "$(command -v $tool)" none/
done
close_gate
: >started
port=$(free_port)
daemon second "$port"
background c env PATH="$PWD/none" "$DDPRUN" --rdzv_id=job --nnodes=1 \
    --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
wait_round 1 1
ctl 0 "127.0.0.1:$port" stacks job
has 'none of gdb, eu-stack and .* is installed' ctl.out
has '^  thread [0-9]* (.*): state S' ctl.out
open_gate
ends_with 0 c
nothing_left c

port=$(free_port)
background closed "$DDPRDZVD" --listen="127.0.0.1:$port" --orders=none
wait_for 'serving on port' closed.err
ctl 78 "127.0.0.1:$port" stacks job
has 'takes no orders' ctl.out
