# SPDX-License-Identifier: BSD-3-Clause
"""What the examples measure."""
import torch


def auc(scores: torch.Tensor, labels: torch.Tensor) -> float:
    """The share of pairs of a positive and a negative example that are in the right order; ties count half."""
    values, place = torch.unique(scores, return_inverse=True)
    positive = torch.zeros(len(values), dtype=torch.float64).index_add_(0, place, labels.double())
    negative = torch.zeros(len(values), dtype=torch.float64).index_add_(0, place, 1 - labels.double())
    below = negative.cumsum(0) - negative
    return float((positive * (below + negative / 2)).sum() / (positive.sum() * negative.sum()))
