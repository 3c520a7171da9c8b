# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's operations that move elements, as nodes of a graph."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy
import torch

from ._export_elementwise import operation, unpacked
from ._export_graph import Constant, GraphText, Pair, Unsupported, Value


# ---- shapes ----

@operation("reshape", "view", "flatten", "squeeze", "unsqueeze", "view_as", "reshape_as", "unflatten", "ravel")
def reshape(g: GraphText, out: Pair, x: Any, *how: Any, **more: Any) -> Any:
    return x.name if out.shape == x.shape else g.reshape(x.name, out.shape)


def permuted(g: GraphText, x: Value, perm: Sequence[int]) -> Any:
    return g.node("transpose", x.name, perm=list(perm))


@operation("permute")
def permute(g: GraphText, out: Pair, x: Any, *dims: Any) -> Any:
    dims = unpacked(dims)
    return permuted(g, x, [dim % len(out.shape) for dim in dims])


@operation("transpose", "swapaxes", "swapdims")
def transpose(g: GraphText, out: Pair, x: Any, dim0: int, dim1: int) -> Any:
    perm = list(range(len(out.shape)))
    perm[dim0], perm[dim1] = perm[dim1], perm[dim0]
    return permuted(g, x, perm)


@operation("t")
def t(g: GraphText, out: Pair, x: Any) -> Any:
    return permuted(g, x, range(len(out.shape) - 1, -1, -1))


@operation("getattr")
def attribute(g: GraphText, out: Pair, x: Any, name: str) -> Any:
    if name in ("T", "mT"):
        return t(g, out, x) if name == "T" else transpose(g, out, x, -1, -2)
    raise Unsupported(f"of .{name}")


@operation("cat", "concat", "concatenate")
def cat(g: GraphText, out: Pair, tensors: Any, dim: int = 0) -> Any:
    axis = dim % len(out.shape)
    tensors = [x for x in tensors if x.shape != (0,)]
    if any(x.shape[axis] < 0 for x in tensors[:-1]):
        raise Unsupported("along a batch's own size: all but the last must have a known one")
    return join(g, [g.cast(x, out.dtype) for x in tensors], axis)


def join(g: GraphText, names: list[str], axis: int) -> Any:
    """concat takes 64 at most."""
    while len(names) > 64:
        names = [join(g, names[i:i + 64], axis) for i in range(0, len(names), 64)]
    return g.node("concat", *names, axis=axis) if len(names) > 1 else names[0]


@operation("stack")
def stack(g: GraphText, out: Pair, tensors: Any, dim: int = 0) -> Any:
    axis = dim % len(out.shape)
    shape = [*out.shape]
    shape[axis] = 1
    return join(g, [g.reshape(g.cast(x, out.dtype), shape) for x in tensors], axis)


def parts(g: GraphText, x: Any, axis: int, sizes: Sequence[int]) -> Any:
    if x.shape[axis] < 0:
        raise Unsupported("along a batch's own size")
    if len(sizes) > 64:
        raise Unsupported(f"into {len(sizes)} parts; 64 are the most")
    return g.node("split", x.name, axis=axis, sizes=list(sizes), outputs=len(sizes))


@operation("split", "chunk", "tensor_split", "split_with_sizes")
def split(g: GraphText, out: Pair, x: Any, how: Any, dim: int = 0) -> Any:
    axis = dim % len(x.shape)
    return parts(g, x, axis, [part.shape[axis] for part in out[0]])


@operation("unbind")
def unbind(g: GraphText, out: Pair, x: Any, dim: int = 0) -> Any:
    axis = dim % len(x.shape)
    shape = [size for i, size in enumerate(x.shape) if i != axis]
    return [g.reshape(one, shape) for one in parts(g, x, axis, [1] * len(out[0]))]


def filled(g: GraphText, out: Pair, number: Any) -> Any:
    """A tensor of that number, of the shape of `out`, where one size at most is a batch's own."""
    one = [1 if size < 0 else size for size in out.shape]
    constant = g.literal(numpy.full(one, number), out.dtype)
    if -1 not in out.shape:
        return constant
    axis = out.shape.index(-1)
    for value in g.feeds:
        if value.shape and value.pair[0].shape[0] == out[0].shape[axis] and value.pair[1].shape[0] == out[1].shape[axis]:
            none = g.node("less", value.name, value.name)  # 0, also of NaN
            if len(value.shape) > 1:
                none = g.node("reduce_max", none, axes=list(range(1, len(value.shape))))
            column = g.reshape(g.node("cast", none, dtype=out.dtype), [-1 if i == axis else 1 for i in range(len(out.shape))])
            return g.node("add", column, constant)
    raise Unsupported("no argument of the model has as many rows")


@operation("zeros", "zeros_like", "new_zeros")
def zeros(g: GraphText, out: Pair, *how: Any, **more: Any) -> Any:
    return filled(g, out, 0)


@operation("ones", "ones_like", "new_ones")
def ones(g: GraphText, out: Pair, *how: Any, **more: Any) -> Any:
    return filled(g, out, 1)


@operation("full", "full_like", "new_full")
def full(g: GraphText, out: Pair, *how: Any, fill_value: Any = None, **more: Any) -> Any:
    return filled(g, out, how[-1] if fill_value is None else fill_value)


@operation("expand", "expand_as", "broadcast_to")
def expand(g: GraphText, out: Pair, x: Any, *how: Any, **more: Any) -> Any:
    return x.name if x.shape == out.shape else g.node("add", x.name, filled(g, out, 0))


@operation("repeat", "tile")
def repeat(g: GraphText, out: Pair, x: Any, *times: Any) -> Any:
    times = unpacked(times)
    if any(isinstance(one, Pair) for one in times):
        raise Unsupported("as often as a batch has rows: use expand()")
    shape = [1] * (len(times) - len(x.shape)) + list(x.shape)
    name = x.name if len(shape) == len(x.shape) else g.reshape(x.name, shape)
    for axis, count in enumerate(times):
        if count > 1 and shape[axis] < 0:
            raise Unsupported("along a batch's own size")
        name = join(g, [name] * count, axis)
    return name


# ---- indices ----

def one_slice(part: Any, size: int) -> tuple[int, int]:
    """(begin, size; -1 is to the end) of a slice or a number."""
    begin, end, step = (part.start or 0, part.stop, part.step) if isinstance(part, slice) else (part, None, None)
    if any(isinstance(one, (Value, Pair)) for one in (begin, end)) or step not in (None, 1):
        raise Unsupported("a slice with steps, or with bounds that a batch says")
    if size < 0 and (begin < 0 or (end is not None and end < 0)):
        raise Unsupported("a slice from the end of a batch's own size")
    if not isinstance(part, slice):
        return begin % size if size > 0 else begin, 1
    if size < 0:
        return begin, -1 if end is None else end - begin
    begin, end, _ = part.indices(size)
    return begin, -1 if end >= size else max(0, end - begin)


def indices(part: Any) -> Any:
    """Numbers that are the same in each batch, as an array; None: it is none of these."""
    if isinstance(part, Constant):
        part = part.data.numpy()
    if isinstance(part, (list, numpy.ndarray)):
        array = numpy.asarray(part)
        return array.astype("int64") if array.dtype.kind == "i" else None
    return None


def pick(g: GraphText, name: str, shape: Sequence[int], first: int, chosen: Sequence[Any]) -> str:
    """By arrays of numbers for the dimensions from `first` on, which are the last ones, or the first alone."""
    sizes = shape[first:first + len(chosen)]
    if min(sizes) < 0:
        raise Unsupported("numbers of rows of a batch")
    flat = numpy.ravel_multi_index([array % size for array, size in zip(numpy.broadcast_arrays(*chosen), sizes)], sizes)
    literal = g.literal(flat.reshape(-1), "int64")
    if first + len(chosen) == len(shape) and first > 0:
        matrix = name if len(shape) == 2 else g.reshape(name, [-1, math.prod(sizes)])
        return str(g.node("columns", matrix, literal))
    if first:
        raise Unsupported("indices of dimensions that are neither the first nor the last ones")
    rest = list(shape[len(chosen):])
    return str(g.node("gather", g.reshape(name, [math.prod(sizes), *rest]), literal))


@operation("getitem")
def getitem(g: GraphText, out: Pair, x: Any, index: Any) -> Any:
    wanted = [part for part in (index if isinstance(index, tuple) else (index,)) if part is not None]
    if Ellipsis in [part for part in wanted if not isinstance(part, Value)]:
        at = next(i for i, part in enumerate(wanted) if part is Ellipsis)
        wanted[at:at + 1] = [slice(None)] * (len(x.shape) - len(wanted) + 1)
    wanted += [slice(None)] * (len(x.shape) - len(wanted))
    chosen = {i: indices(part) for i, part in enumerate(wanted) if isinstance(part, (Value, list, numpy.ndarray))}
    plain = [one_slice(slice(None) if i in chosen else part, x.shape[i]) for i, part in enumerate(wanted)]
    name, shape = x.name, list(x.shape)
    if any(one != (0, -1) for one in plain):
        name = g.node("slice", name, begin=[begin for begin, _ in plain], size=[size for _, size in plain])
        shape = [have - begin if size < 0 <= have else have if size < 0 else size for (begin, size), have in zip(plain, shape)]
    if chosen:
        first = min(chosen)
        if list(chosen) == [0] and chosen[0] is None and wanted[0].dtype in ("int32", "int64") and wanted[0].pair[0].dtype != torch.bool:
            name = g.node("gather", name, g.cast(wanted[0], "int64"))
        elif any(array is None for array in chosen.values()) or sorted(chosen) != list(range(first, first + len(chosen))):
            raise Unsupported("an index that is a condition, or of another dimension than the first one")
        else:
            name = pick(g, name, shape, first, [chosen[i] for i in sorted(chosen)])
    return name if list(out.shape) == shape and not chosen else g.reshape(name, out.shape)


@operation("select")
def select(g: GraphText, out: Pair, x: Any, dim: int, index: int) -> Any:
    return getitem(g, out, x, (slice(None),) * (dim % len(x.shape)) + (index,))


@operation("narrow")
def narrow(g: GraphText, out: Pair, x: Any, dim: int, start: int, length: int) -> Any:
    return getitem(g, out, x, (slice(None),) * (dim % len(x.shape)) + (slice(start, start + length),))


@operation("index_select")
def index_select(g: GraphText, out: Pair, x: Any, dim: int, index: Any) -> Any:
    return getitem(g, out, x, (slice(None),) * (dim % len(x.shape)) + (index,))
