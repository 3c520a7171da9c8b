#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Word vectors of a text: skip-gram with negative sampling (Mikolov et al., 2013). Words need no list: a word's key is its hash.

    words.py FILE... [--near WORD] [--epochs 3]
"""
import argparse
import re
import zlib
from collections import Counter

import starserver
import starserver.torch
import torch
from torch import nn

WINDOW, NEGATIVES = 4, 5


def pairs(words: list[int], counts: dict[int, int], batch: int, epochs: int):
    """(centre words, words near them and NEGATIVES that were drawn)."""
    text = torch.tensor(words)
    frequent = torch.tensor(list(counts.values())).double() ** 0.75
    keys = torch.tensor(list(counts))
    for _ in range(epochs):
        for part in torch.randperm(len(text) - 2 * WINDOW).split(batch):
            centre = part + WINDOW
            offset = torch.randint(1, WINDOW + 1, centre.shape) * (torch.randint(0, 2, centre.shape) * 2 - 1)
            drawn = keys[torch.multinomial(frequent, NEGATIVES * len(part), replacement=True)].reshape(len(part), NEGATIVES)
            yield text[centre], torch.cat([text[centre + offset].unsqueeze(1), drawn], 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--near", metavar="WORD", help="print the words whose vectors are nearest to this one's")
    args = parser.parse_args()
    torch.manual_seed(1)
    words = [word for name in args.files for word in re.findall(r"[a-z]+", open(name, encoding="utf-8").read().lower())]
    names = {zlib.crc32(word.encode()): word for word in words}
    keys = [zlib.crc32(word.encode()) for word in words]
    with starserver.LocalCluster() as local, local.connect() as cluster:
        made = {"optimizer": "adagrad", "rate": 0.1, "initializer": "uniform", "scale": 0.02}
        model = nn.ModuleList([starserver.torch.Embedding(cluster.table(name, args.dim, **made)) for name in ("words/in", "words/out")])
        optimizer = starserver.torch.Optimizer(model, name="words")
        losses = []
        look_up = {"keys": lambda batch: dict(zip(model, batch))}
        for centre, around in starserver.torch.prefetch(pairs(keys, Counter(keys), 512, args.epochs), model, **look_up):
            scores = (model[0](centre).unsqueeze(1) * model[1](around)).sum(2)
            targets = torch.zeros_like(scores)
            targets[:, 0] = 1
            loss = nn.functional.binary_cross_entropy_with_logits(scores, targets, reduction="sum") / len(centre)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"{len(words)} words, {len(names)} different ones: loss {losses[0]:.4f} at first, "
              f"{sum(losses[-20:]) / len(losses[-20:]):.4f} at last")
        if args.near:
            vocabulary = torch.tensor(list(names))
            with torch.no_grad():
                vectors = nn.functional.normalize(model[0](vocabulary), dim=1)
                one = nn.functional.normalize(model[0](torch.tensor([zlib.crc32(args.near.encode())])), dim=1)
            nearest = (vectors @ one[0]).topk(6).indices
            print(f"near {args.near}: " + " ".join(names[int(vocabulary[i])] for i in nearest if names[int(vocabulary[i])] != args.near))


if __name__ == "__main__":
    main()
