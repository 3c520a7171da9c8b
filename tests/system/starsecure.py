# SPDX-License-Identifier: BSD-3-Clause
"""STAR_SECURE=1, which starlib obeys: the keys that nodes, workers and administrators have then, and how such nodes are asked."""
import os
import pwd
import shutil
import socket
import subprocess

sockets = {}  # of the administrators of nodes that have keys, by control address


def make_keys(folder, starctl):
    """nodes.key, job.key (a worker's) and ops.key (an administrator's) in the folder for this user, in nobody/ for the user nobody."""
    others = os.path.join(folder, "nobody")
    os.mkdir(others)
    for path in (folder, others):
        os.chmod(path, 0o755)
    nodes = os.path.join(folder, "nodes.key")

    def key(*words):
        subprocess.run([starctl, "key", *words], check=True, stdout=subprocess.DEVNULL)

    for name, role in (("nodes", "node"), ("job", "worker"), ("ops", "admin")):
        key("create", nodes, name, role)
    for name in ("job", "ops"):
        key("copy", nodes, name, os.path.join(folder, f"{name}.key"))
    for name in ("nodes", "job", "ops"):
        copy = shutil.copy(os.path.join(folder, f"{name}.key"), others)
        if not os.geteuid():
            os.chown(copy, pwd.getpwnam("nobody").pw_uid, -1)
        os.chmod(copy, 0o400)
    return folder


def key_of(folder, name, by_nobody=False):
    return os.path.join(folder, *(["nobody"] if by_nobody else []), f"{name}.key")


def secure(config, control, nodes_key):
    """A node's configuration, which may set its security already."""
    # Metrics at an address other than this machine's own would be open to anyone without a key.
    require = config.get("metrics", {}).get("address", "127.0.0.1") in ("127.0.0.1", "::1")
    config.setdefault("security", {"control_keys": nodes_key, "require": require, "data": "sealed"})
    if config["security"].get("control_keys"):
        # Not for a node that is to be refused, as it claims another node's data address.
        own = config["cluster"]["ps"][config["node"]["task_index"]]
        if "|" in own:  # a pair's: one of them is this node's
            own = own.split("|")[config["standby"]["address"] == "second"]
        sockets[own if ":" in own else control] = config["control"]["socket"]


def connection(address, timeout_s):
    """To a node's control plane, where a line in clear is answered: at its control address, or on its administrator's socket."""
    host, port = address.rsplit(":", 1)
    if address not in sockets:
        return socket.create_connection((host.strip("[]"), int(port)), timeout_s)
    try:
        return local_connection(sockets[address], timeout_s)
    except FileNotFoundError:  # it has not begun yet, or has ended
        raise ConnectionRefusedError(f"there is no {sockets[address]}") from None


def local_connection(path, timeout_s):
    """To the socket of a node's administrator."""
    made = socket.socket(socket.AF_UNIX)
    try:
        made.settimeout(timeout_s)
        made.connect(path)
    except OSError:
        made.close()
        raise
    return made
