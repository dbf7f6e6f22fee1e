#!/bin/sh
# Does make check-gpu, which nobody can try without a GPU, work the first time?
# All of it is played, small, on the stand-in driver and NCCL.
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

[ -x "$E2E_BIN/ddptrain-emulated" ] ||
    skip 'ddptrain-emulated is not built (no nccl.h or no C++ compiler)'
port=$(free_port)
STAND_INS=$E2E_BIN PROGRAMS=$E2E_BIN PORT=$port "$E2E_LIB/../../gpu/run" "$E2E_BIN" >out 2>&1 ||
    fail "it ended with $?: $(cat out)"

# has ROW: with a number, in the table.
has()
{
    grep -qE "^\| $1 \| [0-9.-]+ \|" out || fail "no row '$1': $(cat out)"
}
grep -q '^make check-gpu, [0-9-]*, stand-in$' out || fail 'no heading'
grep -q 'the same to the bit' out || fail 'two ranks were not compared'
for gb in 0.001 0.002; do
    has "snapshot of $gb GB: a step of [0-9]+ ms waits \(ms\)"
    has "snapshot of $gb GB: one step in ten waits \(ms\)"
    has "snapshot of $gb GB: to memory \(MB/s\)"
    has "snapshot of $gb GB: to the disk \(MB/s\)"
done
has 'a worker is killed: the next step is done after \(ms\), state of 0.001 GB'
for bytes in 4096 262144; do
    has "all-reduce of $bytes bytes, 2 ranks \(us\)"
    has "all-reduce of $bytes bytes, enqueued, then waited for \(us\)"
done
has 'training, regression, batch 64 \(samples/s\)'

# And where there is no GPU it says so.
PROGRAMS=$E2E_BIN "$E2E_LIB/../../gpu/run" "$E2E_BIN" >out 2>&1 ||
    fail "without a GPU: $(cat out)"
nothing_left
