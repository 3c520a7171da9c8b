# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch models whose embeddings and optimizer live on StarServer: pure Python, for every torch from 1.13 on.

    import starserver, starserver.torch, torch

    class Model(torch.nn.Module):
        def __init__(self, cluster):
            super().__init__()
            self.user = starserver.torch.Embedding(cluster.table("user", 16, initializer="normal", scale=0.01))
            self.out = torch.nn.Linear(16, 1)

        def forward(self, user):
            return self.out(self.user(user))

    model = Model(starserver.connect("tcp:198.18.0.1:3333"))
    optimizer = starserver.torch.Optimizer(model, dense="adam")

docs/python.rst is the manual.
"""
try:
    import numpy as _numpy
    import torch as _torch
except ImportError as error:
    raise ImportError(f"starserver.torch needs PyTorch and NumPy (Debian: python3-torch, python3-numpy): {error}") from error

from ._embedding import Embedding, EmbeddingBag
from ._export import ExportedGraph, ExportError, export_graph
from ._optimizer import Optimizer
from ._prefetch import prefetch, progress
from ._serving import freeze, load_frozen
from ._summaries import Summaries
from ._workers import Worker

__all__ = ["Embedding", "EmbeddingBag", "ExportError", "ExportedGraph", "Optimizer", "Summaries", "Worker", "export_graph", "freeze",
           "load_frozen", "prefetch", "progress"]
