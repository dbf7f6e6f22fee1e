#!/bin/sh
# limit: 60
# An interface with a smaller MTU than the others; then a switch's port that
# silently drops large packets: is the node named each time?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

network na nb nc

ip -n dpe$$-nb link set eth0 mtu 1400
preflight 83
lines 1 PROBLEM all.out
has 'MTU: not the same on all nodes: 1500 on na, nc; 1400 on nb' line

ip -n dpe$$-nb link set eth0 mtu 1500
# Packets are as long as on a cable only where nothing is put together.
for machine in na nb nc; do
    ip -n dpe$$-$machine link set eth0 gso_max_segs 1 || skip 'needs gso_max_segs'
done
ip netns exec dpe$$-sw nft 'add table netdev cut; add chain netdev cut nb {
    type filter hook ingress device "to-na" priority 0; };
    add rule netdev cut nb ip daddr 10.77.0.2 ip length > 1000 drop;
    add chain netdev cut nc {
    type filter hook ingress device "to-nc" priority 0; };
    add rule netdev cut nc ip daddr 10.77.0.2 ip length > 1000 drop' ||
    skip 'needs nft with netdev'
preflight 83
has 'node nb: large packets to it are lost: small packets to 10.77.0.2 arrive' \
    line
has 'those of the MTU of 1500 bytes do not, from na, nc' line
lines 1 PROBLEM all.out
nothing_left
