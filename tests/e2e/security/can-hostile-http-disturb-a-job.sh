#!/bin/sh
# Requests that crawl, that never end, that are none, five hundred idle
# connections, a reader that stops: is a job with a heartbeat of half a second
# undisturbed, and is everybody else still answered?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
port=$(free_port)
daemon d "$port"
nodes "a b" --nnodes=2 --rdzv_conf=heartbeat_timeout=0.5 \
    --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
wait_round 1 2
cat >hostile.py <<'PY'
import http.client, os, random, socket, struct, sys, threading, time
port, pid = int(sys.argv[1]), sys.argv[2]
random.seed(3)

def dial():
    return socket.create_connection(("127.0.0.1", port), timeout=10)

def read_all(s):
    out = b""
    try:
        while True:
            more = s.recv(65536)
            if not more:
                return out
            out += more
    except OSError:
        return out

def ask(data, half_close=False):
    with dial() as s:
        try:
            s.sendall(data)
            if half_close:
                s.shutdown(socket.SHUT_WR)
        except OSError:
            pass # it has answered already, and closed
        return read_all(s)

def status(data, want, **how):
    got = ask(data, **how)
    assert got.startswith(b"HTTP/1.1 %d " % want), (data[:60], got[:80])

def memory_kb():
    for line in open("/proc/%s/status" % pid):
        if line.startswith("VmRSS"):
            return int(line.split()[1])

def healthy():
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    link.request("GET", "/healthz")
    return link.getresponse().read() == b"ok\n"

host = b"Host: localhost\r\n\r\n"
before_kb = memory_kb()
# Not one of these is understood as something else.
status(b"GET / HTTP/1.1\r\n\r\n", 400)
status(b"GET /\r\n\r\n", 400)
status(b"GET / HTTP/1.1\r\nA: b\r\n c\r\n" + host, 400)
status(b"GET / HTTP/1.1\r\nA : b\r\n" + host, 400)
status(b"PRI * HTTP/2.0\r\n\r\n", 505)
status(b"GET /" + b"a" * 2000 + b" HTTP/1.1\r\n" + host, 414)
status(b"GET / HTTP/1.1\r\nA: " + b"a" * 10000, 431)
status(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 3000, 431)
status(b"POST /status HTTP/1.1\r\nContent-Length: 9\r\n" + host + b"x" * 9, 405)
status(b"DELETE / HTTP/1.1\r\n" + host, 405)
status(b"OPTIONS * HTTP/1.1\r\n" + host, 405)
status(b"GET /status HTTP/1.1\r\n" + host, 200, half_close=True)
# Ten megabytes of header, and of body, are not read to their end.
status(b"GET / HTTP/1.1\r\nA: " + b"a" * 10_000_000, 431)
status(b"POST / HTTP/1.1\r\n" + host + b"x" * 10_000_000, 405)
# One answer a connection, however much is asked on it.
assert ask((b"GET /healthz HTTP/1.1\r\n" + host) * 300).count(b"HTTP/1.1") == 1
for i in range(300):
    ask(random.choice([b"GET ", b"A", b"HEAD / "]) +
        random.randbytes(random.randrange(200)) + b"\r\n\r\n",
        half_close=True)
# All of the table is taken by those who crawl; some of them read nothing.
crawl = []
for i in range(48): # 64, less those of /events
    s = dial()
    s.sendall(b"GET /status HTTP/1.1\r\nA: ")
    crawl.append(s)
idle = [dial() for i in range(500)]
time.sleep(1.1) # whoever crawls has a second
assert all(healthy() for i in range(20))
def crumbs():
    for i in range(40):
        for s in crawl:
            try:
                s.send(b"a")
            except OSError:
                pass # it had its time
        time.sleep(0.1)
thread = threading.Thread(target=crumbs)
thread.start()
# And many ask at once, as fast as they can.
answers = {}
until = time.monotonic() + 3
def hammer():
    while time.monotonic() < until:
        got = ask(b"GET /status HTTP/1.0\r\n\r\n")[9:12]
        answers[got] = answers.get(got, 0) + 1
threads = [threading.Thread(target=hammer) for i in range(8)]
for t in threads:
    t.start()
while time.monotonic() < until:
    assert healthy()
    time.sleep(0.1)
for t in threads + [thread]:
    t.join()
assert answers.get(b"200", 0) > 10, answers
time.sleep(1.5)
for s in crawl: # told, or cut off to make room
    s.settimeout(30)
    assert read_all(s)[:12] in (b"", b"HTTP/1.1 408")
assert healthy()
grown_kb = memory_kb() - before_kb
if "E2E_SANITIZED" not in os.environ: # they keep what was freed
    assert grown_kb < 8192, grown_kb
print("hostile for", round(time.monotonic() - until + 3), "s;",
      sum(answers.values()), "requests; memory grew by", grown_kb, "KB")
PY
python3 hostile.py "$port" "$(pid_of d)" >hostile.out 2>hostile.err ||
    fail 'see hostile.err'
measured "$(cat hostile.out)"
lines 2 '^round=' started
has_not lost d.err
has_not absent d.err
# The next failure is dealt with at once.
kill -KILL "$(worker_of 0 1)"
all_end 137 a b
[ "$(grep -c 'connection from .* closed' d.err)" -le 60 ] ||
    fail 'strangers fill the log'
