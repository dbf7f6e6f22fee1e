#!/bin/sh
# The last line before SIGKILL, an end without a newline, a line of 10 MB: are
# they there, in the file and on the console, in bounded memory?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# shellcheck disable=SC2016 # for the worker
launch 137 --nproc_per_node=2 --tee=1 --redirects=2 --log_dir=log sh -c '
    [ "$RANK" = 1 ] || exec sleep 300
    i=0
    while [ $i -lt 1000 ]; do
        echo "line $i"
        echo "error $i" >&2
        i=$((i + 1))
    done
    printf "last word"
    printf "last error" >&2
    kill -KILL $$$$'
same 1000 "$(grep -c '^\[default1\]:line [0-9]*$' it.out)" 'lines'
same '[default1]:last word' "$(tail -n 1 it.out)" 'the last line'
same 'last word' "$(tail -n 1 log/*/attempt_0/1/stdout.log)" 'last in the file'
same 'last error' "$(tail -n 1 log/*/attempt_0/1/stderr.log)" 'last error'

# What only passes through is not touched.
launch 0 sh -c 'printf "no newline" >&2'
same 'no newline' "$(cat it.err)" 'what passed through'
launch 137 sh -c 'echo line; printf "no newline"; kill -KILL $$$$'
same "$(printf 'line\nno newline')" "$(cat it.out)" 'what passed through stdout'

command -v python3 >/dev/null || skip 'needs python3'
rm -r log
# shellcheck disable=SC2016
node it --nproc_per_node=4 --tee=3 --log_dir=log sh -c '
    exec python3 -c "import os, sys
rank = os.environ[\"RANK\"]
print(rank * 10_000_000 + \".\", flush=True)
sys.stderr.write(\"short\\n\")
sys.stderr.flush()
os.read(os.open(\"gate\", os.O_RDONLY), 1)"'
wait_lines 4 short it.err 30
relay=
for pid in $(pgrep -P "$(agent_of it)"); do
    [ "/proc/$pid/exe" -ef "$DDPRUN_FILE" ] || continue
    relay=$pid # the most that each of our processes ever had
    peak=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) .*/\1/p' "/proc/$pid/status")
    grep -qs __asan_init "$DDPRUN_FILE" || [ "$peak" -lt 12000 ] ||
        fail "a process of ours had $peak KiB"
done
: "${relay:?none is found}"
open_gate
ends_with 0 it 30
for rank in 0 1 2 3; do
    python3 - "$rank" <<'PY' || fail "the long line of rank $rank is torn"
import glob, sys
rank = sys.argv[1]
want = rank * 10_000_000 + "."
lines = open("it.out").read().split("\n")
path, = glob.glob(f"log/*/attempt_0/{rank}/stdout.log")
assert open(path).read() == want + "\n"
assert f"[default{rank}]:" + want in lines
PY
done
