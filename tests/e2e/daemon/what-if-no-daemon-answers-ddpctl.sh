#!/bin/sh
# Nobody there, a name without an address, servers that answer nonsense, never,
# or without end; a daemon that dies while it is watched on a
# pipe: is each explained in a sentence, in time?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

cat >false.py <<'PY'
# false.py PORT HOW: a server that is none of ours.
import socket, sys, threading, time
answers = {
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "http": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    "json": b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100000,
    "cut": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"runs\":[]}",
    "esc": b"HTTP/1.1 200 OK\r\n\r\n" + b'{"version":"\\u001b[31m","uptime_s":'
           b'1,"runs":[{"id":"\\u001b]0;evil\\u0007","state":"active"}]}',
    "frame": b"\xddddprun\x01\xff\xff\xff\xff",
    "close": b"",
    "endless": b"HTTP/1.1 200 OK\r\n\r\n",
}
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
def serve(c):
    try:
        if sys.argv[2] == "silent":
            time.sleep(60)
        c.recv(4096)
        c.sendall(answers[sys.argv[2]])
        while sys.argv[2] == "endless":
            c.sendall(b"x" * 1000000)
        time.sleep(0.1)
    except OSError:
        pass
    c.close()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],),
                     daemon=True).start()
PY
# false_server NAME HOW: its port is in `port`.
false_server()
{
    port=$(free_port)
    background "$1" python3 false.py "$port" "$2"
    wait_for ready "$1.out"
}

false_server silent silent
background s1 "$DDPCTL" --endpoint="127.0.0.1:$port" --timeout=1 status --json
background s2 "$DDPCTL" --endpoint="127.0.0.1:$port" --timeout=1 end x

ctl 69 "127.0.0.1:$(free_port)" top --once
has 'no rendezvous at .*: Connection refused. Check that ddprdzvd' ctl.out
ctl 69 "127.0.0.1:$(free_port)" end x
has 'Connection refused' ctl.out
ctl 69 "no-such-host.invalid:1" top --once
has 'does not resolve' ctl.out
ctl 2 "127.0.0.1:1" statsu
has "unknown command 'statsu' (did you mean 'status'?): the commands are status, .*end and go-on\$" ctl.out
ctl 2 "127.0.0.1:99999" top --once
has_not '^$' ctl.out

# The page waits for one; what it shows then is said here as well, once.
background page "$DDPCTL" --endpoint="127.0.0.1:$(free_port)" page
wait_for 'Ctrl-C ends it' page.err
lines 1 'no rendezvous at 127.0.0.1:[0-9]*: Connection refused' page.err
kill -TERM "$(pid_of page)"
ends_with 143 page 30

for how in ssh http json cut frame; do
    false_server f_$how $how
    ctl 76 "127.0.0.1:$port" top --once
    lines 1 . ctl.out
done
false_server x_ssh ssh
ctl 76 "127.0.0.1:$port" drain x
false_server x_frame frame
ctl 76 "127.0.0.1:$port" drain x
false_server x_close close
ctl 69 "127.0.0.1:$port" end x
has 'closed without an answer' ctl.out
false_server x_esc esc
ctl 0 "127.0.0.1:$port" top --once
has '?\]0;evil?' ctl.out
has_not "$(printf '\033')" ctl.out
false_server x_endless endless
ctl 76 "127.0.0.1:$port" top --once
has 'longer than 64 MB' ctl.out

# Watched on a pipe: pages, a line when it goes, pages again; Ctrl-C ends it.
port=$(free_port)
daemon one "$port"
background w "$DDPCTL" --endpoint="127.0.0.1:$port" top --delay=0.1
wait_lines 2 'nothing runs here' w.out
kill -KILL "$(pid_of one)"
ends_with 137 one
wait_for 'does not answer, still trying: Connection refused' w.err
: >one.err
daemon two "$port"
sleep 0.3
lines 1 'does not answer' w.err
before=$(grep -c 'nothing runs here' w.out)
wait_lines $((before + 2)) 'nothing runs here' w.out
kill -TERM "$(pid_of w)"
ends_with 143 w 30

all_end 69 s1 s2
has 'no answer in time' s1.err
has 'no answer in time' s2.err
