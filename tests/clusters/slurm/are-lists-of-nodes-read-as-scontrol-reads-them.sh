#!/bin/sh
# Ten thousand random lists of nodes: are they the same hosts in the same order
# as for scontrol?
. "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"

command -v hostlist >/dev/null || fail "make e2e-programs builds what is compared"
awk -v seed="${SEED:-1}" '
    function below(n) { return int(rand() * n) }
    function range(   first, width) {
        first = below(4) == 0 ? below(3) : below(120)
        width = below(3) == 0 ? 1 + below(5) : 1
        if (below(2))
            return sprintf("%0" width "d", first)
        return sprintf("%0" width "d-%0" width "d", first, first + below(12))
    }
    function brackets(   text, n) {
        text = range()
        for (n = below(3); n > 0; n--)
            text = text "," range()
        return "[" text "]"
    }
    function name(   text, n) {
        text = substr("nodegpurack", 1 + below(6), 1 + below(4))
        for (n = below(3); n > 0; n--)
            text = text brackets() (n > 1 ? substr("-ibx", 1 + below(3), 1) : "")
        return text
    }
    BEGIN {
        srand(seed)
        print "seed " seed >"seed"
        for (i = 0; i < 200; i++) {
            list = name()
            for (j = 1; j < 50; j++)
                list = list "," name()
            print list
        }
    }' >lists
cat seed
while read -r list; do
    hostlist "$list" >ours || fail "$(cat seed): we do not read $list"
    scontrol show hostnames "$list" >theirs || fail "scontrol: $list"
    cmp -s ours theirs || fail "$(cat seed): $(diff ours theirs | head -n 5) in $list"
    cat ours >>all
done <lists
echo "measured: $(wc -l <lists) lists of 50, $(wc -l <all) hosts"
