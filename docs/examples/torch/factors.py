#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Matrix factorization: which items a user likes, from generated ratings of users and items with hidden tastes.

    factors.py [--steps 400]
"""
import argparse

import starserver
import starserver.torch
import torch
from metrics import auc
from torch import nn

USERS, ITEMS, HIDDEN = 1000, 500, 3


class Factors(nn.Module):
    def __init__(self, cluster: starserver.Cluster, dim: int) -> None:
        super().__init__()
        self.user, self.item = (starserver.torch.Embedding(cluster.table(
            f"factors/{name}", dim, optimizer="adam", rate=0.02, initializer="normal", scale=0.1, seed=seed))
            for seed, name in enumerate(("user", "item")))

    def embedding_keys(self, batch):
        return {self.user: batch[0], self.item: batch[1]}

    def forward(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        return (self.user(users) * self.item(items)).sum(1)


class Ratings:
    """Draws (users, items, liked)."""

    def __init__(self, seed: int) -> None:
        self.random = torch.Generator().manual_seed(seed)
        self.tastes = torch.randn(USERS, HIDDEN, generator=self.random), torch.randn(ITEMS, HIDDEN, generator=self.random)

    def draw(self, size: int, held_out: bool):
        users, items = (torch.randint(0, most, (4 * size,), generator=self.random) for most in (USERS, ITEMS))
        chosen = ((users * 31 + items * 17) % 10 == 0) == held_out  # a tenth of all pairs is never trained on
        users, items = users[chosen][:size], items[chosen][:size]
        taste = (self.tastes[0][users] * self.tastes[1][items]).sum(1)
        return users, items, (torch.rand(len(users), generator=self.random) < torch.sigmoid(3 * taste)).float()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--dim", type=int, default=8)
    args = parser.parse_args()
    ratings = Ratings(1)
    with starserver.LocalCluster() as local, local.connect() as cluster:
        model = Factors(cluster, args.dim)
        optimizer = starserver.torch.Optimizer(model, name="factors")
        rows = (ratings.draw(512, held_out=False) for _ in range(args.steps))
        for users, items, liked in starserver.torch.progress(starserver.torch.prefetch(rows, model), args.steps):
            nn.functional.binary_cross_entropy_with_logits(model(users, items), liked).backward()
            optimizer.step()
        users, items, liked = ratings.draw(2000, held_out=True)
        with torch.no_grad():
            print(f"AUC {auc(model(users, items), liked):.4f} on pairs that were not trained on")


if __name__ == "__main__":
    main()
