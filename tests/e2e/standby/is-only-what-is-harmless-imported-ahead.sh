#!/bin/sh
# Of the modules that are named and that the program imports: those whose import reads
# the worker's place, draws random bytes, needs a module of the user's own, starts a
# thread or a process, or leaves a descriptor or shared memory behind are left out, and
# so is what imports them or lies below them: in the round after, each worker imports
# them itself, and sees what is its own. The others are there, their random numbers each
# worker's own.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/standbys.sh"

echo 'value = "the users own"' >own.py
cd site-packages || exit 1
echo 'import os; value = os.environ.get("RANK")' >reads_rank.py
mkdir package
cp reads_rank.py package/__init__.py
echo 'value = "not reached"' >package/part.py
echo 'import os; value = dict(os.environ)["RANK"]' >reads_all.py
echo 'import os; value = dict(os.environ)' >keeps_all.py
cat >harmless_third.py <<'END'
import os
value = {k: v for k, v in os.environ.items() if k.startswith("NOBODYS_")}
END
echo 'import reads_rank; value = reads_rank.value' >above_it.py
echo 'from own import value' >needs_own.py
cat >starts_thread.py <<'END'
import os, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
value = os.getpid()
END
echo 'import os, subprocess; p = subprocess.Popen(["sleep", "300"]); value = os.getpid()' \
    >starts_process.py
echo 'import secrets; value = secrets.token_hex()' >draws_bytes.py
echo 'import random; value = random.Random()' >harmless_too.py
echo 'import os; file = open("/dev/null"); value = os.getpid()' >opens_file.py
echo 'import os, multiprocessing; lock = multiprocessing.Lock(); value = os.getpid()' \
    >has_lock.py
echo 'import os; value = os.getpid(); os.environ.setdefault("SET_AHEAD", "yes")' \
    >harmless.py
echo 'raise SystemExit(5)' >fails.py
cd ..
cat >program.py <<'END'
import os, signal, sys
ahead = set(sys.modules)
attempt, rank = (os.environ[n] for n in ("TORCHELASTIC_RESTART_COUNT", "RANK"))
with open("score." + attempt, "w") as file:
    file.write(open("/proc/self/oom_score_adj").read())
if attempt == "0":
    import standbys
    for name in sys.argv[1].split(","):
        try:
            __import__(name)
        except SystemExit:
            pass
    standbys.wait(2)
    if rank == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()
out = []
for name in ("reads_rank", "reads_all", "above_it"):
    out.append(name in ahead or __import__(name).value != rank)
for name in ("starts_thread", "starts_process", "opens_file", "has_lock"):
    out.append(name in ahead or __import__(name).value != os.getpid())
out.append("keeps_all" in ahead or "harmless_third" not in ahead)
out.append("draws_bytes" in ahead or "package" in ahead)
out.append("needs_own" in ahead or "own" in ahead)
out.append("harmless" not in ahead or os.environ.get("SET_AHEAD") != "yes")
out.append("harmless_too" not in ahead)
with open("drawn." + rank, "w") as file:
    print(sys.modules["harmless_too"].value.random(), file=file)
print(out, flush=True)
sys.exit(any(out))
END
modules=$(cd site-packages && printf '%s,' ./[!f]*.py | sed 's,\.py,,g; s,\./,,g')
background it "$DDPRUN" --nproc_per_node=2 --max_restarts=1 \
    --standby="fails,${modules}package.part,json" program.py \
    "fails,${modules}package.part,json"
ends_with 0 it
nothing_left it
same "$(cat score.0)" "$(cat score.1)" 'the score for the OOM killer'
grep -q '2 of 2 workers started from a standby' it.err || fail 'no standbys'
grep -q '4 modules are imported ahead .*, 11 left out' it.err ||
    fail 'not those were left out'
! cmp -s drawn.0 drawn.1 || fail 'both workers draw the same random numbers'
