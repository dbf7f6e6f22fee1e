#!/bin/sh
# As pods do: two launchers with one line, each started again as soon as it has
# ended, without a word to the other, and the rendezvous on one of them. Do they
# come together again in a run of their own after a failure and after a Ctrl-C,
# with the name that the run before had? Do jobs of which nobody said where to
# meet get in each other's way?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
cat >pod <<'POD'
#!/bin/sh
# pod NAME COMMAND...: again and again until it succeeds.
name=$1
shift
until "$@"; do
    echo "$name $?" >>"$E2E_DIR/ends"
done
POD
cat >work <<'WORK'
#!/bin/sh
# Rank 1 fails three times, and then is done, which rank 0 waits for.
if [ "$RANK" = 1 ]; then
    echo "$DDP_INSTANCE world=$WORLD_SIZE" >>"$E2E_DIR/worlds"
    [ "$(wc -l <"$E2E_DIR/worlds")" -gt 3 ] || exit 3
    : >"$E2E_DIR/done"
fi
until [ -e "$E2E_DIR/done" ]; do
    sleep 0.05
done
WORK
chmod +x pod work
: >worlds
: >ends
for name in a b; do
    background $name ./pod $name "$DDPRUN" --nnodes=2 --rdzv_id=pods \
        --rdzv_endpoint="localhost:$port" ./work
done
ends_with 0 a 30
ends_with 0 b
lines 4 ' world=2$' worlds
lines 4 . worlds
same 4 "$(sort -u worlds | wc -l)" 'runs of that name'
same 6 "$(grep -c '^[ab] 3$' ends)" 'failures, each with its status'
lines 6 . ends

# Ctrl-C at one, which comes back before the other has heard of it.
for name in a b; do
    node $name --nnodes=1:2 --rdzv_endpoint="localhost:$port" "$WORKER" gate
    wait_listener "$port"
done
wait_round 1 2
kill -INT "$(pid_of b)"
wait_for 'signal 2 (SIGINT)' b.err
set -- --nnodes=1:2 --rdzv_endpoint="localhost:$port" "$WORKER" gate
node c "$@"
all_end 130 a b
node d "$@"
wait_lines 4 '^round=1 .* world=2 ' started
open_gate
all_end 0 c d

# Two jobs on one machine, and neither said anything.
close_gate
: >started
node a --nproc_per_node=2 "$WORKER" gate
node b --nproc_per_node=2 --master_addr=127.0.0.1 "$WORKER" gate
wait_lines 4 ' world=2 ' started
same 2 "$(values master 1 | wc -w)" stores
open_gate
all_end 0 a b
nothing_left
