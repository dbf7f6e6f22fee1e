#!/bin/sh
# examples/gridengine/train.sge, as it is: do the workers of all hosts meet? Does
# the job end with the worst status of a worker?
set -u
cat >train.py <<'PY'
import os, socket, sys
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "on",
      socket.gethostname(), flush=True)
sys.exit(int(os.environ.get("CODE", "0")))
PY
cp "$ASK_EXAMPLES/train.sge" .
qsub -sync y -N first -o first.out -j y train.sge || exit
for rank in 0 1 2; do
    grep -q "^rank $rank of 3 on n" first.out || exit
done
[ "$(sed -n 's/^rank . of 3 on //p' first.out | sort | tr '\n' ' ')" = 'n1 n2 n3 ' ] ||
    exit
CODE=7 qsub -sync y -N second -o second.out -j y train.sge
[ $? -eq 7 ]
