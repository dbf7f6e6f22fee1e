#!/bin/sh
# Do the scripts in examples/slurm do what they say, as they are?
. "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"

cat >train.py <<'PY'
import os
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "done")
PY
for file in "$CLUSTERS_EXAMPLES"/slurm/*.sbatch; do
    name=$(basename "$file" .sbatch)
    cp "$file" .
    job=$(submit "$name" "$name.sbatch")
    ended "$job"
    is 3 '^rank [012] of 3 done$' "$name.out"
done
