#!/bin/sh
# A worker that writes to $DDP_PROGRESS_FILE gets on, as does one whose launcher was
# paused (Ctrl-Z); one that spins does not.
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

cat >writes <<'WRITES'
#!/bin/sh
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    echo "$i" >"$DDP_PROGRESS_FILE"
    sleep 0.2
done
WRITES
cat >spins <<'SPINS'
#!/usr/bin/python3
import sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    pass
SPINS
cat >beats_once <<'PRINTS'
#!/bin/sh
echo 1 >"$DDP_PROGRESS_FILE"
exec sleep 30
PRINTS
chmod +x writes spins beats_once
launch 0 --nproc_per_node=2 --hang_timeout=1.5,1.5 ./writes
launch 82 --hang_timeout=1.5 ./spins 30 # until its stacks are taken
launch 82 --hang_timeout=0,1.5 ./beats_once
has 'no beat for [1-9][.0-9]* s (--hang_timeout=0,1.5), its last beat was of step 1' it.err
cat >prints <<'PRINTS'
#!/bin/sh
i=0
while [ $i -lt "${2:-12}" ]; do
    printf . >&"${1:-2}"
    sleep 0.2
    i=$((i + 1))
done
PRINTS
chmod +x prints
launch 0 --hang_timeout=1.5 ./prints
launch 0 --hang_timeout=1.5 ./prints 1
launch 82 --hang_timeout=1.5 --stdout=inherit ./prints 1 150 # not ours to see
launch 0 --hang_timeout=1.5 -t 1 ./prints 1
launch 0 --hang_timeout=1.5 -r 1 ./prints 1
launch 0 --hang_timeout=0,1.5 sleep 2.4 # it never beat
nothing_left
# Time in which all are stopped is nobody's silence.
node it --hang_timeout=3 sleep 5
sleep 0.5
kill -TSTP "$(pid_of it)"
sleep 5
kill -CONT "$(pid_of it)"
ends_with 0 it
