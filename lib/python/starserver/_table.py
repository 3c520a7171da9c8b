# SPDX-License-Identifier: BSD-3-Clause
"""Tables and variables: pull, push, assign, delete, with and without waiting."""
import math

from . import _native
from ._arrays import PULLED_AS, dtype_name, empty, key_buffer, list_dtype, microseconds, ndarray, row_buffer, value_buffer, whole_number
from ._futures import interruptible


class Operation:
    """One operation of Cluster.execute: made by pull_op(), push_op() and so on."""
    __slots__ = ("tuple", "result")

    def __init__(self, operation, result):
        self.tuple = operation
        self.result = result


class _Object:
    """What tables and variables have in common."""
    kind = ""

    def __init__(self, cluster, native, name, dtype, shape, optimizer):
        self.cluster = cluster
        self.name = name
        self.dtype = dtype
        self.optimizer = optimizer
        self._native = native
        self._shape = shape
        self._pulled_as = PULLED_AS[dtype]

    def _run(self, operation, timeout):
        timeout = microseconds(timeout)
        if operation.tuple:
            self.cluster._native.execute((operation.tuple,), timeout)
        return operation.result

    def _start(self, operation, timeout):
        return self.cluster._start([operation.tuple] if operation.tuple else [], operation.result, timeout)

    def _op(self, kind, flags, row, keys, values, results, dtype, step=0, rate=None, scale=None, tag=0, result=None,
            versions=None):
        if rate is not None:
            flags |= _native.RATE
        if scale is not None:
            flags |= _native.SCALE
        given = step
        if type(step) is not int:
            step = whole_number(step)
        if step is None or not 0 <= step < 1 << 64:
            raise ValueError(f"a step is a whole number from 1, or 0 for none; not {given!r}")
        return Operation((kind, flags, self._native, row, keys, values, results, dtype, step, float(rate or 0),
                          float(scale or 0), tag, versions), result)

    def commit_op(self, tag, *, open=False, by_row=False, step=0, rate=None, scale=None):
        """commit() as an operation for Cluster.execute()."""
        flags = (_native.OPEN if open else 0) | (_native.BY_ROW if by_row else 0)
        return self._op(_native.COMMIT, flags, 0, None, None, None, None, step, rate, scale, _tag(tag))

    def commit(self, tag, *, open=False, by_row=False, step=0, rate=None, scale=None, timeout=None):
        """Applies the sums with that tag, to which pushes with tag= have added, by the optimizer, once per row; scale: 1 / n
        for the mean of n
        gradients. Then those with tag + 1 are open. Each node does it once, however often it is asked. open: discards the
        present sums, and opens sums with that tag; tags never decrease. by_row: each row's sum is divided by how many pushes
        have added to it;
        to be given when they are opened, too. Raises StarError (EALREADY) when a later tag is open already,
        unless these sums were the last that were committed."""
        self._run(self.commit_op(tag, open=open, by_row=by_row, step=step, rate=rate, scale=scale), timeout)

    def commit_async(self, tag, *, open=False, by_row=False, step=0, rate=None, scale=None, timeout=None):
        """commit() without waiting: a Future of None."""
        return self._start(self.commit_op(tag, open=open, by_row=by_row, step=step, rate=rate, scale=scale), timeout)

    def empty(self, timeout=None):
        """Deletes all its rows on all nodes, with their optimizer's slots: they begin again at their initial values. The object stays
        valid. Rows that are made meanwhile may be deleted, too. May be called again after any failure."""
        interruptible(self._native.empty, microseconds(timeout))

    def drop(self, timeout=None):
        """Drops it on all nodes, and gives its memory back: the name may be used again, with any definition. Calls by this object and
        by all others of the same table raise NotFound from then on. Raises StarError (EHOSTUNREACH) when a node is away: then
        nothing was dropped."""
        interruptible(self._native.drop, microseconds(timeout))

    def _view(self, keys, count, shape, row, dtype, read_only, timeout):
        dtype = dtype or self._pulled_as
        if dtype == "scaled_int8":
            shape = (count, self._native.size()[2])
        if count == 0:
            raise ValueError("a view has one row at least")
        operation = self._op(_native.PULL, _native.READ_ONLY if read_only else 0, row, keys, None, None, dtype)
        return self.cluster._native.pull_view(operation.tuple, dtype, shape, microseconds(timeout))

    def _memory(self, out, shape, dtype):
        """(memory for rows of that shape, the caller's or new; its type; what the caller gets)."""
        if out is None:
            dtype = dtype or self._pulled_as
            out = empty(shape, dtype)
            return out, dtype, out
        _check_shape(out, shape, "out")
        return row_buffer(out), dtype, out

    def __reduce__(self):
        raise TypeError(f"the {self.kind} \"{self.name}\" cannot be pickled or copied, as its connections are this process's: pass its name, "
                        "and call connect() and lookup() there")

    def __repr__(self):
        return (f"<starserver.{type(self).__name__} \"{self.name}\" {self._describe()} {self.dtype}, optimizer "
                f"{self.optimizer}, of {self.cluster.ps}>")


def _tag(tag):
    """As libstar takes it: 0 for None."""
    if tag is None:
        return 0
    number = whole_number(tag)
    if number is None or not 0 < number < 1 << 64:
        raise ValueError(f"a tag of sums is a whole number from 1, not {tag!r}")
    return number


def _check_shape(values, shape, what):
    """Checks arrays of more than one dimension; flat memory is checked by its size, and so are raw bytes."""
    have = tuple(getattr(values, "shape", ()))
    if len(have) > 1 and have != tuple(shape) and getattr(values, "itemsize", 4) > 2:
        raise ValueError(f"{what} has the shape {have}; it must be {tuple(shape)}")


class Table(_Object):
    """A table: rows of `dim` elements by key. Keys are any 64-bit integers, int64 or uint64 (a negative key k is the
    same as 2**64 + k); rows are made when their key is first pulled or pushed.

    Arrays have the buffer protocol (NumPy arrays, array.array, memoryview), are C-contiguous and are not copied; lists are
    converted to the table's type (float32 for those that are stored in fewer bits). Wrong types raise TypeError, wrong shapes ValueError; what a node refuses raises StarError. A timeout is in
    seconds, None for 30. After a failed push, or one that Ctrl-C has interrupted, it is unknown which rows were applied.
    """
    kind = "table"

    @property
    def dim(self):
        """Elements of a row."""
        return self._shape[0]

    def _describe(self):
        return f"dim {self.dim}"

    def pull_op(self, keys, out=None, *, dtype=None, read_only=False, step=0, versions=None):
        """pull() as an operation for Cluster.execute()."""
        keys, count = key_buffer(keys)
        if versions is not None and out is None:
            raise ValueError("a pull by versions writes only the rows that have changed: pass out=, the rows as they were")
        memory, dtype, out = self._memory(out, (count, self.dim), dtype)
        if not count:
            return Operation(None, out)
        return self._op(_native.PULL, _native.READ_ONLY if read_only else 0, 0, keys, memory, None, dtype, step, result=out,
                        versions=versions)

    def pull(self, keys, out=None, *, dtype=None, read_only=False, step=0, versions=None, timeout=None):
        """Reads rows. keys: n int64 or uint64, in any order, repeated or not. Returns float32 of shape (n, dim) (float64
        and integers for tables of these; another one by dtype); written to `out` if that is given. read_only: creates no
        rows and counts nothing; a row that is not there reads as its initial value. step: the training step. versions: n
        uint32, zeros at first, kept beside `out`: only rows that have changed since are sent and written, with their new
        versions, if the table was made with versions=True."""
        if type(keys) is ndarray and keys.ndim == 1 and out is None and dtype is None and step == 0 and versions is None and \
                len(keys):
            # The usual case in training, without checks that it passes anyway: they take a third of a small call's time.
            rows = empty((len(keys), self._shape[0]), self._pulled_as)
            self.cluster._native.execute(((_native.PULL, _native.READ_ONLY if read_only else 0, self._native, 0, keys, rows,
                                           None, self._pulled_as, 0, 0.0, 0.0, 0),), microseconds(timeout))
            return rows
        return self._run(self.pull_op(keys, out, dtype=dtype, read_only=read_only, step=step, versions=versions), timeout)

    def pull_async(self, keys, out=None, *, dtype=None, read_only=False, step=0, versions=None, timeout=None):
        """pull() without waiting: a concurrent.futures.Future of the rows."""
        return self._start(self.pull_op(keys, out, dtype=dtype, read_only=read_only, step=step, versions=versions), timeout)

    def pull_view(self, keys, *, dtype=None, read_only=False, timeout=None):
        """Reads rows into libstar's memory: a View of shape (n, dim), read-only, for numpy.from_dlpack(view),
        torch.from_dlpack(view)
        or memoryview(view). dtype: any of a table's types, also one that NumPy does not know (bfloat16)."""
        keys, count = key_buffer(keys)
        return self._view(keys, count, (count, self.dim), 0, dtype, read_only, timeout)

    def push_op(self, keys, gradients, *, step=0, rate=None, scale=None, dtype=None, tag=None):
        """push() as an operation for Cluster.execute()."""
        return self._write(_native.PUSH, keys, gradients, dtype, step, rate, scale, tag)

    def push(self, keys, gradients, *, step=0, rate=None, scale=None, dtype=None, tag=None, timeout=None):
        """Applies gradients by the table's optimizer, exactly once. keys: n; those that occur again have their gradients
        summed. gradients: float32 (float16, float64) of shape (n, dim). step: the training step, from 1. rate: the learning
        rate instead of the table's own. scale: multiplies the gradients. tag: they are not applied, but added to the sums with that
        tag, for commit(); StarError (EALREADY) when these are not open. NaN and infinities raise StarError (EDOM), unless
        the table was made with nonfinite="clip" or "pass"; rows on other reactors may have been updated nevertheless."""
        self._run(self.push_op(keys, gradients, step=step, rate=rate, scale=scale, dtype=dtype, tag=tag), timeout)

    def push_async(self, keys, gradients, *, step=0, rate=None, scale=None, dtype=None, tag=None, timeout=None):
        """push() without waiting: a Future of None. keys and gradients must stay as they are until it is done."""
        return self._start(self.push_op(keys, gradients, step=step, rate=rate, scale=scale, dtype=dtype, tag=tag), timeout)

    def assign_op(self, keys, values, *, step=0, dtype=None):
        """assign() as an operation for Cluster.execute()."""
        return self._write(_native.ASSIGN, keys, values, dtype, step)

    def assign(self, keys, values, *, step=0, dtype=None, timeout=None):
        """Gives rows new values, of shape (n, dim); the optimizer's slots stay. If a key occurs several times, its last values
        count."""
        self._run(self.assign_op(keys, values, step=step, dtype=dtype), timeout)

    def assign_async(self, keys, values, *, step=0, dtype=None, timeout=None):
        """assign() without waiting: a Future of None."""
        return self._start(self.assign_op(keys, values, step=step, dtype=dtype), timeout)

    def push_pull_op(self, keys, gradients, out=None, *, step=0, rate=None, scale=None, dtype=None, at_once=False):
        """push_pull() as an operation for Cluster.execute()."""
        keys, count = key_buffer(keys)
        gradients = value_buffer(gradients, list_dtype(dtype, out, self._pulled_as))
        _check_shape(gradients, (count, self.dim), "gradients")
        if dtype is None and out is None:
            dtype = dtype_name(gradients, self._pulled_as)
        memory, dtype, out = self._memory(out, (count, self.dim), dtype)
        if not count:
            return Operation(None, out)
        return self._op(_native.PUSH_PULL, _native.AT_ONCE if at_once else 0, 0, keys, gradients, memory, dtype, step, rate, scale, result=out)

    def push_pull(self, keys, gradients, out=None, *, step=0, rate=None, scale=None, dtype=None, at_once=False,
                  timeout=None):
        """push() and pull() of the same keys in one trip: the rows as they are after the push, of the gradients' type.
        If the reply was lost with the connection, they may be later values; with at_once this is StarError (EREMOTEIO) instead:
        the push was applied, but the rows after it are not known."""
        return self._run(self.push_pull_op(keys, gradients, out, step=step, rate=rate, scale=scale, dtype=dtype, at_once=at_once),
                         timeout)

    def push_pull_async(self, keys, gradients, out=None, *, step=0, rate=None, scale=None, dtype=None, at_once=False,
                        timeout=None):
        """push_pull() without waiting: a Future of the rows."""
        return self._start(self.push_pull_op(keys, gradients, out, step=step, rate=rate, scale=scale, dtype=dtype, at_once=at_once),
                         timeout)

    def delete_op(self, keys):
        """delete() as an operation for Cluster.execute()."""
        keys, count = key_buffer(keys)
        return self._op(_native.DELETE, 0, 0, keys, None, None, None) if count else Operation(None, None)

    def delete(self, keys, timeout=None):
        """Removes rows; keys without a row are ignored."""
        self._run(self.delete_op(keys), timeout)

    def delete_async(self, keys, timeout=None):
        """delete() without waiting: a Future of None."""
        return self._start(self.delete_op(keys), timeout)

    def _write(self, kind, keys, values, dtype, step, rate=None, scale=None, tag=None):
        keys, count = key_buffer(keys)
        values = value_buffer(values, list_dtype(dtype, None, self._pulled_as))
        _check_shape(values, (count, self.dim), "the array of values")
        if not count:
            if memoryview(values).nbytes:
                raise ValueError("there are values, and no keys")
            return Operation(None, None)
        return self._op(kind, 0 if tag is None else _native.ACCUMULATE, 0, keys, values, None, dtype, step, rate, scale, _tag(tag))


class Variable(_Object):
    """A dense variable. Without `rows` a call applies to all of it, an array of its shape; with them to those rows of its first
    dimension, an array of shape (n, *shape[1:]), where these are whole blocks or fit into one (docs/libstar.rst).

    Arrays, errors and timeouts are as for Table.
    """
    kind = "variable"

    @property
    def shape(self):
        """Its sizes."""
        return self._shape

    def _describe(self):
        return f"shape {self._shape}"

    def _where(self, rows):
        """(keys, shape of the array, elements of a row or 0); None where there are no rows."""
        if rows is None:
            return None, self._shape, 0
        keys, count = key_buffer(rows)
        return (keys if count else False), (count, *self._shape[1:]), math.prod(self._shape[1:])

    def pull_op(self, rows=None, out=None, *, dtype=None, read_only=False, step=0):
        """pull() as an operation for Cluster.execute()."""
        keys, shape, row = self._where(rows)
        memory, dtype, out = self._memory(out, shape, dtype)
        if keys is False:
            return Operation(None, out)
        return self._op(_native.PULL, _native.READ_ONLY if read_only else 0, row, keys, memory, None, dtype, step, result=out)

    def pull(self, rows=None, out=None, *, dtype=None, read_only=False, step=0, timeout=None):
        """Reads it, or rows of it: float32 (float64, integers for variables of these; another one by dtype)."""
        return self._run(self.pull_op(rows, out, dtype=dtype, read_only=read_only, step=step), timeout)

    def pull_async(self, rows=None, out=None, *, dtype=None, read_only=False, step=0, timeout=None):
        """pull() without waiting: a Future of the values."""
        return self._start(self.pull_op(rows, out, dtype=dtype, read_only=read_only, step=step), timeout)

    def pull_view(self, rows=None, *, dtype=None, read_only=False, timeout=None):
        """Reads it, or rows of it, into libstar's memory: a View, as Table.pull_view()."""
        keys, shape, row = self._where(rows)
        return self._view(keys, shape[0], shape, row, dtype, read_only, timeout)

    def push_op(self, gradients, rows=None, *, step=0, rate=None, scale=None, dtype=None, tag=None):
        """push() as an operation for Cluster.execute()."""
        return self._write(_native.PUSH, gradients, rows, dtype, step, rate, scale, tag)

    def push(self, gradients, rows=None, *, step=0, rate=None, scale=None, dtype=None, tag=None, timeout=None):
        """Applies gradients by the variable's optimizer, exactly once. step, rate, scale, tag: as for Table.push()."""
        self._run(self.push_op(gradients, rows, step=step, rate=rate, scale=scale, dtype=dtype, tag=tag), timeout)

    def push_async(self, gradients, rows=None, *, step=0, rate=None, scale=None, dtype=None, tag=None, timeout=None):
        """push() without waiting: a Future of None."""
        return self._start(self.push_op(gradients, rows, step=step, rate=rate, scale=scale, dtype=dtype, tag=tag), timeout)

    def assign_op(self, values, rows=None, *, step=0, dtype=None):
        """assign() as an operation for Cluster.execute()."""
        return self._write(_native.ASSIGN, values, rows, dtype, step)

    def assign(self, values, rows=None, *, step=0, dtype=None, timeout=None):
        """Gives it, or rows of it that are whole blocks, new values; the optimizer's slots stay."""
        self._run(self.assign_op(values, rows, step=step, dtype=dtype), timeout)

    def assign_async(self, values, rows=None, *, step=0, dtype=None, timeout=None):
        """assign() without waiting: a Future of None."""
        return self._start(self.assign_op(values, rows, step=step, dtype=dtype), timeout)

    def push_pull_op(self, gradients, rows=None, out=None, *, step=0, rate=None, scale=None, dtype=None, at_once=False):
        """push_pull() as an operation for Cluster.execute()."""
        keys, shape, row = self._where(rows)
        gradients = value_buffer(gradients, list_dtype(dtype, out, self._pulled_as))
        _check_shape(gradients, shape, "the array of gradients")
        if dtype is None and out is None:
            dtype = dtype_name(gradients, self._pulled_as)
        memory, dtype, out = self._memory(out, shape, dtype)
        if keys is False:
            return Operation(None, out)
        return self._op(_native.PUSH_PULL, _native.AT_ONCE if at_once else 0, row, keys, gradients, memory, dtype, step, rate, scale, result=out)

    def push_pull(self, gradients, rows=None, out=None, *, step=0, rate=None, scale=None, dtype=None, at_once=False,
                  timeout=None):
        """push() and pull() in one trip: the values as they are after the push, of the gradients' type."""
        return self._run(self.push_pull_op(gradients, rows, out, step=step, rate=rate, scale=scale, dtype=dtype, at_once=at_once),
                         timeout)

    def push_pull_async(self, gradients, rows=None, out=None, *, step=0, rate=None, scale=None, dtype=None, at_once=False,
                        timeout=None):
        """push_pull() without waiting: a Future of the values."""
        return self._start(self.push_pull_op(gradients, rows, out, step=step, rate=rate, scale=scale, dtype=dtype, at_once=at_once),
                         timeout)

    def _write(self, kind, values, rows, dtype, step, rate=None, scale=None, tag=None):
        keys, shape, row = self._where(rows)
        values = value_buffer(values, list_dtype(dtype, None, self._pulled_as))
        _check_shape(values, shape, "the array of values")
        if keys is False:
            return Operation(None, None)
        return self._op(kind, 0 if tag is None else _native.ACCUMULATE, row, keys, values, None, dtype, step, rate, scale, _tag(tag))
