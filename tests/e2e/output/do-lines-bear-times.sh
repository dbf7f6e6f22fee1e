#!/bin/sh
# --log_timestamps: has each line on the console, in log files and of ddprun the
# time in UTC, behind its prefix and once, however it is cut, and are the last
# lines in the report as they were? Without it: do events and the marks in log
# files have times, and do log files hold the workers' bytes?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

day='[0-9]\{4\}-[0-9][0-9]-[0-9][0-9]'
time="${day}T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]\\.[0-9]\\{3\\}Z"
TZ=Asia/Tokyo # not ours
export TZ

# around BEGAN TEXT: it begins with a time from BEGAN (seconds) to now.
around()
{
    _at=$(date -d "${2%% *}" +%s) || fail "no time: $2"
    [ "$_at" -ge "$1" ] && [ "$_at" -le "$(date +%s)" ] ||
        fail "'$2' is not between $1 and now"
}

# Written in pieces: one time for each line.
# shellcheck disable=SC2016 # for the worker
talk='printf "front "; sleep 0.05; printf "and back\n"; echo error 42 >&2
    echo; printf rest; [ "$RANK" != 0 ] || { : >ended; exit; }
    until [ -e ended ]; do sleep 0.01; done; sleep 0.2; exit 1'
began=$(date +%s)
launch 1 --log_timestamps --nproc_per_node=2 --log_dir=log -t 0:1 -r 1:1 \
    --duplicate-stderr-filters=42 sh -c "$talk"
sed "s/$time/TIME/" it.out >got
printf '%s\n' '[default0]:TIME front and back' '[default0]:TIME ' \
    '[default0]:TIME rest' >want
same "$(cat want)" "$(cat got)" 'the console'
around "$began" "$(sed -n 's/^\[default0\]://p' it.out | head -n 1)"
for rank in 0 1; do
    sed "s/$time/TIME/" log/*/attempt_0/$rank/stdout.log >got
    same "$(printf 'TIME front and back\nTIME \nTIME rest')" "$(cat got)" \
        "the log file of rank $rank"
done
sed "s/$time/TIME/" log/*/attempt_0/filtered_stderr.log | sort >got
same "$(printf '[default%d]:TIME error 42\n' 0 1)" "$(cat got)" 'filtered lines'
lines 2 "^$time error 42$" it.err
has '^ddprun: .*  | error 42$' it.err # not changed
sed -n 's/^ddprun: //p' it.err >own
[ -s own ] || fail 'no word of ddprun'
lines "$(wc -l <own)" "^$time " own

# By the environment; a filter does not look at the time.
background it env PET_LOG_TIMESTAMPS=1 "$DDPRUN" --log_dir=log2 \
    --duplicate-stdout-filters=20 echo no number
ends_with 0 it
has "^$time no number$" it.out
same '' "$(cat log2/*/attempt_0/filtered_stdout.log)" 'lines with the number'

# Without.
began=$(date +%s)
launch 0 --nproc_per_node=1 --tee=1 --log_dir=log3 --events=events \
    sh -c 'printf "as it\nwas"'
same "$(printf 'as it\nwas')" "$(cat log3/*/attempt_0/0/stdout.log)" 'bytes'
same '[default0]:as it' "$(head -n 1 it.out)" 'the console'
has_not "$time" it.err
[ -s events ] || fail 'no events'
lines "$(wc -l <events)" "\"time\":\"${day}T[0-9:]*\\.[0-9]\\{6\\}Z\"" events
around "$began" "$(sed -n 's/.*"time":"\([^"]*\)".*/\1/p' events | head -n 1)"
