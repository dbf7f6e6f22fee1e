# Training under a random schedule of faults, one every MTBF seconds in the mean,
# beside the same training undisturbed; comes after lib.sh, faults.sh and
# trainer.sh. A scenario sets
#     names     the nodes, each on a machine of its name; spares come last
#     spare     yes: one of them waits beside the round
#     members   those of them that a training of nobody's disturbance has
#     ranks     workers in all
#     endpoint  of the rendezvous; a daemon on the machine `server` serves there
#               if `daemon` is yes, else the node whose machine it names
#     options   of the launchers
#     growth    so many more descriptors of a process are a leak
#     calm      yes: each fault waits until all workers of a round run, and none
#               comes in the last seconds: a server that is cut off while the run
#               ends hears of the end from nobody (docs/limits.md)
#     mix       kinds of faults, as often as they are to come (KINDS= instead)
#     keeps     so many percent of the steps have to be kept where MTBF is 60 or
#               more; empty: that is printed, and not judged
# and calls `soak`. MINUTES=, SEED=, MTBF= (several in turn, in quotes), KEEP=
# (a folder for the lists of faults, of steps, and what all said) are the user's.
# shellcheck shell=sh disable=SC2034,SC2154

need_tools nft python3 awk
E2E_REPORTS=${E2E_REPORTS:-none}
crash=SEGV
[ -z "${E2E_SANITIZED:-}" ] || crash=ABRT # they report the other one
minutes=${MINUTES:-0.12} seed=${SEED:-1} mtbfs=${MTBF:-1.5}
[ -s "$E2E_DATA/train-images-idx3-ubyte.gz" ] || MODEL='--model=linear'
per_epoch=$(echo "$MODEL" | awk -v ranks="$ranks" '{
    n = /mlp/ ? 6000 / 32 : 64 # of 32 samples, of one
    print int((n + ranks - 1) / ranks)
}')

# bring NAME: a node of the run `run`, of so many `epochs`, with a disk of its
# own.
bring()
{
    [ ! -f "$1.out" ] || cat "$1.out" "$1.err" >>before.log
    # shellcheck disable=SC2086 # words
    node_on "$1" "$1" $options --max_restarts=1000000 --shutdown_timeout=2 \
        --hang_timeout=0,3 --rdzv_id="$run" --rdzv_endpoint="$endpoint" \
        --rdzv_conf=heartbeat_timeout=1,reconnect_timeout=10 \
        --events="$E2E_DIR/events-$run-$1" --report="$E2E_DIR/report-$run-$1" \
        ./train "$epochs" 20 $MODEL --save_steps=100 \
        --snapshot_path="$E2E_DIR/$run-$1"
}

# undisturbed NAME EPOCHS: sets took_ms.
undisturbed()
{
    run=$1 epochs=$2 began=$(now_ms)
    for name in $members; do bring "$name"; done
    for name in $members; do ends_with 0 "$name" 100000; done
    took_ms=$(took)
}

# -- the faults ---------------------------------------------------------------

# plan MTBF FAULTS: a line for each fault: at which ms, what, of which node or
# rank (the remainder counts), with which number below 1000. The first one comes
# soon, so that one comes even if the training is over early.
plan()
{
    # shellcheck disable=SC2086,SC2116 # one line of words
    awk -v seed="$seed" -v mtbf="$1" -v faults="$2" \
        -v mix="$(echo ${KINDS:-$mix})" 'BEGIN {
        srand(seed * 1000 + mtbf)
        count = split(mix, kinds, " ")
        for (at = mtbf / 3; faults-- > 0; at -= mtbf * log(1 - rand()))
            print int(at * 1000), kinds[int(rand() * count) + 1], \
                int(rand() * 12), int(rand() * 1000)
    }'
}

# lives NAME: whether its launcher has an agent. A run that is over has none.
lives()
{
    ! is_gone "$(pid_of "$1")" && (agent_of "$1") >/dev/null 2>&1
}

is_over()
{
    cat ./*.out | grep -q '^fingerprint'
}

all_live()
{
    for _node in $names; do lives "$_node" || return 1; done
}

# is_whole: whether the workers that were started last are all of one round, and
# live.
is_whole()
{
    [ "$(tail -n "$ranks" started | cut -d ' ' -f 1,3 | sort -u | wc -l)" = 1 ] &&
        [ "$(wc -l <started)" -ge "$ranks" ] || return 1
    for _pid in $(tail -n "$ranks" started | sed 's/.* pid=\([0-9]*\) .*/\1/'); do
        ! is_gone "$_pid" || return 1
    done
}

# ends_soon: whether undisturbed workers would be ready before a fault is over.
ends_soon()
{
    [ -n "${calm:-}" ] && tail -n 1 progress | awk -v ms="$whole_ms" \
        -v all="$((epochs * per_epoch))" '{ exit !((all - $2) * ms / all < 5000) }'
}

is_ready()
{
    all_live && { [ -z "${calm:-}" ] || is_whole; }
}

# nth NUMBER WORD...: a word, counted from 0, around and around.
nth()
{
    _number=$1
    shift
    shift $((_number % $#))
    echo "$1"
}

# serving: the node on whose machine the rendezvous is served, as most nodes have
# told.
serving()
{
    for _node in $names; do
        sed -n "s/.*it is served at the endpoint .*/${endpoint%:*}/p
            s/.*it is served at \([0-9.]*\):.*/\1/p" "$_node.err" | tail -n 1
    done | sort | uniq -c | sort -n | awk -v first="${endpoint%:*}" '
        FNR == NR { name[$1] = $2; next }
        { found = $2 in name ? name[$2] : $2 }
        END { print found == "" ? first : found }' hosts -
}

# again NAME: what was killed or told to leave ends, and comes back.
again()
{
    end_of "$1" 30
    eventually 30 none_marked "$1" || fail "processes of $1 are left ($what)"
    bring "$1"
}

# for_a_while VERB MACHINE: a fault that is mended after 0.2 to 2.2 s.
for_a_while()
{
    "$@"
    sleep "$(((200 + number * 2) / 1000)).$(printf %03d \
        $(((200 + number * 2) % 1000)))"
    mend "$2"
    heal "$2"
}

signal_worker()
{
    _pid=$(worker_of $((which % ranks)) "$(newest_round)" | tail -n 1)
    [ -z "$_pid" ] || kill "-$1" "$_pid" 2>/dev/null
}

# strike: one fault of the plan, at the node `name`. Those that begin with "host"
# are for the node whose machine serves the rendezvous.
strike()
{
    case $what in
    host*) name=$(serving) ;;
    esac
    case $what in
    host-agent) kill_both "$name" && again "$name" ;;
    host-cut)
        cut_off "$name"
        sleep 3 # three leases
        heal "$name"
        ;;
    worker) signal_worker KILL ;;
    segv) signal_worker "$crash" ;;
    hang) signal_worker STOP ;;
    agent) kill_agent "$name" && again "$name" ;;
    guard) kill_guard "$name" && again "$name" ;;
    both) kill_both "$name" && again "$name" ;;
    power | host-power)
        kill_node "$name"
        end_of "$name"
        rm -rf "$run-$name" # its disk is lost, too
        again "$name"
        ;;
    leave) kill -TERM "$(pid_of "$name")" && again "$name" ;;
    daemon)
        kill_guard rdzv
        end_of rdzv
        sleep "0.$(printf %03d "$number")"
        daemon_on server rdzv 29500
        ;;
    freeze)
        _agent=$(agent_of "$name")
        kill -STOP "$_agent"
        sleep 1.5
        kill -CONT "$_agent"
        ;;
    cut) for_a_while cut_off "$name" ;;
    mute) for_a_while mute "$name" ;;
    deafen) for_a_while deafen "$name" ;;
    lose) for_a_while lose "$name" 10 ;;
    all)
        for name in $names; do kill_both "$name"; done
        for name in $names; do again "$name"; done
        ;;
    esac
}

# -- what is left -------------------------------------------------------------

# note_descriptors: how many the launchers' processes and the daemon have.
note_descriptors()
{
    for _pid in ${pid_rdzv:-} $(for _node in $names; do
        pid_of "$_node"
        (agent_of "$_node") 2>/dev/null
    done); do
        echo "$_pid $(find "/proc/$_pid/fd" -type l 2>/dev/null | wc -l)"
    done >>descriptors
}

# growing: those that have at least `growth` more in each of the last three looks
# than in any of the first three: an agent that has just begun has no workers
# yet, and connections come and go.
growing()
{
    awk -v growth="$growth" '$2 == 0 { next }
        { seen[$1, n[$1]++] = $2 }
        END {
            for (pid in n) {
                if (n[pid] < 6)
                    continue
                most = 0
                least = 1000000
                for (i = 0; i < 3; i++) {
                    if (seen[pid, i] > most)
                        most = seen[pid, i]
                    if (seen[pid, n[pid] - 1 - i] < least)
                        least = seen[pid, n[pid] - 1 - i]
                }
                if (least >= most + growth)
                    print pid, "from", most, "to", least
            }
        }' descriptors
}

# left_on MACHINE: what is in its /tmp and /dev/shm, but for what the scenario
# put there itself, the stacks of workers that hung, and the empty folders of
# launchers whose agent was killed.
left_on()
{
    find "shm.$1" -mindepth 1
    find "tmp.$1" -mindepth 1 \
        \( -path "tmp.$1${E2E_WORK#/tmp}" -o -path "tmp.$1${E2E_LIB#/tmp}" \
        -o -path "tmp.$1${E2E_REPORTS#/tmp}" \) -prune -o ! -type d ! -name '*.stacks.txt' -print
}

# -- the runs -----------------------------------------------------------------

# judge: what the faults cost. A sanitizer makes steps ten times as long, and the
# faults come as fast as ever: then that is measured only.
judge()
{
    _keeps=$(awk -v mtbf="$mtbf" -v keeps="$keeps" \
        'BEGIN { print (mtbf >= 60 ? keeps : "") }')
    python3 "$E2E_LIB/cost_of_faults.py" faults progress \
        $((epochs * per_epoch)) "$whole_ms" "$(with_room 100)" \
        ${_keeps:+"$_keeps"} >costs ||
        [ -n "${E2E_SANITIZED:-}" ]
}

disturbed()
{
    mtbf=$1 run=mtbf$1
    rm -f ./*.out before.log
    : >started
    : >progress
    # A machine on which each fault costs more than the next one leaves time for
    # comes to an end, too.
    plan "$mtbf" "$(awk -v m="$minutes" -v mtbf="$mtbf" \
        'BEGIN { print int(10 + 4 * m * 60 / mtbf) }')" >plan
    for name in $names; do bring "$name"; done
    wait_world "$ranks" 0 30
    : >descriptors
    echo "$(now_ms) 0" >progress
    background watcher python3 "$E2E_LIB/watch_steps.py" started progress
    began=$(now_ms) faults=0
    while read -r at what which number <&3; do
        while [ "$(took)" -lt "$at" ] && ! is_over; do sleep 0.05; done
        # shellcheck disable=SC2086 # words
        name=$(nth "$which" $names)
        # Another fault may have to wait until what came last has an agent.
        eventually 30 eval 'is_over || is_ready' ||
            fail "a launcher or a worker is gone before $what, after" \
                "$(tail -n 1 faults) (SEED=$seed, MTBF=$mtbf)"
        ! is_over && ! ends_soon || break
        note_descriptors
        echo "$(now_ms) $what $name $number" >>faults
        strike
        faults=$((faults + 1))
        _ms=$(tail -n 1 progress | cut -d ' ' -f 1)
        [ $(($(now_ms) - ${_ms:-$(now_ms)})) -lt 60000 ] ||
            fail "no step in 60 s after $what (SEED=$seed, MTBF=$mtbf)"
    done 3<plan
    for name in $names; do
        end_of "$name" 120
        # 85: a launcher that was started late, and waited beside the round.
        [ "$STATUS" -eq 0 ] || { [ "$STATUS" -eq 85 ] &&
            ! grep -q 'round [0-9]*: rank' "$name.err"; } ||
            fail "$name ended with $STATUS (SEED=$seed, MTBF=$mtbf)"
    done
    kill "$pid_watcher"
    # What came last counts up to here.
    echo "$(now_ms) $((epochs * per_epoch))" >>progress
    measured "seed $seed, a fault every $mtbf s: $faults:" \
        "$(cut -d ' ' -f 2 faults | sort | uniq -c | tr -s ' \n' ' ')"
    same "$wanted" "$(fingerprint)" "fingerprint (SEED=$seed, MTBF=$mtbf)"
    for name in $names; do
        nothing_left "$name"
        same '' "$(left_on "$name")" "files left on $name"
    done
    same '' "$(growing)" 'processes with ever more descriptors'
    [ "$faults" -gt 0 ] || fail "no fault came (SEED=$seed, MTBF=$mtbf)"
    [ -z "${KEEP:-}" ] || cp faults progress ./*.err events-* report-* "$KEEP/"
    # Without `calm` all nodes may die at once: then it is another job.
    [ -z "${calm:-}" ] ||
        python3 "$E2E_LIB/goodput_of_events.py" "report-$run-${names%% *}" \
            "events-$run"-* >goodput ||
        fail "$(cat goodput) (SEED=$seed, MTBF=$mtbf)"
    [ -z "${calm:-}" ] || measured "$(head -n 1 goodput)"
    judge || {
        cat costs
        fail "too much is lost (SEED=$seed, MTBF=$mtbf)"
    }
    while read -r line; do measured "$line"; done <costs
    rm -f faults
}

soak()
{
    # shellcheck disable=SC2086 # words
    network ${daemon:+server} $names
    [ -z "${daemon:-}" ] || daemon_on server rdzv 29500
    undisturbed trial 25
    epochs_for=$(awk -v ms="$took_ms" -v minutes="$minutes" \
        'BEGIN { print int(minutes * 60000 / ms * 25) + 1 }')
    rm -f ./*.out
    : >started
    undisturbed whole "$epochs_for"
    whole_ms=$took_ms wanted=$(fingerprint)
    [ -n "$wanted" ] || fail 'no fingerprint'
    measured "undisturbed: $epochs epochs in $whole_ms ms"
    for mtbf in $mtbfs; do disturbed "$mtbf"; done
    [ -z "${daemon:-}" ] || kill "$(pid_of rdzv)"
}
