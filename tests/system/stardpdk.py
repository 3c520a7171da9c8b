# SPDX-License-Identifier: BSD-3-Clause
"""A training whose worker is on DPDK, too: it has the bits of the same one over TCP."""
import hashlib
import json
import os

from starlib import *
from starmemif import *

EXAMPLES_MIN = 40000 if SOAK else 18000


@shared
def text():
    """WordNet's adverbs; but in `make soak` the first half of them, still thousands of packets."""
    path, whole = os.path.join(scratch(), "text"), "/usr/share/wordnet/data.adv"
    with open(whole, encoding="latin-1") as source, open(path, "w", encoding="latin-1") as file:
        lines = source.readlines()
        file.writelines(lines if SOAK else lines[:len(lines) // 2])
    return path


def train(net, server, *ps):
    """Hash of all parameters after a training; if a worker's file is given, checks that nothing went over TCP."""
    path = os.path.join(scratch(), "parameters")
    shown = run_in(net, program("startrain"), *ps, "--text", text(), "--epochs", 1, "--dump", path, "--json", timeout_s=300).stdout
    with open(path, "rb") as file:
        parameters = file.read()
    os.remove(path)
    check(json.loads(shown)["examples"] > EXAMPLES_MIN, f"hardly any training: {shown}")
    sums = server.sums()
    check(sums["rows_pushed"] > EXAMPLES_MIN // 4, f"hardly any push: {sums['rows_pushed']}")
    return hashlib.sha256(parameters).hexdigest()


def train_over_dpdk(net, server, file):
    """Gives that hash, too, after it has seen that nothing is left of the worker."""
    answer = train(net, server, "--transport", "dpdk", "--ps", file.removeprefix("dpdk:"))
    equal(server.sums()["connections"], 0, "connections over TCP")
    wait_until(lambda: server.sums()["sessions"] == 0, 20, "the end of the worker's sessions")
    return answer


@shared
def over_tcp():
    with Net() as net, Server(net) as server:
        return train(net, server, "--ps", server.control)


def packets(server):
    """Of sessions, both ways."""
    counters = [reactor["counters"] for reactor in server.call("status")["reactors"]]
    return sum(each.get("Dgram.packets_in", 0) + each.get("Dgram.packets_out", 0) for each in counters)


def over_memif(ipv6=False, mtu=1500, hugepages="none"):
    """Hash, and packets."""
    with Net() as net:
        memif = Memif(net, mtu=mtu)
        config = memif.config | {"memory": {"mbufs": memif.mbufs, "hugepages": hugepages}}
        with Server(net, config=config, ipv6=ipv6) as server:
            equal(server.call("status")["hugepages"], hugepages != "none", "whether the appliance is on hugepages")
            only6 = ({"address": [a for a in memif.addresses(0, 2) if ":" in a], "gateway": None}) if ipv6 else {}
            file = memif.worker(server, 0, only6, memory={"hugepages": hugepages, "mbufs": memif.mbufs})
            answer = train_over_dpdk(net, server, file)
            count = packets(server)
            server.nothing_left()
            equal(server.stop(), 0, "the appliance's exit status")
    equal(answer, over_tcp(), "the parameters")
    return count
