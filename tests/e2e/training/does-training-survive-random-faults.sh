#!/bin/sh
# Two machines train under a random schedule of faults, one every MTBF seconds
# in the mean: is the result that of a run that nobody disturbed, to the bit, is
# nothing left, and does no fault cost more time or steps than one of its kind may
# (lib/cost_of_faults.py)? `make soak` plays it at length: MINUTES=, SEED=, MTBF=
# (several in turn, in quotes), KINDS= (of faults, instead of all). The lists of
# faults, of steps, and what all said go to the folder KEEP=.
# limit: 150
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"
. "$E2E_LIB/trainer.sh"

need_tools nft python3 awk
E2E_REPORTS=${E2E_REPORTS:-none}
crash=SEGV
[ -z "${E2E_SANITIZED:-}" ] || crash=ABRT # they report the other one
minutes=${MINUTES:-0.12} seed=${SEED:-1} mtbfs=${MTBF:-1.5}
[ -s "$E2E_DATA/train-images-idx3-ubyte.gz" ] || MODEL='--model=linear'
per_epoch=$(echo "$MODEL" | grep -q mlp && echo 47 || echo 16)

network server a b

# bring NAME: a node of the run `run`, of so many `epochs`, with a disk of its
# own.
bring()
{
    [ ! -f "$1.out" ] || cat "$1.out" "$1.err" >>before.log
    # shellcheck disable=SC2086 # words
    node_on "$1" "$1" --nnodes=2 --nproc_per_node=2 --max_restarts=1000000 \
        --shutdown_timeout=2 --beat_timeout=3 --rdzv_id="$run" \
        --rdzv_endpoint=server:29500 \
        --rdzv_conf=heartbeat_timeout=1,reconnect_timeout=10 \
        ./train "$epochs" 20 $MODEL --save_steps=100 \
        --snapshot_path="$E2E_DIR/$run-$1"
}

# undisturbed NAME EPOCHS: sets took_ms.
undisturbed()
{
    run=$1 epochs=$2 began=$(now_ms)
    bring a
    bring b
    ends_with 0 a 100000
    ends_with 0 b
    took_ms=$(took)
}

# -- the faults ---------------------------------------------------------------

mix='worker worker worker worker worker segv segv hang agent agent guard guard
    both power power leave daemon daemon freeze cut cut mute deafen lose all'

# plan MTBF FAULTS: a line for each fault: at which ms, what, of which node or
# rank, with which number below 1000.
plan()
{
    # shellcheck disable=SC2086,SC2116 # one line of words
    awk -v seed="$seed" -v mtbf="$1" -v faults="$2" \
        -v mix="$(echo ${KINDS:-$mix})" 'BEGIN {
        srand(seed * 1000 + mtbf)
        count = split(mix, kinds, " ")
        while (faults-- > 0 && (at -= mtbf * log(1 - rand())))
            print int(at * 1000), kinds[int(rand() * count) + 1], \
                int(rand() * 4), int(rand() * 1000)
    }'
}

# lives NAME: whether its launcher has an agent. A run that is over has none.
lives()
{
    ! is_gone "$(pid_of "$1")" && [ -n "$(children_of "$(pid_of "$1")")" ]
}

children_of()
{
    cat "/proc/$1/task/$1/children" 2>/dev/null
}

is_over()
{
    cat ./*.out | grep -q '^fingerprint'
}

# again NAME: what was killed or told to leave ends, and comes back.
again()
{
    end_of "$1" 15
    eventually 5 none_marked "$1" || fail "processes of $1 are left ($what)"
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
    _pid=$(worker_of "$which" "$(newest_round)" | tail -n 1)
    [ -z "$_pid" ] || kill "-$1" "$_pid" 2>/dev/null
}

# strike: one fault of the plan, at the node `name`.
strike()
{
    case $what in
    worker) signal_worker KILL ;;
    segv) signal_worker "$crash" ;;
    hang) signal_worker STOP ;;
    agent) kill_agent "$name" && again "$name" ;;
    guard) kill_guard "$name" && again "$name" ;;
    both) kill_both "$name" && again "$name" ;;
    power)
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
        kill_both a
        kill_both b
        again a
        again b
        ;;
    esac
}

# -- what is left -------------------------------------------------------------

# note_descriptors: how many the launchers' processes and the daemon have.
note_descriptors()
{
    for _pid in "$pid_rdzv" "$pid_a" "$pid_b" $(children_of "$pid_a") \
        $(children_of "$pid_b"); do
        echo "$_pid $(find "/proc/$_pid/fd" -type l 2>/dev/null | wc -l)"
    done >>descriptors
}

# growing: those that have at least five more in each of the last three looks
# than in any of the first three: an agent that has just begun has no workers
# yet, and connections come and go.
growing()
{
    awk '$2 == 0 { next }
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
                if (least >= most + 5)
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
    python3 "$E2E_LIB/cost_of_faults.py" faults progress \
        $((epochs * per_epoch)) "$whole_ms" >costs || [ -n "${E2E_SANITIZED:-}" ]
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
    bring a
    bring b
    wait_world 4 0 20
    : >descriptors
    echo "$(now_ms) 0" >progress
    python3 "$E2E_LIB/watch_steps.py" started progress &
    watcher=$!
    began=$(now_ms) faults=0
    while read -r at what which number <&3; do
        while [ "$(took)" -lt "$at" ] && ! is_over; do sleep 0.05; done
        name=$([ $((which % 2)) -eq 0 ] && echo a || echo b)
        # Another fault may have to wait until what came last has an agent.
        eventually 20 eval 'is_over || { lives a && lives b; }' ||
            fail "a launcher is gone before $what, after" \
                "$(tail -n 1 faults) (SEED=$seed, MTBF=$mtbf)"
        ! is_over || break
        note_descriptors
        echo "$(now_ms) $what $name $number" >>faults
        strike
        faults=$((faults + 1))
        _ms=$(tail -n 1 progress | cut -d ' ' -f 1)
        [ $(($(now_ms) - ${_ms:-$(now_ms)})) -lt 60000 ] ||
            fail "no step in 60 s after $what (SEED=$seed, MTBF=$mtbf)"
    done 3<plan
    for name in a b; do
        end_of $name 120
        [ "$STATUS" -eq 0 ] ||
            fail "$name ended with $STATUS (SEED=$seed, MTBF=$mtbf)"
    done
    kill "$watcher"
    # What came last counts up to here.
    echo "$(now_ms) $((epochs * per_epoch))" >>progress
    measured "seed $seed, a fault every $mtbf s: $faults:" \
        "$(cut -d ' ' -f 2 faults | sort | uniq -c | tr -s ' \n' ' ')"
    same "$wanted" "$(fingerprint)" "fingerprint (SEED=$seed, MTBF=$mtbf)"
    for name in a b; do
        nothing_left $name
        same '' "$(left_on $name)" "files left on $name"
    done
    same '' "$(growing)" 'processes with ever more descriptors'
    [ "$faults" -gt 0 ] || fail "no fault came (SEED=$seed, MTBF=$mtbf)"
    [ -z "${KEEP:-}" ] || cp faults progress ./*.err "$KEEP/"
    judge || {
        cat costs
        fail "too much is lost (SEED=$seed, MTBF=$mtbf)"
    }
    while read -r line; do measured "$line"; done <costs
    rm -f faults
}

daemon_on server rdzv 29500
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
kill "$(pid_of rdzv)"
