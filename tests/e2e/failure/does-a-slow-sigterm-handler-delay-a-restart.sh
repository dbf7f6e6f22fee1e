#!/bin/sh
# A worker is killed, and the SIGTERM handlers of the others block for 10 s, as
# one does that runs a collective with the dead: do all run again after half a
# second, what --failure_grace is then? Have such workers their whole time if nothing failed:
# by SIGTERM to the launcher, and when a node joins?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# minds RANK ROUND: its handler is installed.
minds()
{
    grep -q '^SigCgt:.*[4-7c-f]...$' "/proc/$(worker_of "$1" "$2")/status"
}

node it --nproc_per_node=3 --max_restarts=1 --events=events --report=report \
    "$WORKER" slow 10
wait_round 1 3
eventually 30 minds 1 1
eventually 30 minds 2 1
began=$(now_ms)
kill -KILL "$(worker_of 0 1)"
wait_round 2 3
took=$(took_to 2)
measured "handlers that block for 10 s: all run again after $took ms"
[ "$took" -ge 450 ] || fail "the handlers had only $took ms"
in_time 2000 "$took" 'the restart'
lines 2 '^term ' terms
[ ! -e saved ] || fail 'a handler ended'
killed='2 workers, after 0.5 s (--failure_grace)'
has "killing workers that did not stop: $killed" it.err
lines 1 "\"event\":\"killing\".*$killed" events
eventually 30 minds 1 2
eventually 30 minds 2 2
kill -KILL "$(worker_of 0 2)"
ends_with 137 it
has "^ddprun:   killed          on .*: $killed$" it.err
has "\"killed\": \"$killed\"" report
nothing_left

# SIGTERM from outside: nobody is killed.
rm terms started
node it --nproc_per_node=2 "$WORKER" slow 4
wait_round 1 2
eventually 30 minds 0 1
eventually 30 minds 1 1
began=$(now_ms)
kill -TERM "$(pid_of it)"
ends_with 143 it
[ "$(took)" -ge 3950 ] || fail "the handlers had only $(took) ms"
lines 2 '^saved ' saved
has_not 'killing' it.err
nothing_left

# A node joins: nor there.
rm started saved
port=$(free_port)
daemon d "$port"
join()
{
    node "$1" --nnodes=1:2 --nproc_per_node=1 \
        --rdzv_conf=last_call_timeout=0,is_host=0 \
        --rdzv_endpoint="127.0.0.1:$port" "$WORKER" slow 4
}
join a
wait_round 1 1
eventually 30 minds 0 1
began=$(now_ms)
join b
wait_round 2 2
[ "$(took_to 2)" -ge 3950 ] || fail "the handler had only $(took_to 2) ms"
lines 1 '^saved ' saved
has_not 'killing' a.err
