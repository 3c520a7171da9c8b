# SPDX-License-Identifier: BSD-3-Clause
"""Storage that stalls, fails or fills when a test says so: tests/system/storage, preloaded into the nodes."""
import mmap
import os
import struct
import tempfile

from starlib import *

__all__ = ["Storage", "CALLS"]

# What a save and a restore do to files.
CALLS = ["open", "mkdir", "write", "sync", "rename", "stat", "list", "lock", "read", "unlink"]
ORDER = struct.Struct("16sIiII")


class Storage:
    """.env makes a node obey. stall and fail hold for the calls of that name, or "any", from the one after `skip` on, until mend."""

    def __init__(self, folder):
        number, path = tempfile.mkstemp(dir=scratch())
        os.ftruncate(number, ORDER.size)
        self.memory = mmap.mmap(number, ORDER.size)
        os.close(number)
        self.orders = 0
        self.env = {"LD_PRELOAD": os.path.join(BUILD, "tests/system/storage/star-storage.so"),
                    "STAR_STORAGE_FOLDER": folder, "STAR_STORAGE_ORDER": path}

    def _order(self, call, error, skip):
        self.orders += 1
        # The name last: no call may see half of an order.
        self.memory[:16] = bytes(16)
        self.memory[16:] = ORDER.pack(b"", self.orders, error, skip, 0)[16:]
        self.memory[:16] = call.encode().ljust(16, b"\0")

    def stall(self, call, skip=0):
        self._order(call, 0, skip)

    def fail(self, call, error, skip=0):
        self._order(call, error, skip)

    def mend(self):
        self._order("", 0, 0)

    def met(self):
        """How many calls the order was meant for so far."""
        return ORDER.unpack(self.memory[:])[4]
