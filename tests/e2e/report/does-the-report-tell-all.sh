#!/bin/sh
# A worker of the second node fails: does the first node's report have its last
# lines on stderr, what @record wrote, the others apart, the times, as text and
# as JSON? Are the events there, in order?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
port=$(free_port)
# shellcheck disable=SC2016 # for the worker
fail='seq -f "step %g of 30 on rank $RANK" 30 >&2
    [ "$RANK" = 3 ] || exec sleep 300
    printf "%b" "Error: \\0377 bytes, \\033[31mcolour\\033[0m\nno newline" >&2
    [ "$DDP_ROUND" = 1 ] ||
        echo "{\"message\": {\"message\": \"KeyError: 5\", \"extraInfo\": {}}}" \
            >"$TORCHELASTIC_ERROR_FILE"
    kill -SEGV $$$$'
for name in a b; do
    echo kept >started-by-$name
    background $name env TORCHELASTIC_ERROR_FILE=started-by-$name "$DDPRUN" \
        --nnodes=2 --nproc_per_node=2 --max_restarts=1 \
        --rdzv_endpoint="127.0.0.1:$port" --redirects=2 --log_dir=log-$name \
        --report=report-$name --events=events sh -c "$fail"
    [ $name = b ] || wait_listener "$port" # b may have failed by then
done
all_end 139 a b
for name in a b; do
    has 'rank 3 on .* signal 11 (SIGSEGV)' $name.err
    has '  | step 30 of 30 on rank 3$' $name.err
    has '  | Error: ? bytes, colour$' $name.err
    has '  | no newline$' $name.err
    has 'error  *KeyError: 5$' $name.err
    has "then  *ranks 0-1 on $(hostname) (local 0-1): stopped (SIGTERM)$" $name.err
    has "^ddprun:  *rank 2 on $(hostname) (local rank 0.*: stopped (SIGTERM)$" \
        $name.err
    lines 2 'stopped (SIGTERM)' $name.err
    has 'restarts used  *1 of 1' $name.err
    has "logs  *$E2E_DIR/log-$name/none_........ on " $name.err
    has 'time  .* workers ran ' $name.err
    has 'goodput  .* ran [0-9]* % of ' $name.err
    has 'waiting for nodes .*, detection .*, restarts ' $name.err
    lines 20 '^ddprun:     | ' $name.err
done
pid=$(sed -n 's/.*rank 2 on .* (local rank 0, pid \([0-9]*\)).*/\1/p' b.err)
[ "${pid:-0}" -gt 0 ] || fail 'no pid of its own worker on node b'
has_not 'rank 2 on .*pid' a.err
# Whoever started the launcher of its node is told in their own error file.
same kept "$(cat started-by-a)" "the error file of node a's launcher"
same '{"message":{"message":"KeyError: 5","extraInfo":{},"errorCode":-11}}' \
    "$(cat started-by-b)" "the error file of node b's launcher"
python3 - <<'PY' || fail 'the JSON is not right'
import json
a, b = (json.load(open(f"report-{n}")) for n in "ab")
assert a["first_failure"] == b["first_failure"], (a, b)
f = a["first_failure"]
assert (f["rank"], f["local_rank"], f["signal_name"]) == (3, 1, "SIGSEGV"), f
assert f["error"] == "KeyError: 5" and not f["out_of_memory"], f
assert f["stderr"].splitlines()[-1] == "no newline", f
assert (a["status"], a["succeeded"], a["restarts"]) == (139, False, 1), a
assert a["consequences_in_all"] == {"sigterm": 3, "sigkill": 0,
    "other_signals": 0, "exit_codes": 0}, a
assert (a["stopped"], b["stopped"]) == (2, 1), (a, b)
for r, own in ((a, [0, 1]), (b, [2])):
    c = r["consequences"]
    assert [(w["rank"], w["local_rank"]) for w in c] == [
        (0, 0), (1, 1), (2, 0)], c
    assert {(w["node"], w["signal_name"]) for w in c} == {
        (a["node"], "SIGTERM")}, c
    assert [w["rank"] for w in c if "pid" in w] == own, c
assert f["traceback"] == "", f
t = a["time"]
parts = t["waiting_s"] + t["running_s"] + t["restarting_s"]
assert 0 < t["running_s"] and parts <= t["wall_s"] < 30, t
events = [json.loads(line) for line in open("events")]
mine = [e for e in events if e.get("rank", -1) in (2, 3)
        or e["event"] in ("end",)]
names = [e["event"] for e in mine]
assert names.count("started") == 4 and names.count("failed") == 2, names
assert names.count("exited") == 4 and names.count("end") == 2, names
assert all(e["time"].endswith("Z") and e["run"] == "none" for e in events)
assert {"joined", "sealed", "restarted", "stopped"} <= {
    e["event"] for e in events}, events
PY

# A worker that said nothing is not waited for: one of five ends at once.
best=1000
for try in 1 2 3 4 5; do
    began=$(now_ms)
    "$DDPRUN" sh -c 'exit 3' 2>it.err
    [ "$(took)" -ge $best ] || best=$(took)
done
has 'exit code 3' it.err
has_not 'last lines' it.err
in_time 90 $best 'a failure without a word'

# Nothing to tell, but asked for; and a place where nothing can be written.
launch 0 --report=fine true
mkfifo reports
exec 7<>reports # it has a reader from the first byte on
launch 0 --report=reports true
dd iflag=nonblock bs=64k <&7 >reported 2>dd.err || has 'unavailable' dd.err
[ -p reports ] || fail 'a file in the place of a FIFO'
has '"succeeded": true' reported
python3 -c 'import json
r = json.load(open("fine"))
assert r["succeeded"] and r["first_failure"] is None, r'
same '' "$(cat it.err)" 'what a success says'

# Names that are no UTF-8 leave it JSON.
launch 0 --rdzv_id="$(printf 'a\377b')" --report=odd --events=odd.events true
python3 -c 'import json
assert json.load(open("odd", "rb"))["run"] == "a\ufffdb"
assert {json.loads(e)["run"] for e in open("odd.events", "rb")} == {"a\ufffdb"}'

# Events into a pipe: by name, and by a descriptor as of a shell's >(command).
mkfifo pipe
exec 7<>pipe
launch 0 --events=pipe true
dd iflag=nonblock bs=64k <&7 >piped 2>dd.err || has 'unavailable' dd.err
exec 7<&-
launch 0 --events=/dev/fd/8 true 8>given
launch 0 --events=/dev/stdout true
for file in piped given it.out; do
    lines 1 '"event":"end"' $file
    lines 1 '"event":"connecting"' $file
done

# Both into the file that the workers' output goes to: nothing of it is lost.
# shellcheck disable=SC2016 # the worker's
launch 0 --report=/dev/stdout --events=/dev/stdout \
    sh -c 'for i in 1 2 3; do echo "line $i of it"; done'
lines 3 'line . of it' it.out
for event in connecting joined sealed started exited end; do
    lines 1 "^{\"time\".*\"event\":\"$event\".*}\$" it.out
done
lines 1 '"succeeded": true' it.out

# What cannot be written is an error at the start, and nothing else is left.
mkdir folder
for file in none/x folder fine/x /proc/x; do
    for option in report events; do
        launch 78 --$option=$file touch ran
        has "^ddprun: --$option=$file cannot be written: [NI]" it.err
    done
done
[ ! -e ran ] || fail 'a worker ran'
ln -s target link
mkdir free
for file in free/x fine link; do
    launch 0 --report=$file --events=free/events true
done
same 'events x' "$(ls free | tr '\n' ' ' | sed 's/ $//')" 'files'
has '"succeeded": true' target
# A dry run leaves nothing behind.
launch 0 --dry_run --report=free/y --events=free/z true
same 2 "$(ls free | wc -l)" 'files after a dry run'
# Later it is told, and the exit status is that of the run.
mkdir gone
launch 0 --report=gone/x rmdir gone
has 'cannot write the report to gone/x: No such file' it.err
# Of a full disk once, not with each event.
launch 0 --events=/dev/full true
lines 1 'cannot write to /dev/full: No space left.*; events that do not fit' \
    it.err
