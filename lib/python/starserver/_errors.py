# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions by cause. Each carries the message of libstar or a node, and a positive errno."""
import builtins
import errno as _errno

from . import _native


class StarError(Exception):
    """A call failed: str() is a message that names the node and says what to do, .errno the cause (see star.h)."""

    def __init__(self, errno, text):
        super().__init__(errno, text)
        self.errno = errno
        self.text = text

    def __str__(self):
        return self.text


class TimeoutError(StarError, builtins.TimeoutError):
    """The call has timed out. If it was a push, it is unknown which rows were applied."""


class NotFound(StarError):
    """There is no table or variable of that name."""


class Stale(StarError):
    """A node was restarted and has lost what it held: close the cluster, connect again, make the tables again."""


class Busy(StarError):
    """A node is overloaded and has refused requests until the deadline, or a checkpoint is being written already."""


_BY_ERRNO = {_errno.ETIMEDOUT: TimeoutError, _errno.ENOENT: NotFound, _errno.ESTALE: Stale, _errno.EBUSY: Busy}


def make_exception(errno, text):
    return _BY_ERRNO.get(errno, StarError)(errno, text)


_native.set_exception(make_exception)
