#!/bin/sh
# SIGTERM to every process that is called ddprun (killall): does the launch end
# as by SIGTERM to the launcher alone, with the workers' grace, and with 143?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
node it --nproc_per_node=2 --nnodes=1:2 --rdzv_conf=last_call_timeout=0 --rdzv_endpoint="127.0.0.1:$port" \
    "$WORKER" report
wait_round 1 2
for pid in $(marked it); do
    [ "$(cat "/proc/$pid/comm")" != ddprun ] || kill -TERM "$pid"
done
ends_with 143 it
lines 2 '^term ' terms
has_not 'was killed' it.err
nothing_left

# interrupt_all: every process called ddprun that there is by now; 1 if there is
# none, since the shell has not got so far as to execute it.
interrupt_all()
{
    _found=1
    for pid in $(marked it); do
        case $(cat "/proc/$pid/comm" 2>/dev/null) in
        ddprun) kill -INT "$pid" && _found=0 ;;
        esac
    done
    return $_found
}

# The same at any moment of the start.
for delay in 0 0.001 0.002 0.003 0.005 0.008 0.012 0.02; do
    node it --nproc_per_node=2 "$WORKER" hold
    sleep $delay
    until interrupt_all; do
        :
    done
    end_of it
    case $STATUS in
    130) ;;
    *) fail "after $delay s: ended with $STATUS" ;;
    esac
    nothing_left
done
