#!/bin/sh
# A user who is not root, in a cgroup as systemd delegates one, in one that was
# not delegated, in one of which only the folder is theirs, and in the leaf of
# one whose controllers are handed down, where no process may be in an inner
# one: are the workers in a cgroup of the launch where that can be, do they run
# where it cannot, and is nothing left of the first kind when guard and agent
# are killed at once?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

need_root 'to make cgroups'
command -v setpriv >/dev/null || skip 'needs setpriv'
mount=$(sed -n 's/^[^ ]* \([^ ]*\) cgroup2 .*/\1/p' /proc/mounts | head -n 1)
[ -n "$mount" ] || skip 'needs cgroup version 2'
top=$mount/ddpe2e-$$
mkdir "$top" 2>/dev/null || skip 'no cgroup can be made here'
[ -e "$top/cgroup.kill" ] || {
    rmdir "$top"
    skip 'needs cgroup.kill, of Linux 5.14'
}
trap 'cleanup; find "$top" -depth -type d -exec rmdir {} \;' EXIT
uid=54321
chmod 711 "$E2E_WORK" && chmod 777 "$E2E_DIR" && chmod 666 started
mkdir -m 777 home
cp "$WORKER" worker # which may be in a folder of root's alone
WORKER=$E2E_DIR/worker

# delegate GROUP: what systemd gives to the user of a unit.
delegate()
{
    chown $uid "$1" "$1/cgroup.procs" "$1/cgroup.threads" \
        "$1/cgroup.subtree_control"
}

# start GROUP: a launch there; the workers' group, from there on, is in GROUP.
start()
{
    : >started
    # shellcheck disable=SC2016 # for the inner shell
    background it sh -c 'echo $$ >"$1/cgroup.procs" || exit; shift
        exec setpriv --reuid=54321 --regid=54321 --clear-groups \
            env TMPDIR="$E2E_DIR/home" "$@"' \
        sh "$1" "$DDPRUN" --nproc_per_node=2 "$WORKER" "$2"
    wait_round 1 2
    GROUP=$(for pid in $(workers_on it 1); do
        sed -n "s,^0::.*/${1##*/},,p" "/proc/$pid/cgroup"
    done | sort -u)
}

mkdir "$top/scope" && delegate "$top/scope"
start "$top/scope" family
case $GROUP in
/ddprun-*) ;;
*) fail "delegated: the workers are in '$GROUP'" ;;
esac
sleep 0.3 # for its grandchildren
agent=$(agent_of it)
kill -STOP "$(pid_of it)" "$agent" # so that neither sees the other's end
kill -KILL "$agent" "$(pid_of it)"
end_of it
nothing_left
eventually 30 [ ! -e "$top/scope$GROUP" ] || fail 'the cgroup is left'

mkdir "$top/service" "$top/folder" && chown $uid "$top/folder"
for group in service folder; do
    start "$top/$group" hold
    same '' "$GROUP" "the workers' own cgroup in $group"
    kill -TERM "$(pid_of it)"
    ends_with 143 it
    same 'ddprun: signal 15' "$(cut -c 1-17 it.err)" 'what it says'
done

read -r controller _rest <"$top/cgroup.controllers" || exit 0
mkdir "$top/unit" "$top/unit/leaf"
for group in "$top" "$top/unit"; do
    echo "+$controller" >"$group/cgroup.subtree_control" || exit 0
done
delegate "$top/unit" && delegate "$top/unit/leaf"
start "$top/unit/leaf" hold
case $GROUP in
/ddprun-*) ;;
*) fail "a leaf: the workers are in '$GROUP'" ;;
esac
kill -TERM "$(pid_of it)"
ends_with 143 it
nothing_left
