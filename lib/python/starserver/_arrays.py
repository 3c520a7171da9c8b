# SPDX-License-Identifier: BSD-3-Clause
"""Arrays, by NumPy where it is there, else by array and memoryview. Nothing here copies a buffer that has the right type."""
import array
import math

try:
    import numpy
except ImportError:
    numpy = None
ndarray = numpy.ndarray if numpy is not None else ()

# Element types of a table -> the type that its rows are pulled as, unless another one is asked for.
PULLED_AS = {"float32": "float32", "float16": "float32", "bfloat16": "float32", "scaled_int8": "float32",
             "float64": "float64", "int8": "int8", "int32": "int32", "int64": "int64"}
DEFAULT_TIMEOUT_S = 30.0
FORMATS = {"float32": "f", "float64": "d", "float16": "e", "int8": "b", "int32": "i", "int64": "q"}


def microseconds(timeout):
    """Of a timeout in seconds; None is the default."""
    if timeout is None:
        return 0
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not math.isfinite(timeout) or timeout <= 0:
        raise ValueError(f"a timeout is a number of seconds above 0, or None for {DEFAULT_TIMEOUT_S:g}; not {timeout!r}")
    return min(max(1, int(timeout * 1e6)), 1 << 62)


def dtype_name(values, otherwise):
    """The element type of a buffer."""
    form = memoryview(values).format.lstrip("@=<")
    return {"l": "int64", **{form: name for name, form in FORMATS.items()}}.get(form, otherwise)


def empty(shape, dtype):
    """New memory for rows: an ndarray, or without NumPy a memoryview."""
    if dtype not in FORMATS:
        raise ValueError(f"rows of dtype {dtype!r} can only be pulled into memory of yours: pass out= (a uint8 buffer), "
                         f"or one of the dtypes {', '.join(FORMATS)}")
    if numpy is not None:
        return numpy.empty(shape, dtype)
    count = math.prod(shape)
    if not count:
        return memoryview(array.array(FORMATS[dtype] if dtype != "float16" else "h"))
    size = {"f": 4, "d": 8, "e": 2, "b": 1, "i": 4, "q": 8}[FORMATS[dtype]]
    return memoryview(bytearray(count * size)).cast(FORMATS[dtype], shape)


def key_buffer(keys):
    """Keys as a buffer, and how many they are. Integers and sequences of them are converted; negative ones are as int64."""
    if isinstance(keys, int):
        keys = [keys]
    if isinstance(keys, (list, tuple, range, set, frozenset)):
        try:
            keys = array.array("Q", [key & 0xFFFFFFFFFFFFFFFF if -(1 << 63) <= key < (1 << 64) else _refuse(key)
                                     for key in keys])
        except TypeError:
            raise TypeError("keys are whole numbers: an int64 or uint64 array, or a sequence of int") from None
        return keys, len(keys)
    try:
        view = memoryview(keys)
    except TypeError:
        keys = _host_array(keys, "keys")
        view = memoryview(keys)
    if view.ndim == 0:
        raise ValueError("keys are one-dimensional; here is a scalar array: pass keys.reshape(1)")
    return keys, math.prod(view.shape)


def _refuse(key):
    raise ValueError(f"the key {key} does not fit into 64 bits: keys are from {-(1 << 63)} to {(1 << 64) - 1}")


def value_buffer(values, dtype):
    """Values as a buffer. Sequences of numbers are converted to that type; whole numbers are never rounded or cut off."""
    try:
        memoryview(values)
        return values
    except TypeError:
        pass
    if not isinstance(values, (list, tuple)):
        return _host_array(values, "values")
    if dtype.startswith("int"):
        return _whole_numbers(values, dtype)
    if numpy is not None:
        with numpy.errstate(over="ignore"):  # the node says what is no number
            return numpy.asarray(values, dtype)
    return array.array(FORMATS[dtype] if dtype != "float16" else "f", _flat(values))


def list_dtype(dtype, out, otherwise):
    """The type that a sequence of numbers is converted to: the one that is asked for, or that of the memory for rows, or the table's."""
    if dtype is None and out is not None:
        dtype = dtype_name(out, None)
    return dtype if dtype in FORMATS else otherwise


def _flat(values):
    return [number for row in values for number in (row if isinstance(row, (list, tuple)) else [row])]


def _whole_numbers(values, dtype):
    try:
        if numpy is None:
            return array.array(FORMATS[dtype], _flat(values))
        have = numpy.asarray(values, object)
        return numpy.array(array.array(FORMATS[dtype], have.ravel().tolist()), dtype).reshape(have.shape)
    except TypeError:
        raise TypeError(f"a list for a table of {dtype} has whole numbers only") from None
    except OverflowError:
        raise ValueError(f"a number in the list does not fit into {dtype}") from None


def _host_array(thing, what):
    """Of an object without the buffer protocol, as a torch tensor on the CPU: a view by __dlpack__ or __array__."""
    if numpy is not None and hasattr(thing, "__array__"):
        if getattr(thing, "requires_grad", False):
            thing = thing.detach()
        return numpy.asarray(thing)
    raise TypeError(f"{what} must have the buffer protocol, as a NumPy array has; not {type(thing).__name__}")
