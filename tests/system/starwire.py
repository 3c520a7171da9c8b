# SPDX-License-Identifier: BSD-3-Clause
"""The data plane, made by hand: frames over the kernel's TCP (lib/wire/frame.h), so that a test can also send frames that
libstar never would. Standard library only.

    with Net() as net, Server(net) as server:
        table = Table(server, "weights", dim=4)
        with Stream(server) as stream:
            stream.push(table, [1, 2], [[0.5] * 4] * 2)
            rows = stream.pull(table, [1, 2])
"""
import array
import contextlib
import itertools
import random
import socket
import struct
import sys
import zlib

from starlib import Failure, SECURE, SLOW, Skip, check, equal

__all__ = ["READ_ONLY", "REPLY", "PING", "PAYLOAD_MAX", "KEYS_MAX", "OPS_MAX", "Closed", "Frame", "Op", "Reply",
           "Table", "Stream", "definition", "pull_op", "push_op", "own_keys", "rows_of"]

FRAME = struct.Struct("<IBBBBQQIIII16sII")
OP = struct.Struct("<BBBBIIIIfQQfI")
RESULT = struct.Struct("<IIIIQ")
assert (FRAME.size, OP.size, RESULT.size, sys.byteorder) == (64, 48, 24, "little")

MAGIC, VERSION = 0x52415453, 4
EXECUTE, REPLY, PING = 1, 2, 3
PULL, PUSH, PUSH_PULL, DELETE, ASSIGN = 1, 2, 3, 4, 5
READ_ONLY = 1
FLOAT32 = 1
PAYLOAD_MAX, OPS_MAX, KEYS_MAX = 4 << 20, 64, 65536
STATUS = ("OK BAD_FRAME BAD_CHECKSUM BAD_REQUEST STALE_LAYOUT STALE_INCARNATION WRONG_SHARD UNKNOWN_OBJECT WRONG_DIM "
          "WRONG_TYPE NO_KEYS OVER_LIMIT NO_MEMORY DEADLINE BUSY SHUTTING_DOWN NOT_FINITE").split()
U64 = (1 << 64) - 1


class Closed(Failure):
    """The peer has ended the connection; .reset says how."""
    def __init__(self, what, is_reset=False):
        super().__init__(what)
        self.reset = is_reset


# Which reactor owns a key (lib/base/hash.h, lib/wire/layout.h)

def _mix(x):
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & U64
    x = (x ^ x >> 27) * 0x94d049bb133111eb & U64
    return x ^ x >> 31


def _hash_name(name):
    h = 0xcbf29ce484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001b3 & U64
    return _mix(h)


def owner(layout, table, key):
    """The reactor, counted over the whole cluster, that owns a key of a table."""
    h = _mix(_mix(key + 0x9e3779b97f4a7c15 & U64) ^ _hash_name(table.name))
    partition = h >> 65 - layout["partitions"].bit_length() if layout["partitions"] > 1 else 0
    return ((partition + 1) * layout["reactors"] - 1) // layout["partitions"]


def own_keys(layout, table, reactor, count, start=0):
    """The first `count` keys from start on that a reactor owns."""
    owned = (key for key in itertools.count(start) if owner(layout, table, key) == reactor)
    return list(itertools.islice(owned, count))


# Frames

class Frame:
    """A request's header; a test may spoil any field. The checksum is right unless it is given."""

    def __init__(self, payload=b"", **fields):
        self.payload = payload
        self.magic, self.version, self.opcode, self.flags, self.status = MAGIC, VERSION, EXECUTE, 0, 0
        self.session = self.sequence = self.epoch = self.incarnation = self.deadline_us = 0
        self.payload_bytes, self.auth_tag, self.reserved, self.checksum = len(payload), bytes(16), 0, None
        for name, value in fields.items():
            check(hasattr(self, name), f"a frame has no field {name}")
            setattr(self, name, value)

    def header(self, checksum):
        return FRAME.pack(self.magic, self.version, self.opcode, self.flags, self.status, self.session, self.sequence,
                          self.epoch, self.incarnation, self.deadline_us, self.payload_bytes, self.auth_tag,
                          self.reserved, checksum)

    def bytes(self):
        checksum = self.checksum
        if checksum is None:
            checksum = zlib.crc32(self.payload, zlib.crc32(self.header(0)))
        return self.header(checksum) + self.payload


def _padded(body):
    return body + bytes(-len(body) % 8)


class Op:
    """An operation of a request; a test may spoil any field."""

    def __init__(self, of_kind, table, body, of_keys, **fields):
        self.kind, self.flags, self.object, self.count = of_kind, 0, table.id, of_keys
        self.dtype = FLOAT32 if of_kind in (PUSH, PUSH_PULL) else 0
        self.result_dtype = FLOAT32 if of_kind in (PULL, PUSH_PULL) else 0
        self.dim, self.body_bytes, self.rate, self.step, self.body = table.dim, len(body), 0.0, 0, body
        self.version, self.scale, self.reserved = 0, 0.0, 0
        for name, value in fields.items():
            check(hasattr(self, name), f"an operation has no field {name}")
            setattr(self, name, value)

    def bytes(self):
        return OP.pack(self.kind, self.dtype, self.result_dtype, self.reserved, self.object, self.count, self.dim,
                       self.body_bytes, self.rate, self.step, self.version, self.scale, self.flags) + _padded(self.body)


def pull_op(table, keys, **fields):
    return Op(PULL, table, array.array("Q", keys).tobytes(), len(keys), **fields)


def push_op(table, keys, gradients, **fields):
    """gradients: a row for each key, or an array of floats of all rows."""
    if not isinstance(gradients, array.array):
        gradients = array.array("f", itertools.chain.from_iterable(gradients))
    return Op(PUSH, table, array.array("Q", keys).tobytes() + gradients.tobytes(), len(keys), **fields)


def rows_of(values, dim):
    """An array of floats as rows."""
    return [values[at:at + dim] for at in range(0, len(values), dim)]


class Reply:
    """A reply whose checksum was right: .status by name, .text of an error, .results: (object, array of floats)."""

    def __init__(self, header, payload):
        (magic, version, opcode, flags, status, self.session, self.sequence, self.epoch, self.incarnation, _, size, tag,
         reserved, checksum) = FRAME.unpack(header)
        equal((magic, version, opcode, flags, tag, reserved, size),
              (MAGIC, VERSION, REPLY, 0, bytes(16), 0, len(payload)), "the reply's fixed fields and size")
        equal(zlib.crc32(payload, zlib.crc32(header[:60] + bytes(4))), checksum, "the reply's checksum")
        self.status = STATUS[status] if status < len(STATUS) else f"unknown status {status}"
        self.text = payload.decode() if status else ""
        self.results = [] if status else list(self._read_results(payload))

    @staticmethod
    def _read_results(payload):
        at = 0
        while at < len(payload):
            number, count, dim, size, _ = RESULT.unpack_from(payload, at)
            check(size in (0, count * dim * 4) and at + RESULT.size + size <= len(payload),
                  f"a result of {count} rows of {dim} elements with {size} bytes")
            values = array.array("f")
            values.frombytes(payload[at + RESULT.size:at + RESULT.size + size])
            yield number, values
            at += RESULT.size + size + -size % 8


def definition(name, dim, **changes):
    """A table's definition, as `create` takes it."""
    return {"name": name, "kind": "table", "dtype": "float32", "dim": dim, "initializer": "zeros", "scale": 0,
            "seed": 1, "optimizer": "sgd", "rate": 1, **changes}


class Table:
    """A table, made by the control plane. Rows start at zeros, a push takes its gradient off, unless told otherwise."""

    def __init__(self, server, name, dim, **changes):
        made = server.call("create", **definition(name, dim, **changes))
        self.name, self.dim, self.id = name, dim, made["id"]


class Stream:
    """
    A connection from the namespace to the data port of a reactor, at the node's data address or at another one of the
    appliance's. receive_buffer: SO_RCVBUF. mss: TCP_MAXSEG. source: the address that it comes from. Layout and incarnation are those of the time when it was made.
    """

    def __init__(self, server, reactor=0, receive_buffer=None, timeout_s=20, host=None, mss=None, source=None):
        if SECURE and server.config.get("security", {}).get("data", "open") != "open":
            raise Skip("it makes frames by hand, in clear, which a node with tickets refuses")
        layout = server.layout()
        node = layout["nodes"][server.task]
        host = host or node["data_host"]
        self.epoch, self.incarnation = layout["epoch"], node["incarnation"]
        self.session, self.sequence = random.getrandbits(64), 0
        with server.net.inside():
            self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        self.socket.settimeout(timeout_s * SLOW)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if mss:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss)
        try:
            if source:
                self.socket.bind((source, 0))
            self.socket.connect((host, node["data_port"] + reactor))
        except BaseException:
            self.socket.close()
            raise

    def frame(self, *ops, **fields):
        """The bytes of the next request; ops: Op, or bytes."""
        self.sequence += 1
        payload = b"".join(op if isinstance(op, bytes) else op.bytes() for op in ops)
        return Frame(payload, **{"session": self.session, "sequence": self.sequence, "epoch": self.epoch,
                                 "incarnation": self.incarnation, **fields}).bytes()

    def send(self, *ops, **fields):
        self.write(self.frame(*ops, **fields))

    def write(self, data):
        try:
            self.socket.sendall(data)
        except (ConnectionResetError, BrokenPipeError) as error:
            raise Closed(f"the connection was ended while data was sent: {error}", True) from None

    def read(self, size):
        data = bytearray(size)
        view, at = memoryview(data), 0
        while at < size:
            try:
                got = self.socket.recv_into(view[at:])
            except (ConnectionResetError, BrokenPipeError) as error:
                raise Closed(f"the connection was reset after {at} of {size} bytes: {error}", True) from None
            except TimeoutError:
                raise Failure(f"no more than {at} of {size} bytes came within {self.socket.gettimeout()} s") from None
            if not got:
                raise Closed(f"the connection was closed after {at} of {size} bytes")
            at += got
        return bytes(data)

    def receive(self):
        """The next reply."""
        header = self.read(FRAME.size)
        size = FRAME.unpack(header)[10]
        check(size <= PAYLOAD_MAX, f"a reply of {size} bytes")
        return Reply(header, self.read(size))

    def ask(self, *ops, **fields):
        """A request and its reply, of whatever status."""
        self.send(*ops, **fields)
        reply = self.receive()
        equal((reply.session, reply.sequence), (self.session, self.sequence), "session and sequence of the reply")
        return reply

    def execute(self, *ops, **fields):
        """The results of a request that must succeed."""
        reply = self.ask(*ops, **fields)
        check(reply.status == "OK", f"{reply.status}: {reply.text}")
        equal([number for number, _ in reply.results], [op.object for op in ops], "the objects of the results")
        return [values for _, values in reply.results]

    def pull(self, table, keys, **fields):
        """Rows, as lists of floats."""
        values = self.execute(pull_op(table, keys, **fields))[0]
        equal(len(values), len(keys) * table.dim, "the elements pulled")
        return [row.tolist() for row in rows_of(values, table.dim)]

    def push(self, table, keys, gradients, **fields):
        self.execute(push_op(table, keys, gradients, **fields))

    def wait_closed(self):
        """Waits for the end of the connection. True when it was reset, False when it was closed in order."""
        try:
            rest = self.read(1)
        except Closed as closed:
            return closed.reset
        raise Failure(f"the connection goes on with {rest!r}")

    def reset(self):
        """Ends it by a RST, as the kernel does for a process that dies with unread data."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.close()
