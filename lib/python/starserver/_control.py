# SPDX-License-Identifier: BSD-3-Clause
"""The control protocol (docs/control.rst): one JSON-RPC request a connection, to a node's control address."""
import errno
import json
import os
import socket
import time

from . import _native
from ._errors import StarError, make_exception

ANSWER_MAX = 64 << 20


def tasks(ps):
    """The control addresses in what connect() was given, in task order: a list for each task, of two for a pair."""
    if ps.startswith("dpdk:"):
        raise StarError(errno.EOPNOTSUPP, "the control addresses are in the worker's file, which Python does not read: ask with "
                                          "`starctl --address HOST:PORT status`")
    if ps.startswith("tcp:") and ":" in ps[4:]:
        ps = ps[4:]
    return [task.split("|") for task in ps.split(",")]


def addresses(ps):
    """All of them."""
    return [address for task in tasks(ps) for address in task]


def call(address, method, timeout, **params):
    """The result of a method at HOST:PORT. timeout: seconds for all of it."""
    end = time.monotonic() + timeout
    request = {"jsonrpc": "2.0", "id": 1, "method": method}
    if params:
        request["params"] = params
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout) as connection:
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer = _line(connection, end)
    except ValueError:
        raise StarError(errno.EINVAL, f"{address!r} is not an address: HOST:PORT") from None
    except OSError as error:
        code = errno.ETIMEDOUT if isinstance(error, OSError) and error.errno is None else error.errno
        raise make_exception(code, f"the node's control address {address} does not answer: {error}; is starserver "
                                   "running there?") from None
    if not isinstance(answer, dict):
        raise StarError(errno.EPROTO, f"{address} has answered {method} with something else than JSON-RPC")
    if "error" in answer:
        text, data = answer["error"].get("message", ""), answer["error"].get("data")
        number = data.get("number") if isinstance(data, dict) else None
        raise make_exception(number if isinstance(number, int) else errno.EIO, f"{address} refuses {method}: {text}")
    return answer.get("result")


def ask(address, method, timeout, **params):
    """The same, by libstar and TLS where the environment has STAR_KEY."""
    if not os.environ.get("STAR_KEY"):
        return call(address, method, timeout, **params)
    return json.loads(_native.ask(address, method, json.dumps(params) if params else None, int(timeout * 1e6)))


def ask_any(ps, method, timeout, **params):
    """The same for a method that any PS task can answer: the result of the first that does. Of a pair one node serves, and the
    other one may be gone."""
    end, first = time.monotonic() + timeout, None
    for left, address in zip(range(len(ps), 0, -1), ps):
        try:
            return ask(address, method, max(end - time.monotonic(), 0.01) / left, **params)
        except StarError as error:
            if error.errno in (errno.ENOENT, errno.EINVAL, errno.EACCES, errno.EPERM):
                raise
            first = first or error
    raise first


def status(task, timeout):
    """The status of a PS task; for a pair that of the node that serves, else of the one that answers."""
    end, heard, first = time.monotonic() + timeout, None, None
    for left, address in zip(range(len(task), 0, -1), task):
        try:
            said = ask(address, "status", max(end - time.monotonic(), 0.01) / left)
        except StarError as error:
            first = first or error
            continue
        if said.get("pair", {}).get("role") != "standby":
            return said
        heard = heard or said
    if heard is None:
        raise first
    return heard


def _line(connection, end):
    data = bytearray()
    while not data.endswith(b"\n"):
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        connection.settimeout(left)
        part = connection.recv(1 << 16)
        if not part:
            raise ConnectionResetError(errno.ECONNRESET, "the connection was closed without an answer")
        data += part
        if len(data) > ANSWER_MAX:
            raise StarError(errno.EPROTO, "an answer of more than 64 MiB")
    try:
        return json.loads(data)
    except ValueError:
        return None
