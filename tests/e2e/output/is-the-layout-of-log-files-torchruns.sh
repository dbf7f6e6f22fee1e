#!/bin/sh
# Which files are there, named as torchrun names them, for which options? What is
# in them when a round repeats an attempt, and when they are rotated?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# As torchrun's, but for the eight random letters.
files()
{
    (cd "$1" && find . -type f) | sed 's,^\./job_[0-9a-z_]\{8\}/,,' | sort |
        tr '\n' ' '
}
open_gate
# shellcheck disable=SC2016 # for the worker
talk='echo "out $RANK"; echo "err $RANK" >&2
    [ "$RANK" != 1 ] || [ "$TORCHELASTIC_RESTART_COUNT" != 0 ] || {
        echo "{\"message\": \"no\"}" >"$TORCHELASTIC_ERROR_FILE"; exit 7; }'
launch 0 --rdzv_id=job --nproc_per_node=2 --max_restarts=1 -r 0:3,1:1 -t 1:2 \
    --log_dir=log --duplicate-stdout-filters=1 \
    --duplicate-stderr-filters='err 0,,,err' sh -c "$talk"
one='attempt_X/0/stderr.log attempt_X/0/stdout.log attempt_X/1/stderr.log'
one="$one attempt_X/1/stdout.log attempt_X/filtered_stderr.log"
one="$one attempt_X/filtered_stdout.log"
files log | tr ' ' '\n' >got
for n in 0 1; do
    for file in $(echo "$one" | sed "s/attempt_X/attempt_$n/g"); do
        echo "$file"
    done
done >want
echo attempt_0/1/error.json >>want
sort -o want want && sort -o got got
sed -i '/^$/d' got
same "$(cat want)" "$(cat got)" 'files'
same 'out 0' "$(cat log/*/attempt_1/0/stdout.log)" stdout.log
same 'err 1' "$(cat log/*/attempt_1/1/stderr.log)" stderr.log
same '[default1]:out 1' "$(cat log/*/attempt_1/filtered_stdout.log)" filtered
lines 2 'err' log/job_*/attempt_1/filtered_stderr.log
same '' "$(cat it.out)" 'redirected stdout'
lines 2 '^\[default1\]:err 1$' it.err
has_not '^err' it.err

# Without a folder there is one all the same, and the launcher tells where.
launch 0 -r 3 sh -c 'echo gone; dirname "$(dirname "$TORCHELASTIC_ERROR_FILE")"
    dirname "$(dirname "$TORCHELASTIC_ERROR_FILE")" >"$E2E_DIR/where"'
has '^gone$' "$(cat where)/0/stdout.log"
rm -r "$(dirname "$(dirname "$(cat where)")")"

# Only these ranks are shown; the files of all are there. Prefixes as told.
TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE='<${role_name} $rank>'
export TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE
launch 0 --nproc_per_node=3 -t 1 --local-ranks-filter=0,2 --role=r \
    --log_dir=log2 sh -c 'echo "out $RANK"; echo "err $RANK" >&2'
same '<r 0>out 0 <r 2>out 2' "$(sort it.out | tr '\n' ' ' | sed 's/ $//')" shown
same 'err 0 err 2' "$(sort it.err | tr '\n' ' ' | sed 's/ $//')" 'stderr shown'
has 'out 1' log2/*/attempt_0/1/stdout.log
launch 0 -t 1 --log-line-prefix-template='${hostname}:${rank}: ' \
    --log_dir=log2 echo out
same "$(hostname):0: out" "$(cat it.out)" 'a prefix by the option'
launch 0 --nproc_per_node=3 --local-ranks-filter=1 sh -c 'echo "out $RANK"'
same 'out 1' "$(cat it.out)" 'stdout of one rank'

# Files of 10 KiB, the two before it, and no line in two of them.
launch 0 -r 1 --log_rotate=10K,2 --log_dir=log3 \
    sh -c 'seq -f "line %05g of many" 5000'
same 'stdout.log stdout.log.1 stdout.log.2' \
    "$(ls log3/*/attempt_0/0 | tr '\n' ' ' | sed 's/ $//')" 'rotated files'
cat log3/*/attempt_0/0/stdout.log.2 log3/*/attempt_0/0/stdout.log.1 \
    log3/*/attempt_0/0/stdout.log >joined
same 5000 "$(tail -n 1 joined | sed 's/line 0\([0-9]*\) .*/\1/')" 'the last line'
first=$(head -n 1 joined | sed 's/line 0*\([0-9]*\) .*/\1/')
seq -f 'line %05g of many' "$first" 5000 | cmp - joined ||
    fail 'lines are torn between files'
for file in log3/*/attempt_0/0/*; do
    [ "$(wc -c <"$file")" -le 10240 ] || fail "$file is too large"
done

# A round that repeats an attempt, since a node came: its logs stay.
port=$(free_port)
# shellcheck disable=SC2016
set -- --nnodes=1:2 --rdzv_endpoint="127.0.0.1:$port" -r 1 --log_dir=log4 \
    --rdzv_conf=last_call_timeout=0 sh -c '
    echo "round $DDP_ROUND"; exec "$0" gate' "$WORKER"
close_gate
node a "$@"
wait_round 1 1
node b "$@"
wait_round 2 2
open_gate
all_end 0 a b
same 'round 1 --- ddprun: round 2 begins, TIME --- round 2' \
    "$(cat log4/*/attempt_0/0/stdout.log | grep -v '^round 2$' |
        sed "s/$(date -u +%Y)-[0-9-]*T[0-9:.]*Z/TIME/" |
        tr '\n' ' ')round 2" 'the file of two rounds'
