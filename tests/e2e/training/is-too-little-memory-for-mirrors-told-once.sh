#!/bin/sh
# The launchers hold enough memory for the snapshots of their nodes, but not for copies
# of those of another one. Does the job say so once, with a figure that is enough? Does
# the server show that no step is on two nodes, and with that figure that some are?
# limit: 30
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

[ -x "$E2E_BIN/sharded" ] || skip 'sharded is not built: make e2e-programs'

port=$(free_port)
daemon server "$port"

# job RUN MEMORY: on two nodes, two workers each.
job()
{
    for name in a b; do
        node "$1_$name" --nnodes=2 --nproc_per_node=2 --rdzv_id="$1" \
            --snapshot_memory="$2" --rdzv_endpoint="127.0.0.1:$port" \
            --rdzv_conf=heartbeat_timeout=1 "$E2E_BIN/sharded" 100000 20
    done
}

# shows RUN PATTERN
shows()
{
    "$DDPCTL" --endpoint="127.0.0.1:$port" top --once "$1" 2>&1 | grep -q "$2"
}

said()
{
    cat "$1_a.out" "$1_b.out" >"$1.out"
    grep -q "$2" "$1.out"
}

# ends RUN: is ended after a few more steps; what its workers say is in RUN.out.
ends()
{
    sleep 0.5
    "$DDPCTL" --endpoint="127.0.0.1:$port" end "$1" >"$1.ctl" 2>&1 ||
        fail "$1 cannot be ended: $(cat "$1.ctl")"
    end_of "$1_a"
    end_of "$1_b"
    said "$1" '^step 20: ' || fail "$1 does not come to step 20"
}

job little 4M
eventually 10 shows little '^  no step is on two nodes$' ||
    fail 'it is not shown that no step is on two nodes'
eventually 10 said little '^no mirrors: ' || fail 'nothing is said of mirrors'
ends little
lines 1 '^no mirrors: ' little.out
figure=$(sed -n 's/^no mirrors: .*--snapshot_memory=\([0-9]*M\) or more$/\1/p' \
    little.out)
[ -n "$figure" ] || fail 'there is no figure'
job enough "$figure"
eventually 10 shows enough '^  newest step on two nodes: [0-9]*, [0-9]* behind$' ||
    fail "with $figure no step is shown to be on two nodes"
ends enough
has_not '^no mirrors' enough.out
for name in little_a little_b enough_a enough_b; do
    nothing_left $name
done
