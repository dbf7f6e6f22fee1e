#!/bin/sh
# --hang_timeout=2 and a console that takes nothing for 3 seconds (Ctrl-S, a
# pipe that nobody reads): does a worker that waits there count as hanging? One
# that hangs when the console takes again still does, and so does one beside a
# worker that keeps a slow console full for ever, after ten times as long.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

mkfifo console && exec 8<>console
# shellcheck disable=SC2016 # for the workers
flood='i=0; while [ $i -lt 20000 ]; do
    echo "a line of some length that fills the console, number $i"
    i=$((i + 1)); done; >done.$RANK
    [ "$RANK" != 0 ] || [ -z "$THEN_HANG" ] || exec sleep 300'

# run STATUS STREAM: both workers write to the console, which is read late.
run()
{
    if [ "$2" = 2 ]; then
        background it sh -c 'exec "$@" 2>&8' sh "$DDPRUN" --nproc_per_node=2 \
            --hang_timeout=2 sh -c "{ $flood; } >&2"
    else
        background it sh -c 'exec "$@" >&8' sh "$DDPRUN" --nproc_per_node=2 \
            --hang_timeout=2 sh -c "$flood"
    fi
    sleep 3
    is_gone "$(pid_of it)" && fail "it ended: $STATUS"
    [ ! -e done.0 ] && [ ! -e done.1 ] || fail 'nobody waited'
    cat <&8 >shown 8<&8 &
    cat=$!
    ends_with "$1" it 30
    kill $cat
    wait $cat
    [ -e done.0 ] && [ -e done.1 ] || fail 'not all was written'
    rm done.*
    nothing_left it
}
export THEN_HANG=
run 0 2
run 0 1
has_not 'progress' it.err
export THEN_HANG=yes
run 82 1
has 'rank 0 .*no progress for [2-9]' it.err

# Little by little; full at each look.
while :; do
    dd bs=1000 count=1 status=none || exit
    sleep 0.005
done <&8 >/dev/null &
slow=$!
# shellcheck disable=SC2016
background it sh -c 'exec "$@" 2>&8' sh "$DDPRUN" --nproc_per_node=2 \
    --hang_timeout=0.2 --events=events sh -c '[ "$RANK" = 1 ] || exec sleep 300
    while :; do echo "something to say, again and again" >&2; done'
wait_for '"failed".*rank 0 .*no progress' events 30
kill $slow
cat <&8 >/dev/null 8<&- &
cat=$!
ends_with 82 it
kill $cat
nothing_left it

# The same with a slow terminal, which does not show how much waits in it.
command -v python3 >/dev/null || exit 0
cat >slow_terminal.py <<'PY'
"""Becomes a command of which a stream, 1 or 2, is a terminal that is read
slowly, and not slowly any more once the file `fast` is there."""
import os, sys, time
terminal, end = os.openpty()
if os.fork() == 0:
    os.close(end)
    try:
        while os.read(terminal, 500):
            time.sleep(0 if os.path.exists("fast") else 0.005)
    except OSError:  # all have closed it
        os._exit(0)
os.dup2(end, int(sys.argv[1]))
os.execvp(sys.argv[2], sys.argv[2:])
PY
for fd in 1 2; do
    rm -f events fast
    # shellcheck disable=SC2016
    background it python3 slow_terminal.py $fd "$DDPRUN" --nproc_per_node=2 \
        --hang_timeout=0.2 --events=events \
        sh -c '[ "$RANK" = 1 ] || exec sleep 300
        while :; do echo "something to say, again and again" >&'"$fd"'; done'
    wait_for '"failed".*rank 0 .*no progress' events 30
    : >fast
    ends_with 82 it
    nothing_left it
done
