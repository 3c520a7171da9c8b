/* SPDX-License-Identifier: BSD-3-Clause */
/* The distinct keys of a batch, in the order of their first occurrence, and the index among them of each key's row. */
#include "native.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t key)
{
	key ^= key >> 32;
	key *= UINT64_C(0xd6e8feb86659fd93);
	key ^= key >> 32;
	key *= UINT64_C(0xd6e8feb86659fd93);
	return key ^ key >> 32;
}

/* The number of distinct keys; -1: out of memory. A slot is empty, or has the index of a distinct key plus 1. */
static int64_t find_unique(const uint64_t *keys, uint32_t count, uint64_t *distinct, int64_t *inverse)
{
	uint64_t size = 16;
	uint32_t *slots, found = 0;

	while (size < (uint64_t)count * 2)
		size *= 2;
	slots = calloc(size, sizeof(*slots));
	if (!slots)
		return -1;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t at = mix(keys[i]) & (size - 1);

		while (slots[at] && distinct[slots[at] - 1] != keys[i])
			at = (at + 1) & (size - 1);
		if (!slots[at]) {
			distinct[found] = keys[i];
			slots[at] = ++found;
		}
		inverse[i] = (int64_t)slots[at] - 1;
	}
	free(slots);
	return found;
}

/* A one-dimensional, contiguous array of 64-bit integers; false with an exception. */
static bool take_integers(PyObject *object, Py_buffer *b, bool written, const char *what)
{
	if (PyObject_GetBuffer(object, b, written ? PyBUF_RECORDS : PyBUF_RECORDS_RO) < 0) {
		b->obj = NULL;
		return false;
	}
	if (b->itemsize == 8 && b->format && strchr("qlQL", b->format[strlen(b->format) - 1]) && b->ndim == 1 &&
	    PyBuffer_IsContiguous(b, 'C') && (uintptr_t)b->buf % 8 == 0 && b->len / 8 < UINT32_MAX)
		return true;
	PyErr_Format(PyExc_ValueError,
		     "%s must be one-dimensional int64 or uint64, contiguous, less than 4294967295 of them", what);
	return false;
}

/* unique(keys, distinct, inverse) -> the number of distinct keys; distinct and inverse are written, and are as long as
 * keys */
PyObject *native_unique(PyObject *module, PyObject *args)
{
	PyObject *objects[3], *result = NULL;
	Py_buffer buffers[3] = { { 0 } };
	int64_t found;

	if (!PyArg_ParseTuple(args, "OOO", &objects[0], &objects[1], &objects[2]))
		return NULL;
	if (!take_integers(objects[0], &buffers[0], false, "the keys") ||
	    !take_integers(objects[1], &buffers[1], true, "the memory for distinct keys") ||
	    !take_integers(objects[2], &buffers[2], true, "the memory for their places"))
		goto release;
	if (buffers[1].len != buffers[0].len || buffers[2].len != buffers[0].len) {
		PyErr_SetString(PyExc_ValueError, "the keys and the memory for results differ in size");
		goto release;
	}
	Py_BEGIN_ALLOW_THREADS;
	found = find_unique(buffers[0].buf, (uint32_t)(buffers[0].len / 8), buffers[1].buf, buffers[2].buf);
	Py_END_ALLOW_THREADS;
	result = found < 0 ? PyErr_NoMemory() : PyLong_FromLongLong(found);
release:
	for (int i = 0; i < 3; i++)
		if (buffers[i].obj)
			PyBuffer_Release(&buffers[i]);
	return result;
}
