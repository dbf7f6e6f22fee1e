# Launches among strangers: processes that are no descendants of the launch, in
# pid namespaces and sandboxes where /proc may not be the launch's. Comes after
# lib.sh.
# shellcheck shell=sh disable=SC2034,SC2154

STRANGERS=40

need_namespaces()
{
    need_root 'to make namespaces'
    unshare -fpm true 2>/dev/null || skip 'no namespace can be made here'
}

# leaver: ./leaver COUNT, a worker that leaves daemons behind, fails in the
# first COUNT attempts, and then ends with 0.
leaver()
{
    cat >leaver <<'LEAVER'
#!/bin/sh
setsid -f sleep 300
(setsid -f setsid -f sleep 300 </dev/null >/dev/null 2>&1 &)
(sleep 300 &)
sleep 0.1
[ "$TORCHELASTIC_RESTART_COUNT" -lt "$1" ] || exit 0
exit 3
LEAVER
    chmod +x leaver
}

# within KIND NAME COMMAND...: like `background`, beside $STRANGERS strangers:
#   foreign   in a pid namespace with the /proc of another one
#   chroot    the same, in a root folder of its own
#   without   in a pid namespace without any /proc
#   unmounted without /proc, in our own pid namespace
# Its status comes into NAME.status; then all stays as it is until we end.
within()
{
    _kind=$1 _name=$2
    shift 2
    cat >inside <<'INSIDE'
name=$1
shift
# First, so that in a new pid namespace the guard is process 2. In the /proc of
# the first namespace that is kthreadd, whose children have the numbers of the
# strangers.
E2E_MARK=$E2E_DIR:$name "$@" >"$name.out" 2>"$name.err" 9<&- &
launch=$!
i=0
while [ $i -lt "$STRANGERS" ]; do
    E2E_MARK=$E2E_DIR:stranger sleep 300 &
    i=$((i + 1))
done
status=0
wait $launch || status=$?
echo $status >"$name.status.new"
mv "$name.status.new" "$name.status"
exec sleep 300
INSIDE
    rm -f "$_name.status"
    export STRANGERS
    case $_kind in
    foreign) set -- unshare -fp --kill-child sh inside "$_name" "$@" ;;
    chroot)
        mkdir -p root
        # shellcheck disable=SC2016 # for the inner shell
        set -- unshare -fpm --kill-child sh -c 'mount --rbind / root &&
            exec chroot root sh -c "cd \"\$E2E_DIR\" && exec sh inside \"\$@\"" \
                sh "$@"' sh "$_name" "$@"
        ;;
    without)
        # shellcheck disable=SC2016
        set -- unshare -fpm --kill-child sh -c 'umount -l /proc &&
            exec sh inside "$@"' sh "$_name" "$@"
        ;;
    unmounted)
        # shellcheck disable=SC2016
        set -- unshare -m sh -c 'umount -l /proc &&
            exec sh inside "$@"' sh "$_name" "$@"
        ;;
    esac
    background "in_$_name" "$@"
}

# ended STATUS NAME [SECONDS]: the launch, of which nothing may be left then,
# while all strangers live. `leave NAME` ends the namespace.
ended()
{
    eventually "${3:-30}" test -s "$2.status" || fail "$2 does not end"
    same "$1" "$(cat "$2.status")" "the status of $2"
    same "$STRANGERS" "$(marked stranger | wc -l)" 'strangers that live'
    none_marked "$2" || nothing_left "$2" 0
}

leave()
{
    for _pid in $(marked stranger) $(marked "in_$1"); do
        kill -KILL "$_pid" 2>/dev/null
    done
    end_of "in_$1"
    eventually 5 none_marked || fail 'something stays'
}

# agent_among NAME: the agent, by its session, where no pid is known.
agent_among()
{
    for _pid in $(marked "$1"); do
        { read -r _comm <"/proc/$_pid/comm"; } 2>/dev/null || continue
        [ "$_comm" = ddprun ] || continue # not the janitor, which has one as well
        read -r _stat <"/proc/$_pid/stat"
        # shellcheck disable=SC2086 # words
        set -- "$1" ${_stat##*) }
        [ "$5" != "$_pid" ] || echo "$_pid"
    done
}
