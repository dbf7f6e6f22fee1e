#!/bin/sh
# limit: 90
# Firewalls: one that lets nothing in from one other node, one that lets in
# nothing but the rendezvous, one that rejects. Is the pair, or the node, named
# with address and port, and is the status everywhere 83?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v nft >/dev/null || skip 'needs nft'
network na nb nc
new='tcp flags & (syn|ack) == syn' # a connection's first packet
# wall MACHINE RULE...: what comes in there and the rule matches.
wall()
{
    _at=dpe$$-$1
    shift
    ip netns exec "$_at" nft "add table inet wall; add chain inet wall in" \
        "{ type filter hook input priority 0; }; add rule inet wall in $*"
}
no_wall()
{
    ip netns exec "dpe$$-$1" nft delete table inet wall
}

# One pair, one direction: the other links are good.
wall nc "ip saddr 10.77.0.2 $new drop"
preflight 83
has 'nb -> nc: cannot connect: TCP to 10.77.0.3 port [0-9]*: timed out' line
has 'check the firewall' line
lines 1 PROBLEM all.out
lines 1 '3 nodes, 5 of 6 links good' all.out
lines 3 'na reports: 1 problem: nb -> nc' all.err
no_wall nc

# A node that nobody reaches, though it reaches all; rejected this time.
wall nc "$new reject with tcp reset"
preflight 83
has 'node nc: no node can connect to it: TCP to 10.77.0.3 port [0-9]*: refused' line
has 'from na, nb' line
lines 1 PROBLEM all.out
no_wall nc

# Only the rendezvous may be reached on the node of the store: one of the
# others cannot come there, and says so by name on every node.
wall na "ip saddr 10.77.0.3 tcp dport != 29500 $new drop"
preflight 83
has 'node 2 (by rank) reached the rendezvous, but not the store at MASTER_ADDR 10.77.0.1' line
has 'nc cannot reach the workers. store at MASTER_ADDR 10.77.0.1' nc.err
lines 3 'nc reports: nc cannot reach the workers. store' all.err
# The two others reach each other.
has '2 nodes, 2 of 2 links good' all.out
no_wall na

# Not even rank 0 reaches its own store: nobody waits for it.
wall na "tcp dport != 29500 $new drop"
preflight 83
lines 3 'na reports: na cannot reach the workers. store' all.err
nothing_left
