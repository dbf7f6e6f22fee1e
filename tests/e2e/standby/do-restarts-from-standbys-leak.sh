#!/bin/sh
# After many restarts from standbys: are there no more processes, and have launcher
# and importer no more descriptors, threads and memory, than after five? 25 restarts;
# RESTARTS=1000 for the long run.
# limit: 900
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
command -v python3 >/dev/null || skip 'needs python3'
PATH=$(dirname "$(python3 -c 'import sys; print(sys.executable)')"):$PATH
last=${RESTARTS:-25}

cp "$E2E_LIB/standbys.py" .
cat >program.py <<'END'
import os, signal, sys, time
import standbys
attempt, rank = (int(os.environ[n]) for n in ("TORCHELASTIC_RESTART_COUNT", "RANK"))
standbys.wait(2)
if attempt in (5, int(sys.argv[1])):
    importer = standbys.stat_of(standbys.waiting(os.getppid())[0])[1]
    with open("held", "a") as file:
        file.write(f"attempt={attempt} rank={rank} importer={importer}\n")
    while not os.path.exists(f"go.{attempt}"):
        time.sleep(0.02)
if attempt == int(sys.argv[1]):
    sys.exit(0)
if rank == 0:
    os.kill(os.getpid(), signal.SIGKILL)
signal.pause()
END
# A build with AddressSanitizer keeps what was freed for a while.
export ASAN_OPTIONS="quarantine_size_mb=1:${ASAN_OPTIONS-}"
may_grow_kib=200
! ldd "$DDPRUN" | grep -q asan || may_grow_kib=4000
background it "$DDPRUN" --nproc_per_node=2 --max_restarts=2000 \
    --standby=json,multiprocessing.synchronize program.py "$last"

# look ATTEMPT: each process of the launcher and the importer, its descriptors,
# threads and KiB of memory; in another file how many processes there are.
look()
{
    wait_lines 2 "attempt=$1 " held $((30 + last))
    sleep 0.3
    for pid in $(marked it); do
        [ "$(cat "/proc/$pid/comm")" = ddprun ] || grep -q "importer=$pid$" held ||
            continue
        # shellcheck disable=SC2012 # numbers
        echo "$pid $(ls "/proc/$pid/fd" | wc -l) $(ls "/proc/$pid/task" | wc -l)" \
            "$(sed -n 's/^RssAnon:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status")"
    done | sort -n >"look.$1"
    marked it | wc -l >"all.$1"
}
look 5
: >go.5
look "$last"
cat "look.5" "look.$last"
[ "$(wc -l <look.5)" -ge 4 ] || fail 'guard, agent, server and importer were not found'
same "$(cut -d ' ' -f 1-3 look.5)" "$(cut -d ' ' -f 1-3 "look.$last")" \
    'processes, their descriptors and threads'
same "$(cat all.5)" "$(cat "all.$last")" 'processes of all kinds'
join look.5 "look.$last" | while read -r pid _ _ before _ _ after; do
    [ $((after - before)) -le $may_grow_kib ] ||
        fail "process $pid grew from $before to $after KiB"
done || exit 1
: >"go.$last"
ends_with 0 it
nothing_left
# On a busy machine one that answers late is replaced by a fresh start.
rounds=$(grep -c '2 of 2 workers started from a standby' it.err)
[ "$rounds" -ge $((last * 4 / 5)) ] ||
    fail "only $rounds of $last rounds began with standbys alone"
