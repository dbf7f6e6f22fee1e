#!/bin/sh
# A node joins while another one trains: are the workers asked, so that they
# save and leave at a step, and does the larger world go on from that one? And
# when a node is told to leave, does the other one go on from where both were?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

# went_on WHY: the step at which they left is the one they resumed from.
went_on()
{
    left=$(cat ./*.out | grep "^asked to stop$1: saved at step [0-9]*$" |
        sed -n '$s/.* //p')
    [ -n "$left" ] || fail "nobody left at a step$1"
    eventually 30 has_said "^resuming from epoch [0-9]*, step $left (" ||
        fail "step $left was left, and nobody resumed from it"
}

port=$(free_port)
train_on "$port" 1:2 0 snap a
wait_listener "$port"
said '^epoch 1/8'
began=$(now_ms)
train_on "$port" 1:2 0 snap b
wait_round 2 4
measured "a node joins while another one trains, both run:" \
    "$(took_to 2) ms, without the loss of a step"
went_on ' (scale-up)'
! grep -q 'rank .*: \(signal\|exit code\)' a.err ||
    fail 'a worker that was asked to stop counts as failed'
said '^epoch 3/8'
kill -TERM "$(pid_of b)"
ends_with 143 b
wait_round 3 2
same '0 ' "$(values restarts 3)" restarts
ends_with 0 a 30
went_on '.*'
has_said '^resuming.*written in round 2' || fail 'not from round 2'
has 'parameters identical on all 2 ranks' a.out
nothing_left
