#!/bin/sh
# usage: unshare --net --pid --mount --uts --fork --mount-proc --kill-child \
#            tests/clusters/lib/slurm.sh N COMMAND...
# Runs COMMAND beside a Slurm cluster of N machines, n1 to nN, and ends with its
# status. A machine is a network namespace with an address and a host name of its
# own; all share this mount namespace, so that /tmp is their file system. There
# is no systemd and no database. CLUSTERS_WORK is a folder for all of it.
#
# What made it hang or fail before: `ip netns exec` gives a process another /sys,
# and slurmd dies of it (nsenter --net does not). A machine may say that it has
# more CPUs than are there only with config_overrides.
set -u
case $#${1:-x} in
[01]* | *[!0-9]*) exec "$(dirname "$0")/../../../scripts/usage" "$0" ;;
esac
. "$CLUSTERS/lib/machine.sh"

n=$1
shift
dir=$CLUSTERS_WORK/slurm
mkdir -p "$dir/state" "$dir/log" "$dir/munge" || exit 2
export SLURM_CONF="$dir/slurm.conf"

fail()
{
    echo "slurm: $*" >&2
    tail -n 5 "$dir"/log/* >&2
    exit 2
}

# The network: a bridge, and a cable to each machine.
mount --make-rprivate / && mount -t tmpfs tmpfs /run && mkdir -p /run/netns ||
    fail "cannot mount"
hostname control
ip link set lo up
ip link add bridge type bridge && ip addr add 10.77.0.1/24 dev bridge &&
    ip link set bridge up || fail "cannot make a network"
{
    echo "127.0.0.1 localhost"
    echo "10.77.0.1 control"
    i=0
    while [ $((i += 1)) -le "$n" ]; do echo "10.77.0.$((10 + i)) n$i"; done
} >"$dir/hosts"
mount --bind "$dir/hosts" /etc/hosts || fail "cannot set /etc/hosts"
i=0
while [ $((i += 1)) -le "$n" ]; do
    ip netns add n$i &&
        ip link add cable$i type veth peer name eth0 netns n$i &&
        ip link set cable$i master bridge up &&
        nsenter --net=/run/netns/n$i sh -c "ip link set lo up &&
            ip addr add 10.77.0.$((10 + i))/24 dev eth0 &&
            ip link set eth0 up" || fail "cannot make machine n$i"
    mkdir -p "$dir/spool/n$i"
done

# Who is who: one key for all.
(umask 077 && head -c 128 /dev/urandom >"$dir/munge/key")
chmod 755 "$CLUSTERS_WORK" "$dir" "$dir/munge"
munged --foreground --force --socket="$dir/munge/socket" \
    --key-file="$dir/munge/key" --pid-file="$dir/munge/pid" \
    --log-file="$dir/log/munged" --seed-file="$dir/munge/seed" \
    >"$dir/log/munged.out" 2>&1 &

cat >"$SLURM_CONF" <<CONF
ClusterName=test
SlurmctldHost=control(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld
SlurmdLogFile=$dir/log/slurmd.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
KillWait=5
InactiveLimit=0
SlurmdTimeout=15
SchedulerParameters=sched_interval=2,bf_interval=2,sched_min_interval=1
SlurmdParameters=config_overrides
NodeName=n[1-$n] CPUs=4 State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP GraceTime=10
PartitionName=urgent Nodes=ALL PriorityTier=10 PreemptMode=OFF State=UP
CONF

i=0
until [ -S "$dir/munge/socket" ]; do
    [ $((i += 1)) -le 100 ] || fail "munged does not start"
    sleep 0.1
done
slurmctld -c -D -f "$SLURM_CONF" >"$dir/log/slurmctld.out" 2>&1 &
i=0
while [ $((i += 1)) -le "$n" ]; do
    start_slurmd n$i
done
i=0
until [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = "$n" ]; do
    [ $((i += 1)) -le 300 ] || fail "the machines are not idle after 30 s"
    sleep 0.1
done
"$@"
