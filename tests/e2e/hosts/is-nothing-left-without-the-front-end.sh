#!/bin/sh
# A job that one line started on three hosts: does it end in order, on all of them,
# when the front end gets SIGTERM, SIGINT or SIGHUP? Is nothing left when the front
# end is killed, or one of the connections?
# limit: 150
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/hosts.sh"

network a b c
make_into

for signal in TERM INT HUP; do
    : >started
    : >terms
    front --hosts=a,b:2,c "$WORKER" report
    wait_round 1 4 30
    began=$(now_ms)
    kill -$signal "$(pid_of front)"
    case $signal in
    TERM) ends_with 143 front ;;
    INT) ends_with 130 front ;;
    HUP) ends_with 129 front ;;
    esac
    in_time 4000 "$(took)" "the end after SIG$signal"
    [ $signal != TERM ] || lines 4 '^term ' terms
    nothing_left
done

: >started
front --hosts=a,b,c "$WORKER" hold
wait_round 1 3 30
began=$(now_ms)
kill -KILL "$(pid_of front)"
ends_with 137 front
nothing_left '' 30
measured "kill -9 of the front end: nothing left after $(took) ms"

# A second Ctrl-C kills what does not end.
: >started
front --hosts=a,b "$WORKER" stubborn
wait_round 1 2 30
began=$(now_ms)
kill -INT "$(pid_of front)"
sleep 0.5
kill -INT "$(pid_of front)"
ends_with 130 front
in_time 4000 "$(took)" 'the end after a second SIGINT'
nothing_left

# A signal that does not end the job.
: >started
front --hosts=a,b "$WORKER" become sh -c \
    'trap "echo got USR1; exit 0" USR1; echo ready; while :; do sleep 0.05; done'
wait_lines 2 '^ready' front.out 30
kill -USR1 "$(pid_of front)"
ends_with 0 front
lines 2 '^got USR1' front.out

# Ctrl-Z for longer than a silent front end is believed to be alive.
: >started
front --hosts=a,b "$WORKER" gate
wait_round 1 2 30
kill -TSTP "$(pid_of front)"
sleep 22
kill -CONT "$(pid_of front)"
sleep 1
open_gate
ends_with 0 front
has_not 'front end is gone' front.err
close_gate

# A front end that is frozen says nothing: the hosts do not wait for ever.
: >started
front --hosts=a,b "$WORKER" hold
wait_round 1 2 30
kill -STOP "$(pid_of front)"
nothing_left a 40
nothing_left b 30
kill -KILL "$(pid_of front)"
ends_with 137 front
