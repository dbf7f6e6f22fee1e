#!/bin/sh
# A system call fails, once, in the guard, the agent, the server, the workers'
# store, the process that carries output, or a worker before its execve: does
# the launch still end in time, with nothing left behind, and either with all
# its work done or with a status of errors.def and a reason that is true?
# Each call of a launch that restarts once has its turn, by tests/lib/fault.c.
# FAULTS=all takes every errno and the first 6 of each call (tests/ci/slices
# faults); else the first one of each call, with one errno, has to do.
# limit: 240
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

LIMIT_S=$((45 * ${E2E_SLOW:-1}))
command -v bash >/dev/null || skip 'needs bash, for a worker'
FAULT_LIB=$E2E_BIN/libfault.so
[ -e "$FAULT_LIB" ] || fail "no $FAULT_LIB: make e2e-programs"
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0"

# In the first attempt rank 1 fails; after that each talks to the store, over
# which an ADD of 1 gives a number, and is done.
cat >job <<'JOB'
#!/bin/bash
echo "out $RANK"
echo "err $RANK" >&2
if [ "$TORCHELASTIC_RESTART_COUNT" = 0 ]; then
    [ "$RANK" = 0 ] || exit 3
    exec sleep 30
fi
exec 3<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT" || exit 4
printf '\003\001\0\0\0\0\0\0\0k\001\0\0\0\0\0\0\0' >&3
[ "$(timeout 30 head -c 8 <&3 | wc -c)" = 8 ] || exit 5
echo "$TORCHELASTIC_RESTART_COUNT $RANK" >>"$E2E_DIR/finished"
JOB
chmod +x job

# launch_with PLAN: its status comes into STATUS.
launch_with()
{
    rm -rf log finished fault.log events report.json
    STATUS=0
    timeout -s KILL "$LIMIT_S" env "E2E_MARK=$E2E_DIR:it" \
        LD_PRELOAD="$FAULT_LIB" DDPRUN_FAULT="$1" \
        DDPRUN_FAULT_LOG="$E2E_DIR/fault.log" "$DDPRUN" --nproc_per_node=2 \
        --max_restarts=3 --shutdown_timeout=2 -r 3 -t 3 --log_dir=log \
        --events=events --report=report.json ./job \
        >it.out 2>it.err 9<&- </dev/null || STATUS=$?
}

# plans: of what the count of a launch has found.
plans()
{
    awk -v all="${FAULTS:-}" '
        NF == 4 && $1 !~ /^helper[4-9]/ {
            key = $1 ":" $2
            if (!(key in most)) keys[++n] = key
            if ($3 > most[key]) most[key] = $3
            errors[key] = $4
        }
        END {
            for (i = 1; i <= n; i++) {
                count = split(errors[keys[i]], error, ",")
                if (all == "") count = 1
                last = all == "" ? 1 : most[keys[i]] < 6 ? most[keys[i]] : 6
                for (k = 1; k <= last; k++)
                    for (e = 1; e <= count; e++)
                        print keys[i] ":" k ":" error[e]
            }
        }' counted
}

# What may end the launch: CALL (a pattern), STATUS, and the reason that it gives
# on stderr. All others have to be survived. A launcher that cannot begin says
# why; libuv gives up where the kernel refuses its loop memory or descriptors, or
# says EIO of an eventfd, which no kernel does.
table()
{
    cat <<'TABLE'
guard:access:*        126 not executable
guard:stat:EACCES     126 ./job: Permission denied
guard:open:*           78 --\(report=report.json\|events=events\) cannot be written: .
guard:fork:*           71 cannot start the agent: .
janitor:fork:*         71 cannot start the agent: .
guard:mmap:*           71 cannot share memory with the agent: .
guard:socketpair:*     71 cannot make a socket for the agent: .
guard:signalfd:*       71 cannot make a signalfd .*: .
agent:epoll_create1:*  71 cannot \(start an event loop\|watch the workers: .\)
agent:eventfd:*        71 cannot start an event loop
agent:pipe2:*          71 cannot \(start an event loop\|watch the workers: .\|make a pipe for the workers: .\)
agent:pipe2:*          71 the kernel refuses the event loop what it needs: .
agent:write:*          71 the kernel refuses the event loop what it needs: .
agent:write:EIO        70 was killed by signal 6 (SIGABRT), which is a bug
agent:epoll_ctl:*      71 the kernel refuses the event loop what it needs: .
agent:epoll_ctl:*      71 cannot watch the workers: .
agent:ioctl:*          71 cannot watch the workers.*: .
agent:ioctl:*          71 cannot watch the port of the workers' store: .
agent:socket:*         71 cannot serve the rendezvous on this node: cannot make a socket.*: .
agent:bind:*           78 cannot listen on .* port 0: .
agent:listen:*         78 cannot listen on .* port 0: .
agent:getsockname:*    71 the workers' store: cannot find its port: .
agent:mkdir:*          78 --log_dir=log: cannot make the folder .*: .
child:pipe2:*          71 the kernel refuses the event loop what it needs: .
child:write:*          71 the kernel refuses the event loop what it needs: .
helper2:fcntl:*        71 a helper process cannot keep its descriptors .*: .
helper2:dup2:*         71 a helper process cannot keep its descriptors .*: .
helper2:epoll_create1:* 71 cannot start the rendezvous server: no event loop
helper2:pipe2:*        71 cannot start the rendezvous server: no event loop
helper2:eventfd:*      71 cannot start the rendezvous server: no event loop
helper2:listen:*       74 cannot listen for connections: .
helper2:epoll_ctl:*    74 cannot listen for connections: .
helper2:ioctl:*        74 cannot listen for connections: .
worker:execve:EACCES  126 cannot execute ./job: Permission denied
worker:execve:ENOENT  127 cannot execute ./job: No such file
TABLE
}

# may_end: whether it may, with that status, and says so.
may_end()
{
    _fault=${plan%:*:*}:${plan##*:}
    while read -r _calls _status _reason; do
        # shellcheck disable=SC2254 # a pattern it is
        case $_fault in
        $_calls)
            [ "$_status" -eq "$STATUS" ] && grep -q -- "$_reason" it.err &&
                return 0
            ;;
        esac
    done <may_end
    return 1
}

bad=0 struck=0 ended=0
wrong()
{
    bad=$((bad + 1))
    echo "--- $plan: $* (status $STATUS)"
    sed 's/^/  | /' it.err | tail -n 12
}

# judge: a launch that had a failed call.
judge()
{
    eventually 10 none_marked || {
        for _pid in $(marked); do
            echo "left: $_pid $(tr '\0' ' ' <"/proc/$_pid/cmdline")"
            kill -KILL "$_pid"
        done
        wrong 'processes are left'
    }
    case $STATUS in
    0)
        [ "$(sort finished | tail -n 2 | tr '\n' ' ')" = \
            "$(tail -n 1 finished | sed 's/ .*//; s/.*/& 0 & 1 /')" ] ||
            wrong 'the workers have not done their work'
        ;;
    137) wrong "did not end in $LIMIT_S s, or was killed" ;;
    *)
        ended=$((ended + 1))
        may_end || wrong 'should not end like this'
        ;;
    esac
}

table >may_end
launch_with count
same 0 "$STATUS" 'status of a launch without faults'
mv fault.log counted
plans >planned
# shellcheck disable=SC2034 # for took
began=$(now_ms)
while read -r plan; do
    launch_with "$plan"
    [ -s fault.log ] || { echo "not struck: $plan" && continue; }
    struck=$((struck + 1))
    judge
done <planned
measured "$struck of $(wc -l <planned) faults struck, $ended ended the launch," \
    "$(took) ms"
[ $bad -eq 0 ] || fail "$bad faults were not survived as they should be"
[ $((struck * 10)) -ge $(($(wc -l <planned) * 9)) ] ||
    fail "only $struck of $(wc -l <planned) planned faults have struck"
