#!/bin/sh
# --hang_timeout=1: rank 1 waits for what never comes, the others wait for it.
# It is blamed, what its threads do is written down, and all start again.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

cat >stuck <<'STUCK'
#!/bin/sh
echo "round=$DDP_ROUND rank=$RANK" >>"$E2E_DIR/attempts"
[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] || exit 0
echo "10" >"$DDP_PROGRESS_FILE"
[ "$RANK" = 1 ] && : >"$E2E_DIR/stands" && exec sleep 1000
until [ -e "$E2E_DIR/stands" ]; do sleep 0.02; done # the others get on for longer
sleep 0.3
echo "11" >"$DDP_PROGRESS_FILE"
exec sleep 1000
STUCK
chmod +x stuck
began=$(now_ms)
launch 0 --nproc_per_node=3 --max_restarts=1 --hang_timeout=1 \
    --log_dir="$LOG_DIR" ./stuck
in_time 9000 "$(took)" 'the whole run'
lines 6 '^round=' attempts
has 'rank 1 (pid [0-9]*): it sleeps.*, and has done fewer steps than the others; .*; no progress for [1-9][.0-9]* s (--hang_timeout=1)' it.err
has 'its last beat was of step 10; its stacks are in ' it.err
# The server says it again where this node's workers are not dead before.
! grep 'round 1 is over: ' it.err | grep -v 'rank 1 on .* made no progress' ||
    fail 'round 1 is over for another reason'
stacks=$(find "$LOG_DIR" -path '*/attempt_0/1/stacks.txt')
[ -n "$stacks" ] || fail "no stacks in $(find "$LOG_DIR")"
has '^rank 1 (pid [0-9]*): threads, as' "$stacks"
has 'thread [0-9]* (sleep): state S, waits in .*nanosleep' "$stacks"
nothing_left
# With no restart left the status tells it, and so does the report.
launch 82 --nproc_per_node=2 --hang_timeout=0.5 ./stuck
has 'first failure *rank [01] on .*: made no progress' it.err
has 'exit status *82$' it.err
nothing_left
