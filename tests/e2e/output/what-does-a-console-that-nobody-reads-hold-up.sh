#!/bin/sh
# A console that is slow, stuck or closed: do the workers and their log files go
# on, and does the console get everything once it is read?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

mkfifo console
talk='yes "a line of some length, to fill what can be filled" | head -n 100000'
bytes=$((100000 * 50))

# Stuck: nobody reads until the workers have ended.
exec 8<>console
# shellcheck disable=SC2016 # for the shell
background it sh -c 'exec "$@" >console' sh "$DDPRUN" --nproc_per_node=2 \
    --tee=1 --log_dir=log sh -c "$talk; echo ended >>ended"
eventually 30 has_lines 2 ended ended || fail 'a stuck console holds workers up'
is_complete()
{
    [ "$(cat log/*/attempt_0/*/stdout.log | wc -c)" -eq $((2 * bytes)) ]
}
eventually 30 is_complete || fail 'the log files are not complete'
cat console >read 8<&- &
reader=$!
exec 8<&-
ends_with 0 it
wait $reader
same 200000 "$(grep -c '^\[default[01]\]:a line of some .* filled$' read)" \
    'lines that a late reader gets'

# Closed: the reader is gone at once.
# shellcheck disable=SC2016
background it sh -c '("$@"; echo $? >status) | true' sh "$DDPRUN" \
    --nproc_per_node=2 --tee=1 --log_dir=log2 sh -c "sleep 0.3; $talk"
end_of it
same 0 "$(cat status)" 'status with a closed console'
same $((2 * bytes)) "$(cat log2/*/attempt_0/*/stdout.log | wc -c)" \
    'bytes in the log files'

# Ctrl-C is heard while the end waits for a console.
exec 8<>console
# shellcheck disable=SC2016
background it sh -c 'exec "$@" >console' sh "$DDPRUN" --nproc_per_node=1 \
    --tee=1 --log_dir=log3 sh -c "$talk; echo ended >>ended"
eventually 30 has_lines 3 ended ended || fail 'no third end'
sleep 0.3
is_gone "$(pid_of it)" && fail 'the end does not wait for the console'
kill -INT "$(pid_of it)"
end_of it 2
nothing_left

# ... and while the report does, of which the console has no more room.
# shellcheck disable=SC2016
background it sh -c 'exec "$@" >console' sh "$DDPRUN" --report=/dev/stdout \
    sh -c 'echo ended >>ended'
wait_lines 4 ended ended
sleep 0.3
is_gone "$(pid_of it)" && fail 'the end does not wait for a reader'
kill -INT "$(pid_of it)"
ends_with 0 it 2
has 'cannot write the report to /dev/stdout: no process reads it' it.err
