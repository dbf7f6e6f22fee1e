#!/bin/sh
# Two nodes train, one worker is killed in the middle: does training go on from
# the snapshot, and are the parameters at the end equal to the bit to those of a
# run that nobody disturbed?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

epochs=11
train_on "$(free_port)" 2 0 undisturbed a b
ends_with 0 a 30
ends_with 0 b
wanted=$(fingerprint)
[ -n "$wanted" ] || fail 'no fingerprint'
has 'parameters identical on all 4 ranks' "$(grep -l '^fingerprint' ./*.out)"

rm -f ./*.out
: >started
train_on "$(free_port)" 2 3 killed a b
said '^epoch 3/'
kill -KILL "$(worker_of 3 1)"
wait_round 2 4
said '^resum.*epoch [34].*step'
said '^epoch 6/'
kill -KILL "$(worker_of 0 2)"
ends_with 0 a 30
ends_with 0 b
measured "$(grep -h '^resum' ./*.out | tail -n 1)"
lines 4 '^round=3 .* restarts=2 ' started
same "$wanted" "$(fingerprint)" fingerprint
has 'parameters identical on all 4 ranks' "$(grep -l '^fingerprint' ./*.out)"
nothing_left
