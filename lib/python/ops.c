/* SPDX-License-Identifier: BSD-3-Clause */
/* A call's operations: the tuples from starserver/, whose buffers are checked before they are passed to libstar. */
#include "native.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS, VALUES, RESULTS, VERSIONS, BUFFERS };

/* The element type for a buffer's format in this machine's byte order; NULL: there is none. */
static const char *dtype_of(const Py_buffer *b)
{
	const char *format = b->format ? b->format : "B";

	if (*format == '@' || *format == '=' || *format == '<')
		format++;
	if (!*format || format[1])
		return NULL;
	switch (*format) {
	case 'e':
		return "float16";
	case 'f':
		return "float32";
	case 'd':
		return "float64";
	case 'b':
		return "int8";
	case 'i':
	case 'l':
	case 'q':
		return b->itemsize == 8 ? "int64" : b->itemsize == 4 ? "int32" : NULL;
	case 'Q':
	case 'L':
		return b->itemsize == 8 ? "uint64" : NULL;
	case 'H':
		return "uint16";
	case 'B':
		return "uint8";
	default:
		return NULL;
	}
}

/* False with an exception: it is not a buffer, or has gaps. */
static bool take_buffer(PyObject *object, Py_buffer *b, const char *what)
{
	if (PyObject_GetBuffer(object, b, PyBUF_RECORDS_RO) < 0) {
		b->obj = NULL;
		if (PyErr_ExceptionMatches(PyExc_TypeError))
			PyErr_Format(PyExc_TypeError, "%s must have the buffer protocol, as a NumPy array has; not %R",
				     what, (PyObject *)Py_TYPE(object));
		return false;
	}
	if (!PyBuffer_IsContiguous(b, 'C')) {
		PyErr_Format(PyExc_ValueError, "%s are not contiguous in memory: pass numpy.ascontiguousarray(...)",
			     what);
		return false;
	}
	if (b->itemsize && (uintptr_t)b->buf % (size_t)b->itemsize) {
		PyErr_Format(PyExc_ValueError, "%s are not aligned to their %zd bytes each: pass a copy", what,
			     b->itemsize);
		return false;
	}
	return true;
}

static bool take_keys(PyObject *object, Py_buffer *b, struct star_op *op)
{
	const char *dtype;
	Py_ssize_t count;

	if (object == Py_None)
		return true;
	if (!take_buffer(object, b, "the keys"))
		return false;
	dtype = dtype_of(b);
	if (!dtype || (strcmp(dtype, "int64") != 0 && strcmp(dtype, "uint64") != 0)) {
		PyErr_Format(PyExc_TypeError,
			     "keys are int64 or uint64, not of format \"%s\" (%s): pass keys.astype(\"int64\")",
			     b->format ? b->format : "B", dtype ? dtype : "unknown");
		return false;
	}
	count = b->len / 8;
	if (b->ndim > 1 || count < 1 || count > UINT32_MAX) {
		PyErr_Format(PyExc_ValueError,
			     "keys are one-dimensional, 1 to 4294967295 of them; these have %d dimensions and %zd keys",
			     b->ndim, count);
		return false;
	}
	op->keys = b->buf;
	op->count = (uint32_t)count;
	return true;
}

/* The requested type, or that of the buffer: with raw bytes it must be given. */
static bool agree_dtype(const Py_buffer *b, struct star_op *op, const char *what)
{
	const char *dtype = dtype_of(b);
	const bool raw = dtype && (strcmp(dtype, "uint8") == 0 || strcmp(dtype, "uint16") == 0);

	if (dtype && !raw && (!op->dtype || strcmp(op->dtype, dtype) == 0)) {
		op->dtype = dtype;
		return true;
	}
	if (raw && op->dtype &&
	    (strcmp(dtype, "uint8") == 0 ? strcmp(op->dtype, "scaled_int8") == 0 || strcmp(op->dtype, "bfloat16") == 0
					 : strcmp(op->dtype, "bfloat16") == 0))
		return true;
	PyErr_Format(
		PyExc_TypeError,
		"%s are of format \"%s\" (%s)%s%s; possible values are float32, float64, float16, int8, int32, int64, "
		"and with dtype=\"bfloat16\" or \"scaled_int8\" raw bytes (uint8)",
		what, b->format ? b->format : "B", dtype ? dtype : "unknown", op->dtype ? ", not of dtype " : "",
		op->dtype ? op->dtype : "");
	return false;
}

static bool take_rows(PyObject *object, Py_buffer *b, struct star_op *op, uint64_t row_elements, bool written)
{
	const char *what = written ? "the rows' memory (out)" : "the values";
	uint64_t bytes;

	if (!take_buffer(object, b, what) || !agree_dtype(b, op, what))
		return false;
	if (written && b->readonly) {
		PyErr_Format(PyExc_ValueError, "%s is read-only: rows are to be written there", what);
		return false;
	}
	if (row_elements)
		bytes = row_elements * (uint64_t)b->itemsize;
	else
		bytes = star_bytes(op->table, op->dtype);
	bytes *= op->count ? op->count : 1;
	if (bytes != (uint64_t)b->len ||
	    (op->count && b->ndim > 1 && b->itemsize > 2 && b->shape[0] != (Py_ssize_t)op->count)) {
		PyErr_Format(PyExc_ValueError,
			     "%s have %zd bytes, their first dimension is %zd; %u rows of %s take %llu bytes: a shape "
			     "of (%u, %llu)",
			     what, b->len, b->ndim ? b->shape[0] : (Py_ssize_t)1, op->count ? op->count : 1, op->dtype,
			     (unsigned long long)bytes, op->count ? op->count : 1,
			     (unsigned long long)(row_elements ? row_elements : star_elements(op->table)));
		return false;
	}
	return true;
}

static bool take_versions(PyObject *object, Py_buffer *b, struct star_op *op)
{
	const uint64_t count = op->count ? op->count : star_blocks(op->table);

	if (!take_buffer(object, b, "the versions"))
		return false;
	if (b->readonly || b->itemsize != 4 || !b->format || !strchr("IL", b->format[strlen(b->format) - 1]) ||
	    (uint64_t)b->len != count * 4) {
		PyErr_Format(PyExc_ValueError,
			     "versions are %llu writable uint32, initially zero; these are %zd bytes of format \"%s\"",
			     (unsigned long long)count, b->len, b->format ? b->format : "B");
		return false;
	}
	op->versions = b->buf;
	return true;
}

static bool fill_op(struct star_op *op, Py_buffer *buffers, struct py_cluster *cluster, PyObject *tuple)
{
	PyObject *table, *keys, *values, *results, *versions = Py_None;
	unsigned long long row_elements, step, tag;
	int kind;
	unsigned flags;

	memset(op, 0, sizeof(*op));
	if (!PyTuple_Check(tuple)) {
		PyErr_SetString(PyExc_TypeError, "an operation is a tuple");
		return false;
	}
	if (!PyArg_ParseTuple(tuple, "iIO!KOOOzKffK|O", &kind, &flags, native_table_type, &table, &row_elements, &keys,
			      &values, &results, &op->dtype, &step, &op->rate, &op->scale, &tag, &versions))
		return false;
	if (((struct py_table *)table)->cluster != cluster) {
		PyErr_SetString(PyExc_ValueError, "the operation's table belongs to another cluster");
		return false;
	}
	op->kind = (enum star_op_kind)kind;
	op->flags = flags;
	op->table = ((struct py_table *)table)->handle;
	op->step = step;
	op->tag = tag;
	if (!take_keys(keys, &buffers[KEYS], op))
		return false;
	if (values != Py_None) {
		if (!take_rows(values, &buffers[VALUES], op, row_elements, kind == STAR_PULL))
			return false;
		op->values = buffers[VALUES].buf;
	}
	if (results != Py_None) {
		if (!take_rows(results, &buffers[RESULTS], op, row_elements, true))
			return false;
		op->results = buffers[RESULTS].buf;
	}
	return versions == Py_None || take_versions(versions, &buffers[VERSIONS], op);
}

bool native_ops_fill(struct ops *ops, struct py_cluster *cluster, PyObject *list)
{
	Py_ssize_t count;

	memset(ops, 0, sizeof(*ops));
	ops->sequence = PySequence_Tuple(list);
	if (!ops->sequence)
		return false;
	count = PyTuple_Size(ops->sequence);
	if (count < 1 || count > STAR_OPS_MAX) {
		PyErr_Format(PyExc_ValueError, "a call has 1 to %d operations, not %zd", STAR_OPS_MAX, count);
		native_ops_release(ops);
		return false;
	}
	ops->list = calloc((size_t)count, sizeof(*ops->list));
	ops->buffers = calloc((size_t)count * BUFFERS, sizeof(*ops->buffers));
	if (!ops->list || !ops->buffers) {
		PyErr_NoMemory();
		native_ops_release(ops);
		return false;
	}
	for (Py_ssize_t i = 0; i < count; i++) {
		ops->count++;
		if (!fill_op(&ops->list[i], &ops->buffers[i * BUFFERS], cluster, PyTuple_GetItem(ops->sequence, i))) {
			native_ops_release(ops);
			return false;
		}
	}
	return true;
}

void native_ops_release(struct ops *ops)
{
	for (uint32_t i = 0; i < ops->count * BUFFERS; i++)
		if (ops->buffers[i].obj)
			PyBuffer_Release(&ops->buffers[i]);
	free(ops->list);
	free(ops->buffers);
	Py_XDECREF(ops->sequence);
	memset(ops, 0, sizeof(*ops));
}
