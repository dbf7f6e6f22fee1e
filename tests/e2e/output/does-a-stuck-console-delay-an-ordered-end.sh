#!/bin/sh
# A console that takes nothing and workers that do not obey: does SIGTERM end the
# launch within --shutdown_timeout and a second, with and without log files, also
# while a report is to go to that console? Is it only such a signal that makes the
# end hurry, and not a new size of the window?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

mkfifo console && exec 8<>console
flood='yes "a line of some length, to fill what can be filled" | head -n 30000 >&$FD'

# start [OPTION...] PROGRAM...: with both streams to the console.
start()
{
    : >ended
    # shellcheck disable=SC2016 # for the shell
    background it sh -c 'exec "$@" >console 2>&1' sh "$DDPRUN" \
        --nproc_per_node=2 "$@"
}

# What is written to, and how it is shown.
for row in '1' '2' '1 --tee=3 --log_dir=/dev/null' '2 --tee=3 --log_dir=log' \
    '2 --redirects=2 --log_dir=log' '2 --tee=2 --log_dir=log --report=/dev/stdout'; do
    export FD="${row%% *}"
    mode=${row#?}
    # shellcheck disable=SC2086 # words
    start --shutdown_timeout=1 $mode \
        sh -c "trap '' TERM; echo >>ended; $flood; sleep 30"
    wait_lines 2 '^$' ended
    sleep 0.3
    began=$(now_ms)
    kill -TERM "$(pid_of it)"
    ends_with 143 it
    took=$(took)
    in_time 2000 "$took" "'$row': SIGTERM"
    measured "'$row': $took ms"
    nothing_left
done

# The end waits for a reader, whatever comes that asks for no end.
start --tee=2 --log_dir=log2 sh -c "$flood; echo >>ended"
wait_lines 2 '^$' ended
sleep 0.3
kill -WINCH "$(pid_of it)"
kill -USR1 "$(pid_of it)"
sleep 0.5
is_gone "$(pid_of it)" && fail 'a signal that asks for no end ended it'
cat console >shown 8<&- &
reader=$!
exec 8<&-
ends_with 0 it
wait $reader
[ "$(grep -c 'filled$' shown)" -ge 60000 ] || fail 'not all was shown'
