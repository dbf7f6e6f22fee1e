#!/bin/sh
# Two elements of an array run at the same time on the same hosts: has each all of
# its ranks, and its own result?
set -u
cat >train.py <<'PY'
import os, sys, time
element, rank = os.environ["SGE_TASK_ID"], os.environ["RANK"]
print("element", element, "rank", rank, "of", os.environ["WORLD_SIZE"], "run",
      os.environ["TORCHELASTIC_RUN_ID"], flush=True)
open("up.%s.%s" % (element, rank), "w").close()
until = time.time() + 60
while not all(os.path.exists("up.%d.%d" % (e, r)) for e in (1, 2) for r in range(3)):
    if time.time() > until:
        sys.exit("not all ranks of both elements are here")
    time.sleep(0.05)
sys.exit(7 if element == "2" else 0)
PY
cat >job <<'JOB'
#$ -pe ddp 3
#$ -cwd
#$ -V
ddprun train.py
echo "status $?"
JOB
# shellcheck disable=SC2016 # Grid Engine's own variable
job=$(qsub -terse -t 1-2 -o 'element.$TASK_ID.out' -j y job) || exit
job=${job%%.*}
i=0
until [ "$(cat element.?.out 2>/dev/null | grep -c '^status ')" = 2 ]; do
    [ $((i += 1)) -le 1000 ] || exit
    sleep 0.1
done
for element in 1 2; do
    [ $element = 1 ] && status=0 || status=7
    grep -q "^status $status$" element.$element.out || exit
    for rank in 0 1 2; do
        grep -q "^element $element rank $rank of 3 run sge-$job\[$element\]-" \
            element.$element.out || exit
    done
    grep -q "Grid Engine job $job\[$element\]: starting on its 3 hosts with qrsh" \
        element.$element.out || exit
done
