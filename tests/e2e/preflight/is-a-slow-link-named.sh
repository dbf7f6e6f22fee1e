#!/bin/sh
# limit: 60
# One node's cable carries 40 Mbit/s, one hundredth of the others: is that node
# named, in the direction that is slow?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v tc >/dev/null || skip 'needs tc'
network na nb nc
ip netns exec dpe$$-nc tc qdisc add dev eth0 root tbf rate 40mbit \
    burst 32kbit latency 50ms 2>tc.err || skip 'the kernel has no tbf'
preflight 83
has 'node nc: all that comes from it is slow: for one, [34][0-9] Mbit/s' line
has 'to na, nb\|to nb, na' line
measured "$(grep -c . all.out) lines: $(sed -n 's/^  2  nc .*us .*/&/p' all.out)"
nothing_left
