#!/bin/sh
# The endpoint's name is asked of a server that never answers: does the launcher
# say that it waits, and end at once when it is told to? Of a name with two
# addresses, is one that refuses no proof that the other's server is gone?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

need_namespaces
command -v python3 >/dev/null || skip 'needs python3'
cat >mute.py <<'PY'
"""A name server that hears and says nothing; a port whose queue is full, so
that who connects hears nothing either."""
import os, socket, sys, time
dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
dns.bind(("127.0.0.1", 53))
tcp = socket.create_server(("127.0.0.1", 29400), backlog=0)
queue = [socket.socket() for i in range(4)]
for s in queue:
    s.setblocking(False)
    s.connect_ex(("127.0.0.1", 29400))
if os.fork():
    os.execvp(sys.argv[1], sys.argv[1:])
os.setsid()
time.sleep(100)
PY
echo 'nameserver 127.0.0.1' >resolv.conf
echo 'hosts: files dns' >nsswitch.conf
printf '127.0.0.1 localhost two\n::1 localhost two\n' >hosts
alone()
{
    background it unshare --net --mount sh -c 'ip link set lo up &&
        for file in resolv.conf nsswitch.conf hosts; do
            mount --bind $file /etc/$file || exit 1
        done && exec "$@"' sh python3 mute.py "$DDPRUN" --nnodes=2 \
        --rdzv_conf=is_host=0 "$@"
}
alone --rdzv_endpoint=some.host:29400 true
wait_for "the name 'some.host' .*still trying after 3 s" it.err
began=$(now_ms)
kill -TERM "$(pid_of it)"
ends_with 143 it 30
measured "the end while a name is asked for: $(($(now_ms) - began)) ms"
for pid in $(marked it); do kill "$pid"; done

# 127.0.0.1 does not answer, ::1 refuses.
alone --rdzv_endpoint=two:29400 --rdzv_conf=is_host=0,join_timeout=6 true
ends_with 69 it 30
has 'was not reached in .* s: no answer in 5 s' it.err
for pid in $(marked it); do kill "$pid"; done
