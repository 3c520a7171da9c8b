# SPDX-License-Identifier: BSD-3-Clause
"""Text of a graph, line by line, and the values in it."""
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch
from torch import Tensor

from .. import Table

DTYPES = {torch.float32: "float32", torch.float64: "float64", torch.int32: "int32", torch.int64: "int64", torch.bool: "int32"}
TORCH = {"float64": torch.float64}  # of tables' and variables' types: others are read as float32
DEVICE = "@/job:ps"
NUMBERS = 64  # elements of a constant that are written as numbers
CONSTANT_BYTES = 64 << 20
DEFAULTS = (0, "none", "constant", "refuse")  # of a table's options, beside those that its optimizer has


class Unsupported(Exception):
    """What a graph cannot do."""


class Pair(tuple[Any, Any]):
    """A value for a batch, and the same value for a batch that is twice as large."""

    def __new__(cls, one: Any, two: Any) -> Pair:
        return super().__new__(cls, (one, two))

    def has_tensors(self) -> bool:
        return isinstance(self[0], Tensor) or (isinstance(self[0], (tuple, list)) and any(isinstance(x, Tensor) for x in self[0]))

    def plain(self) -> Any:
        """If there are no tensors in it: the value, or a pair of sizes that are a batch's own."""
        one, two = self
        if isinstance(one, (tuple, list)) and len(one) == len(two):
            return tuple(Pair(a, b).plain() for a, b in zip(one, two))
        return one if one == two else self

    def is_constant(self, *arguments: Any) -> bool:
        return isinstance(self[0], Tensor) and self[0].shape == self[1].shape and not any(map(has_value, arguments))

    @property
    def shape(self) -> tuple[int, ...]:
        """-1: a batch's own size."""
        if self[0].dim() != self[1].dim():
            raise Unsupported("the number of its dimensions depends on the batch")
        return tuple(a if a == b else -1 for a, b in zip(self[0].shape, self[1].shape))

    @property
    def dtype(self) -> str:
        if self[0].dtype not in DTYPES:
            raise Unsupported(f"it is of {self[0].dtype}; a graph has float32, float64, int32 and int64")
        return DTYPES[self[0].dtype]


def zeros(example: Tensor, copies: int = 1) -> Tensor:
    """As the example, its first size this many times as large."""
    shape = list(example.shape)
    if shape:
        shape[0] *= copies
    return torch.zeros(shape, dtype=example.dtype)


def picked(argument: Any, which: int) -> Any:
    """An argument of an operation as one of the two batches has it."""
    if isinstance(argument, Value):
        return argument.pair[which]
    if isinstance(argument, Pair):
        return argument[which]
    if isinstance(argument, slice):
        return slice(*(picked(part, which) for part in (argument.start, argument.stop, argument.step)))
    if isinstance(argument, dict):
        return {key: picked(part, which) for key, part in argument.items()}
    if isinstance(argument, (tuple, list)):
        return type(argument)(picked(part, which) for part in argument)
    return argument


def has_value(argument: Any) -> bool:
    if isinstance(argument, dict):
        argument = list(argument.values())
    if isinstance(argument, (tuple, list)) and not isinstance(argument, Pair):
        return any(map(has_value, argument))
    return isinstance(argument, Value) and not isinstance(argument, Constant)


class Value:
    """A tensor of the model: an output of a node."""

    def __init__(self, graph: GraphText, name: str, pair: Pair) -> None:
        self.graph, self._name, self.pair = graph, name, pair
        self.dtype, self.shape = pair.dtype, pair.shape

    @property
    def name(self) -> str:
        return self._name


class Feed(Value):
    """An input of a batch; it is added to the graph when it is first used. source: from a batch's arguments."""

    def __init__(self, graph: GraphText, name: str, pair: Pair, source: Callable[[Sequence[Any]], Any]) -> None:
        super().__init__(graph, graph.unique(name), pair)
        self.source = source
        graph.feeds.append(self)

    @property
    def name(self) -> str:
        if self not in self.graph.used:
            self.graph.used.append(self)
        return self._name

    def array(self, batch: Sequence[Any], number: int) -> Any:
        found = self.source(batch)
        array = numpy.ascontiguousarray(found.detach().cpu().numpy() if isinstance(found, Tensor) else found)
        array = array.reshape(numpy.shape(found))  # which ascontiguousarray makes of one dimension at least
        if array.dtype == bool:
            array = array.astype("int32")
        if array.dtype.name != self.dtype or len(array.shape) != len(self.shape) or any(
                want not in (-1, size) for want, size in zip(self.shape, array.shape)):
            raise ValueError(f"batch {number}: \"{self._name}\" is {self.dtype} {list(self.shape)}, not {array.dtype.name} "
                             f"{list(array.shape)}")
        return array


class Parameter(Value):
    """A variable; it is read when its value is used first. handle: for lookups."""

    def __init__(self, graph: GraphText, path: str, parameter: Tensor, dtype: str) -> None:
        read_as = TORCH.get(dtype, torch.float32)
        zero = torch.zeros((), dtype=read_as).expand(parameter.shape)
        super().__init__(graph, "", Pair(zero, zero))
        self.handle = graph.variable(path, list(parameter.shape) or [1], dtype)
        graph.values[self.handle] = parameter.detach().to("cpu", read_as).reshape(tuple(parameter.shape) or 1).numpy().copy()

    @property
    def name(self) -> str:
        if not self._name:
            self._name = self.graph.node("read", self.handle)
            if not self.shape:
                self._name = self.graph.node("reshape", self._name, shape=[])
        return self._name


class Constant(Value):
    """A tensor that is always the same; it is added to the graph when it is first used."""

    def __init__(self, graph: GraphText, data: Tensor) -> None:
        super().__init__(graph, "", Pair(data, data))
        self.data = data

    @property
    def name(self) -> str:
        if not self._name:
            self._name = self.graph.literal(self.data.numpy(), self.dtype)
        return self._name


class Statistic(Constant):
    """A buffer of the model. As a running mean or variance of a batch norm it is a variable, which training moves on by itself."""

    def __init__(self, graph: GraphText, path: str, buffer: Tensor) -> None:
        super().__init__(graph, buffer.detach().cpu().contiguous())
        self.path, self._handle, self._now = path, "", ""

    @property
    def handle(self) -> str:
        if not self._handle:
            if self.dtype not in ("float32", "float64"):
                raise Unsupported(f"running statistics of {self.data.dtype}")
            self._handle = self.graph.variable(self.path, list(self.shape), self.dtype, trained=False)
            self.graph.values[self._handle] = self.data.numpy().copy()
        return self._handle

    def now(self) -> str:
        """The name of the node that has its value in this step."""
        self._now = self._now or str(self.graph.node("read", self.handle))
        return self._now

    def move(self, batch: Any, momentum: float) -> None:
        """Moves it by this share of the way to the batch's value: sgd with rate 1 subtracts the gradient, also when other
        workers subtract theirs."""
        away = self.graph.node("sub", self.now(), batch)
        step = self.graph.node("mul", away, self.graph.literal(momentum, self.dtype))
        self.graph.node("apply", self.handle, step)
        self._now = str(self.graph.node("sub", self.now(), step))  # for a batch norm that a step goes through twice


class Ragged:
    """Bags of keys. segments: the bag of each key; like: as long as there are bags."""

    def __init__(self, graph: GraphText, values: Value, bags: int, of: Callable[[Sequence[Any]], Any]) -> None:
        def segments(arguments: Sequence[Any]) -> Any:
            found = of(arguments)
            ends = torch.cat([found.offsets[1:], torch.tensor([len(found.values)])])
            return torch.repeat_interleave(torch.arange(len(found.offsets)), ends - found.offsets).int()
        self.values = values
        keys = Pair(*(zeros(one).int() for one in values.pair))
        count = Pair(*(torch.zeros(bags * n, dtype=torch.int64) for n in (1, 2)))
        self.segments = Feed(graph, f"{values._name}.segments", keys, segments)
        self.like = Feed(graph, f"{values._name}.bags", count, lambda arguments: of(arguments).offsets)


class Rows:
    """What is looked up: a table, or a variable. frozen: it is only read, and not trained by this."""

    def __init__(self, graph: GraphText, handle: str, dim: int, dtype: str = "float32", frozen: bool = False) -> None:
        self.graph, self.handle, self.dim, self.frozen = graph, handle, dim, frozen
        self.read_as = TORCH.get(dtype, torch.float32)

    def lookup(self, keys: Any) -> Value:
        if not isinstance(keys, Value):
            raise Unsupported("its keys are a tensor")
        ids = self.graph.cast(keys, "int64")
        name = self.graph.node("lookup", self.handle, ids, read_only=1 if self.frozen else None)
        name = self.graph.node("stop_gradient", name) if self.frozen else name
        return Value(self.graph, name, Pair(*(torch.zeros((*one.shape, self.dim), dtype=self.read_as) for one in keys.pair)))


class Raw(str):
    """Text of an attribute as it is, not between quotes."""


def literal_text(number: Any) -> str:
    return repr(float(number)) if isinstance(number, (float, numpy.floating)) else str(int(number))


class GraphText:
    """Nodes as lines of text. Inputs and what is returned are names of nodes. definition: of the variables."""

    def __init__(self, name: str, definition: dict[str, Any]) -> None:
        self.prefix, self.definition = name, definition
        self.feeds: list[Feed] = []
        self.used: list[Feed] = []  # of these, in the order in which they were
        self.values: dict[str, Any] = {}  # of variables
        self._handles: list[str] = []
        self._lines: list[str] = []
        self._names: set[str] = set()
        self._tables: dict[str, str] = {}
        self._literals: dict[Any, str] = {}

    def unique(self, hint: str) -> str:
        hint = re.sub(r"[^A-Za-z0-9_./-]", "_", hint)[:110]
        name, count = hint, 0
        while name in self._names:
            count += 1
            name = f"{hint}_{count}"
        self._names.add(name)
        return name

    @staticmethod
    def _line(name: str, operation: str, inputs: Sequence[str], attributes: dict[str, Any], device: str = "") -> str:
        def text(value: Any) -> str:
            if isinstance(value, str):
                return value if isinstance(value, Raw) else f'"{value}"'
            if isinstance(value, (list, tuple)):
                return "[" + ", ".join(str(int(one)) for one in value) + "]"
            return literal_text(value)
        parts = [f"{name} = {operation}({', '.join(inputs)})"]
        parts += [f"{key}={text(value)}" for key, value in attributes.items() if value is not None]
        return " ".join(parts + [device] * bool(device))

    def node(self, operation: str, *inputs: str, outputs: int = 0, **attributes: Any) -> Any:
        """Its name; with `outputs` those of this many outputs."""
        name = self.unique(operation)
        self._lines.append(self._line(name, operation, inputs, attributes))
        return [f"{name}:{i}" if i else name for i in range(outputs)] if outputs else name

    def _handle(self, name: str, operation: str, attributes: dict[str, Any]) -> str:
        if not re.fullmatch(r"[A-Za-z0-9_./-]{1,127}", name):
            raise Unsupported(f"the name \"{name}\": a graph has 1 to 127 letters, digits and _ . / -")
        if name in self._names:
            raise Unsupported(f"the name \"{name}\" is already in use")
        self._names.add(name)
        self._handles.append(self._line(name, operation, (), attributes, DEVICE))
        return name

    def variable(self, path: str, shape: Sequence[int], dtype: str, trained: bool = True) -> str:
        how = self.definition if trained else {"optimizer": "sgd", "rate": 1.0, "initializer": "constant",
                                               "scale": self.definition["scale"], "trainable": 0}
        return self._handle(f"{self.prefix}/{path}", "variable", {"dtype": dtype, "shape": list(shape), **how})

    def table(self, table: Table) -> str:
        if table.name not in self._tables:
            made = table.cluster.definition(table.name)
            told = {key: value for key, value in made.items() if key not in ("name", "kind", "id", "dtype", "dim")
                    and (value not in DEFAULTS or key == "optimizer") and (key, value) != ("filter_error", 0.01)}
            seed = told.get("seed", 0)
            told["seed"] = (seed - 2**64 if seed >= 2**63 else seed) or None
            self._tables[table.name] = self._handle(table.name, "table", {"dtype": table.dtype, "dim": table.dim, **told})
        return self._tables[table.name]

    def constant(self, data: Tensor) -> Constant:
        return Constant(self, data.detach().cpu().contiguous())

    def literal(self, data: Any, dtype: str) -> str:
        """A constant of an array or number."""
        array = numpy.asarray(data).astype(dtype)
        if array.nbytes > CONSTANT_BYTES:
            raise Unsupported(f"a constant of {array.nbytes} bytes; {CONSTANT_BYTES} are the most")
        key = (dtype, array.shape, array.tobytes())
        if key not in self._literals:
            plain = array.size <= NUMBERS and (array.dtype.kind == "i" or numpy.isfinite(array).all())
            inside = "{" + ", ".join(map(literal_text, array.reshape(-1))) + "}" if plain else f"<{array.tobytes().hex()}>"
            self._literals[key] = self.node("const", value=Raw(f"{dtype}[{', '.join(map(str, array.shape))}]{inside}"))
        return self._literals[key]

    def cast(self, value: Any, dtype: str) -> str:
        """A value, or a number, as that type."""
        if not isinstance(value, Value):
            if isinstance(value, Pair):
                raise Unsupported("it computes with a size that is a batch's own")
            return self.literal(value, dtype)
        if value.dtype == dtype:
            return value.name
        if isinstance(value, Constant):
            return self.literal(value.data.numpy(), dtype)
        return str(self.node("cast", value.name, dtype=dtype))

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        if sum(size < 0 for size in shape) > 1:
            raise Unsupported(f"to the shape {list(shape)}: more than one size is a batch's own; export with dynamic=False")
        return str(self.node("reshape", name, shape=list(shape)))

    def text(self, results: Sequence[Value]) -> str:
        result = ", ".join([one.name for one in results])
        feeds = [self._line(feed.name, "feed", (), {"dtype": feed.dtype, "shape": feed.shape}) for feed in self.used]
        return "\n".join(["star 1", *feeds, *self._handles, *self._lines, f"results {result}", ""])
