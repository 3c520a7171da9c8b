# SPDX-License-Identifier: BSD-3-Clause
"""A pair under etcd, each participant in a network namespace of its own, so that any two of them can be cut off from each other:

    w (workers, and this test)     ----- a (first node) ----- b (second node)
                                   ----- b                        |
                                   ----- e (etcd) -- a, b --------+

Each line is a veth pair of its own, and a /30 of 198.18.0.0/15. Nothing in them has a way out."""
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time

from starconfig import with_little
from starlib import *
import starlib

ETCD = "/usr/bin/etcd"
CONTROL_PORT, DATA_PORT, PAIR_PORT, ETCD_PORT = 3333, 5555, 3433, 2379
LEASE_MS = 500 * SLOW
STAR_DO = os.path.join(BUILD, "tests/system/star-do/star-do")
KEY = "/starserver/test/0"


class Cells:
    """The namespaces. The calling thread, and what it starts, is in that of the workers meanwhile."""
    numbers = 0

    def __init__(self):
        if os.geteuid():
            raise Skip("network namespaces need root")
        Cells.numbers += 1
        self.names = {cell: f"star-p{os.getpid()}-{Cells.numbers}{cell}" for cell in "webab"}
        self.netns = self.names["w"]
        self.remove_orphans()
        self.address = {}
        starlib._owner.callback(self.down)
        for name in self.names.values():
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for i, (one, other) in enumerate(itertools.combinations(sorted(self.names), 2)):
            run("ip", "-n", self.names[one], "link", "add", f"to-{other}", "type", "veth", "peer", "name", f"to-{one}", "netns", self.names[other])
            for at, to, last in ((one, other, 1), (other, one, 2)):
                self.address[at, to] = f"198.19.{i}.{last}"  # of `at`, as `to` sees it
                run("ip", "-n", self.names[at], "addr", "add", f"198.19.{i}.{last}/30", "dev", f"to-{to}")
                run("ip", "-n", self.names[at], "link", "set", f"to-{to}", "up")
        self.here = open("/proc/thread-self/ns/net")
        with open(f"/run/netns/{self.netns}") as there:
            starlib._set_namespace(there)

    @staticmethod
    def remove_orphans():
        for line in run("ip", "netns", "list").stdout.splitlines():
            name = line.split()[0] if line.split() else ""
            owner = name.removeprefix("star-p").split("-")[0]
            if name.startswith("star-p") and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
                run("ip", "netns", "del", name, expect=None)

    def cut(self, one, other, at_ends=None):
        """What one sends to the other is lost from now on, and the other way round; nobody is told. at_ends: the end that hears
        nothing, if it is not both."""
        for at, to in self.ends(one, other, at_ends):
            run("ip", "netns", "exec", self.names[at], "nft", "-f", "-", text=f"""table inet cut-{to} {{
                chain in {{ type filter hook input priority 0; iifname "to-{to}" drop; }}
            }}""")

    @staticmethod
    def ends(one, other, at_ends):
        return [(at, to) for at, to in ((one, other), (other, one)) if at_ends is None or at in at_ends]

    def join(self, one, other, at_ends=None):
        for at, to in self.ends(one, other, at_ends):
            run("ip", "netns", "exec", self.names[at], "nft", "delete", "table", "inet", f"cut-{to}")

    def down(self):
        starlib._set_namespace(self.here)
        self.here.close()
        for name in self.names.values():
            run("ip", "netns", "del", name, expect=None)


class Etcd:
    """One of Debian's etcd-server, of one member, in namespace e."""

    def __init__(self, cells):
        if not os.access(ETCD, os.X_OK):
            raise Skip(f"{ETCD} is missing (scripts/install-packages test)")
        self.cells, self.folder = cells, tempfile.mkdtemp(dir=scratch())
        self.start()

    def start(self):
        peer = "http://127.0.0.1:2380"
        self.process = spawn("ip", "netns", "exec", self.cells.names["e"], ETCD, "--data-dir", self.folder,
                             "--listen-client-urls", f"http://0.0.0.0:{ETCD_PORT}",
                             "--advertise-client-urls", f"http://{self.cells.address['e', 'w']}:{ETCD_PORT}",
                             "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}")
        wait_until(lambda: self.value() is not Etcd, 60, "etcd")

    def kill(self):
        for pid in starlib._descendants(self.process.pid):
            os.kill(pid, 9)
        self.process.kill()

    def wipe(self):
        """All that it knew is gone."""
        self.kill()
        shutil.rmtree(self.folder)
        os.mkdir(self.folder, 0o700)
        self.start()

    def ctl(self, *words, expect=0):
        return run("etcdctl", "--endpoints", f"{self.cells.address['e', 'w']}:{ETCD_PORT}", "--command-timeout=2s", *words, env={"ETCDCTL_API": "3"},
                   expect=expect)

    def value(self):
        """The register; None: it is not there. Etcd: there is no answer."""
        import base64
        import urllib.request
        body = json.dumps({"key": base64.b64encode(KEY.encode()).decode()}).encode()
        try:
            with urllib.request.urlopen(f"http://{self.cells.address['e', 'w']}:{ETCD_PORT}/v3/kv/range", body, timeout=2) as answer:
                found = json.load(answer).get("kvs")
        except OSError:
            return Etcd
        return json.loads(base64.b64decode(found[0]["value"])) if found else None


class Node(Server):
    """One of the two, on the kernel's sockets; killed by its process's own id, however it is wrapped."""

    def __init__(self, cells, cell, other, etcd=True, reactors=1, config=lambda cell: {}, **standby):
        self.net, self.task, self.env, self.arguments, self.cell, self.cells = None, 0, None, (), cell, cells
        folder = tempfile.mkdtemp(dir=scratch())
        host = cells.address[cell, "w"]
        self.control = f"{host}:{CONTROL_PORT}"
        self.socket, self.file = os.path.join(folder, "control.sock"), os.path.join(folder, "starserver.conf")
        listen = {at: f"{cells.address[at, to]}:{PAIR_PORT}" for at, to in (("a", "b"), ("b", "a"))}
        group = {"peer": listen[other], "listen": listen[cell], "directory": folder, "first": "standby" if cell == "b" else "primary",
                 "lease_ms": LEASE_MS, "alone_s": 1, **standby}
        if etcd:  # nobody listens at the first one
            group |= {"etcd": [f"{cells.address['e', cell]}:1", f"{cells.address['e', cell]}:{ETCD_PORT}"], "etcd_key": KEY}
        self.name, self.preloaded = listen[cell], None
        config = {**config(cell), "node": {"job_name": "ps", "task_index": 0}, "cluster": {"ps": [self.control]}, "network": {"stack": "kernel"},
                  "endpoint_map": [{"control": self.control, "data": f"{host}:{DATA_PORT}"}],
                  "cores": {"number": reactors}, "memory": {"hugepages": "none", "mbufs": 4095, "parameter_mib": 64},
                  "control": {"socket": self.socket}, "standby": group}
        config = secure_config(with_little(config), self.control)
        with open(self.file, "w") as file:
            file.write(libconfig(config))
        self.start(wait=False)

    def start(self, wait=True):
        # No `ip netns exec`: it is to be the process that is killed and stopped.
        with open(f"/run/netns/{self.cells.names[self.cell]}") as there, open(f"/run/netns/{self.cells.netns}") as back:
            starlib._set_namespace(there)
            try:
                self.process = spawn(program("starserver"), "-c", self.file, cwd=os.path.dirname(self.file), env=self.preloaded)
            finally:
                starlib._set_namespace(back)
        if wait:
            self.wait_ready()

    def pair(self):
        """Its status; {}: it begins again just now."""
        return (self.status_or_none() or {}).get("pair", {})

    def told(self, *words, expect=1):
        """All that starctl says, where it fails."""
        done = run(program("starctl"), "--socket", self.socket, *words, expect=expect)
        return done.stdout + done.stderr

    def is_(self, role, state=None):
        pair = self.pair()
        return pair.get("role") == role and state in (None, pair.get("state"))


class Pair:
    """Both, and etcd: a is the primary."""

    def __init__(self, cells, **standby):
        self.cells, self.etcd = cells, Etcd(cells)
        self.a, self.b = Node(cells, "a", "b", **standby), Node(cells, "b", "a", **standby)
        self.ps = f"{self.a.control},{self.b.control}"
        self.served, self.watching = [], True
        for node in (self.a, self.b):
            node.wait_ready()
        self.paired(self.a, self.b)

    def paired(self, primary, standby):
        wait_until(lambda: primary.is_("primary", "paired") and standby.is_("standby", "paired"), 60, "a pair")

    def register(self):
        value = self.etcd.value()
        check(isinstance(value, dict), f"the register is {value}")
        return "a" if value["primary"] == self.a.name else "b" if value["primary"] == self.b.name else value["primary"], value["mode"], value["generation"]
