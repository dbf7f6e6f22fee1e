#!/bin/sh
# Two launchers with one token, of which one serves: do they meet, does a node
# that is lost count as lost at once, and does no worker learn of the token?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

umask 077
make_token token
secret=$(cat token)
port=$(free_port)
cat >look <<'EOW'
#!/bin/sh
env >"$E2E_DIR/env.$RANK"
exec "$WORKER" gate
EOW
chmod 700 look
export WORKER
export DDPRUN_TOKEN_FILE="$E2E_DIR/token"
nodes "a b" --nnodes=1:2 --max_restarts=1 \
    --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_conf=last_call_timeout=20 ./look
wait_round 1 2
for file in env.0 env.1; do
    has '^RANK=' $file
    has_not TOKEN $file
    has_not "$secret" $file
done
for pid in $(marked); do
    tr '\0' ' ' <"/proc/$pid/cmdline" >cmdline
    has_not "$secret" cmdline
done
# The one that does not serve is killed: its guard proves that all there is
# dead, and nobody has to wait for its lease.
victim=a other=b
grep -q 'group=0 .* node=a ' started && victim=b other=a
began=$(now_ms)
kill -KILL "$(agent_of $victim)"
ends_with 137 $victim
wait_round 2 1
took=$(took_to 2)
measured "agent killed, the other goes on after $took ms (with a token)"
in_time 2000 "$took" 'the round after the loss'
same '0 ' "$(values restarts 2)" restarts
open_gate
ends_with 0 $other
nothing_left
