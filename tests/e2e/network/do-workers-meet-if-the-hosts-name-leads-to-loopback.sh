#!/bin/sh
# The head node's own name leads to 127.0.1.1 there, as Debian sets it up, and to
# its address on the other node: do the workers of both nodes reach each other,
# and can an interface or an address be chosen instead?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

[ -x "$E2E_BIN/ddptrain" ] || skip 'ddptrain is not built'
network host other
printf '127.0.0.1 localhost\n127.0.1.1 host\n10.77.0.2 other\n' >hosts.host

# meet NAME [VARIABLE=value]: of the head node; an epoch on both nodes.
meet()
{
    name=$1
    shift
    for rank in 0 1; do
        node_on $([ $rank = 0 ] && echo host || echo other) "$name$rank" \
            --nnodes=2 --node_rank=$rank --rdzv_backend=static \
            --master_addr=host --master_port=29500 --max_restarts=0 \
            env "$@" "$E2E_BIN/ddptrain" 1 0 --model=linear --batch_size=100
    done
    ends_with 0 "${name}0" 30
    ends_with 0 "${name}1" 30
    grep -q '^parameters identical on all 2 ranks' "${name}0.out" ||
        fail "$name: rank 0 does not say that they met"
}

meet plain A=1
meet address DDP_LOCAL_ADDR=
meet interface DDP_SOCKET_IFNAME=eth0
nothing_left
