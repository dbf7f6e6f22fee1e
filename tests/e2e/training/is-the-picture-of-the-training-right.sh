#!/bin/sh
# --plot: does the picture show the loss of every tenth step once, also when a
# worker was killed, and where training went on? And is a gnuplot that is not
# there told, and no harm?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

mkdir bin
for tool in sh date cat; do # all that ./train needs, and no gnuplot
    ln -s "$(command -v $tool)" bin/
done
# shellcheck disable=SC2086 # words
launch 0 --standalone --nproc_per_node=2 env PATH="$E2E_DIR/bin" \
    ./train 1 0 $MODEL --plot=none.svg
has 'ddptrain: --plot: gnuplot is not installed; none.svg.tsv has' it.err
[ -s none.svg.tsv ] || fail 'no numbers'

command -v gnuplot >/dev/null || skip 'gnuplot is not installed'
: >started
# shellcheck disable=SC2086 # words
node it --standalone --nproc_per_node=2 --max_restarts=3 \
    ./train 7 1 $MODEL --plot=picture.svg
said '^epoch 2/'
kill -KILL "$(worker_of 1 1)"
ends_with 0 it 30
from=$(sed -n 's/^resuming .* step \([0-9]*\) (.*/\1/p' it.out)
grep -q "$(printf 'restart\t%s\t2' "$from")" picture.svg.tsv ||
    fail "no restart at step $from in picture.svg.tsv"
same '' "$(grep -v restart picture.svg.tsv | cut -f1 | sort -n | uniq -d)" \
    'steps that come twice'
for text in loss step 'round 2'; do
    has "$text" picture.svg
done
nothing_left
