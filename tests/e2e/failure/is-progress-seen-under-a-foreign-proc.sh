#!/bin/sh
# /proc of another pid namespace: do workers find the launcher's files by it, so
# that a beat is seen and a worker that looks is asked? Without any /proc: are
# the variables empty, and is that said?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/strangers.sh"
need_namespaces

cat >beats <<'BEATS'
#!/bin/sh
echo "progress=$DDP_PROGRESS_FILE stop=$DDP_STOP_FILE" \
    "memory=$DDP_SNAPSHOT_MEMORY" >"$E2E_DIR/paths"
[ -n "$DDP_PROGRESS_FILE" ] || exit 0
echo 7 >"$DDP_PROGRESS_FILE" || exit 4
sleep 0.3
BEATS
chmod +x beats
within foreign it "$DDPRUN" --cgroup=none --events="$E2E_DIR/events" ./beats
ended 0 it
has '^progress=/proc/[0-9]*/fd/[0-9]* stop=/proc/[0-9]*/fd/[0-9]* ' paths
has '"step":7' events
has_not 'DDP_PROGRESS_FILE' it.err
leave it
# The stacks of a worker that hangs would be a stranger's.
within foreign it "$DDPRUN" --cgroup=none --hang_timeout=1 sleep 300
ended 82 it
has 'no stacks: /proc does not show' it.err
leave it
within without it "$DDPRUN" --cgroup=none ./beats
ended 0 it
same 'progress= stop= memory=' "$(cat paths)" 'paths without /proc'
lines 1 'DDP_PROGRESS_FILE, DDP_STOP_FILE' it.err
leave it
