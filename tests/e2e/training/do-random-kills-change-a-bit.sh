#!/bin/sh
# Workers, agents and whole nodes are killed at random moments, each node has a
# disk of its own, and a killed node's is empty when it comes back; or both nodes
# at once, some while a snapshot is being written, so that nothing but the disks
# is left: are the parameters at the end those of a run that nobody disturbed, to
# the bit, and is one step at most repeated after a worker's death?
# KILLS= and SEED= say how many and which; tests/ci/prove takes 60.
# limit: 900
# long: random kills for a while
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

timeouts=heartbeat_timeout=1,reconnect_timeout=2
kills=${KILLS:-3} seed=${SEED:-1}
epochs=$((20 + 5 * kills)) # on a fast machine ten a second

# one NAME FOLDER: a node of the run.
one()
{
    # shellcheck disable=SC2086 # words
    node "$1" --nnodes=2 --nproc_per_node=2 --max_restarts=10000 \
        --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf="last_call_timeout=0,$timeouts" \
        ./train $epochs 4 $MODEL --save_steps=20 --snapshot_path="$2"
}

# both_pids: of the launchers and agents of the whole job.
both_pids()
{
    echo "$(pid_of a) $(agent_of a) $(pid_of b) $(agent_of b)"
}

# since out|err: what a and b have said there since the last `mark`.
mark()
{
    for _file in a.out b.out a.err b.err; do
        wc -c <$_file >size.$_file
    done
}
since()
{
    for _file in "a.$1" "b.$1"; do
        tail -c +"$(($(cat "size.$_file") + 1))" "$_file"
    done
}

# count_repeated: after a worker's death all go on from memory, whichever round
# wrote it, and from the step that the others had reached, or the one before.
count_repeated()
{
    last=$(since err | sed -n 's/^ddptrain: rank [0-9]*: step \([0-9]*\): .*/\1/p' |
        sort -n | tail -n 1)
    [ -n "$last" ] || { # it was killed before the others' first step
        echo "$round" >>before_steps
        return 0
    }
    eventually 30 has_resumed ||
        fail "nobody resumed after a worker's death (SEED=$seed)"
    from=$(since out |
        sed -n 's/^resuming .*step \([0-9]*\) (.*memory, written in .*/\1/p')
    [ -n "$from" ] || fail "after a worker's death the disk was read:" \
        "$(since out | grep '^resuming') (SEED=$seed)"
    [ "$from" -ge $((last - 1)) ] ||
        fail "a worker killed at step $last costs $((last - from)) (SEED=$seed)"
    echo $((last > from ? last - from : 0)) >>repeated
}
has_resumed()
{
    since out | grep -q '^resuming '
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

# keep_words NAME...: before a node of that name is started again.
keep_words()
{
    for _name in "$@"; do
        cat "$_name.out" >>before.out
    done
}

# workers_pids: of the four of the newest round.
workers_pids()
{
    for _rank in 0 1 2 3; do worker_of $_rank "$round"; done
}

# kill_worker PID: the others say at which step it died, for which they need a moment
# before their agents, which may know it first, stop them.
kill_worker()
{
    agents="$(agent_of a) $(agent_of b)"
    # shellcheck disable=SC2086 # words
    kill -STOP $agents && kill -KILL "$1"
    _killed=$?
    sleep 0.3 # far less than a lease
    # shellcheck disable=SC2086 # words
    kill -CONT $agents
    return $_killed
}

kill_while_written()
{
    # shellcheck disable=SC2046 # words
    python3 "$E2E_LIB/kill_while_written.py" 20 torn-a torn-b -- \
        $(workers_pids) -- "$@" >>waited
}

command -v python3 >/dev/null || skip 'needs python3'
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
        # The first ones are one of each kind.
        what = i < 4 ? (i + 0.5) / 4 : rand()
        print (what < 0.25 ? "writer" : what < 0.5 ? "node" : \
            what < 0.75 ? "worker" : what < 0.85 ? "job" : "agent"),
            int(rand() * 4), int(rand() * 40)
    }
}' >plan
port=$(free_port)
daemon server "$port"
one a torn-a
one b torn-b
round=0 done=0
: >repeated
: >before_steps
: >torn
while read -r what which delay; do
    eventually 30 runs || fail "after $done kills nothing runs (SEED=$seed)"
    round=$newest base=$(steps)
    # Three of four times while it trains, else while it starts.
    [ $((delay % 4)) -eq 0 ] || eventually 30 progressed ||
        fail "no progress after $done kills (SEED=$seed)"
    sleep "0.$(printf %02d "$delay")"
    name=$([ "$which" -lt 2 ] && echo a || echo b)
    mark
    # shellcheck disable=SC2046 # words
    case $what in
    worker) kill_worker "$(worker_of "$which" "$round")" ;;
    agent) kill -KILL "$(agent_of $name)" ;;
    node) kill -KILL "$(pid_of $name)" "$(agent_of $name)" ;;
    job) kill -KILL $(both_pids) ;;
    writer) kill_while_written $(both_pids) ;;
    esac || fail "$what $which is gone before kill $done (SEED=$seed)"
    done=$((done + 1))
    case $what in
    worker)
        eventually 30 runs || fail "a worker's death ends all (SEED=$seed)"
        count_repeated
        ;;
    agent | node)
        nothing_left $name
        keep_words $name
        rm -rf torn-$name
        one $name torn-$name
        ;;
    job | writer)
        nothing_left a
        nothing_left b
        keep_words a b
        find torn-a torn-b -name 'shard-*.tmp.*' >>torn
        : >started # the daemon may take them for a new run
        round=0
        one a torn-a
        one b torn-b
        ;;
    esac
done <plan
ends_with 0 a $((20 + epochs))
ends_with 0 b
kill "$(pid_of server)"
measured "$(cut -d' ' -f1 plan | sort | uniq -c | tr -s ' \n' ' ') killed," \
    "seed $seed, resumed $(cat ./*.out | grep -c '^resuming') times"
measured "$(awk '{ n += $1 } END { print n + 0 }' repeated) steps done twice" \
    "after $(wc -l <repeated) of the workers' deaths," \
    "$(wc -l <before_steps) came before a step;" \
    "$(sort -u torn | wc -l) files left half written"
due=$(awk '$1 == "worker" && $3 % 4' plan | wc -l) # while it trained
[ "$(wc -l <repeated)" -ge "$due" ] ||
    fail "of $due deaths only $(wc -l <repeated) were judged (SEED=$seed)"
[ "$(grep -c '^writer ' plan)" -eq 0 ] || [ -s torn ] ||
    fail "no file was left half written (SEED=$seed)"
measured "from $(cat ./*.out |
    sed -n 's/^resuming from .*(\(.*\), written.*/\1/p' |
    sed "s/rank [0-9]*'s //; s,torn-.,disk," | sort | uniq -c | tr -s ' \n' ' ')"
same "$wanted" "$(fingerprint)" "fingerprint (SEED=$seed)"
