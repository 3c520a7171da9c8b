# SPDX-License-Identifier: BSD-3-Clause
"""Embeddings whose rows live on parameter servers."""
from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import Operation, Table
from ._keys import Ragged, is_jagged, key_tensor, ragged, unique

if TYPE_CHECKING:
    from ._serving import Cache

COMPACT_ROWS = 1 << 16  # gradients that wait for a step are summed by key whenever there are so many more of them
DTYPES = {"float64": torch.float64, "int8": torch.int8, "int32": torch.int32, "int64": torch.int64}  # others: float32


class Lookup:
    """The distinct rows of one batch: asked for by `operation`, then in `rows`, in the order of `distinct`."""

    def __init__(self, table: Table, keys: Tensor, read_only: bool) -> None:
        self.keys = keys
        self.read_only = read_only
        self.distinct, self.inverse = unique(keys)
        self.rows = torch.empty((len(self.distinct), table.dim), dtype=DTYPES.get(table.dtype, torch.float32))
        self._table = table

    def operation(self) -> Operation:
        return self._table.pull_op(self.distinct.numpy(), self.rows.numpy(), read_only=self.read_only)


class Gradients:
    """Gradients by key that wait for a step, from the moment they arrive in a backward pass."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Tensor, Tensor]] = []  # (distinct keys, gradients of their rows)
        self._compacted = 0
        self._lock = threading.Lock()  # backward passes and steps of several threads

    def add(self, keys: Tensor, gradient: Tensor) -> None:
        with self._lock:
            self.waiting.append((keys, gradient))
            if len(self) > 2 * self._compacted + COMPACT_ROWS:
                self.waiting = [sum_by_key(self.waiting)]
                self._compacted = len(self)

    def merge(self) -> list[tuple[Tensor, Tensor]]:
        """The waiting gradients, as one pair, or none. They go on waiting."""
        with self._lock:
            if len(self.waiting) > 1:
                self.waiting = [sum_by_key(self.waiting)]
            return self.waiting

    def take(self) -> list[tuple[Tensor, Tensor]]:
        """Takes the waiting gradients."""
        with self._lock:
            taken, self.waiting, self._compacted = self.waiting, [], 0
        return taken

    def put_back(self, pairs: list[tuple[Tensor, Tensor]]) -> None:
        """Puts back gradients that were taken and could not be pushed."""
        with self._lock:
            self.waiting = pairs + self.waiting

    def scale(self, factor: float) -> None:
        with self._lock:
            self.waiting = [(keys, gradient * factor) for keys, gradient in self.waiting]

    def clear(self) -> None:
        self.take()

    def __len__(self) -> int:
        return sum(len(keys) for keys, _ in self.waiting)


def sum_by_key(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """(distinct keys, for each the sum of its gradients)."""
    if len(pairs) == 1:
        return pairs[0]
    keys, inverse = unique(torch.cat([keys for keys, _ in pairs]))
    parts = torch.cat([gradient for _, gradient in pairs])
    return keys, parts.new_zeros((len(keys), parts.shape[1])).index_add_(0, inverse, parts)


def _keep(gradients: weakref.ref[Gradients], keys: Tensor) -> Callable[[Tensor], None]:
    """A hook of a leaf tensor of rows; of the module it keeps nothing alive."""
    def arrived(gradient: Tensor) -> None:
        owner = gradients()
        if owner is not None and len(keys):
            if gradient.requires_grad:  # of backward(create_graph=True)
                gradient = gradient.detach()
            # The tensor itself: while it is referenced here, autograd copies it into .grad instead of adding to it.
            owner.add(keys, gradient.cpu().contiguous())
    return arrived


def _on_cpu(keys: Tensor) -> Tensor:
    return keys.detach().reshape(-1).cpu().contiguous()


class _Rows(nn.Module):
    """What Embedding and EmbeddingBag have in common: keys in, rows out, and gradients that wait for a step."""

    def __init__(self, table: Table, timeout: float | None = None) -> None:
        super().__init__()
        if not isinstance(table, Table):
            raise TypeError(f"an embedding is made of a starserver Table, not of {type(table).__name__}: "
                            "cluster.table(name, dim)")
        self.table = table
        self.timeout = timeout
        self.gradients = Gradients()
        self.prefetched: list[Lookup] = []
        self.cache: Cache | None = None  # of a frozen model
        self.frozen = False

    @property
    def embedding_dim(self) -> int:
        """Elements of a row."""
        return self.table.dim

    @property
    def reads_only(self) -> bool:
        """In evaluation, under torch.no_grad() and after requires_grad_(False) nothing is created or counted."""
        return self.frozen or not (self.training and torch.is_grad_enabled())

    def requires_grad_(self, requires_grad: bool = True) -> _Rows:
        """False: rows are only read from now on. To be called on the embedding: a model's requires_grad_ does not reach it."""
        self.frozen = not requires_grad
        return super().requires_grad_(requires_grad)

    def _flat(self, keys: Any) -> Tensor:
        """All keys of the module's input."""
        raise NotImplementedError

    def look_up(self, keys: Any) -> Lookup:
        """The rows of `keys`, with which the module will be called: lookup.operation() still has to pull them."""
        # A copy: the model may change these keys in place meanwhile.
        return Lookup(self.table, _on_cpu(self._flat(keys)).clone(), self.reads_only)

    def _rows(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """(a leaf tensor of distinct rows, for each key its row), on the keys' device."""
        flat = _on_cpu(keys)
        known = [lookup for lookup in self.prefetched if torch.equal(lookup.keys, flat)]
        lookup = known[0] if known else Lookup(self.table, flat, self.reads_only)
        if self.cache is not None:
            lookup.rows = self.cache.rows(lookup.distinct)
        elif not known:
            self.table.cluster.execute([lookup.operation()], self.timeout)
        rows = lookup.rows.to(keys.device).detach()
        if not self.reads_only and rows.is_floating_point():
            rows.requires_grad_()
            rows.register_hook(_keep(weakref.ref(self.gradients), lookup.distinct))
        return rows, lookup.inverse.to(keys.device)

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(f"an embedding of {self.table!r} cannot be pickled: save state_dict(), which has the rest of the model, "
                        "and make it again; its rows are on the servers")

    def __deepcopy__(self, memo: dict[int, Any]) -> _Rows:
        raise TypeError(f"an embedding of {self.table!r} cannot be copied: its rows are on the servers")

    def extra_repr(self) -> str:
        return f"\"{self.table.name}\", dim {self.table.dim}"


class Embedding(_Rows):
    """nn.Embedding without a vocabulary: rows of a Table by keys of any int64 value.

        embedding = starserver.torch.Embedding(cluster.table("user", 16))
        embedding(torch.tensor([[3, -5], [2**62, 3]]))       # float32, shape (2, 2, 16)

    A forward pass pulls the distinct rows in one trip to each reactor; they are a leaf tensor of the graph, so autograd, autocast,
    gradient accumulation and torch.utils.checkpoint work as ever. Optimizer.step() pushes their gradients. A row is made when
    its key is first seen in training; in evaluation and under no_grad a key without a row reads as its initial value.
    timeout: seconds for a pull (30). Raises what Table.pull() raises, and TypeError for keys that are not whole numbers.
    """

    def _flat(self, keys: Any) -> Tensor:
        return ragged(keys).values if isinstance(keys, tuple) or is_jagged(keys) else key_tensor(keys)

    def forward(self, keys: Any) -> Tensor:
        """keys: a tensor of whole numbers of any shape, or lists of equal lengths; of (values, offsets) and of jagged tensors
        the values. Returns their rows, shape (*keys.shape, dim)."""
        keys = self._flat(keys)
        rows, inverse = self._rows(keys)
        return F.embedding(inverse.reshape(keys.shape), rows)


class EmbeddingBag(_Rows):
    """nn.EmbeddingBag without a vocabulary: sums, means or maxima of the rows of bags of keys. See Embedding.

    mode: "sum", "mean" or "max". include_last_offset: offsets have one more element, the number of keys.
    """

    def __init__(self, table: Table, mode: str = "mean", *, include_last_offset: bool = False,
                 timeout: float | None = None) -> None:
        super().__init__(table, timeout)
        if mode not in ("sum", "mean", "max"):
            raise ValueError(f"mode is \"sum\", \"mean\" or \"max\", not {mode!r}")
        self.mode = mode
        self.include_last_offset = include_last_offset

    def _flat(self, keys: Any) -> Tensor:
        return key_tensor(keys) if isinstance(keys, Tensor) else ragged(keys).values

    def forward(self, keys: Any, offsets: Any = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """keys: shape (bags, keys of each), or flat with `offsets`, the start of each bag; or a pair of these; or a list of a
        list or tensor for each bag; or whatever has TorchRec's keys(), values(), offsets(). An empty bag gives zeros.
        per_sample_weights: a factor for each key, for mode "sum". Returns shape (bags, dim); of a KeyedJaggedTensor of
        f features (examples, f * dim)."""
        bags = ragged(keys, offsets, per_sample_weights, self.include_last_offset)
        rows, inverse = self._rows(bags.values)
        weights = self._check_weights(bags, rows)
        if not len(rows):  # torch wants one row at least
            rows = torch.cat([rows, rows.new_zeros((1, self.embedding_dim))])
        out = F.embedding_bag(inverse, rows, bags.offsets.to(inverse.device), mode=self.mode, per_sample_weights=weights)
        if bags.features > 1:
            out = out.reshape(bags.features, -1, self.embedding_dim).transpose(0, 1).flatten(1)
        return out

    def _check_weights(self, bags: Ragged, rows: Tensor) -> Tensor | None:
        if bags.weights is None:
            return None
        if self.mode != "sum":
            raise ValueError(f"per_sample_weights are for mode \"sum\", not \"{self.mode}\"")
        if bags.weights.numel() != bags.values.numel():
            raise ValueError(f"there are {bags.values.numel()} keys and {bags.weights.numel()} weights")
        return bags.weights.reshape(-1).to(rows.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mode={self.mode}"
