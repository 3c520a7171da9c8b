# SPDX-License-Identifier: BSD-3-Clause
"""The cells of the matrix of tests/system/pci.test: the tests of a NIC and a driver, in the guest."""
import contextlib
import os
import tempfile
import time

import starbits
from starlib import BUILD, Skip, check, equal, has, load_percent, run, scratch, wait_until
from starpci_rig import *
from starwire import Stream, own_keys, pull_op

VLAN = 7
SPARE, SPARE_WORKER = "198.18.7.1", "198.18.7.2"
RING, BURST = 1024, 64
NIC_BUFFERS = 2 * RING + RING // 2
FEWEST_BUFFERS = NIC_BUFFERS + 1023  # lib/config/config.h
PLAIN = ("tx", "off", "tso", "off", "gso", "off", "gro", "off")


@cell
def default_route_below(t):
    """The NIC under a bridge, and the default route on a VLAN of that."""
    nic = wait_until(lambda: kernel_interface(t), 10, "the kernel's interface")
    run("ip", "-batch", "-", text=f"link add br9 type bridge\nlink set {nic} master br9\nlink set {nic} up\nlink set br9 up\n"
        "link add link br9 name br9.5 type vlan id 5\nlink set br9.5 up\naddress add 198.18.9.1/24 dev br9.5\n"
        "route add default via 198.18.9.2\n")
    try:
        has(run("scripts/bind-nic", "bind", t.pci, t.driver, expect=1).stderr, "carries the default route")
        equal(kernel_interface(t), nic, "the kernel's interface")
    finally:
        run("ip", "link", "del", "br9.5")
        run("ip", "link", "del", "br9")


@cell
def bind(t):
    run("scripts/bind-nic", "bind", t.pci, t.driver)
    equal(t.kernel_driver(), t.driver, "the driver")


@contextlib.contextmanager
def held(t):
    """DPDK cannot open the NIC meanwhile. Yields what the EAL says then."""
    if t.driver == "vfio-pci":
        path = "/dev/vfio/" + os.path.basename(os.path.realpath(f"/sys/bus/pci/devices/{t.pci}/iommu_group"))
        group = wait_until(lambda: os.path.exists(path) and os.open(path, os.O_RDWR), 10, path)  # as another program of DPDK's has it
        try:
            yield f"Cannot open {path}: Device or resource busy"
        finally:
            os.close(group)
        return
    path = "/dev/" + os.listdir(f"/sys/bus/pci/devices/{t.pci}/uio")[0]
    wait_until(lambda: os.path.exists(path), 10, path)
    os.rename(path, path + ".aside")
    try:
        yield f"Cannot open {path}: No such file or directory"
    finally:
        os.rename(path + ".aside", path)


@cell
def reasons(t):
    """A NIC that DPDK cannot have: the node ends, and its message has the EAL's reason."""
    t.stop()
    with held(t) as reason:
        has(refusal(t), reason)


@cell
def start(t):
    wakes = t.need().port()["wakes"]
    print(f"# {t.nic} by {t.driver}: {t.node.port()}")
    # Of these only e1000e has an interrupt of its queue's by uio: the others have to start without, and say so.
    if t.driver == "uio_pci_generic" and t.nic != "e1000e":
        equal(wakes, "a timer", "what wakes it")
    else:
        has(wakes, "interrupts")


@cell
def announced(t):
    """A worker that had another MAC address for the appliance's has the right one without asking."""
    t.stop()
    t.net.ip("neigh", "replace", t.net.data[0].appliance, "lladdr", "02:00:00:00:00:99", "dev", "data0",
                     "nud", "stale")
    node = t.need()
    mac = node.port()["mac"].lower()
    wait_until(lambda: t.net.neighbour() == mac, 5, f"the neighbour {mac}")


@cell
def arp(t):
    t.need()
    t.net.ip("neigh", "flush", "all")
    t.net.ping()
    equal(t.net.neighbour(), t.node.port()["mac"].lower(), "the neighbour")


@cell
def ping(t):
    t.need()
    t.net.ping(1400)
    t.net.ping(1400, six=True)
    t.net.ping(1900)  # in two fragments; a packet that one packet buffer does not hold is not taken (docs/ip.rst)


@cell
def small_pulls(t):
    t.need()
    t.exchange(16, 10, times=5)
    t.no_loss()


@cell
def rows_of_16_kib(t):
    t.need()
    t.exchange(ROW_16K, 20)
    t.no_loss()


@cell
def replies_of_many_frames(t):
    """As many frames as a transmit ring holds, and more."""
    t.need()
    t.exchange(ROW_16K, 50, times=2)
    t.no_loss()


@cell
def pushes(t):
    t.need()
    t.exchange(64, 1000)
    t.no_loss()


@cell
def small_mss(t):
    """A client whose MSS is 88 does not hurt another one."""
    t.need()
    with t.net.inside():
        tiny = Stream(t.node, mss=88)
    table = t.table(ROW_16K)
    keys = own_keys(t.node.layout(), table, 0, 8)
    with tiny:
        tiny.socket.settimeout(60)
        tiny.pull(table, keys)
        t.exchange(64, 500)
        tiny.pull(table, keys)
    # A ring of 256 may be full: what is dropped then is sent again. Nothing is wrong for the device.
    equal(t.node.sums()["errors"].get("transmit_refused", 0), 0, "frames that the driver refused")


@cell
def link(t):
    """Goes down in the middle of replies: they are whole when it is up again."""
    in_the_middle_of_replies(t, t.need(), 50, link_goes_down_and_up)
    t.exchange(16, 10)


def in_the_middle_of_replies(t, node, rows, happens):
    """Of four, each of n rows. They are whole in the end."""
    table = t.table(ROW_16K)
    keys = own_keys(node.layout(), table, 0, rows)
    with Stream(node, timeout_s=60) as stream:
        want = stream.execute(pull_op(table, keys))
        for _ in range(4):
            stream.send(pull_op(table, keys))
        happens(t, node)
        for _ in range(4):
            equal([values for _, values in stream.receive().results], want, "what was pulled")


def link_goes_down_and_up(t, node):
    channel.send(link=t.nic, up=False)
    try:
        wait_until(lambda: node.port()["link"] is False, 10, "a link that is down")
        wait_until(lambda: "link is down" in node.text(), 10, "a word of it in the log")
    finally:
        channel.send(link=t.nic, up=True)
    wait_until(lambda: node.port()["link"] is True, 20, "a link that is up")
    wait_until(lambda: "link is up" in node.text(), 10, "a word of it in the log")


@cell
def idle(t):
    node = t.need()
    t.exchange(16, 10)
    time.sleep(2)
    load = load_percent(node.pid, 5)
    wakes = node.port()["wakes"]
    print(f"# {t.nic} by {t.driver}: idle {load:.1f} % of a core; it is woken by {wakes}")
    # In an emulator a timer of a millisecond costs some tens of per cent.
    check(load < (60 if wakes == "a timer" else 20), f"an idle node takes {load:.0f} % of a core (woken by {wakes})")
    t.exchange(16, 10)


@cell
def vlan(t):
    t.need(vlan=VLAN)
    t.net.ping()
    t.net.ping(1400, six=True)
    t.exchange(16, 10)
    t.exchange(ROW_16K, 10)
    t.no_loss()


@cell
def jumbo(t):
    if not t.jumbo:
        raise Skip("the device has none")
    t.need(mtu=t.jumbo)
    for bytes_ in (4000, 8170, t.jumbo - 28):  # e1000's buffers have 8192 bytes: the last one comes in two
        t.net.ping(bytes_)
    t.exchange(16, 10)
    t.exchange(ROW_16K, 20)
    t.no_loss()


@cell
def fewest_buffers(t):
    """With as many as --check takes: the rings keep what it counts on, and leave the rest, also when nothing leaves them."""
    node = t.need(mbufs=FEWEST_BUFFERS)
    begin = node.sums()
    equal(begin["mbufs"], FEWEST_BUFFERS, "the packet buffers")
    check(begin["mbufs_used"] < RING + BURST, f"{begin['mbufs_used']} packet buffers are in use before the first request")
    t.exchange(ROW_16K, 10, times=5)
    in_the_middle_of_replies(t, node, 10, link_goes_down_and_up)
    t.exchange(ROW_16K, 10, times=2)
    check(node.sums()["mbufs_used"] <= NIC_BUFFERS, f"{node.sums()['mbufs_used']} packet buffers are in use after the last one")


def resets(t, node):
    def said(word):
        return node.text().count(word)
    resets, links = said("asked for a reset, and was reset"), said("the link is up")
    open(t.reset_file, "w").close()
    wait_until(lambda: said("asked for a reset, and was reset") > resets, 60, "a word of it in the log")
    wait_until(lambda: said("the link is up") > links, 60, "a word of the link in the log")
    equal(node.port()["state"], "works", "the port's state")


@cell
def reset(t):
    """Its driver asks for one, as ENA's and iavf's do, in the middle of replies (star-reset.so raises the event, and the device is stopped,
    configured and started again): they are whole, and no packet buffer is lost."""
    t.reset_file = os.path.join(scratch(), "reset-now")
    node = t.need(env={"LD_PRELOAD": os.path.join(BUILD, "tests/system/storage/star-reset.so"), "STAR_RESET_FILE": t.reset_file})
    t.exchange(ROW_16K, 20)
    before = node.sums()["mbufs_used"]
    for _ in range(3):
        in_the_middle_of_replies(t, node, 50, resets)
    t.exchange(16, 10)
    t.exchange(ROW_16K, 20)
    check(node.sums()["mbufs_used"] <= before + RING, f"{before} packet buffers were in use, and now {node.sums()['mbufs_used']}")


@cell
def two_reactors(t):
    if t.queues < 2:
        raise Skip("the device has none" if t.nic == "e1000e" else "the emulator's hub has one queue for it")
    t.need(reactors=2)
    for reactor in range(2):
        t.exchange(16, 10, reactor, times=5)
        t.exchange(ROW_16K, 10, reactor)
    t.no_loss()


def add_spare(t):
    """Another port of the node's, to the worker by a veth pair."""
    run("ip", "-batch", "-", text="link add stars type veth peer name spare0 netns star-guest\nlink set stars up\n")
    run("ethtool", "-K", "stars", *PLAIN)
    t.net.inside_run("ethtool", "-K", "spare0", *PLAIN)
    t.net.ip("address", "add", f"{SPARE_WORKER}/24", "dev", "spare0")
    t.net.ip("link", "set", "spare0", "up")
    t.node.starctl("port", "add", "net_af_packet", "--interface", "stars", "--address", f"{SPARE}/24", timeout_s=60)


def end_for_good(node):
    """A process that hangs in the driver would block all later cells."""
    if node.process.running():
        print(run("sh", "-c", f"for t in /proc/{node.pid}/task/*; do echo '#' $(cat $t/comm $t/wchan $t/syscall); done", expect=None).stdout, flush=True)
        node.kill()


@cell
def removed(t):
    """The node says so, goes on with its other port at once, and ends in order."""
    node = t.need()
    run("ip", "link", "del", "stars", expect=None)
    add_spare(t)
    t.exchange(16, 10)
    t.exchange(16, 10, host=SPARE)
    try:
        channel.send(device=t.nic, add=False)
        wait_until(lambda: "was removed from the machine" in node.text(), 30, "a word of it in the log")
        equal(node.port()["state"], "removed", "the port's state")
        t.exchange(16, 10, host=SPARE)
        node.starctl("status")
        # Some ask registers of a device that is gone, by waits in loops: where a processor is emulated and shared, for minutes.
        wait_until(lambda: "its driver has released it" in node.text(), 400, "the driver's end")
        t.stop()
        wait_until(lambda: not os.path.exists(f"/sys/bus/pci/devices/{t.pci}"), 30, "the end of the device")
    finally:
        t.node = None
        end_for_good(node)
        channel.send(device=t.nic, add=True)
        wait_until(lambda: os.path.exists(f"/sys/bus/pci/devices/{t.pci}"), 30, "the device")


@cell
def training(t):
    """Of job_s seconds. Its bits are compared by the caller."""
    directory = tempfile.mkdtemp(dir=scratch())
    node = t.need(directory=directory)
    t.net.ping()
    channel.send(job=starbits.train(t.net, node, directory, f"{t.job_s}s", t.job_s))
    t.no_loss()


@cell
def stop(t):
    t.stop()


@cell
def bind_back(t):
    run("scripts/bind-nic", "reset", t.pci)
    check(t.kernel_driver() not in (None, t.driver), f"the driver is {t.kernel_driver()}")
    wait_until(lambda: kernel_interface(t), 10, "the kernel's interface")
