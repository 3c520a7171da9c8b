# SPDX-License-Identifier: BSD-3-Clause
"""Links with losses: packets of a test network's data pairs are lost at random, by nftables in its namespace."""
import contextlib
import re

from starlib import run_in

__all__ = ["loss", "single_segments"]


def single_segments(net):
    """The kernel's TCP makes one segment at a time from now on, on new connections; else nftables sees pieces of up to 64 KiB
    on their way out, which are cut later."""
    for i in range(len(net.data)):
        run_in(net, "ip", "link", "set", f"data{i}", "gso_max_segs", 1)


@contextlib.contextmanager
def loss(net, of_thousand, rules=""):
    """Loss in both directions. rules: what nftables does besides, to packets that come in and that go out. Yields a
    function that tells how many have been lost so far."""
    # What is lost on the way out goes to an interface where nobody listens: were it dropped, the sender would know.
    run_in(net, "ip", "link", "add", "hole0", "type", "veth", "peer", "name", "hole1")
    for end in ("hole0", "hole1"):
        run_in(net, "sysctl", "-q", "-w", f"net.ipv6.conf.{end}.disable_ipv6=1")
        run_in(net, "ip", "link", "set", end, "up")
    devices = ", ".join(f'"data{i}"' for i in range(len(net.data)))
    chance = f"numgen random mod 1000 < {of_thousand} counter"
    run_in(net, "nft", "-f", "-", text=f"""
table netdev loss {{
	chain in {{
		type filter hook ingress devices = {{ {devices} }} priority 0;
		{chance} drop;
		{rules}
	}}
	chain out {{
		type filter hook egress devices = {{ {devices} }} priority 0;
		{chance} fwd to "hole0";
		{rules}
	}}
}}
""")

    def lost():
        text = run_in(net, "nft", "list", "table", "netdev", "loss").stdout
        return sum(int(count) for count in re.findall(rf"< {of_thousand} counter packets (\d+)", text))
    try:
        yield lost
    finally:
        run_in(net, "nft", "delete", "table", "netdev", "loss")
        run_in(net, "ip", "link", "delete", "hole0")
