#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""DLRM (Naumov et al., 2019) on generated rows like Criteo's, trained by several worker processes at once.

    dlrm.py --workers 4                                   nodes on this machine, for this run
    dlrm.py --workers 4 --checkpoints /tmp/dlrm           the same; a second run goes on where the first one has ended
    dlrm.py --workers 4 --ps tcp:ps0:3333,ps1:3333        nodes that run already
"""
import argparse
import contextlib
import multiprocessing
import os
import sys

import starserver
import starserver.torch
import torch
from torch import nn

DENSE, SPARSE, IDS = 13, 26, 100_000


class DLRM(nn.Module):
    """embedding: makes what looks rows up, of keys of shape (batch, SPARSE)."""

    def __init__(self, embedding: nn.Module, dim: int) -> None:
        super().__init__()
        self.rows = embedding
        self.bottom = nn.Sequential(nn.Linear(DENSE, 64), nn.ReLU(), nn.Linear(64, dim), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(dim + (SPARSE + 1) * SPARSE // 2, 64), nn.ReLU(), nn.Linear(64, 1))
        rows, columns = torch.tril_indices(SPARSE + 1, SPARSE + 1, -1)
        self.register_buffer("pairs", rows * (SPARSE + 1) + columns, persistent=False)  # in the matrix of products, as one row

    def embedding_keys(self, batch):
        """For starserver.torch.prefetch."""
        return {self.rows: batch[1]}

    def forward(self, dense: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        bottom = self.bottom(dense)
        vectors = torch.cat([bottom.unsqueeze(1), self.rows(keys)], 1)
        products = (vectors @ vectors.transpose(1, 2)).flatten(1).index_select(1, self.pairs)
        return self.top(torch.cat([bottom, products], 1)).squeeze(1)


def batches(count: int, size: int, seed: int):
    """(dense, keys, labels): few ids are frequent, as in Criteo's data; the label follows from one dense and two sparse features.
    A key is the feature's number above the id: one table has the rows of all features."""
    random = torch.Generator().manual_seed(seed)
    feature = torch.arange(SPARSE) << 48
    for _ in range(count):
        dense = torch.randn(size, DENSE, generator=random)
        ids = (IDS * torch.rand(size, SPARSE, generator=random) ** 8).long()
        score = dense[:, 0] + (ids[:, 0] % 2) * 2 - (ids[:, 1] % 2) * 2
        yield dense, ids + feature, (torch.rand(size, generator=random) < torch.sigmoid(2 * score)).float()


def work(rank: int, args: argparse.Namespace, ps: str) -> None:
    """One worker process."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with starserver.connect(ps) as cluster:
        table = cluster.table("dlrm/rows", args.dim, optimizer="adagrad", rate=0.05, initializer="uniform", scale=0.05, seed=1)
        model = DLRM(starserver.torch.Embedding(table), args.dim)
        optimizer = starserver.torch.Optimizer(model, "adagrad", rate=0.02, name="dlrm", rank=rank)
        began = optimizer.global_step
        rows = batches(args.steps, args.batch, seed=1000 * (began + 1) + rank)
        losses = []
        for dense, keys, labels in starserver.torch.prefetch(rows, model, depth=1):
            loss = nn.functional.binary_cross_entropy_with_logits(model(dense, keys), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        tenth = max(1, len(losses) // 10)
        print(f"worker {rank}: loss {sum(losses[:tenth]) / tenth:.4f} at first, {sum(losses[-tenth:]) / tenth:.4f} at last", flush=True)


def steps(ps: str) -> int:
    """How many steps the model has been trained for."""
    with starserver.connect(ps) as cluster:
        try:
            return int(cluster.lookup("dlrm/state").pull(read_only=True)[1])
        except starserver.NotFound:
            return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--ps", help="control addresses of nodes that run; without it two are started here")
    parser.add_argument("--checkpoints", help="a directory for the checkpoints of the nodes that are started here")
    parser.add_argument("--steps", type=int, default=300, help="of each worker (300)")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--dim", type=int, default=16)
    args = parser.parse_args()
    if args.checkpoints:
        os.makedirs(args.checkpoints, exist_ok=True)
    with contextlib.ExitStack() as stack:
        ps = args.ps or stack.enter_context(starserver.LocalCluster(nodes=2, checkpoints=args.checkpoints)).address
        print(f"begins at step {steps(ps)}", flush=True)  # before a worker counts some
        context = multiprocessing.get_context("spawn")
        workers = [context.Process(target=work, args=(rank, args, ps)) for rank in range(args.workers)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if any(worker.exitcode for worker in workers):
            return 1
        print(f"ends at step {steps(ps)}")
        if args.checkpoints:
            with starserver.connect(ps) as cluster:
                cluster.checkpoint()
            print(f"a checkpoint is in {args.checkpoints}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
