#!/bin/sh
# Without a token anybody may become a spare, and read /status. Can a stranger use
# what it is shown or told of a run, what workers are given, or even what members alone
# know, to end it for others, by saying that an earlier server had told so, or by an
# order to leave on all nodes? Is the same claim understood once the run has ended?
# Does Ctrl-C of a spare end the run, and does that of a member?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
port=$(free_port)
background d "$DDPRDZVD" --listen="127.0.0.1:$port" --orders=none
wait_for 'serving on port' d.err
tapped=$(free_port)
background tap python3 "$E2E_LIB/tap.py" "$tapped" "$port" wire
wait_for ready tap.out
nodes "a b" --nnodes=2 --rdzv_endpoint="127.0.0.1:$tapped" --rdzv_id=job \
    --rdzv_conf=is_host=0 "$WORKER" gate
wait_round 1 2
given=$(values instance 1)
given=${given% } # one, which is alike on both nodes
[ "${#given}" -eq 32 ] || fail "workers are given other instances: $given"
goes_on()
{
    sleep 0.3
    same active \
        "$(python3 "$E2E_LIB/get.py" "$port" /status 'run["state"]')" 'the run'
    lines 2 '^round=' started
}

shown=$(python3 "$E2E_LIB/get.py" "$port" /status 'run["instance"]')
[ "${#shown}" -ge 8 ] || fail "/status shows no instance, but '$shown'"
# What a member is told.
whole=$(grep -aoh "$shown[0-9a-f]*" wire | awk 'length($0) == 32' | head -n 1)
[ "${#whole}" -eq 32 ] || fail "no member is told the instance, but '$whole'"
python3 "$E2E_LIB/stranger.py" "$port" spare >spare 2>&1 || fail "$(cat spare)"
told=$(sed -n 's/^told //p' spare)
[ "${#told}" -ge 16 ] || fail "a spare is told no instance, but '$told'"
case $whole in
"$shown" | "$told" | "$given") fail "a stranger hears the whole instance, $whole" ;;
"$shown"*) ;;
*) fail "/status shows $shown of the instance $whole" ;;
esac
! grep -q "$whole" spare || fail 'a spare is told the whole instance'
zeros=00000000000000000000000000000000
# claim INSTANCE [TERM]: that it has ended. What is answered comes into `answer`.
claim()
{
    python3 "$E2E_LIB/stranger.py" "$port" ended "$@" >answer 2>&1 ||
        fail "$(cat answer)"
}
# Of another instance, as far as the server can see: it hangs up.
for guess in "$shown" "$given" "$told$(echo $zeros | cut -c "$((${#told} + 1))-")"; do
    claim "$guess"
    same closed "$(cat answer)" "the answer to $guess"
    goes_on
done
lines 3 'refused node=stranger: it was told of the end of another instance' d.err
# Of this one: the word of one node ends no run, though it knows what members know.
for guess in "$told" "$whole"; do
    claim "$guess"
    has '^refused .*the run did not end with status 0 as this node was told' answer
    has '^closed' answer
    has_not '^end' answer
    goes_on
    # Nor does that of a node that obeyed a later server: it waits, as others do.
    claim "$guess" 1000
    has '^kept' answer
    has_not '^end' answer
    goes_on
done
python3 "$E2E_LIB/stranger.py" "$port" leave >left 2>&1 || fail "$(cat left)"
goes_on

# A spare of ours.
node c --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" --rdzv_id=job "$WORKER" gate
wait_for 'spare' c.err
kill -INT "$pid_c"
ends_with 130 c
! grep -q 'lost the connection' c.err || fail 'the spare waits for an end'
goes_on

kill -INT "$pid_b"
all_end 130 b a
has 'ended by signal 2 (SIGINT) on node' a.err
# The same words, of a run that has ended: they are understood.
claim "$whole"
has '^end .*"status": 130' answer
kill -TERM "$pid_d"
ends_with 0 d
