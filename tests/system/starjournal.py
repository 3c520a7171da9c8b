# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of journals share: tables of every kind of row, and clusters with a journal each."""
import tempfile
import time

from starconfig import merge
from starlib import *
from starpush import *

SMALL = {"memory": {"mbufs": 4095}}
ROWS = 3000


def folder():
    return tempfile.mkdtemp(dir=scratch())


def journalled(checkpoints, journal, **more):
    return {**SMALL, "checkpoint": {"directory": checkpoints}, "journal": {"directory": journal, "segment_mib": 4, **more}}


# Tables of every kind of row: types, slots, counts, versions, what policies keep.
TABLES = [
    {"name": "sgd", "dim": 16, "optimizer": "sgd", "rate": 1},
    {"name": "adagrad", "dim": 5, "dtype": "bfloat16", "optimizer": "adagrad", "initializer": "uniform", "scale": 1, "rate": 0.5},
    {"name": "adam", "dim": 8, "optimizer": "adam", "initializer": "normal", "scale": 1, "options": "versions=1"},
    {"name": "master", "dim": 7, "dtype": "float16", "optimizer": "momentum", "options": "master=1, stochastic=1"},
    {"name": "int8", "dim": 12, "dtype": "scaled_int8", "optimizer": "sgd", "initializer": "uniform", "scale": 1, "rate": 0.1},
    {"name": "double", "dim": 3, "dtype": "float64", "optimizer": "adadelta", "initializer": "uniform", "scale": 1, "rate": 0.5},
    {"name": "ftrl", "dim": 4, "optimizer": "ftrl", "rate": 0.5, "options": "steps_to_live=1000"},
    {"name": "lfu", "dim": 4, "optimizer": "rmsprop", "rate": 0.1, "options": "full=evict_lfu, rows_max=1000000"},
    {"name": "counter", "dim": 2, "optimizer": "adagrad", "rate": 0.5, "options": "filter=counter, filter_frequency=3"},
    {"name": "bloom", "dim": 2, "optimizer": "sgd", "rate": 0.5, "options": "filter=bloom, filter_frequency=3, filter_keys=20000"},
    {"name": "dense", "shape": [40, 300], "optimizer": "adam", "initializer": "uniform", "scale": 1, "rate": 0.1},
    {"name": "whole", "shape": [30, 50], "optimizer": "lamb", "initializer": "uniform", "scale": 1, "rate": 0.1,
     "options": "whole=1"},
]
CREATE = [{"do": "create", **table} for table in TABLES]


def pushes(step, count=ROWS):
    """One push to each table; another for each step."""
    keys = {"from": step * 100, "count": count}
    return [op("push", table["name"], values=0.25 + 0.125 * (step % 7), step=step,
               **({} if "shape" in table else {"keys": keys})) for table in TABLES]


def pulls():
    keys = {"from": 0, "count": ROWS + 1000}
    return [op("pull", table["name"], read_only=True, bits=True, **({} if "shape" in table else {"keys": keys}))
            for table in TABLES]


def everything(net, ps):
    """All values that workers see."""
    return [answer["values"] for answer in do(net, ps, *CREATE, *pulls())[len(CREATE):]]


def same(net, ps, expected, what):
    for table, got, wanted in zip(TABLES, everything(net, ps), expected):
        different = [i for i, (a, b) in enumerate(zip(got, wanted)) if a != b]
        check(len(got) == len(wanted) and not different,
              f"{what}: {len(different)} of {len(wanted)} elements of \"{table['name']}\" differ, the first is element "
              f"{different[:1]}")


def rows(server):
    return server.sums()["rows"]


def written(server):
    """Waits until all that was acknowledged is on disk. What the last turn has changed may not be in the ring yet, nor the mark behind it:
    so nothing has come for a moment."""
    def still():
        before = server.call("status")["journal"]
        time.sleep(0.1)
        after = server.call("status")["journal"]
        return after["lag_bytes"] == 0 and after["bytes"] == before["bytes"]

    wait_until(still, 10, what="the journal")


@shared
def straight():
    """What six steps make of the tables if nothing ever ends."""
    with Net() as net, Server(net, reactors=2, config=SMALL) as server:
        do(net, server.control, *CREATE, *(line for step in range(1, 7) for line in pushes(step)))
        return everything(net, server.control)


ONE = {"do": "create", "name": "one", "dim": 4, "optimizer": "sgd", "rate": 1}


def push_one(net, server, gradient):
    do(net, server.control, ONE, op("push", "one", keys=[1, 2, 3], values=-gradient))


def value(net, server):
    return do(net, server.control, ONE, op("pull", "one", keys=[3]))[1]["values"][0]


class Tasks:
    """`nodes` servers with a journal each; .ps is what star-do takes."""

    def __init__(self, net, nodes=3, folders=None, reactors=1, env=lambda journal: None, checkpoint=None, **more):
        self.folders = folders or (folder(), [folder() for _ in range(nodes)])
        self.net = net
        self.servers = [Server(net, task, nodes, wait=False, reactors=reactors, env=env(journal),
                               config=merge(journalled(self.folders[0], journal, **more), {"checkpoint": checkpoint or {}}))
                        for task, journal in enumerate(self.folders[1])]
        for server in self.servers:
            server.wait_ready()
        self.ps = "tcp:" + ",".join(server.control for server in self.servers)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in reversed(self.servers):
            server.__exit__()

    def layout(self, timeout_s=60):
        return self.servers[0].layout(timeout_s)

    def incarnations(self):
        return [node["incarnation"] for node in self.layout()["nodes"]]

    def written(self):
        for server in self.servers:
            written(server)

    def joined(self, task):
        return self.servers[0].text().count(f"PS task {task} has joined")

    def restart(self, *tasks):
        before = {task: self.joined(task) for task in tasks if 0 not in tasks}
        for task in tasks:
            self.servers[task].kill()
        for task in tasks:
            self.servers[task].start(wait=False)
        for task in tasks:
            self.servers[task].wait_ready()
        # until then PS task 0 shows the layout from before, unless it is new itself
        wait_until(lambda: all(self.joined(task) > times for task, times in before.items()), 60, what="who was restarted to join")
        self.layout()

    def rows(self):
        return sum(rows(server) for server in self.servers)

    def starctl(self, *words, **options):
        return self.servers[0].starctl(*words, **options)
