#!/bin/sh
# Two workers need a module that takes long to import. After a kill they have it
# without importing it again, as often as that happens, whether it was named or
# learnt, and end as any worker does: exit status, traceback, signal. A module that
# they only look for is not imported. A launcher that is killed leaves no standby
# behind, nor does one that ends.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/standbys.sh"

cat >site-packages/slow_one.py <<'END'
import os
with open(os.environ["E2E_DIR"] + "/imports", "a") as file:
    file.write(f"{os.getpid()}\n")
END
cp site-packages/slow_one.py site-packages/looked_for.py
: >site-packages/no-name.py
cat >program.py <<'END'
import importlib.util, os, signal, sys
importlib.util.find_spec("looked_for")
__import__("no-name")
import slow_one, standbys
attempt, rank = (int(os.environ[n]) for n in ("TORCHELASTIC_RESTART_COUNT", "RANK"))
with open("started", "a") as file:
    print(f"round={os.environ['DDP_ROUND']} rank={rank} pid={os.getpid()}", file=file)
if attempt < int(sys.argv[2]):
    standbys.wait(2)
    if rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()
elif sys.argv[1] == "raises":
    raise ValueError("no such batch: 17")
elif sys.argv[1] == "interrupt":
    raise KeyboardInterrupt
elif sys.argv[1] == "exits":
    sys.exit(7)
elif sys.argv[1] == "holds":
    signal.pause()
END

# run_it NAME RESTARTS STATUS
run_it()
{
    rm -f imports started
    : >started
    background "$1" "$DDPRUN" --nproc_per_node=2 --max_restarts="$2" \
        --standby="$modules" program.py "$1" "$2"
    ends_with "$3" "$1"
    nothing_left "$1"
    has_lines "$2" '2 of 2 workers started from a standby' "$1.err" ||
        fail "$1: not all rounds started from standbys"
    same 3 "$(wc -l <imports)" 'imports of the module'
}
modules=slow_one,json
run_it ends 3 0
modules=auto # which is learnt from the first round
run_it exits 1 7
run_it interrupt 1 130
run_it raises 1 1
grep -A 3 '  | Traceback' raises.err | grep -q "  |   File \"$E2E_DIR/program.py\", line" ||
    fail 'the traceback does not begin with the program'

# Guard and agent at once, while standbys wait.
: >started
background holds "$DDPRUN" --nproc_per_node=2 --max_restarts=2 \
    --standby=slow_one program.py holds 1
wait_round 2 2 30
for pid in $(marked holds); do
    [ "$(cat "/proc/$pid/comm")" != ddprun ] || kill -KILL "$pid"
done
nothing_left holds
