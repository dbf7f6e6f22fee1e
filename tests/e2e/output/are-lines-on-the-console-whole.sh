#!/bin/sh
# Four workers write lines to both streams in pieces of any size, tee'd to one
# pipe that is read slowly now and then: is every line there, whole, in order,
# behind its prefix, and are the log files what the workers wrote?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
cat >talk.py <<'PY'
"""Writes lines to stdout and stderr, cut at random into pieces."""
import os, random, threading
rank = os.environ["RANK"]
def talk(fd, name):
    r = random.Random(f"{rank} {name}")
    text = "".join(f"{name} {rank} {i} {'x' * r.randrange(200)}.\n"
                   for i in range(20000)).encode()
    at = 0
    while at < len(text):
        n = r.choice((1, 7, 100, 5000, 70000))
        at += os.write(fd, text[at:at + n])
both = [threading.Thread(target=talk, args=a) for a in ((1, "out"), (2, "err"))]
[t.start() for t in both]
[t.join() for t in both]
PY
cat >judge.py <<'PY'
"""Reads a console from stdin, with pauses; judges it and the log files."""
import glob, os, random, re, sys, time
data, pause = b"", random.Random(1)
while piece := os.read(0, 65536):
    data += piece
    if pause.random() < 0.02:
        time.sleep(0.01)
line = re.compile(rb"\[default(\d)\]:(out|err) \1 (\d+) x*\.$")
then = {}
for text in data.split(b"\n")[:-1]:
    m = line.match(text)
    assert m, f"no line of a worker: {text[:200]}"
    key = m[1] + m[2]
    assert int(m[3]) == then.get(key, 0), f"not in order: {text[:80]}"
    then[key] = int(m[3]) + 1
assert then == {b"%d%s" % (r, n): 20000 for r in range(4)
                for n in (b"out", b"err")}, then
for r in range(4):
    for stream, name in (("stdout", b"out"), ("stderr", b"err")):
        path, = glob.glob(f"log/*/attempt_0/{r}/{stream}.log")
        mine = [t[11:] for t in data.split(b"\n")
                if t.startswith(b"[default%d]:%s" % (r, name))]
        assert open(path, "rb").read() == b"\n".join(mine) + b"\n", path
PY
mkfifo console
python3 judge.py <console >judged 2>&1 &
judge=$!
background it sh -c 'exec "$@" >console 2>&1' sh "$DDPRUN" --nproc_per_node=4 \
    --tee=3 --log_dir=log python3 talk.py
ends_with 0 it 40
wait $judge || fail "$(cat judged)"
