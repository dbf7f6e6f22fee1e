# Two replica groups of torchft, each a job of ddprun's: the worker of one is
# killed. Does the other one go on meanwhile, and does the group that ddprun
# starts again get its state from it, and have the same from then on?
# limit: 1800
from frameworks.scenario import *

title = version("torchft-nightly")
lighthouse = shutil.which("torchft_lighthouse",
                          path=pathlib.Path(sys.executable).parent)
port = free_port()
start("lighthouse", lighthouse, "--min_replicas=1", f"--bind=[::]:{port}",
      "--heartbeat_timeout_ms=2000", "--join_timeout_ms=10000")
for group in 0, 1:
    start(f"group{group}", DDPRUN, "--standalone", "--max_restarts=2",
          JOBS / "torchft_job.py", REPLICA_GROUP_ID=str(group),
          NUM_REPLICA_GROUPS="2",
          TORCHFT_LIGHTHOUSE=f"http://127.0.0.1:{port}")


def steps(group):
    """{step: (of how many groups, digest)}, of what its last worker did."""
    text = log(f"group{group}").split(f"group {group} begins")[-1]
    return {int(step): (int(n), digest) for step, n, digest in re.findall(
        r"did step (\d+) with (\d+) has (\w+)$", text, re.M)}


def together():
    """Steps that both did, with each other."""
    a, b = steps(0), steps(1)
    return [s for s in a if s in b and a[s][0] == b[s][0] == 2]


eventually(lambda: len(together()) >= 5, WAIT_S, "the groups do not meet")
before = max(steps(1))
pid = int(re.findall(r"group 1 begins, pid (\d+)", log("group1"))[-1])
os.kill(pid, signal.SIGKILL)
eventually(lambda: any(n == 1 for n, _ in steps(0).values()), WAIT_S,
           "group 0 does not go on alone")
eventually(lambda: log("group1").count("group 1 begins") == 2 and
           len(together()) >= 5, WAIT_S, "group 1 does not come again")
a, b = steps(0), steps(1)
for step in together():
    same(b[step], a[step], f"step {step}")
if min(b) <= before:
    fail(f"group 1 began anew with step {min(b)}")
(WORK / "enough").touch()
ends_with(0, "group0")
ends_with(0, "group1")
measured(f"{title}: 2 groups, a worker killed: healed from the other group at "
         f"step {min(b)}, equal from then on")
done()
