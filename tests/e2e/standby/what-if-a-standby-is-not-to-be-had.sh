#!/bin/sh
# Standbys that are killed or stopped, an importer that is killed or never done, a
# worker that fails at once as a standby: the round runs all the same, from fresh
# starts, ddprun says why, and nothing is left of any.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/standbys.sh"

# A worker has a number there, an importer has not.
cat >site-packages/endless.py <<'END'
import os, time
if not os.environ["RANK"].isdigit():
    time.sleep(300)
END
cat >program.py <<'END'
import os, signal, sys, time
import standbys
how, attempt = sys.argv[1], int(os.environ["TORCHELASTIC_RESTART_COUNT"])
agent = os.getppid()
if attempt == 0 and how == "endless":
    import endless
    with open(os.environ["DDP_PROGRESS_FILE"], "w") as file:
        file.write("1")
    while len(standbys.children(agent)) < 3:  # two workers, the importer
        time.sleep(0.01)
elif attempt == 0:
    standbys.wait(2)
if attempt == 0 and os.environ["RANK"] == "0":
    there = standbys.waiting(agent)
    importer = standbys.stat_of(there[0])[1] if there else 0
    if how == "killed":
        os.kill(max(there), signal.SIGKILL)
    elif how == "stopped":
        os.kill(there[0], signal.SIGSTOP)
        os.kill(there[1], signal.SIGSTOP)
    elif how == "importer":
        os.kill(importer, signal.SIGKILL)
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)
if attempt == 0:
    signal.pause()
if attempt == 1 and how == "fails":
    sys.exit(3)
END

# look NAME RESTARTS MODULES PATTERN: it ends well, and says what stands there.
look()
{
    background "$1" "$DDPRUN" --nproc_per_node=2 --max_restarts="$2" \
        --standby="$3" program.py "$1"
    ends_with 0 "$1"
    nothing_left "$1"
    grep -q "$4" "$1.err" || fail "$1: it does not say '$4'"
}
look killed 1 json '1 of 2 workers started from a standby'
look stopped 1 json 'does not answer within 500 ms; the workers of this round'
look importer 1 json 'afresh: the process that imports ahead has ended'
look fails 2 json 'afresh: a worker that was one failed early'
look endless 1 endless '0 of 2 workers started from a standby: still importing'
