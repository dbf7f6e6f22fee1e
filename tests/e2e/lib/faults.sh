# Faults as verbs; comes after lib.sh. Those on machines (of `network`) undo
# themselves by `mend MACHINE`, and all end with the scenario.
# shellcheck shell=sh disable=SC2034,SC2154

# -- processes ----------------------------------------------------------------

# kill_worker RANK ROUND [SIGNAL]
kill_worker()
{
    kill "-${3:-KILL}" "$(worker_of "$1" "$2")"
}

# kill_agent NAME, kill_guard NAME, kill_both NAME: parts of a launcher.
kill_agent()
{
    kill -KILL "$(agent_of "$1")"
}

kill_guard()
{
    kill -KILL "$(pid_of "$1")"
}

kill_both()
{
    kill -KILL "$(pid_of "$1")" "$(agent_of "$1")"
}

# kill_node NAME: all that runs of it, at once, as a power cut does: its launcher
# sees no worker die before it, however long kill(1) is kept waiting.
kill_node()
{
    _all=$(marked "$1")
    # shellcheck disable=SC2086 # pids
    kill -STOP $_all 2>/dev/null
    # shellcheck disable=SC2086 # pids
    kill -KILL $_all 2>/dev/null
}

# freeze NAME, thaw NAME: all processes of a node or daemon.
freeze()
{
    # shellcheck disable=SC2046 # pids
    kill -STOP $(marked "$1")
}

thaw()
{
    # shellcheck disable=SC2046 # pids
    kill -CONT $(marked "$1")
}

# -- the rule that no fault may break -----------------------------------------

# careful_worker: ./careful, a worker that looks at its start whether anybody of
# an older round lives, on any machine, and then waits at the gate. The look takes
# a while where there are many: `begun` has when each of them began it.
careful_worker()
{
    : >overlaps
    : >begun
    cat >careful <<'CAREFUL'
#!/bin/sh
echo "round=$DDP_ROUND at=$(date +%s%3N)" >>"$E2E_DIR/begun"
for file in $(grep -lsz "^E2E_MARK=$E2E_DIR:" /proc/[0-9]*/environ); do
    round=$({ tr '\0' '\n' <"$file"; } 2>/dev/null |
        sed -n 's/^DDP_ROUND=//p')
    [ -n "$round" ] && [ "$round" -lt "$DDP_ROUND" ] || continue
    pid=${file#/proc/}
    pid=${pid%/environ}
    { read -r stat <"/proc/$pid/stat"; } 2>/dev/null || continue
    case ${stat##*) } in
    [ZX]*) ;;
    *) echo "in round $DDP_ROUND there lives of $round: $stat" \
        >>"$E2E_DIR/overlaps" ;;
    esac
done
exec "$E2E_LIB/worker" gate
CAREFUL
    chmod +x careful
}

# began_after ROUND: how many ms from `began` to the last worker's first step.
began_after()
{
    echo $(($(sed -n "s/^round=$1 at=//p" begun | sort -n | tail -n 1) - began))
}

# none_overlap: whether no worker of an older round was seen.
none_overlap()
{
    [ ! -s overlaps ] || {
        cat overlaps
        fail 'rounds overlap'
    }
}

# newest_round: the highest that a worker was started in.
newest_round()
{
    sed -n 's/^round=\([0-9]*\) .*/\1/p' started | sort -n | tail -n 1
}

whole_round()
{
    _newest=$(newest_round)
    [ "${_newest:-0}" -gt "$2" ] &&
        [ "$(grep -c "^round=$_newest .*world=$1 " started)" -ge "$1" ]
}

# wait_world WORKERS [AFTER_ROUND [SECONDS]]: until the newest round, one after
# that round, is of so many workers, all started; it is in ROUND then.
wait_world()
{
    eventually "${3:-30}" whole_round "$1" "${2:-0}" ||
        fail "no world of $1 workers after round ${2:-0}"
    ROUND=$(newest_round)
}

# -- what lies between machines -----------------------------------------------

# need_tools TOOL...: or this scenario is skipped.
need_tools()
{
    for _tool in "$@"; do
        command -v "$_tool" >/dev/null || skip "needs $_tool"
    done
}

nft_on()
{
    _machine=$1
    shift
    ip netns exec "dpe$$-$_machine" nft "$@" || fail "nft $* on $_machine"
}

# fault_rule MACHINE HOOK RULE: for what comes in (input) or goes out (output).
fault_rule()
{
    nft_on "$1" add table inet fault
    nft_on "$1" "add chain inet fault $2 { type filter hook $2 priority 0; }"
    nft_on "$1" "add rule inet fault $2 $3"
}

# deafen MACHINE, mute MACHINE: nothing comes in; nothing goes out.
deafen()
{
    fault_rule "$1" input 'iif != lo drop'
}

mute()
{
    fault_rule "$1" output 'oif != lo drop'
}

# forge MACHINE HOOK MATCH: the first of such packets that comes in (input) or
# goes out (output) is answered by a reset that the other end did not send.
forge()
{
    fault_rule "$1" "$2" "$3 counter reject with tcp reset"
    eventually 30 is_forged "$1" || fail 'nothing was reset'
    mend "$1"
}

is_forged()
{
    ! ip netns exec "dpe$$-$1" nft list table inet fault |
        grep -q 'counter packets 0 '
}

# lose MACHINE PERCENT: so many packets at random, each way.
lose()
{
    for _hook in input output; do
        fault_rule "$1" $_hook \
            "meta l4proto tcp numgen random mod 100 < $2 drop"
    done
}

# open_only MACHINE PORT: a firewall that lets in one TCP port, and answers to
# what the machine asked itself.
open_only()
{
    fault_rule "$1" input \
        "iif != lo tcp dport != $2 tcp flags & (syn|ack) == syn drop"
}

# narrow MACHINE RATE: the bandwidth of its cable, each way: 1mbit.
narrow()
{
    for _end in "dpe$$-$1 eth0" "dpe$$-sw to-$1"; do
        tc -n "${_end% *}" qdisc replace dev "${_end#* }" root tbf \
            rate "$2" burst 16kb latency 200ms || skip 'tc has no tbf here'
    done
}

# mend MACHINE: no more of the above.
mend()
{
    ip netns exec "dpe$$-$1" nft delete table inet fault 2>/dev/null
    for _end in "dpe$$-$1 eth0" "dpe$$-sw to-$1"; do
        tc -n "${_end% *}" qdisc del dev "${_end#* }" root 2>/dev/null
    done
    return 0
}

# partition MACHINE...: these see each other, and none of the rest, until each
# of them is healed (`heal`).
partition()
{
    ip -n dpe$$-sw link show br1 >/dev/null 2>&1 ||
        ip -n dpe$$-sw link add br1 type bridge || fail 'no second bridge'
    ip -n dpe$$-sw link set br1 up
    for _machine in "$@"; do
        ip -n dpe$$-sw link set "to-$_machine" master br1
    done
}

# far MACHINE DELAY_MS JITTER_MS: its cable becomes a line on which each packet
# takes so long, and one with less jitter overtakes (tests/e2e/lib/wire.py). For
# the rest of the scenario.
far()
{
    need_tools python3
    ip -n dpe$$-sw link add "far-$1" type veth peer name "off-$1" &&
        ip -n dpe$$-sw link set "off-$1" master br0 up &&
        ip -n dpe$$-sw link set "far-$1" up || fail "no line to $1"
    cut_off "$1"
    # Left to the cable otherwise: checksums and the cutting of segments.
    for _ns in $NAMESPACES; do
        [ "$_ns" = dpe$$-sw ] ||
            ip netns exec "$_ns" python3 "$E2E_LIB/wire.py" plain eth0 ||
            skip 'offloading cannot be turned off here'
    done
    background "wire_$1" ip netns exec dpe$$-sw \
        python3 "$E2E_LIB/wire.py" carry "to-$1" "far-$1" "$2" "$3"
    wait_for '^carrying' "wire_$1.out"
}

# -- names, clocks, limits ----------------------------------------------------

# names MACHINE [LINE...]: its /etc/hosts from now on, running programs
# included where this was called before they were started.
names()
{
    _hosts=hosts.$1
    shift
    printf '127.0.0.1 localhost\n' >"$_hosts" # the same file, not a new one
    [ $# -eq 0 ] || printf '%s\n' "$@" >>"$_hosts"
}

# no_name_server: machines have /etc/hosts and nothing else.
no_name_server()
{
    : >resolv.conf
    echo 'hosts: files dns' >nsswitch.conf
}

# clock_library: $E2E_DIR/clock.so; who preloads it reads the clocks that the
# file $CLOCKS names, a line "CLOCK SECONDS" each, so many seconds off (0 is
# CLOCK_REALTIME, 7 CLOCK_BOOTTIME, clock_gettime(2)).
clock_library()
{
    need_tools cc
    cat >clock.c <<'C'
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *at)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, at);
    FILE *clocks = fopen(getenv("CLOCKS"), "re");
    int which;
    long by_s;
    while (clocks != NULL && fscanf(clocks, "%d %ld", &which, &by_s) == 2)
        if (which == (int)clock)
            at->tv_sec += by_s;
    if (clocks != NULL)
        (void)fclose(clocks);
    return rc;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at != NULL)
        *at = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
C
    cc -O1 -shared -fPIC -o clock.so clock.c || skip 'cc makes no library'
}

# small_disk FOLDER SIZE: an empty disk of so much room, mounted there.
small_disk()
{
    need_namespace_root 'to mount a small disk'
    mkdir -p "$1"
    mount -t tmpfs -o "size=$2" tmpfs "$1" || skip 'no tmpfs here'
    MOUNTS="$MOUNTS $E2E_DIR/$1"
}
