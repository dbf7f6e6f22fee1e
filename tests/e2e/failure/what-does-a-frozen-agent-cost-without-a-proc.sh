#!/bin/sh
# An agent is frozen for longer than its lease, where its guard cannot find its
# workers since /proc is not theirs: are they dead before the others go on, with
# what they started, and is that node given up with a reason?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"
. "$E2E_LIB/strangers.sh"
need_namespaces
careful_worker
cat >member <<'MEMBER'
#!/bin/sh
[ "${E2E_MARK##*:}" = b ] || exec ./careful
exec "$E2E_LIB/worker" family
MEMBER
chmod +x member

for kind in foreign unmounted; do
    : >started
    port=$(free_port)
    set -- --cgroup=none --nnodes=1:2 --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf=heartbeat_timeout=1
    node a "$@" ./member
    wait_listener "$port"
    within $kind b "$DDPRUN" "$@" ./member
    wait_round 1 2
    eventually 30 has_lines 1 family families || fail 'no family'
    kill -STOP "$(agent_among b)"
    wait_round 2 1
    ended 137 b
    has 'is frozen and its lease is over' b.err
    none_overlap
    open_gate
    ends_with 0 a
    leave b
    close_gate
    rm -f families
done
