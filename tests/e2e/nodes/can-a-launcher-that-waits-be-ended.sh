#!/bin/sh
# Does a launcher that waits for others, or for an endpoint, end at once when it
# is told to?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
node it --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" "$WORKER" hold
wait_listener "$port"
kill -TERM "$(pid_of it)"
ends_with 143 it 30
node it --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" "$WORKER" hold
wait_listener "$port"
kill -INT "$(pid_of it)"
ends_with 130 it 30
has 'signal 2 (SIGINT): leaving$' it.err
has_not "this node's workers" it.err # there are none
# Two signals: there are no workers that could be killed.
LOGLEVEL=debug node it --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" \
    "$WORKER" hold
wait_for 'joined' it.err
kill -STOP "$(agent_of it)"
kill -INT "$(pid_of it)"
kill -TERM "$(pid_of it)"
sleep 0.3 # until both signals are passed on to the agent
kill -CONT "$(agent_of it)"
ends_with 130 it 30
has 'a second signal (SIGTERM): leaving now$' it.err
has_not 'killing' it.err
LOGLEVEL=debug node it --nnodes=2 --rdzv_conf=is_host=0 \
    --rdzv_endpoint="127.0.0.1:$port" "$WORKER" hold
wait_for connecting it.err
kill -TERM "$(pid_of it)"
ends_with 143 it 30
same 0 "$(wc -l <started)" workers
nothing_left
