#!/bin/sh
# A script starts a process and then becomes the launcher by exec (so does bash
# with `exec ddprun > >(tee log)`): is the process, which is the launcher's child
# then, left alone, with what it leaves behind, also if a child of its dies and
# the launcher is not told whose parent it has become?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/strangers.sh"
leaver

cat >starts <<'STARTS'
E2E_MARK=$E2E_DIR:stranger sh -c 'sleep 0.3; setsid -f sleep 300; exit 0' &
E2E_MARK=$E2E_DIR:stranger sleep 300 &
E2E_MARK=$E2E_DIR:stranger sh -c \
    'sh -c "sleep 300 & sleep 0.3" & exec sleep 300' &
E2E_MARK=$E2E_DIR:stranger sh -c \
    'setsid sh -c "sleep 300 & sleep 0.3" & exec sleep 300' &
exec "$@"
STARTS
background it sh starts "$DDPRUN" --cgroup=none --nproc_per_node=2 \
    --max_restarts=5 ./leaver 5
ends_with 0 it
same '' "$(marked it)" 'processes that are left'
# is_settled: those have ended that were to end by themselves.
is_settled()
{
    for pid in $(marked stranger); do
        case $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) in
        *'sleep 0.3'*) return 1 ;;
        esac
    done
}
eventually 30 is_settled || fail 'sleep 0.3 takes long'
same 6 "$(marked stranger | wc -l)" 'processes from before that live'
