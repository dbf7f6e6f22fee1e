#!/bin/sh
# The newest snapshot is damaged (flipped bits, cut off, empty): is the one
# before taken, is that said, and is the end the same to the bit?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

train_on "$(free_port)" 1 0 whole a
ends_with 0 a 20
wanted=$(fingerprint)

# A run that ends in the middle leaves a snapshot and the one before.
train_on "$(free_port)" 1 0 half a
said '^epoch 4/8'
kill -INT "$(pid_of a)"
end_of a
[ -s half ] && [ -s half.prev ] || fail 'no two snapshots'
for damage in flip cut empty; do
    cp half $damage
    cp half.prev $damage.prev
    size=$(wc -c <half)
    case $damage in
    flip)
        printf '\377' | dd of=flip bs=1 seek=$((size * 3 / 4)) conv=notrunc \
            2>/dev/null
        ;;
    cut) truncate -s $((size / 2)) cut ;;
    empty) : >empty ;;
    esac
    train_on "$(free_port)" 1 0 $damage a
    ends_with 0 a 20
    has "$damage is refused: .*taking $damage.prev instead" a.out
    has "^resuming from epoch .*$damage.prev" a.out
    same "$wanted" "$(fingerprint)" "fingerprint after $damage"
done
# Both are: better to say so than to begin anew as if nothing had been.
: >half
: >half.prev
train_on "$(free_port)" 1 0 half a
end_of a 20
[ "$STATUS" -eq 67 ] || fail "both snapshots damaged: status $STATUS"
