"""launcher/hang/flight.py, which reads what PyTorch's flight recorder dumped:
its verdicts, and dumps of the PyTorch that is here."""

from __future__ import annotations

import importlib.util
import pickle
import threading
from pathlib import Path
from typing import Any, Callable

import pytest

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent / "launcher" / "hang" / "flight.py"


@pytest.fixture(scope="module")
def flight() -> Any:
    spec = importlib.util.spec_from_file_location("flight", SOURCE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def entry(number: int, state: str = "completed", name: str = "all_reduce", group: str = "0", **more: Any) -> Any:
    desc = "default_pg" if group == "0" else "mesh_" + group
    return {
        "pg_id": int(group), "process_group": (group, desc), "collective_seq_id": number,
        "is_p2p": False, "profiling_name": "nccl:" + name, "state": state, "retired": False, **more,
    }


def dump(*entries: Any, **more: Any) -> Any:
    return {"version": "2.10", "entries": list(entries), **more}


RANKS = {"pg_config": {"1": {"name": "1", "desc": "mesh_1", "ranks": "[0, 1]"}}}
AT_7 = dump(entry(6), entry(7, "started"))
AT_6 = dump(entry(5), entry(6))
CASES = {
    "away": ([AT_7, AT_6, AT_7], "rank 1 did not come to all_reduce (number 7 of group default_pg); ranks 0, 2 wait"),
    "silent": ([AT_7, None, AT_7], "ranks 0, 2 wait in all_reduce (number 7 of group default_pg); no dump from rank 1"),
    "away and silent": (
        [AT_7, AT_6, None],
        "rank 1 did not come to all_reduce (number 7 of group default_pg); rank 0 waits; no dump from rank 2",
    ),
    "all came": ([AT_7, AT_7], "all ranks of the group came to all_reduce (number 7 of group default_pg), which does not end"),
    "they differ": (
        [AT_7, dump(entry(7, "started", "barrier"))],
        "collective number 7 of group default_pg differs: rank 0 calls all_reduce, rank 1 calls barrier",
    ),
    "none is open": ([AT_6, AT_6], ""),
    "one never began": ([AT_7, dump()], "rank 1 did not come to all_reduce (number 7 of group default_pg); rank 0 waits"),
    "point to point is not counted": ([dump(entry(9, "started", is_p2p=True)), AT_6], ""),
    # Rank 1 waits in a smaller group for rank 0, which waits for nobody: that
    # rank 1 is away from the larger group is no cause.
    "the cause goes first": (
        [
            dump(entry(6), **RANKS),
            dump(entry(6), entry(3, "started", "broadcast", "1"), **RANKS),
            AT_7,
        ],
        "rank 0 did not come to broadcast (number 3 of group mesh_1); rank 1 waits",
    ),
    # As gloo writes it: the state never changes, the status of the group does.
    "the status tells": (
        [
            dump(entry(6, "scheduled"), entry(7, "scheduled"), pg_status={"0": {"last_completed_collective": 6}}),
            dump(entry(6, "scheduled"), pg_status={"0": {"last_completed_collective": 6}}),
        ],
        "rank 1 did not come to all_reduce (number 7 of group default_pg); rank 0 waits",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_verdict(flight: Any, case: str) -> None:
    dumps, wanted = CASES[case]
    known = {rank: flight.reduce_dump(d) for rank, d in enumerate(dumps) if d is not None}
    text, away = flight.judge(known, len(dumps))
    assert text == wanted
    assert all(f"rank {rank}" in text.split(" did not come")[0] for rank in away)
    assert bool(away) == (" did not come" in wanted)


def test_many_ranks_are_a_few_words(flight: Any) -> None:
    assert flight.ranks_text([3]) == "rank 3"
    assert flight.ranks_text([5, 1, 2, 3, 8, 9]) == "ranks 1-3, 5, 8, 9"
    assert flight.ranks_text(range(0, 20, 2)) == "ranks 0, 2, 4, 6, 8, 10, ..."
    far = {rank: flight.reduce_dump(AT_7 if rank % 2 else AT_6) for rank in range(10000)}
    assert len(flight.judge(far, 10000)[0]) < 180
    assert flight.pieces_of([5, 1, 2]) == [[1, 2], [5, 5]]


def test_a_half_a_stranger_and_a_class(flight: Any, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return open, (str(tmp_path / "executed"), "w")

    whole = pickle.dumps(AT_7, protocol=2)
    files = {}
    for rank, data in enumerate([whole, whole[:-20], b"", b"no pickle", pickle.dumps({"entries": [Evil()]}),
                                 pickle.dumps([1]), pickle.dumps({"entries": [{}]})]):
        files[rank] = str(tmp_path / str(rank))
        Path(files[rank]).write_bytes(data)
    left = dict(files)
    assert list(flight.read_own(left, flight.time.monotonic() + 0.3)) == [0]
    assert sorted(left) == [1, 2, 3]  # these may be written yet
    assert not (tmp_path / "executed").exists()
    timer = threading.Timer(0.2, lambda: Path(files[1]).write_bytes(whole))
    timer.start()
    assert list(flight.read_own({1: files[1]}, flight.time.monotonic() + 20)) == [1]


JOB = """
import os, threading, time
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

dist.init_process_group("gloo")
rank = dist.get_rank()
group = dist.new_group([0, 1], group_desc="pair")
dist.all_reduce(torch.ones(2), group=group)
for _ in range(3):
    dist.all_reduce(torch.ones(2))

# What ProcessGroupNCCL does for such a wish; gloo has a recorder, but no pipe.
pipe = f"{os.environ['TORCH_NCCL_DEBUG_INFO_PIPE_FILE']}{rank}.pipe"
os.mkfifo(pipe)
wish = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
def answer():
    while not os.read(wish, 128):
        time.sleep(0.05)
    c10d._dump_fr_trace_file(rank, True, False, False)
threading.Thread(target=answer, daemon=True).start()
with open(os.environ["DDP_PROGRESS_FILE"], "w") as file:
    file.write("1\\n")  # the only beat
if rank == 1:
    time.sleep(1000)
dist.all_reduce(torch.ones(2), group=group)
"""


def test_what_this_pytorch_writes_is_read(ddprun: Callable[..., Any], tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if not hasattr(torch._C._distributed_c10d, "_dump_fr_trace_file"):
        pytest.skip("this PyTorch cannot dump gloo's collectives")
    (tmp_path / "job.py").write_text(JOB)
    job = ddprun("--nproc_per_node=2", "--hang_timeout=0,5", f"--log_dir={tmp_path}/log", "job.py")
    text = job.wait(82)
    assert "; rank 1 did not come to all_reduce (number 2 of group pair); rank 0 waits; " in text
    assert len(list((tmp_path / "log").rglob("nccl_trace_rank_[01]"))) == 2
