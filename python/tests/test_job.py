"""Jobs under ddprun: what is killed costs a step at most, and the result is the
undisturbed run's to the bit. KILLS=50 kills more, with standbys, so that it takes
minutes only (make check-long)."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Callable

import pytest

from conftest import HERE, Job, free_port

Start = Callable[..., Job]
KILLS = int(os.environ.get("KILLS", 6))
STEPS = max(120, 6 * KILLS)
STANDBY = ["--standby=auto"] if KILLS > 10 else []


def lines(jobs: "list[Job]") -> "list[str]":
    return [line for job in jobs for line in job.text().splitlines()]


def digest(text: str) -> str:
    found = re.findall(r"digest (\w+)", text)
    assert len(found) == 1, text
    return found[0]


def begun(text: str) -> "list[tuple[int, str]]":
    """(step, where from) of each start."""
    return [(int(step), where) for step, where in re.findall(r"began (\d+) of \d+ from (\w+)", text)]


def last_step(text: str) -> int:
    return max(map(int, steps_taken(text)), default=0)


def steps_taken(text: str) -> "list[str]":
    return re.findall(r"step (\d+) rank", text)


def worker_of(job: Job, rank: int) -> int:
    """The pid of that rank's newest process."""
    return int(re.findall(rf"pid (\d+) rank {rank}\b", job.text())[-1])


def wait_step(jobs: "list[Job]", step: int, starts: int = 1, limit: float = 150) -> int:
    """Until that step was taken after so many starts; the last step."""
    until = time.monotonic() + limit
    while time.monotonic() < until:
        text = "\n".join(lines(jobs))
        found = begun(text)
        if len(found) >= starts and last_step(text) >= step:
            return last_step(text)
        time.sleep(0.02)
    raise AssertionError(f"step {step} was not taken in {limit} s:\n" + "\n".join(lines(jobs)))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of two workers that nothing happened to."""
    job = Job(
        tmp_path_factory.mktemp("undisturbed"), "job", ["--standalone", "--nproc_per_node=2", TRAIN, str(STEPS)], {}
    )
    return digest(job.wait())


TRAIN = str(HERE / "train.py")


@pytest.mark.parametrize("env", [{}, {"OVERLAP": "1", "WORKERS": "2"}], ids=["plain", "overlap-and-loader-workers"])
def test_killed_workers_cost_a_step_and_no_bit(ddprun: Start, undisturbed: str, env: "dict[str, str]") -> None:
    job = ddprun(
        "--standalone", "--nproc_per_node=2", f"--max_restarts={KILLS}", *STANDBY, TRAIN, STEPS, PAUSE="0.02", **env
    )
    kills = max(1, KILLS // 2)
    for i in range(kills):
        seen = wait_step([job], (i + 1) * STEPS // (kills + 2), starts=i + 1)
        os.kill(worker_of(job, i % 2), signal.SIGKILL)
        job.wait_for_starts(i + 2, begun, limit=150)
        step, where = begun(job.text())[-1]
        assert where == "memory" and step >= seen - 1
    assert digest(job.wait()) == undisturbed


def test_killed_agents_and_nodes_cost_a_step_and_no_bit(ddprun: Start, undisturbed: str) -> None:
    """Two launchers at a daemon; one of them is killed whole, or its agent, and
    is started again. The memory of the other one has the state."""
    endpoint = f"127.0.0.1:{free_port()}"
    ddprun(f"--listen={endpoint}", program="ddprdzvd", name="daemon").wait_for("serving on port")
    place = ["--nnodes=2", "--nproc_per_node=1", f"--rdzv_endpoint={endpoint}"]
    line = [*place, "--max_restarts=0", *STANDBY, TRAIN, STEPS]

    def node(name: str) -> Job:
        return ddprun(*line, name=name, PAUSE="0.02")

    jobs = [node("a0"), node("b0")]
    alive = list(jobs)
    for i in range(KILLS):
        seen = wait_step(jobs, (i + 1) * STEPS // (KILLS + 2), starts=i + 1)
        victim = alive[i % 2]
        agent = victim.agent()
        if i // 2 % 2 == 0:
            os.kill(victim.process.pid, signal.SIGKILL)
        os.kill(agent, signal.SIGKILL)
        victim.process.wait(60)
        alive[i % 2] = node(f"{'ab'[i % 2]}{i + 1}")
        jobs.append(alive[i % 2])
        wait_step(jobs, seen, starts=i + 2)
        # Until its own first step is saved only the other one's memory has the state.
        alive[i % 2].wait_for_starts(2, steps_taken, limit=150)
        starts = begun("\n".join(lines(jobs)))
        assert all(where == "memory" for _, where in starts[1:]), starts
        assert max(step for step, _ in starts) >= seen - 1
    for job in alive:
        job.wait()
    assert digest("\n".join(lines(jobs))) == undisturbed


def test_a_preempted_job_goes_on_where_it_left(ddprun: Start, undisturbed: str) -> None:
    line = ["--standalone", "--nproc_per_node=2", TRAIN, STEPS, "ckpt"]
    job = ddprun(*line, PAUSE="0.02")
    wait_step([job], STEPS // 3)
    job.process.send_signal(signal.SIGTERM)
    text = job.wait(143)
    (left,) = re.findall(r"asked to stop after (\d+)", text)
    again = ddprun(*line, name="again")
    assert digest(again.wait()) == undisturbed
    assert begun(again.text()) == [(int(left), "disk")]


@pytest.mark.parametrize("world", [1, 3])
def test_another_world_takes_each_sample_once(ddprun: Start, world: int) -> None:
    """Stopped in the middle of the first epoch of 500, which others end."""
    job = ddprun("--standalone", "--nproc_per_node=2", TRAIN, 10, "ckpt", DISK_EVERY="10")
    taken = samples(job.wait())
    assert len(taken) == len(set(taken)) == 160
    again = ddprun("--standalone", f"--nproc_per_node={world}", TRAIN, 200, "ckpt", name="again")
    text = again.wait()
    assert begun(text) == [(10, "disk")]
    per_step = 8 * world
    rest = samples(text)[: -(-(500 - 160) // per_step) * per_step]
    assert set(taken) | set(rest) == set(range(500))
    assert not set(taken) & set(rest[: 500 - 160 - per_step])


def samples(text: str) -> "list[int]":
    """In the order of the steps."""
    rows = re.findall(r"step (\d+) rank (\d+) samples([ \d]*)", text)
    rows.sort(key=lambda row: (int(row[0]), int(row[1])))
    return [int(word) for _, _, words in rows for word in words.split()]


def test_an_optimizer_that_has_no_state_yet_is_refused(ddprun: Start, tmp_path: Path) -> None:
    (tmp_path / "zero.py").write_text(
        """
import torch, torch.distributed as dist, ddprun
from torch.distributed.optim import ZeroRedundancyOptimizer
dist.init_process_group("gloo")
model = torch.nn.Linear(4, 4)
zero = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, overlap_with_ddp=True)
try:
    ddprun.snapshot(model, zero)
except ddprun.Error as e:
    print(e.code, e, flush=True)
dist.destroy_process_group()
"""
    )
    text = ddprun("--standalone", "zero.py").wait()
    assert "2 the optimizer is a ZeroRedundancyOptimizer that overlaps " in text
    assert "leave overlap_with_ddp out" in text


def test_flush_writes_on_all_ranks_what_one_could_not_save(ddprun: Start, tmp_path: Path) -> None:
    (tmp_path / "flush.py").write_text(
        """
import torch, ddprun
from ddprun import _snapshot
state = ddprun.snapshot(torch.nn.Linear(4, 4), folder="ckpt")
save = state._pieces.save
def no_memory(*order):
    save(*order)
    raise ddprun.Error(_snapshot.NOMEM, "no memory")
if ddprun.place().rank == 1:
    state._pieces.save = no_memory
state.save(1, disk=True)
state._pieces.save = save
state.flush()
print("flushed", flush=True)
"""
    )
    text = ddprun("--standalone", "--nproc_per_node=2", "flush.py").wait()
    assert text.count("flushed") == 2 and len(list(tmp_path.glob("ckpt/step-*/shard-*.safetensors"))) == 2


GROUP = "import torch.distributed\ntorch.distributed.init_process_group('gloo')\n"


@pytest.mark.parametrize("before", ["", GROUP], ids=["plain", "in-a-process-group"])
def test_an_error_that_nobody_catches_is_told_and_gives_its_status(ddprun: Start, tmp_path: Path, before: str) -> None:
    """PyTorch has a hook of its own as soon as there is a process group."""
    (tmp_path / "fail.py").write_text(
        f"""
import ddprun
try:
    raise ddprun.Error(65, 'caught')
except ddprun.Error:
    pass
{before}raise ddprun.Error(67, 'torn')
"""
    )
    job = ddprun("--standalone", "fail.py")
    assert "Error: torn" in job.wait(67).partition("ddprun: ")[0]


def test_a_rank_whose_peer_died_says_so_before_its_traceback(ddprun: Start, tmp_path: Path) -> None:
    (tmp_path / "well.py").write_text(
        """
import os, signal, ddprun
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so that it has the time to say so
ddprun.should_stop()
if ddprun.place().rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
while not ddprun.should_stop():
    pass
"""
    )
    options = ["--nproc_per_node=2", "--failure_grace=20"]
    text = ddprun("--standalone", *options, "well.py").wait(137)
    assert 0 <= text.find("rank 0 ends because of another: ") < text.find("Traceback"), text
    assert "first failure   rank 1 " in text


def test_a_rank_that_notes_sigterm_ends_with_its_peer(ddprun: Start, tmp_path: Path) -> None:
    """There is no step any more at which both could leave."""
    (tmp_path / "notes.py").write_text(
        """
import os, time, ddprun
ddprun.should_stop()
if ddprun.place().restart_count == 0:
    if ddprun.place().rank == 1:
        os._exit(3)
    time.sleep(60)
"""
    )
    began = time.monotonic()
    options = ["--nproc_per_node=2", "--max_restarts=1", "--failure_grace=50", "--shutdown_timeout=50"]
    ddprun("--standalone", *options, "notes.py").wait()
    assert time.monotonic() - began < 40


def test_saves_of_different_steps_are_refused(tmp_path: Path, ddprun: Start) -> None:
    """Rank 1 counts otherwise: its state was kept with the step of rank 0."""
    (tmp_path / "other.py").write_text(
        "import torch, ddprun\n"
        "state = ddprun.snapshot(torch.nn.Linear(1, 1), folder='ckpt')\n"
        "state.save(5, disk=True)\n"
        "state.save(6 + ddprun.place().rank, disk=True)\n"
    )
    job = ddprun("--standalone", "--nproc_per_node=2", "other.py")
    text = job.wait(65)
    assert "the ranks save different steps, from 6 to 7: all ranks have to save the same steps" in text
    assert {path.name[:17] for path in (tmp_path / "ckpt").glob("step-*")} <= {"step-000000000005"}
