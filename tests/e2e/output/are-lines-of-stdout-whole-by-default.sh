#!/bin/sh
# Eight workers print as `python -u` does, each line in pieces, with no option
# about output: is every line whole, and are those of each worker in order? With
# --stdout=inherit, and PET_STDOUT, is the worker's stdout the launcher's own?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
cat >pieces.py <<'PY'
"""Writes 400 lines, each word and blank with a write(2) of its own."""
import os
for i in range(400):
    for piece in ("epoch", " ", str(i), " ", "rank", " ", os.environ["RANK"]):
        os.write(1, piece.encode())
    os.write(1, b"\n")
PY
cat >judge.py <<'PY'
"""Judges the file it.out."""
import re
then = {}
for text in open("it.out"):
    m = re.match(r"epoch (\d+) rank (\d)\n$", text)
    assert m, f"no whole line: {text!r}"
    assert int(m[1]) == then.get(m[2], 0), f"not in order: {text!r}"
    then[m[2]] = int(m[1]) + 1
assert then == {str(r): 400 for r in range(8)}, then
PY
launch 0 --nproc_per_node=8 python3 pieces.py
python3 judge.py || fail 'torn lines, in a file'
# shellcheck disable=SC2016 # for the shell
background piped sh -c '"$@" | cat' sh "$DDPRUN" --nproc_per_node=8 \
    python3 pieces.py
ends_with 0 piped
mv piped.out it.out
python3 judge.py || fail 'torn lines, in a pipe'

inode='stat -L -c %i /proc/self/fd/1'
launch 0 --stdout=inherit sh -c "$inode"
same "$(stat -c %i it.out)" "$(cat it.out)" 'the file that is inherited'
background it env PET_STDOUT=inherit "$DDPRUN" sh -c "$inode"
ends_with 0 it
same "$(stat -c %i it.out)" "$(cat it.out)" 'the same, by the environment'
launch 0 --stdout=lines sh -c "$inode"
[ "$(stat -c %i it.out)" != "$(cat it.out)" ] || fail 'lines are inherited'
launch 0 --stdout=inherit --tee=1 --log_dir=log sh -c 'echo shown'
same '[default0]:shown' "$(cat it.out)" "a tee'd stream that is to be inherited"
