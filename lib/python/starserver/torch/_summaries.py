# SPDX-License-Identifier: BSD-3-Clause
"""Summaries for TensorBoard, written without TensorBoard.

The formats: TensorFlow's record_writer.h (a record: length, its masked CRC, data, its masked CRC), event.proto and summary.proto (the
numbers of the fields below).
"""
from __future__ import annotations

import math
import os
import socket
import struct
import threading
import time

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types of protocol buffers


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ 0x82f63b78 * (byte & 1)
        table.append(byte)
    return table


_TABLE = _crc_table()


def _masked_crc(data: bytes) -> bytes:
    """CRC-32C, as records have it."""
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xff]
    crc ^= 0xffffffff
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, kind: int, data: bytes) -> bytes:
    return _varint(number << 3 | kind) + (_varint(len(data)) if kind == BYTES else b"") + data


def _float(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def _event(*fields: bytes) -> bytes:
    return _field(1, FIXED64, struct.pack("<d", time.time())) + b"".join(fields)


class Summaries:
    """Figures of a training for TensorBoard, which need not be installed here: one event file in `directory`, which is made if need
    be. A context manager; may be used by several threads.

        with starserver.torch.Summaries("logs") as summaries:
            summaries.write(optimizer.global_step, loss=loss.item())

    Of several workers one writes (worker.is_chief), or each has a directory of its own. Raises OSError where the file cannot be
    written; what was written before stays intact.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        os.makedirs(directory, exist_ok=True)
        self.path = os.path.join(os.fspath(directory), f"events.out.tfevents.{time.time_ns() // 10**9}.{socket.gethostname()}.{os.getpid()}")
        self._fd: int | None = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._lock = threading.Lock()
        self._record(_event(_field(3, BYTES, b"brain.Event:2")))

    def write(self, step: int, **figures: float) -> None:
        """Each figure under its name, at that step. TensorBoard shows a "/" in a name as a group: write(step, **{"loss/train": 0.5})."""
        if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < 1 << 63:
            raise ValueError(f"a step is a whole number from 0, not {step!r}")
        values = b"".join(_field(1, BYTES, _field(1, BYTES, name.encode()) + _field(2, FIXED32, _float(float(value))))
                          for name, value in figures.items())
        self._record(_event(_field(2, VARINT, _varint(step)), _field(5, BYTES, values)))

    def _record(self, data: bytes) -> None:
        length = struct.pack("<Q", len(data))
        record = length + _masked_crc(length) + data + _masked_crc(data)
        with self._lock:
            if self._fd is None:
                raise ValueError("the summaries are closed")
            size = os.fstat(self._fd).st_size
            try:
                while record:
                    record = record[os.write(self._fd, record):]
            except OSError:
                os.ftruncate(self._fd, size)  # a reader stops at a record that is cut off, and sees nothing that comes after it
                raise

    def close(self) -> None:
        """May be called again."""
        with self._lock:
            fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def __enter__(self) -> Summaries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_fd", None) is not None:
            self.close()
