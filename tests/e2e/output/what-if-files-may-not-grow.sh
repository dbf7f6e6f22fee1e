#!/bin/sh
# ulimit -f: does a launch run if no file may be as large as the memory for
# snapshots? Do log files, a console and a file of events at the limit stop
# nobody, and do workers get the usual SIGXFSZ for files of their own?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# limited BLOCKS [OPTION...] PROGRAM...: files of at most so many blocks of 512
# bytes.
limited()
{
    _blocks=$1
    shift
    # shellcheck disable=SC2016 # for the inner shell
    background it sh -c 'ulimit -f "$0" && exec "$@"' "$_blocks" "$DDPRUN" "$@"
}

# The memory is as large as a file may be, or there is none.
for blocks in 100000 1000 1 0; do
    # shellcheck disable=SC2016 # for the worker
    limited $blocks --log_dir=/dev/null --nproc_per_node=2 sh -c '
        size=$(stat -Lc %s "$DDP_SNAPSHOT_MEMORY" 2>&1) || size=none
        [ "$RANK" != 0 ] || printf "%s" "$size" | cat >&2'
    ends_with 0 it
    nothing_left
    case $blocks in
    100000) same 51200000 "$(cat it.err)" 'bytes of memory' ;;
    1000) same 512000 "$(cat it.err)" 'bytes of memory' ;;
    1) same none "$(cat it.err)" 'bytes of memory' ;;
    0) ;; # it.err itself must stay empty
    esac
done

# Log files, tee'd or not, at the limit.
talk='head -c 100000 /dev/zero | tr "\0" x | fold -w 99; echo >&2; echo last >&2
    echo ended >>ended'
for mode in --redirects=1 --tee=1; do
    rm -rf log ended
    limited 100 --nproc_per_node=2 --max_restarts=0 $mode --log_dir=log \
        --events=log.events sh -c "$talk"
    ends_with 0 it
    lines 2 ended ended
    lines 2 'cannot write to .*/stdout.log: File too large' it.err
    lines 2 '^last$' it.err
    for file in log/*/attempt_0/?/stdout.log; do
        [ "$(wc -c <"$file")" -le 51200 ] || fail "$file is too large"
        [ "$(wc -c <"$file")" -ge 40000 ] || fail "$file is too small"
    done
    has_not 'signal' it.err
    nothing_left
done

# A console that is a file at the limit; the launch's own lines go there, too.
head -c 51200 /dev/zero | tr '\0' x | fold -w 99 >full
rm ended
# shellcheck disable=SC2016
background it sh -c 'ulimit -f 100 && exec "$@" >>full 2>&1' sh "$DDPRUN" \
    --nproc_per_node=2 --max_restarts=0 --tee=3 --log_dir=/dev/null sh -c "$talk"
ends_with 0 it
lines 2 ended ended
nothing_left

# stdout is such a file, and stderr is not: it is said once there, and at the end
# how much was lost.
yes 'a line' | head -n 6000 >full
before=$(wc -c <full)
# shellcheck disable=SC2016
background it sh -c 'ulimit -f 100 && exec "$@" >>full' sh "$DDPRUN" \
    --nproc_per_node=2 --log_dir=/dev/null \
    sh -c 'yes "a line of so many bytes" | head -n 4000'
ends_with 0 it
lines 1 'cannot write to stdout: File too large; output that' it.err
[ "$(wc -c <full)" = 51200 ] || fail 'there was room'
lost=$((2 * 4000 * 24 - (51200 - before)))
lines 1 "^ddprun: $lost bytes of stdout lost: File too large$" it.err
nothing_left

# A file of the worker's own.
# shellcheck disable=SC2016
limited 100 --max_restarts=0 sh -c 'head -c 100000 /dev/zero >own
    echo "head ended with $?" >&2'
ends_with 0 it
has 'head ended with 153' it.err
