#!/bin/sh
# ddpctl top --once of an idle daemon, of a run of two nodes with a long id and a
# failure behind it, and of the same run once the daemon was killed and started
# again: is all on the page, within 80 columns, and the round the same?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# fits: no line of ctl.out takes more than 80 columns.
fits()
{
    _widest=$(LC_ALL=C.UTF-8 wc -L <ctl.out)
    [ "$_widest" -le 80 ] || fail "a line of $_widest columns"
}

# shown PATTERN...: until top --once has a line of each. A node that has begun a round
# says so with its next beat.
is_shown()
{
    ctl 0 "127.0.0.1:$port" top --once
    for _pattern in "$@"; do
        grep -q -- "$_pattern" ctl.out || return 1
    done
}
shown()
{
    eventually 30 is_shown "$@" || {
        cat ctl.out
        fail "not all of it is shown: $*"
    }
    fits
}

port=$(free_port)
id=a-run-whose-id-$(printf '%090d' 7)-ends-so
daemon one "$port"
ctl 0 "127.0.0.1:$port" top --once
has "^127.0.0.1:$port: rendezvous .*, up [0-9]* s; 0 runs$" ctl.out
lines 2 . ctl.out
nodes "a b" --nnodes=2 --nproc_per_node=2 --max_restarts=1 --rdzv_id="$id" \
    --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
wait_round 1 4
kill -KILL "$(worker_of 3 1)"
wait_round 2 4
shown '^  a-run.*-so  *active  *2  2 of 2  *4' \
    '^  last failure: rank 3 on .* killed by SIGKILL, [0-9]* s ago' \
    '^ *0  .* running  *0-1 ' '^ *1  .* running  *2-3 '
ctl 0 "127.0.0.1:1,127.0.0.1:$port" top --once
has "^127.0.0.1:$port: rendezvous" ctl.out
ctl 2 "127.0.0.1:$port" top --once other
has "there is no run 'other'" ctl.out
ctl 2 "127.0.0.1:$port" status
has 'the text of status is gone: .ddpctl top --once. shows the same' ctl.out
ctl 2 "127.0.0.1:$port" top --all
has 'option --all is gone: .ddpctl top --once. shows every node' ctl.out
ctl 2 "127.0.0.1:$port" status --json other
has "there is no run 'other'" ctl.out
ctl 0 "127.0.0.1:$port" status --json "$id"
python3 -c 'import json, sys
r, = json.load(sys.stdin)["runs"]
assert r["round"] == 2 and len(r["nodes_list"]) == 2, r' <ctl.out ||
    fail 'the JSON is not what it should be'

kill -KILL "$(pid_of one)"
ends_with 137 one
ctl 69 "127.0.0.1:$port" top --once
for name in a b; do
    wait_for 'it is served at' $name.err
done
leader=$(sed -n 's/.*it is served at \([^ ]*\) from now on.*/\1/p' a.err | tail -n 1)
ctl 0 "$leader" top --once "$id"
fits
has '  active  *2  2 of 2  *4' ctl.out
has '^ *1  .* running  *2-3 ' ctl.out
lines 8 '^round=' started
open_gate
all_end 0 a b
daemon two "$port"
node alone --rdzv_endpoint="127.0.0.1:$port" "$WORKER" exit 0
ends_with 0 alone
ctl 0 "127.0.0.1:$port" top --once
fits
has "^127.0.0.1:$port: .*; 0 runs, 1 that ended$" ctl.out
has '  ended .* ago: all workers succeeded' ctl.out
kill -TERM "$(pid_of two)"
ends_with 0 two
nothing_left
