# SPDX-License-Identifier: BSD-3-Clause
"""A starserver that must not start: its message, and the command in it."""
import os
import re

from starlib import *

__all__ = ["SMALL", "line_of", "refused", "command_in", "starts"]

SMALL = {"memory": {"mbufs": 2047}}
COMMAND = re.compile(r"`([^`]+)`")


def line_of(server, status):
    """The message of a starserver that must not start, one line; and its exit status."""
    equal(server.process.wait(), status, "the exit status")
    text = server.text()
    lines = text.splitlines()
    check(len(lines) == 1 and lines[0].startswith("starserver: "), f"not one line of starserver's, but\n{text}")
    check(not os.path.exists(server.socket), f"{server.socket} is left")
    return lines[0]


def refused(net, status, **options):
    return line_of(Server(net, wait=False, **options), status)


def command_in(line, number=0):
    return COMMAND.findall(line)[number]


def starts(net, **options):
    with Server(net, config={**SMALL, **options.pop("config", {})}, **options) as server:
        server.layout()
        equal(server.stop(), 0, "the exit status")
        return server.text()
