# SPDX-License-Identifier: BSD-3-Clause
"""Crowds: thousands of connections, or of datagram sessions (lib/wire/packet.h), from one address; and an ordinary worker beside them."""
import contextlib
import copy
import random
import resource
import select
import signal
import socket
import struct
import threading
import time

from starlib import *
from starwire import *

__all__ = ["Crowd", "KIND_PING", "Sessions", "Worker", "ask_at_once", "files", "shares"]

PACKET, OPEN, OPENED = struct.Struct("<HBBIQIIQIIIHH16s"), struct.Struct("<QQQII"), struct.Struct("<QQIIIIII")
assert (PACKET.size, OPEN.size, OPENED.size) == (64, 32, 40)
MAGIC, VERSION = 0x5453, 2
KIND_OPEN, KIND_COOKIE, KIND_OPENED, KIND_DATA, KIND_ACK, KIND_PING, KIND_CLOSE, KIND_UNKNOWN = range(1, 9)
WHOLE = 3  # flags: a message begins and ends with it


def files(count):
    """This process may have this many open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise Skip(f"this process may open {hard} files, {count} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


class Crowd:
    """Connections that say nothing."""

    def __init__(self, net, to, source):
        self.net, self.to, self.source, self.sockets = net, to, source, []

    def dial(self, count):
        """Until there are this many, or no more get in within a while."""
        family = socket.AF_INET6 if ":" in self.source else socket.AF_INET
        with self.net.inside():
            for _ in range(count - len(self.sockets)):
                one = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
                one.bind((self.source, 0))
                with contextlib.suppress(OSError):
                    one.connect(self.to)
                self.sockets.append(one)
                if len(self.sockets) % 200 == 0:
                    time.sleep(0.02)  # a burst would overrun the ring that the node receives from

    def drop(self):
        """Forgets those that were refused or ended; returns how many are left."""
        for one in self.sockets[:]:
            with contextlib.suppress(BlockingIOError):
                try:
                    ended = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) or one.recv(1) == b""
                except BlockingIOError:
                    raise
                except OSError:
                    ended = True
                if ended:
                    one.close()
                    self.sockets.remove(one)
        return len(self.sockets)

    def end(self):
        for one in self.sockets:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.close()


def shares(server, crowds):
    """How many connections of each the node has."""
    return [len(server.starctl("connections", f"peer={crowd.source}", "limit=10000")["connections"]) for crowd in crowds]


class Worker:
    """Pulls all the time, over one connection; and now and then over a new one."""

    def __init__(self, server, table, source):
        self.server, self.table, self.source = server, table, source
        self.keys, self.pulls, self.longest_s, self.wrong, self.over = list(range(8)), 0, 0, None, False
        self.thread = threading.Thread(target=self.go)
        self.thread.start()

    def pull(self, stream):
        begun = time.monotonic()
        equal(len(stream.pull(self.table, self.keys)), len(self.keys), "rows")
        self.longest_s = max(self.longest_s, time.monotonic() - begun)
        self.pulls += 1

    def go(self):
        try:
            with Stream(self.server, source=self.source) as stream:
                while not self.over:
                    self.pull(stream)
                    time.sleep(0.005)
        except Exception as error:
            self.wrong = error

    def again(self):
        """A new connection gets in, too, though perhaps not at once."""
        before = self.pulls
        with Stream(self.server, source=self.source) as stream:
            self.pull(stream)
        wait_until(lambda: self.wrong or self.pulls > before + 2, 20, "pulls over the old connection")
        if self.wrong:
            raise self.wrong

    def end(self):
        self.over = True
        self.thread.join(60)
        if self.wrong:
            raise self.wrong
        check(self.pulls > 10, f"{self.pulls} pulls")
        print(f"# {self.pulls} pulls, the longest took {self.longest_s * 1e3:.0f} ms")


class Sessions:
    """Sessions from one socket."""

    def __init__(self, net, to, source):
        with net.inside():
            self.socket = socket.socket(socket.AF_INET6 if ":" in source else socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.socket.bind((source, 0))
        self.socket.connect(to)
        self.opened, self.answers, self.wanted = {}, {}, {}  # by our number: the node's number and token
        self.closed, self.unknown = 0, 0

    def send(self, kind, session=0, token=0, body=b"", number=1, ack=1, flags=0):
        self.socket.send(PACKET.pack(MAGIC, VERSION, kind, session, token, number, ack, 0, ack + 32,
                                     time.monotonic_ns() // 16 & 0xffffffff, 0, flags, 0, bytes(16)) + body)

    def take(self):
        """What has come."""
        while select.select([self.socket], [], [], 0)[0]:
            try:
                data = self.socket.recv(2048)
            except ConnectionRefusedError:
                continue
            head, body = PACKET.unpack(data[:64]), data[64:]
            kind, number = head[2], head[3]
            if kind == KIND_COOKIE:
                self.send(KIND_OPEN, body=body)
            elif kind == KIND_OPENED:
                _, token, session, *_ = OPENED.unpack(body)
                self.opened[number] = session, token
                self.wanted.pop(number, None)
            elif kind == KIND_CLOSE:
                self.closed += 1
                self.opened.pop(number, None)
                self.wanted.pop(number, None)
            elif kind == KIND_UNKNOWN:
                self.unknown += 1
            elif kind == KIND_DATA:
                self.answers[number, head[5]] = body

    def open(self, count, for_s=10):
        """This many more, in time; what is lost on the way is asked again."""
        first = len(self.opened) + len(self.wanted) + self.closed + 1
        self.wanted.update({number: (random.getrandbits(64), random.getrandbits(64)) for number in range(first, first + count)})
        until = time.monotonic() + for_s * SLOW
        while self.wanted and time.monotonic() < until:
            for number, (client, token) in list(self.wanted.items())[:100]:
                self.send(KIND_OPEN, body=OPEN.pack(client, token, 0, number, 33))
            time.sleep(0.11)
            self.take()
        return len(self.opened)

    def ping_all(self):
        """What keeps them."""
        for at, (session, token) in enumerate(list(self.opened.values())):
            self.send(KIND_PING, session, token)
            if at % 100 == 0:
                self.take()
        self.take()

    def ask(self, number, sequence, frame):
        """A message and its answer, a packet each, over a session."""
        session, token = self.opened[number]

        def answered():
            self.send(KIND_DATA, session, token, frame, number=sequence, ack=sequence, flags=WHOLE)
            time.sleep(0.02)
            self.take()
            check(number in self.opened, "the session was closed")
            return self.answers.pop((number, sequence), None)
        answer = wait_until(answered, 20, f"answer {sequence} over a session")
        self.send(KIND_ACK, session, token, number=sequence + 1, ack=sequence + 1)
        return answer

    def end(self):
        self.socket.close()


def ask_at_once(node, count, place=contextlib.nullcontext):
    """Each of this many workers sends a small request while the node stands still; all are answered. place: where the workers
    are."""
    files(2 * count)
    with Stream(node, timeout_s=60) as first, contextlib.ExitStack() as stack:
        table = Table(node, "rows", dim=4)
        keys, to, workers = own_keys(node.layout(), table, 0, 1), first.socket.getpeername(), [copy.copy(first) for _ in range(count)]
        with place():
            for number, worker in enumerate(workers):
                worker.session, worker.socket = number + 1, stack.enter_context(socket.create_connection(to, 60 * SLOW))
        wait_until(lambda: node.sums()["connections"] == count + 1, 30, "all connections")
        node.process.signal(signal.SIGSTOP)
        try:
            for worker in workers:
                worker.send(push_op(table, keys, [[1.0] * 4]))
        finally:
            node.process.signal(signal.SIGCONT)
        for worker in workers:
            equal(worker.receive().status, "OK", "the status of a reply")
        equal(first.pull(table, keys), [[-count] * 4], "the row")
