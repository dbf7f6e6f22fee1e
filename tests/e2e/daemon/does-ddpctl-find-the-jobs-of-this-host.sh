#!/bin/sh
# A job on one node serves its rendezvous at any free port: does ddpctl without
# --endpoint find it; show two such jobs and ask which one is meant before it gives
# an order; and say so if there is none? A daemon at the default port is asked first
# if anything runs there. An endpoint that is given as a run's name is told.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# Nobody else's servers are in there.
need_namespace_root 'for a network and a /dev/shm of its own'
[ "${INSIDE:-}" ] || INSIDE=1 exec unshare --net --mount sh "$0"
ip link set lo up
mount -t tmpfs tmpfs /dev/shm || fail 'no /dev/shm'

# ask STATUS WORD...: ddpctl without an endpoint; what it says is in ctl.out.
ask()
{
    _want=$1
    shift
    STATUS=0
    "$DDPCTL" "$@" >ctl.out 2>&1 || STATUS=$?
    same "$_want" "$STATUS" "the status of ddpctl $*"
}

for verb in 'status --json' top 'top --once' 'end x'; do
    # shellcheck disable=SC2086 # a verb and its word
    ask 69 $verb
    has 'no rendezvous at localhost:29400, and no job of yours is on this host: give --endpoint' ctl.out
    lines 1 . ctl.out
done

for verb in top end; do
    ask 69 $verb head:29500
    has "^ddpctl: 'head:29500' was read as the name of a run: did you mean ddpctl --endpoint=head:29500 $verb" ctl.out
done

background one "$DDPRUN" --rdzv_id=first sh -c 'echo >there.1; exec sleep 60'
eventually 30 test -e there.1
ask 0 top --once
has '^  first  *active' ctl.out
ask 0 --json status first
has '"id":"first"' ctl.out
ask 2 top '[::1]:29400'
has 'there is no run .*::1' ctl.out
has 'did you mean ddpctl --endpoint=\[::1\]:29400 top' ctl.out
ask 2 top head:x
has_not 'did you mean' ctl.out
ask 69 --endpoint=localhost:29400 top head:29500
has_not 'did you mean' ctl.out

background two "$DDPRUN" --rdzv_id=second sh -c 'echo >there.2; exec sleep 60'
eventually 30 test -e there.2
ask 0 top --once
has '^  first  *active' ctl.out
has '^  second  *active' ctl.out
lines 2 '^localhost:[0-9]*: launcher\|^localhost:[0-9]*: rendezvous' ctl.out
ask 2 end first
has 'jobs of yours on this host have 2 rendezvous servers' ctl.out

daemon it 29400
ask 0 top --once # nothing runs there
has '^  first  *active' ctl.out
background three "$DDPRUN" --rdzv_id=third --rdzv_endpoint=localhost:29400 \
    sh -c 'echo >there.3; exec sleep 60'
eventually 30 test -e there.3
ask 0 top --once
has '^  third  *active' ctl.out
lines 1 '^localhost:[0-9]*: rendezvous' ctl.out
