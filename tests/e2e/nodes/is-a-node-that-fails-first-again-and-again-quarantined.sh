#!/bin/sh
# --node_strikes=2: the workers of node a are the first to fail, twice: does a
# spare take its place, is that told everywhere, and does it come back where the
# run needs it? One that is needed from the beginning stays.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

cat >bad_on_a <<'BAD'
#!/bin/sh
echo "round=$DDP_ROUND node=$NODE" >>"$E2E_DIR/attempts"
until [ -e "$E2E_DIR/all_here" ]; do sleep 0.01; done
[ "$NODE" != a ] || [ "$DDP_ROUND" -gt "$BAD_UP_TO" ] || exit 9
read -r _ <"$E2E_DIR/gate"
BAD
chmod +x bad_on_a
export BAD_UP_TO=2
port=$(free_port)
daemon d "$port"
for name in a b c; do
    export NODE=$name
    node "$name" --nnodes=2 --max_restarts=9 --node_strikes=2/1h \
        --rdzv_endpoint="127.0.0.1:$port" ./bad_on_a
    [ "$name" != b ] || wait_lines 2 '^round=1' attempts
done
wait_for 'waits as a spare' c.err
: >all_here
wait_lines 2 '^round=3' attempts
lines 0 '^round=3 node=a' attempts
has 'quarantined node=.*was slow, 2 times in a row; for 3600000 ms' d.err
wait_for 'this node is quarantined for 3600 s: its workers were the first to fail, or one of them was slow, 2 times in a row' a.err
ctl 0 "127.0.0.1:$port" top --once
has ' quarantined  .* 2  ' ctl.out
# It comes back as what it was to a member that takes over from the daemon.
kill -KILL "$(pid_of d)"
ends_with 137 d
for name in a b c; do
    wait_for 'connected to the rendezvous again' $name.err
done
shows_it()
{
    served_at=$(sed -n 's/.*it is served at \([0-9.:]*\) from now on.*/\1/p' b.err)
    ctl 0 "$served_at" top --once
    grep -q ' quarantined  .* 2  ' ctl.out
}
eventually 10 shows_it || fail "no quarantine is shown: $(cat ctl.out)"
kill -KILL "$(pid_of c)"
wait_lines 2 '^round=4' attempts
lines 1 '^round=4 node=a' attempts
open_gate
all_end 0 a b
end_of c
nothing_left

rm attempts
close_gate
BAD_UP_TO=99
NODE=a
launch 9 --max_restarts=2 --node_strikes=1 ./bad_on_a
lines 3 '^round=.* node=a' attempts
has_not 'quarantined' it.err
launch 2 --node_strikes=often true
has 'node_strikes=often: must be a whole number' it.err
nothing_left
