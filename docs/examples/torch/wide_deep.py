#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Wide & Deep (Cheng et al., 2016) on the Census Income data: adult.data and adult.test of the UCI repository.

    wide_deep.py DIR [--epochs 3] [--freeze DIR]
"""
import argparse
import itertools
import os
import zlib

import starserver
import starserver.torch
import torch
from metrics import auc
from torch import nn

CATEGORICAL = (1, 3, 5, 6, 7, 8, 9, 13)
CONTINUOUS = (0, 4, 10, 11, 12)
CROSSES = list(itertools.combinations((1, 3, 5, 6), 2))


def key(column: int, value: str) -> int:
    return column << 32 | zlib.crc32(value.encode())


def read(path: str, most: int):
    """(continuous columns, keys of the categorical ones, keys of pairs of them, labels)."""
    continuous, deep, wide, labels = [], [], [], []
    with open(path, encoding="utf-8") as file:
        for line in itertools.islice(file, most):
            fields = [field.strip() for field in line.split(",")]
            if len(fields) == 15:
                continuous.append([float(fields[column]) for column in CONTINUOUS])
                deep.append([key(column, fields[column]) for column in CATEGORICAL])
                wide.append(deep[-1] + [key(100 + i, fields[a] + "&" + fields[b]) for i, (a, b) in enumerate(CROSSES)])
                labels.append(">50K" in fields[14])
    scaled = torch.tensor(continuous).abs().log1p()
    return scaled, torch.tensor(deep), torch.tensor(wide), torch.tensor(labels).float()


class WideDeep(nn.Module):
    def __init__(self, cluster: starserver.Cluster) -> None:
        super().__init__()
        self.wide = starserver.torch.EmbeddingBag(cluster.table("census/wide", 1, optimizer="ftrl", rate=0.05), "sum")
        self.rows = starserver.torch.Embedding(cluster.table("census/rows", 8, optimizer="adam", rate=1e-3, initializer="normal",
                                                             scale=0.05, seed=1))
        self.norm = nn.BatchNorm1d(len(CONTINUOUS))
        self.deep = nn.Sequential(nn.Linear(8 * len(CATEGORICAL) + len(CONTINUOUS), 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(),
                                  nn.Linear(32, 1))

    def embedding_keys(self, batch):
        return {self.wide: batch[2], self.rows: batch[1]}

    def forward(self, continuous: torch.Tensor, deep: torch.Tensor, wide: torch.Tensor) -> torch.Tensor:
        return (self.wide(wide) + self.deep(torch.cat([self.rows(deep).flatten(1), self.norm(continuous)], 1))).squeeze(1)


def train(model: WideDeep, data, epochs: int, batch: int = 128) -> None:
    optimizer = starserver.torch.Optimizer(model, "adam", rate=1e-3, name="census")
    for epoch in range(epochs):
        order = torch.randperm(len(data[3]))
        rows = ([column[part] for column in data] for part in order.split(batch) if len(part) > 1)
        for continuous, deep, wide, labels in starserver.torch.progress(starserver.torch.prefetch(rows, model), text=f"epoch {epoch}"):
            loss = nn.functional.binary_cross_entropy_with_logits(model(continuous, deep, wide), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", metavar="DIR", help="where adult.data and adult.test are")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1 << 30, help="this many rows of the training data at most")
    parser.add_argument("--freeze", metavar="DIR", help="write the model for serving, and score by it")
    args = parser.parse_args()
    torch.manual_seed(1)
    with starserver.LocalCluster() as local, local.connect() as cluster:
        model = WideDeep(cluster)
        train(model, read(os.path.join(args.directory, "adult.data"), args.rows), args.epochs)
        *given, labels = read(os.path.join(args.directory, "adult.test"), 1 << 30)
        with torch.no_grad():
            scores = model.eval()(*given)
        print(f"AUC {auc(scores, labels):.4f} on {len(labels)} rows")
        if args.freeze:
            starserver.torch.freeze(model, args.freeze)
            served = starserver.torch.load_frozen(WideDeep(cluster), args.freeze)
            print(f"served: AUC {auc(served(*given), labels):.4f}")


if __name__ == "__main__":
    main()
