# SPDX-License-Identifier: BSD-3-Clause
"""A virtual machine with PCI NICs, for tests/system/pci.test. Standard library only.

    with Guest(nics=[NIC("e1000e")]) as guest:
        guest.run("e1000e", "vfio-pci", cells)

The emulator is Debian's qemu with TCG. The guest runs Debian's kernel, unpacked from its package into build/pci, and sees
this machine's file system read-only through 9p with a scratch layer above it: the same programs, scripts and Python as
here. What it does is in starpci_guest.py, which takes requests, one JSON object a line, on a virtio serial port. A NIC of
DPDK's and one for the worker are on a hub inside the emulator: no network of this machine is touched.
"""
import contextlib
import functools
import glob
import json
import os
import re
import shutil
import socket
import sys
import time

import starlib
from starlib import ROOT, SLOW, Failure, Skip, check, run, scratch, spawn, wait_until

__all__ = ["NIC", "Guest", "need_emulator"]

CACHE = os.path.join(ROOT, "build/pci")
EMULATOR = "qemu-system-x86_64"
BUSYBOX = "/bin/busybox"
BOOT_S = 390  # 10 to 15 on a machine with nothing else to do
# How many times slower the guest may be: its emulated processor has a part of a core while other tests run.
GUEST_SLOW = 5 if starlib.SOAK else 15
# What the initramfs loads before it can see the root file system; their dependencies are added.
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_console")

INIT = """#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
for module in $(/bin/busybox cat /modules); do /bin/busybox insmod /$module || echo "cannot load $module"; done
/bin/busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro root /lower || echo "no root"
/bin/busybox mount -t tmpfs scratch /scratch
/bin/busybox mkdir -p /scratch/upper /scratch/work /new
/bin/busybox mount -t overlay -o lowerdir=/lower,upperdir=/scratch/upper,workdir=/scratch/work,xino=off overlay /new
for folder in tmp run mnt var/tmp dev/shm; do
	/bin/busybox mkdir -p /new/$folder && /bin/busybox mount -t tmpfs tmpfs /new/$folder
done
for folder in proc sys dev; do /bin/busybox mount --move /$folder /new/$folder; done
/bin/busybox ln -s /proc/self/fd /new/dev/fd
/bin/busybox mkdir -p /new/dev/shm /new/usr/lib/modules
/bin/busybox mount -t tmpfs tmpfs /new/dev/shm
/bin/busybox mount --bind /new@CACHE@/root/lib/modules /new/usr/lib/modules
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root STAR_BUILD=@BUILD@ STAR_SOAK=@SOAK@ STAR_SLOW=@SLOW@ PYTHONDONTWRITEBYTECODE=1
/bin/busybox chroot /new /bin/sh -c \
	"exec /usr/bin/python3 @ROOT@/tests/system/starpci_guest.py </dev/null >/dev/console 2>&1"
/bin/busybox poweroff -f
"""


def need_emulator():
    """Skips, with the reason, where no guest can be started."""
    if os.geteuid():
        raise Skip("a guest that sees the whole file system needs root")
    for name in (EMULATOR, BUSYBOX, "lspci", "modprobe", "dpdk-devbind.py", "dpkg-deb"):
        if not shutil.which(name):
            raise Skip(f"{name} is missing: run scripts/install-packages test")
    _kernel()


def _download(folder):
    """Debian's kernel package of this release: linux-image-amd64 only names it."""
    for attempt in range(2):
        depends = run("apt-cache", "depends", "linux-image-amd64", expect=None).stdout.split()
        names = [word for word in depends if word.startswith("linux-image-")]
        if names and run("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", names[-1], cwd=folder, expect=None,
                         timeout_s=300).returncode == 0:
            return glob.glob(os.path.join(folder, "linux-image-*.deb"))[0]
        if attempt == 0:
            run("apt-get", "-q", "update", expect=None, timeout_s=120)
    raise Skip("Debian's kernel package cannot be downloaded: apt-get download linux-image-amd64 fails")


@functools.lru_cache(None)
def _kernel():
    """Unpacks it once; returns the kernel's path and its version."""
    root = os.path.join(CACHE, "root")
    if not os.path.exists(os.path.join(CACHE, "done")):
        shutil.rmtree(CACHE, ignore_errors=True)
        os.makedirs(root)
        package = _download(CACHE)
        run("dpkg-deb", "--extract", package, root, timeout_s=300)
        os.remove(package)
        run("depmod", "-b", root, os.path.basename(glob.glob(root + "/lib/modules/*")[0]), timeout_s=120)
        open(os.path.join(CACHE, "done"), "w").close()
    kernel = glob.glob(root + "/boot/vmlinuz-*")[0]
    return kernel, os.path.basename(kernel).removeprefix("vmlinuz-")


def _closure(modules_folder):
    """The files of MODULES and of what they depend on, in the order of loading."""
    needs = {}
    with open(os.path.join(modules_folder, "modules.dep")) as file:
        for line in file:
            path, _, others = line.partition(":")
            needs[os.path.basename(path).removesuffix(".ko").replace("-", "_")] = (path, others.split())
    order = []

    def add(name):
        if name not in needs:
            return  # built in
        path, others = needs[name]
        for other in others:
            add(os.path.basename(other).removesuffix(".ko").replace("-", "_"))
        if path not in order:
            order.append(path)

    for module in MODULES:
        add(module)
    return order


def _cpio(entries):
    """An archive of (path, mode, bytes) in the format that the kernel reads (newc)."""
    archive = bytearray()
    for inode, (path, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        name = path.encode() + b"\0"
        fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        archive += b"070701" + b"".join(b"%08x" % field for field in fields) + name
        archive += bytes(-len(archive) % 4) + data
        archive += bytes(-len(archive) % 4)
    return bytes(archive)


def _initramfs():
    _, version = _kernel()
    folder = os.path.join(CACHE, "root/lib/modules", version)
    entries = [(name, 0o040755, b"") for name in ("proc", "sys", "dev", "bin", "lower", "scratch", "new")]
    modules = _closure(folder)
    for path in modules:
        with open(os.path.join(folder, path), "rb") as file:
            entries.append((os.path.basename(path), 0o100644, file.read()))
    with open(BUSYBOX, "rb") as file:
        entries.append(("bin/busybox", 0o100755, file.read()))
    entries.append(("modules", 0o100644, "\n".join(os.path.basename(path) for path in modules).encode()))
    text = INIT
    for word, value in (("@CACHE@", CACHE), ("@BUILD@", os.path.relpath(starlib.BUILD, ROOT)), ("@ROOT@", ROOT),
                        ("@SOAK@", str(int(starlib.SOAK))), ("@SLOW@", str(GUEST_SLOW * int(os.environ.get("STAR_SLOW", 1))))):
        text = text.replace(word, value)
    entries.append(("init", 0o100755, text.encode()))
    path = os.path.join(scratch(), "initramfs")
    with open(path, "wb") as file:
        file.write(_cpio(entries))
    return path


class NIC:
    """A NIC of the guest's: the emulator's model and its properties. It stands behind a root port of its own, so that it
    can be taken out."""

    def __init__(self, name, file, model=None, properties="", queues=1, jumbo=9000, bus="pcie.0"):
        self.name, self.file, self.model, self.properties = name, file, model or name, properties
        self.queues, self.jumbo, self.bus, self.pci = queues, jumbo, bus, None


class Qmp:
    """The emulator's control socket."""

    def __init__(self, path):
        def connect():
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(path)
                return connection
            except OSError:
                connection.close()
        self.socket = wait_until(connect, 20, "the emulator's control socket")
        self.socket.settimeout(30 * SLOW)
        self.lines = self.socket.makefile()
        self.lines.readline()
        self.call("qmp_capabilities")

    def call(self, command, **arguments):
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while True:
            answer = json.loads(self.lines.readline())
            if "error" in answer:
                raise Failure(f"{command} {arguments}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]

    def close(self):
        self.lines.close()
        self.socket.close()


class Guest:
    """A running guest. command_line: more for its kernel. arguments: more for the emulator. hugepages: what is reserved by
    scripts/hugepages before the first cell, or None."""

    def __init__(self, nics, memory_mib=1536, command_line="", arguments=(), hugepages="448M"):
        need_emulator()
        kernel, _ = _kernel()
        folder = scratch()
        self.console = os.path.join(folder, f"console-{time.monotonic_ns()}")
        control, channel = self.console + ".qmp", self.console + ".serial"
        argv = [EMULATOR, "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2",
                "-m", f"{memory_mib}", "-nodefaults", "-display", "none", "-no-reboot", "-kernel", kernel,
                "-initrd", _initramfs(), "-serial", f"file:{self.console}",
                "-append", f"console=ttyS0 quiet panic=-1 no_timer_check intel_iommu=on iommu=pt mitigations=off {command_line}",
                "-device", "intel-iommu,intremap=on,caching-mode=on",
                "-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
                "-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
                "-device", "virtio-serial-pci", "-chardev", f"socket,id=star,path={channel},server=on,wait=off",
                "-device", "virtserialport,chardev=star,name=star",
                "-qmp", f"unix:{control},server=on,wait=off", *arguments]
        argv += self._worker()
        for number, nic in enumerate(nics):
            argv += self._nic(number + 1, nic)
        self.nics, self.job, self.hugepages = {nic.name: nic for nic in nics}, None, hugepages
        self.process = spawn(*argv)
        self.qmp = Qmp(control)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(channel)
        self.lines = self.socket.makefile("rw")
        self._wait_boot()

    @staticmethod
    def _worker():
        """The kernel's NIC, on the hub that all others are on."""
        return ["-netdev", "hubport,id=net0,hubid=0", "-device", "virtio-net-pci,netdev=net0,bus=pcie.0,mac=52:54:00:00:00:01,romfile="]

    @staticmethod
    def _nic(number, nic):
        multi = f",mq=on,vectors={2 * nic.queues + 2}" if nic.queues > 1 and nic.model.startswith("virtio") else ""
        return ["-device", f"pcie-root-port,id=port{number},bus={nic.bus},chassis={number},slot={number}",
                "-netdev", f"hubport,id=net{number},hubid=0",
                "-device", f"{nic.model},id={nic.name},bus=port{number},netdev=net{number},"
                           f"mac=52:54:00:00:01:{number:02x},romfile={multi}{nic.properties and ',' + nic.properties}"]

    def _wait_boot(self):
        self.socket.settimeout(BOOT_S * SLOW)
        start = time.monotonic()
        try:
            ready = self._read()
        except (OSError, Failure) as error:
            raise Failure(f"the guest did not come up ({error}):\n{self.said()}") from None
        print(f"# the guest was up after {time.monotonic() - start:.0f} s: {ready['kernel']}", flush=True)

    def said(self):
        with open(self.console, errors="replace") as file:
            return "".join(file.readlines()[-60:]) + self.process.text()

    def _read(self):
        line = self.lines.readline()
        check(line, f"the guest has ended:\n{self.said()}")
        return json.loads(line)

    def _device(self, name, add):
        nic = self.nics[name]
        number = list(self.nics).index(name) + 1
        if not add:
            return self.qmp.call("device_del", id=name)
        properties = dict(word.split("=") for word in self._nic(number, nic)[-1].split(",")[1:])
        return self.qmp.call("device_add", driver=nic.model, **properties)

    def ask(self, timeout_s=600, **request):
        """Has the guest do something, and meanwhile serves its requests to the emulator. Returns its answer."""
        self.socket.settimeout(timeout_s * SLOW)
        self.lines.write(json.dumps(request) + "\n")
        self.lines.flush()
        while True:
            try:
                message = self._read()
            except TimeoutError:
                raise Failure(f"the guest did not answer for {timeout_s * SLOW} s:\n{self.said()}") from None
            if "print" in message:
                print(message["print"], flush=True)
            elif "error" in message:
                print(message["error"], file=sys.stderr, flush=True)
            elif "link" in message:
                self.qmp.call("set_link", name=message["link"], up=message["up"])
            elif "device" in message:
                self._device(message["device"], message["add"])
            elif "job" in message:
                self.job = message["job"]
            else:
                return message

    def _pci(self, nic):
        """Its address in the guest. Buses are numbered in the order of the root ports; behind another bridge it is unknown."""
        number = list(self.nics).index(nic.name) + 1
        if nic.bus == "pcie.0":
            return f"0000:{number:02x}:00.0"
        if not nic.pci:
            shown = self.ask(sh="for nic in /sys/class/net/*; do echo $(cat $nic/address) $(readlink -f $nic/device); done")["out"]
            line = next((line for line in shown.splitlines() if line.startswith(f"52:54:00:00:01:{number:02x} ")), "")
            check(line, f"the guest's kernel has no {nic.name}:\n{shown}")
            nic.pci = [part for part in line.split("/") if re.fullmatch(r"[0-9a-f]{4}(:[0-9a-f]{2}){2}\.[0-7]", part)][-1]
        return nic.pci

    def run(self, name, driver, cells, job_s=0):
        """Runs cells on a NIC bound to a driver; returns {cell: outcome}. job_s: how long the cell "training" trains."""
        nic = self.nics[name]
        return self.ask(nic=name, pci=self._pci(nic), hugepages=self.hugepages, driver=driver, cells=cells, file=nic.file, queues=nic.queues,
                        jumbo=nic.jumbo, job_s=job_s, timeout_s=1900 + 2 * job_s)["outcomes"]

    def end(self):
        self.process.end()  # nothing in it is worth asking it to end, and waiting for the answer
        for connection in (self.lines, self.socket, self.qmp):
            with contextlib.suppress(OSError):
                connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
