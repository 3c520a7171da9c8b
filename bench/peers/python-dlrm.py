#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Steps/s of the DLRM of docs/examples/torch, for bench/python-dlrm: python-dlrm.py SIDE PS WORKERS SECONDS.

PS: the node's address, and the ids of its processes, with commas. star: embeddings and optimizer on that node. local:
nn.EmbeddingBag(sparse=True), SparseAdam and Adam in this process. rpc: a parameter server as in PyTorch's tutorial on its RPC: the
whole model in a process of its own, which trainers call. Of several trainers one may change a weight between another one's forward
and backward pass, which autograd refuses: that step is lost. pslite: rows and weights on a server of ps-lite (pslite.py).

Prints steps/s of all workers, the steps that were lost, and the milliseconds of processor time a step, the server's included.
"""
import contextlib
import ctypes
import itertools
import json
import multiprocessing
import os
import signal
import sys
import time
import traceback

import dlrm
import pslite
import starserver
import starserver.torch
import torch
import torch.distributed.autograd as dist_autograd
from torch import nn
from torch.distributed import rpc
from torch.distributed.optim import DistributedOptimizer

DIM, BATCH, BATCHES, WARM_STEPS = 16, 256, 64, 30
RATE = 1e-3
PR_SET_PDEATHSIG = 1


class Rows(nn.Module):
    """One bag for each key."""

    def __init__(self, bag):
        super().__init__()
        self.bag = bag

    @staticmethod
    def keys(keys):
        return keys.reshape(-1, 1)

    def forward(self, keys):
        return self.bag(self.keys(keys)).reshape(*keys.shape, DIM)


class LocalRows(Rows):
    """The whole vocabulary, in this process."""

    def __init__(self):
        super().__init__(nn.EmbeddingBag(dlrm.SPARSE * dlrm.IDS, DIM, mode="sum", sparse=True))

    @staticmethod
    def keys(keys):
        return ((keys >> 48) * dlrm.IDS + (keys & (1 << 48) - 1)).reshape(-1, 1)


def processor_s(pid):
    """What a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def measured(rank, batches, step, seconds, servers):
    """Of one worker: (steps, steps that were lost, seconds, processor time of its own, and of the servers). Their time is worker 0's to
    tell."""
    pids = [os.getpid(), *(servers if rank == 0 else [])]
    for batch in itertools.islice(batches, WARM_STEPS):
        step(batch)
    done, lost, began, used = 0, 0, time.monotonic(), [processor_s(pid) for pid in pids]
    while time.monotonic() - began < seconds:
        if step(next(batches)) is False:
            lost += 1
        else:
            done += 1
    spent = [processor_s(pid) - before for pid, before in zip(pids, used)]
    return done, lost, time.monotonic() - began, spent[0], sum(spent[1:])


def data(rank):
    return itertools.cycle(list(dlrm.batches(BATCHES, BATCH, rank)))


def loss_of(model, batch):
    return nn.functional.binary_cross_entropy_with_logits(model(batch[0], batch[1]), batch[2])


def star(rank, workers, ps, seconds):
    address, *servers = ps.split(",")
    with starserver.connect(address) as cluster:
        table = cluster.table("rows", DIM, optimizer="adam", rate=RATE, initializer="normal", scale=0.1)
        model = dlrm.DLRM(Rows(starserver.torch.EmbeddingBag(table, "sum")), DIM)
        optimizer = starserver.torch.Optimizer(model, "adam", rate=RATE, rank=rank)

        def step(batch):
            loss_of(model, batch).backward()
            optimizer.step()
            optimizer.zero_grad()
        return measured(rank, starserver.torch.prefetch(data(rank), model, 1, keys=lambda batch: {model.rows.bag: Rows.keys(batch[1])}),
                        step, seconds, servers)


def local(rank, workers, ps, seconds):
    model = dlrm.DLRM(LocalRows(), DIM)
    sparse = torch.optim.SparseAdam(model.rows.parameters(), RATE)
    dense = torch.optim.Adam([*model.bottom.parameters(), *model.top.parameters()], RATE)

    def step(batch):
        loss_of(model, batch).backward()
        for optimizer in (sparse, dense):
            optimizer.step()
            optimizer.zero_grad()
    return measured(rank, data(rank), step, seconds, [])


class Server:
    """What the tutorial's ParameterServer is."""

    def __init__(self):
        self.model = dlrm.DLRM(LocalRows(), DIM)

    def forward(self, dense, keys):
        return self.model(dense, keys)

    def pid(self):
        return os.getpid()

    def parameters(self, sparse):
        return [rpc.RRef(p) for name, p in self.model.named_parameters() if name.startswith("rows.") == sparse]


served = None


def get_server():
    global served
    served = served or Server()
    return served


def join(rank, workers):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["RPC_PORT"])
    rpc.init_rpc(f"member{rank}", rank=rank, world_size=workers + 1,
                 rpc_backend_options=rpc.TensorPipeRpcBackendOptions(num_worker_threads=max(8, 2 * workers), rpc_timeout=120))


def rpc_server(workers):
    end_with_parent()
    torch.set_num_threads(1)
    join(workers, workers)
    get_server()
    rpc.shutdown()


def through_rpc(rank, workers, ps, seconds):
    join(rank, workers)
    server = rpc.remote(f"member{workers}", get_server)
    sparse = DistributedOptimizer(torch.optim.SparseAdam, server.rpc_sync(timeout=120).parameters(True), lr=RATE)
    dense = DistributedOptimizer(torch.optim.Adam, server.rpc_sync(timeout=120).parameters(False), lr=RATE)

    def step(batch):
        with dist_autograd.context() as context:
            score = server.rpc_sync(timeout=120).forward(batch[0], batch[1])
            try:
                dist_autograd.backward(context, [nn.functional.binary_cross_entropy_with_logits(score, batch[2])])
            except RuntimeError as error:
                if "modified by an inplace operation" not in str(error):
                    raise
                return False
            sparse.step(context)
            dense.step(context)
        return True
    result = measured(rank, data(rank), step, seconds, [server.rpc_sync(timeout=120).pid()])
    rpc.shutdown()
    return result


def through_pslite(rank, workers, ps, seconds):
    pslite.set_role("worker", workers)
    step, end = pslite.begin(rank, lambda rows: dlrm.DLRM(rows, DIM))
    batches = data(rank)
    following = next(batches)

    def one(_):
        nonlocal following
        present, following = following, next(batches)
        step(present, following, loss_of)
    result = measured(rank, itertools.repeat(None), one, seconds, [int(pid) for pid in ps.split(",")])
    end()
    return result


def pslite_server(role, workers):
    end_with_parent()
    pslite.set_role(role, workers)
    pslite.library().pslite_serve(RATE)


SIDES = {"star": star, "local": local, "rpc": through_rpc, "pslite": through_pslite}


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def work(side, rank, workers, ps, seconds, answers):
    end_with_parent()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    try:
        answers.put(SIDES[side](rank, workers, ps, seconds))
    except BaseException:
        answers.put(f"worker {rank}: {traceback.format_exc()}")
        raise


def main():
    side, ps, workers, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: [process.terminate() for process in processes])
        processes = []

        def start(*call):
            processes.append(context.Process(target=call[0], args=call[1:]))
            processes[-1].start()
            return processes[-1].pid
        if side == "pslite":
            start(pslite_server, "scheduler", workers)
            ps = str(start(pslite_server, "server", workers))
        for rank in range(workers):
            start(work, side, rank, workers, ps, seconds, answers)
        if side == "rpc":
            start(rpc_server, workers)
        results = []
        for _ in range(workers):
            results.append(answers.get(timeout=300 + 10 * seconds))
            if isinstance(results[-1], str):
                sys.exit(results[-1])
        for process in processes:
            process.join(60)
    done, lost, _, own, servers = (sum(column) for column in zip(*results))
    print(json.dumps({"rate": sum(result[0] / result[2] for result in results), "lost": lost / max(1, done + lost),
                      "cpu_ms": 1000 * (own + servers) / max(1, done), "server_ms": 1000 * servers / max(1, done)}))


if __name__ == "__main__":
    main()
