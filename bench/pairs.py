# SPDX-License-Identifier: BSD-3-Clause
"""Nodes on loopback, alone or as the two of a pair, for the benches of standbys."""
import contextlib
import pathlib
import subprocess
import time

import harness

SERVER = harness.BUILD / "app/starserver/starserver"
START_S, SPAN = 30, 10
MEMORY = "memory = { mbufs = 4095; parameter_mib = 512; };"


class Node:
    """One of a pair, or alone; network: its lines of the configuration, and where its data address is."""

    def __init__(self, folder, port, network, peer=None, first="primary", durability="async"):
        self.address, self.folder = f"127.0.0.1:{port}", pathlib.Path(folder)
        self.folder.mkdir()
        standby = ""
        if peer:
            standby = (f'standby = {{ listen = "127.0.0.1:{port + 2}"; peer = "127.0.0.1:{peer + 2}"; directory = "{self.folder}"; '
                       f'first = "{first}"; durability = "{durability}"; }};')
        lines, data = network
        config = self.folder / "node.conf"
        config.write_text(f'node = {{ job_name = "ps"; task_index = 0; }}; {lines}\ncluster = {{ ps = ["{self.address}"]; }}; {MEMORY}\n'
                          f'endpoint_map = ({{ control = "{self.address}"; data = "{data}"; }});\n'
                          f'control = {{ socket = "{self.folder}/sock"; }};\n{standby}\n')
        self.log = open(self.folder / "log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", str(SERVER), "-c", str(config)], stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)

    def wait(self, ready):
        until = time.monotonic() + START_S
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError, harness.Failure):
                if ready(harness.call(self.address, "status")):
                    return
            time.sleep(0.1)
        raise harness.Failure(f"the node does not start: {self.said()}")

    def said(self):
        """The end of its log."""
        return (self.folder / "log").read_text(encoding="utf-8")[-800:]

    def cpu_ns(self):
        """Of all of its threads (Documentation/scheduler/sched-stats.rst: the first number)."""
        return sum(int(stat.read_text(encoding="ascii").split()[0]) for stat in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat"))

    def end(self):
        """One that does not end when it is told to is killed, so that the others are ended, too."""
        self.process.terminate()
        try:
            self.process.wait(START_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            print(f"the node at {self.address} did not end within {START_S} s, and was killed")
        self.log.close()


def kernel(port):
    return 'network = { stack = "kernel"; }; cores = { number = 1; };', f"127.0.0.1:{port + 1}"


class Cluster:
    """A node, and its standby where it has one, which may be anywhere; gone when its `with` ends."""

    def __init__(self, folder, name, port, network=None):
        self.nodes = []
        peer = None if name == "none" else port + SPAN
        try:
            self.primary = Node(folder / name, port, network or kernel(port), peer, durability=name)
            self.nodes.append(self.primary)
            if peer:
                self.nodes.append(Node(folder / f"{name}-standby", peer, kernel(peer), port, "standby", name))
            self.primary.wait(lambda status: not peer or status["pair"]["state"] == "paired")
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            if node.process.poll() is None:
                node.end()


def is_whole(node, role):
    """Whether it has that role, in a pair whose standby has all."""
    try:
        pair = harness.call(node.address, "status")["pair"]
    except (OSError, harness.Failure):  # it begins again
        return False
    return (pair["role"], pair["state"]) == (role, "paired")
