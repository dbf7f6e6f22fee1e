#!/bin/sh
# Hosts that are started through another host. That one dies, or only the process
# there that carries their output: do the others run on, without a restart, and are
# they still heard and told? Are hosts that cannot be reached so started on from
# here, and one that cannot be reached at all named?
# limit: 90
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/hosts.sh"

network a b c d e
make_into
mv into into-machine
# Branches of a, b; c, d; e. Files say who reaches nobody, and who is not there.
cat >into <<'INTO'
#!/bin/sh
[ ! -e "$E2E_DIR/away.$1" ] || exec sleep 300
if [ -e "$E2E_DIR/keyless" ]; then
    case $(hostname) in
    [a-e]) echo "Permission denied (publickey)." >&2; exit 255 ;;
    esac
fi
exec "$E2E_DIR/into-machine" "$@"
INTO
chmod +x into

# hub_on MACHINE: the pid of what carries output there.
hub_on()
{
    for _pid in $(ip netns pids "dpe$$-$1"); do
        ! tr '\0' ' ' <"/proc/$_pid/cmdline" | grep -q 'front_end_hub' ||
            _hub=$_pid
    done
    echo "${_hub:?there is no hub on $1}"
}

# The process between is killed: nothing else is.
front --hosts=a,b,c,d --launch_fanout=4 sh -c \
    'echo "begin $RANK"; "$0" gate; echo "end $RANK"' "$WORKER"
wait_round 1 4 30
kill -KILL "$(hub_on c)"
wait_lines 1 'the connection through c is lost: connecting to its hosts' front.err
sleep 1
open_gate
ends_with 0 front 30
lines 4 '^round=1 ' started
lines 4 '^end [0-3]$' front.out
nothing_left

# Its host dies: the others of its branch run on in the next round.
close_gate
: >started
front --hosts=a,b,c,d,e --launch_fanout=4 --nnodes=4:5 "$WORKER" gate
wait_round 1 5 30
pid_d=$(sed -n 's/^round=1 .* pid=\([0-9]*\) node=d .*/\1/p' started)
# shellcheck disable=SC2046 # pids
kill -KILL $(ip netns pids dpe$$-c)
wait_round 2 4 30
open_gate
ends_with 0 front 30
lines 4 '^round=2 .*world=4 ' started
has 'the connection to c is lost (into ended with status' front.err
has_not 'to d is lost' front.err
[ -n "$pid_d" ] || fail 'd did not start'
nothing_left

# No host reaches another one: all are started from here.
: >keyless
: >started
front --hosts=a,b,c,d --launch_fanout=4 "$WORKER" exit 0
ends_with 0 front 30
lines 4 'world=4 ' started
lines 1 'was not reached through .* from here' front.err
has_not 'Permission denied' front.err
rm keyless
nothing_left

# The first host of a branch is away: its others are started from here.
: >away.c
: >started
front --hosts=a,b,c,d --launch_fanout=4 --launch_timeout=3 --nnodes=3:4 \
    --rdzv_conf=last_call_timeout=5 "$WORKER" exit 0
ends_with 0 front 30
lines 3 'world=3 ' started
lines 1 ' node=d ' started
has 'cannot start on c: no answer within 3 s' front.err
nothing_left
front --hosts=a,b,c,d --launch_fanout=4 --launch_timeout=3 "$WORKER" hold
ends_with 69 front 30
has 'at most 3 hosts can be reached, and the job needs 4: ending it' front.err
nothing_left
