#!/bin/sh
# Workers, agents and whole nodes are killed at random moments, each node has a
# disk of its own, and a killed node's is empty when it comes back: are the
# parameters at the end those of a run that nobody disturbed, to the bit?
# KILLS= and SEED= say how many and which; scripts/prove takes 50.
# limit: 900
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

timeouts=heartbeat_timeout=1,reconnect_timeout=2
kills=${KILLS:-3} seed=${SEED:-1}
epochs=$((6 + 5 * kills))

# one NAME FOLDER: a node of the run.
one()
{
    # shellcheck disable=SC2086 # words
    node "$1" --nnodes=2 --nproc_per_node=2 --max_restarts=10000 \
        --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf="last_call_timeout=0,$timeouts" \
        ./train $epochs 4 $MODEL --save_steps=20 --snapshot_path="$2"
}

newest_round()
{
    sed -n 's/^round=\([0-9]*\) .*/\1/p' started | sort -n | tail -n 1
}

# runs: whether the newest round is later than `round` and all four run in it.
runs()
{
    newest=$(newest_round)
    [ "${newest:-0}" -gt "$round" ] && has_lines 4 "^round=$newest " started
}

# steps: how often rank 0 has told of progress, in all rounds.
steps()
{
    cat ./*.out | grep -c '^epoch\|^snapshot saved'
}

progressed()
{
    [ "$(steps)" -gt "$base" ]
}

port=$(free_port)
one a whole-a
one b whole-b
ends_with 0 a $((20 + epochs))
ends_with 0 b
wanted=$(fingerprint)
[ -n "$wanted" ] || fail 'no fingerprint'
rm -f ./*.out
: >started

# What is killed, which rank or node, after how many hundredths of a second.
awk -v n="$kills" -v seed="$seed" 'BEGIN {
    srand(seed)
    for (i = 0; i < n; i++) {
        what = rand()
        print (what < 0.6 ? "worker" : what < 0.8 ? "agent" : "node"),
            int(rand() * 4), int(rand() * 40)
    }
}' >plan
port=$(free_port)
daemon server "$port"
one a torn-a
one b torn-b
round=0 done=0
while read -r what which delay; do
    eventually 30 runs || fail "after $done kills nothing runs (SEED=$seed)"
    round=$newest base=$(steps)
    # Three of four times while it trains, else while it starts.
    [ $((delay % 4)) -eq 0 ] || eventually 20 progressed ||
        fail "no progress after $done kills (SEED=$seed)"
    sleep "0.$(printf %02d "$delay")"
    name=$([ "$which" -lt 2 ] && echo a || echo b)
    [ "$what" = worker ] || cat "$name.out" >>before.out
    case $what in
    worker) kill -KILL "$(worker_of "$which" "$round")" ;;
    agent) kill -KILL "$(agent_of $name)" ;;
    node) kill -KILL "$(pid_of $name)" "$(agent_of $name)" ;;
    esac || fail "$what $which is gone before kill $done (SEED=$seed)"
    done=$((done + 1))
    [ "$what" != worker ] || continue
    nothing_left $name
    rm -rf torn-$name
    one $name torn-$name
done <plan
ends_with 0 a $((20 + epochs))
ends_with 0 b
kill "$(pid_of server)"
measured "$(cut -d' ' -f1 plan | sort | uniq -c | tr -s ' \n' ' ') killed," \
    "seed $seed, resumed $(cat ./*.out | grep -c '^resuming') times"
measured "from $(cat ./*.out |
    sed -n 's/^resuming from .*(\(.*\), written.*/\1/p' |
    sed "s/rank [0-9]*'s //; s,torn-.,disk," | sort | uniq -c | tr -s ' \n' ' ')"
same "$wanted" "$(fingerprint)" "fingerprint (SEED=$seed)"
