#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Many small steps of a model, for bench/python-memory: python-steps.py PS STEPS SAMPLES."""
import gc
import json
import os
import sys
import time

import starserver
import starserver.torch
import torch


def resident():
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main():
    ps, steps, samples = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.manual_seed(1)
    memory, began = [], time.monotonic()
    with starserver.connect(ps) as cluster:
        table = cluster.table("memory", 8, optimizer="adagrad", rate=0.01)
        model = torch.nn.Sequential(starserver.torch.EmbeddingBag(table, "sum"), torch.nn.Linear(8, 1))
        optimizer = starserver.torch.Optimizer(model, "adam", name="memory")

        def batches():
            for _ in range(steps):
                yield torch.randint(0, 1000, (8, 2))
        for number, keys in enumerate(starserver.torch.prefetch(batches(), model, keys=lambda keys: {model[0]: keys}), 1):
            loss = model(keys).square().sum() * (float("nan") if number % 100 == 50 else 1)
            loss.backward()
            try:
                if number % 10:
                    optimizer.step()
            except starserver.StarError:
                pass
            if number % 20 != 10:  # of these the gradients stay until later
                optimizer.zero_grad()
            if number % (steps // samples) == 0:
                memory.append(resident())
    print(json.dumps({"memory": memory, "rate": steps / (time.monotonic() - began)}))


main()
