# SPDX-License-Identifier: BSD-3-Clause
"""A memif between an appliance and a worker with DPDK."""
import os

from starlib import libconfig, scratch

__all__ = ["Memif"]


class Memif:
    """
    A memif between an appliance and one worker with DPDK: Server(net, config=memif.config), then memif.worker(server), which
    is what star_open takes. The worker's address is the namespace's, which is not used otherwise.
    """
    numbers = 0

    def __init__(self, net, mbufs=8191):
        Memif.numbers += 1
        self.pair, self.mbufs = net.data[0], mbufs
        self.socket = os.path.join(scratch(), f"memif-{Memif.numbers}.sock")
        self.config = {"ports": [{"device": "net_memif", "options": f"role=server,socket-abstract=no,socket={self.socket}",
                                  "address": self.pair.addresses()}],
                       "memory": {"mbufs": mbufs}}

    def worker(self, server, **changes):
        path = os.path.join(scratch(), f"worker-{Memif.numbers}.conf")
        with open(path, "w") as file:
            file.write(libconfig({
                "cluster": {"ps": server.config["cluster"]["ps"]},
                "ports": [{"device": "net_memif", "options": f"socket={self.socket}",
                           "address": f"{self.pair.namespace}/24"}],
                "memory": {"hugepages": "none", "mbufs": self.mbufs},
            } | changes))
        return "dpdk:" + path
