"""Sharded training under ddprun, in the layouts that PyTorch has."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any, Callable

import pytest
import torch

from conftest import HERE, Job, free_port

Start = Callable[..., Job]
PROGRAM = HERE / "sharded.py"


def begun(text: str) -> "list[tuple[int, str, str]]":
    """(step, where from, digest) of each start."""
    found = re.findall(r"began (\d+) of \d+ from (\w+) with (\w+)", text)
    return [(int(step), where, digest) for step, where, digest in found]


def ended(text: str) -> str:
    (digest,) = re.findall(r"digest (\w+)", text)
    return str(digest)


def losses(text: str) -> "dict[tuple[str, str], str]":
    """The last that each rank told of each step."""
    return {(step, rank): loss for step, rank, loss in re.findall(r"step (\d+) rank (\d+) loss (\S+)", text)}


def run(ddprun: Start, layout: str, world: int, steps: int, *folder: str, status: int = 0, **env: str) -> str:
    line = ["--standalone", f"--nproc_per_node={world}", PROGRAM, layout, steps, *folder]
    return ddprun(*line, name=f"{layout}-{world}-{steps}", **env).wait(status)


@pytest.mark.parametrize(
    "layout, world, kills, env",
    [("fsdp", 2, 2, {}), ("fsdp", 2, 1, {"OVERLAP": "1"}), ("hsdp", 4, 1, {}), ("fsdp-tp", 4, 1, {})],
    ids=["fsdp", "fsdp-overlap", "hsdp", "fsdp-tp"],
)
def test_a_killed_worker_costs_a_step_and_no_bit(
    ddprun: Start, layout: str, world: int, kills: int, env: "dict[str, str]"
) -> None:
    steps = 12 + 12 * kills
    whole = run(ddprun, layout, world, steps)
    line = ["--standalone", f"--nproc_per_node={world}", f"--max_restarts={kills}", PROGRAM, layout, steps]
    job = ddprun(*line, PAUSE="0.02", **env)
    for i in range(kills):
        seen = 8 + 12 * i
        job.wait_for(f"step {seen} rank 0", limit=150)
        os.kill(int(re.findall(rf"pid (\d+) rank {world - 1 - i}\b", job.text())[-1]), signal.SIGKILL)
        job.wait_for_starts(i + 2, begun, limit=150)
        step, where, _ = begun(job.text())[-1]
        assert where == "memory" and step >= seen - 2  # is told before it is saved
    text = job.wait()
    assert ended(text) == ended(whole)
    assert losses(text) == losses(whole)


@pytest.mark.parametrize("shard", [1, 2])
def test_a_first_snapshot_that_is_not_whole_is_told_and_the_job_begins_anew(
    ddprun: Start, tmp_path: Path, shard: int
) -> None:
    """One of the two has the structure. A job that was killed in its first save to the
    disk leaves the same."""
    run(ddprun, "fsdp", 2, 4, "ckpt")
    (left,) = tmp_path.glob(f"ckpt/step-*/shard-{shard:05}-of-00002.safetensors")
    left.unlink()
    text = run(ddprun, "fsdp", 2, 5, "ckpt")
    assert begun(text)[0][:2] == (0, "nothing") and "step 5 rank 0" in text
    told = re.findall(r"no snapshot is whole, the job begins anew: (.*)", text)
    assert len(told) == 1 and told[0].startswith("step 4: ") and f"no image of rank {shard - 1}" in told[0]


@pytest.mark.parametrize("copies", [2, 1])
def test_a_lost_node_costs_what_no_other_node_has(ddprun: Start, copies: int) -> None:
    """With a copy on the next node two steps, else those since the last on disk. A
    worker that dies costs a step, as on one node."""
    whole = run(ddprun, "fsdp", 2, 24)
    endpoint = f"127.0.0.1:{free_port()}"
    ddprun(f"--listen={endpoint}", program="ddprdzvd", name="daemon").wait_for("serving on port")
    place = ["--nnodes=2", "--nproc_per_node=1", f"--rdzv_endpoint={endpoint}", "--max_restarts=1"]
    how = {"PAUSE": "0.05", "DISK_EVERY": "5", "COPIES": str(copies)}

    def node(name: str) -> Job:
        return ddprun(*place, PROGRAM, "fsdp", 24, "ckpt", name=name, **how)

    def text() -> str:
        return "".join(job.text() for job in jobs)

    jobs = [node("a"), node("b")]
    jobs[0].wait_for("step 7 rank", limit=150)
    os.kill(int(re.findall(r"pid (\d+) rank", jobs[0].text())[-1]), signal.SIGKILL)
    jobs[0].wait_for_starts(2, lambda _: begun(text()), limit=150)
    assert begun(text())[1][1] == "memory" and begun(text())[1][0] >= 5
    jobs[0].wait_for("step 14 rank", limit=150)
    agent = jobs[1].agent()
    os.kill(jobs[1].process.pid, signal.SIGKILL)
    os.kill(agent, signal.SIGKILL)
    jobs[1].process.wait(60)
    jobs.append(node("c"))
    jobs[0].wait()
    jobs[2].wait()
    step, where, _ = begun(text())[-1]
    if copies == 2:
        assert where == "memory" and step >= 12
    else:
        assert (step, where) in [(10, "disk"), (15, "disk")]
    assert ended(text()) == ended(whole)


def test_a_lost_node_may_have_more_workers_than_the_other(ddprun: Start) -> None:
    """One worker keeps copies of the shards of the two that are lost."""
    whole = run(ddprun, "fsdp", 3, 24)
    endpoint = f"127.0.0.1:{free_port()}"
    ddprun(f"--listen={endpoint}", program="ddprdzvd", name="daemon").wait_for("serving on port")

    def node(name: str, workers: int) -> Job:
        line = ["--nnodes=2", f"--nproc_per_node={workers}", f"--rdzv_endpoint={endpoint}", "--max_restarts=1"]
        return ddprun(*line, PROGRAM, "fsdp", 24, name=name, PAUSE="0.05")

    small, large = node("small", 1), node("large", 2)
    small.wait_for("step 14 rank", limit=150)
    agent = large.agent()
    os.kill(large.process.pid, signal.SIGKILL)
    os.kill(agent, signal.SIGKILL)
    large.process.wait(60)
    again = node("again", 2)
    text = "".join(job.wait() for job in (small, again))
    step, where, _ = begun(text)[-1]
    assert where == "memory" and step >= 12
    assert ended(text) == ended(whole)
    assert "a node that is lost takes its shards with it" not in text


def test_too_little_memory_for_copies_is_told_once(ddprun: Start) -> None:
    """Each node finds it, rank 0 says it."""
    line = ["--nnodes=2", "--nproc_per_node=1", f"--rdzv_endpoint=127.0.0.1:{free_port()}", "--snapshot_memory=2M"]
    nodes = [ddprun(*line, PROGRAM, "fsdp", 5000, name=name, WIDTH="4096", PAUSE="0.05") for name in "ab"]
    words = "takes its shards with it: "
    until = time.monotonic() + 60
    while not any(words in node.text() for node in nodes) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(1)  # some steps more
    text = "".join(node.text() for node in nodes)
    (figure,) = re.findall(r"takes its shards with it: .* --snapshot_memory=(\d+)M or more", text)
    assert 2 < int(figure) < 8


# Each takes over what the one before has left, and does a step more.
HANDED_ON = [
    ("fsdp", 4),
    ("fsdp1", 3),
    ("zero", 2),
    ("hsdp", 4),
    ("tp", 2),
    ("fsdp-tp", 4),
    ("fsdp", 1),
    ("ddp", 2),
    ("one", 1),
    ("fsdp", 2),
]


@pytest.fixture(scope="module")
def handed_on(tmp_path_factory: pytest.TempPathFactory) -> "tuple[Path, list[str]]":
    """The folder, and what each printed."""
    folder = tmp_path_factory.mktemp("handed-on")
    told = []
    for i, (layout, world) in enumerate(HANDED_ON):
        line = ["--standalone", f"--nproc_per_node={world}", str(PROGRAM), layout, str(i + 1), "ckpt"]
        told.append(Job(folder, f"{i}-{layout}-{world}", line, {}).wait())
    return folder / "ckpt", told


def test_any_world_and_layout_takes_over_from_any_other(handed_on: "tuple[Path, list[str]]") -> None:
    folder, told = handed_on
    for i, (before, after) in enumerate(zip(told, told[1:])):
        assert begun(after) == [(i + 1, "disk", ended(before))], HANDED_ON[i + 1]
    parts = sorted(folder.glob(f"step-{len(HANDED_ON):012}.*/shard-*"))
    assert [part.name for part in parts] == [f"shard-0000{i}-of-00002.safetensors" for i in (1, 2)]


def test_sharded_state_goes_on_where_replicated_state_was_left(ddprun: Start, tmp_path: Path) -> None:
    left = ended(run(ddprun, "ddp", 2, 2, "ckpt"))
    assert list((tmp_path / "ckpt").glob("step-*/shard-*"))
    assert begun(run(ddprun, "fsdp", 2, 3, "ckpt")) == [(2, "disk", left)]


def test_a_model_that_differs_is_told(ddprun: Start, handed_on: "tuple[Path, list[str]]") -> None:
    text = run(ddprun, "fsdp", 2, 20, str(handed_on[0]), WIDTH="24", status=2)
    assert "the snapshot does not fit this program" in text
    assert "model.up.weight: float32 (16, 8) in the snapshot, float32 (24, 8) here" in text


def test_others_read_the_folder(handed_on: "tuple[Path, list[str]]") -> None:
    """PyTorch's reader puts the tensors together; safetensors has the parts."""
    safetensors = pytest.importorskip("safetensors.torch")
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    (folder,) = handed_on[0].glob(f"step-{len(HANDED_ON):012}.*")
    parts = [safetensors.load_file(part) for part in sorted(folder.iterdir())]
    state = {"model": {"out.weight": torch.zeros(7, 16), "up.bias": torch.zeros(16)},
             "optimizer": {"state": {"gain": {"exp_avg": torch.zeros(7)}}}}  # fmt: skip
    dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(str(folder)), no_dist=True)
    for name, t in (
        ("model.out.weight", state["model"]["out.weight"]),
        ("model.up.bias", state["model"]["up.bias"]),
        ("optimizer.state.gain.exp_avg", state["optimizer"]["state"]["gain"]["exp_avg"]),
    ):
        assert torch.equal(t, torch.cat([part[name] for part in parts])) and t.any()


# -- what PyTorch says of its shards -------------------------------------------


def chunks_of(in_a_world: Any, mesh: "tuple[int, ...]", placements: Any, shape: "tuple[int, ...]") -> "list[Any]":
    """(offset, shape) on each rank, as ddprun sees it."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import empty

    from ddprun._shards import empty_as, parts_of

    found = []
    for rank in range(torch.Size(mesh).numel()):
        in_a_world(rank, torch.Size(mesh).numel())
        t = empty(*shape, device_mesh=init_device_mesh("cpu", mesh), placements=placements)
        found.append([(offset, tuple(local.shape)) for local, offset in parts_of(t)])
        again = empty_as(t, torch.float64)
        assert again.dtype == torch.float64 and again.placements == t.placements and again.shape == t.shape
        assert found[-1] == [(offset, tuple(local.shape)) for local, offset in parts_of(again)]
    return found


def test_pytorch_says_where_its_shards_lie(in_a_world: Any) -> None:
    """What is relied on: __create_chunk_list__ and __get_tensor_shard__."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    assert chunks_of(in_a_world, (4,), [Shard(0)], (5, 2)) == [
        [((0, 0), (2, 2))], [((2, 0), (2, 2))], [((4, 0), (1, 2))], []
    ]  # fmt: skip
    assert chunks_of(in_a_world, (2, 2), [Replicate(), Shard(1)], (2, 4)) == 2 * [
        [((0, 0), (2, 2))], [((0, 2), (2, 2))]
    ]  # fmt: skip
    # FSDP of what is tensor-parallel: the first dim of the mesh cuts what the second has cut.
    assert chunks_of(in_a_world, (2, 2), [_StridedShard(0, split_factor=2), Shard(0)], (8,)) == [
        [((0,), (2,))], [((4,), (2,))], [((2,), (2,))], [((6,), (2,))]
    ]  # fmt: skip


def test_pytorch_says_where_several_shards_of_a_rank_lie(in_a_world: Any) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    from torch.distributed.tensor._shards_wrapper import LocalShardsWrapper

    from ddprun._shards import parts_of

    in_a_world(0, 2)
    mine = [torch.full((1, 2), 1.0), torch.full((1, 2), 2.0)]
    local, mesh = LocalShardsWrapper(mine, [(0, 0), (2, 0)]), init_device_mesh("cpu", (2,))
    t = DTensor.from_local(local, mesh, [Shard(0)], run_check=False, shape=(4, 2), stride=(2, 1))
    assert [(part.local.tolist(), part.offset) for part in parts_of(t)] == [([[1, 1]], (0, 0)), ([[2, 2]], (2, 0))]
