#!/bin/sh
# Machines that have IPv6 only, and an endpoint without a port: do they meet,
# and can all connect to MASTER_ADDR:MASTER_PORT?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

[ -n "$(cat /proc/net/if_inet6 2>/dev/null)" ] || skip 'no IPv6 here'
command -v python3 >/dev/null || skip 'needs python3'
network host other
printf '%s\n' '::1 localhost' 'fd77::1 host' 'fd77::2 other' >hosts
number=0
for machine in host other; do
    number=$((number + 1))
    ip -n "dpe$$-$machine" address flush dev eth0 scope global
    ip -n "dpe$$-$machine" address add "fd77::$number/64" dev eth0 nodad ||
        skip 'no IPv6 here'
done
for endpoint in host '[fd77::1]:29500' 'host:29600'; do
    : >started
    for machine in other host; do
        node_on $machine $machine --nnodes=2 --nproc_per_node=2 \
            --rdzv_endpoint="$endpoint" "$WORKER" become sh -c '
            exec python3 "$0" "$MASTER_ADDR" "$MASTER_PORT" "$RANK"' \
            "$E2E_LIB/tcpstore.py"
    done
    all_end 0 host other
        lines 2 'store ok' host.out
    lines 2 'store ok' other.out
    case $(values master 1) in
    fd77::[12]:*\ ) ;;
    *) fail "MASTER_ADDR and MASTER_PORT are $(values master 1)" ;;
    esac
done
