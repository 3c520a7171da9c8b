# SPDX-License-Identifier: BSD-3-Clause
"""One thread of a running appliance stands still, while the others go on."""
import contextlib
import ctypes
import errno
import os

from starlib import *

__all__ = ["threads", "halted"]

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def threads(pid, name):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/comm") as file:
            if file.read().strip() == name:
                found.append(int(task))
    return found


def ptrace(request, thread):
    LIBC.ptrace.restype = ctypes.c_long
    LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if LIBC.ptrace(request, thread, None, None):
        code = ctypes.get_errno()
        if code in (errno.EPERM, errno.ENOSYS):
            raise Skip("this machine allows no ptrace")
        raise OSError(code, "ptrace")


@contextlib.contextmanager
def halted(thread):
    """One thread of another process stands still meanwhile; the others run."""
    ptrace(PTRACE_SEIZE, thread)
    ptrace(PTRACE_INTERRUPT, thread)
    os.waitpid(thread, WALL)
    try:
        yield
    finally:
        ptrace(PTRACE_DETACH, thread)
