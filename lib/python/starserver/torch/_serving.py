# SPDX-License-Identifier: BSD-3-Clause
"""Serving: a trained model's dense weights in a folder, its rows read from the servers and cached."""
from __future__ import annotations

import json
import math
import os
import threading
import time
from collections import OrderedDict
from pathlib import Path

import numpy
import torch
from torch import Tensor, nn

from .. import Table
from ._embedding import _Rows

FORMAT = 1


def _names(model: nn.Module) -> dict[str, dict[str, object]]:
    return {path: {"table": module.table.name, "dim": module.table.dim, "dtype": module.table.dtype}
            for path, module in model.named_modules() if isinstance(module, _Rows)}


def freeze(model: nn.Module, directory: str | os.PathLike[str]) -> None:
    """Writes what a server of the model needs beside the PS tasks: `dense.pt` (its state_dict: dense parameters and buffers) and
    `model.json` (which table each embedding reads). Call Optimizer.refresh() before, for the newest dense values. The directory is made;
    each file appears whole or not at all, model.json last."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), folder / "dense.pt.new")
    os.replace(folder / "dense.pt.new", folder / "dense.pt")
    text = json.dumps({"format": FORMAT, "embeddings": _names(model)}, indent=1)
    (folder / "model.json.new").write_text(text, encoding="utf-8")
    os.replace(folder / "model.json.new", folder / "model.json")


def load_frozen(model: nn.Module, directory: str | os.PathLike[str], *, cache_rows: int = 100_000, fresh_s: float = 1.0) -> nn.Module:
    """Makes `model`, built as for training on tables of the serving cluster, read-only: its dense values are those that freeze()
    has written, its rows are pulled with READ_ONLY and cached. Returns the model, in evaluation.

    cache_rows: this many rows of each embedding are cached, those used last; 0: none. fresh_s: seconds for which a cached row is
    used without a question; then its version is checked, and the row is sent again only if it has changed (tables made
    with versions=True; of others all rows are sent). Raises ValueError when the directory is another model's.
    """
    folder = Path(directory)
    try:
        found = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        known = found["format"] == FORMAT and isinstance(found["embeddings"], dict)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder / 'model.json'} is not what freeze() writes: {error!r}") from None
    if not known or found["embeddings"] != _names(model):
        raise ValueError(f"{folder} has another model: its embeddings are {found['embeddings']}, and not {_names(model)}")
    # Loading a pickle file may call any function, unless it is restricted to tensors.
    model.load_state_dict(torch.load(folder / "dense.pt", map_location="cpu", weights_only=True))
    model.requires_grad_(False).eval()
    for module in model.modules():
        if isinstance(module, _Rows):
            module.frozen = True  # also if train() is called
            module.cache = Cache(module.table, cache_rows, fresh_s, module.timeout)
    return model


class Cache:
    """Rows of a table, the least recently used ones making room. Any number of threads may ask at once."""

    def __init__(self, table: Table, rows: int, fresh_s: float, timeout: float | None = None) -> None:
        if rows < 0 or fresh_s < 0:
            raise ValueError(f"a cache has 0 rows or more, fresh for 0 s or more; not {rows} rows and {fresh_s} s")
        self.table, self.fresh_s, self.timeout = table, fresh_s, timeout
        self.hits = self.misses = self.checks = 0
        self._versioned = bool(table.cluster.definition(table.name, timeout)["versions"])
        self._most = rows
        self._slots: OrderedDict[int, int] = OrderedDict()  # key -> row, the one used last at the end
        self._values = numpy.empty((rows, table.dim), table.pull([0], read_only=True, timeout=timeout).dtype)
        self._versions = numpy.zeros(rows, "uint32")
        self._asked = numpy.zeros(rows)  # when each row was last known to be fresh
        self._lock = threading.Lock()  # all of this, but not while rows are pulled

    def rows(self, keys: Tensor) -> Tensor:
        """Of distinct keys."""
        wanted = keys.tolist()
        rows = numpy.empty((len(wanted), self.table.dim), self._values.dtype)
        versions, asked = numpy.zeros(len(wanted), "uint32"), numpy.full(len(wanted), -math.inf)
        now = time.monotonic()
        with self._lock:
            slots = numpy.array([self._slots.get(key, -1) for key in wanted], "int64")
            known = slots >= 0
            rows[known], versions[known], asked[known] = (what[slots[known]] for what in (self._values, self._versions, self._asked))
            stale = now - asked > self.fresh_s
            self.misses += int((~known).sum())
            self.checks += int((known & stale).sum())
            self.hits += int((~stale).sum())
        if stale.any():
            part, have = rows[stale], versions[stale]
            self.table.pull(keys.numpy()[stale], part, read_only=True, versions=have if self._versioned else None,
                            timeout=self.timeout)
            rows[stale], versions[stale], asked[stale] = part, have, now
        first = max(0, len(wanted) - self._most)
        with self._lock:
            places = [self._place(key) for key in wanted[first:]]
            self._values[places], self._versions[places], self._asked[places] = rows[first:], versions[first:], asked[first:]
        return torch.from_numpy(rows)

    def _place(self, key: int) -> int:
        """Of a key's row, which is now the one used last."""
        place = self._slots.pop(key, -1)
        if place < 0:
            place = len(self._slots) if len(self._slots) < self._most else self._slots.popitem(last=False)[1]
        self._slots[key] = place
        return place

    def __len__(self) -> int:
        return len(self._slots)
