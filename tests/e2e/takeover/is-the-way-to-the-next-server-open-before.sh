#!/bin/sh
# Three nodes with a token, and the one that serves the rendezvous is killed. Has
# one of the others proved before, to the one that serves then, that it has the
# token, and does it go on over that connection? Without a token a new one costs
# next to nothing: is there none before?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

need_tools python3 ss
# The two ends of connections between b and c, as who dialled sees them; the
# other one listens on IPv6 as well, and has them so.
between()
{
    for _host in b c; do
        (in_machine $_host ss -Htn state established) >ss.$_host
    done
    cat ss.b ss.c | awk '$3 ~ /^10[.]77[.]0[.][23]:/ &&
        $4 ~ /^10[.]77[.]0[.][23]:/ { print $3 " " $4 }'
}
is_one() { [ "$(between | wc -l)" = 1 ]; }

careful_worker
make_token token
network a b c
for how in token none; do
    : >started
    for name in a b c; do
        # shellcheck disable=SC2046 # words
        node_on $name $name --rdzv_id=$how --nnodes=2:3 --max_restarts=1 \
            --rdzv_endpoint=a:29500 --rdzv_conf=heartbeat_timeout=2 \
            $([ $how = none ] || echo --rdzv_token_file=token) ./careful
    done
    wait_world 3
    case $how in
    token)
        eventually 5 is_one || fail "between b and c: $(between)"
        before=$(between)
        ;;
    none) same '' "$(between)" 'without a token: between b and c' ;;
    esac
    kill_node a
    wait_world 2 1
    if [ $how = token ]; then
        # It is there still, and leads to where the run is served now.
        between >after
        has "^$before\$" after
        has "served at ${before#* } " b.err
        has "served at ${before#* } " c.err
    fi
    none_overlap
    open_gate
    for name in b c; do ends_with 0 $name; done
    end_of a
    close_gate
    for name in a b c; do nothing_left $name; done
done
