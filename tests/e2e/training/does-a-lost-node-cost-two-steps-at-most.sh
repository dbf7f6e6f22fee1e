#!/bin/sh
# Each rank has a part of the state, and nothing is ever written to a disk. A node is
# lost, its launcher and workers killed at once, and another one takes its place, again
# and again: is what it had found on its neighbour, at the step at least that the server
# had shown to be on two nodes, and is the end the same?
# limit: 90
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

[ -x "$E2E_BIN/sharded" ] || skip 'sharded is not built: make e2e-programs'

cat >train <<'TRAIN'
#!/bin/sh
echo "round=$DDP_ROUND rank=$RANK pid=$$ node=${E2E_MARK##*:} at=$(date +%s%3N)" \
    >>"$E2E_DIR/started"
exec "$E2E_BIN/sharded" "$@"
TRAIN
chmod +x train

# machine NAME: a launcher of the job, two workers.
machine()
{
    node "$1" --nnodes=2 --nproc_per_node=2 --rdzv_id="$run" --max_restarts=9 \
        --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf=heartbeat_timeout=2,reconnect_timeout=2 ./train 150 "$ms"
}

# last_step: the newest that anybody has said.
last_step()
{
    cat ./*.out | sed -n 's/^step \([0-9]*\): .*/\1/p' | sort -n | tail -n 1
}

is_at()
{
    [ "$(last_step)" -ge "$1" ] 2>/dev/null
}

# shown_mirrored: the newest step on two nodes, as the server shows it.
shown_mirrored()
{
    "$DDPCTL" --endpoint="127.0.0.1:$port" top --once "$run" 2>&1 |
        sed -n 's/^  newest step on two nodes: \([0-9]*\), [0-9]* behind$/\1/p'
}

sum_at_end()
{
    cat ./*.out | sed -n 's/^step 150: sum \([0-9]*\),.*/\1/p' | sort -u
}

port=$(free_port)
daemon server "$port"
run=whole ms=1
machine a
machine b
ends_with 0 a 30
ends_with 0 b
wanted=$(sum_at_end)
[ -n "$wanted" ] || fail 'nobody comes to the end'
rm -f ./[a-z].out ./[a-z].err
: >started
run=torn ms=20
machine a
machine b
# resumed ROUND: the step, of that round, from which the next one went on.
resumed()
{
    cat ./*.out |
        sed -n "s/^resumed from step \([0-9]*\) of round $1 in memory;.*/\1/p"
}

has_resumed()
{
    [ -n "$(resumed "$1")" ]
}

round=1
for pair in b:c a:d c:e; do
    lost=${pair%:*}
    eventually 30 is_at $((round * 30)) || fail "no step $((round * 30)) comes"
    shown=$(shown_mirrored) # nothing yet, perhaps: the job does not wait
    # shellcheck disable=SC2046 # pids
    kill -KILL "$(pid_of "$lost")" "$(agent_of "$lost")" \
        $(workers_on "$lost" $round)
    machine "${pair#*:}"
    last=$(last_step) # before anybody has heard of the loss
    wait_round $((round + 1)) 4
    eventually 30 has_resumed $round || fail "nobody resumes from round $round"
    from=$(resumed $round)
    [ "$from" -ge $((last - 2)) ] ||
        fail "$lost is lost after step $last, resumed from step $from"
    [ "$from" -ge "${shown:-0}" ] ||
        fail "step $shown was shown to be on two nodes, resumed from step $from"
    measured "$lost is lost after step $last, resumed from step $from," \
        "step ${shown:-none} was shown"
    round=$((round + 1))
done
ends_with 0 d 30
ends_with 0 e
same "$wanted" "$(sum_at_end)" 'sum of the table'
for file in ./*.out; do
    has_not '^no mirrors' "$file"
done
nothing_left d
nothing_left e
