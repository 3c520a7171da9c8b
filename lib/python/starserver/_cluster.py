# SPDX-License-Identifier: BSD-3-Clause
"""A cluster that was connected to: its tables, variables, checkpoints, status."""
import atexit
import os
import threading
import weakref
from collections.abc import Iterable

from . import _control, _native
from ._arrays import microseconds, seconds, whole_number
from ._futures import Future, in_background, interruptible
from ._table import Operation, Table, Variable


def connect(ps, timeout=None):
    """Opens a cluster and waits until all its nodes have joined.

    ps: the control addresses of the PS tasks in task order, "tcp:host:port,host:port,..." (the prefix may be left out);
    or "dpdk:FILE" (docs/libstar.rst). timeout: seconds (30). Returns a Cluster; raises StarError, TimeoutError.
    """
    if not isinstance(ps, str):
        raise TypeError(f"the addresses are a string like \"tcp:host:3333\", not {type(ps).__name__}")
    return Cluster(ps, interruptible(_native.open, ps, microseconds(timeout), discard=lambda native: native.close()))


def _deliver(native):
    """The thread that ends asynchronous calls."""
    while (completed := native.completions()) is not None:
        for future, exception in completed:
            try:
                if exception is None:
                    future.set_result(future.star_result)
                else:
                    future.set_exception(exception)
            except Exception:  # a callback of the user's: concurrent.futures has logged it
                pass
        # A thread that waits again must keep no future, and so no rows, alive.
        completed = future = exception = None


def _whole(what, value):
    """An int of an int or of one of NumPy's integers."""
    number = whole_number(value)
    if number is None:
        raise TypeError(f"{what} is a whole number, not {type(value).__name__}")
    return number


def _checked(operations):
    """A list of operations."""
    operations = list(operations)
    for op in operations:
        if not isinstance(op, Operation):
            raise TypeError(f"an operation is what table.pull_op() and the like return, not {type(op).__name__}")
    return operations


_living = weakref.WeakSet()


@atexit.register
def _close_all():
    for cluster in list(_living):
        cluster.close()


def _renew_locks():
    """In a child of fork: a thread that exists only in the parent may have held them."""
    for cluster in list(_living):
        cluster._lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_locks)


def open_cluster():
    """The only one that is open in this process. Raises ValueError when there is none, or several."""
    found = [cluster for cluster in list(_living) if not cluster.closed]
    if len(found) != 1:
        raise ValueError(f"{len(found)} clusters are open: pass cluster=, what starserver.connect() has returned")
    return found[0]


class Cluster:
    """An open cluster: what connect() returns. Every method may be called from any thread; close() ends what is in flight.

    After fork() a child must not use it: it gets a StarError that says so, and connects by itself.
    """

    def __init__(self, ps, native):
        self.ps = ps
        self._native = native
        self._thread = None
        self._lock = threading.Lock()
        self._closed = False
        self._finalizer = weakref.finalize(self, native.close)
        self._finalizer.atexit = False
        _living.add(self)

    def table(self, name, dim, *, dtype="float32", optimizer=None, rate=None, initializer=None, scale=0.0, seed=0,
              timeout=None, **options):
        """Creates a table of rows, or finds it when it exists with the same definition.

        name: 1 to 127 bytes. dim: elements of a row, 1 to 4096. dtype: as stored: "float32", "float16", "bfloat16",
        "float64", "scaled_int8"; without optimizer "int8", "int32", "int64". optimizer: "sgd" (the default), "adagrad",
        "adam", ... (docs/optimizers.rst); rate: learning rate (None: 0.01; adam's family 0.001). initializer: "zeros", "uniform",
        "normal", ...; scale: its range or standard deviation; seed: its seed, from -2^63 to 2^64 - 1: a negative one k
        stands for 2^64 + k, as with keys. timeout: seconds. Further options by name as
        `starctl tables options` lists them: filter="counter", filter_frequency=3, steps_to_live=1000, ...
        Returns a Table. Raises StarError with errno EEXIST when it exists with another definition.
        """
        native = self._create(None, name, dtype, dim, optimizer, rate, initializer, scale, seed, timeout, options)
        return Table(self, native, name, dtype, (dim,), optimizer or "sgd")

    def variable(self, name, shape, *, dtype="float32", optimizer=None, rate=None, initializer=None, scale=0.0, seed=0,
                 timeout=None, **options):
        """Creates a dense variable of that shape (1 to 8 sizes), or finds it; the rest is as for table(). Returns a Variable."""
        sizes = shape if isinstance(shape, Iterable) else (shape,)
        shape = tuple(_whole("a size of a shape", size) for size in sizes)
        if any(size < 1 for size in shape):
            raise ValueError(f"variable \"{name}\": a shape has sizes of 1 and more, not {shape}")
        native = self._create(shape, name, dtype, 0, optimizer, rate, initializer, scale, seed, timeout, options)
        return Variable(self, native, name, dtype, shape, optimizer or "sgd")

    def _create(self, shape, name, dtype, dim, optimizer, rate, initializer, scale, seed, timeout, options):
        if not isinstance(name, str):
            raise TypeError(f"a name is a string, not {type(name).__name__}")
        dim, seed = _whole("dim", dim), _whole("seed", seed)
        if not -1 << 63 <= seed < 1 << 64:
            raise ValueError(f"seed is from -2^63 to 2^64 - 1, not {seed}: a negative one k stands for 2^64 + k")
        if dim < 0 or dim >= 1 << 31:
            raise ValueError(f"dim is from 1 to 4096, not {dim}")
        if rate == 0:
            options = {**options, "rate": 0}  # libstar's struct has 0 for the default
        text = ", ".join(f"{key}={int(value) if isinstance(value, bool) else value}" for key, value in options.items())
        return interruptible(self._native.create, shape, name, str(dtype), dim, initializer, float(scale),
                             seed & 0xFFFFFFFFFFFFFFFF, optimizer, float(rate or 0), text or None, microseconds(timeout))

    def lookup(self, name, timeout=None):
        """Finds a table or variable that exists: a Table or a Variable. Raises NotFound."""
        native = interruptible(self._native.lookup, name, microseconds(timeout))
        spec = self.definition(name, timeout)
        kind = Variable if spec["kind"] == "variable" else Table
        shape = tuple(spec["shape"]) if kind is Variable else (spec["dim"],)
        return kind(self, native, name, spec["dtype"], shape, spec["optimizer"])

    def definition(self, name, timeout=None):
        """What a table or variable was made with: a dict of all its options."""
        def ask():
            return _control.ask_any(_control.addresses(self.ps), "lookup", seconds(timeout), name=name)
        return interruptible(ask)

    def execute(self, operations, timeout=None):
        """Executes operations (Table.pull_op and the like) in one round trip to each reactor. Returns a list: an array for
        each pull and push_pull, None for the rest."""
        operations = _checked(operations)
        tuples = [op.tuple for op in operations if op.tuple]
        if tuples:
            self._native.execute(tuples, microseconds(timeout))
        return [op.result for op in operations]

    def execute_async(self, operations, timeout=None):
        """The same without waiting: a Future of the list, which coroutines may await. The arrays of the operations must stay as they are
        until it is done."""
        operations = _checked(operations)
        return self._start([op.tuple for op in operations if op.tuple], [op.result for op in operations], timeout)

    def _start(self, tuples, result, timeout):
        future = Future()
        future.set_running_or_notify_cancel()  # it is in flight: cancel() returns False
        if not tuples:
            future.set_result(result)
            return future
        future.star_result = result
        if self._thread is None:
            with self._lock:
                if self._thread is None and not self._closed:
                    self._thread = threading.Thread(target=_deliver, args=(self._native,), name="starserver-futures",
                                                    daemon=True)
                    self._thread.start()
        self._native.execute_async(tuples, microseconds(timeout), future)
        return future

    def checkpoint(self, kind=None, timeout=None):
        """Asks for a checkpoint of all nodes, and waits until it counts. kind: "full", or None for a delta where that is
        possible. timeout: seconds. Raises Busy while another is being written, StarError when no directory is configured."""
        interruptible(self._native.checkpoint, kind, microseconds(timeout))

    def checkpoint_async(self, kind=None, timeout=None):
        """checkpoint() without waiting: a Future of None. Training may go on meanwhile."""
        return in_background(self._native.checkpoint, kind, microseconds(timeout))

    def status(self, timeout=None):
        """The status of each PS task, a list of dicts in task order (docs/control.rst, "status"); for a pair that of the node
        that
        serves, else the one that answers."""
        return interruptible(self._ask_status, seconds(timeout))

    def status_async(self, timeout=None):
        """status() without waiting: a Future of the list."""
        return in_background(self._ask_status, seconds(timeout))

    def _ask_status(self, timeout):
        return [_control.status(task, timeout) for task in _control.tasks(self.ps)]

    @property
    def reactors(self):
        """The number of reactors of all nodes: each has a part of each table."""
        return self._native.reactors()

    @property
    def closed(self):
        return self._closed

    def close(self):
        """Ends what is in flight with StarError (ECANCELED), and frees the connections. May be called again."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        self._native.close()
        if thread and thread is not threading.current_thread() and thread.is_alive():
            thread.join(5)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __reduce__(self):
        raise TypeError("a cluster cannot be pickled or copied, as its connections are this process's: pass its address, cluster.ps, and call "
                        "starserver.connect() there")

    def __repr__(self):
        return f"<starserver.Cluster {self.ps}{', closed' if self._closed else ''}>"
