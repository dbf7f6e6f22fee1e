#!/bin/sh
# --crash_loop=3 of a job with 100 restarts: three rounds in a row that fail
# before any worker makes progress end it; without the option there are 100.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

launch 68 --nproc_per_node=2 --max_restarts=100 --crash_loop=3 \
    "$WORKER" always 1 42
lines 6 '^round=' started
has 'crash loop *3 rounds in a row failed before any worker made' it.err
has 'exit code 42' it.err
has 'restarts used *2 of 100' it.err
nothing_left
# Any worker that writes to its progress file counts: the third round does.
cat >flaky <<'FLAKY'
#!/bin/sh
echo "round=$DDP_ROUND" >>"$E2E_DIR/attempts"
[ "$DDP_ROUND" != 3 ] || echo "step 1" >"$DDP_PROGRESS_FILE"
exit 9
FLAKY
chmod +x flaky
launch 68 --max_restarts=100 --crash_loop=3 ./flaky
lines 6 '^round=' attempts
: >attempts
launch 9 --max_restarts=20 ./flaky
lines 21 '^round=' attempts
nothing_left
