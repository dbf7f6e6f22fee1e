#!/bin/sh
# --max_restarts=1/1s: a worker that fails every 1.2 s is started again each
# time; one that fails twice within a second ends the job with its own status.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

cat >flaky <<'FLAKY'
#!/bin/sh
echo "restarts=$TORCHELASTIC_RESTART_COUNT max=$TORCHELASTIC_MAX_RESTARTS" \
    >>"$E2E_DIR/attempts"
[ "$TORCHELASTIC_RESTART_COUNT" -ge 3 ] || sleep 1.2
exit 7
FLAKY
chmod +x flaky
launch 7 --max_restarts=1/1s ./flaky
lines 4 '^restarts=[0-3] max=1$' attempts
has 'restarts used *3, at most 1/1s' it.err
has 'exit status *7' it.err
nothing_left
# Two launchers that do not agree about it: the second one is told.
port=$(free_port)
node a --nnodes=2 --max_restarts=1/1h --rdzv_endpoint="127.0.0.1:$port" \
    "$WORKER" hold
wait_listener "$port"
launch 65 --nnodes=2 --max_restarts=1 --rdzv_endpoint="127.0.0.1:$port" \
    "$WORKER" hold
has 'max_restarts=1, run .none. has 1/3600s; give every node the same' it.err
kill -INT "$(pid_of a)"
ends_with 130 a
nothing_left
