# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's reductions, dense algebra, embeddings and losses as nodes of a graph."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy
import torch

from ._export_elementwise import OPERATIONS, Operation, operation, refuse
from ._export_graph import Constant, Feed, GraphText, Pair, Parameter, Ragged, Rows, Statistic, Unsupported, Value
from ._export_shapes import permuted
from ._keys import ragged


# ---- reductions ----

def reduction(kind: str) -> Operation:
    def make(g: GraphText, out: Pair, x: Any, dim: Any = None, keepdim: bool = False, *, axis: Any = None, dtype: Any = None) -> Any:
        dim = axis if dim is None else dim
        axes = None if dim is None or dim == () else [one % len(x.shape) for one in (dim if isinstance(dim, (tuple, list)) else [dim])]
        name = g.cast(x, out.dtype)
        return g.node(kind, name, axes=axes, keep=1 if keepdim else None) if x.shape else name
    return make


OPERATIONS.update({"sum": reduction("sum"), "mean": reduction("mean"), "amax": reduction("reduce_max")})


def greatest(kind: str) -> Operation:
    def make(g: GraphText, out: Pair, x: Any, other: Any = None, *more: Any, **how: Any) -> Any:
        if not isinstance(other, Value):
            raise Unsupported("along a dimension, or of all: use amax(), or maximum() of two tensors")
        return g.node(kind, g.cast(x, out.dtype), g.cast(other, out.dtype))
    return make


OPERATIONS.update({"max": greatest("max"), "min": greatest("min")})


@operation("norm")
def norm(g: GraphText, out: Pair, x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if p not in (2, "fro", None):
        raise Unsupported(f"of order {p}: only 2")
    return g.node("sqrt", OPERATIONS["sum"](g, out, Value(g, g.node("square", x.name), x.pair), dim, keepdim))


def sum_last(g: GraphText, name: str, dim: int) -> Any:
    return g.node("sum", name, axes=[dim])


@operation("cosine_similarity")
def cosine_similarity(g: GraphText, out: Pair, x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    dim %= len(x1.shape)
    floor = g.literal(eps * eps, out.dtype)
    squares = [g.node("max", sum_last(g, g.node("square", x.name), dim), floor) for x in (x1, x2)]
    return g.node("div", sum_last(g, g.node("mul", x1.name, x2.name), dim), g.node("sqrt", g.node("mul", *squares)))


@operation("normalize")
def normalize(g: GraphText, out: Pair, x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    if p != 2:
        raise Unsupported(f"of order {p}: only 2")
    length = g.node("sqrt", g.node("sum", g.node("square", x.name), axes=[dim % len(x.shape)], keep=1))
    return g.node("div", x.name, g.node("max", length, g.literal(eps, out.dtype)))


@operation("softmax")
def softmax(g: GraphText, out: Pair, x: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    if dim is None:
        raise Unsupported("without dim=")
    perm = list(range(len(out.shape)))
    perm[dim], perm[-1] = perm[-1], perm[dim]
    if perm[-1] == len(perm) - 1:
        return g.node("softmax", g.cast(x, out.dtype))
    return g.node("transpose", g.node("softmax", permuted(g, x, perm)), perm=perm)


@operation("log_softmax")
def log_softmax(g: GraphText, out: Pair, x: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    if dim is None:
        raise Unsupported("without dim=")
    axes = [dim % len(out.shape)]
    shifted = g.node("sub", x.name, g.node("stop_gradient", g.node("reduce_max", x.name, axes=axes, keep=1)))
    return g.node("sub", shifted, g.node("log", g.node("sum", g.node("exp", shifted), axes=axes, keep=1)))


# ---- dense algebra ----

@operation("matmul", "bmm", "mm", "mv")
def matmul(g: GraphText, out: Pair, a: Any, b: Any) -> Any:
    names, shapes = [a.name, b.name], [list(a.shape), list(b.shape)]
    for i, column in ((0, False), (1, True)):
        if len(shapes[i]) == 1:
            shapes[i] = shapes[i] + [1] if column else [1] + shapes[i]
            names[i] = g.reshape(names[i], shapes[i])
    if len(shapes[0]) > 2 and len(shapes[1]) == 2:
        shapes[0] = [-1, shapes[0][-1]]
        names[0] = g.reshape(names[0], shapes[0])
    if shapes[0][:-2] != shapes[1][:-2]:
        raise Unsupported(f"of {list(a.shape)} and {list(b.shape)}: their leading sizes must be equal")
    name = g.node("matmul", *names)
    return name if list(out.shape) == shapes[0][:-1] + shapes[1][-1:] else g.reshape(name, out.shape)


@operation("linear")
def linear(g: GraphText, out: Pair, x: Any, weight: Any, bias: Any = None) -> Any:
    flat = x.name if len(x.shape) == 2 else g.reshape(x.name, [-1, x.shape[-1]])
    name = g.node("matmul", flat, weight.name, transpose_b=1)
    name = name if bias is None else g.node("add", name, bias.name)
    return name if len(x.shape) == 2 else g.reshape(name, out.shape)


@operation("addmm")
def addmm(g: GraphText, out: Pair, x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if (beta, alpha) != (1, 1):
        raise Unsupported("with beta or alpha")
    return g.node("add", x.name, matmul(g, out, a, b))


@operation("layer_norm")
def layer_norm(g: GraphText, out: Pair, x: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None,
               eps: float = 1e-5) -> Any:
    if len(normalized_shape) != 1:
        raise Unsupported("of more than the last dimension")
    size = normalized_shape[0]
    scales = [g.literal(numpy.full(size, number), out.dtype) if one is None else one.name for one, number in ((weight, 1), (bias, 0))]
    return g.node("layer_norm", x.name, *scales, epsilon=float(eps), outputs=3)[0]


def rows(g: GraphText, x: Any, name: str, channels: int) -> str:
    """How many values each channel has, x being [..., channels] by that name: a number of x's type."""
    if -1 not in x.shape:
        return g.literal(math.prod(x.shape) / channels, x.dtype)
    column = g.node("slice", g.reshape(name, [-1, channels]), begin=[0, 0], size=[-1, 1])
    none = g.node("cast", g.node("less", column, column), dtype=x.dtype)  # 0, also of NaN
    return str(g.node("sum", g.node("add", none, g.literal(1, x.dtype))))


def by_statistics(g: GraphText, x: Any, mean: str, variance: str, scales: Sequence[str], eps: float) -> Any:
    """(x - mean) / sqrt(variance + eps) * weight + bias"""
    scale = g.node("div", scales[0], g.node("sqrt", g.node("add", variance, g.literal(eps, x.dtype))))
    shape = [x.shape[1]] + [1] * (len(x.shape) - 2)
    mean, scale, bias = (one if len(shape) == 1 else g.reshape(one, shape) for one in (mean, scale, scales[1]))
    return g.node("add", g.node("mul", g.node("sub", x.name, mean), scale), bias)


@operation("batch_norm")
def batch_norm(g: GraphText, out: Pair, x: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None,
               training: bool = False, momentum: Any = 0.1, eps: float = 1e-5) -> Any:
    running = [one for one in (running_mean, running_var) if one is not None]
    size = x.shape[1]
    if not all(isinstance(one, Constant) for one in running):
        raise Unsupported("running means that are computed: they are buffers of the model")
    scales = [g.literal(numpy.full(size, number), out.dtype) if one is None else one.name for one, number in ((weight, 1), (bias, 0))]
    if not training:
        if len(running) < 2:
            raise Unsupported("by running means, of which there are none")
        mean, variance = (one.now() if isinstance(one, Statistic) else one.name for one in running)
        return by_statistics(g, x, mean, variance, scales, float(eps))
    order = list(range(len(out.shape)))
    order.append(order.pop(1))
    last = x.name if len(order) == 2 else permuted(g, x, order)
    name, mean, variance = g.node("batch_norm", last, *scales, epsilon=float(eps), outputs=3)
    if running:
        if momentum is None:
            raise Unsupported("momentum=None, the mean of all batches: give a number")
        if len(running) < 2 or not all(isinstance(one, Statistic) for one in running):
            raise Unsupported("running means that are not buffers of the model: nothing could keep them")
        count, one = rows(g, x, last, size), g.literal(1, x.dtype)
        unbiased = g.node("mul", variance, g.node("div", count, g.node("max", g.node("sub", count, one), one)))
        running_mean.move(mean, float(momentum))
        running_var.move(unbiased, float(momentum))
    return name if len(order) == 2 else g.node("transpose", name, perm=[order.index(i) for i in range(len(order))])


@operation("scaled_dot_product_attention")
def attention(g: GraphText, out: Pair, q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
              scale: Any = None) -> Any:
    refuse(attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal)
    if len(out.shape) != 3:
        raise Unsupported("of other than three dimensions")
    return g.node("attention", q.name, k.name, v.name, scale=scale, outputs=2)[0]


# ---- embeddings ----

@operation("embedding")
def embedding(g: GraphText, out: Pair, keys: Any, weight: Any, padding_idx: Any = None, max_norm: Any = None, norm_type: float = 2.0,
              scale_grad_by_freq: bool = False, sparse: bool = False) -> Any:
    refuse(max_norm=max_norm, scale_grad_by_freq=scale_grad_by_freq)
    if padding_idx is not None and padding_idx != -1:
        raise Unsupported("padding_idx: give these keys a weight of 0 instead")
    if not isinstance(weight, Parameter):
        return g.node("gather", weight.name, g.cast(keys, "int64"))
    return g.node("lookup", weight.handle, g.cast(keys, "int64"))


@operation("embedding_bag")
def functional_bag(g: GraphText, out: Pair, keys: Any, weight: Any, offsets: Any = None, max_norm: Any = None, norm_type: float = 2,
                   scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Any = None,
                   include_last_offset: bool = False, padding_idx: Any = None) -> Any:
    refuse(max_norm=max_norm, scale_grad_by_freq=scale_grad_by_freq)
    if padding_idx is not None or not isinstance(weight, Parameter):
        raise Unsupported("padding_idx, or rows that are not a parameter")
    return embedding_bag(g, Rows(g, weight.handle, weight.shape[1], weight.dtype), keys, offsets, per_sample_weights, mode=mode,
                         include_last_offset=include_last_offset)


def embedding_bag(g: GraphText, table: Rows, keys: Any, offsets: Any = None, per_sample_weights: Any = None, *, mode: str,
                  include_last_offset: bool = False) -> Value:
    """Bags of rows: of keys [n, k], of a Ragged, or of flat keys with offsets, which both are arguments of the model."""
    if isinstance(keys, tuple) and len(keys) == 2 and offsets is None:
        keys, offsets = keys
    if isinstance(keys, Ragged):
        bags, keys = keys, keys.values
    elif offsets is not None:
        bags = ragged_of(g, keys, offsets, include_last_offset)
    elif not isinstance(keys, Value) or len(keys.shape) != 2:
        raise Unsupported("of other keys than a tensor [bags, keys], flat keys with offsets, or lists")
    rows = table.lookup(keys)
    name, flat = rows.name, len(keys.shape) == 1
    if per_sample_weights is not None:
        name = g.node("mul", name, g.reshape(g.cast(per_sample_weights, rows.dtype), [*keys.shape, 1]))
    if not flat:
        out = Pair(*(one.new_zeros((one.shape[0], table.dim), dtype=table.read_as) for one in keys.pair))
        return Value(g, g.node({"sum": "sum", "mean": "mean", "max": "reduce_max"}[mode], name, axes=[1]), out)
    if mode == "max":
        raise Unsupported("of mode \"max\" with offsets: a graph has sums and means of these")
    out = Pair(*(one.new_zeros((one.shape[0], table.dim), dtype=table.read_as) for one in bags.like.pair))
    return Value(g, g.node(f"segment_{mode}", name, bags.segments.name, bags.like.name), out)


def ragged_of(g: GraphText, keys: Any, offsets: Any, include_last_offset: bool) -> Ragged:
    if not isinstance(keys, Feed) or not isinstance(offsets, Feed):
        raise Unsupported("keys and offsets that are not arguments of the model as they are")
    return Ragged(g, keys, offsets.pair[0].shape[0] - include_last_offset,
                  lambda arguments: ragged(keys.source(arguments), offsets.source(arguments), None, include_last_offset))


# ---- losses ----

def reduced(g: GraphText, name: str, how: str, given: Any) -> Any:
    """of: losses of the elements."""
    refuse(**given)
    if how not in ("mean", "sum", "none"):
        raise Unsupported(f"reduction=\"{how}\"")
    return name if how == "none" else g.node(how, name)


@operation("binary_cross_entropy_with_logits")
def sigmoid_loss(g: GraphText, out: Pair, x: Any, target: Any, weight: Any = None, size_average: Any = None, reduce: Any = None,
                 reduction: str = "mean", pos_weight: Any = None) -> Any:
    name = g.node("sigmoid_loss", x.name, g.cast(target, x.dtype))
    if weight is not None:
        name = g.node("mul", name, weight.name)
    return reduced(g, name, reduction, {"size_average": size_average, "reduce": reduce, "pos_weight": pos_weight})


@operation("binary_cross_entropy")
def binary_cross_entropy(g: GraphText, out: Pair, x: Any, target: Any, weight: Any = None, size_average: Any = None, reduce: Any = None,
                         reduction: str = "mean") -> Any:
    dtype, labels = x.dtype, g.cast(target, x.dtype)
    one, least = g.literal(1, dtype), g.literal(-100, dtype)
    hit, miss = (g.node("max", g.node("log", p), least) for p in (x.name, g.node("sub", one, x.name)))
    name = g.node("neg", g.node("add", g.node("mul", labels, hit), g.node("mul", g.node("sub", one, labels), miss)))
    return reduced(g, name, reduction, {"weight": weight, "size_average": size_average, "reduce": reduce})


@operation("cross_entropy")
def cross_entropy(g: GraphText, out: Pair, x: Any, target: Any, weight: Any = None, size_average: Any = None, ignore_index: int = -100,
                  reduce: Any = None, reduction: str = "mean", label_smoothing: float = 0.0) -> Any:
    if len(x.shape) != 2 or len(target.shape) != 1 or ignore_index != -100:
        raise Unsupported("of other than logits [n, k] and classes [n], or with ignore_index")
    name = g.node("softmax_loss", x.name, g.cast(target, "int64"), outputs=2)[0]
    return reduced(g, name, reduction, {"weight": weight, "size_average": size_average, "reduce": reduce,
                                        "label_smoothing": label_smoothing})


def _difference(kind: str) -> Operation:
    def make(g: GraphText, out: Pair, x: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> Any:
        name = g.node(kind, g.node("sub", g.cast(x, out.dtype), g.cast(target, out.dtype)))
        return reduced(g, name, reduction, {"size_average": size_average, "reduce": reduce})
    return make


OPERATIONS.update({"mse_loss": _difference("square"), "l1_loss": _difference("abs")})
