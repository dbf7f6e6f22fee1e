#!/bin/sh
# kill -9 of guard and agent, neither of which can do anything for the other:
# nothing is left, detached grandchildren included, and where a cgroup could be
# made that is gone too.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

kill_both()
{
    agent=$(agent_of it)
    kill -STOP "$(pid_of it)" "$agent" # so that neither sees the other's end
    kill -KILL "$agent" "$(pid_of it)"
    end_of it
}

groups()
{
    find /sys/fs/cgroup -maxdepth 4 -type d -name "ddprun-$(pid_of it)-*" \
        2>/dev/null
}

node it --nproc_per_node=2 --cgroup=none "$WORKER" family
wait_round 1 2
same '' "$(groups)" 'cgroups with --cgroup=none'
sleep 0.3 # for its grandchildren
kill_both
nothing_left

: >started
node it --nproc_per_node=2 "$WORKER" family
wait_round 1 2
[ -n "$(groups)" ] || skip 'no cgroup can be made here'
sleep 0.3 # for its grandchildren
began=$(now_ms)
kill_both
nothing_left
eventually 30 sh -c "[ -z \"\$(find /sys/fs/cgroup -maxdepth 4 \
    -name 'ddprun-$(pid_of it)-*')\" ]" || fail "left: $(groups)"
measured "nothing left of it after $(took) ms"
# Where the janitor was killed as well the next launch clears up, but only what
# is empty and nobody's, a second after its workers were started.
parent=$(dirname "$(find /sys/fs/cgroup -maxdepth 4 -name cgroup.procs \
    -exec grep -lx $$ {} + 2>/dev/null | head -n 1)")
sleep 0 &
dead=$!
wait $dead
mkdir "$parent/ddprun-$dead-0badcafe" "$parent/ddprun-$$-0badcafe" \
    "$parent/ddprun-x" || fail 'no cgroup to leave behind'
node it sh -c 'until [ ! -e "$0" ]; do sleep 0.1; done' "$parent/ddprun-$dead-0badcafe"
ends_with 0 it 30
rmdir "$parent/ddprun-$$-0badcafe" "$parent/ddprun-x" || fail 'too much went'
# An orderly end takes its cgroup along.
launch 0 --nproc_per_node=2 true
same '' "$(groups)" 'cgroups after the end'
