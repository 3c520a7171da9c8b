# SPDX-License-Identifier: BSD-3-Clause
"""Keys as PyTorch users have them: tensors, (values, offsets), lists, jagged tensors of TorchRec's shape."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy
import torch
from torch import Tensor

from .. import _native
from .._arrays import key_buffer


class Ragged(NamedTuple):
    """Bags of keys: bag i is values[offsets[i]:offsets[i + 1]], the last one goes to the end."""
    values: Tensor
    offsets: Tensor
    weights: Tensor | None
    features: int  # bags are ordered by feature, then by example


def key_tensor(keys: Any) -> Tensor:
    """As int64. Raises TypeError for what holds no whole numbers."""
    if not isinstance(keys, Tensor):
        try:
            if isinstance(keys, numpy.ndarray) and keys.dtype == numpy.uint64:  # which not every PyTorch has
                keys = keys.view(numpy.int64)
            keys = torch.as_tensor(keys)
        except (ValueError, RuntimeError, OverflowError, TypeError) as error:
            keys = _great_keys(keys, error)
    # An empty list says nothing of its type.
    if keys.numel() and (keys.dtype == torch.bool or keys.is_floating_point() or keys.is_complex()):
        raise TypeError(f"keys are whole numbers, not {keys.dtype}: pass keys.long()")
    return keys.to(torch.int64)


def _great_keys(lists: Any, error: Exception) -> Tensor:
    """Of lists with numbers from 2^63 on, which are the negative keys."""
    given = numpy.empty(0) if isinstance(lists, numpy.ndarray) else numpy.array(lists, object)
    try:
        return torch.from_numpy(numpy.frombuffer(key_buffer(given.ravel().tolist())[0], "int64").reshape(given.shape).copy())
    except (TypeError, ValueError):
        raise TypeError(f"keys are whole numbers of 64 bits in a tensor or in lists of equal length: {error}") from None


def _offset_tensor(offsets: Any, count: int) -> Tensor:
    offsets = key_tensor(offsets)
    if offsets.dim() != 1:
        raise ValueError(f"offsets are one-dimensional, not of the shape {tuple(offsets.shape)}")
    if len(offsets) and (offsets[0] != 0 or offsets[-1] > count or bool((offsets[1:] < offsets[:-1]).any())):
        raise ValueError(f"offsets begin with 0, never fall, and end at {count} at most, the number of keys")
    return offsets


def _of_lists(bags: Sequence[Any]) -> Ragged:
    tensors = [key_tensor(bag).reshape(-1) for bag in bags]
    sizes = torch.tensor([0] + [len(bag) for bag in tensors[:-1]])
    values = torch.cat(tensors) if tensors else torch.empty(0, dtype=torch.int64)
    return Ragged(values, sizes.cumsum(0)[:len(tensors)], None, 1)


def is_jagged(keys: Any) -> bool:
    """TorchRec's JaggedTensor or KeyedJaggedTensor, or what looks like one."""
    return callable(getattr(keys, "values", None)) and callable(getattr(keys, "offsets", None))


def ragged(keys: Any, offsets: Any = None, weights: Tensor | None = None, include_last_offset: bool = False) -> Ragged:
    """Whatever an EmbeddingBag is given."""
    if is_jagged(keys):
        features = len(keys.keys()) if callable(getattr(keys, "keys", None)) else 1
        own = getattr(keys, "weights_or_none", lambda: None)()
        values = key_tensor(keys.values())
        return Ragged(values, _offset_tensor(keys.offsets(), len(values))[:-1], own if weights is None else weights, features)
    if offsets is None and isinstance(keys, tuple) and len(keys) == 2:
        keys, offsets = keys
    if isinstance(keys, (list, tuple)) and offsets is None:
        return _of_lists(keys)._replace(weights=weights)
    values = key_tensor(keys)
    if values.dim() == 2 and offsets is None:
        bags, size = values.shape
        ends = torch.arange(bags, device=values.device) * size
        return Ragged(values.reshape(-1), ends, None if weights is None else weights.reshape(-1), 1)
    if values.dim() != 1 or offsets is None:
        raise ValueError(f"keys of bags are a tensor of shape (bags, keys), a flat one with offsets, lists, or a jagged tensor; "
                         f"not of the shape {tuple(values.shape)}{'' if offsets is None else ' with offsets'}")
    offsets = _offset_tensor(offsets, len(values))
    return Ragged(values, offsets[:-1] if include_last_offset else offsets, weights, 1)


def unique(keys: Tensor) -> tuple[Tensor, Tensor]:
    """(distinct keys in the order in which they come, for each key its place among these). Without the GIL."""
    distinct, inverse = torch.empty_like(keys), torch.empty_like(keys)
    count = _native.unique(keys.numpy(), distinct.numpy(), inverse.numpy()) if len(keys) else 0
    return distinct[:count], inverse
