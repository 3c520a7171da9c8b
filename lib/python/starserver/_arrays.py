# SPDX-License-Identifier: BSD-3-Clause
"""Arrays, by NumPy where it is installed, else by array and memoryview. Nothing here copies a buffer that has the right
type."""
import array
import math
import operator

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
    """Microseconds of a timeout in seconds; None: 0, which stands for the default."""
    if timeout is None:
        return 0
    # __float__: numbers of NumPy's types are accepted too.
    if isinstance(timeout, bool) or not hasattr(timeout, "__float__") or not math.isfinite(timeout) or timeout <= 0:
        raise ValueError(f"a timeout is a number of seconds above 0, or None for {DEFAULT_TIMEOUT_S:g}; not {timeout!r}")
    return min(max(1, int(timeout * 1e6)), 1 << 62)


def seconds(timeout):
    """The same for what Python itself waits for. Its sockets take 24 days at most."""
    return min(microseconds(timeout) / 1e6, 20 * 86400.0) or DEFAULT_TIMEOUT_S


def whole_number(value):
    """An int of an int or of one of NumPy's integers; None for anything else, bool included."""
    if isinstance(value, bool) or str(getattr(value, "dtype", "")) in ("bool", "torch.bool"):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


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
    if isinstance(keys, int) or hasattr(keys, "__index__") and not hasattr(keys, "__len__"):
        keys = [keys]
    if isinstance(keys, (list, tuple, range, set, frozenset)):
        keys = array.array("Q", [_key(key) for key in keys])
        return keys, len(keys)
    try:
        view = memoryview(keys)
    except TypeError:
        keys = _host_array(keys, "keys")
        view = memoryview(keys)
    if view.ndim == 0:
        raise ValueError("keys are one-dimensional; here is a scalar array: pass keys.reshape(1)")
    return keys, math.prod(view.shape)


def _key(key):
    """As uint64, of an int or one of NumPy's integers."""
    number = key if type(key) is int else whole_number(key)
    if number is None:
        raise TypeError(f"keys are whole numbers: an int64 or uint64 array, or a sequence of int; not {type(key).__name__}")
    if not -(1 << 63) <= number < 1 << 64:
        raise ValueError(f"the key {number} does not fit into 64 bits: keys are from {-(1 << 63)} to {(1 << 64) - 1}")
    return number & 0xFFFFFFFFFFFFFFFF


def row_buffer(out):
    """Memory that rows are written to, as a buffer."""
    try:
        memoryview(out)
        return out
    except TypeError:
        pass
    first, second = _host_array(out, "the rows' memory (out)"), _host_array(out, "the rows' memory (out)")
    # If each access made a copy, the rows would be lost.
    if first.ctypes.data != second.ctypes.data:
        raise TypeError(f"the rows' memory (out) must have the buffer protocol, as a NumPy array has; {type(out).__name__} gives a copy")
    return first


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
        with numpy.errstate(over="ignore"):  # the node refuses what is not finite
            return numpy.asarray(values, dtype)
    return array.array(FORMATS[dtype] if dtype != "float16" else "f", _flat(values))


def list_dtype(dtype, out, otherwise):
    """The type that a sequence of numbers is converted to: the one that is asked for, or that of the memory for rows, or the table's."""
    if dtype is None and out is not None:
        dtype = dtype_name(row_buffer(out), None)
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
        try:
            return numpy.asarray(thing)
        except (TypeError, RuntimeError) as error:  # bfloat16, a GPU's, a sparse one
            raise TypeError(f"{what}: NumPy cannot have this {type(thing).__name__} ({error}); pass one on the CPU, of a type that "
                            "NumPy has, as of a tensor x.float().cpu()") from None
    raise TypeError(f"{what} must have the buffer protocol, as a NumPy array has; not {type(thing).__name__}")
