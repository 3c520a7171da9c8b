# SPDX-License-Identifier: BSD-3-Clause
"""The base of the cells of tests/system/pci.test, in the guest: the channel to starpci.py, the worker's network, the node on a
NIC,
and a trial of one NIC by one driver."""
import glob
import json
import os
import re
import threading
import time

import starlib
from starlib import Failure, Net, Server, check, equal, run, run_in, scratch, wait_until
from starwire import Stream, Table, own_keys

__all__ = ["CELLS", "ROW_16K", "Trial", "WorkerNet", "cell", "changed", "channel", "kernel_interface", "refusal"]

WORKER_MAC = "52:54:00:00:00:01"
ROW_16K = 4096  # floats


class Channel:
    """The serial port; also what print() writes to."""

    def __init__(self):
        for folder in glob.glob("/sys/class/virtio-ports/*"):
            with open(folder + "/name") as file:
                if file.read().strip() == "star":
                    self.fd = os.open("/dev/" + os.path.basename(folder), os.O_RDWR)
        self.buffer, self.lock = b"", threading.Lock()
        self.lines = {"print": "", "error": ""}

    def send(self, **message):
        data = json.dumps(message).encode() + b"\n"
        with self.lock:
            while data:
                data = data[os.write(self.fd, data):]

    def receive(self):
        while b"\n" not in self.buffer:
            data = os.read(self.fd, 65536)
            if not data:
                time.sleep(0.1)  # nobody is connected
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def stream(self, kind):
        channel = self

        class Stream_:
            def write(self, text):
                *lines, channel.lines[kind] = (channel.lines[kind] + text).split("\n")
                for line in lines:
                    channel.send(**{kind: line})

            def flush(self):
                pass
        return Stream_()


channel = Channel()


class WorkerNet(Net):
    """A test network whose data pair is a wire between two NICs. Its control pair is a veth as ever."""
    tag = 0

    def __init__(self):
        self.name, self.netns, self.appliances = "guest", "star-guest", []
        self.control_host, self.control_namespace, self.control_host6 = "198.18.1.1", "198.18.1.2", "2001:2:0:1::1"
        self.data = [starlib.DataPair(None, "198.18.0.1", "198.18.0.2", "2001:2::1", "2001:2::2")]
        # Not by scripts/testnet, which starts some sixty programs: each takes a second here.
        run("ip", "netns", "add", self.netns)
        run("ip", "-batch", "-", text="link add starc type veth peer name control0 netns star-guest\n"
            "address add 198.18.1.1/24 dev starc\nlink set starc up\nlink set lo up\n")
        run("ip", "-n", self.netns, "-batch", "-", text="address add 198.18.1.2/24 dev control0\n"
            "link set control0 up\nlink set lo up\n")
        nic = wait_until(lambda: next((name for name in os.listdir("/sys/class/net") if self._mac(name) == WORKER_MAC), None))
        run("ip", "link", "set", nic, "netns", self.netns)
        run("ip", "-n", self.netns, "link", "set", nic, "name", "data0", "up")
        self.inside_run("sysctl", "-q", "-w", *(f"net.ipv6.conf.data0.{setting}" for setting in
                                                ("accept_ra=0", "router_solicitations=0", "accept_dad=0")))
        self.addresses("data0")

    @staticmethod
    def _mac(name):
        with open(f"/sys/class/net/{name}/address") as file:
            return file.read().strip()

    def inside_run(self, *words, expect=0):
        return run_in(self, *words, expect=expect)

    def ip(self, *words, expect=0):
        return run("ip", "-n", self.netns, *words, expect=expect)

    def addresses(self, interface):
        pair = self.data[0]
        run("ip", "-n", self.netns, "-batch", "-", text=f"address add {pair.namespace}/24 dev {interface}\n"
            f"address add {pair.namespace6}/64 dev {interface} nodad\n")

    def mtu(self, bytes_):
        self.ip("link", "set", "data0", "mtu", str(bytes_))

    def ping(self, size=56, six=False, interface=None):
        to = self.data[0].appliance6 if six else self.data[0].appliance
        self.inside_run("busybox", "ping", *(["-6"] if six else []), "-c", "3", "-W", "10", "-s", str(size), to)

    def vlan(self, tag):
        """The worker's addresses are in a VLAN, or not (0)."""
        if tag == self.tag:
            return None
        self.tag = tag
        self.ip("address", "flush", "dev", "data0", "scope", "global")
        self.ip("link", "del", "tagged", expect=None)
        if not tag:
            return self.addresses("data0")
        self.ip("link", "add", "link", "data0", "name", "tagged", "type", "vlan", "id", str(tag))
        self.ip("link", "set", "tagged", "up")
        return self.addresses("tagged")

    def neighbour(self):
        """The MAC address that the worker sends to for the appliance's."""
        shown = self.ip("neigh", "show", self.data[0].appliance).stdout
        found = re.search(r"lladdr (\S+)", shown)
        return found and found[1]


def changed(file, *changes):
    """The text of a file of drivers-config, with (pattern, value) put in."""
    with open(os.path.join("drivers-config", file)) as shipped:
        text = shipped.read()
    for pattern, value in changes:
        text, count = re.subn(pattern, value, text)
        check(count, f"drivers-config/{file} has no {pattern}")
    return text


class Node(Server):
    """A node from a file of drivers-config, changed as somebody would who copies it: addresses, sizes, cores."""

    def __init__(self, net, pci, file, reactors=1, mtu=1500, vlan=0, mbufs=None, polling=False, directory=None, cores=None, env=None):
        pair = net.data[0]
        self.net, self.task, self.env, self.arguments = net, 0, env, ()
        folder = os.path.join(scratch(), f"node-{time.monotonic_ns()}")
        os.makedirs(folder)
        self.control, self.data_host, self.data_port = f"{net.control_host}:3333", pair.appliance, 5555
        self.socket, self.file = os.path.join(folder, "control.sock"), os.path.join(folder, "starserver.conf")
        text = changed(
            file,
            (r'pci = "[^"]*"', f'pci = "{pci}"'),
            (r'198\.18\.1\.1:3333', self.control),
            (r'198\.18\.0\.1:5555', f"{pair.appliance}:5555"),
            (r'\n\t\taddress = "[^"]*"', f'\n\t\taddress = [ "{pair.appliance}/24", "{pair.appliance6}/64" ]'),
            (r'mtu = \d+', f"mtu = {mtu}"),
            (r'parameter_mib = \d+', "parameter_mib = 64"),
            (r'mbufs = \d+', f"mbufs = {mbufs or 2048 * reactors + 4095}"),
            (r'polling = true', f"polling = {str(polling).lower()}"),
            (r'pin = true', f"pin = {str(bool(cores)).lower()}"),
            (r'# list = \[[^]]*\]', f"list = {cores}" if cores else "#"),
            (r'(# )?number = \d+', f"number = {reactors}"))
        if vlan:
            text = re.sub(r'# vlan = 7', f"vlan = {vlan}", text)
        with open(self.file, "w") as copy:
            copy.write(text + f'\ncontrol = {{ socket = "{self.socket}"; }};\n')
            if directory:
                copy.write(f'checkpoint = {{ directory = "{directory}"; }};\n')
        self.start()

    def start(self, wait=True):
        super().start(False)
        self.wait_ready(120)

    def port(self):
        # With starctl each look would take a second here.
        return starlib.call_locally(self.socket, "ports")[0]


def rows(table, count, start=0):
    return [[float((key * 31 + i) % 97) for i in range(table.dim)] for key in range(start, start + count)]


class Trial:
    """One NIC, bound to one driver, and the node on it. The node is started when a cell wants it, and again when a cell wants
    it otherwise."""

    def __init__(self, net, request):
        self.net, self.nic, self.pci, self.driver = net, request["nic"], request["pci"], request["driver"]
        self.file, self.queues, self.jumbo, self.job_s = request["file"], request["queues"], request["jumbo"], request["job_s"]
        self.node, self.wanted, self.tables = None, None, {}

    def need(self, **wanted):
        if self.node and self.wanted == wanted and self.node.process.running():
            return self.node
        self.stop()
        self.wanted, self.tables = wanted, {}
        if self.kernel_driver() != self.driver:
            run("scripts/bind-nic", "bind", self.pci, self.driver)
        self.net.vlan(wanted.get("vlan", 0))
        self.net.mtu(wanted.get("mtu", 1500))
        self.node = Node(self.net, self.pci, self.file, **wanted)
        return self.node

    def stop(self, timeout_s=60):
        node, self.node = self.node, None
        if node:
            with node:
                equal(node.stop(timeout_s), 0, "exit status")

    def table(self, dim):
        if dim not in self.tables:
            self.tables[dim] = Table(self.node, f"rows{dim}", dim)
        return self.tables[dim]

    def exchange(self, dim, count, reactor=0, times=1, **options):
        """Pushes rows, pulls them, and compares."""
        table = self.table(dim)
        keys = own_keys(self.node.layout(), table, reactor, count)
        gradients = rows(table, count)
        with Stream(self.node, reactor, timeout_s=60, **options) as stream:
            before = stream.pull(table, keys)
            for _ in range(times):
                stream.push(table, keys, gradients)
                after = stream.pull(table, keys)
                for old, new, gradient in zip(before, after, gradients):
                    check(all(map(float.__eq__, new, map(float.__sub__, old, gradient))), f"a row is {new}, not {old} less {gradient}")
                before = after

    def no_loss(self):
        errors = self.node.sums()["errors"]
        equal(errors.get("transmit_dropped", 0), 0, "frames that the port did not take")

    def kernel_driver(self):
        link = f"/sys/bus/pci/devices/{self.pci}/driver"
        return os.path.basename(os.path.realpath(link)) if os.path.exists(link) else None


CELLS = {}


def cell(function):
    CELLS[function.__name__] = function
    return function


def kernel_interface(t):
    found = glob.glob(f"/sys/bus/pci/devices/{t.pci}/net/*") + glob.glob(f"/sys/bus/pci/devices/{t.pci}/virtio*/net/*")
    return os.path.basename(found[0]) if found else None


def refusal(t, **wanted):
    """The message of a node that does not start."""
    try:
        t.need(**wanted)
    except Failure as failure:
        line = next((line for line in str(failure).splitlines() if line.startswith("starserver: ")), str(failure))
        print(f"# {line}")
        return line
    raise Failure(f"the node has started:\n{t.node.text()}")
