"""The state of a training program, kept in memory and on disk.

Happy path: `snapshot` makes a keeper, asks it for the newest state that any rank
holds, compares that with the program, and gives each part its own. `save` walks
the parts and hands pointers to libddp, which copies the bytes.

The state is what all ranks have, each its pieces (_pieces). What a rank has for
itself goes as libddp's state of the rank, as compressed JSON.

Failure modes. The snapshot is of another program: an Error lists the
differences, before anything was changed. The disk is full: `unsaved` and a
warning say so, and training goes on. A rank died: Error, as from any collective;
the launcher starts the next round.

On GPUs libddp copies in the order of the stream. It cannot know PyTorch's
collectives: one that was aborted leaves nonsense in the gradients. So `save`
waits for the stream first if there are other ranks, and a rank that dies before
takes the gathering of the ranks' states with it, without which no rank's save
counts.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import operator
import os
import warnings
import zlib
from ctypes import c_int64, c_size_t
from typing import Any, Iterator, Optional, Union

import torch

from . import _parts, _rng
from ._job import comm, handle, place
from ._libddp import EARLIER, IO, NOMEM, Error, KeeperConf, call, lib, usage
from ._pieces import Nothing, Pieces
from ._sampler import StatefulSampler
from ._shards import locals_of
from ._structure import Prepare, compact, pages
from ._tree import Reader, Writer

_I64, _MAX = 5, 2  # DDP_I64, DDP_MAX


def _number(step: Any) -> int:
    try:
        number = operator.index(step)
    except TypeError:
        number = -1
    if not 0 <= number < 2**63:
        raise usage(f"the step is {step!r}, must be a whole number, 0 or more")
    return number


def _greatest(mine: int) -> int:
    """The greatest that a rank gives. Collective."""
    number = c_int64(mine)
    if place().world > 1:
        call("ddp_comm_all_reduce", comm(), ctypes.byref(number), ctypes.byref(number), 1, _I64, _MAX)
    return number.value


class State:
    """What `snapshot` returns.

    step: of the snapshot that was loaded, or of the last save; 0 at first.
    restored: whether there was a snapshot.
    from_memory: it came from memory, not from a disk.
    why: which newer snapshot was refused, and why; or what is missing, if there is one
        that is not whole and the job begins anew; "" if neither is so.
    unsaved: why the last save to disk failed; "" if it did not.
    extra, per_rank: the dicts that were given; saved with each save.
    """

    _in_memory: "Optional[State]" = None  # the one that has the launcher's memory

    def __init__(
        self,
        given: "tuple[Any, ...]",
        folder: Optional[str],
        disk_every: int,
        keep: int,
        extra: "dict[str, Any]",
        per_rank: "dict[str, Any]",
        rng: bool,
        overlap: bool,
        memory: bool,
        copies: int,
        check_every: int,
    ) -> None:
        self.step = 0
        self.restored = self.from_memory = False
        self.why = self.unsaved = ""
        self.extra, self.per_rank = extra, per_rank
        self._parts, self._rng = _parts.named(given), rng
        self._of_rank_0 = _parts.with_buffers_of_rank_0(given)
        self._folder, self._disk_every = folder, disk_every
        self._on_disk = -1  # the last step that was ordered to the disk
        self._held: Any = None  # what libddp may still read
        self._mirrors_told = self._unequal_told = self._strangers_told = False
        self._may_differ = self._names_that_may_differ()
        self._cuda = any(t.is_cuda for t in self._tensors())
        self._device = torch.cuda.current_device() if self._cuda else -1
        self._overlap = overlap and not self._cuda
        self._world = place().world
        self._pid = os.getpid()
        self._keeper: Optional[int] = None
        self._rank_max = self._agree()
        self._pieces = Pieces(self._parts, extra)
        if State._in_memory is not None and memory:
            raise usage(
                "this program keeps a state already, and the launcher has memory for one: give all parts to one "
                "ddprun.snapshot, close() the first, or give memory=False"
            )
        self._keeper = self._open(keep, memory, copies, check_every)
        if memory:
            State._in_memory = self
        atexit.register(self.close)
        if self._overlap:
            for part in self._parts.values():
                if isinstance(part, torch.optim.Optimizer):
                    part.register_step_pre_hook(lambda *_: self.settle())

    def _tensors(self) -> Iterator[torch.Tensor]:
        for part in self._parts.values():
            if isinstance(part, torch.nn.Module):
                yield from part.parameters()
                yield from part.buffers()

    def _open(self, keep: int, memory: bool, copies: int, check_every: int) -> int:
        conf = KeeperConf(
            size=ctypes.sizeof(KeeperConf),
            folder=os.fspath(self._folder).encode() if self._folder else None,
            keep=keep,
            no_memory=not memory,
            gpu=self._cuda,
            later=self._overlap,
            rank_state_max=self._rank_max,
            copies=copies,
            check_every=check_every if check_every != 0 else -1,
            may_differ=self._may_differ,
        )
        if self._cuda:
            self._stream = torch.cuda.current_stream()
            conf.stream = self._stream.cuda_stream or None
        return int(call("ddp_keeper_new", handle(), comm(), ctypes.byref(conf)))

    def _names_that_may_differ(self) -> Any:
        """All but parameters and optimizers: a batch norm's statistics, a score or a
        counter may begin to be a rank's own at any step, which is no wrong bit."""
        names = ["extra.", "ddprun."]
        for name, part in self._parts.items():
            if isinstance(part, torch.nn.Module):
                own = (key for key, x in _parts.state_of(part).items() if not isinstance(x, torch.nn.Parameter))
                names += [f"{name}.{key}" for key in own]
            elif not isinstance(part, torch.optim.Optimizer):
                names.append(f"{name}.")
        return (ctypes.c_char_p * (len(names) + 1))(*(each.encode() for each in names), None)

    # -- what a rank has for itself --

    def _rank_state(self) -> bytes:
        tree = {name: _parts.own_state(x) for name, x in self.per_rank.items()}
        if self._rng:
            tree["ddprun.rng"] = _rng.capture()
        if not tree:
            return b""
        text = compact(Writer(inline=True).write(tree, "per_rank"))
        return zlib.compress(text.encode(), 1)

    def _agree(self) -> int:
        """How large the state of a rank may be, the same on all, with room for what
        grows a little. Never 0: the gathering shows that all of them came to the save
        of that step."""
        mine = len(self._rank_state())
        return _greatest(pages(mine + mine // 4 + 1024))

    def _put_rank_state(self) -> None:
        mine = self._rank_state()
        if len(mine) > self._rank_max:
            raise usage(
                f"per_rank has grown to {len(mine)} bytes, at most {self._rank_max} fit: give it its full size "
                "before ddprun.snapshot, or put it into extra if all ranks have the same"
            )
        call("ddp_keeper_set_rank_state", self._keeper, mine, len(mine))

    def _take_rank_state(self) -> None:
        """That of this rank's number; a rank that is new keeps its own."""
        n = c_size_t()
        at = lib.ddp_keeper_rank_state(self._keeper, place().rank, ctypes.byref(n))
        if at is None or n.value == 0:
            return
        tree = Reader({}).read(json.loads(zlib.decompress(ctypes.string_at(at, n.value))))
        rng = tree.pop("ddprun.rng", None)
        _parts.load_values(self.per_rank, tree)
        if rng is not None and self._rng:
            _rng.restore(rng)
            for x in self.extra.values():
                if isinstance(x, StatefulSampler):
                    x.resume_generator(torch.get_rng_state())

    # -- load --

    def _load(self, prepare: Optional[Prepare]) -> None:
        assert self._keeper is not None
        try:
            found = self._pieces.load(self._keeper, prepare)
        except Nothing as e:
            self.why = str(e)
            if self.why and place().rank == 0:  # all ranks know it
                warnings.warn(f"no snapshot is whole, the job begins anew: {self.why}", RuntimeWarning, stacklevel=3)
            return
        for name, part in self._parts.items():
            _parts.load(name, part, found.parts[name])
        _parts.load_values(self.extra, found.extra)
        self._take_rank_state()
        kept = found.kept
        self.step, self.restored = kept.step, True
        # Each rank tells where its pieces came from.
        self.from_memory = _greatest(kept.memory) > 0
        self.why = kept.why.decode(errors="replace")
        self._on_disk = -1 if self.from_memory else kept.step

    # -- save --

    def _reachable(self, t: torch.Tensor) -> torch.Tensor:
        """libddp reads host memory, and that of the GPU on which the model is."""
        return t.cpu() if t.is_cuda and t.device.index != self._device else t

    def _still(self, tensors: "dict[Any, torch.Tensor]") -> "dict[Any, torch.Tensor]":
        """With copies of what may change before the optimizer's next step."""
        waits = set()
        for part in self._parts.values():
            if isinstance(part, torch.optim.Optimizer):
                theirs = [p for group in part.param_groups for p in group["params"]]
                states = _parts.local(part).state.values()
                theirs += [x for state in states for x in state.values() if isinstance(x, torch.Tensor)]
                waits |= {t.data_ptr() for x in theirs for t in locals_of(x)}
        return {name: t if t.data_ptr() in waits else t.detach().clone() for name, t in tensors.items()}

    def _take_buffers_of_rank_0(self, tensors: "dict[Any, torch.Tensor]") -> None:
        """So that all ranks save the same; the model's own stay as they are."""
        buffers = {b.data_ptr() for model in self._of_rank_0 for b in model.buffers()}
        names = [name for name, t in tensors.items() if t.data_ptr() in buffers and t.numel() > 0]
        if self._world == 1 or not names:
            return
        names.sort(key=lambda name: -tensors[name].element_size())  # so all are aligned
        if place().rank == 0:
            flat = (tensors[name].cpu().reshape(-1).clone(memory_format=torch.contiguous_format) for name in names)
            all_bytes = torch.cat([t.view(torch.uint8) for t in flat])
        else:
            n = sum(tensors[name].numel() * tensors[name].element_size() for name in names)
            all_bytes = torch.empty(n, dtype=torch.uint8, device="cpu")
        call("ddp_comm_broadcast", comm(), all_bytes.data_ptr(), all_bytes.numel(), 0)
        at = 0
        for name in names:
            t = tensors[name]
            n = t.numel() * t.element_size()
            tensors[name] = all_bytes[at : at + n].view(t.dtype).reshape(t.shape)
            at += n

    def _wait_for_stream(self) -> None:
        """See the top. And the keeper's stream comes after the current one."""
        current = torch.cuda.current_stream()
        if self._world > 1:
            current.synchronize()
        elif current != self._stream:
            self._stream.wait_stream(current)

    def save(self, step: int, *, disk: Optional[bool] = None) -> None:
        """Keeps the state after `step`: in memory, and every `disk_every` steps,
        or with disk=True, on disk too. Returns when it is copied; with
        `overlap` before that.

        Collective: call it on all ranks with the same step.

        Error: a rank died, the ranks gave different steps, a rank has wrong bits
        (`check_every`; the text names it), or there is something that cannot be
        kept. A disk that fails is no error: `unsaved`
        says why, and a warning.
        """
        if self._keeper is None:
            raise usage("this state is closed")
        step = _number(step)
        if disk is None:
            disk = self._disk_every > 0 and step % self._disk_every == 0
        disk = disk and self._folder is not None
        self.settle()
        self._put_rank_state()
        tensors = {name: self._reachable(t) for name, t in self._pieces.collect(step).items()}
        self._take_buffers_of_rank_0(tensors)
        if self._overlap:
            tensors = self._still(tensors)
        if self._cuda:
            self._wait_for_stream()
        self._hand_over(step, tensors, disk)
        if self._cuda and torch.cuda.current_stream() != self._stream:
            torch.cuda.current_stream().wait_stream(self._stream)
        self._held = tensors if self._overlap else None
        self.step = step

    def _hand_over(self, step: int, tensors: "dict[Any, torch.Tensor]", disk: bool) -> None:
        """After an error of an earlier save this one goes on."""
        assert self._keeper is not None
        try:
            self._pieces.save(self._keeper, step, tensors, disk)
            failed = None
        except Error as e:
            if e.code not in (IO, NOMEM) and not str(e).startswith(EARLIER):
                raise
            failed = e
            if not self.unsaved:
                warnings.warn(f"a snapshot was not saved, training goes on: {e}", RuntimeWarning, stacklevel=3)
            self.unsaved = str(e)
        if disk and (failed is None or failed.code != NOMEM):
            self._on_disk = step
        if disk and failed is None:
            self.unsaved = ""
        self._tell_of_mirrors()
        self._tell_of_unequal()
        self._tell_of_strangers()

    def _tell_of_strangers(self) -> None:
        """Once, on each rank that turned some away."""
        what = lib.ddp_strangers(handle()).decode(errors="replace")
        if what and not self._strangers_told:
            warnings.warn(what, RuntimeWarning, stacklevel=4)
            self._strangers_told = True

    def _tell_of_unequal(self) -> None:
        """Once, on one rank of those that have it."""
        what = lib.ddp_keeper_unequal(self._keeper).decode(errors="replace")
        if what and not self._unequal_told:
            warnings.warn(f"not all ranks have the same state: {what}", RuntimeWarning, stacklevel=4)
            self._unequal_told = True

    def _tell_of_mirrors(self) -> None:
        """Once, if there are none any more: all ranks know why, and rank 0 says it."""
        why = lib.ddp_keeper_no_mirrors(self._keeper).decode(errors="replace")
        if why and place().rank == 0 and not self._mirrors_told:
            warnings.warn(f"a node that is lost takes its shards with it: {why}", RuntimeWarning, stacklevel=4)
            self._mirrors_told = True

    def settle(self) -> None:
        """Waits until the last save is copied and counts."""
        if self._keeper is not None and self._held is not None:
            lib.ddp_keeper_settle(self._keeper)
            self._held = None

    def flush(self) -> None:
        """Waits until the last save is on disk; writes it if it is in memory
        only. Call it on all ranks, before the program leaves.

        Error: it cannot be written.
        """
        if self._keeper is None:
            return
        # A rank may have had no memory for the last save: then all of them save again.
        if self._folder is not None and _greatest(int(self._on_disk != self.step)):
            self.save(self.step, disk=True)
        call("ddp_keeper_wait", self._keeper)
        if self._folder is not None and self._on_disk != self.step:
            raise Error(NOMEM, self.unsaved)

    @property
    def no_memory(self) -> str:
        """Why this rank does not save to memory; "" if it does."""
        return "" if self._keeper is None else lib.ddp_keeper_no_memory(self._keeper).decode(errors="replace")

    @property
    def mirrored(self) -> int:
        """The newest step that is in the memory of two nodes; -1: none. The save after
        it finds out."""
        return -1 if self._keeper is None else int(lib.ddp_keeper_mirrored(self._keeper))

    @property
    def skipped(self) -> int:
        """How many saves had no room in memory while a mirror was on its way."""
        return 0 if self._keeper is None else int(lib.ddp_keeper_skipped(self._keeper))

    def close(self) -> None:
        """Waits for what is being written, and gives the memory back. What is
        kept in the launcher's memory stays there."""
        keeper, self._keeper = self._keeper, None
        if State._in_memory is self:
            State._in_memory = None
        if keeper is None or os.getpid() != self._pid:
            return
        atexit.unregister(self.close)
        try:
            call("ddp_keeper_wait", keeper)
        except Error as e:
            warnings.warn(f"the last snapshot was not saved: {e}", RuntimeWarning, stacklevel=2)
        lib.ddp_keeper_free(keeper)


def snapshot(
    *parts: Any,
    folder: "Optional[Union[str, os.PathLike[str]]]" = None,
    disk_every: int = 0,
    keep: int = 2,
    extra: "Optional[dict[str, Any]]" = None,
    per_rank: "Optional[dict[str, Any]]" = None,
    rng: bool = True,
    overlap: bool = False,
    memory: bool = True,
    copies: int = 2,
    check_every: int = 50,
    prepare: Optional[Prepare] = None,
) -> State:
    """Keeps the state of a job, and restores the newest there is.

    Collective: call it on all ranks, when the parts are made and before the
    first step.

    parts: the model (also inside DistributedDataParallel or torch.compile),
        optimizers, schedulers, a GradScaler, and whatever has state_dict() and
        load_state_dict(). In the same order each time. All ranks hold the same
        state; or each has its part of it, as DTensor (FSDP2, HSDP, tensor
        parallelism), FSDP1, ZeroRedundancyOptimizer, DeepSpeed (ZeRO 1 and 2) or a
        Piece tells, or as stage of a pipeline. Then ranks of any other number,
        sharded in any other way, can go on with it; after DeepSpeed, and FSDP1
        without use_orig_params, in the same way only.
    folder, disk_every, keep: where snapshots go to every so many steps, and how
        many stay. Without a folder they are in memory only: they survive
        workers and nodes, not the launchers of all nodes; if they are sharded,
        not those of two nodes side by side.
    extra: what else all ranks share: numbers, text, lists, dicts, tensors,
        objects with a state (a StatefulSampler). It is `State.extra` and may be
        changed. What was saved comes into the lists, dicts and tensors that
        stand in it.
    per_rank: the same, but each rank's own; a rank of another world gets that of
        its number, if there was one.
    rng: keep the random generators of Python, numpy and PyTorch, per rank.
    overlap: let `save` return before the copy; only for programs whose
        parameters nothing but the given optimizers changes. Without GPUs.
    memory: False keeps nothing in the launcher's memory.
    copies: on how many nodes sharded state is kept in memory: 2, or 1.
    check_every: what several ranks have alike of models and optimizers, such as DDP's
        parameters, is compared every so many saves, and before each save to the disk,
        so that a bit that memory or a processor got wrong is found; 0: never. From
        GPUs it comes to the host first (never run on a card).
    prepare: is called with the step and the extra of a snapshot before the parts
        get their state: add there what was added to the program while it ran,
        such as a group of parameters.

    Error: the snapshot is of another program (the text has all differences), is
    damaged or cannot be read; a part is sharded and does not tell how
    (DeepSpeed's ZeRO 3); a rank died.
    """
    state = State(
        parts,
        folder=os.fspath(folder) if folder is not None else None,
        disk_every=disk_every,
        keep=keep,
        extra=extra if extra is not None else {},
        per_rank=per_rank if per_rank is not None else {},
        rng=rng,
        overlap=overlap,
        memory=memory,
        copies=copies,
        check_every=check_every,
    )
    try:
        state._load(prepare)
    except BaseException:
        state.close()
        raise
    return state
