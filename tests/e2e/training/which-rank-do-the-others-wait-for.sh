#!/bin/sh
# Four ranks on two nodes sleep for their part of each step and then meet. One of them
# takes a fifth longer. Is it named with its node in /status, top, /metrics and the log,
# and no other one? Is that gone when it is as fast as the others again?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

[ -x "$E2E_BIN/sleepers" ] || skip 'sleepers is not built: make e2e-programs'

port=$(free_port)
daemon server "$port"
nodes "a b" --nnodes=2 --nproc_per_node=2 --rdzv_id=job \
    --rdzv_endpoint="127.0.0.1:$port" --rdzv_conf=heartbeat_timeout=1 \
    "$E2E_BIN/sleepers" 100

# shows WHAT PATTERN
shows()
{
    case $1 in
    top) "$DDPCTL" --endpoint="127.0.0.1:$port" top --once job ;;
    *) python3 "$E2E_LIB/get.py" "$port" "/$1" ;;
    esac 2>&1 | grep -q "$2"
}

eventually 20 shows top '^  steps\{0,1\} [2-9][0-9]' || fail 'no step is told'
shows top '^  slow' && fail 'a rank is called slow, and none is'

began=$(now_ms)
echo '2 20' >slow.new && mv slow.new slow
eventually 20 shows top '^  slow: rank 2 (local rank [01]) on ' ||
    fail 'the slow rank is not named'
measured "named after $(($(now_ms) - began)) ms, of steps of 120 ms"
shows status '"slow":\[{"rank":2,"node":"[^"]*","local_rank":[01],"slower_permille":[0-9]*,"part_s":0.1' ||
    fail '/status does not name it'
shows metrics '^ddprun_run_slow_rank_ratio{run="job",node="[^"]*",rank="2"} 0\.[0-9]' ||
    fail '/metrics does not name it'
has 'slow node=.*: rank 2 (local rank [01]) takes' server.err

rm slow
eventually 20 eval '! shows top "^  slow"' || fail 'it is still called slow'
shows metrics '^ddprun_run_slow_rank_ratio{' && fail '/metrics still names it'
has 'as fast node=.*: no rank is slower' server.err
has_not ': slow node=.*: rank [013] ' server.err
: >enough
all_end 0 a b
nothing_left a
nothing_left b
