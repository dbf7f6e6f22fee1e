#!/bin/sh
# After a thousand restarts with workers that leave children behind: do launcher,
# agent and server hold no more descriptors, threads, memory and zombies than after
# fifty?
# limit: 120
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# Rank 0 of attempts 50 and 1000 holds, for us to look; else it fails at once.
cat >fails <<'FAILS'
#!/bin/sh
case $TORCHELASTIC_RESTART_COUNT in
50 | 1000)
    echo "round=$TORCHELASTIC_RESTART_COUNT" >>"$E2E_DIR/started"
    read -r line <"$E2E_DIR/gate.$TORCHELASTIC_RESTART_COUNT"
    ;;
*) sleep 100 & ;;
esac
[ "$TORCHELASTIC_RESTART_COUNT" = 1000 ]
FAILS
chmod +x fails
# A build with AddressSanitizer keeps what was freed for a while.
export ASAN_OPTIONS="quarantine_size_mb=1:${ASAN_OPTIONS-}"
may_grow_kib=200
! ldd "$DDPRUN" | grep -q asan ||
    may_grow_kib=4000
mkfifo gate.50 gate.1000 && exec 7<>gate.50 8<>gate.1000
background it "$DDPRUN" --nproc_per_node=1 --max_restarts=2000 ./fails 7<&- 8<&-

# look FILE: for each process of the launch its descriptors, threads and KiB of
# memory.
look()
{
    for pid in $(marked it); do
        [ "$(cat "/proc/$pid/comm")" = ddprun ] || continue
        # shellcheck disable=SC2012 # numbers
        echo "$pid $(ls "/proc/$pid/fd" | wc -l) $(ls "/proc/$pid/task" | wc -l)" \
            "$(sed -n 's/^RssAnon:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status")"
    done | sort -n >"$1"
    # One that died just now is not reaped yet: only those that stay count.
    for _try in 1 2 3 4 5 6 7 8 9 10; do
        zombies=$(ps -o state= --ppid "$(cut -d ' ' -f 1 "$1" |
            paste -sd,)" | grep -c Z)
        [ "$zombies" -gt 0 ] || return 0
        sleep 0.02
    done
    fail "zombies: $zombies"
}
wait_for 'round=50$' started 30
sleep 0.1
look early
echo >&7
began=$(now_ms)
wait_for 'round=1000$' started 90
measured "a restart, one of 950: $((($(now_ms) - began) / 950)) ms"
sleep 0.1
look late
cat early late
[ "$(wc -l <early)" -ge 3 ] || fail 'guard, agent and server were not found'
same "$(cut -d ' ' -f 1-3 early)" "$(cut -d ' ' -f 1-3 late)" \
    'processes, their descriptors and threads'
join early late | while read -r pid _ _ before _ _ after; do
    [ $((after - before)) -le $may_grow_kib ] ||
        fail "process $pid grew from $before to $after KiB"
done || exit 1
same 1 "$(marked it | while read -r pid; do cat "/proc/$pid/comm"; done |
    grep -c fails)" 'workers'
echo >&8
ends_with 0 it
nothing_left
