#!/bin/sh
# Linux 4.18, and kernels and sandboxes that lack one call each: do workers run,
# restart and end as elsewhere, is the first one that died named, is nothing left
# of a killed launcher, and is what cannot work refused before the node joins?
# Each row of "What the kernel must have" in docs/operations.md is played here.
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

[ -x "$E2E_BIN/old_kernel" ] || fail 'no old_kernel: run make e2e-programs'
"$E2E_BIN/old_kernel" 4.18 true || skip 'no seccomp filter can be set here'
real=$DDPRUN

# on_kernel WHAT: what every launcher from now on runs under.
on_kernel()
{
    echo "kernel $1"
    DDPRUN=$E2E_DIR/on_kernel
    printf '#!/bin/sh\nexec "%s" "%s" "%s" "$@"\n' "$E2E_BIN/old_kernel" "$1" \
        "$real" >"$DDPRUN"
    chmod +x "$DDPRUN"
    : >started
}

# A worker fails, all start again, and end.
restarts()
{
    node it --nproc_per_node=3 --max_restarts=1 "$WORKER" once 1 3
    wait_round 2 3
    has 'rank 1 (pid .*: exit code 3' it.err
    open_gate
    ends_with 0 it
    nothing_left
    close_gate
}

# Two die while the agent looks at nothing: the one that was first is named.
names_the_first()
{
    : >started
    node it --nproc_per_node=3 "$WORKER" hold
    wait_round 1 3
    agent=$(agent_of it)
    kill -STOP "$agent"
    for rank in 2 0; do
        kill -KILL "$(worker_of $rank 1)"
        eventually 30 is_gone "$(worker_of $rank 1)" || fail "$rank lives"
    done
    kill -CONT "$agent"
    ends_with 137 it
    has 'first failure *rank 2 on .*: signal 9 (SIGKILL)' it.err
    nothing_left
}

# leaves_nothing [OPTION...]: kill -9 of the guard, and of the agent.
leaves_nothing()
{
    for whom in pid_of agent_of; do
        : >started
        node it --nproc_per_node=2 "$@" "$WORKER" family
        wait_round 1 2
        sleep 0.2 # for its grandchildren
        kill -KILL "$($whom it)"
        ends_with 137 it
        nothing_left
    done
}

takes_stacks()
{
    launch 82 --nproc_per_node=2 --hang_timeout=0.5 --log_dir="$LOG_DIR" \
        sleep 300
    has 'made no progress' it.err
    stacks=$(find "$LOG_DIR" -name stacks.txt)
    has ': state S, waits in ' "${stacks:?no stacks in $LOG_DIR}"
    nothing_left
}

# holds_memory OPENS: whether workers can open the launcher's snapshots.
holds_memory()
{
    # shellcheck disable=SC2016 # for the worker
    launch 0 --nproc_per_node=2 --snapshot_memory=1M sh -c '
        if [ -r "$DDP_SNAPSHOT_MEMORY" ]; then echo yes; else echo no; fi'
    lines 2 "$1" it.out
}

# ddptrain writes snapshots to the disk.
saves()
{
    [ -x "$E2E_BIN/ddptrain" ] || return 0
    launch 0 --nproc_per_node=2 "$E2E_BIN/ddptrain" 1 1 --model=linear \
        --batch_size=1 --train_samples=200 --snapshot_path="$E2E_DIR/snap"
    has 'snapshot saved: epoch 1, step 100 ' it.out
    rm -rf snap
}

on_kernel 4.18
restarts
names_the_first
leaves_nothing
leaves_nothing --cgroup=none
takes_stacks
holds_memory yes
saves

for error in ENOSYS EPERM; do
    on_kernel $error:pidfd_open,pidfd_send_signal
    restarts
    names_the_first
    leaves_nothing --cgroup=none
done
on_kernel ENOSYS:waitid_pidfd # Linux 5.3
restarts
on_kernel ENOSYS:futex_waitv # Linux 5.16
restarts

# The worker is in the cgroup of the launch, where there is one.
group()
{
    : >started
    node it "$WORKER" hold
    wait_round 1 1
    cat "/proc/$(worker_of 0 1)/cgroup" >groups
    kill -TERM "$(pid_of it)"
    ends_with 143 it
    sed -n 's,.*/ddprun-[0-9]*-.*,its own,p' groups
}
DDPRUN=$real
wanted=$(group)
for error in ENOSYS EPERM; do
    # glibc takes another answer than ENOSYS for the end of its threads.
    [ $error = EPERM ] || {
        on_kernel $error:clone3
        same "$wanted" "$(group)" 'the cgroup without clone3'
        leaves_nothing
    }

    # Helpers keep no descriptor of the launch open, however many there are.
    on_kernel $error:close_range
    : >started
    background it python3 -c '
import os, resource, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
os.dup2(os.open("started", os.O_RDONLY), 5000, inheritable=True)
os.execv(sys.argv[1], sys.argv[1:])' "$DDPRUN" --redirects=3 \
        --log_dir="$LOG_DIR" "$WORKER" hold
    wait_round 1 1
    agent=$(agent_of it)
    janitor=$(first_child "$(pid_of it)")
    for pid in $(marked it); do
        case $(readlink "/proc/$pid/exe") in
        */ddprun) [ "$pid" = "$(pid_of it)" ] || [ "$pid" = "$agent" ] ||
            [ "$pid" = "$janitor" ] || [ ! -e "/proc/$pid/fd/5000" ] ||
            fail "$pid ($(cat "/proc/$pid/comm")) has descriptor 5000" ;;
        esac
    done
    kill -TERM "$(pid_of it)"
    ends_with 143 it
    nothing_left

    on_kernel $error:getrandom
    restarts

    # What a worker leaves behind in another session is then not the launcher's.
    on_kernel $error:prctl_subreaper
    restarts

    on_kernel $error:faccessat2
    restarts
    same "$wanted" "$(group)" 'the cgroup without faccessat2'

    on_kernel $error:memfd_create
    restarts
    holds_memory no
    saves
    for option in hang_timeout=1 hang_timeout=auto health_check=true; do
        launch 78 --$option true
        has "^ddprun: --${option%=*} cannot work here: .*memfd_create" it.err
        has_not 'joined' it.err
    done
done
