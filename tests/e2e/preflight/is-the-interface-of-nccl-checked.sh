#!/bin/sh
# limit: 60
# Machines with a second network, which NCCL_SOCKET_IFNAME names and a firewall
# closes: is it tried beside the first one, is the node named, and one on
# which the variable leads nowhere?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v nft >/dev/null || skip 'needs nft'
network na nb nc
ip -n dpe$$-sw link add br1 type bridge && ip -n dpe$$-sw link set br1 up
number=0
for machine in na nb nc; do
    number=$((number + 1))
    ip -n dpe$$-$machine link add fast0 type veth peer name "fast-$machine" \
        netns dpe$$-sw &&
        ip -n dpe$$-sw link set "fast-$machine" master br1 up &&
        ip -n dpe$$-$machine address add 10.78.0.$number/24 dev fast0 &&
        ip -n dpe$$-$machine link set fast0 up || fail "no second network"
done

export NCCL_SOCKET_IFNAME=fast
preflight 0
has '3 nodes, 12 of 12 links good' all.out
has ' 10.78.0.3  *fast0  *1500' all.out

ip netns exec dpe$$-nb nft 'add table inet wall; add chain inet wall in {
    type filter hook input priority 0; };
    add rule inet wall in ip daddr 10.78.0.2 tcp flags & (syn|ack) == syn drop'
ip -n dpe$$-nc link set fast0 name slow0 2>/dev/null ||
    { ip -n dpe$$-nc link set fast0 down &&
        ip -n dpe$$-nc link set fast0 name slow0 &&
        ip -n dpe$$-nc link set slow0 up; }
preflight 83
has 'node nc: NCCL_SOCKET_IFNAME=fast: no interface of that name is up' line
has 'node nb: no node can connect to it (by NCCL_SOCKET_IFNAME): TCP to 10.78.0.2 port [0-9]*: timed out, from' line
nothing_left
