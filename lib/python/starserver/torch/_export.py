# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch models as graphs that startrain trains: a model is traced by torch.fx, and written as .star text (docs/graph.rst)."""
from __future__ import annotations

import dis
import inspect
import os
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy
import torch
from torch import Tensor, fx, nn

from ._embedding import EmbeddingBag, _Rows
from ._export_elementwise import OPERATIONS
from ._export_graph import Feed, GraphText, Pair, Parameter, Ragged, Rows, Statistic, Unsupported, Value, picked, zeros
from ._export_operations import batch_norm, embedding_bag
from ._keys import ragged
from ._optimizer import DTYPES, UNGIVEN

OWN = (os.path.dirname(torch.__file__), os.path.dirname(__file__))  # not where a user's source is
SKIPPED = object()  # the result of a node that could not be converted


class ExportError(ValueError):
    """A model that cannot be a graph. `problems`: for each operation that is in the way (file, line, what it is)."""

    def __init__(self, problems: Sequence[tuple[str, int, str]]) -> None:
        self.problems = list(problems)
        super().__init__("this model cannot be exported:\n" + "\n".join(f"{file}:{line}: {what}" for file, line, what in problems))


def _is_users(file: str) -> bool:
    return not file.startswith(OWN) and not file.startswith("<frozen")


def _here() -> tuple[str, int]:
    """The line of the user's that is being executed."""
    frame = inspect.currentframe()
    while frame is not None and not _is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return ("?", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


class _Unpacked:
    """`a, b = tensor.split(2)`: as many as are asked for. fx has this too, but PyTorch 1.13 not for Python 3.11."""

    def __iter__(self: Any) -> Any:
        frame: Any = inspect.currentframe()
        frame = frame.f_back
        for step in dis.get_instructions(frame.f_code):
            if step.offset == frame.f_lasti and step.opname == "UNPACK_SEQUENCE":
                return iter([self[i] for i in range(step.argval)])
        return self.tracer.iter(self)


class _Attribute(_Unpacked, fx.proxy.Attribute):
    pass


class _Proxy(_Unpacked, fx.Proxy):
    def __getattr__(self, k: str) -> _Attribute:
        return _Attribute(self, k)


class _Tracer(fx.Tracer):
    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[fx.Node, tuple[str, int]] = {}

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        # Modules of PyTorch are calls of torch.nn.functional inside; those that are more than that stay whole.
        return isinstance(m, (_Rows, nn.modules.batchnorm._BatchNorm, nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention))

    def proxy(self, node: fx.Node) -> _Proxy:
        return _Proxy(node, self)

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        node = super().create_node(*args, **kwargs)
        self.lines[node] = _here()
        return node


def _trace(model: nn.Module) -> tuple[fx.Graph, dict[fx.Node, tuple[str, int]]]:
    """(what the model does, the user's line of each node)"""
    tracer = _Tracer()
    try:
        return tracer.trace(model), tracer.lines
    except Exception as error:
        lines = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
        what = str(error).strip().split("\n", maxsplit=1)[0]
        raise ExportError([(*(lines or [("?", 0)])[-1], "this depends on the values of a batch, or is done by Python and not by "
                            f"operations that torch.fx can see: {what}")]) from error


class _Loss(nn.Module):
    def __init__(self, loss: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, output: Any, target: Any) -> Any:
        return self.loss(output, target)


class _Converter:
    """Goes through a trace, and computes the shapes of all values for two batches, of which one is twice as large: sizes that
    differ are a batch's own."""

    def __init__(self, graph: GraphText, model: nn.Module, dynamic: bool) -> None:
        self.graph, self.dynamic = graph, dynamic
        self.paths = {id(parameter): path for path, parameter in model.named_parameters()}
        self.parameters: dict[int, Parameter] = {}
        self.buffers = {id(buffer): path for path, buffer in model.named_buffers()}
        self.statistics: dict[int, Statistic] = {}
        self.problems: list[tuple[str, int, str]] = []

    # What comes in

    def feed(self, index: int, name: str, example: Any) -> Any:
        if isinstance(example, Tensor):
            pair = Pair(*(zeros(example, copies if self.dynamic and example.dim() else 1) for copies in (1, 2)))
            try:
                return Feed(self.graph, name, pair, lambda arguments: arguments[index])
            except Unsupported as error:
                raise ValueError(f"argument {name}: {error}") from None
        if isinstance(example, (tuple, list)):
            def bags(arguments: Sequence[Any]) -> Any:
                return ragged(arguments[index])
            found = ragged(example)
            if found.features != 1 or found.weights is not None:
                raise ValueError(f"argument {name}: bags of several features, or with weights, are given as tensors")
            values = Feed(self.graph, name, Pair(*(zeros(found.values, n) for n in (1, 2))), lambda arguments: bags(arguments).values)
            return Ragged(self.graph, values, len(found.offsets), bags)
        return example

    def parameter(self, module: nn.Module, target: str) -> Any:
        found: Any = module
        for name in target.split("."):
            found = getattr(found, name)
        if not isinstance(found, Tensor):
            return found
        if id(found) in self.buffers:
            if id(found) not in self.statistics:
                self.statistics[id(found)] = Statistic(self.graph, self.buffers[id(found)], found)
            return self.statistics[id(found)]
        if not isinstance(found, nn.Parameter) or not found.requires_grad:
            return self.graph.constant(found)
        if id(found) not in self.parameters:
            if found.dtype not in DTYPES:
                raise Unsupported(f"parameter {target} is of {found.dtype}; servers train float32, float64 and float16")
            self.parameters[id(found)] = Parameter(self.graph, self.paths.get(id(found), target), found, DTYPES[found.dtype])
        return self.parameters[id(found)]

    # Nodes

    def run(self, module: nn.Module, arguments: Sequence[Any]) -> Any:
        """What the module returns for these."""
        waiting = list(arguments)
        made: dict[fx.Node, Any] = {}
        traced, lines = _trace(module)
        for node in traced.nodes:
            if node.op == "placeholder":
                made[node] = waiting.pop(0) if waiting else node.args[0]
                continue
            args, kwargs = fx.node.map_arg(node.args, made.__getitem__), dict(fx.node.map_arg(node.kwargs, made.__getitem__))
            if any(made[one] is SKIPPED for one in node.all_input_nodes):
                made[node] = SKIPPED
                continue
            if node.op == "output":
                return args[0]
            try:
                made[node] = self.node(module, node, args, kwargs)
                if kwargs.get("inplace"):
                    made[node.args[0]] = made[node]
            except Exception as error:
                if not isinstance(error, (Unsupported, RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)):
                    raise
                self.problems.append((*lines[node], f"{self.title(module, node)}: {error}"))
                made[node] = SKIPPED
        return SKIPPED

    @staticmethod
    def title(module: nn.Module, node: fx.Node) -> str:
        if node.op == "call_module":
            return type(module.get_submodule(node.target)).__name__
        if node.op == "call_method":
            return f"Tensor.{node.target}"
        return str(getattr(node.target, "__name__", node.target))

    def node(self, module: nn.Module, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if node.op == "get_attr":
            return self.parameter(module, node.target)
        if node.op == "call_module":
            return self.module(module.get_submodule(node.target), node, args, kwargs)
        name = node.target if node.op == "call_method" else node.target.__name__
        if name == "getitem" and isinstance(args[0], (tuple, list, dict)):
            return args[0][args[1]]

        def call(which: int) -> Any:
            mine, named = picked(args, which), picked(kwargs, which)
            with torch.no_grad():
                return getattr(mine[0], name)(*mine[1:], **named) if node.op == "call_method" else node.target(*mine, **named)
        if any(isinstance(one, Ragged) for one in args):
            raise Unsupported("bags, as (values, offsets) or lists, go into an EmbeddingBag alone")
        if node.op == "call_method" and name.endswith("_"):
            raise Unsupported(f"it changes a tensor in place: use {name[:-1]}()")
        out = Pair(call(0), call(1))
        if not out.has_tensors():
            return out.plain()
        if out.is_constant(args, kwargs):
            return self.graph.constant(out[0])
        if kwargs.pop("out", None) is not None:
            raise Unsupported("into an existing tensor, by out=")
        if name not in OPERATIONS:
            raise Unsupported("graphs have neither this operation nor others to build it from")
        return self.made(node.name, out, OPERATIONS[name](self.graph, out, *args, **kwargs))

    def made(self, hint: str, out: Pair, name: Any) -> Any:
        if isinstance(name, Value):
            return name
        if isinstance(name, list):
            return [Value(self.graph, one, Pair(a, b)) for one, a, b in zip(name, out[0], out[1])]
        return Value(self.graph, name, out)

    def module(self, module: nn.Module, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            weight, bias, mean, variance = (self.parameter(module, name) for name in ("weight", "bias", "running_mean", "running_var"))
            by_batch = module.training or mean is None and variance is None
            return self.made(node.name, args[0].pair, batch_norm(self.graph, args[0].pair, args[0], mean, variance, weight, bias,
                                                                 by_batch, module.momentum, module.eps))
        if not isinstance(module, _Rows):
            raise Unsupported("graphs have no such operation: write it as cells, each of operations that exist")
        rows = Rows(self.graph, self.graph.table(module.table), module.table.dim, module.table.dtype, module.frozen)
        if isinstance(module, EmbeddingBag):
            return embedding_bag(self.graph, rows, *args, mode=module.mode, include_last_offset=module.include_last_offset, **kwargs)
        return rows.lookup(args[0])


class ExportedGraph:
    """A model as a graph. text: of its .star file. feeds: for each array of a batch (name, dtype, shape), -1 in a shape being a
    batch's own size. values: for each variable its first values, by name."""

    def __init__(self, graph: GraphText, results: Sequence[Value]) -> None:
        self.text = graph.text(results)
        self._feeds = graph.used
        self.feeds = [(feed.name, feed.dtype, feed.shape) for feed in self._feeds]
        self.values: dict[str, Any] = dict(graph.values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `path`.star, and `path`.values with the first values of the variables: for startrain PATH.star --values PATH.values."""
        with open(f"{os.fspath(path)}.star", "w", encoding="ascii") as file:
            file.write(self.text)
        with open(f"{os.fspath(path)}.values", "wb") as values:
            for array in self.values.values():
                numpy.save(values, array)

    def save_batches(self, path: str | os.PathLike[str], batches: Iterable[Sequence[Any]]) -> int:
        """Writes batches for startrain --train, each as the example was. Returns how many. Raises ValueError for a shape or type that
        is not the feed's."""
        count = 0
        with open(path, "wb") as file:
            for count, batch in enumerate(batches, 1):
                for feed in self._feeds:
                    numpy.save(file, feed.array(batch, count - 1))
        return count


def _tensors(value: Any) -> list[Any]:
    """All that a model returns, in lists and tuples, and by name."""
    if isinstance(value, dict):
        value = list(value.values())
    return [one for part in value for one in _tensors(part)] if isinstance(value, (tuple, list)) else [value]


def _results(value: Any, predictions: Any, training: bool) -> list[Value]:
    """Training: the loss. Else the loss, if there is one, and predictions."""
    is_loss = isinstance(value, Value) and value.shape == ()
    if training and not is_loss:
        found = (f"a tensor of shape {list(value.shape)}" if isinstance(value, Value) else
                 "several values" if isinstance(value, (tuple, list, dict)) else f"{value!r:.40}")
        raise ValueError(f"a graph is trained by its loss, one number, and this is {found}: pass loss=, or return the loss (after "
                         "model.eval() a graph that predicts needs none)")
    if training:
        return [value]
    results = _tensors(predictions) if predictions is value else [value, *_tensors(predictions)]
    if not results or not all(isinstance(one, Value) for one in results):
        raise ValueError("a model that predicts returns tensors, or lists, tuples and dicts of them")
    return results


def export_graph(model: nn.Module, example: Sequence[Any], loss: Callable[[Any, Any], Any] | None = None, *, name: str = "model",
                 dense: str = "adam", rate: float | None = None, dynamic: bool = True, **options: Any) -> ExportedGraph:
    """The graph of a model and its loss, which `startrain FILE.star` cuts and trains (docs/graph.rst, docs/training.rst).

        graph = starserver.torch.export_graph(model, (user, seen, labels), torch.nn.functional.binary_cross_entropy_with_logits)
        graph.save("model")
        graph.save_batches("train.batches", batches)

    model: made of operations that a graph has, or that can be made of these; its embeddings are starserver.torch's or torch.nn's. It
    returns its loss, a scalar, or `loss` is called with what it returns and the example's last element. example: a batch, the
    arguments of model.forward: tensors, or for an EmbeddingBag (values, offsets) or lists; all others are taken as constants.
    The first size of a tensor is a batch's own; dynamic=False: all sizes are those of the example.
    name, dense, rate, options: as of starserver.torch.Optimizer, so that the variables are the same ones. Parameters
    without requires_grad are constants. Running means and variances of batch norms are variables, too, by the names of their
    buffers, which training moves on. Nothing is pulled, and nothing is changed.

    After model.eval() the graph is one to evaluate and to predict with, by `startrain FILE.star evaluate` and `predict`: batch
    norms go by their running means, dropout is off, and the results are the loss, if there is one, and what the model returns.
    Export it with the same options as the one that was trained, so that the variables are the same.
    Raises ExportError, which names file and line of each operation that cannot be converted.
    """
    definition = {"optimizer": dense, "rate": rate, "initializer": "constant", "scale": UNGIVEN, **options}
    graph = GraphText(name, definition)
    converter = _Converter(graph, model, dynamic)
    inner = list(example)[:-1] if loss is not None else list(example)
    names = [node.target for node in _trace(model)[0].nodes if node.op == "placeholder"]
    if any(one.startswith("*") for one in names) or len(inner) > len(names):
        raise ValueError(f"the model takes {names}, and the example has {len(inner)} arguments for it")
    value = predictions = converter.run(model, [converter.feed(i, names[i], one) for i, one in enumerate(inner)])
    if loss is not None and value is not SKIPPED:
        value = converter.run(_Loss(loss), [value, converter.feed(len(inner), "target", list(example)[-1])])
    if converter.problems:
        raise ExportError(converter.problems)
    results = _results(value, predictions, model.training)
    return ExportedGraph(graph, results)
