#!/bin/sh
# Does each error of the launcher's own end it with the status that ddprun(1)
# names, and a sentence? Those of other scenarios: 2, 126, 127 in a04, 68 in
# o02, 71 in j04, 75 in j02, 76 in k02, 84 in m07; 67, 77 and 79 are
# libddp's.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
at=127.0.0.1:$port

# 65: the nodes of one run disagree.
node a --nnodes=2 --rdzv_endpoint="$at" "$WORKER" gate
wait_listener "$port"
launch 65 --nnodes=3 --rdzv_endpoint="$at" "$WORKER" gate
has 'refused this node' it.err
kill -TERM "$(pid_of a)"
ends_with 143 a

# 66: a file that is needed cannot be read.
launch 66 --nnodes=2 --rdzv_endpoint="$at" --rdzv_token_file=not-there true
has 'token file not-there: No such file' it.err

# 69: nobody is there; 72: they were, and did not come back.
launch 69 --nnodes=2 --rdzv_endpoint="$at" \
    --rdzv_conf=is_host=0,join_timeout=0.2 true
has 'was not reached' it.err
daemon d "$port"
node a --nnodes=2 --rdzv_endpoint="$at" \
    --rdzv_conf=is_host=0,reconnect_timeout=0.3 true
eventually 5 sh -c "grep -q $(printf ':%04X .* 01' "$port") /proc/net/tcp" ||
    fail 'no connection'
sleep 0.3
kill -KILL "$(pid_of d)"
ends_with 72 a
has 'went away and did not come back' a.err

# 70: a bug. An assertion that does not hold aborts.
node a "$WORKER" hold
wait_lines 1 ' world=1 ' started
kill -ABRT "$(agent_of a)"
ends_with 70 a
has 'SIGABRT.*a bug of ddprun' a.err
nothing_left a

# 78: a port that another job has.
node a --master_port="$port" "$WORKER" hold
wait_lines 2 ' world=1 ' started
launch 78 --master_port="$port" true
has 'cannot listen on .* port [0-9]*: Address already in use; is it another' \
    it.err
kill -TERM "$(pid_of a)"
ends_with 143 a

# 74: nothing can be written.
for what in --help --version --print_completion=bash; do
    "$DDPRUN" $what >/dev/full 2>full.err
    same 74 $? "status of $what"
    lines 1 'cannot write' full.err
done

# Each of them is in the manual.
page=$E2E_LIB/../../man/ddprun.1
for status in 2 65 66 68 69 70 71 72 74 75 76 78 126 127; do
    lines 1 "^\\.It $status\$" "$page"
done
nothing_left
