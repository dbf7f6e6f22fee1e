#!/bin/sh
# The wall clock of a node and that of the daemon jump by a day, forth and back:
# is nobody taken for lost, and are the times of the report still right?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

clock_library
: >clocks
jumping()
{
    _what=$1
    shift
    background "$_what" env LD_PRELOAD="$E2E_DIR/clock.so" \
        CLOCKS="$E2E_DIR/clocks" "$@"
}
port=$(free_port)
jumping d "$DDPRDZVD" --listen="127.0.0.1:$port"
wait_for 'serving on port' d.err
node a --nnodes=1:2 --max_restarts=1 --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_conf=heartbeat_timeout=0.5 "$WORKER" gate
jumping b "$DDPRUN" --nnodes=1:2 --max_restarts=1 \
    --rdzv_endpoint="127.0.0.1:$port" --report=report.json \
    --rdzv_conf=heartbeat_timeout=0.5 "$WORKER" gate
wait_round 1 2
for by_s in 86400 -86400 0; do
    echo "0 $by_s" >clocks
    sleep 0.8
done
lines 2 '^round=' started
for name in a b; do has_not 'are killed' $name.err; done
echo '0 -86400' >clocks
kill_worker "$(sed -n 's/.* rank=\([01]\) .* node=b .*/\1/p' started)" 1
wait_round 2 2
open_gate
all_end 0 a b
wall=$(tr , "\n" <report.json |
    sed -n 's/.*"wall_s":[[:space:]]*\([0-9]*\).*/\1/p' | sort -n | tail -n 1)
[ "${wall:-99999}" -lt 30 ] || fail "the run took ${wall:-no} s by the report"
nothing_left a
nothing_left b
