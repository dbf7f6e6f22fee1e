# What the scenarios share; each begins with
#     . "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
# Every process that a scenario starts carries E2E_MARK=FOLDER:NAME in its
# environment, so that whatever is left of it can be found, and nothing else.
# shellcheck shell=sh disable=SC2034,SC2154
set -u

E2E_DIR=$(mktemp -d "$E2E_WORK/s.XXXXXX") || exit 1
export E2E_DIR
DDPRUN=$E2E_BIN/ddprun
DDPRUN_FILE=$DDPRUN # what /proc shows; under OLD_KERNEL that is another one
[ ! -e "$E2E_BIN/real/ddprun" ] || DDPRUN_FILE=$E2E_BIN/real/ddprun
DDPRDZVD=$E2E_BIN/ddprdzvd
DDPCTL=$E2E_BIN/ddpctl
WORKER=$E2E_LIB/worker
NODES=            # names of all that were started and not yet waited for
NAMESPACES=       # that we made
MOUNTS=           # that we made
STATUS=           # of the node that was waited for last
LOG_DIR=$E2E_DIR/log
cd "$E2E_DIR" || exit 1
mkfifo gate && exec 9<>gate || exit 1
: >started

# -- the end ------------------------------------------------------------------

# marked [NAME]: the pids of our own processes that live, of this node or all.
marked()
{
    grep -lsz "^E2E_MARK=$E2E_DIR:${1-}" /proc/[0-9]*/environ |
        sed 's,^/proc/\([0-9]*\)/.*,\1,'
}

cleanup()
{
    trap '' INT TERM HUP
    for _pid in $(marked); do
        kill -KILL "$_pid" 2>/dev/null
    done
    for _ns in $NAMESPACES; do
        ip netns del "$_ns" 2>/dev/null
    done
    for _mount in $MOUNTS; do
        umount -l "$_mount"
    done
    cd /
    rm -rf "$E2E_DIR" "$E2E_DIR.ports"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

fail()
{
    echo "no: $*"
    for _log in "$E2E_DIR"/*.err; do
        [ ! -s "$_log" ] || echo "--- $(basename "$_log")"
        tail -n 40 "$_log"
    done
    [ ! -s started ] || { echo "--- started" && tail -n 40 started; }
    exit 1
}

skip()
{
    echo "$*"
    exit 77
}

# need_root WHAT FOR: or this scenario is skipped. tests/e2e/run counts those.
need_root()
{
    echo real >"$E2E_NEEDS"
    [ "$(id -u)" -eq 0 ] || skip "needs root, $*"
}

# need_namespace_root WHAT FOR: the root of a user namespace will do, too: there
# tests/e2e/run asks again.
need_namespace_root()
{
    echo namespace >"$E2E_NEEDS"
    [ "$(id -u)" -eq 0 ] || skip "needs root, $*"
}

# memory_group MIB: a cgroup with so much memory. ./in_group COMMAND... executes the
# command in it.
memory_group()
{
    need_root 'to make a cgroup'
    group=/sys/fs/cgroup/memory/ddpe2e$$
    _limit=memory.limit_in_bytes
    if ! mkdir "$group" 2>/dev/null; then
        group=/sys/fs/cgroup/ddpe2e$$
        _limit=memory.max
        grep -qsw memory /sys/fs/cgroup/cgroup.subtree_control &&
            mkdir "$group" 2>/dev/null || skip 'no memory cgroup can be made here'
    fi
    trap 'cleanup; rmdir "$group"' EXIT
    limit_memory $(($1 * 1024 * 1024)) || skip 'no limit can be set'
    [ ! -e "$group/memory.swap.max" ] || echo 0 >"$group/memory.swap.max"
    cat >in_group <<SCRIPT
#!/bin/sh
echo \$\$ >$group/cgroup.procs && exec "\$@"
SCRIPT
    chmod +x in_group
}

# limit_memory BYTES: of that cgroup.
limit_memory()
{
    echo "$1" >"$group/$_limit"
}

# memory_used: its processes' bytes.
memory_used()
{
    cat "$group/memory.current" "$group/memory.usage_in_bytes" 2>/dev/null
}

# no_look_for_leaks: what ends with no descriptor left, or may start no process, is
# not to look for leaks: LSan cannot then, and waits for ever or ends with 1.
no_look_for_leaks()
{
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
}

# -- waiting ------------------------------------------------------------------

now_ms()
{
    date +%s%3N
}

# took: how many ms ago it was `began`.
took()
{
    echo $(($(now_ms) - began))
}

# waited_ms: for how long, since the machine's start, processes that could have
# gone on waited for a CPU or for a disk; 0 if the kernel does not say (CONFIG_PSI).
waited_ms()
{
    cat /proc/pressure/cpu /proc/pressure/io 2>/dev/null |
        awk -F 'total=' '/^some/ { us += $2 } END { printf "%d\n", us / 1000 }'
}

# busy: the share of this scenario's time in which processes waited so, in percent.
busy()
{
    _share=$((100 * ($(waited_ms) - WAITED_MS) / ($(now_ms) - BEGAN_MS + 1)))
    [ $_share -le 100 ] || _share=100
    echo $_share
}

# with_room LIMIT_MS [BUSY]: a machine that others use as well gets more time: the
# limit grows with that share, up to three times.
with_room()
{
    echo $(($1 * ${E2E_SLOW:-1} * (100 + 2 * ${2:-$(busy)}) / 100))
}

# in_time LIMIT_MS TOOK_MS WHAT: with that room, or it fails.
in_time()
{
    _busy=$(busy)
    _most=$(with_room "$1" "$_busy")
    [ "$2" -lt "$_most" ] || fail "$3: it took $2 ms, the limit is $_most ms" \
        "($1 ms, and a CPU or a disk was waited for in $_busy % of the time)"
}

# took_to ROUND: how many ms from `began` to when its last worker started.
took_to()
{
    echo $(($(round_at "$1") - began))
}

# eventually SECONDS COMMAND...: until it succeeds; 1 if it did not in time, with
# room.
eventually()
{
    _from_ms=$(now_ms) _wait_ms=$(($1 * 1000))
    shift
    until "$@"; do
        _gone_ms=$(($(now_ms) - _from_ms))
        [ $_gone_ms -lt $_wait_ms ] ||
            [ $_gone_ms -lt "$(with_room $_wait_ms)" ] || return 1
        sleep 0.02
    done
}

has_lines()
{
    _count=$(grep -c -- "$2" "$3" 2>/dev/null)
    [ "${_count:-0}" -ge "$1" ]
}

# wait_for PATTERN FILE [SECONDS]
wait_for()
{
    eventually "${3:-30}" has_lines 1 "$1" "$2" ||
        fail "'$1' does not come in $2"
}

# wait_lines COUNT PATTERN FILE [SECONDS]
wait_lines()
{
    eventually "${4:-30}" has_lines "$1" "$2" "$3" ||
        fail "$1 lines with '$2' do not come in $3"
}

# wait_round ROUND WORKERS [SECONDS]: until so many workers of it have started.
wait_round()
{
    wait_lines "$2" "^round=$1 " started "${3:-30}"
}

is_gone()
{
    # Gone, or a zombie of ours that `wait` will ask for its status.
    { read -r _stat <"/proc/$1/stat"; } 2>/dev/null || return 0
    case ${_stat##*) } in
    Z*) return 0 ;;
    esac
    return 1
}

none_marked()
{
    [ -z "$(marked "${1-}")" ]
}

# nothing_left [NAME [SECONDS]]: no process of this node (or of any) lives.
nothing_left()
{
    eventually "${2:-5}" none_marked "${1-}" || {
        for _pid in $(marked "${1-}"); do
            echo "left: $_pid $(tr '\0' ' ' <"/proc/$_pid/cmdline")"
        done
        fail "processes of '${1-}' are left"
    }
}

listens()
{
    grep -qs "$(printf ':%04X .* 0A' "$1")" /proc/net/tcp /proc/net/tcp6
}

# wait_listener PORT: until somebody listens on it, on loopback here.
wait_listener()
{
    eventually 5 listens "$1" || fail "nobody listens on port $1"
}

BEGAN_MS=$(now_ms)
WAITED_MS=$(waited_ms)

# -- starting -----------------------------------------------------------------

# free_port: one that nobody listens on, below the range that the kernel gives
# to those who do not ask, and not of those for a scenario that runs beside us. None
# is given twice: one that is to be used later may have nobody yet.
free_port()
{
    _first=$((20000 + 1000 * (${E2E_SLOT:-0} % 10)))
    while :; do
        _port=$(shuf -i $_first-$((_first + 989)) -n 1)
        _hex=$(printf ':%04X ' "$_port")
        grep -qs "$_hex" /proc/net/tcp /proc/net/tcp6 ||
            grep -qsx "$_port" "$E2E_DIR.ports" || break
    done
    echo "$_port" >>"$E2E_DIR.ports"
    echo "$_port"
}

# fresh NAME: what one of that name has said before is gone when another is
# started. The shell that is put behind opens the files only when it runs, and
# who waits for a line in them would find the old one.
fresh()
{
    : >"$1.out" >"$1.err"
}

# background NAME COMMAND...: its output goes to NAME.out and NAME.err, its pid
# is in the variable pid_NAME. A shell ignores SIGINT for what it puts behind;
# env undoes that.
background()
{
    _name=$1
    shift
    fresh "$_name"
    env --default-signal=INT --default-signal=QUIT \
        "E2E_MARK=$E2E_DIR:$_name" "$@" >"$_name.out" 2>"$_name.err" 9<&- &
    eval "pid_$_name=$!"
}

# node NAME [OPTION...] PROGRAM [ARGUMENT...]: a launcher in the background.
node()
{
    _name=$1
    shift
    background "$_name" "$DDPRUN" "$@"
}

# nodes "NAME..." [OPTION...] PROGRAM...: a launcher of each name.
nodes()
{
    _names=$1
    shift
    for _each in $_names; do
        node "$_each" "$@"
    done
}

# make_token FILE: a new one, which only its owner may read.
make_token()
{
    (umask 077 && od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n' >"$1")
}

# daemon NAME PORT: a rendezvous daemon on loopback.
daemon()
{
    background "$1" "$DDPRDZVD" --listen="127.0.0.1:$2"
    wait_for 'serving on port' "$1.err"
}

# ctl STATUS ENDPOINT WORD...: ddpctl in front; what it says is in ctl.out.
ctl()
{
    _want=$1 _endpoint=$2
    shift 2
    STATUS=0
    "$DDPCTL" --endpoint="$_endpoint" "$@" >ctl.out 2>&1 || STATUS=$?
    [ "$STATUS" -eq "$_want" ] || {
        cat ctl.out
        fail "ddpctl $* ended with $STATUS, not with $_want"
    }
}

# pid_of NAME
pid_of()
{
    eval "echo \$pid_$1"
}

# sleepers COUNT: so many of ours sleep, five for each worker that is told
# `family`.
sleepers()
{
    _count=0
    for _pid in $(marked); do
        case $(tr '\0' ' ' <"/proc/$_pid/cmdline" 2>/dev/null) in
        'sleep 300 ') _count=$((_count + 1)) ;;
        esac
    done
    [ $_count -eq "$1" ]
}

# end_of NAME [SECONDS]: waits for it; its exit status is in STATUS.
end_of()
{
    _pid=$(pid_of "$1")
    eventually "${2:-30}" is_gone "$_pid" || fail "$1 does not end"
    STATUS=0
    wait "$_pid" 2>/dev/null || STATUS=$?
}

# ends_with STATUS NAME [SECONDS]
ends_with()
{
    end_of "$2" "${3:-30}"
    [ "$STATUS" -eq "$1" ] || fail "$2 ended with $STATUS, not with $1"
}

# all_end STATUS NAME...
all_end()
{
    _ends=$1
    shift
    for _one in "$@"; do
        ends_with "$_ends" "$_one"
    done
}

# launch STATUS [OPTION...] PROGRAM...: a launcher in front, as node `it`.
launch()
{
    _want=$1
    shift
    node it "$@"
    ends_with "$_want" it
}

open_gate()
{
    # More lines than any scenario has workers; fd 9 keeps them in the pipe.
    yes | head -n 200 >gate
}

# close_gate: for the workers that are started from now on.
close_gate()
{
    rm gate && mkfifo gate && exec 9<>gate
}

# first_child PID: the pid of its first child.
first_child()
{
    _child=
    { read -r _child _rest <"/proc/$1/task/$1/children"; } 2>/dev/null
    echo "${_child:?no process below $1}"
}

# agent_of NAME: the pid of the agent below the guard and the janitor.
agent_of()
{
    first_child "$(first_child "$(pid_of "$1")")"
}

# worker_of RANK ROUND: the pid of that worker.
worker_of()
{
    sed -n "s/^round=$2 rank=$1 .* pid=\([0-9]*\) .*/\1/p" started
}

# round_at ROUND: when its last worker started, in ms since the epoch.
round_at()
{
    sed -n "s/^round=$1 .* at=//p" started | sort -n | tail -n 1
}

# values KEY ROUND: what the workers of a round have for it, each value once.
values()
{
    sed -n "s/^round=$2 .*\b$1=\([^ ]*\).*/\1/p" started | sort -u |
        tr '\n' ' '
}

# ranks_on NODE ROUND: in order, without blanks.
ranks_on()
{
    sed -n "s/^round=$2 rank=\([0-9]*\) .* node=$1 .*/\1/p" started |
        sort -n | tr -d '\n'
}

# workers_on NODE ROUND: their pids.
workers_on()
{
    sed -n "s/^round=$2 .* pid=\([0-9]*\) node=$1 .*/\1/p" started
}

# -- asserting ----------------------------------------------------------------

# has PATTERN FILE
has()
{
    grep -q -- "$1" "$2" || fail "no '$1' in $2"
}

has_not()
{
    ! grep -q -- "$1" "$2" || fail "'$1' in $2"
}

# same WANTED GOT WHAT
same()
{
    [ "$1" = "$2" ] || fail "$3: got '$2', wanted '$1'"
}

# lines COUNT PATTERN FILE: exactly so many.
lines()
{
    same "$1" "$(grep -c -- "$2" "$3")" "lines with '$2' in $3"
}

measured()
{
    echo "measured: $*"
}

# -- networks -----------------------------------------------------------------

# need_namespaces: or this scenario is skipped.
need_namespaces()
{
    need_namespace_root 'to make network namespaces'
    for tool in ip unshare; do
        command -v $tool >/dev/null || skip "needs $tool"
    done
    unshare --net --uts --mount true 2>/dev/null ||
        skip "network namespaces cannot be made here"
    [ -e /etc/hosts ] || skip "needs an /etc/hosts, to lay others over it"
}

# network NAME...: a bridge in a namespace of its own and a machine at it for
# each name: 10.77.0.1, .2, ... Names resolve on all of them, by HOSTS_NAME
# where a scenario set that, else by a file made here.
network()
{
    need_namespaces
    NAMESPACES=dpe$$-sw
    ip netns add dpe$$-sw && ip -n dpe$$-sw link add br0 type bridge &&
        ip -n dpe$$-sw link set br0 up || fail "no bridge"
    printf '127.0.0.1 localhost\n::1 localhost\n' >hosts
    _number=0
    for _machine in "$@"; do
        _number=$((_number + 1))
        _ns=dpe$$-$_machine
        NAMESPACES="$NAMESPACES $_ns"
        ip netns add "$_ns" &&
            ip -n "$_ns" link add eth0 type veth peer name "to-$_machine" \
                netns dpe$$-sw &&
            ip -n dpe$$-sw link set "to-$_machine" master br0 up &&
            ip -n "$_ns" address add "10.77.0.$_number/24" dev eth0 &&
            ip -n "$_ns" link set lo up && ip -n "$_ns" link set eth0 up ||
            fail "no machine $_machine"
        mkdir "shm.$_machine" && mount -t tmpfs tmpfs "shm.$_machine" ||
            fail "no shared memory for $_machine"
        MOUNTS="$MOUNTS $E2E_DIR/shm.$_machine"
        echo "10.77.0.$_number $_machine" >>hosts
    done
}

# in_machine MACHINE COMMAND...: there, with its own host name, its own /tmp
# (tmp.MACHINE; log folders go there), /dev/shm (shm.MACHINE, in memory as on any
# machine) and its own /etc/hosts (hosts.MACHINE, or the one of all); so for resolv.conf and nsswitch.conf where they are here.
in_machine()
{
    _machine=$1
    shift
    mkdir -p "$E2E_DIR/tmp.$_machine"
    # What we need of the /tmp that is covered lies in the new one as well, and
    # what sanitizers write (scripts/sanitize).
    # shellcheck disable=SC2016 # for the inner shell
    exec ip netns exec "dpe$$-$_machine" unshare --uts --mount sh -c '
        hostname "$1" || exit
        new=$E2E_DIR/tmp.$1
        for file in hosts resolv.conf nsswitch.conf; do
            own=$E2E_DIR/$file.$1
            [ -f "$own" ] || own=$E2E_DIR/$file
            [ ! -f "$own" ] || mount --bind "$own" /etc/$file || exit
        done
        for folder in "$E2E_WORK" "$E2E_LIB" "${E2E_REPORTS:-}" \
            "${MPI_ROOT:-}" "${MPI_TESTS:-}"; do
            case $folder in
            /tmp/*) mkdir -p "$new${folder#/tmp}" &&
                mount --bind "$folder" "$new${folder#/tmp}" || exit ;;
            esac
        done
        unset TMPDIR
        mount --bind "$E2E_DIR/shm.$1" /dev/shm || exit
        mount --rbind "$new" /tmp && cd "$E2E_DIR" && shift && exec "$@"
        ' sh "$_machine" "$@"
}

# background_on MACHINE NAME COMMAND...: as background, there.
background_on()
{
    _name=$2
    fresh "$_name"
    (
        _machine=$1
        shift 2
        in_machine "$_machine" env --default-signal=INT --default-signal=QUIT \
            "E2E_MARK=$E2E_DIR:$_name" "$@"
    ) >"$_name.out" 2>"$_name.err" 9<&- &
    eval "pid_$_name=$!"
}

# node_on MACHINE NAME [OPTION...] PROGRAM...: a launcher on that machine.
node_on()
{
    _machine=$1 _name=$2
    shift 2
    background_on "$_machine" "$_name" "$DDPRUN" "$@"
}

# nodes_on "NAME..." [OPTION...] PROGRAM...: one on each machine, with its name.
nodes_on()
{
    _names=$1
    shift
    for _each in $_names; do
        node_on "$_each" "$_each" "$@"
    done
}

# daemon_on MACHINE NAME PORT [OPTION...]: a rendezvous daemon there.
daemon_on()
{
    _machine=$1 _name=$2 _port=$3
    shift 3
    background_on "$_machine" "$_name" "$DDPRDZVD" --listen="0.0.0.0:$_port" "$@"
    wait_for 'serving on port' "$_name.err"
}

# preflight STATUS [OPTION...]: one of the machines na, nb and nc, which meet at
# na; all end with that status. What they say is in all.out and all.err, and
# `line` is the output in one line.
preflight()
{
    _status=$1
    shift
    for _node in na nb nc; do
        node_on $_node $_node --nnodes=3 --rdzv_endpoint=na:29500 --preflight "$@"
    done
    for _node in na nb nc; do
        ends_with "$_status" $_node 40
    done
    cat na.out nb.out nc.out >all.out
    cat na.err nb.err nc.err >all.err
    tr -s '\n ' ' ' <all.out >line
}

# cut_off MACHINE, heal MACHINE: its cable, at the switch; its own side still
# looks up.
cut_off()
{
    ip -n dpe$$-sw link set "to-$1" nomaster
}

heal()
{
    ip -n dpe$$-sw link set "to-$1" master br0
}
