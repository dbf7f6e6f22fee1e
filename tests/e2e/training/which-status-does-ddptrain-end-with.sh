#!/bin/sh
# Does ddptrain end with the status that ddptrain(1) names, if the command line,
# the snapshot or the output is wrong?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
[ -x "$E2E_BIN/ddptrain" ] || skip 'ddptrain is not built'

# ends STATUS OPTION...: of one rank alone, which makes its own samples.
ends()
{
    status=$1
    shift
    "$E2E_BIN/ddptrain" 1 1 --snapshot_path=kept "$@" >it.out 2>it.err
    same "$status" $? "status with $*"
}

ends 2 --model=linear --lr=-1
ends 0 --model=linear --seed=1
# The snapshot is of another run: another seed or model.
ends 65 --model=linear --seed=2
has 'kept was written with seed 1, not 2' it.err
ends 65 --model=regression --seed=1
has 'if it is of another --model or --hidden' it.err
ends 66 --model=mlp --data=nowhere
for file in kept/*/*; do
    echo damage >"$file"
done
ends 67 --model=linear --seed=1
for what in --help --version; do
    "$E2E_BIN/ddptrain" $what >/dev/full 2>it.err
    same 74 $? "status of $what"
    has 'ddptrain: cannot write to standard output: No space left' it.err
    "$E2E_BIN/ddptrain" $what >it.out 2>it.err || fail "$what"
    same '' "$(cat it.err)" "stderr of $what"
done
nothing_left
