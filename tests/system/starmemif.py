# SPDX-License-Identifier: BSD-3-Clause
"""Workers with DPDK: their files, the memifs to an appliance, and workers that execute commands."""
import json
import os
import subprocess
import tempfile

from starlib import BUILD, as_child, check, equal, libconfig, scratch

__all__ = ["Memif", "Worker", "worker_file"]

STAR_DO = os.path.join(BUILD, "tests/system/star-do/star-do")


def worker_file(server, port, path=None, **changes):
    """What star_open takes of a worker with that port."""
    path = path or os.path.join(tempfile.mkdtemp(dir=scratch()), "worker.conf")
    with open(path, "w") as file:
        file.write(libconfig({
            "cluster": {"ps": server.config["cluster"]["ps"]},
            "ports": [port],
            "memory": {"hugepages": "none", "mbufs": 8191},
        } | changes))
    return "dpdk:" + path


class Memif:
    """
    Memifs between an appliance and workers with DPDK, one for each: Server(net, config=memif.config), then memif.worker(server),
    which is what star_open takes. The first one's network is that of the data pair, which is not used otherwise.
    """

    def __init__(self, net, mbufs=8191, workers=1, mtu=1500):
        self.pair, self.mbufs, self.mtu, self.workers = net.data[0], mbufs, mtu, workers
        self.folder = tempfile.mkdtemp(dir=scratch())
        self.config = {"ports": [{"device": "net_memif", "options": f"role=server,socket-abstract=no,socket={self.socket(i)}",
                                  "address": self.addresses(i, 1), "mtu": mtu} for i in range(workers)],
                       "memory": {"mbufs": mbufs}}

    def socket(self, number):
        return os.path.join(self.folder, f"memif-{number}.sock")

    def addresses(self, number, host):
        """On that worker's network, of which host 1 is the appliance and host 2 the worker."""
        if number == 0:
            return [address.replace("1/", f"{host}/") for address in self.pair.addresses()]
        v4, v6 = f"198.18.{220 + number}.{host}/24", f"2001:2:0:{220 + number:x}::{host}/64"
        return [v4, v6] if self.pair.appliance6 else [v4]

    def worker(self, server, number=0, port=None, **changes):
        """port, changes: to that port, and to the file."""
        gateways = [address.split("/")[0] for address in self.addresses(number, 1)]
        return worker_file(server, {
            "device": "net_memif", "options": f"socket={self.socket(number)}", "address": self.addresses(number, 2),
            "mtu": self.mtu, **dict(zip(("gateway", "gateway6"), gateways)), **(port or {})
        }, os.path.join(self.folder, f"worker-{number}.conf"), **({"memory": {"hugepages": "none", "mbufs": self.mbufs}} | changes))

    def all_workers(self, server, **changes):
        """The files of all workers as startrain takes them, and as star_open does."""
        files = [self.worker(server, number, **changes) for number in range(self.workers)]
        return os.path.join(self.folder, "worker-%.conf"), files


class Worker:
    """A star-do that keeps running."""

    def __init__(self, net, address, deadline_s=60, key=None):
        self.popen = subprocess.Popen(as_child([STAR_DO, address, str(int(deadline_s * 1e6))], net),
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      env={**os.environ, **({"STAR_KEY": key} if key else {})})

    def say(self, **line):
        self.popen.stdin.write(json.dumps(line) + "\n")
        self.popen.stdin.flush()

    def ask(self, **line):
        self.say(**line)
        answer = self.popen.stdout.readline()
        check(answer, f"the worker ended with status {self.popen.poll()}")
        return json.loads(answer)

    def good(self, **line):
        answer = self.ask(**line)
        check("error" not in answer, answer.get("error"))
        return answer

    def end(self):
        self.popen.stdin.close()
        equal(self.popen.wait(30), 0, "the worker's exit status")

    def kill(self):
        self.popen.kill()
        self.popen.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.popen.poll() is None:
            self.kill()
