#!/bin/sh
# Three nodes, of which two are enough; the first serves the rendezvous. It is cut
# off, and the others go on where the second serves; it comes back; then the second
# is cut off, and the first serves again, or the third. The program takes a second to start, and goes on ten steps before the last
# one. Do /status, /metrics, the page's document and `ddpctl top` tell the same
# goodput, and at the end the reports of two nodes and `ddpctl report`? Is it what a
# user sees with a watch: the time of new steps?
# limit: 120
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

command -v python3 >/dev/null || skip 'needs python3'
# Each new step has a line in steps.NODE: when it was done, round, step.
cat >train.py <<'PY'
import os, sys, time
where = os.environ["E2E_DIR"]
name = os.uname().nodename
mine = open(f"{where}/steps.{name}", "a", buffering=1)
time.sleep(1)
done = [int(line.split()[2]) for n in "abc" if os.path.exists(f"{where}/steps.{n}")
        for line in open(f"{where}/steps.{n}") if line.endswith("\n")]
step = max(0, max(done, default=0) - 10)
while not os.path.exists(f"{where}/enough"):
    time.sleep(0.1)
    step += 1
    mine.write(f"{time.time():.3f} {os.environ['DDP_ROUND']} {step}\n")
    with open(os.environ["DDP_PROGRESS_FILE"], "w") as f:
        f.write(f"{step}\n")
PY
network a b c
for name in a b c; do
    node_on $name $name --nnodes=2:3 --max_restarts=1 --scale_interval=0 \
        --rdzv_endpoint=a:29500 --rdzv_conf=heartbeat_timeout=1 \
        --events=events-$name --report=report-$name python3 train.py
done

# trains_again ROUND NODES: whether each has done some steps in a later round.
trains_again()
{
    for _name in $2; do
        [ "$(awk -v from="$1" '$2 > from' "steps.$_name" 2>/dev/null |
            wc -l)" -gt 25 ] || return 1
    done
}
newest() { cut -d ' ' -f 2 steps.? | sort -n | tail -n 1; }

eventually 30 trains_again 0 'a b c' || fail 'no round of three'
cut_off a
eventually 30 trains_again "$(newest)" 'b c' || fail 'the others do not go on'
heal a
eventually 30 trains_again "$(newest)" 'a b c' || fail 'a is not back'
cut_off b
eventually 30 trains_again "$(newest)" 'a c' || fail 'a and c do not go on'
heal b
eventually 30 trains_again "$(newest)" 'a b c' || fail 'b is not back'

# told: whether all tell the same now, of those parts that do not grow.
cat >compare.py <<'PY'
import json, re, subprocess, sys, urllib.request
PARTS = ("waited", "detect", "restart")
base, ctl = sys.argv[1:]
def get(path):
    return urllib.request.urlopen(base + path, timeout=10)
def live(g):
    assert g["phase"] == "ran", g
    return [g[p + "_s"] for p in PARTS]
status = json.load(get("/status"))
first = live(status["runs"][0]["goodput"])
metrics = get("/metrics").read().decode()
told = {"metrics": [float(re.search(
    r'^ddprun_run_seconds\{run="none",part="%s"\} (\S+)$' % p, metrics, re.M)[1])
    for p in PARTS]}
events = get("/events")
for line in events:
    if line.startswith(b"data: {"):
        told["page"] = live(json.loads(line[6:])["runs"][0]["goodput"])
        break
shown = subprocess.run([ctl, "--endpoint=" + base[7:], "status", "--json"],
                       capture_output=True, check=True).stdout
told["ddpctl"] = live(json.loads(shown)["runs"][0]["goodput"])
for who, parts in told.items():
    assert all(abs(x - y) < 0.01 for x, y in zip(first, parts)), (first, told)
print("goodput while it runs:", dict(zip(PARTS, first)))
PY
says_the_same()
{
    _at=$(sed -n 's/.* it is served at \(.*\) from now on/\1/p' a.err | tail -n 1)
    [ "$_at" != 'the endpoint' ] || _at=10.77.0.1:29500
    (in_machine a python3 "$E2E_DIR/compare.py" "http://$_at" "$DDPCTL") \
        >live 2>live.err
}
eventually 20 says_the_same || fail "$(cat live live.err)"
measured "$(cat live)"
: >enough
for name in a b c; do ends_with 0 $name; done
"$DDPCTL" report --json events-a events-b events-c >report-page
python3 - <<'PY' >sums || fail "$(cat sums)"
import json
PARTS = ("ran_s", "waited_s", "detect_s", "restart_s")
told = {n: json.load(open(f"report-{n}"))["goodput"] for n in "abc"}
told["page"] = json.load(open("report-page"))["runs"][0]["goodput"]
for who, g in told.items():
    print(who, {p: g[p] for p in PARTS}, "knows its start:", g["knows_start"])
assert all(g["knows_start"] for g in told.values())
assert all(abs(g[p] - told["a"][p]) < 0.01 for g in told.values() for p in PARTS)
# By the watch: of each round from its first new step to its last one.
lines = sorted(tuple(map(float, line.split())) for n in "abc"
               for line in open(f"steps.{n}"))
ran, reached, rounds = 0, 0, {}
for at, number, step in lines:
    rounds.setdefault(number, []).append((at, step))
for number in sorted(rounds):
    new = [at for at, step in rounds[number] if step > reached]
    reached = max([reached] + [step for at, step in rounds[number]])
    ran += new[-1] - new[0] if new else 0
print(f"by the watch: {ran:.3f} s ran in {len(rounds)} rounds")
# Until a loss is known workers go on. A beat comes five times in a second here, and
# may be late on a busy machine.
both = told["a"]["ran_s"] + told["a"]["detect_s"]
assert abs(ran - both) < 0.4 * len(rounds) + ran / 20, "not the same"
PY
while read -r line; do measured "$line"; done <sums
for name in a b c; do nothing_left $name; done
