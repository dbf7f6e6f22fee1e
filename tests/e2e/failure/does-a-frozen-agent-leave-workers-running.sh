#!/bin/sh
# An agent is frozen (SIGSTOP), or the whole launch is, for longer than a lease:
# are its workers dead before the others go on without them?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# Prints the moment of its death as seen from outside: a worker that writes as
# long as it lives.
cat >pulse <<'PULSE'
#!/bin/sh
file=$E2E_DIR/pulse.${E2E_MARK##*:}
while :; do
    date +%s%3N >"$file.new"
    mv "$file.new" "$file.$DDP_ROUND"
    sleep 0.01
done
PULSE
chmod +x pulse
for what in agent launch; do
    : >started
    rm -f pulse.*
    port=$(free_port)
    for name in a b; do
        node $name --nnodes=1:2 --rdzv_endpoint="127.0.0.1:$port" \
            --rdzv_conf=heartbeat_timeout=1 "$WORKER" become ./pulse
        wait_listener "$port"
    done
    wait_round 1 2
    eventually 30 test -s pulse.b.1
    frozen=$(agent_of b)
    [ $what = agent ] || frozen=$(marked b)
    # shellcheck disable=SC2086 # words
    kill -STOP $frozen
    wait_round 2 1
    eventually 30 test -s pulse.a.2
    if [ $what = agent ]; then
        sleep 0.2 # for one that lived to show it
        last=$(cat pulse.b.1)
        first=$(round_at 2)
        measured "agent frozen: its worker's last sign $((first - last)) ms" \
            "before the next round"
        [ "$last" -lt "$first" ] || fail 'a worker of round 1 lives in round 2'
    fi
    # shellcheck disable=SC2086 # words
    kill -CONT $frozen
    # Awake again it kills what is left of the old round before all else.
    worker=$(workers_on b 1)
    sleep 0.2
    before=$(cat pulse.b.1)
    sleep 0.2
    same "$before" "$(cat pulse.b.1)" 'last sign of the old worker'
    is_gone "$worker" || fail "worker $worker of round 1 lives"
    kill -INT "$(pid_of a)"
    ends_with 130 a
    end_of b
done
nothing_left
