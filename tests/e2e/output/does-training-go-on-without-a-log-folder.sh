#!/bin/sh
# A log folder that is full, read-only or no folder when the launch starts, and a
# TMPDIR that cannot be used: is that an error before any worker starts? If the
# folder is removed later, is it made again, and do the streams stay on the
# console if it cannot be? /dev/null is no folder by wish.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

open_gate
try()
{
    : >started
    # shellcheck disable=SC2016 # for the worker
    launch 0 --nproc_per_node=2 --max_restarts=1 --log_dir="$1" sh -c '
        echo "file <$TORCHELASTIC_ERROR_FILE>"
        exec "$0" once 0 1' "$WORKER"
}
try /dev/null
lines 4 '^file <>$' it.out
: >file
launch 2 --log_dir=file true
has 'log_dir=file' it.err
try "$E2E_DIR/made/on/the/way"
has_not '^file <>$' it.out

# refused OPTION...: before any worker has started, with the reason.
refused()
{
    : >started
    launch 78 "$@" sh -c 'echo >>"$E2E_DIR/started"'
    [ ! -s started ] || fail "a worker was started: $*"
}
refused --log_dir=/proc/x
has "log_dir=/proc/x: cannot make the folder /proc/x: No such" it.err
refused --log_dir=/proc/x -r 3
TMPDIR=/proc refused -r 3
has 'need a --log_dir or another TMPDIR: cannot make a folder in /proc' it.err
TMPDIR=/proc refused --duplicate-stdout-filters=loss
TMPDIR=/proc try /dev/null
TMPDIR=/proc launch 0 sh -c 'echo "file <$TORCHELASTIC_ERROR_FILE>"'
has '^file <>$' it.out
lines 1 'without error files$' it.err

# Removed between two rounds, and then a file in its place. A stream that was to
# go to a file only is on the console, where nothing else would show it.
# shellcheck disable=SC2016 # for the worker
launch 0 --nproc_per_node=2 --max_restarts=2 -r 3 --log_dir=logs sh -c '
    echo "out $TORCHELASTIC_RESTART_COUNT"
    echo "err $TORCHELASTIC_RESTART_COUNT" >&2
    [ "$TORCHELASTIC_RESTART_COUNT" != 2 ] || exit 0
    [ "$RANK" = 0 ] || exec sleep 30
    until [ "$(cat "$E2E_DIR"/logs/*/attempt_*/1/stdout.log)" ]; do :; done
    rm -r "$E2E_DIR/logs"
    [ "$TORCHELASTIC_RESTART_COUNT" = 0 ] || : >"$E2E_DIR/logs"
    exit 1'
same 'out 2 out 2' "$(tr '\n' ' ' <it.out | sed 's/ $//')" 'streams without a folder'
lines 2 '^err 2$' it.err
lines 1 'without error files and log files, their output goes to the console' \
    it.err
rm logs
# shellcheck disable=SC2016
launch 0 --max_restarts=1 -r 1 --log_dir=logs sh -c '
    echo "out $TORCHELASTIC_RESTART_COUNT"
    [ "$TORCHELASTIC_RESTART_COUNT" = 0 ] || exit 0
    rm -r "$E2E_DIR/logs"
    exit 1'
same 'out 1' "$(cat logs/*/attempt_1/0/stdout.log)" 'a folder that is made again'
has_not 'cannot make' it.err
need_namespace_root 'to mount full and read-only disks'
mkdir full locked
mount -t tmpfs -o size=4k,nr_inodes=1 tmpfs full || skip 'no tmpfs here'
MOUNTS="$MOUNTS $E2E_DIR/full"
refused --log_dir=full
has 'No space left' it.err
mount -t tmpfs -o ro tmpfs locked || skip 'no tmpfs here'
MOUNTS="$MOUNTS $E2E_DIR/locked"
refused --log_dir=locked
has 'Read-only' it.err
