#!/bin/sh
# A daemon with 200 descriptors, flooded from a machine in each protocol in turn,
# and then left with none at all: does nobody's lease run out, do new nodes get in at
# once (and /healthz, unless HTTP is flooded), does it use no time when nothing comes,
# and say why?
# limit: 60
# alone: one core floods, another one answers
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

for tool in python3 prlimit; do
    command -v $tool >/dev/null || skip "needs $tool"
done
network server a b bad
(in_machine server sh -c 'ulimit -n 200 && exec "$@"' sh \
    env "E2E_MARK=$E2E_DIR:d" "$DDPRDZVD" --listen=0.0.0.0:29500) \
    >d.out 2>d.err 9<&- &
pid_d=$!
wait_for 'serving on port' d.err
nodes_on "a b" --nnodes=2 --max_restarts=1 \
    --rdzv_endpoint=10.77.0.1:29500 --rdzv_conf=heartbeat_timeout=1 \
    "$WORKER" gate
wait_round 1 2
# Its own, and one for each node: not those far up, which a shell left open.
own=$(find "/proc/$pid_d/fd" -name '[0-9]' -o -name '[1-9][0-9]' | wc -l)
mkfifo go
flood()
{
    (in_machine bad python3 "$E2E_LIB/flood.py" 10.77.0.1 29500 "$1" <go) \
        >"bad$1.out" 2>"bad$1.err" 9<&- 6>&- &
    eval "pid_bad$1=$!"
    exec 6>go
    wait_for begins "bad$1.out"
    sleep 0.5
}
flood_ends()
{
    exec 6>&-
    end_of "bad$1"
    same 0 "$STATUS" "status of a flood, $1"
}
cpu_ticks()
{
    python3 -c 'import sys; f = open(sys.argv[1]).read().rsplit(")", 1)[1]
print(sum(map(int, f.split()[11:13])))' "/proc/$pid_d/stat"
}
# joins NAME LIMIT_MS: a job of one node runs through.
joins()
{
    began=$(now_ms)
    node_on a "$1" --nnodes=1 --rdzv_endpoint=10.77.0.1:29500 \
        --rdzv_id="$1" true
    ends_with 0 "$1" 30
    took=$(took)
    measured "$1: a job of one node took $took ms"
    in_time "$2" "$took" "$1: a node waited"
}
healthz()
{
    (in_machine a python3 -c 'from urllib.request import urlopen
print(urlopen("http://10.77.0.1:29500/healthz", timeout=30).read().decode())') \
        >healthz.out 2>healthz.err
}
for kind in silent ours tls http c10d; do
    flood $kind
    joins beside_$kind 3000
    # A flood of HTTP may fill HTTP's own places, but no others.
    if [ $kind != http ]; then
        # A client that is slow to say something gives way to others.
        eventually 5 healthz || fail "no healthz beside $kind"
        has ok healthz.out
    fi
    flood_ends $kind
done
# What nobody could foresee: there are fewer than it was promised.
prlimit --pid "$pid_d" --nofile="$own":200
flood silent
wait_for 'cannot accept connections: Too many open files' d.err
kill -STOP "$pid_badsilent" # they wait at the door
before=$(cpu_ticks)
sleep 1
spent=$(($(cpu_ticks) - before))
measured "$spent ticks of CPU in a second while nobody can come in"
[ "$spent" -lt 20 ] || fail 'it spins'
prlimit --pid "$pid_d" --nofile=200:200
joins after 5000
kill -CONT "$pid_badsilent"
flood_ends silent
lines 2 '^round=' started
has_not 'fenced' a.err
has_not 'lease' b.err
[ "$(grep -c 'connection from .* closed' d.err)" -le 80 ] ||
    fail 'strangers fill the log'
# Told every ten seconds.
wait_for 'more lines were left out' d.err 30
open_gate
all_end 0 a b
