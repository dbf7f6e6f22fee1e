"""The state of a job, as libddp's keeper has it: of sharded tensors the pieces that
each rank has, of any other the whole, which all ranks have that know its name. In
DistributedDataParallel these are all.

A tensor has the name that it has in the whole model, so that any other world, also
one that shards otherwise, finds it. The structure is in two parts. What tells the
tensors of models and optimizers stays as it is for long, and so does the table of
their pieces: from save to save only pointers change. The values (numbers, text,
what other parts and `extra` hold) are written at each save. Ranks of a pipeline
have different structures, so the name of one tells which tensors it knows.

A snapshot is loaded twice: the structure alone, with which the program is compared
and `prepare` is asked; then the tensors, as they are laid out here. Only after that
the program's own state changes.
"""

from __future__ import annotations

import copy
import ctypes
import hashlib
import json
from typing import Any, Callable, Dict, Iterable, Iterator, NamedTuple, Optional

import torch

from . import _fsdp1, _parts
from ._libddp import CORRUPT, NOINPUT, Error, Kept, Piece, WantFn, call
from ._shards import Part, Shape, Span, empty_as, is_sharded, local_of, part_of, parts_of
from ._structure import (
    FORMAT,
    NONSENSE,
    STRUCTURE,
    Found,
    Prepare,
    as_tensor,
    compact,
    not_ours,
    of_no_sense,
    too_new,
)
from ._tree import DTYPE_OF, DTYPES, MARK, SHARDED, Json, Reader, Writer, bytes_of

OTHERS_MAX = 16  # older snapshots that are tried, if newer ones prove damaged

Parts = Dict[str, Any]


class Place(NamedTuple):
    """Where a piece belongs."""

    name: str
    dtype: torch.dtype
    shape: Shape
    whole: Shape
    offset: Shape


def is_readable(t: torch.Tensor) -> bool:
    """Whether libddp can read the memory."""
    return t.device.type in ("cpu", "cuda")


def pieces_of(name: str, x: Any) -> "list[tuple[Place, torch.Tensor]]":
    """What is here of a tensor, as libddp can read it."""
    if not is_sharded(x) and x.dim() == 0:
        return [(Place(name, x.dtype, (1,), (1,), (0,)), x)]
    whole = tuple(x.shape)
    if 0 in whole:  # no rank has elements of it, and all of them the same piece
        nowhere = torch.empty(whole, dtype=x.dtype, device="cpu")
        return [(Place(name, x.dtype, whole, whole, (0,) * len(whole)), nowhere)]
    return [
        (
            Place(name, local.dtype, tuple(local.shape), whole, offset),
            (local if is_readable(local) else local.cpu()).contiguous(),
        )
        for local, offset in parts_of(x)
    ]


# -- save ----------------------------------------------------------------------


class _Source(NamedTuple):
    """A tensor where its owner keeps it, to be found again without state_dict()."""

    name: str
    holder: "dict[Any, Any]"
    key: Any
    tensor: Any
    local: "Optional[tuple[torch.Size, torch.dtype]]"  # of dense memory; None: look again each time

    @classmethod
    def of(cls, name: str, holder: "dict[Any, Any]", key: Any) -> "_Source":
        x = holder[key]
        local = local_of(x)
        none = is_sharded(x) and 0 in x.shape
        if local is None or none or not local.is_contiguous() or not is_readable(local):
            return cls(name, holder, key, x, None)
        return cls(name, holder, key, x, (local.shape, local.dtype))


def _detached(state: Any) -> Any:
    """Of a model, with tensors where there are parameters."""
    state = copy.copy(state)
    for key, x in state.items():
        if isinstance(x, torch.Tensor) and not is_sharded(x):
            state[key] = x.detach()
    return state


class _Layout:
    """The tensors of models and optimizers, as the structure tells them."""

    def __init__(self, parts: Parts) -> None:
        self._models = {name: part for name, part in parts.items() if isinstance(part, torch.nn.Module)}
        self._optimizers = {name: part for name, part in parts.items() if isinstance(part, torch.optim.Optimizer)}
        self._modules = [module for model in self._models.values() for module in model.modules()]
        self._steady = not any(map(_parts.tells_itself, self._optimizers.values()))
        # Models first: FSDP2 goes back to its shards in state_dict().
        models = {name: _parts.state_of(model) for name, model in self._models.items()}
        names, spans = _parts.parameter_names(parts), _parts.spans_of(parts)
        told = {name: _parts.by_name(optimizer, names, spans) for name, optimizer in self._optimizers.items()}
        self._rest = {name: rest for name, (_, rest) in told.items()}
        leaves = dict(self._leaves(models, {name: tree for name, (tree, _) in told.items()}))
        writer = Writer(pieces=True)
        written = {name: writer.write(_detached(state), name) for name, state in models.items()}
        written.update({name: writer.write(tree, name) for name, (tree, _) in told.items()})
        self.text = compact(written)
        self.names = hashlib.blake2b("\n".join(sorted(writer.tensors)).encode(), digest_size=8).hexdigest()
        own = {name: models[part][key] for name, (part, key) in _parts.buffers_of_this_rank(parts).items()}
        tensors = {**writer.tensors, **own}
        pieces = [piece for name, x in tensors.items() for piece in pieces_of(name, x)]
        self.places = [place for place, _ in pieces]
        self._new: Any = [t for _, t in pieces]
        self._sources = self._find({**leaves, **own}, tensors) if self._steady else None
        self._outline = self._outline_now()

    def _leaves(self, models: Parts, optimizers: Parts) -> "Iterator[tuple[str, Any]]":
        for name, state in models.items():
            for key, x in state.items():
                yield f"{name}.{key}", x
        for name, tree in optimizers.items():
            for of, state in tree["state"].items():
                for key, x in state.items():
                    yield f"{name}.state.{of}.{key}", x

    def _find(self, leaves: Parts, tensors: Parts) -> "Optional[list[_Source]]":
        """None: some of them are no tensors, or no object has them as they are."""
        holders: dict[int, tuple[Any, Any]] = {}  # by id() of a tensor
        for holder in self._holders():
            holders.update((id(x), (holder, key)) for key, x in holder.items())
        known = all(id(x) in holders and (isinstance(x, torch.Tensor) or is_sharded(x)) for x in leaves.values())
        if not known or not tensors.keys() <= leaves.keys():
            return None
        if any(x.dtype != leaves[at].dtype for at, x in tensors.items()):  # a complex one
            return None
        return [_Source.of(at, *holders[id(leaves[at])]) for at in tensors]

    def _holders(self) -> "Iterator[dict[Any, Any]]":
        for module in self._modules:
            yield module._parameters
            yield module._buffers
        for optimizer in self._optimizers.values():
            yield from _parts.local(optimizer).state.values()

    def _outline_now(self) -> "list[int]":
        """Another one if there is something else than before."""
        found: list[int] = []
        for module in self._modules:
            found += map(id, module._modules.values())
            found += map(id, module._parameters.values())
            found += [x is None for x in module._buffers.values()]
        for optimizer in self._optimizers.values():
            found += [id(p) for group in optimizer.param_groups for p in group["params"]]
            found += map(len, _parts.local(optimizer).state.values())
        return found

    def tensors(self) -> "Optional[list[torch.Tensor]]":
        """Those of `places` as they are now. None: this layout is not true any more."""
        found, self._new = self._new, None
        if found is not None:
            return found  # type: ignore[no-any-return]
        if self._sources is None or self._outline != self._outline_now():
            return None
        return self._found_again(self._sources)

    def _found_again(self, sources: "list[_Source]") -> "Optional[list[torch.Tensor]]":
        """For thousands of them, before each save: so nothing is called without need."""
        found: list[torch.Tensor] = []
        for name, holder, key, tensor, known in sources:
            if holder.get(key) is not tensor:
                return None
            if known is None:
                pieces = pieces_of(name, tensor)
                if [place for place, _ in pieces] != self.places[len(found) : len(found) + len(pieces)]:
                    return None
                found += [t for _, t in pieces]
                continue
            t: Any = getattr(tensor, "_local_tensor", tensor)
            shape, dtype = known
            if t.shape != shape or t.dtype is not dtype or not t.is_contiguous():
                return None
            if 0 not in shape or t is tensor:  # of an empty shard there is no piece
                found.append(t)
        return found if len(found) == len(self.places) else None

    def rest(self, name: str) -> Any:
        """Of an optimizer: what is no tensor of its state."""
        return _parts.groups_of(self._optimizers[name]) if self._steady else self._rest[name]


class _Table:
    """Pieces as libddp wants them."""

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._pointers: list[int] = []
        self.rows: Any = (Piece * 0)()

    def of(self, places: "list[Place]", tensors: "Iterable[torch.Tensor]") -> Any:
        if places != self._places:
            self._build(places)
        pointers = [t.data_ptr() for t in tensors]
        for i, at in enumerate(pointers):
            if at != self._pointers[i]:
                self.rows[i].local.data = at
        self._pointers = pointers
        return self.rows

    def _build(self, places: "list[Place]") -> None:
        self.rows = (Piece * len(places))()
        for row, place in zip(self.rows, places):
            row.local.name, row.local.dtype = place.name.encode(), DTYPES[place.dtype]
            row.local.dims = len(place.shape)
            for i, n in enumerate(place.shape):
                row.local.shape[i], row.whole[i], row.offset[i] = n, place.whole[i], place.offset[i]
        self._places, self._pointers = places, [0] * len(places)


# -- load ----------------------------------------------------------------------


class _Room:
    """Where a tensor of the snapshot goes: into one that lies as `like`, or as a whole
    one, which is cut then if it was saved in another way than it is."""

    def __init__(self, dtype: torch.dtype, whole: Shape, like: Any, as_it_is: bool) -> None:
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.dtype, self.whole = dtype, whole
        self.cut_as = like if like is not None and not as_it_is else None
        if like is None or not as_it_is:
            self.value: Any = torch.empty(whole, dtype=dtype, device="cpu")
            self.wanted = parts_of(self.value)
        else:
            self.value = empty_as(like, dtype)
            self.wanted = [self._in_host_memory(part) for part in parts_of(self.value, like)]
        self.wanted = [part for part in self.wanted if part.local.numel() > 0]

    def _in_host_memory(self, part: Part) -> Part:
        if part.local.device.type == "cpu" and part.local.is_contiguous():
            return part
        buffer = torch.empty(part.local.shape, dtype=self.dtype, device="cpu")
        self._copies.append((part.local, buffer))
        return Part(buffer, part.offset)

    def filled(self) -> Any:
        for local, buffer in self._copies:
            local.copy_(buffer)
        self._copies = []
        return self.value


class _Fetched:
    """One load: which tensors were saved, the structures, and what went into rooms."""

    def __init__(self, rooms: "dict[str, _Room]") -> None:
        self.rooms = rooms
        self.kept = Kept(size=ctypes.sizeof(Kept))
        self.saved: dict[str, tuple[torch.dtype, Shape]] = {}
        self.structures: dict[str, _Room] = {}
        self.error: Optional[Exception] = None

    def snapshot(self) -> "tuple[Any, ...]":
        return self.kept.step, self.kept.round, self.kept.instance

    def want(self, _: Any, whole: Any, i: int, want: Any) -> bool:
        """See ddp_want_fn."""
        try:
            t = whole.contents
            part = self._wanted(t.name.decode(), DTYPE_OF[t.dtype], tuple(t.shape[: t.dims]), i)
        except Exception as e:  # must not end in ctypes
            self.error, part = e, None
        if part is None:
            return False
        for d, n in enumerate(part.local.shape):
            want.contents.local.shape[d], want.contents.offset[d] = n, part.offset[d]
        want.contents.local.data = part.local.data_ptr()
        return True

    def _wanted(self, name: str, dtype: torch.dtype, whole: Shape, i: int) -> Optional[Part]:
        if i == 0:
            self.saved[name] = dtype, whole
            if name == STRUCTURE or name.startswith(STRUCTURE + "."):
                self.structures[name] = _Room(dtype, whole, None, True)
        room = self.structures.get(name, self.rooms.get(name))
        if room is None or (room.dtype, room.whole) != (dtype, whole) or i >= len(room.wanted):
            return None
        return room.wanted[i]


class Nothing(Exception):
    """There is no snapshot. Or no save is whole, and none ever was, as far as can be
    told: then the text says what is missing."""


def _fetch(keeper: int, rooms: "dict[str, _Room]") -> _Fetched:
    """After a first time perhaps an older one than before, whose structure it has then.
    Error: Nothing, on all ranks."""
    fetched = _Fetched(rooms)
    want = WantFn(fetched.want)
    try:
        call("ddp_keeper_load_pieces", keeper, want, None, None, 0, ctypes.byref(fetched.kept))
    except Error as e:
        if e.code == NOINPUT:
            raise Nothing(fetched.kept.why.decode(errors="replace")) from e
        raise
    if fetched.error is not None:
        raise fetched.error
    return fetched


class _Metas(Dict[str, torch.Tensor]):
    """Tensors without data (device "meta") for those that are not there."""

    def __init__(self, saved: "dict[str, tuple[torch.dtype, Shape]]", ready: Parts) -> None:
        super().__init__(ready)
        self._saved = saved

    def __missing__(self, name: str) -> torch.Tensor:
        dtype, shape = self._saved[name]
        return torch.empty(shape, dtype=dtype, device="meta")


class _Described(Reader):
    """Reads before all data is there, and notes how each tensor was saved."""

    def __init__(self, plan: "_Plan", ready: Parts) -> None:
        super().__init__(_Metas(plan.saved, ready))
        self._marks = plan.marks

    def stored(self, mark: Any) -> torch.Tensor:
        t = super().stored(mark)
        if "data" not in mark:
            self._marks[id(t)] = t, mark
        return t

    def array(self, mark: Any) -> Any:
        import numpy

        if mark["bytes"].get("of") in self.tensors:
            return super().array(mark)
        self.stored(mark["bytes"])
        return numpy.zeros(())


class _Filled(Reader):
    """Reads when the rooms have their data."""

    def __init__(self, rooms: "dict[str, _Room]") -> None:
        super().__init__({name: room.filled() for name, room in rooms.items()})
        self._rooms = rooms

    def stored(self, mark: Any) -> Any:
        t = super().stored(mark)
        like = self._rooms[mark["of"]].cut_as if "data" not in mark else None
        t = t if like is None else part_of(t, like)
        return t.tensor if isinstance(t, Span) else t


def _read(structure: Any, reader: "Callable[[], Reader]") -> "tuple[Parts, Parts]":
    """The parts and the extra of a structure."""
    values = reader()
    parts, extra = dict(values.read(structure["parts"])), dict(values.read(structure["extra"]))
    if structure["format"] == FORMAT:
        tensors = reader()
        for name, tree in structure["tensors"].items():
            tree = tensors.read(tree)
            parts[name] = _parts.joined(tree, parts[name]) if name in parts else tree
    return parts, extra


def _structures(fetched: _Fetched) -> "list[Any]":
    """Those of the snapshot that was loaded. Some were asked for of another one that
    proved damaged: they are of another step, or not filled."""
    found: list[Any] = []
    wrong: Optional[Exception] = None
    for _, room in sorted(fetched.structures.items()):
        try:
            text = json.loads(bytes_of(room.value))
            if text["format"] not in range(1, FORMAT + 1):
                raise too_new()
            found.append(text)
        except NONSENSE as e:
            wrong = e
    if not found:
        raise of_no_sense(wrong) if wrong is not None else not_ours()
    of_step = [text for text in found if text.get("step") == fetched.kept.step]
    return of_step or [text for text in found if "step" not in text]


class _Plan:
    """A snapshot by its structure, and where its tensors are to go in this program."""

    def __init__(self, fetched: _Fetched, here: Parts) -> None:
        self._here, self._names, self._spans = here, _parts.parameter_names(here), _parts.spans_of(here)
        self.saved, self.step, self.snapshot = fetched.saved, fetched.kept.step, fetched.snapshot()
        self.marks: dict[int, tuple[torch.Tensor, Any]] = {}  # by id() of a tensor that was read: that, its mark
        self._structures = _structures(fetched)
        try:
            self.parts, self.extra = self._read_all(lambda: _Described(self, {}))
        except NONSENSE as e:
            raise of_no_sense(e) from e

    def _read_all(self, reader: "Callable[[], Reader]") -> "tuple[Parts, Parts]":
        found = [_read(structure, reader) for structure in self._structures]
        parts, extra = _parts.merged(found, self._here, self._names)
        for name, part in self._here.items():
            if isinstance(part, torch.optim.Optimizer) and name in parts:
                parts[name] = _parts.by_index(part, parts[name], self._names)
                parts[name] = _parts.without_others(part, parts[name], self._spans)
        return parts, extra

    def _mark(self, t: torch.Tensor) -> Any:
        return self.marks[id(t)][1]

    def rooms_of_values(self) -> "dict[str, _Room]":
        """For what is no tensor of a model or an optimizer; whole ones only."""
        others = {self._mark(t)["of"] for _, t in self._tensors_of_parts()}
        found = {mark["of"]: t for t, mark in self.marks.values() if not _is_mark_of_sharded(mark)}
        return {name: _Room(*self.saved[name], None, True) for name in found.keys() - others}

    def extra_from(self, rooms: "dict[str, _Room]") -> Parts:
        ready = {name: room.filled() for name, room in rooms.items()}
        return self._read_all(lambda: _Described(self, ready))[1]

    def rooms(self, extra: Parts) -> "dict[str, _Room]":
        """For all of it. Error: it is of another program."""
        likes = _sharded_in_values(self._here, extra)
        wrong = [
            f"{name}: {_parts.shape_of(self.saved[name])} in the snapshot, {_parts.shape_of((x.dtype, x.shape))} here"
            for name, x in likes.items()
            if name in self.saved and self.saved[name] != (x.dtype, tuple(x.shape))
        ]
        _parts.check(self._here, self.parts, wrong)
        likes.update((self._mark(t)["of"], like) for like, t in self._tensors_of_parts() if like is not None)
        marks = {mark["of"]: mark for _, mark in self.marks.values()}
        rooms = {
            name: _Room(*self.saved[name], likes.get(name), not mark.keys() & {"order", "lies", "complex", "scalar"})
            for name, mark in marks.items()
        }
        rooms.update((name, _Room(*self.saved[name], None, True)) for name in self._own_buffers())
        return rooms

    def _own_buffers(self) -> "dict[str, tuple[str, str]]":
        """Those that were saved, by a world of this size."""
        mine = _parts.buffers_of_this_rank(self._here)
        return {name: where for name, where in mine.items() if name in self.saved}

    def _tensors_of_parts(self) -> "Iterator[tuple[Any, torch.Tensor]]":
        """Those of models and optimizers, each with the sharded tensor as which it is to
        lie, or None."""
        for name, part in self._here.items():
            saved = self.parts.get(name, {})
            if isinstance(part, torch.nn.Module):
                here = _parts.state_of(part)
                pairs: Any = ((here.get(key), t) for key, t in saved.items())
            elif isinstance(part, torch.optim.Optimizer):
                pairs = self._pairs_of_optimizer(part, saved)
            else:
                pairs = ()
            for like, t in pairs:
                if isinstance(t, torch.Tensor) and id(t) in self.marks:
                    yield like if is_sharded(like) and like.shape == t.shape else None, t

    def _pairs_of_optimizer(self, optimizer: torch.optim.Optimizer, saved: Parts) -> "Iterator[tuple[Any, Any]]":
        """What is not there yet will lie as its parameter does, if it has its shape; but
        not if it was a whole one beside a sharded parameter."""
        params = [p for group in optimizer.param_groups for p in group["params"]]
        was_sharded = self._parameters_that_were_sharded()
        for i, state in saved.get("state", {}).items():
            p: Any = params[i] if isinstance(i, int) and i < len(params) else None
            mine = _parts.local(optimizer).state.get(p, {})
            span = self._spans.get(id(p))
            for key, t in state.items():
                if span is not None:
                    yield span, t
                elif key in mine or id(t) not in self.marks or p is None:
                    yield mine.get(key), t
                else:
                    as_p = t.shape == p.shape and (id(p) not in was_sharded or _is_mark_of_sharded(self._mark(t)))
                    yield p if as_p else None, t

    def _parameters_that_were_sharded(self) -> "set[int]":
        """By id()."""
        return {
            id(p)
            for name, part in self._here.items()
            if isinstance(part, torch.nn.Module)
            for key, p in part.named_parameters()
            if _is_mark_of_sharded(self.marks.get(id(self.parts.get(name, {}).get(_fsdp1.clean(key))), (None, {}))[1])
        }

    def found(self, kept: Kept, rooms: "dict[str, _Room]") -> Found:
        try:
            parts, extra = self._read_all(lambda: _Filled(rooms))
            for name, (part, key) in self._own_buffers().items():
                parts[part][key] = rooms[name].filled().reshape(parts[part][key].shape)
            return Found(kept, parts, extra)
        except NONSENSE as e:
            raise of_no_sense(e) from e


def _is_mark_of_sharded(mark: Any) -> bool:
    return bool(mark.get(MARK) == SHARDED.name)


def _sharded_in_values(parts: Parts, extra: Parts) -> Parts:
    """By name: what is sharded there now."""
    writer = Writer(pieces=True)
    try:
        _write_values(writer, _others(parts), extra)
    except Error:
        pass  # the first save tells of it
    return {name: x for name, x in writer.tensors.items() if is_sharded(x)}


# -- the form ------------------------------------------------------------------


def _others(parts: Parts) -> Parts:
    """The state of what is neither a model nor an optimizer."""
    known = (torch.nn.Module, torch.optim.Optimizer)
    return {name: part.state_dict() for name, part in parts.items() if not isinstance(part, known)}


def _write_values(writer: Writer, parts: Parts, extra: Parts) -> "dict[str, Json]":
    return {
        "parts": writer.write(parts, ""),
        "extra": writer.write({name: _parts.own_state(x) for name, x in extra.items()}, "extra"),
    }


class Pieces:
    """How the state is collected, saved and loaded."""

    def __init__(self, parts: Parts, extra: Parts) -> None:
        self._parts, self._extra = parts, extra
        self._layout: Optional[_Layout] = None
        self._table = _Table()
        self._places: list[Place] = []

    def collect(self, step: int) -> "dict[Any, torch.Tensor]":
        """All that is here, the structure among it."""
        layout: Any = self._layout
        tensors = layout.tensors() if layout is not None else None
        if tensors is None:
            self._layout = layout = _Layout(self._parts)
            tensors = layout.tensors()
        writer = Writer(pieces=True)
        rest = {name: layout.rest(name) for name, x in self._parts.items() if isinstance(x, torch.optim.Optimizer)}
        values = _write_values(writer, {**_others(self._parts), **rest}, self._extra)
        text = compact({"format": FORMAT, "step": step, **values})
        structure = as_tensor(f'{text[:-1]},"tensors":{layout.text}}}')
        # Ranks whose values differ in length do not say that they have the same.
        writer.tensors[f"{STRUCTURE}.{layout.names}.{len(structure)}"] = structure
        pieces = [piece for name, x in writer.tensors.items() for piece in pieces_of(name, x)]
        self._places = layout.places + [place for place, _ in pieces]
        return dict(enumerate(tensors + [t for _, t in pieces]))

    def save(self, keeper: int, step: int, tensors: "dict[Any, torch.Tensor]", disk: bool) -> None:
        rows = self._table.of(self._places, tensors.values())
        call("ddp_keeper_save_pieces", keeper, step, rows, len(rows), None, 0, disk)

    def load(self, keeper: int, prepare: Optional[Prepare]) -> Found:
        """Error: Nothing; it is of another program."""
        # The structure alone is there on each node, so also of a save whose shards are not.
        fetched = _fetch(keeper, {})
        for _ in range(OTHERS_MAX):
            plan = _Plan(fetched, self._parts)
            if prepare is not None:
                rooms = plan.rooms_of_values()
                fetched = _fetch(keeper, rooms)
                if fetched.snapshot() != plan.snapshot:
                    continue
                prepare(plan.step, plan.extra_from(rooms))
                plan = _Plan(fetched, self._parts)
            rooms = plan.rooms(self._extra)
            fetched = _fetch(keeper, rooms)
            if fetched.snapshot() == plan.snapshot:
                return plan.found(fetched.kept, rooms)
        raise Error(CORRUPT, f"the {OTHERS_MAX} newest snapshots are damaged")
