# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the Python package share. Run by tests/system/python.test as an ordinary user."""
import contextlib
import os
import signal
import threading
import time
import unittest

import starserver

SLOW = int(os.environ.get("STAR_TEST_SLOW", "1"))
SANITIZED = "san" in os.environ.get("LD_PRELOAD", "")  # which keeps freed memory for a while, and finds leaks by itself


class WithCluster(unittest.TestCase):
    """Two nodes for all cases of a class."""
    nodes = 2

    @classmethod
    def setUpClass(cls):
        cls.local = starserver.LocalCluster(nodes=cls.nodes)
        cls.addClassCleanup(cls.local.stop)
        cls.cluster = cls.local.connect()
        cls.addClassCleanup(cls.cluster.close)

    def table(self, name=None, **options):
        options = {"dim": 4, "optimizer": "sgd", "rate": 1.0, **options}
        return self.cluster.table(name or self.id(), **options)


@contextlib.contextmanager
def ctrl_c_after(seconds):
    """SIGINT to this process, some time from now; yields a list that gets the moment."""
    moments = []

    def send():
        moments.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(seconds, send)
    timer.start()
    try:
        yield moments
    finally:
        timer.join()


def state(path):
    with open(path) as file:
        return file.read().rpartition(")")[2].split()[0]


def stop(processes):
    """Returns when none of their threads runs."""
    for process in processes:
        os.kill(process.pid, signal.SIGSTOP)
    for process in processes:  # each thread stops when it is next run, which takes a while on a loaded machine
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            while state(f"/proc/{process.pid}/task/{thread}/stat") != "T":
                time.sleep(0.005)


@contextlib.contextmanager
def stopped(processes):
    """Nodes that say nothing, and are there."""
    stop(processes)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process.pid, signal.SIGCONT)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run(code, timeout=60):
    """A Python program of its own that has the package; its standard output."""
    import subprocess
    import sys
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout * SLOW)
    if done.returncode:
        raise AssertionError(f"exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
