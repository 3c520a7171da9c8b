# SPDX-License-Identifier: BSD-3-Clause
"""Bulk transfers over one connection, as tcp-goodput and tcp-loss measure them: rows from or to an appliance, and the
same bytes from or to a plain epoll program on the kernel's TCP, by the same client (bench/peers/bulk.c)."""
import json
import signal
import time

import harness

DIM = 1024  # of bench/peers/bulk.h
WARM_MIB = 4  # every row once
PAYLOAD_BYTES = 1460  # of a full frame of 1514 bytes, without TCP options
BARE_S = 1.5
# Room for what a fast path has in flight; the defaults are sized for thousands of connections.
CHANGES = "limits = { send_queue_kib = 2048; receive_window_kib = 2048; };"
CHANGED = "limits.send_queue_kib and receive_window_kib 2048"
FIGURES = ("mib_s", "client_cpu_s", "retransmitted")


class Bulk:
    """The client's runs against the servers of a stage."""

    def __init__(self, stage):
        self.stage = stage
        self.tables = {}

    def star(self, polling, device, pair):
        """An appliance with a table whose rows are all there, and all different."""
        server = self.stage.start_star(polling, device, pair, CHANGES)
        with server.awake():
            table = harness.call(server.address, "create", name="bulk", kind="table", dtype="float32", dim=DIM,
                                 initializer="zeros", scale=0, seed=1, optimizer="sgd", rate=1, epsilon=0,
                                 initial_accumulator=0)
            layout = harness.call(server.address, "layout")
        node = layout["nodes"][0]
        self.tables[server] = (f"{node['data_host']}:{node['data_port']}",
                               f"{table['id']},{layout['epoch']},{node['incarnation']}")
        self.transfer(server, "push", WARM_MIB)
        return server

    def transfer(self, server, direction, mib, *options, timeout_s=300):
        """One run; its JSON object."""
        address, star = self.tables.get(server, (server.address, None))
        command = [harness.BUILD / "bench/bulk", direction, "--address", address, "--mib", mib, *options]
        if star:
            command += ["--star", star]
        with server.awake():
            return json.loads(harness.run(*self.stage.inside(*command), timeout=timeout_s))

    def frames_received(self, pair):
        text = harness.run("ip", "-n", self.stage.net["NETNS"], "-j", "-s", "link", "show", "dev", f"data{pair}")
        return json.loads(text)[0]["stats64"]["rx"]["packets"]

    def start_bare(self, device, pair):
        """A program that sends full frames as fast as a driver takes them."""
        net = self.stage.net
        interface, there = net[f"DATA{pair}_INTERFACE"], net[f"DATA{pair}_NAMESPACE"]
        text = harness.run("ip", "-n", net["NETNS"], "-j", "link", "show", "dev", f"data{pair}")
        command = [harness.BUILD / "bench/bare-send", device, interface, json.loads(text)[0]["address"], there,
                   net[f"DATA{pair}_APPLIANCE"], harness.BULK_PORT]
        return self.stage.start("bare" if device == "net_af_packet" else "bare-xdp", "bare", command,
                                f"{there}:{harness.BULK_PORT}", lambda: self.frames_received(pair) > 0)

    @staticmethod
    def frames(count, seconds):
        """A rate of frames, as the payload that this many full segments carry."""
        return {"mib_s": count * PAYLOAD_BYTES / seconds / (1 << 20), "kpps": count / seconds / 1e3, "client_cpu_s": 0,
                "retransmitted": 0}

    def bare(self, server):
        """What of bare-send's frames a kernel UDP socket's reader takes in, on the client's core."""
        host, port = server.address.split(":")
        server.process.send_signal(signal.SIGUSR1)
        with server.awake():
            counted = harness.run(*self.stage.inside(harness.BUILD / "bench/udp-count", host, port, BARE_S))
        read = json.loads(counted)
        return self.frames(read["datagrams"], read["seconds"])

    def dropped(self, server, pair):
        """What bare-send sends to a station that is not there, so that the kernel drops it, counted where it arrives."""
        server.process.send_signal(signal.SIGUSR2)
        with server.awake():
            began, frames = time.monotonic(), self.frames_received(pair)
            time.sleep(BARE_S)
            seconds, frames = time.monotonic() - began, self.frames_received(pair) - frames
        return self.frames(frames, seconds)
