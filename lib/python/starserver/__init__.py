# SPDX-License-Identifier: BSD-3-Clause
"""StarServer's worker side for Python: tables of embedding rows and dense variables that parameter servers hold.

    import starserver

    with starserver.connect("tcp:198.18.0.1:3333") as cluster:
        table = cluster.table("words", dim=16, optimizer="adagrad", rate=0.1)
        rows = table.pull([3, 5, 8])                 # float32, shape (3, 16)
        table.push([3, 5, 8], gradients)             # float32, shape (3, 16)

LocalCluster starts nodes on this machine, for notebooks and tests. docs/python.rst is the manual.
"""
try:
    from . import _native
except ImportError as error:
    raise ImportError(f"{error}; starserver needs Debian's libjansson4, libconfig9, libipsec-mb1 and libssl3 beside libstar (docs/python.rst, "
                      "Install)") from error
from ._errors import Busy, NotFound, Stale, StarError, TimeoutError
from ._cluster import Cluster, connect
from ._table import Operation, Table, Variable
from ._local import LocalCluster
from ._futures import Future

View, __version__ = _native.View, _native.version

__all__ = ["Busy", "Cluster", "Future", "LocalCluster", "NotFound", "Operation", "Stale", "StarError", "Table", "TimeoutError",
           "Variable", "View", "connect"]
