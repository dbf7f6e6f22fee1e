# A worker of two is killed by SIGKILL while it trains: does ddprun bring the
# same script back each time, to the result of an undisturbed run? What torchrun
# makes of it is counted and printed; it is chance, so nothing is asked of it.
# limit: 900
import re
from collections import Counter

from interop import *

# Of each script, on each launcher, in turn.
ROUNDS = int(os.environ.get("INTEROP_ROUNDS", "1"))
OURS_S = 200  # from the kill to the end
TIMES_OURS, LEAST_S = 3, 20  # what torchrun gets for that
os.environ["OMP_NUM_THREADS"] = "1"
os.environ.pop("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", None)  # torchrun's default
EPOCHS = ("12", "3")  # saves the epochs 0, 3, 6, 9
KILLED = {"GATE_RANK": "1", "GATE_EPOCH": "5"}  # waits there for its end


def fingerprint(name):
    return re.findall(r"^fingerprint (\w+)$", log(name), re.M)


def begin(name, *command, **env):
    folder = WORK / f"{name}.folder"
    folder.mkdir()
    os.chdir(folder)
    start(name, *command, *EPOCHS, **env)


def play(limit_s, name, *command):
    """The launcher's status; None: it was not over in time, and was ended."""
    begin(name, *command, **KILLED)
    wait_log("Epoch 3 | Training snapshot saved", name, seconds=OURS_S)
    os.kill(worker(1), signal.SIGKILL)
    pathlib.Path("go").touch()
    with contextlib.suppress(subprocess.TimeoutExpired):
        return started[name].wait(limit_s)
    for pid in marked():
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    started[name].wait()
    return None


def outcome(status):
    if status is None:
        return f"not over in {TIMES_OURS} times ddprun's time"
    return f"status {status}" if status != 0 else "another result"


def compare(title, script, ours, theirs):
    begin(f"{script}-undisturbed", *ours, HERE / script)
    ends_with(0, f"{script}-undisturbed", OURS_S)
    wanted = fingerprint(f"{script}-undisturbed")
    same(len(wanted), 1, "fingerprints")
    ends = Counter()
    for i in range(ROUNDS):
        name = f"{script}-ddprun-{i}"
        began = time.monotonic()
        same(play(OURS_S, name, *ours, HERE / script), 0, f"status of {name}")
        limit_s = max(LEAST_S, TIMES_OURS * (time.monotonic() - began))
        same(fingerprint(name), wanted, f"result of {name}")
        same(log(name).count("Resuming training"), 2, "workers that resumed")
        has("signal 9 (SIGKILL); stopping the others", name)
        nothing_left()
        name = f"{script}-torchrun-{i}"
        status = play(limit_s, name, *theirs, f"--master_port={free_port()}",
                      HERE / script)
        good = status == 0 and fingerprint(name) == wanted
        ends["came back" if good else outcome(status)] += 1
        nothing_left()
    same(ends.total(), ROUNDS, "jobs of torchrun's that were compared")
    others = [f"{what}: {n}" for what, n in ends.items() if what != "came back"]
    measured(f"{title}: ddprun came back {ROUNDS} times of {ROUNDS}, torchrun "
             f"{ends['came back']} of {ROUNDS}"
             + (f" ({', '.join(others)})" if others else ""))


if torch_version() < (2, 0):
    skip("compares with a current torchrun: make check-interop-new")
options = ("--nproc_per_node=2", "--max_restarts=3")
scripts = {"plain DDP": "train.py"}
if torch_version() >= (2, 6):  # which have FSDP2 on CPUs
    scripts["FSDP2 and DCP, @record"] = "sharded.py"
for title, script in scripts.items():
    compare(title, script, (DDPRUN, *options), torchrun(*options))
done()
