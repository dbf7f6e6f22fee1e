#!/bin/sh
# A worker leaves a process behind that puts something away when it is asked to
# go: after success it can, and one that will not go is killed a second later;
# beats go on meanwhile. At a restart both are killed at once.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

cat >leaves <<'LEAVES'
#!/bin/sh
# leaves polite|stubborn STATUS
setsid sh -c '
    case $1 in
    polite) trap "sleep 0.3; echo put away >>\"$E2E_DIR/kept\"; exit" TERM ;;
    stubborn) trap "echo asked >>\"$E2E_DIR/asked\"" TERM ;;
    esac
    echo $1 >>"$E2E_DIR/there"
    while :; do sleep 0.02; done' sh "$1" &
until grep -qs "$1" "$E2E_DIR/there"; do sleep 0.01; done
sleep "${LINGER-0.05}"
exit "$2"
LEAVES
chmod +x leaves
none_outlives_it()
{
    same '' "$(marked it)" 'processes that outlive the launch'
}
launch 0 ./leaves polite 0
lines 1 'put away' kept
none_outlives_it

began=$(now_ms)
launch 0 ./leaves stubborn 0
took=$(took)
[ "$took" -ge 1000 ] || fail "it took $took ms"
in_time 3000 "$took" 'a sweep with a stubborn process'
none_outlives_it

rm kept
began=$(now_ms)
launch 3 --max_restarts=1 ./leaves polite 3
in_time 1000 "$(took)" 'a restart'
[ ! -e kept ] || fail 'it was asked at a restart'
none_outlives_it

# One node is done and sweeps for a second, while the other one works: a silence
# of 700 ms would be noticed.
port=$(free_port)
daemon d "$port"
for name in a b; do
    node $name --nnodes=2 --rdzv_conf=heartbeat_timeout=0.7 \
        --rdzv_endpoint="127.0.0.1:$port" ./leaves stubborn 0
    export LINGER=1.5
done
all_end 0 a b
for what in lost absent left 'round over'; do
    has_not " $what" d.err
done
kill "$(pid_of d)"
end_of d
unset LINGER
# Ctrl-C while it sweeps: no more grace.
rm there asked
node it ./leaves stubborn 0
wait_for asked asked
began=$(now_ms)
kill -INT "$(pid_of it)"
ends_with 0 it
in_time 500 "$(took)" 'the end after Ctrl-C'
none_outlives_it
