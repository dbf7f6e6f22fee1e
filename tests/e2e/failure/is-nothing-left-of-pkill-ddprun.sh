#!/bin/sh
# pkill -9 ddprun, of an ordinary user, without a cgroup: whatever the program is
# (below a shell, with children in sessions of their own, without an environment),
# and whenever it comes (all runs, while workers start, while they restart), nothing
# of the launch runs two seconds later. Nor after guard and agent were killed by their
# numbers, in either order; and of the three, guard, agent and janitor, one is
# enough.
# limit: 240
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

TURNS=${TURNS:-15}
as_user=
if [ "$(id -u)" -eq 0 ]; then
    command -v setpriv >/dev/null || skip 'needs setpriv'
    as_user='setpriv --reuid=54321 --regid=54321 --clear-groups'
    chmod 711 "$E2E_WORK" && chmod 777 "$E2E_DIR" && chmod 666 started
    cp "$WORKER" worker # which may be in a folder of root's alone
    WORKER=$E2E_DIR/worker
fi
export TMPDIR="$E2E_DIR"
ours=3$$ # seconds: so the program's processes are known without their environment

cat >job.sh <<'JOB'
#!/bin/sh
"$@" &
env -i setsid -f sleep "$SECONDS_OF_OURS"
(env -i setsid -f setsid -f sleep "$SECONDS_OF_OURS" &)
sh -c 'sleep "$1" & wait' sh "$SECONDS_OF_OURS" &
: "$(sleep "$SECONDS_OF_OURS")"
JOB
# As above, and its first two workers' rank 0 fails a moment later.
cat >again.sh <<'AGAIN'
#!/bin/sh
[ "$DDP_ROUND" -gt 20 ] || [ "$RANK" -ne 0 ] || { sleep 0.1; exit 1; }
exec ./job.sh "$@"
AGAIN
# It uses the store, so that there is one.
cat >store.sh <<'STORE'
#!/bin/bash
exec 3<>"/dev/tcp/127.0.0.1/$MASTER_PORT" && exec ./job.sh "$@"
STORE
chmod +x job.sh again.sh store.sh
export SECONDS_OF_OURS=$ours

# ours: the pids of all that the turn has started and that lives.
ours()
{
    marked it
    grep -lsz "^$ours\$" /proc/[0-9]*/cmdline | sed 's,^/proc/\([0-9]*\)/.*,\1,'
}

none_of_ours()
{
    [ -z "$(ours)" ]
}

# named: those that pkill ddprun finds among them, the oldest first.
named()
{
    for _pid in $(ours | sort -nu); do
        { read -r _comm <"/proc/$_pid/comm"; } 2>/dev/null || continue
        case $_comm in *ddprun*) echo "$_pid" ;; esac
    done
}

# shows WORD: those whose command line has it, as pkill -f finds them.
shows()
{
    for _pid in $(ours | sort -nu); do
        ! tr '\0' ' ' <"/proc/$_pid/cmdline" 2>/dev/null | grep -q "$1" ||
            echo "$_pid"
    done
}

# shellcheck disable=SC2046,SC2086 # pids
kill_by()
{
    guard=$(pid_of it)
    agent=$( (agent_of it) 2>/dev/null) # none as yet, at the start
    case $1 in
    name) kill -KILL $(named) ;;
    name-backwards) kill -KILL $(named | sort -nr) ;;
    program) kill -KILL $(shows '\./job.sh\|\./again.sh\|\./store.sh') ;;
    guard-first) kill -KILL "$guard" $agent ;;
    agent-first) kill -KILL $agent "$guard" ;;
    guard-and-janitor) kill -KILL "$guard" "$(first_child "$guard")" ;;
    janitor-and-agent) kill -KILL "$(first_child "$guard")" "$agent" ;;
    esac 2>/dev/null
}

# start WORKERS PROGRAM [OPTION...]
start()
{
    _workers=$1 _program=$2
    shift 2
    : >started
    # shellcheck disable=SC2086 # words
    background it $as_user "$DDPRUN" --cgroup=none --nproc_per_node="$_workers" \
        "$@" "./$_program" "$WORKER" family
}

# check WHAT
check()
{
    began=$(now_ms)
    eventually 2 none_of_ours || {
        for _pid in $(ours); do
            echo "left: $_pid $(tr '\0' ' ' <"/proc/$_pid/cmdline")"
        done
        kill -KILL $(ours) # shellcheck disable=SC2046
        fail "$1: processes are left"
    }
    _took=$(took)
    [ "$_took" -le "$longest" ] || longest=$_took
    end_of it
}

longest=0 turn=0
while [ "$turn" -lt "$TURNS" ]; do
    case $((turn % 5)) in
    0) by=name ;;
    1) by=agent-first ;;
    2) by=program ;;
    3) by=guard-first ;;
    4) by=name-backwards ;;
    esac
    workers=$((turn % 2 * 3 + 1))
    case $((turn % 3)) in
    0)
        when='while it runs'
        port=$(free_port)
        start $workers store.sh --nnodes=1:2 --rdzv_conf=last_call_timeout=0 \
            --rdzv_endpoint="127.0.0.1:$port" --master_addr=127.0.0.1
        wait_round 1 $workers
        ;;
    1)
        when='at the start'
        start $workers job.sh
        [ $((turn % 4)) -eq 1 ] || wait_lines 1 '^round=1 ' started
        sleep "0.0$((turn * 7 % 10))"
        ;;
    2)
        when='in a restart'
        start $workers again.sh --max_restarts=100 --failure_grace=0.1
        wait_for 'restarting\|round 2\|restart' it.err
        sleep "0.0$((turn * 7 % 10))"
        ;;
    esac
    kill_by $by
    check "turn $turn, $workers workers, killed by $by $when"
    turn=$((turn + 1))
done
for by in guard-and-janitor janitor-and-agent; do
    start 2 job.sh
    wait_round 1 2
    kill_by $by
    check "killed: $by"
done
measured "$turn launches killed, all of the last one's processes gone after" \
    "$longest ms at most"
