#!/bin/sh
# Of a launcher's processes only the agent and its server need the key that the
# token makes: is it in the memory of no other, be it the store, the relay, the
# guard or a worker? And is the token itself in none?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
umask 077
make_token token
cat >search.py <<'PY'
"""Which of these processes have the key, or the token, in their memory."""
import hashlib, hmac, sys

def mac(key, text):
    return hmac.new(key, text, hashlib.sha256).digest()

def memory(pid):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as mem:
        for line in maps:
            where, rights = line.split()[:2]
            if not rights.startswith("rw"):
                continue
            at, end = (int(x, 16) for x in where.split("-"))
            if end - at > 1 << 30:
                continue # where a sanitizer keeps its notes: terabytes
            mem.seek(at)
            yield mem.read(end - at)

token = open(sys.argv[1], "rb").read().strip()
key = mac(mac(b"ddprun control connection, key 1", token), b"\x01")
for pid in sys.argv[2:]:
    all_of_it = b"".join(memory(pid))
    print(pid, "key" if key in all_of_it else "no-key",
          "token" if token in all_of_it else "no-token")
PY
port=$(free_port)
node a --nproc_per_node=2 --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_token_file=token -t 3 "$WORKER" gate
wait_round 1 2
# Somebody wants the store: now there is one.
master=$(values master 1)
master=${master% }
python3 - "${master##*:}" <<'PY'
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30)
s.sendall(b"\x09") # c10d's PING, or nothing
PY

# ours PARENT: the launcher's own processes below it.
ours()
{
    for _pid in $(cat "/proc/$1/task/$1/children"); do
        [ "$(readlink "/proc/$_pid/exe")" != "$(readlink -f "$DDPRUN_FILE")" ] ||
            echo "$_pid"
    done
}

guard=$(pid_of a)
janitor=$(ours "$guard")
agent=$(ours "$janitor")
has_helpers()
{
    [ "$(ours "$agent" | wc -l)" -eq 3 ]
}
eventually 30 has_helpers || fail "no server, store and relay: $(ours "$agent")"
# shellcheck disable=SC2046 # pids
python3 search.py token "$guard" "$janitor" "$agent" $(ours "$agent") \
    "$(worker_of 0 1)" >found 2>search.err || {
    ! tail -n 1 search.err | grep -q '^PermissionError' ||
        skip "no process may read another's memory here"
    fail 'their memory cannot be searched'
}
lines 7 'no-token' found
lines 2 ' key ' found
has "^$agent key " found
has "^$guard no-key " found
has "^$janitor no-key " found
open_gate
ends_with 0 a
