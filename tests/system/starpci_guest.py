# SPDX-License-Identifier: BSD-3-Clause
"""What runs in the guest of tests/system/pci.test: it takes requests of starpci.py on the serial port "star", one JSON object
a line, and prints each cell's outcome there as a test does. The worker's NIC is in the namespace of a test network, and the
appliance has the other one: so Server and Stream of starlib and starwire are used as they are."""
import os
import signal
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import starlib
import starpci_cells  # which register themselves
import starpci_machine
from starlib import run
from starpci_rig import CELLS, Trial, WorkerNet, channel

CELL_S = 900  # on a machine that has more to do than this; a cell takes a few seconds on one that has not


def show(trial):
    """What the node and the worker's kernel say of frames and connections, as a diagnostic of a cell that has failed."""
    try:
        if trial.node and trial.node.process.running():
            print(f"# the node's figures: {trial.node.sums()}")
        print("# the worker's connections:\n" + trial.net.inside_run("ss", "-tinm", expect=None).stdout)
        print("# the worker's interface:\n" + trial.net.ip("-s", "link", "show", "data0", expect=None).stdout)
    except Exception as error:
        print(f"# no figures: {error}")


def run_trial(net, request):
    trial, outcomes, start_s = Trial(net, request), {}, time.monotonic()
    try:
        for name in request["cells"]:
            outcome = starlib.run_case(f"pci/{trial.nic}_by_{trial.driver}_{name}", lambda: CELLS[name](trial), CELL_S + 5 * trial.job_s, False)
            outcomes[name] = outcome
            if outcome.startswith("not ok"):
                show(trial)
            if outcome.startswith("not ok") and name in ("bind", "start"):
                break
    finally:
        if trial.node:
            trial.node.process.end()
        net.vlan(0)
        net.mtu(1500)
    print(f"# {trial.nic} by {trial.driver}: {len(outcomes)} cells in {time.monotonic() - start_s:.0f} s", flush=True)
    return outcomes


def main():
    os.chdir(starlib.ROOT)
    sys.stdout, sys.stderr = channel.stream("print"), channel.stream("error")
    # As udev does on a machine that boots from a disk.
    for module in ("veth", "bridge", "8021q", "virtio_net", "e1000e", "vmxnet3", "uio_pci_generic", "vfio-pci"):
        run("modprobe", module)
    signal.signal(signal.SIGALRM, starlib._on_alarm)
    channel.send(kernel=os.uname().release)
    net = None
    with starlib._program_owns:
        while True:
            request = channel.receive()
            try:
                if "sh" in request:
                    done = run("sh", "-c", request["sh"], expect=None, timeout_s=300)
                    channel.send(out=done.stdout + done.stderr, status=done.returncode)
                    continue
                if not net:
                    if request["hugepages"]:
                        run("scripts/hugepages", "reserve", request["hugepages"])
                    net = WorkerNet()
                channel.send(outcomes=run_trial(net, request))
            except Exception:
                channel.send(error=traceback.format_exc())
                channel.send(outcomes={})


main()
