# Two nodes of two workers: does a group form, and again after a failure on one
# of them, under c10d and under static; with the store for the nodes alone?
# limit: 900
from interop import *


def works(kind, *options):
    for rank, machine in enumerate(("one", "two")):
        place = [f"--node_rank={rank}"] if kind == "static" else []
        start(f"{kind}-{machine}", DDPRUN, "--nnodes=2", "--nproc_per_node=2",
              "--max_restarts=1", *options, *place, HERE / "collectives.py",
              "3", on=machine, GLOO_SOCKET_IFNAME="eth0", **late)
    if STANDBYS:
        wait_standbys(2, 2)
        pathlib.Path("fail").touch()
    for machine in "one", "two":
        ends_with(0, f"{kind}-{machine}")
        same("2 of 2 workers started from a standby" in log(f"{kind}-{machine}"),
             STANDBYS, f"standbys of {kind}-{machine}")
    pathlib.Path("fail").unlink(missing_ok=True)
    lines = log(f"{kind}-one") + log(f"{kind}-two")
    for r in range(4):
        if f"rank {r} of 4 is fine, attempt 1" not in lines:
            fail(f"rank {r} did not come through")


late = {"FAIL_LATE": "1"} if STANDBYS else {}
network("one", "two")
works("c10d", "--rdzv_endpoint=one:29500")
works("static", "--master_addr=one", "--master_port=29500")
works("allow", "--rdzv_endpoint=one:29500", "--worker_store_allow=nodes")
done()
