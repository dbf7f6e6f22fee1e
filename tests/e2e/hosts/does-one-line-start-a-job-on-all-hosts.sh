#!/bin/sh
# One line on one machine, with a file of hosts or a list: does it start the job on
# all of them, in this folder and with the variables that were asked for, and end
# with its status? Is a wrong file told with its line, and nothing started?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/hosts.sh"

network a b c
make_into
cat >list <<'LIST'
# the machines of this test
a slots=2
b:1
c
c
LIST
export ASKED=yes
front --hostfile=list --export=ASKED sh -c \
    'echo "asked $ASKED in $(pwd) mine ${UNASKED-none}"; exec "$0" exit 0' \
    "$WORKER"
ends_with 0 front 30
on_machine 2 a
on_machine 1 b
on_machine 2 c
lines 5 'world=5 ' started
lines 5 'master=10.77.0.1:' started
lines 2 'group=0 .*node=a ' started
lines 2 'group=2 .*node=c ' started
lines 5 "^asked yes in $E2E_DIR mine none" front.out
lines 1 'starting on 3 hosts' front.err
lines 3 . asked
nothing_left

# The status is the failed worker's; a worker that is restarted is no failure.
: >started
front --hosts=a:2,b:1 "$WORKER" always 2 7
ends_with 7 front 30
lines 1 "^ddprun: run '.*' failed" front.err
lines 1 '^ddprun:   first failure   rank 2 on b ' front.err
lines 1 '^ddprun: 1 other launcher reported the same' front.err
lines 2 ' node=a ' started
: >started
front --hosts=a,b,c --max_restarts=1 "$WORKER" once 1 7
wait_round 2 3
open_gate
ends_with 0 front 30
nothing_left

# One host is a job of its own.
: >started
front --hosts=b:3 "$WORKER" exit 0
ends_with 0 front 30
lines 3 'world=3 .*node=b ' started

# What would be done, and nobody is asked.
rm -f asked
front --hosts=a:2,b --dry_run "$WORKER" exit 0
ends_with 0 front
has '^a: .*into a .*/ddprun --front_end_proxy$' front.out
has '^    there: ddprun .*--nproc_per_node=2 .*--node_rank=0 ' front.out
has '^    there: ddprun .*--node_rank=1 ' front.out
[ ! -e asked ] || fail 'a host was asked for a dry run'

# refused WHAT OPTION...: with status 2, and nobody is asked.
refused()
{
    _want=$1
    shift
    rm -f asked
    front "$@" "$WORKER" exit 0
    ends_with 2 front
    has "$_want" front.err
    [ ! -e asked ] || fail "a host was asked for $*"
}

printf 'a slots=2\nb slots=x\n' >wrong
refused "wrong:2: 'x' is no number of slots: must be a whole number" \
    --hostfile=wrong
printf 'a slots=2\n\na slots=2\n' >wrong
refused 'wrong:3: the host a is there twice' --hostfile=wrong
refused 'the host a is there twice' --hosts=a,b,a
refused 'nnodes=4: there are only 3 hosts' --hosts=a,b,c --nnodes=4
refused 'must be a whole number' --hosts=a,b --max_restarts=x
