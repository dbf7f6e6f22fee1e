#!/bin/sh
# Programs that change what their imports see: variables, sys.path, the working folder,
# sys.modules, functions of other modules; that import what draws or seeds generators;
# and an interpreter whose own start reads LOCAL_RANK. What each worker has after its
# imports is the same in its first life and in one from a standby, and what is drawn by
# chance is each worker's own.
# limit: 300
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/standbys.sh"

cd site-packages || exit 1
echo 'import os; value = os.environ.get("HF_HUB_OFFLINE")' >reads_variable.py
echo 'value = "installed"' >patched.py
echo 'value = "there"' >optional.py
cat >uses_optional.py <<'END'
try:
    from optional import value
except ImportError:
    value = "absent"
END
echo 'import os; value = os.getcwd()' >reads_folder.py
printf 'def answer():\n    return 41\n' >helper.py
echo 'from helper import answer; value = answer()' >calls_helper.py
echo 'import helper; helper.answer = lambda: 43; value = 1' >replaces.py
echo 'import os; value = os.environ.setdefault("BOTH_SET", "by the import")' >sets_variable.py
echo 'import random; random.seed(7); value = 1' >seeds.py
echo 'import random; own = random.Random(5); value = 1' >has_constant.py
echo 'import random; own = random.Random(); value = 1' >has_chance.py
echo 'import os, random; own = random.Random(os.getpid()); value = own.random()' >of_pid.py
cat >of_clock.py <<'END'
import random, time
class Holder:
    def __init__(self):
        self.own = random.Random(time.monotonic_ns())
        self.own.random()
held = Holder(); own = held.own; value = 1
END
echo 'import random; value = random.random()' >draws.py
echo 'import os; value = os.environ["LOCAL_RANK"]' >reads_place.py
echo 'import os; value = {k: v for k, v in os.environ.items() if k.endswith("RANK")}' \
    >reads_places.py
cd ..
mkdir -p vendor/site-packages other
echo 'value = "vendored"' >vendor/patched.py
cp vendor/patched.py vendor/site-packages/

cat >program.py <<'END'
import os, signal, sys

ahead = set(sys.modules)
import json, random, standbys

kind = sys.argv[1]
same, apart, wanted = {}, {}, ()
if kind == "variables":
    same["before"] = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("BOTH_SET", "by the program")
    import reads_variable, sets_variable
    same["value"] = reads_variable.value, sets_variable.value
    wanted = "reads_variable", "sets_variable"
elif kind == "unlike":
    os.environ["HF_HUB_OFFLINE"] = os.environ["RANK"]
    import reads_variable
    apart["value"] = reads_variable.value
elif kind == "path":
    import helper
    sys.path.insert(0, "vendor")
    import patched, reads_folder
    same["value"] = patched.value
    wanted = "helper", "reads_folder"
elif kind == "another":
    sys.path.insert(0, "vendor/site-packages")
    import patched, helper
    same["value"] = patched.value
    wanted = "patched", "helper"
elif kind == "absent":
    sys.modules["optional"] = None
    import uses_optional
    same["value"] = uses_optional.value
elif kind == "folder":
    import helper
    os.chdir("other")
    import reads_folder
    same["value"] = reads_folder.value
    wanted = ("helper",)
elif kind == "replaced":
    import helper
    helper.answer = lambda: 42
    import calls_helper
    same["value"] = calls_helper.value
    wanted = ("helper",)
elif kind == "theirs":  # replaced by an import
    import helper
    import replaces
    import calls_helper
    same["value"] = calls_helper.value
    wanted = "helper", "replaces", "calls_helper"
elif kind == "constants":
    import seeds, has_constant
    same["value"] = random.random(), has_constant.own.random()
    wanted = "seeds", "has_constant"
elif kind == "chance":
    import has_chance, of_pid, of_clock, draws
    apart = {m.__name__: m.own.random() for m in (has_chance, of_pid, of_clock)}
    apart.update(drawn=draws.value, of_pid_value=of_pid.value, now=random.random())
    wanted = ("has_chance",)
elif kind == "places":
    import reads_place, reads_places, helper
    apart["value"] = reads_place.value
    same["value"] = reads_places.value == {
        k: v for k, v in os.environ.items() if k.endswith("RANK")
    }
    wanted = ("helper",)
elif kind == "start":
    import sitecustomize
    apart["value"] = sitecustomize.value
attempt, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"]
same["path"], same["environ"] = sys.path, sorted(os.environ)
same["missing"] = [name for name in wanted if attempt == "1" and name not in ahead]
root = os.environ["E2E_DIR"]
with open(f"{root}/{kind}.{attempt}.{rank}", "w") as file:
    json.dump([same, apart], file, indent=1)
if attempt == "0":
    for each in "01":  # as after a collective: both have imported
        standbys.wait_for_file(f"{root}/{kind}.0.{each}")
    if kind == "start":
        with open(os.environ["DDP_PROGRESS_FILE"], "w") as file:
            file.write("1")
        standbys.wait_for_file(f"{root}/it.said")
    else:
        standbys.wait(2)
    if rank == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()
END

# compare KIND: each worker's first life with its second, and the workers.
compare()
{
    python3 - "$1" <<'END' || fail "$1: a restart means something else"
import json, sys
kind, bad = sys.argv[1], []
lives = {n: json.load(open(f"{kind}.{n}")) for n in ("0.0", "0.1", "1.0", "1.1")}
for rank in "01":
    first, second = lives["0." + rank][0], lives["1." + rank][0]
    for key in first:
        if first[key] != second[key]:
            bad.append(f"rank {rank}, {key}: {first[key]}\n  then {second[key]}")
for attempt in "01":
    one, other = lives[attempt + ".0"][1], lives[attempt + ".1"][1]
    bad += [f"{attempt}: both have {k} {one[k]}" for k in one if one[k] == other[k]]
print("\n".join(bad))
sys.exit(bool(bad))
END
}

for kind in variables unlike path another absent folder replaced theirs constants chance \
    places; do
    launch 0 --nproc_per_node=2 --max_restarts=1 --standby=auto program.py $kind
    has '2 of 2 workers started from a standby' it.err
    compare $kind
done

# The start of the interpreter itself cannot be left out.
echo 'import os; value = os.environ.get("LOCAL_RANK")' >site-packages/sitecustomize.py
rm -f it.said
background it "$DDPRUN" --nproc_per_node=2 --max_restarts=1 --standby=auto \
    program.py start
wait_for 'as Python starts, sitecustomize reads LOCAL_RANK' it.err 60
echo yes >it.said
ends_with 0 it
compare start
