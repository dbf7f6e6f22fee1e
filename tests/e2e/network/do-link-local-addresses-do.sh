#!/bin/sh
# Two machines that have link-local IPv6 addresses only, at interfaces with
# different names: what one calls fe80::1%eth0 is fe80::1%lan0 to the other. Do
# their workers get a MASTER_ADDR that each of them can reach, and may they use the
# store there that only nodes of the job may use?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

[ -n "$(cat /proc/net/if_inet6 2>/dev/null)" ] || skip 'no IPv6 here'
command -v python3 >/dev/null || skip 'needs python3'
network host other
ip -n "dpe$$-other" link set eth0 down &&
    ip -n "dpe$$-other" link set eth0 name lan0 &&
    ip -n "dpe$$-other" link set lan0 up || fail 'no other name'
number=0
for machine in host other; do
    number=$((number + 1))
    [ $machine = host ] && card=eth0 || card=lan0
    ip -n "dpe$$-$machine" address flush dev $card
    ip -n "dpe$$-$machine" address add "fe80::$number/64" dev $card \
        scope link nodad || skip 'no IPv6 here'
done
for machine in other host; do
    [ $machine = host ] && card=eth0 || card=lan0
    node_on $machine $machine --nnodes=2 --nproc_per_node=2 \
        --worker_store_allow=nodes \
        --rdzv_endpoint="[fe80::1%$card]:29500" "$WORKER" become sh -c '
        exec python3 "$0" "${MASTER_ADDR}" "$MASTER_PORT" "$RANK"' \
        "$E2E_LIB/tcpstore.py"
done
all_end 0 host other
lines 2 'store ok' host.out
lines 2 'store ok' other.out
lines 2 'master=fe80::[12]%eth0:.*' started
lines 2 'master=fe80::[12]%lan0:.*' started
