#!/bin/sh
# A bare container: ddprun is process 1, without capabilities, under the filter of
# system calls of an old Docker; the root is read-only, /tmp as well, and there is
# no /sys, so no cgroup. Do workers restart and end there, is what they leave
# behind reaped, do they hear of SIGTERM to process 1, and is it said what does
# not work?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

need_root 'to make a container'
need_tools unshare chroot setpriv
unshare --pid --mount --fork true 2>/dev/null ||
    skip 'no namespace can be made here'
[ -x "$E2E_BIN/old_kernel" ] || fail 'no old_kernel: run make e2e-programs'
cp "$WORKER" worker
cat >job <<'JOB'
#!/bin/sh
# job WHAT...: says what it finds, leaves a process behind, becomes the worker.
{
    sed -n 's/^\(CapEff\|NoNewPrivs\|Seccomp\):\t//p' /proc/self/status
    for file in /file /tmp/file /dev/file; do
        ! true >$file || echo "$file can be written"
    done 2>/dev/null
    ls /sys
} >"$E2E_DIR/found.$RANK"
setsid -f sleep 0.2
exec ./worker "$@"
JOB
chmod +x job
mkdir root
cat >contain <<'CONTAIN'
set -e
mount --bind / root
mount -o remount,bind,ro root
mount -t proc proc root/proc
mount --bind /dev root/dev
mount -o remount,bind,ro root/dev
mount -t tmpfs -o ro tmpfs root/tmp
mount --bind "$E2E_WORK" root/mnt
here=/mnt/${E2E_DIR##*/}
exec chroot root env -u TMPDIR --chdir="$here" E2E_DIR="$here" \
    setpriv --no-new-privs --inh-caps=-all --bounding-set=-all \
    /mnt/bin/old_kernel "$@"
CONTAIN
calls=pidfd_open,pidfd_send_signal,close_range,faccessat2,openat2

# contained NAME [OPTION...] PROGRAM...: a launcher there, as `node`.
contained()
{
    _node=$1
    shift
    : >started
    background "$_node" unshare --pid --mount --fork --kill-child \
        sh contain EPERM:$calls "/mnt${DDPRUN_FILE#"$E2E_WORK"}" "$@"
}

no_zombies()
{
    ! ps -o stat= --ppid "$guard" --ppid "$agent" | grep -q Z
}

# A worker fails, all start again, and end.
contained it --nproc_per_node=2 --max_restarts=1 ./job once 1 3
wait_round 2 2
guard=$(first_child "$(pid_of it)")
agent=$(first_child "$(first_child "$guard")")
has "^NSpid:.*[[:blank:]]1$" "/proc/$guard/status"
same '0000000000000000 1 2 ' "$(tr '\n' ' ' <found.0)" \
    'capabilities, no_new_privs, seccomp; what can be written; /sys'
sleep 0.3 # what workers left behind has ended
eventually 30 no_zombies || fail 'zombies stay'
open_gate
ends_with 0 it
has 'rank 1 (pid [0-9]*): exit code 3' it.err
has 'Read-only file system; the workers run without error files' it.err
nothing_left

# docker stop; the agent is killed.
contained it --nproc_per_node=2 ./job report
wait_round 1 2
kill -TERM "$(first_child "$(pid_of it)")"
ends_with 143 it
lines 2 '^term ' terms
nothing_left
contained it --nproc_per_node=2 ./job family
wait_round 1 2
kill -KILL "$(first_child "$(first_child "$(first_child "$(pid_of it)")")")"
ends_with 137 it
nothing_left
