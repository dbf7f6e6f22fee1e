#!/bin/sh
# A page of evil.example, whose name leads to the daemon (DNS rebinding), has a
# browser ask for /status: does it learn no name of a run or node, from a daemon
# and from a launcher that serves, while addresses, localhost, the host's own
# name, the endpoint's and those of --http_hosts are answered, and ddpctl?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
cat >ask.py <<'PY'
"""GETs as browsers do whose pages are at some host: ask.py ADDRESS PORT NAME..."""
import http.client, sys
address, port, names = sys.argv[1], int(sys.argv[2]), sys.argv[3:]

def ask(host, target):
    link = http.client.HTTPConnection(address, port, timeout=30)
    link.putrequest("GET", target, skip_host=True)
    link.putheader("Host", host)
    link.endheaders()
    answer = link.getresponse()
    return answer.status, answer.read().decode()

for host in ("evil.example", "evil.example:%d" % port,
             "127.0.0.1.evil.example", names[0] + ".evil.example"):
    for target in ("/status", "/metrics", "/", "/events"):
        status, text = ask(host, target)
        assert status == 403, (host, target, status)
        assert "http_hosts=NAME" in text and "secretjob" not in text, text
    assert ask(host, "/healthz") == (200, "ok\n"), host
for host in ["127.0.0.1:%d" % port, "[::1]", "localhost"] + names:
    status, text = ask(host, "/status")
    assert status == 200 and "secretjob" in text, (host, status)
print("asked")
PY
# shows_only_to_friends NAME: what every server does.
shows_only_to_friends()
{
    python3 ask.py 127.0.0.1 "$port" "$(uname -n)" "$1" >got 2>&1 || {
        cat got
        fail 'see above'
    }
    ctl 0 "127.0.0.1:$port" top --once
    has secretjob ctl.out
}
port=$(free_port)
background d "$DDPRDZVD" --listen="127.0.0.1:$port" \
    --http_hosts=metrics.example,head.example
wait_for 'serving on port' d.err
node a --rdzv_id=secretjob --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
wait_round 1 1
shows_only_to_friends "Head.Example:$port"
open_gate
ends_with 0 a
kill -TERM "$(pid_of d)"
ends_with 0 d

: >started
close_gate
port=$(free_port)
node a --rdzv_id=secretjob --rdzv_endpoint="localhost:$port" \
    --http_hosts=head.example "$WORKER" gate
wait_round 1 1
shows_only_to_friends head.example
open_gate
ends_with 0 a

background wrong "$DDPRDZVD" --http_hosts='http://head'
ends_with 2 wrong
has 'is not a list of host names' wrong.err
launch 2 --http_hosts=a:80 true
has 'is not a list of host names' it.err

# The name in --listen, and that in --rdzv_endpoint, is one of ours, too.
network head
echo '10.77.0.1 alias.example' >>hosts
named()
{
    (in_machine head python3 ask.py 10.77.0.1 29500 head \
        alias.example:29500) >got 2>&1 || {
        cat got
        fail 'see above'
    }
}
: >started
close_gate
(in_machine head env "E2E_MARK=$E2E_DIR:g" "$DDPRDZVD" \
    --listen=alias.example:29500) >g.out 2>g.err 9<&- &
pid_g=$!
wait_for 'serving on port' g.err
node_on head n --nnodes=1 --rdzv_id=secretjob \
    --rdzv_endpoint=alias.example:29500 "$WORKER" gate
wait_round 1 1
named
open_gate
ends_with 0 n
kill -TERM $pid_g
ends_with 0 g
: >started
close_gate
node_on head n --nnodes=1 --rdzv_id=secretjob \
    --rdzv_endpoint=alias.example:29500 "$WORKER" gate
wait_round 1 1
named
open_gate
ends_with 0 n
