#!/bin/sh
# A log folder that is full, read-only, or /dev/null: does training go on, and
# is it said once? A file in its place is refused before anything starts.
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
need_namespace_root 'to mount full and read-only disks'
mkdir full locked
mount -t tmpfs -o size=4k,nr_inodes=1 tmpfs full || skip 'no tmpfs here'
MOUNTS=$E2E_DIR/full
try full
[ "$(grep -ci 'no space' it.err)" -eq 1 ] || fail 'a full disk is not said once'
mount -t tmpfs -o ro tmpfs locked || skip 'no tmpfs here'
MOUNTS="$MOUNTS $E2E_DIR/locked"
try locked
[ "$(grep -ci 'read-only' it.err)" -eq 1 ] || fail 'read-only is not said once'
