# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's elementwise operations as nodes of a graph. Each function adds the nodes of one operation, and returns the name of
its output, a list of names, or a Value. out: what the operation returns; only its shapes and types matter."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ._export_graph import GraphText, Pair, Unsupported, Value

Operation = Callable[..., Any]
OPERATIONS: dict[str, Operation] = {}


def operation(*names: str) -> Callable[[Operation], Operation]:
    def keep(function: Operation) -> Operation:
        OPERATIONS.update(dict.fromkeys(names, function))
        return function
    return keep


def refuse(**given: Any) -> None:
    """Refuses arguments that are not the defaults."""
    for name, value in given.items():
        if value not in (None, False, 0):
            raise Unsupported(f"{name}={value!r} is nothing that a graph has")


def unpacked(sizes: Any) -> Any:
    """f((1, 2)) is f(1, 2)."""
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes


def pair_of(argument: Any, which: int) -> Any:
    return argument.pair[which] if isinstance(argument, Value) else argument


# ---- elementwise ----

def unary(kind: str) -> Operation:
    def make(g: GraphText, out: Pair, x: Any, inplace: bool = False) -> Any:
        return g.node(kind, g.cast(x, out.dtype))
    return make


def binary(kind: str, swap: bool = False) -> Operation:
    def make(g: GraphText, out: Pair, a: Any, b: Any, *, alpha: Any = 1, rounding_mode: Any = None) -> Any:
        refuse(rounding_mode=rounding_mode)
        a, b = g.cast(a, out.dtype), g.cast(b, out.dtype)
        if alpha != 1:
            b = g.node("mul", b, g.literal(alpha, out.dtype))
        return g.node(kind, *((b, a) if swap else (a, b)))
    return make


def comparison(kind: str, swap: bool = False, opposite: bool = False) -> Operation:
    def make(g: GraphText, out: Pair, a: Any, b: Any) -> Any:
        dtype = Pair(*(torch.zeros((), dtype=torch.result_type(pair_of(a, 0), pair_of(b, 0))),) * 2).dtype
        a, b = g.cast(a, dtype), g.cast(b, dtype)
        found = g.node(kind, *((b, a) if swap else (a, b)))
        return g.node("sub", g.literal(1, "int32"), found) if opposite else found
    return make


OPERATIONS.update({name: unary(name) for name in ("neg", "exp", "log", "sqrt", "square", "abs", "relu", "sigmoid", "tanh")})
OPERATIONS.update({"absolute": unary("abs"), "negative": unary("neg"), "sign": unary("sign"), "sgn": unary("sign")})
OPERATIONS.update({name: binary(kind) for name, kind in {
    "add": "add", "sub": "sub", "subtract": "sub", "mul": "mul", "multiply": "mul", "div": "div", "truediv": "div", "divide": "div",
    "true_divide": "div", "maximum": "max", "minimum": "min", "logical_and": "mul", "and_": "mul"}.items()})
OPERATIONS.update({"rsub": binary("sub", swap=True), "lt": comparison("less"), "gt": comparison("less", swap=True),
                   "ge": comparison("less", opposite=True), "le": comparison("less", swap=True, opposite=True),
                   "eq": comparison("equal"), "ne": comparison("equal", opposite=True)})
for _name, _other in (("lt", "less"), ("gt", "greater"), ("le", "less_equal"), ("ge", "greater_equal"), ("ne", "not_equal")):
    OPERATIONS[_other] = OPERATIONS[_name]


@operation("logical_not", "invert", "bitwise_not")
def logical_not(g: GraphText, out: Pair, x: Any) -> Any:
    if out[0].dtype != torch.bool:
        raise Unsupported("of a tensor that is not a condition")
    return g.node("sub", g.literal(1, "int32"), x.name)


@operation("pow", "float_power")
def power(g: GraphText, out: Pair, x: Any, exponent: Any) -> Any:
    value = g.cast(x, out.dtype)
    if exponent == 0.5:
        return g.node("sqrt", value)
    if exponent == -1:
        return g.node("div", g.literal(1, out.dtype), value)
    if isinstance(exponent, (Value, Pair)) or exponent not in (1, 2, 3, 4):
        raise Unsupported("of an exponent other than -1, 0.5, 1, 2, 3 and 4")
    square = value if exponent == 1 else g.node("square", value)
    if exponent == 3:
        return g.node("mul", square, value)
    return g.node("square", square) if exponent == 4 else square


@operation("rsqrt")
def rsqrt(g: GraphText, out: Pair, x: Any) -> Any:
    return g.node("div", g.literal(1, out.dtype), g.node("sqrt", x.name))


@operation("reciprocal")
def reciprocal(g: GraphText, out: Pair, x: Any) -> Any:
    return g.node("div", g.literal(1, out.dtype), x.name)


@operation("log1p")
def log1p(g: GraphText, out: Pair, x: Any) -> Any:
    return g.node("log", g.node("add", g.literal(1, out.dtype), g.cast(x, out.dtype)))


@operation("clamp", "clip", "clamp_min")
def clamp(g: GraphText, out: Pair, x: Any, min: Any = None, max: Any = None) -> Any:  # pylint: disable=redefined-builtin
    value = g.cast(x, out.dtype)
    for kind, bound in (("max", min), ("min", max)):
        if bound is not None:
            value = g.node(kind, value, g.cast(bound, out.dtype))
    return value


@operation("clamp_max")
def clamp_max(g: GraphText, out: Pair, x: Any, max: Any) -> Any:  # pylint: disable=redefined-builtin
    return clamp(g, out, x, None, max)


@operation("hardtanh")
def hardtanh(g: GraphText, out: Pair, x: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    return clamp(g, out, x, min_val, max_val)


@operation("relu6")
def relu6(g: GraphText, out: Pair, x: Any, inplace: bool = False) -> Any:
    return clamp(g, out, x, 0, 6)


@operation("silu")
def silu(g: GraphText, out: Pair, x: Any, inplace: bool = False) -> Any:
    return g.node("mul", x.name, g.node("sigmoid", x.name))


def above_zero(g: GraphText, name: str, dtype: str) -> Any:
    return g.node("less", g.literal(0, dtype), name)


@operation("leaky_relu")
def leaky_relu(g: GraphText, out: Pair, x: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    return g.node("select", above_zero(g, x.name, out.dtype), x.name, g.node("mul", g.literal(negative_slope, out.dtype), x.name))


@operation("prelu")
def prelu(g: GraphText, out: Pair, x: Any, weight: Any) -> Any:
    shape = [1] * len(out.shape)
    if len(shape) > 1:
        shape[1] = weight.shape[0]
    slope = weight.name if len(shape) <= 2 else g.reshape(weight.name, shape)
    return g.node("select", above_zero(g, x.name, out.dtype), x.name, g.node("mul", slope, x.name))


@operation("elu")
def elu(g: GraphText, out: Pair, x: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    below = g.node("sub", g.node("exp", g.node("min", x.name, g.literal(0, out.dtype))), g.literal(1, out.dtype))
    return g.node("select", above_zero(g, x.name, out.dtype), x.name, g.node("mul", g.literal(alpha, out.dtype), below))


def softplus_of(g: GraphText, x: str, dtype: str) -> Any:
    """log(1 + e^x), where e^x may be large."""
    small = g.node("exp", g.node("neg", g.node("abs", x)))
    return g.node("add", g.node("relu", x), g.node("log", g.node("add", g.literal(1, dtype), small)))


@operation("softplus")
def softplus(g: GraphText, out: Pair, x: Any, beta: float = 1, threshold: float = 20) -> Any:
    scaled = x.name if beta == 1 else g.node("mul", g.literal(beta, out.dtype), x.name)
    found = softplus_of(g, scaled, out.dtype)
    return found if beta == 1 else g.node("div", found, g.literal(beta, out.dtype))


@operation("logsigmoid", "log_sigmoid")
def logsigmoid(g: GraphText, out: Pair, x: Any) -> Any:
    return g.node("neg", softplus_of(g, g.node("neg", x.name), out.dtype))


@operation("where")
def where(g: GraphText, out: Pair, condition: Any, a: Any, b: Any) -> Any:
    return g.node("select", g.cast(condition, "int32"), g.cast(a, out.dtype), g.cast(b, out.dtype))


@operation("masked_fill")
def masked_fill(g: GraphText, out: Pair, x: Any, mask: Any, value: Any) -> Any:
    return where(g, out, mask, value, x)


@operation("dropout")
def dropout(g: GraphText, out: Pair, x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    seed = len(g.unique("dropout"))  # any, but another one for each
    return g.node("dropout", x.name, rate=float(p), seed=seed) if training and p else x.name


@operation("contiguous", "clone", "requires_grad")
def same(g: GraphText, out: Pair, x: Any, **layout: Any) -> Any:
    return x.name


@operation("detach")
def detach(g: GraphText, out: Pair, x: Any) -> Any:
    return g.node("stop_gradient", x.name)


@operation("to", "type", "float", "double", "long", "int", "bool", "type_as", "half", "cpu")
def cast(g: GraphText, out: Pair, x: Any, *how: Any, **more: Any) -> Any:
    if out[0].dtype == torch.bool and x.pair[0].dtype != torch.bool:
        return OPERATIONS["ne"](g, out, x, 0)
    return g.cast(x, out.dtype)
