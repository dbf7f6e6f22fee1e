# A world of ranks that speak PMI by themselves (pmi_client.py).
# shellcheck shell=sh disable=SC2154
command -v python3 >/dev/null || skip 'needs python3'

# world WORKERS...: a node for each number; pmi_client.py's argument is $argument. All
# end well, with $size, $mapping and $round.
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
        ends_with 0 "$n" 30
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
