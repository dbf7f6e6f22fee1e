#!/bin/sh
# A program writes down all that it can see of itself: once after a fresh start,
# once as a standby; as a script, as a module, bound to CPUs and with a GPU of its own.
# But for what the imports left in sys.modules both are the same. What an import makes
# by chance differs between workers.
# limit: 180
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
command -v python3 >/dev/null || skip 'needs python3'

cp "$E2E_LIB/what_it_sees.py" "$E2E_LIB/standbys.py" .

# compare FILE FILE
compare()
{
    python3 - "$1" "$2" <<'END' || fail "a standby sees something else ($1)"
import json, sys
fresh, standby = (json.load(open(name)) for name in sys.argv[1:])
ahead = set(standby.pop("modules at the start"))
missing = set(fresh.pop("modules at the start")) - ahead
bad = ["module " + name for name in missing]
if "Recorder" not in fresh["meta_path"].pop(0):
    bad.append("the first life is not recorded")
# Python 3.12 freezes some in a fresh start, too.
if fresh.pop("frozen objects") >= standby.pop("frozen objects"):
    bad.append("gc: what was imported ahead is looked at by collections")
for key in sorted(set(fresh) | set(standby)):
    if fresh.get(key) != standby.get(key):
        bad.append(f"{key}:\n  fresh   {fresh.get(key)}\n  standby {standby.get(key)}")
print("\n".join(bad))
sys.exit(bool(bad))
END
}

# look NAME ARGUMENT...
look()
{
    name=$1
    shift
    E2E_MARK=$E2E_DIR:$name "$DDPRUN" --nproc_per_node=2 --max_restarts=1 \
        --standby=$modules \
        "$@" x '' 'two words' </dev/null >"$name.out" 2>"$name.err" ||
        fail "$name ended with $?"
    grep -q '2 of 2 workers started from a standby' "$name.err" ||
        fail 'the workers did not start from standbys'
    for rank in 0 1; do
        compare "seen.0.$rank" "seen.1.$rank"
    done
    for what in authkey random; do
        same=$(grep -h "$what" apart.* | sort | uniq -d)
        [ -z "$same" ] || fail "workers have the same by chance: $same"
    done
    rm -f seen.* apart.*
}

modules=asyncio,json,logging,multiprocessing.pool,random,unittest
look script ./what_it_sees.py
PATH=$(dirname "$(python3 -c 'import sys; print(sys.executable)')"):$PATH
look module -m what_it_sees
look options --no_python python3 -B -W ignore -X dev what_it_sees.py

[ -f "$E2E_BIN/libnvidia-ml.so.1" ] ||
    skip 'needs the stand-in for NVML, which make check-e2e builds'
export LD_LIBRARY_PATH="$E2E_BIN" FAKE_NVML='GPU-a 0:1:0;GPU-b 0:2:0'
unset CUDA_VISIBLE_DEVICES
how=exclusive
"$DDPRUN" --dry_run --nproc_per_node=2 --numa_binding=$how true >/dev/null 2>&1 ||
    how=node # there are not enough cores
look bound --numa_binding=$how --virtual_local_rank what_it_sees.py
[ $how = node ] || ! cmp -s cpus.0 cpus.1 || fail 'both workers have the same CPUs'
