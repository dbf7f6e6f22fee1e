#!/bin/sh
# Each of two machines keeps snapshots on a disk of its own. The one with rank 0
# is lost with its disk, and another one, whose disk is empty, takes its place:
# does it get the newest snapshot from its peer, and is the end the same to the
# bit?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

# machine NAME TAG: a launcher there, with its own folder.
machine()
{
    # shellcheck disable=SC2086 # words
    node_on "$1" "$1" --nnodes=2 --nproc_per_node=2 --rdzv_id="$2" \
        --rdzv_endpoint=10.77.0.4:29500 \
        --rdzv_conf=heartbeat_timeout=1,reconnect_timeout=2 \
        ./train 7 1 $MODEL --save_steps=10 --snapshot_path="$E2E_DIR/$2-$1"
}

network first second third server
(in_machine server env "E2E_MARK=$E2E_DIR:server" "$DDPRDZVD" \
    --listen=10.77.0.4:29500) >server.out 2>server.err 9<&- &
wait_for 'serving on port' server.err
machine first whole
machine second whole
ends_with 0 first 30
ends_with 0 second
wanted=$(fingerprint)
for n in first second; do
    [ "$(ls whole-$n/step-*/*.safetensors | wc -l)" -ge 4 ] ||
        fail 'not each machine has its own snapshots'
done

rm -f ./first.out ./second.out
: >started
machine first torn
machine second torn
said '^epoch 2/'
lost=$(sed -n 's/^round=1 rank=0 .* node=\([a-z]*\) .*/\1/p' started)
stays=$([ "$lost" = first ] && echo second || echo first)
kill -KILL "$(pid_of "$lost")" "$(agent_of "$lost")"
rm -rf "torn-$lost"
machine third torn
wait_round 2 4 30
said "^resuming from epoch [0-9]*, step .*written in round 1" 20
ends_with 0 third 30
ends_with 0 "$stays"
measured "$(grep -h '^resum' ./*.out | tail -n 1)"
same "$wanted" "$(fingerprint)" fingerprint
[ -n "$(ls torn-third/step-*/*.safetensors)" ] ||
    fail 'the new machine keeps no snapshots'
nothing_left third
