#!/bin/sh
# The newest snapshot is damaged (flipped bits, cut off, empty): is the one
# before taken, is that said, and is the end the same to the bit?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

train_on "$(free_port)" 1 0 whole a
ends_with 0 a 30
wanted=$(fingerprint)

two_snapshots()
{
    for file in half/step-*/shard-*-of-*.safetensors; do
        echo "${file%-of-*}"
    done | sed 's/.*shard-//' | sort | uniq -c | awk '$1 < 2 { exit 1 }'
}

# newest_whole DIR: the last file of the newest step of which both ranks' are there;
# the end may have come between the two of a step.
newest_whole()
{
    for last in "$1"/step-*/shard-00002-of-*.safetensors; do
        [ -e "${last%/*}/shard-00001-of-00002.safetensors" ] && echo "$last"
    done | tail -n 1
}

# A run that ends in the middle leaves a snapshot and the one before, a file of
# each rank, and older ones that it had no time to remove. A slow disk is behind
# the training: what is saved meanwhile is left out.
train_on "$(free_port)" 1 0 half a
said '^epoch 4/8'
eventually 30 two_snapshots || fail 'no two snapshots'
kill -INT "$(pid_of a)"
end_of a
for damage in flip cut empty; do
    cp -r half $damage
    newest=$(newest_whole $damage)
    size=$(wc -c <"$newest")
    case $damage in
    flip)
        printf '\377' | dd of="$newest" bs=1 seek=$((size * 3 / 4)) conv=notrunc \
            2>/dev/null
        ;;
    cut) truncate -s $((size / 2)) "$newest" ;;
    empty) : >"$newest" ;;
    esac
    train_on "$(free_port)" 1 0 $damage a
    ends_with 0 a 30
    has "^a newer snapshot is not whole.*$newest" a.out
    has "^resuming from epoch .*($damage" a.out
    same "$wanted" "$(fingerprint)" "fingerprint after $damage"
done
# Both are: better to say so than to begin anew as if nothing had been.
for file in half/*/*.safetensors; do
    : >"$file"
done
train_on "$(free_port)" 1 0 half a
ends_with 67 a 30
