#!/bin/sh
# Do the ranks of three nodes of two workers, and of nodes of one and three, find
# each other's keys and names by PMI, and which ranks share a node? If one is killed
# while the others wait in the barrier, does the next round have keys of its own?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
command -v python3 >/dev/null || skip 'needs python3'

# world WORKERS...: a node for each number. PROGRAM's argument is $argument.
world()
{
    port=$(free_port) i=0 nodes=
    for workers in "$@"; do
        i=$((i + 1)) nodes="$nodes n$i"
        node n$i --mpi=pmi1 --nnodes=$# --rdzv_endpoint="127.0.0.1:$port" \
            --rdzv_conf=is_host=$((i == 1)) --node_rank=$((i - 1)) \
            --rdzv_backend=c10d --nproc_per_node="$workers" --max_restarts=1 \
            "$E2E_LIB/pmi_client.py" $argument
        [ $i -gt 1 ] || wait_listener "$port"
    done
    for n in $nodes; do
        ends_with 0 "$n" 25
    done
    for n in $nodes; do
        cat "$n.out"
    done | sort -n >all
    same "$(seq 0 $((size - 1)) | tr '\n' ' ')" "$(cut -d ' ' -f 1 all | tr '\n' ' ')" ranks
    same "$size $mapping $round" \
        "$(cut -d ' ' -f 2- all | sed 's/ddprun_[0-9a-f]*_//' | sort -u)" \
        'size, mapping and round'
    nothing_left
}
argument=
size=6 mapping='(vector,(0,3,2))' round=1
world 2 2 2
size=4 mapping='(vector,(0,1,1),(1,1,3))' round=1
world 1 3
argument=die
size=4 mapping='(vector,(0,2,2))' round=2
world 2 2
