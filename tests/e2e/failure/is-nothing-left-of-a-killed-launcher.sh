#!/bin/sh
# kill -9 of the guard, of the agent, and of both at once: is anything left of
# that launch, and how soon is it gone?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# start_family: a launcher with two workers that have relatives everywhere.
start_family()
{
    : >started
    rm -f families
    node it --nproc_per_node=2 "$WORKER" family
    wait_round 1 2
    wait_lines 2 family families
    eventually 30 sleepers 10 || fail 'the families are not complete'
}

start_family
began=$(now_ms)
kill -KILL "$(pid_of it)"
nothing_left
measured "guard killed, all of its launch gone: at most $(took) ms"
ends_with 137 it

start_family
began=$(now_ms)
kill -KILL "$(agent_of it)"
nothing_left
measured "agent killed, all of its launch gone: at most $(took) ms"
ends_with 137 it
has 'the agent (pid [0-9]*) was killed by signal 9' it.err

start_family
began=$(now_ms)
kill -KILL "$(pid_of it)" "$(agent_of it)"
nothing_left
measured "both killed, all of their launch gone: at most $(took) ms"
ends_with 137 it
