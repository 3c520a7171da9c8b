# SPDX-License-Identifier: BSD-3-Clause
"""A decoder of TensorBoard's event files that shares nothing with the two that write them, startrain and starserver.torch."""
import struct
import time

from starlib import check, equal


def crc32c(data):
    """By polynomial division, the bits of each byte from the lowest."""
    crc = 0xffffffff
    for byte in data:
        for bit in range(8):
            top = (crc ^ byte >> bit) & 1
            crc = crc >> 1 ^ 0x82f63b78 * top
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def records(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        length, crc = struct.unpack_from("<QI", data, at)
        equal(crc, masked(data[at:at + 8]), "the CRC of a length")
        body = data[at + 12:at + 12 + length]
        equal(len(body), length, "a record's length")
        equal(struct.unpack_from("<I", data, at + 12 + length)[0], masked(body), "the CRC of a record")
        yield body
        at += 16 + length


def fields(message):
    """Number and value of each field of a protocol buffer."""
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if not byte & 0x80:
                return value
    at = 0
    while at < len(message):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            value = message[at:at + size]
            at += size
        yield key >> 3, value


def events(path):
    """(step, {name: figure}) of each event."""
    for number, body in enumerate(records(path)):
        event = dict(fields(body))
        check(abs(struct.unpack("<d", event[1])[0] - time.time()) < 3600, "the wall time")
        if number == 0:
            equal(event[3], b"brain.Event:2", "the version")
            continue
        scalars = [dict(fields(value)) for tag, value in fields(event[5]) if tag == 1]
        yield event.get(2, 0), {scalar[1].decode(): struct.unpack("<f", scalar[2])[0] for scalar in scalars}
