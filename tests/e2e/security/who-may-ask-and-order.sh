#!/bin/sh
# With a token: who has none, or another one, sees nothing and orders nothing,
# and is told so in a sentence with the word token; who has it does both through
# TLS. Without one: orders about a run come from the daemon's own host and from
# hosts of its members, a spare's is not enough; or as --orders says.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

umask 077
for file in token other; do
    make_token $file
done
cp token open && chmod 644 open
port=$(free_port)
background d "$DDPRDZVD" --listen="127.0.0.1:$port" --token_file=token
wait_for 'serving on port' d.err
node a --nnodes=1 --rdzv_id=one --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_token_file=token "$WORKER" gate
wait_round 1 1
began=$(now_ms)
for order in top 'drain --force x' 'end one'; do
    # shellcheck disable=SC2086 # words
    {
        ctl 78 "127.0.0.1:$port" $order
        has 'needs a token: give the same file.*--token_file' ctl.out
        ctl 78 "127.0.0.1:$port" --token_file=other $order
        has 'the token differs from that of the rendezvous' ctl.out
    }
done
in_time 4000 "$(took)" 'six refusals'
ctl 78 "127.0.0.1:$port" --token_file=open top --once
has 'chmod 600' ctl.out
ctl 66 "127.0.0.1:$port" --token_file=absent top --once
lines 1 '^round=' started
ctl 0 "127.0.0.1:$port" --token_file=token top --once
has '^  one  *active  *1  1 of 1 ' ctl.out
export DDPRUN_TOKEN_FILE=token
ctl 0 "127.0.0.1:$port" status --json
has '"token":true' ctl.out
ctl 0 "127.0.0.1:$port" end one
ends_with 84 a
# A token, and a daemon that has none: no fall-back to plain text.
port=$(free_port)
background e env -u DDPRUN_TOKEN_FILE "$DDPRDZVD" \
    --listen="127.0.0.1:$port" --orders=none
wait_for 'serving on port' e.err
ctl 78 "127.0.0.1:$port" top --once
has 'this rendezvous has no token: leave out' ctl.out
ctl 78 "127.0.0.1:$port" end one
has 'has no token' ctl.out
unset DDPRUN_TOKEN_FILE
ctl 0 "127.0.0.1:$port" top --once
ctl 78 "127.0.0.1:$port" end one
has 'takes no orders (--orders=none)' ctl.out

# From other machines, without a token.
# from MACHINE STATUS WORD...: ddpctl there.
from()
{
    _machine=$1 _want=$2 _got=0
    shift 2
    (in_machine "$_machine" "$DDPCTL" --endpoint=head "$@") >far.out 2>&1 9<&- ||
        _got=$?
    [ "$_got" -eq "$_want" ] || cat far.out
    same "$_want" "$_got" "the status of an order from $_machine"
}

network head member second far
for orders in default any local; do
    how=--orders=$orders
    [ $orders != default ] || how=
    # shellcheck disable=SC2086 # a word, or none
    daemon_on head g 29400 $how
    from far 0 top
    has '^head:29400: .*; 0 runs' far.out
    : >started
    for host in member second; do
        node_on $host on_$host --nnodes=2 --rdzv_id=$orders \
            --rdzv_endpoint=head:29400 "$WORKER" gate
    done
    eventually 20 has_lines 2 '^round=' started || fail 'no round'
    node_on far spare --nnodes=2 --rdzv_id=$orders --rdzv_endpoint=head:29400 \
        "$WORKER" gate
    wait_for 'spare' spare.err
    case $orders in
    default)
        for order in "end $orders" 'drain --force member'; do
            # shellcheck disable=SC2086 # words
            from far 78 $order
            has 'from the hosts of its round and from the rendezvous' far.out
        done
        from member 0 end $orders
        ;;
    any) from far 0 end $orders ;;
    local)
        from member 78 end $orders
        has "takes orders from its own host only" far.out
        from head 0 end $orders # not over loopback
        ;;
    esac
    all_end 84 on_member on_second spare
    kill -TERM $pid_g
    ends_with 0 g
done
