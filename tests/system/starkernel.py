# SPDX-License-Identifier: BSD-3-Clause
"""Nodes on the kernel's sockets (network.stack = "kernel"), as an ordinary user, on this machine's own addresses and free ports."""
import contextlib
import functools
import os
import pwd
import random
import socket
import sys
import tempfile

from starconfig import merge, with_little
from starlib import *

__all__ = ["Here", "user", "folder", "free_ports", "Node", "cluster", "as_user", "case_of_both", "WITHOUT_IO_URING"]

# Runs what follows where the kernel refuses io_uring_setup (system call 425) with EPERM, as container engines have it: a seccomp filter.
WITHOUT_IO_URING = (sys.executable, "-c", """
import ctypes, os, struct, sys
filter = b"".join(struct.pack("HBBI", *i) for i in ((0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)))
code = ctypes.create_string_buffer(filter)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(code)))
prctl = ctypes.CDLL(None, use_errno=True).prctl
if os.geteuid():
    prctl(38, 1, 0, 0, 0)
if prctl(22, 2, program) != 0:
    sys.exit("no seccomp filter: " + os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[1], sys.argv[1:])
""")

class Here:
    """This machine's own network, where starlib wants a test network."""
    netns = None

    def __init__(self):
        self.appliances = []

    @staticmethod
    def inside():
        return contextlib.nullcontext()


@shared
def user():
    """The user nobody, if root runs this test; the command line prefix that makes a program run as that user."""
    if os.geteuid():
        return []
    words = ["setpriv", "--reuid", "nobody", "--regid", str(pwd.getpwnam("nobody").pw_gid), "--clear-groups",
             "--inh-caps=-all", "--bounding-set=-all"]
    if run(*words, "test", "-x", program("starserver"), expect=None).returncode:
        raise Skip(f"the user nobody may not run {program('starserver')}: build in a directory that all can read")
    return words


def folder():
    """A new folder that belongs to the user."""
    os.chmod(scratch(), 0o755)
    made = tempfile.mkdtemp(dir=scratch())
    if not os.geteuid():
        os.chown(made, pwd.getpwnam("nobody").pw_uid, -1)
    return made


def free_ports(count, host="127.0.0.1"):
    """The first of this many ports in a row, below those that the kernel assigns by itself."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for _ in range(1000):
        first = random.randrange(12000, 32000 - count)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket(family)).bind((host, port))
            return first
    raise Failure(f"no {count} ports in a row are free")


class Node(Server):
    """A node of a cluster on `host`. control, data: the ports of task 0. changes: of the configuration."""
    sockets = "auto"  # network.sockets

    def __init__(self, task=0, nodes=1, reactors=1, host="127.0.0.1", control=None, data=None, data_host=None, wait=True,
                 changes=None, mapped=True, wrap=()):
        self.net, self.task, self.env, self.wrap = Here(), task, {"XDG_RUNTIME_DIR": None}, wrap
        control = control or free_ports(nodes * (1 + reactors), host)
        data = data or control + nodes
        shown = f"[{host}]" if ":" in host else host
        controls = [f"{shown}:{control + i}" for i in range(nodes)]
        self.folder = folder()
        self.control, self.data_port = controls[task], data + task * reactors
        self.socket, self.file = os.path.join(self.folder, "control.sock"), os.path.join(self.folder, "starserver.conf")
        self.map = [(controls[i], f"{data_host or shown}:{data + i * reactors}") for i in range(nodes)]
        config = {"node": {"job_name": "ps", "task_index": task}, "cluster": {"ps": controls},
                  "network": {"stack": "kernel", "sockets": self.sockets}, "cores": {"number": reactors},
                  "memory": {"hugepages": "none", "parameter_mib": 64, "mbufs": 4095}, "control": {"socket": self.socket}}
        if mapped:
            config["endpoint_map"] = [{"control": a, "data": b} for a, b in self.map]
        self.config = secure_config(with_little(merge(config, changes or {})), self.control, by_nobody=not os.geteuid())
        with open(self.file, "w") as file:
            file.write(libconfig(self.config))
        os.chmod(self.file, 0o644)
        self.start(wait)

    def start(self, wait=True):
        self.process = spawn(*self.wrap, *user(), program("starserver"), "-c", self.file, env=self.env, cwd=self.folder)
        if wait:
            self.wait_ready()

    def refused(self, *parts):
        """It does not start, and says what is wrong and what to do."""
        check(self.process.wait(30) != 0, "the exit status is 0")
        for part in parts:
            has(self.text(), part)


@contextlib.contextmanager
def cluster(nodes, **options):
    control = free_ports(nodes * (1 + options.get("reactors", 1)), options.get("host", "127.0.0.1"))
    started = [Node(task, nodes, control=control, wait=False, **options) for task in range(nodes)]
    for node in started:
        node.wait_ready()
    yield started
    for node in started:
        node.process.end()


def as_user(*words, env=None, **options):
    return run(*user(), *words, env={"XDG_RUNTIME_DIR": None} | (env or {}), **options)


def case_of_both(function=None, *, timeout_s=120):
    """Registers a case twice: with nodes as they are by default, which is io_uring where the kernel allows it, and by epoll."""
    if function is None:
        return functools.partial(case_of_both, timeout_s=timeout_s)

    @functools.wraps(function)
    def by_epoll():
        Node.sockets = "epoll"
        try:
            function()
        finally:
            Node.sockets = "auto"

    by_epoll.__name__ += "_by_epoll"
    case(function, timeout_s=timeout_s)
    case(by_epoll, timeout_s=timeout_s)
    return function
