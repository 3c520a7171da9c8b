# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of pairs share: two nodes that are one PS task, and clusters of them."""
import tempfile
import threading
import time

from starconfig import merge
from starlib import *
from starpush import *

SMALL = {"memory": {"mbufs": 4095, "parameter_mib": 64}}
CONTROL_PORT, PAIR_PORT = 3333, 3433
LEASE_MS = 1000 * SLOW
SYNC, RETAINED = {"durability": "sync"}, {"durability": "retained"}


def begin(net, number, own, reactors, changes, config, **options):
    """A node with that control address, not waited for; config goes over changes."""
    node = Server(net, number, len(net.data), reactors=reactors, config=merge(changes, config or {}), wait=False, **options)
    node.control = own
    return node


def are_paired(primary, standby):
    """That node serves, and the other one has all."""
    try:
        states = [node.call("status")["pair"] for node in (primary, standby)]
    except (OSError, RpcError):  # one of them begins again
        return False
    return [(state["role"], state["state"]) for state in states] == [("primary", "paired"), ("standby", "paired")]


def promote_apart(node):
    """starctl promote, not waited for: it may never be done. Its outcome comes into the list."""
    outcome = []

    def ask():
        try:
            outcome.append(node.starctl("promote", timeout_s=100))
        except Failure as failure:
            outcome.append(failure)
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    return outcome


def role_of(node):
    """And its state; None: it cannot be asked just now."""
    pair = (node.status_or_none() or {}).get("pair")
    return pair and (pair["role"], pair["state"])


def why_of(node):
    return (node.status_or_none() or {}).get("pair", {}).get("why", "")


def problems(node):
    return "; ".join(node.starctl("health", expect=None)["problems"])


def start_with(node, **changes):
    """Starts it once more, with another configuration."""
    node.config = merge(node.config, changes)
    with open(node.file, "w") as file:
        file.write(libconfig(node.config))
    node.start()


def wait_for_standby(*nodes):
    wait_until(lambda: all(node.call("status")["pair"]["lag_bytes"] == 0 for node in nodes), 20, "the standby")
    time.sleep(0.05)


class Pair:
    """Two nodes, each on a data pair of its own. The first begins as the primary. config may be a function of the node's number, env is one."""

    def __init__(self, net, reactors=(1, 1), config=None, wait=True, env=None, **standby):
        self.net, self.nodes, self.folders = net, [], []
        for i in range(2):
            folder = tempfile.mkdtemp(dir=scratch())
            self.folders.append(folder)
            own = f"{net.control_host}:{CONTROL_PORT + i}"
            data = f"{net.data[i].appliance}:5555"
            changes = {**SMALL, "node": {"job_name": "ps", "task_index": 0}, "cluster": {"ps": [own]},
                       "endpoint_map": [{"control": own, "data": data}],
                       "standby": {"peer": f"{net.control_host}:{PAIR_PORT + 1 - i}",
                                   "listen": f"{net.control_host}:{PAIR_PORT + i}", "directory": folder,
                                   "first": "standby" if i else "primary", "lease_ms": LEASE_MS, **standby}}
            self.nodes.append(begin(net, i, own, reactors[i], changes, config(i) if callable(config) else config, env=env and env(i)))
        self.ps = ",".join(node.control for node in self.nodes)
        for node in self.nodes:
            node.wait_ready()
        if wait:
            self.paired()

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        for node in self.nodes:
            node.__exit__(*failure)

    def pair(self, i):
        return self.nodes[i].call("status")["pair"]

    def paired(self, primary=0):
        wait_until(lambda: are_paired(self.nodes[primary], self.nodes[1 - primary]), 60, what="a pair")

    def caught_up(self):
        wait_for_standby(*self.nodes)

    def promote(self, i):
        return self.nodes[i].starctl("promote", timeout_s=60)


class Pairs:
    """A cluster of PS tasks, each of them two nodes: .nodes[task][0] begins as its primary. alone: tasks of one node. etcd: its address.
    config may be a function of the task and the node's number there, env is one; .checkpoints is the folder of all."""

    def __init__(self, net, tasks=2, reactors=1, alone=(), config=None, wait=True, etcd=None, env=None, checkpoints=None, **standby):
        self.net, self.nodes, self.folders = net, [], []
        directory = self.checkpoints = checkpoints or tempfile.mkdtemp(dir=scratch())
        controls = [[f"{net.control_host}:{CONTROL_PORT + 2 * task + i}" for i in range(1 if task in alone else 2)] for task in range(tasks)]
        for task in range(tasks):
            self.nodes.append([])
            self.folders.append([])
            for i, own in enumerate(controls[task]):
                number, folder = 2 * task + i, tempfile.mkdtemp(dir=scratch())
                changes = {**SMALL, "node": {"job_name": "ps", "task_index": task}, "cluster": {"ps": ["|".join(each) for each in controls]},
                           "checkpoint": {"directory": directory},
                           "endpoint_map": [{"control": control, "data": f"{net.data[2 * at + j].appliance}:5555"}
                                            for at, each in enumerate(controls) for j, control in enumerate(each)]}
                if len(controls[task]) > 1:
                    changes["standby"] = {"peer": f"{net.control_host}:{PAIR_PORT + 2 * task + 1 - i}",
                                          "listen": f"{net.control_host}:{PAIR_PORT + number}", "directory": folder,
                                          "address": "second" if i else "first", "first": "standby" if i else "primary",
                                          "lease_ms": LEASE_MS, **({"etcd": [etcd], "etcd_key": f"/starserver/pairs/{task}"} if etcd else {}), **standby}
                self.nodes[task].append(begin(net, number, own, reactors, changes, config(task, i) if callable(config) else config,
                                              env=env and env(task, i)))
                self.folders[task].append(folder)
        self.ps = ",".join("|".join(each) for each in controls)
        for node in self.all():
            node.wait_ready()
        if wait:
            for task in range(tasks):
                self.paired(task)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        for node in reversed(self.all()):
            node.__exit__(*failure)

    def all(self):
        return [node for task in self.nodes for node in task]

    def pair(self, task, i):
        return self.nodes[task][i].call("status")["pair"]

    def paired(self, task, primary=0):
        """Waits until that node serves, and the other one has all; and until workers are told so."""
        if len(self.nodes[task]) == 1:
            return
        first, second = self.nodes[task][primary], self.nodes[task][1 - primary]

        def told():
            try:
                return first.call("layout")["nodes"][task].get("standby", {}).get("control") == second.control
            except (OSError, RpcError):  # it begins again, or there is no layout
                return False
        wait_until(lambda: are_paired(first, second) and told(), 60, what=f"a pair of task {task}")

    def layout(self, timeout_s=60):
        """As reported by the nodes that can be asked."""
        def laid_out():
            for node in self.all():
                try:
                    return node.call("layout")
                except (OSError, RpcError):
                    pass
            return None
        return wait_until(laid_out, timeout_s, "a layout")

    def incarnations(self):
        return [node["incarnation"] for node in self.layout()["nodes"]]

    def caught_up(self, task):
        wait_for_standby(*self.nodes[task])

    def promote(self, task, i):
        return self.nodes[task][i].starctl("promote", timeout_s=60)
