#!/bin/sh
# A job on three hosts is deleted: are its workers gone from all of them?
set -u
cat >train.py <<'PY'
import os, time
open("up." + os.environ["RANK"], "w").close()
os.execvp("sleep", ["a-worker", "300"])
PY
workers()
{
    pgrep -fc '^a-worker 300'
}

# eventually COMMAND...: within a minute.
eventually()
{
    i=0
    until "$@"; do
        [ $((i += 1)) -le 600 ] || return 1
        sleep 0.1
    done
}

has()
{
    [ "$(workers)" = "$1" ]
}

cp "$ASK_EXAMPLES/train.sge" .
job=$(qsub -terse -o first.out -j y train.sge) || exit
eventually has 3 || { echo 'not all workers start' && exit 1; }
qdel "$job"
eventually has 0 || { echo "left: $(pgrep -fa 'a-worker|ddprun')" && exit 1; }
