# SPDX-License-Identifier: BSD-3-Clause
"""What the benches of requests over datagrams share: an appliance and a worker at the two ends of a memif, one core each,
and the bare memif that they are measured against."""
import json

import harness

CONTROL_PORT = 3377
MEMIF_PORT = "device = \"net_memif\"; options = \"socket={socket},role={role},socket-abstract=no\"; address = \"{address}/24\"; mtu = {mtu};"
# Frames of a pull of one row of 16 float32, from Ethernet to the last byte, and of its reply: 106 bytes of headers down to
# the packet's, then what star's frames take.
REQUEST_BYTES, REPLY_BYTES = 106 + harness.REQUEST_BYTES, 106 + harness.REPLY_BYTES
WORKER_FIGURES = ("rate", "mib_s", "p50_us", "p99_us", "lost_share")


class Memif:
    def __init__(self, stage):
        self.stage, self.stars = stage, 0

    def star(self, name="star", changes="", mtu=1500, parameter_mib=256, mbufs=16383, worker_memory=""):
        """An appliance that polls, and the file of its worker."""
        work, control = self.stage.work, f"127.0.0.1:{CONTROL_PORT + self.stars}"
        data, worker = (f"198.18.{240 + self.stars}.{host}" for host in (1, 2))
        self.stars += 1
        socket = work / f"{name}.memif"
        config = work / f"{name}.conf"
        core = self.stage.server_core
        port = MEMIF_PORT.format(socket=socket, role="server", address=data, mtu=mtu)
        config.write_text(f"""# made by bench/memif.py
node = {{ job_name = "ps"; task_index = 0; }};
cluster = {{ ps = [ "{control}" ]; }};
endpoint_map = ( {{ control = "{control}"; data = "{data}:{harness.STAR_PORT}"; }} );
ports = ( {{ {port} }} );
cores = {{ number = 1; polling = true; pin = true; list = [ {core} ]; }};
memory = {{ hugepages = "preferred"; parameter_mib = {parameter_mib}; mbufs = {mbufs}; }};
control = {{ socket = "{work}/{name}.sock"; }};
{changes}
""", encoding="utf-8")
        server = self.stage.start(name, "dpdk", [harness.BUILD / "app/starserver/starserver", "-c", config], control)
        port = MEMIF_PORT.format(socket=socket, role="client", address=worker, mtu=mtu)
        server.worker = work / f"{name}.worker"
        server.worker.write_text(f"""# made by bench/memif.py
cluster = {{ ps = [ "{control}" ]; }};
ports = ( {{ {port} }} );
cores = {{ polling = false; pin = false; }};
memory = {{ {worker_memory}mbufs = {mbufs}; }};
""", encoding="utf-8")
        return server

    def work(self, server, seconds, *options, cluster=None, key=None):
        """One run of a worker, on the client's core, as its JSON object; by that key file, where one is named."""
        command = [*(["env", f"STAR_KEY={key}"] if key else []), "taskset", "-c", self.stage.client_core, harness.BUILD / "app/starbench/starbench", "worker", "--cluster",
                   cluster or f"dpdk:{server.worker}", "--seconds", seconds, *options]
        with server.awake():
            return json.loads(harness.run(*command, timeout=seconds + 60))

    def bare(self, mode, arguments, client_mode, *client_arguments):
        """One run of a bare client and its server, as the client's JSON object. Each run has a server of its own: DPDK's memif
        may fall over a client that ends."""
        socket = self.stage.work / f"{mode}.memif"
        socket.unlink(missing_ok=True)
        server = self.stage.start(mode, "memif", [harness.BUILD / "bench/memif-bare", mode, socket, *arguments], "",
                                  ready=socket.exists)
        command = ["taskset", "-c", self.stage.client_core, harness.BUILD / "bench/memif-bare", client_mode, socket,
                   *client_arguments]
        try:
            with server.awake():
                return json.loads(harness.run(*command, timeout=60))
        finally:
            self.stage.end(server)
