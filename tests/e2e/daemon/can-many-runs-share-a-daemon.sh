#!/bin/sh
# Two runs at one daemon at once, an id that is used again, and nodes that do
# not agree: is each run by itself, and whoever does not fit told why?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
daemon d "$port"
# join NAME ID [OPTION...]: a launcher of that run.
join()
{
    name=$1 id=$2
    shift 2
    node "$name" --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" --rdzv_id="$id" \
        "$@" "$WORKER" gate
}
join a1 red
join b1 blue
join a2 red
join b2 blue
wait_round 1 4
same '2 ' "$(values world 1)" 'world size'
same 2 "$(values instance 1 | wc -w)" instances
# A failure of one run is none of the other's.
kill -SEGV "$(sed -n 's/.* pid=\([0-9]*\) node=a1 .*/\1/p' started)"
all_end 139 a1 a2
lines 4 '^round=' started
# The same id again, at once: a new run.
join a3 red
join a4 red
wait_lines 6 '^round=1 ' started
same 3 "$(values instance 1 | wc -w)" instances
open_gate
all_end 0 a3 a4 b1 b2

join one green --max_restarts=1
wait_for waiting one.err
node two --nnodes=3 --rdzv_endpoint="127.0.0.1:$port" --rdzv_id=green \
    --max_restarts=1 "$WORKER" gate
ends_with 65 two
has "this node was started with --nnodes=3, run 'green' has 2; start" two.err
join three green --max_restarts=2
ends_with 65 three
has 'max_restarts=2' three.err
node four --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" --rdzv_id=green \
    --max_restarts=1 true
ends_with 65 four
has "started with the program 'true', run 'green' has 'worker'" four.err
join five green --max_restarts=1 --rdzv_conf=heartbeat_timeout=2
ends_with 65 five
kill -TERM "$(pid_of one)"
ends_with 143 one
