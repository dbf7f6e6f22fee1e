#!/bin/sh
# The disk of the snapshots is full and then has room again, the folder is
# removed, another job takes it, strange files lie in it: do saves go on where
# they can, is each trouble told once by each rank, and is nothing lost that was
# saved?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"
. "$E2E_LIB/trainer.sh"

case $MODEL in
*mlp*) ;;
*) skip 'needs the images: the snapshots of the other model are tiny' ;;
esac

# job NAME FOLDER: saves all the time.
job()
{
    # shellcheck disable=SC2086 # words
    node "$1" --standalone --nproc_per_node=2 ./train 1000 1 $MODEL \
        --save_steps=5 --snapshot_path="$2"
}

saved_by()
{
    cat "$1.out" 2>/dev/null | grep -c '^snapshot saved'
}

saves_more()
{
    [ "$(saved_by "$1")" -gt "$saved" ]
}

# saves NAME: a snapshot that was not there yet.
saves()
{
    saved=$(saved_by "$1")
    eventually 30 saves_more "$1" || fail "$1 saves no more"
}

small_disk disk 16M
job full disk/snap
saves full
dd if=/dev/zero of=disk/others bs=1M 2>dd.err
wait_for 'snapshot not saved' full.err
wait_for 'No space left' full.err
sleep 0.5
lines 2 'snapshot not saved' full.err
rm disk/others
saves full
rm -r disk/snap
for _ in 1 2 3; do saves full; done # the first may have gone with the folder
kill -TERM "$(pid_of full)"
ends_with 143 full
has '^asked to stop: saved at step' full.out
lines 2 'No space left' full.err
# The folder may have gone between a file's last byte and its new name.
[ "$(grep 'snapshot not saved' full.err |
    grep -vc 'No space left\|rename the new file into place: No such file')" -eq 0 ] ||
    fail 'a save failed for another reason'
kept=$(ls disk/snap | grep -c '^step')
[ "$kept" -eq 2 ] || [ "$kept" -eq 3 ] ||
    fail "$kept snapshots in the folder made again: two, and the last one"

# Another job takes the folder over while the first one runs: the first is told
# so, once, trains on, and its snapshots are what the other goes on from.
job first shared
saves first
job second shared
saves second
has '^resuming .* of another run' second.out
wait_for 'another run .* has taken the folder over' first.err
owned=$(head -n 1 shared/owner | cut -c 1-8)
saves second
same "$owned" "$(head -n 1 shared/owner | cut -c 1-8)" owner
newest=$(ls shared | grep '^step' | tail -n 1)
case $newest in
*".$owned") ;;
*) fail "the newest is $newest, and the owner $owned" ;;
esac
kill -TERM "$(pid_of second)" "$(pid_of first)"
all_end 143 second first
lines 2 'snapshot not saved' first.err
has '^asked to stop: leaving after step' first.out

# Names of newer snapshots that are none: the newest whole one is taken, and
# what is saved then is not removed for them.
round=$(echo "$newest" | sed 's/.*\.r\([0-9]*\)\..*/\1/')
strange()
{
    printf 'shared/step-0009999999%02d.r%d.%s%s' "$1" "$round" "$owned" \
        "${2-.safetensors}"
}
mkfifo "$(strange 1)"
mkdir "$(strange 2)"
ln -s /etc/passwd "$(strange 3)"
ln -s /dev/zero "$(strange 4)"
ln -s "$(basename "$(strange 5)")" "$(strange 5)"
mkfifo "$(strange 6 '')"
ln -s / "$(strange 7 '')"
mkdir "$(strange 8 '')" "$(strange 9 '')"
: >"$(strange 8 '')/shard-00001-of-00002.safetensors"
i=10
while [ $i -lt 100 ]; do
    : >"$(strange $i)"
    i=$((i + 1))
done
job third shared
saves third
has '^a newer snapshot is not whole' third.out
has '^resuming .* of another run' third.out
kill_node third
end_of third
whole=$(sed -n 's/^snapshot saved: .* step \([0-9]*\) .*/\1/p' third.out |
    tail -n 1)
job fourth shared
saves fourth
from=$(sed -n 's/^resuming .* step \([0-9]*\) .*/\1/p' fourth.out)
[ "$from" -ge "$whole" ] || fail "goes on from $from, and $whole was saved"
kill -TERM "$(pid_of fourth)"
ends_with 143 fourth
nothing_left
