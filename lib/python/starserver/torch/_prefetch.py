# SPDX-License-Identifier: BSD-3-Clause
"""Rows of the batches to come, pulled while this one computes."""
from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from concurrent.futures import Future
from typing import Any, TypeVar

from torch import nn

from ._embedding import Lookup, _Rows
from ._optimizer import embeddings

Batch = TypeVar("Batch")
Item = TypeVar("Item")
Keys = Callable[[Any], Mapping[_Rows, Any]]


class _Pull:
    """A batch and the rows that its forward pass will ask for."""

    def __init__(self, batch: Any, keys: Mapping[_Rows, Any], timeout: float | None) -> None:
        self.batch = batch
        if not isinstance(keys, Mapping) or not all(isinstance(module, _Rows) for module in keys):
            raise TypeError("prefetch wants of each batch a dict of the model's embeddings and what each one will be called with, as "
                            f"{{model.user: batch[0]}}; not {keys!r:.100}")
        self.lookups: list[tuple[_Rows, Lookup]] = [(module, module.look_up(given)) for module, given in keys.items()]
        self._future: Future[list[Any]] | None = None
        if self.lookups:
            cluster = self.lookups[0][0].table.cluster
            self._future = cluster.execute_async([lookup.operation() for _, lookup in self.lookups], timeout)

    def wait(self) -> None:
        if self._future is not None:
            self._future.result()


def prefetch(loader: Iterable[Batch], model: nn.Module, depth: int = 1, *, keys: Keys | None = None,
             timeout: float | None = None) -> Iterator[Batch]:
    """Yields the loader's batches, with the rows of all the model's embeddings pulled in one trip to each reactor.

        for batch in starserver.torch.prefetch(loader, model, depth=1, keys=lambda batch: {model.user: batch["user"]}):

    keys: of a batch, what each embedding module will be called with; without it the model's method embedding_keys(batch) says so.
    What a forward pass asks for beyond that it pulls by itself.

    depth: this many batches ahead. With 0 a batch's rows are pulled before it is yielded: the values are those of a loop without
    prefetch, to the bit. With 1 they are pulled while the batch before is computed, so they lack that batch's update
    by this worker: rows that both batches have are one step old, with depth n up to n steps. Other workers' updates may
    be missed in the same measure.

    timeout: seconds for a pull (30). Raises what Table.pull() raises, when the batch's turn comes.
    """
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 0:
        raise ValueError(f"depth is a whole number from 0, not {depth!r}")
    ask = keys if keys is not None else getattr(model, "embedding_keys", None)
    if ask is None:
        raise ValueError("prefetch does not know which keys of a batch are for which embedding: pass keys=lambda batch: "
                         "{model.user: batch[0]}, or give the model a method embedding_keys(batch) that returns this")
    return _batches(iter(loader), embeddings(model), depth, ask, timeout)


def _batches(batches: Iterator[Batch], modules: list[_Rows], depth: int, keys: Keys, timeout: float | None) -> Iterator[Batch]:
    ahead: deque[_Pull] = deque()
    try:
        while True:
            while len(ahead) <= depth:
                for batch in batches:
                    ahead.append(_Pull(batch, keys(batch), timeout))
                    break
                else:
                    break
            if not ahead:
                return
            present = ahead.popleft()
            present.wait()
            for module in modules:
                module.prefetched = [lookup for owner, lookup in present.lookups if owner is module]
            yield present.batch
    finally:
        for module in modules:
            module.prefetched = []


def progress(batches: Iterable[Item], total: int | None = None, text: str = "") -> Iterator[Item]:
    """The same batches, with a bar on the terminal: tqdm's where it is installed, else a line of this module's own; nothing where
    standard error is not a terminal."""
    if not sys.stderr.isatty():
        yield from batches
        return
    if total is None and isinstance(batches, Sized):
        total = len(batches)
    try:
        from tqdm import tqdm
    except ImportError:
        yield from _lines(batches, total, text)
        return
    yield from tqdm(batches, total=total, desc=text or None)


def _lines(batches: Iterable[Item], total: int | None, text: str) -> Iterator[Item]:
    began = shown = time.monotonic()
    number = 0

    def show(end: str) -> None:
        rate = number / max(1e-9, time.monotonic() - began)
        share = f"/{total} {100 * number // max(1, total)} %" if total else ""
        sys.stderr.write(f"\r{text}{': ' if text else ''}{number}{share}, {rate:.1f}/s {end}")
        sys.stderr.flush()

    try:
        for number, batch in enumerate(batches, 1):
            yield batch
            if time.monotonic() - shown > 0.1:
                shown = time.monotonic()
                show("")
    finally:
        show("\n")
