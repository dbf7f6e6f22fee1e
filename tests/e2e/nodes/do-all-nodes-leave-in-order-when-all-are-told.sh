#!/bin/sh
# SIGTERM to the launchers of all four nodes at once, as a scheduler does: is
# each worker asked once, does each launcher end with 143, is no new round
# begun, and does one that ignores the signal hold up its own node only?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

cat >polite <<'POLITE'
#!/bin/sh
[ "$RANK" != 5 ] || exec "$E2E_LIB/worker" stubborn
exec "$E2E_LIB/worker" report
POLITE
chmod +x polite
port=$(free_port)
daemon d "$port"
nodes "a b c e" --nnodes=1:4 --nproc_per_node=2 --max_restarts=3 \
    --shutdown_timeout=3 --rdzv_endpoint="127.0.0.1:$port" ./polite
wait_round 1 8
eventually 30 grep -q '^SigIgn:.*[4-7c-f]...$' "/proc/$(worker_of 5 1)/status"
slow=$(sed -n 's/^round=1 rank=5 .* node=\([a-z]\) .*/\1/p' started)
began=$(now_ms)
kill -TERM "$pid_a" "$pid_b" "$pid_c" "$pid_e"
for name in a b c e; do
    [ $name = "$slow" ] || ends_with 143 $name
done
others=$(took)
! is_gone "$(pid_of "$slow")" || fail 'the stubborn worker holds up other nodes'
ends_with 143 "$slow"
measured "SIGTERM to four launchers: three ended after $others ms, the one" \
    "with a stubborn worker and --shutdown_timeout=3 after $(took) ms"
[ "$(took)" -ge 2900 ] || fail 'the stubborn worker did not have its time'
same "$(printf 'term rank=%s\n' 0 1 2 3 4 6 7)" \
    "$(sed 's/ at=.*//' terms | sort)" 'workers that were asked'
lines 8 '^round=' started
for name in a b c e; do nothing_left $name; done
