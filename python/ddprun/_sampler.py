"""Which samples this rank takes, and where in the data the job is."""

from __future__ import annotations

import ctypes
from ctypes import c_uint32
from typing import Any, Iterable, Iterator, Optional, Sized

import torch
from torch.utils.data import Sampler

from ._job import place
from ._libddp import SamplerConf, call, lib, usage

CHUNK = 65536  # indices that are asked for at once


class StatefulSampler(Sampler[int]):
    """A DistributedSampler that knows how far the epoch is.

    An epoch is a shuffle of all samples by (seed, epoch), dealt to the ranks in
    turn; its end is filled up from its beginning, or cut off with `drop_last`.
    Its state is the epoch and how many samples all ranks together have taken,
    so the rest of the epoch can be dealt to another number of ranks.

        sampler = ddprun.StatefulSampler(data, seed=1)
        loader = DataLoader(data, batch_size=32, sampler=sampler, num_workers=4)
        state = ddprun.snapshot(model, optimizer, extra={"data": sampler})
        for epoch in range(sampler.epoch, epochs):
            for batch in sampler.batches(loader):
                ...
                state.save(step)

    `batches` counts what the loop has taken. A plain `for batch in loader` is
    right without num_workers only: with them the loader is ahead of the loop.
    """

    def __init__(
        self,
        data: "Sized | int",
        *,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        rank: Optional[int] = None,
        world: Optional[int] = None,
    ) -> None:
        self.samples = data if isinstance(data, int) else len(data)
        self.seed, self.shuffle, self.drop_last = seed, shuffle, drop_last
        self.rank = place().rank if rank is None else rank
        self.world = place().world if world is None else world
        self.epoch = 0
        self.position = 0  # samples of the epoch that all ranks have taken
        self._counted = False  # by `batches` or `taken`, not by __iter__
        self._generator: Optional[torch.Tensor] = None  # see `resume_generator`
        conf = SamplerConf(
            ctypes.sizeof(SamplerConf), self.samples, self.rank, self.world, seed, shuffle, drop_last
        )
        self._handle = call("ddp_sampler_new", ctypes.byref(conf))

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            lib.ddp_sampler_free(self._handle)

    def __len__(self) -> int:
        """Samples of this rank in a whole epoch."""
        return self.samples // self.world if self.drop_last else -(-self.samples // self.world)

    def left(self) -> int:
        """Samples of this rank in the rest of the epoch."""
        call("ddp_sampler_seek", self._handle, self.epoch, self.position)
        return int(lib.ddp_sampler_left(self._handle))

    def set_epoch(self, epoch: int) -> None:
        """As DistributedSampler's; the epoch that is under way goes on."""
        if epoch != self.epoch:
            self.epoch, self.position = epoch, 0

    def _indices(self) -> Iterator[int]:
        """The rest of the epoch for this rank. Another iteration may move the
        handle in between."""
        if self._generator is not None:
            torch.set_rng_state(self._generator)
            self._generator = None
        epoch, position = self.epoch, self.position
        room = (c_uint32 * CHUNK)()
        while True:
            call("ddp_sampler_seek", self._handle, epoch, position)
            n = lib.ddp_sampler_next(self._handle, room, CHUNK)
            if n == 0:
                return
            position += n * self.world
            yield from room[:n]

    def _over(self) -> None:
        self.epoch, self.position = self.epoch + 1, 0

    def __iter__(self) -> Iterator[int]:
        if self._counted:
            yield from self._indices()
            return
        for index in self._indices():
            self.position += self.world
            yield index
        self._over()

    def resume_generator(self, state: torch.Tensor) -> None:
        """PyTorch's generator gets this state when the first index is asked for:
        a loader draws from it before, and in an epoch that is resumed it would
        be once more than in one that was not disturbed. ddprun.snapshot calls
        this."""
        if self.position > 0:
            self._generator = state

    def counted_by_others(self) -> None:
        """Only `taken` counts from now on: a loader that is ahead does not."""
        self._counted = True

    def taken(self, samples: int) -> None:
        """For frameworks that have the loop: this rank has taken so many samples
        of the epoch. From the first call on nothing else counts."""
        self.counted_by_others()
        self.position = min(samples, len(self)) * self.world

    def batches(self, loader: "Iterable[Any]") -> Iterator[Any]:
        """The batches of a loader that has this sampler, counted as the loop
        takes them. At its end the next epoch begins."""
        size = getattr(loader, "batch_size", None)
        if size is None:
            raise usage("batches() wants a loader with a batch_size, to count the samples")
        self._counted = True
        try:
            left = self.left()
            for batch in loader:
                taken = min(size, left)
                left -= taken
                self.position += taken * self.world
                yield batch
            self._over()
        finally:
            self._counted = False

    def state_dict(self) -> "dict[str, int]":
        return {"epoch": self.epoch, "position": self.position, "samples": self.samples, "seed": self.seed}

    def load_state_dict(self, state: "dict[str, int]") -> None:
        """Error: it is of other data, or of another shuffle."""
        for name in ("samples", "seed"):
            if state[name] != getattr(self, name):
                raise usage(f"the sampler has {name} {getattr(self, name)}, the snapshot {state[name]}")
        self.epoch, self.position = state["epoch"], state["position"]
