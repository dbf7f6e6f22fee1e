"""StatefulSampler: what DistributedSampler does, and where the epoch goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import ddprun


def sampler(rank: int = 0, world: int = 1, samples: int = 50, **more: bool) -> ddprun.StatefulSampler:
    return ddprun.StatefulSampler(samples, seed=3, rank=rank, world=world, **more)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("world", [1, 3, 4])
def test_an_epoch_is_dealt_to_all_ranks(world: int, drop_last: bool) -> None:
    parts = [list(sampler(r, world, drop_last=drop_last)) for r in range(world)]
    n = 50 // world if drop_last else -(-50 // world)
    assert [len(part) for part in parts] == [n] * world == [len(sampler(0, world, drop_last=drop_last))] * world
    seen = {i for part in parts for i in part}
    assert len(seen) == (n * world if drop_last else 50)


def test_epochs_differ_and_are_the_same_again() -> None:
    s = sampler()
    first, second = list(s), list(s)
    assert s.epoch == 2 and first != second and sorted(first) == sorted(second)
    s.set_epoch(0)
    assert list(s) == first


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loop_goes_on_at_the_next_sample(workers: int) -> None:
    data = TensorDataset(torch.arange(50))

    def loader(s: ddprun.StatefulSampler) -> "DataLoader[torch.Tensor]":
        return DataLoader(data, batch_size=8, sampler=s, num_workers=workers)

    s = sampler()
    whole = [batch[0].tolist() for batch in s.batches(loader(s))]
    assert [len(batch) for batch in whole] == [8] * 6 + [2] and s.epoch == 1
    s, got = sampler(), []
    for batch in s.batches(loader(s)):
        got.append(batch[0].tolist())
        if len(got) == 3:
            break
    assert (s.epoch, s.position) == (0, 24)
    again = sampler()
    again.load_state_dict(s.state_dict())
    got += [batch[0].tolist() for batch in again.batches(loader(again))]
    assert got == whole


@pytest.mark.parametrize("taken", [1, 3, 7])
def test_a_resumed_loop_draws_no_more_than_an_undisturbed_one(taken: int, tmp_path: Path) -> None:
    """An iterator of a loader draws a seed from PyTorch's generator."""
    s = sampler()
    state = ddprun.snapshot(torch.nn.Linear(1, 1), folder=tmp_path, extra={"data": s})
    draws = []
    for epoch in range(2):
        for i, _ in enumerate(DataLoader(range(50), batch_size=8, sampler=s)):
            draws.append(torch.rand(1).item())
            if epoch == 0 and i + 1 == taken:
                state.save(1, disk=True)
    state.close()
    again, s = [], sampler()
    state = ddprun.snapshot(torch.nn.Linear(1, 1), folder=tmp_path, extra={"data": s})
    while s.epoch < 2:
        again += [torch.rand(1).item() for _ in DataLoader(range(50), batch_size=8, sampler=s)]
    state.close()
    assert again == draws[taken:]


def test_the_rest_is_dealt_to_another_world() -> None:
    ranks = [sampler(r, 2) for r in range(2)]
    taken = []
    for s in ranks:
        s.load_state_dict({"epoch": 0, "position": 0, "samples": 50, "seed": 3})
        indices = iter(s)
        taken += [next(indices) for _ in range(7)]
    state = ranks[0].state_dict()
    assert state["position"] == 14
    rest = []
    for r in range(3):
        s = sampler(r, 3)
        s.load_state_dict(state)
        rest += list(s)
    assert len(rest) == 36 and set(taken) | set(rest) == set(range(50)) and not set(taken) & set(rest)


def test_other_data_is_refused() -> None:
    with pytest.raises(ddprun.Error, match="the sampler has samples 50, the snapshot 51"):
        sampler().load_state_dict(sampler(samples=51).state_dict())
