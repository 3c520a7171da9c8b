# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of pairs share: two nodes that are one PS task, and star-do, which asks them what a worker asks."""
import json
import os
import tempfile
import time

from starlib import *

SMALL = {"memory": {"mbufs": 4095, "parameter_mib": 64}}
STAR_DO = os.path.join(BUILD, "tests/system/star-do/star-do")
CONTROL_PORT, PAIR_PORT = 3333, 3433
LEASE_MS = 1000 * SLOW
SYNC, RETAINED = {"durability": "sync"}, {"durability": "retained"}


def op(kind, table, **fields):
    return {"do": kind, "table": table, **fields}


def do(net, ps, *lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    answers = [json.loads(line) for line in run_in(net, STAR_DO, ps, text=text).stdout.splitlines()]
    equal(len(answers), len(lines), "the answers")
    for line, answer in zip(lines, answers):
        check("error" not in answer, f"{line}: {answer}")
    return answers


class Pair:
    """Two nodes, each on a data pair of its own. The first begins as the primary."""

    def __init__(self, net, reactors=(1, 1), config=None, wait=True, **standby):
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
            for group, members in (config or {}).items():
                changes[group] = {**changes.get(group, {}), **members}
            node = Server(net, i, 2, reactors=reactors[i], config=changes, wait=False)
            node.control, node.number = own, i
            self.nodes.append(node)
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
        """Waits until that node serves, and the other one has all."""
        def both():
            try:
                states = [self.pair(i) for i in (primary, 1 - primary)]
            except OSError:  # one of them begins again
                return False
            return [(state["role"], state["state"]) for state in states] == [("primary", "paired"), ("standby", "paired")]
        wait_until(both, 60, what="a pair")

    def caught_up(self, primary=0):
        wait_until(lambda: self.pair(primary)["lag_bytes"] == 0 and self.pair(1 - primary)["lag_bytes"] == 0, 20, "the standby")
        time.sleep(0.05)

    def promote(self, i):
        return self.nodes[i].starctl("promote", timeout_s=60)
