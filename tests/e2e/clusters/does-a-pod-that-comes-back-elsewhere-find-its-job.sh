#!/bin/sh
# The pods of examples/k8s/indexed-job.yaml, with its command: each is process 1,
# knows its index, its own name and address, and a name server that learns late of
# the others.
# Do they meet by the name of pod 0? Does a pod that is deleted, and comes back
# under its name with another address, take its place: one of the others, and pod
# 0? Does the pod that is evicted save, and the job go on without it?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/manifests.sh"

command -v python3 >/dev/null || skip 'needs python3'
network names train-0 train-1 train-2
domain=train.ns.svc.cluster.local
printf '127.0.0.1 localhost\n' >hosts
echo 'hosts: files dns' >nsswitch.conf
printf 'nameserver 10.77.0.1\nsearch ns.svc.cluster.local cluster.local\noptions ndots:5 timeout:1\n' >resolv.conf
: >zone
(in_machine names env "E2E_MARK=$E2E_DIR:dns" python3 "$E2E_LIB/names.py" \
    10.77.0.1 "$E2E_DIR/zone") >dns.out 2>dns.err &

# pod INDEX LIFE: its launcher is process 1 of a pid namespace, in a life of its
# own: with the address that it has now, in /etc/hosts as well.
pod()
{
    eval "address=\$address_$1"
    printf '127.0.0.1 localhost\n%s train-%s.%s train-%s\n' "$address" "$1" \
        $domain "$1" >"hosts.train-$1"
    DDPRUN=env
    # shellcheck disable=SC2046 # words
    node_on "train-$1" "pod$1$2" "JOB_COMPLETION_INDEX=$1" $(gpu_of "$1") \
        PATH="$E2E_BIN:$PATH" PET_SHUTDOWN_TIMEOUT=5 PET_SCALE_INTERVAL=0 \
        PET_RDZV_CONF=heartbeat_timeout=1,last_call_timeout=30 \
        unshare --pid --fork --kill-child --mount-proc \
        $(command_of indexed-job) "$WORKER" slow 0.2
}

# process_1 NAME: the pid, as we see it, of the pod's launcher.
process_1()
{
    for _p in $(marked "$1"); do
        if grep -qs '^NSpid:.*[[:blank:]]1$' "/proc/$_p/status"; then
            echo "$_p"
        fi
    done
}

# delete INDEX LIFE: the pod, at once, with its address.
delete()
{
    eval "address=\$address_$1"
    kill -KILL "$(process_1 "pod$1$2")"
    nothing_left "pod$1$2"
    ip -n "dpe$$-train-$1" address del "$address/24" dev eth0
}

# move INDEX ADDRESS: the pod that comes back has this one.
move()
{
    eval "address_$1=$2"
    ip -n "dpe$$-train-$1" address add "$2/24" dev eth0
}

# known: the name server knows all pods as they are now.
known()
{
    for i in 0 1 2; do
        eval "echo train-$i.$domain \$address_$i"
    done >zone
}

address_0=10.77.0.2 address_1=10.77.0.3 address_2=10.77.0.4
for i in 0 1 2; do
    pod $i a
done
wait_for "the name 'train-0.$domain' does not resolve here" pod1a.err 30
has "Kubernetes Indexed Job: this is train-1 (node 1), meeting at train-0.$domain:29500" \
    pod1a.err
lines 0 '^round=' started
began=$(now_ms)
known
wait_round 1 3 30
measured "the name is known: all run after $(took_to 1) ms"
for i in 0 1 2; do
    same $i "$(ranks_on "pod${i}a" 1)" "the rank of pod $i"
done

delete 1 a
wait_round 2 2
move 1 10.77.0.71
pod 1 b
known
wait_round 3 3 30
same 2 "$(ranks_on pod1b 3)" 'the rank of the pod that came back last'

began=$(now_ms)
delete 0 a
wait_round 4 2
measured "pod 0 deleted: the others run after $(took_to 4) ms"
move 0 10.77.0.72
began=$(now_ms)
pod 0 b
sleep 1 # the name server is slow
known
wait_round 5 3 30
measured "pod 0 came back elsewhere: all run after $(took_to 5) ms"

kill -TERM "$(process_1 pod2a)"
ends_with 143 pod2a
has 'saved rank=' saved
wait_round 6 2 30
for i in 0b 1b; do
    kill -TERM "$(process_1 pod$i)"
done
end_of pod0b
end_of pod1b
for pid in $(marked dns); do kill "$pid"; done
nothing_left
