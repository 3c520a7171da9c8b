# SPDX-License-Identifier: BSD-3-Clause
"""Cells of tests/system/pci.test that need a guest of their own: NUMA nodes, pages of 1 GiB, and the commands of
docs/bare-metal.rst."""
import glob
import os
import re
import shlex

import starlib
from starlib import check, equal, has, run, run_in, wait_until
from starpci_rig import *


def pages(pid):
    """The huge pages that a process has, as {(NUMA node, KiB of a page): number}."""
    found = {}
    with open(f"/proc/{pid}/numa_maps") as file:
        for line in file:
            if " huge " in line:
                kib = int(re.search(r"kernelpagesize_kB=(\d+)", line)[1])
                for node, number in re.findall(r" N(\d+)=(\d+)", line):
                    found[(int(node), kib)] = found.get((int(node), kib), 0) + int(number)
    return found


def numa_of(path):
    """Of a device or a processor."""
    if os.path.exists(path + "/numa_node"):
        with open(path + "/numa_node") as file:
            return int(file.read())
    return int(os.path.basename(glob.glob(path + "/node*")[0]).removeprefix("node"))


def set_pages(kib, number, numa=None):
    """All of the machine, or of one NUMA node."""
    folder = "/sys/kernel/mm" if numa is None else f"/sys/devices/system/node/node{numa}"
    path = f"{folder}/hugepages/hugepages-{kib}kB/nr_hugepages"
    with open(path, "w") as file:
        file.write(str(number))
    with open(path) as file:
        equal(int(file.read()), number, path)


def all_on(t, numa):
    """Packet buffers, descriptors and parameters are on this node, and the appliance says so."""
    t.exchange(16, 100)
    t.exchange(ROW_16K, 10)
    found = pages(t.node.pid)
    print(f"# pages by (NUMA node, KiB): {found}")
    check(found and {node for node, _ in found} == {numa}, f"pages by node and size: {found}, not all on node {numa}")
    equal(t.node.call("status")["reactors"][0]["numa_node"], numa, "the reactor's node")
    equal(t.node.port()["numa_node"], numa, "the NIC's node")
    check("NUMA" not in t.node.text(), t.node.text())


def nic_is_far(t):
    """The node of the NIC, the other one, and a processor of the first."""
    numa = numa_of(f"/sys/bus/pci/devices/{t.pci}")
    check(numa == 1, f"the NIC is on NUMA node {numa}")
    return numa, 0, next(core for core in range(2) if numa_of(f"/sys/devices/system/cpu/cpu{core}") == numa)


@cell
def cores_of_the_list(t):
    """The reactor is pinned to a core of the NIC's NUMA node: so is its memory."""
    numa, _, core = nic_is_far(t)
    node = t.need(cores=[core])
    allowed = set()
    for task in os.listdir(f"/proc/{node.pid}/task"):
        with open(f"/proc/{node.pid}/task/{task}/status") as file:
            text = file.read()
        if "reactor-0" in text.splitlines()[0]:
            allowed.add(re.search(r"Cpus_allowed_list:\s+(\S+)", text)[1])
    equal(allowed, {str(core)}, "where the reactor runs")
    all_on(t, numa)


@cell
def any_core(t):
    """No core is named: memory follows the NIC."""
    numa, *_ = nic_is_far(t)
    t.need()
    all_on(t, numa)


@cell
def pages_on_the_nics_node_alone(t):
    """DPDK wants pages on the node of the core that it starts on."""
    t.stop()
    numa, other, _ = nic_is_far(t)
    set_pages(2048, 0, other)
    t.need(mbufs=6200)
    all_on(t, numa)


@cell
def pages_on_the_other_node_alone(t):
    """The driver's memory has to be near: what is missing, and where, is said."""
    t.stop()
    numa, other, _ = nic_is_far(t)
    set_pages(2048, 220, other)
    set_pages(2048, 0, numa)
    line = refusal(t)
    has(line, f"NUMA node {numa}, where it is, has no free hugepages: reserve some there")
    set_pages(2048, 220, numa)
    set_pages(2048, 0, other)
    t.need()
    all_on(t, numa)


@cell
def pages_of_1_gib(t):
    """One for packet buffers and one for parameters, of all reactors together."""
    t.stop()
    set_pages(2048, 0)
    t.need(reactors=2)
    for reactor in range(2):
        t.exchange(16, 10, reactor)
        t.exchange(ROW_16K, 10, reactor)
    equal(pages(t.node.pid), {(0, 1 << 20): 2}, "pages by node and size")
    t.no_loss()


@cell
def one_page_of_1_gib(t):
    """Refused before anything is started, though there are bytes enough."""
    t.stop()
    set_pages(1 << 20, 1)
    line = refusal(t, reactors=2)
    has(line, "in whole pages (of 1 GiB at least one for packet buffers and one for parameters)")
    has(line, "1024 MiB are free (0 of 0 pages of 2 MiB, 1 of 1 of 1 GiB)")


PAGE, PAGE_ENDS = "docs/bare-metal.rst", "What was tested where"
PAGES_PCI, PAGES_PAGES = "0000:03:00.0", "3G"


def commands_of_the_page():
    """The lines of its literal blocks, in their order."""
    with open(PAGE) as file:
        lines = file.read().partition(PAGE_ENDS)[0].splitlines()
    found, inside = [], False
    for line in lines:
        if line.startswith(7 * " ") and inside:
            found.append(line.strip())
        elif line:
            inside = line.endswith("::")
    return found


class Page:
    """Follows the page, with this guest's NIC and sizes."""

    def __init__(self, t):
        self.t, self.node = t, None

    def words_of_the_kernel(self, line):
        with open("/proc/cmdline") as file:
            have = {word.partition("=")[0] for word in file.read().split()}
        for word in line.split('"')[1].split():
            check(word.partition("=")[0] in have, f"the guest's kernel was not given {word}")

    def packages(self, line):
        """There is no network to install them from; but there are such packages."""
        with open(PAGE) as file:
            drivers = set(re.findall(r"librte-net-\w+(?:-\d+)?", file.read()))
        check(len(drivers) >= 6, f"the page names hardly any driver: {drivers}")
        for name in {*shlex.split(line)[2:], *drivers}:
            run("sh", "-c", f"dpkg-query -W {name} || apt-cache show {name}")

    def configure(self, line):
        equal(shlex.split(line)[::2], ["cp", "node.conf"], line)
        with open("node.conf", "w") as file:
            file.write(changed(self.t.file, (re.escape(PAGES_PCI), self.t.pci), (r'parameter_mib = \d+', "parameter_mib = 64"),
                               (r'mbufs = \d+', "mbufs = 6143"), (r'number = \d+', "number = 1"), (r'# list = \[[^]]*\]', "list = [ 1 ]")))

    def start(self, line):
        self.node = starlib.spawn(starlib.program("starserver"), *shlex.split(line)[1:])
        wait_until(lambda: not self.node.running() or run(starlib.program("starctl"), "status", expect=None).returncode == 0, 60,
                   "an answer of starctl status")
        check(self.node.running(), self.node.text())

    def shut_down(self, line):
        self.run(line)
        equal(self.node.wait(60), 0, "exit status")

    def run(self, line):
        shown = run("sh", "-c", line, timeout_s=120).stdout
        check(not line.startswith(("ls ", "cat ")) or shown.strip() not in ("", "0"), f"{line}: {shown!r}")
        return shown

    def from_a_worker(self, line):
        print("# " + run_in(self.t.net, "sh", "-c", line, timeout_s=120).stdout.strip().replace("\n", "\n# "))

    def no_network(self, line):
        print("#   (not in a guest)")

    WAYS = (("GRUB_CMDLINE_LINUX=", words_of_the_kernel), ("apt install ", packages), ("scripts/install-packages ", no_network),
            ("make ", no_network), ("cp ", configure), ("starserver -c ", start), ("starctl shutdown", shut_down),
            ("startrain ", from_a_worker), ("", run))

    def do(self, line):
        line = line.replace(PAGES_PCI, self.t.pci).replace(PAGES_PAGES, "448M")
        print(f"# $ {line}")
        next(way for begin, way in self.WAYS if line.startswith(begin))(self, line)


@cell
def page(t):
    """The commands of "From a bare server to a node", in order, and what is to be seen then."""
    t.stop()
    os.environ["PATH"] += "".join(f":{os.path.dirname(starlib.program(name))}" for name in ("starserver", "starctl", "startrain"))
    commands, page_ = commands_of_the_page(), Page(t)
    check(len(commands) > 20, f"the page has hardly any commands: {commands}")
    try:
        for line in commands:
            page_.do(line)
            if line.startswith("scripts/bind-nic bind"):
                equal(t.kernel_driver(), line.split()[-1], "the driver")
            elif line.startswith("scripts/bind-nic reset"):
                wait_until(lambda: kernel_interface(t), 10, "the kernel's interface")
        page_.shut_down("starctl shutdown")
        run("scripts/bind-nic", "reset", t.pci)
    finally:
        if page_.node:
            page_.node.end()
