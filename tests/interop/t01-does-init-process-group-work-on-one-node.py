# init_process_group("gloo"), all_reduce, barrier, new_group under ddprun on one
# node: do they work, and again after a restart? Also with a store that the
# program serves itself.
# limit: 900
from interop import *


def works(name, attempt, *options, rank=(), **env):
    restarts = bool(rank) and STANDBYS
    if restarts:
        env["FAIL_LATE"] = "1"
    start(name, DDPRUN, "--nproc_per_node=4", *options, HERE / "collectives.py",
          *rank, **env)
    if restarts:
        wait_standbys(1, 4)
        pathlib.Path("fail").touch()
    ends_with(0, name)
    pathlib.Path("fail").unlink(missing_ok=True)
    same("4 of 4 workers started from a standby" in log(name), restarts,
         f"standbys of {name}")
    for r in range(4):
        has(f"rank {r} of 4 is fine, attempt {attempt}", name)


works("plain", 0)
works("again", 1, "--max_restarts=1", rank=["2"])
works("static", 1, "--max_restarts=1", f"--master_port={free_port()}",
      rank=["0"])
works("own-store", 0, "--worker_store=none")
if torch_version() >= (2, 4):
    works("no-libuv", 0, USE_LIBUV="0")
done()
