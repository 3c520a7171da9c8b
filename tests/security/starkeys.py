# SPDX-License-Identifier: BSD-3-Clause
"""Clusters whose control plane has keys, and clients of it that OpenSSL's own program makes: another implementation than libstar's."""
import contextlib
import json
import os
import pwd
import re
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time

from starkernel import *
from starlib import *

__all__ = ["ROLES", "Ring", "keyed_cluster", "TlsClient", "Middle", "starctl_at"]

STARCTL = program("starctl")
ROLES = ("node", "worker", "reader", "operator", "admin")


class Ring:
    """A key file with a principal of each role, which is called as its role is; a file for each of them; and one for the nodes."""

    def __init__(self):
        self.folder, self.given = tempfile.mkdtemp(dir=scratch()), folder()
        self.file, self.nodes = os.path.join(self.folder, "control.keys"), os.path.join(self.given, "control.keys")
        for role in ROLES:
            self.starctl("create", self.file, role, role)
        for role in ROLES:
            self.copy(role)
        self.give()

    @staticmethod
    def starctl(*words, expect=0):
        return run(STARCTL, "key", *words, "--json", expect=expect)

    def give(self, to=None, mode=0o400):
        """Brings the file to the nodes, whose user owns it then."""
        to = to or self.nodes
        with contextlib.suppress(FileNotFoundError):
            os.unlink(to)
        shutil.copy(self.file, to)
        if os.geteuid() == 0:
            os.chown(to, pwd.getpwnam("nobody").pw_uid, -1)
        os.chmod(to, mode)
        return to

    def path(self, principal):
        return os.path.join(self.folder, f"{principal}.key")

    def copy(self, principal):
        """A new file with the principal's keys."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(principal))
        self.starctl("copy", self.file, principal, self.path(principal))
        return self.path(principal)

    def change(self, *words):
        """Of the ring: `create`, `promote` or `revoke`, without the file's name. The nodes have the new one then."""
        self.starctl(words[0], self.file, *words[1:])
        self.give()

    def keys(self, file=None):
        """(principal, role, id, state, secret) of each line."""
        with open(file or self.file) as lines:
            return [tuple(line.split()[1:6]) for line in lines]

    def identity(self, principal, state="current"):
        """What a TLS client says who it is, and its secret in hexadecimal digits."""
        for name, _, number, is_state, secret in self.keys():
            if (name, is_state) == (principal, state):
                return f"{name}/{number}", secret
        raise Failure(f"{principal} has no {state} key")


@contextlib.contextmanager
def keyed_cluster(ring, nodes, changes=None, **options):
    security = {"control_keys": ring.nodes, **(changes or {}).pop("security", {})}
    with cluster(nodes, changes={**(changes or {}), "security": security}, **options) as started:
        yield started


class TlsClient:
    """`openssl s_client` with a principal's key: another implementation than libstar's. words: further options."""

    def __init__(self, address, psk=None, *words, version="-tls1_3"):
        keys = ["-psk_identity", psk[0], "-psk", psk[1]] if psk else []
        self.heard = b""
        self.process = subprocess.Popen(["openssl", "s_client", "-connect", address, version, *keys, "-quiet", "-no_ign_eof", *words],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def say(self, text):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(text.encode())
            self.process.stdin.flush()

    def _hear(self, until, timeout_s, what):
        end = time.monotonic() + timeout_s * SLOW
        while not until():
            check(time.monotonic() < end, f"{what} within {timeout_s} s; s_client said:\n{self.heard.decode(errors='replace')}")
            if select.select([self.process.stdout], [], [], 0.1)[0]:
                more = os.read(self.process.stdout.fileno(), 65536)
                if not more:
                    return False
                self.heard += more
        return True

    def answer(self, timeout_s=20):
        """The next JSON object; None when the node ends the connection without one."""
        pattern = re.compile(rb"^(\{.*\})\n", re.M)
        if not self._hear(lambda: pattern.search(self.heard), timeout_s, "no answer"):
            return None
        found = pattern.search(self.heard)
        self.heard = self.heard[found.end():]
        return json.loads(found.group(1))

    def ask(self, method, params=None):
        self.say(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, **({"params": params} if params else {})}) + "\n")
        return self.answer()

    def ends(self, timeout_s=20):
        """Waits until the node has ended the connection; what s_client said."""
        check(not self._hear(lambda: False, timeout_s, "the connection has not ended"), "it has ended")
        return self.heard.decode(errors="replace")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Middle:
    """Somebody between a client and a node. .up: all that came from the client; change(bytes): what is passed on instead."""

    def __init__(self, address, change=lambda data: data):
        host, port = address.rsplit(":", 1)
        self.node, self.change, self.up, self.down = (host, int(port)), change, b"", b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                with client, socket.create_connection(self.node) as node:
                    self._pass(client, node)

    def _pass(self, client, node):
        while True:
            ready, _, _ = select.select([client, node], [], [], 30)
            if not ready:
                return
            for end in ready:
                data = end.recv(65536)
                if not data:
                    return
                if end is client:
                    self.up += data
                    node.sendall(self.change(data))
                else:
                    self.down += data
                    client.sendall(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def starctl_at(address, key, *words, expect=0, **options):
    """`starctl --address`, as that key's principal."""
    return run(STARCTL, "--address", address, *(["--key", key] if key else []), *words, expect=expect,
               env={"STAR_KEY": None}, **options)
