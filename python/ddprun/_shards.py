"""Tensors of which this rank has a part.

PyTorch's protocol for distributed checkpoints tells all of it, whatever the
framework: `__create_chunk_list__()` gives offset and sizes of each part that is
here, in elements of the whole tensor, and `__get_tensor_shard__(index)` the part.
DTensor has both (FSDP2, HSDP, tensor parallelism, and these in each other),
Megatron's tensors too, `Piece` is the same by hand, and `Span` is what FSDP1 has.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Iterator, NamedTuple, Optional, Sequence, Tuple

import torch

from ._libddp import usage

Shape = Tuple[int, ...]


class Chunk(NamedTuple):
    """Where a part lies in the whole tensor."""

    offsets: torch.Size
    sizes: torch.Size


class Piece:
    """A part of a tensor that the job has as a whole, for programs that shard by
    hand. It stands in `extra`, also in the lists and dicts there.

    tensor: the part that this rank has. What is restored comes into it.
    global_shape: the shape of the whole tensor, the same on all ranks.
    offsets: where the part begins in it, an index for each dim.

    The pieces of all ranks make the whole tensor. Equal ones are copies of each
    other, and must have equal bytes; others must not overlap. A program of
    another number of ranks gives other pieces, and gets what belongs there.

    Error: it does not lie within the whole tensor.
    """

    def __init__(self, tensor: torch.Tensor, global_shape: "Sequence[int]", offsets: "Sequence[int]") -> None:
        self.tensor = tensor
        self.global_shape = torch.Size(map(operator.index, global_shape))
        self.offsets = torch.Size(map(operator.index, offsets))
        dims = {len(self.global_shape), len(self.offsets), tensor.dim()}
        ends = [(at, at + n) for at, n in zip(self.offsets, tensor.shape)]
        if len(dims) > 1 or 0 in dims or any(at < 0 or end > n for (at, end), n in zip(ends, self.global_shape)):
            raise usage(
                f"a Piece of shape {tuple(tensor.shape)} at {tuple(self.offsets)} does not lie within "
                f"{tuple(self.global_shape)}"
            )

    @property
    def shape(self) -> torch.Size:
        return self.global_shape

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype

    def __create_chunk_list__(self) -> "list[Chunk]":
        return [Chunk(self.offsets, self.tensor.shape)]

    def __get_tensor_shard__(self, index: Any) -> torch.Tensor:
        return self.tensor

    def __repr__(self) -> str:
        return f"Piece({self.tensor!r}, {tuple(self.global_shape)}, {tuple(self.offsets)})"


class Span:
    """Elements that follow each other in the memory of a whole tensor.

    tensor: of one dim; its first `count` elements are those from `start` on, the
    others are padding.
    """

    def __init__(self, tensor: torch.Tensor, shape: "Sequence[int]", start: int, count: int) -> None:
        self.tensor, self.start, self.count = tensor, start, count
        self.shape = torch.Size(shape)

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype

    def of(self, tensor: torch.Tensor) -> "Span":
        """Another tensor that lies as this one does."""
        return Span(tensor, self.shape, self.start, self.count)

    def of_all(self, state: "dict[str, Any]") -> "dict[str, Any]":
        """What an optimizer has for it: tensors as large as this one lie as it does."""
        n = self.tensor.shape
        return {k: self.of(x) if isinstance(x, torch.Tensor) and x.shape == n else x for k, x in state.items()}

    def __create_chunk_list__(self) -> "list[Chunk]":
        return list(_boxes(self.shape, self.start, self.start + self.count))

    def __get_tensor_shard__(self, index: Any) -> torch.Tensor:
        chunks = self.__create_chunk_list__()
        before = sum(chunk.sizes.numel() for chunk in chunks[: index.index])
        sizes = chunks[index.index].sizes
        return self.tensor[before : before + sizes.numel()].view(sizes)


def _boxes(shape: "Sequence[int]", start: int, end: int) -> "Iterator[Chunk]":
    """The elements from `start` to `end` of a tensor, in their order: first a part of a
    row, then whole rows, then a part of one."""
    row = math.prod(shape[1:])
    while start < end:
        i, skipped = divmod(start, row)
        rows = (end - start) // row
        if skipped == 0 and rows > 0:
            yield Chunk(torch.Size([i, *(0 for _ in shape[1:])]), torch.Size([rows, *shape[1:]]))
            start += rows * row
            continue
        stop = min(end, (i + 1) * row)
        for offsets, sizes in _boxes(shape[1:], skipped, stop - i * row):
            yield Chunk(torch.Size([i, *offsets]), torch.Size([1, *sizes]))
        start = stop


def is_sharded(x: Any) -> bool:
    """Whether it says which part of a tensor it is."""
    return hasattr(type(x), "__create_chunk_list__")


def local_of(x: Any) -> Optional[torch.Tensor]:
    """What is here of `x` if that is one plain tensor; it may be empty."""
    local = getattr(x, "_local_tensor", None) if is_sharded(x) else x
    return local if type(local) in (torch.Tensor, torch.nn.Parameter) else None


class Part(NamedTuple):
    """What this rank has of a tensor."""

    local: torch.Tensor
    offset: Shape


def parts_of(x: Any, laid_out: Any = None) -> "list[Part]":
    """Those of a sharded tensor, with elements; or of any other, which is its own
    only one. `laid_out`: another one that lies as `x` does, and can tell how."""
    if not is_sharded(x):
        return [Part(x.detach(), (0,) * x.dim())]
    from torch.distributed.checkpoint.metadata import MetadataIndex

    parts = []
    with torch.no_grad():
        for i, chunk in enumerate((x if laid_out is None else laid_out).__create_chunk_list__()):
            if 0 in chunk.sizes:
                continue
            local = x.__get_tensor_shard__(MetadataIndex("", chunk.offsets, i)).detach()
            if local.shape != chunk.sizes:
                raise usage(
                    f"a {type(x).__name__} says that it has {tuple(chunk.sizes)} at {tuple(chunk.offsets)}, and has "
                    f"{tuple(local.shape)}"
                )
            parts.append(Part(local, tuple(chunk.offsets)))
    return parts


def locals_of(x: Any) -> "list[torch.Tensor]":
    """All that is here of `x`."""
    local = local_of(x)
    return [part.local for part in parts_of(x)] if local is None else [local]


def empty_as(x: Any, dtype: torch.dtype) -> Any:
    """A sharded tensor that lies as `x` does, of that dtype."""
    if isinstance(x, Piece):
        return Piece(torch.empty_like(x.tensor, dtype=dtype), x.global_shape, x.offsets)
    if isinstance(x, Span):
        return x.of(torch.zeros_like(x.tensor, dtype=dtype))
    with torch.no_grad():
        if not hasattr(x, "_local_tensor"):
            return torch.empty_like(x, dtype=dtype)
        # Not by empty_like: some frameworks shard otherwise than DTensor would.
        return type(x).from_local(
            torch.empty_like(x._local_tensor, dtype=dtype),
            x.device_mesh,
            x.placements,
            run_check=False,
            shape=x.shape,
            stride=x.stride(),
        )


def part_of(whole: torch.Tensor, x: Any) -> Any:
    """What `x` has of such a tensor, as another one that lies as `x` does."""
    part = empty_as(x, whole.dtype)
    for local, offset in parts_of(part, x):
        local.copy_(whole[tuple(slice(at, at + n) for at, n in zip(offset, local.shape))])
    return part
