#!/bin/sh
# The program is there for the first attempt and gone for the second: are the
# restarts that are left not wasted?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

cat >prog <<'PROG'
#!/bin/sh
echo run >>"$E2E_DIR/runs"
rm -f "$E2E_DIR/prog"
exit 1
PROG
chmod +x prog
launch 127 --max_restarts=100 ./prog
lines 1 run runs
has 'cannot execute' it.err
nothing_left

# A file that is there and cannot be run: is it said why?
printf '#!/none/such\n' >lost && echo garbage >garbage && chmod +x lost garbage
launch 127 ./lost
has 'cannot execute ./lost: No such .*; the file exists, but the interpreter' it.err
launch 126 ./garbage
has 'Exec format error; it is neither a program for this machine nor.*--run_path' it.err

# A launcher whose standard output and error are closed or broken lives.
"$DDPRUN" --nproc_per_node=2 "$WORKER" exit 0 >&- 2>&- ||
    fail "closed output: $?"
# A stdout that nobody reads any more stops a worker only if it is the worker's.
{
    "$DDPRUN" --stdout=inherit --nproc_per_node=2 sh -c 'exec 2>&-; yes'
    echo $? >status
} | head -n 1 >/dev/null
same 141 "$(cat status)" 'status behind a broken pipe'
{
    "$DDPRUN" --nproc_per_node=2 sh -c 'yes | head -n 1000000; echo >>ended'
    echo $? >status
} | head -n 1 >/dev/null
same 0 "$(cat status)" 'status behind a pipe that nobody reads'
lines 2 '^$' ended
