#!/bin/sh
# Snapshots are for others to read, and tell which run wrote them. Can one who reads
# the folder end the run that writes there, on a rendezvous without a token, by saying
# that it has ended? Can one who knows what its members know? And does the run end by an
# order of the same stranger, as the trial would otherwise show nothing?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

command -v python3 >/dev/null || skip 'needs python3'
mv train worker # by which the stranger knows the run
port=$(free_port)
background d "$DDPRDZVD" --listen="127.0.0.1:$port"
wait_for 'serving on port' d.err
tapped=$(free_port)
background tap python3 "$E2E_LIB/tap.py" "$tapped" "$port" wire
wait_for ready tap.out
for n in a b; do
    # shellcheck disable=SC2086 # words
    node $n --nnodes=2 --rdzv_endpoint="127.0.0.1:$tapped" --rdzv_id=job \
        --rdzv_conf=is_host=0 ./worker 100000 1 $MODEL --save_steps=5 --snapshot_path=shared
done
state()
{
    python3 "$E2E_LIB/get.py" "$port" /status 'run["state"]'
}
is_over()
{
    [ "$(state)" != active ]
}

said '^snapshot saved'
owner=$(head -n 1 shared/owner)
written=$(grep -aoh '"ddp.instance":"[0-9a-f]*"' shared/step-*/* | head -n 1 |
    cut -d '"' -f 4)
same "$owner" "$written" 'the writer by the owner file, and by a header'
name=$(echo "$owner" | cut -c 1-16)
whole=$(grep -aoh "$name[0-9a-f]\{16\}" wire | head -n 1)
[ "${#whole}" -eq 32 ] || fail "no member is told the instance, but '$whole'"
[ "$owner" != "$whole" ] || fail "snapshots tell the whole instance, $whole"
# claim INSTANCE [TERM]: that it has ended. What is answered comes into `answer`.
claim()
{
    python3 "$E2E_LIB/stranger.py" "$port" ended "$@" >answer 2>&1 ||
        fail "$(cat answer)"
    has_not '^end' answer
    sleep 0.3
    same active "$(state)" 'the run'
    lines 2 '^round=' started
}
claim "$owner" # of another instance, as far as the server can see
same closed "$(cat answer)" 'the answer to what snapshots tell'
for guess in "$name" "$whole"; do
    claim "$guess"
    has '^refused .*the run did not end with status 0 as this node was told' answer
    claim "$guess" 1000 # by a later server
    has '^kept' answer
done

python3 "$E2E_LIB/stranger.py" "$port" order >answer 2>&1 || fail "$(cat answer)"
eventually 10 is_over || fail 'the run goes on, whatever the trial says'
all_end 84 a b
