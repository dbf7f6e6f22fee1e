#!/bin/sh
# Where /proc is another pid namespace's, or is not there: does a launch that
# restarts, ends well, or loses its agent kill all that is its own, and nothing
# else, and does it say once what does not work there?
# limit: 120
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/strangers.sh"
need_namespaces
leaver

for kind in foreign chroot without unmounted; do
    began=$(now_ms)
    within $kind it "$DDPRUN" --cgroup=none --nproc_per_node=2 \
        --max_restarts=2 ./leaver 2
    ended 0 it
    measured "$kind: three rounds, and nothing left, after $(took) ms"
    lines 1 '/proc does not show the processes of this pid namespace' it.err
    has_not 'could not be killed' it.err
    leave it

    : >started
    within $kind it "$DDPRUN" --cgroup=none --nproc_per_node=2 \
        "$WORKER" family
    wait_round 1 2
    eventually 30 has_lines 2 family families || fail 'no families'
    kill -KILL "$(agent_among it)"
    ended 137 it
    has 'was killed by signal 9 (SIGKILL); every process that it had' it.err
    leave it
    rm -f families
done
