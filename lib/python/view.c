/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * View: pulled rows in libstar's memory, for users of the buffer protocol or DLPack. The memory has its own reference
 * count, without the GIL: each consumer of DLPack may release it from any thread, even after the interpreter has ended.
 */
#include "native.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { DIMENSIONS_MAX = 8 };

/* The ABI of DLPack 0.x, which consumers of 1.x accept too. */
enum { DLPACK_CPU = 1, DLPACK_INT = 0, DLPACK_UINT = 1, DLPACK_FLOAT = 2, DLPACK_BFLOAT = 4 };

struct dlpack_tensor {
	void *data;
	int32_t device_type, device_id;
	int32_t ndim;
	uint8_t type_code, type_bits;
	uint16_t lanes;
	int64_t *shape, *strides; /* strides in elements */
	uint64_t byte_offset;
};

struct dlpack_managed {
	struct dlpack_tensor tensor;
	void *context;
	void (*deleter)(struct dlpack_managed *self);
};

_Static_assert(sizeof(struct dlpack_tensor) == 48 && sizeof(struct dlpack_managed) == 64, "the ABI of DLPack");

static const struct type {
	const char *name, *format;
	uint8_t bytes, code;
} types[] = {
	{ "float32", "f", 4, DLPACK_FLOAT },   { "float64", "d", 8, DLPACK_FLOAT },
	{ "float16", "e", 2, DLPACK_FLOAT },   { "int8", "b", 1, DLPACK_INT },
	{ "int32", "i", 4, DLPACK_INT },       { "int64", "q", 8, DLPACK_INT },
	{ "bfloat16", "H", 2, DLPACK_BFLOAT }, { "scaled_int8", "B", 1, DLPACK_UINT },
};

struct memory {
	atomic_uint users;
	struct star_view *view;
	void *data, *copy; /* copy: of rows that were not contiguous */
	uint64_t bytes;
};

struct py_view {
	PyObject ob_base;
	struct memory *memory;
	const struct type *type;
	int ndim;
	Py_ssize_t shape[DIMENSIONS_MAX], strides[DIMENSIONS_MAX]; /* strides in bytes */
};

struct export
{
	struct dlpack_managed managed;
	struct memory *memory;
	int64_t shape[DIMENSIONS_MAX], strides[DIMENSIONS_MAX];
};

static void let_go(struct memory *memory)
{
	if (atomic_fetch_sub(&memory->users, 1) > 1)
		return;
	star_view_release(memory->view);
	free(memory->copy);
	free(memory);
}

/* Takes ownership of the view, also on failure. Copies the rows together unless they are contiguous and aligned. */
static struct memory *hold(struct star_view *view, size_t align)
{
	struct memory *memory = calloc(1, sizeof(*memory));
	const struct star_view_part *parts;
	const uint32_t count = star_view_parts(view, &parts);

	if (!memory || !count) {
		star_view_release(view);
		free(memory);
		return NULL;
	}
	atomic_init(&memory->users, 1);
	memory->view = view;
	memory->bytes = parts[count - 1].offset + parts[count - 1].bytes;
	memory->data = (void *)(uintptr_t)parts[0].data;
	if (count == 1 && (uintptr_t)memory->data % align == 0)
		return memory;
	memory->data = memory->copy = malloc(memory->bytes);
	if (!memory->copy || star_view_copy(view, 0, memory->bytes, memory->copy) < 0) {
		let_go(memory);
		return NULL;
	}
	memory->view = NULL;
	star_view_release(view);
	return memory;
}

static const struct type *find_type(const char *name)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (strcmp(types[i].name, name) == 0)
			return &types[i];
	PyErr_Format(PyExc_ValueError, "views of dtype \"%s\" are not supported", name);
	return NULL;
}

/* False with an exception. */
static bool fill_view(struct py_view *view, PyObject *shape)
{
	const Py_ssize_t ndim = PyTuple_Size(shape);
	Py_ssize_t stride = view->type->bytes;

	if (ndim < 1 || ndim > DIMENSIONS_MAX) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_ValueError, "a view has 1 to 8 dimensions");
		return false;
	}
	view->ndim = (int)ndim;
	for (int i = view->ndim - 1; i >= 0; i--) {
		view->shape[i] = PyLong_AsSsize_t(PyTuple_GetItem(shape, i));
		if (PyErr_Occurred())
			return false;
		view->strides[i] = stride;
		stride *= view->shape[i];
	}
	if (stride < 0 || (uint64_t)stride == view->memory->bytes)
		return true;
	PyErr_Format(PyExc_ValueError, "the rows have %llu bytes, and not %zd as their shape says",
		     (unsigned long long)view->memory->bytes, stride);
	return false;
}

PyObject *native_view_pull(PyObject *self, PyObject *args)
{
	struct star_view *pulled = NULL;
	const struct type *type;
	unsigned long long deadline_us;
	PyObject *operation, *shape, *list;
	struct py_view *view;
	const char *dtype;
	bool good;

	if (!PyArg_ParseTuple(args, "OsO!K", &operation, &dtype, &PyTuple_Type, &shape, &deadline_us))
		return NULL;
	type = find_type(dtype);
	list = type ? PyTuple_Pack(1, operation) : NULL;
	if (!list)
		return NULL;
	good = native_call_run((struct py_cluster *)self, list, &pulled, deadline_us);
	Py_DECREF(list);
	if (!good) {
		star_view_release(pulled);
		return NULL;
	}
	view = PyObject_New(struct py_view, native_view_type);
	if (!view) {
		star_view_release(pulled);
		return NULL;
	}
	view->type = type;
	view->memory = hold(pulled, type->bytes);
	if (view->memory && fill_view(view, shape))
		return (PyObject *)view;
	if (!view->memory)
		PyErr_NoMemory();
	Py_DECREF((PyObject *)view);
	return NULL;
}

static void view_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	if (((struct py_view *)self)->memory)
		let_go(((struct py_view *)self)->memory);
	PyObject_Free(self);
	Py_DECREF(type);
}

/* Each user of the buffer has a reference to the view. */
static int view_get_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
	struct py_view *view = (struct py_view *)self;

	if (flags & PyBUF_WRITABLE) {
		buffer->obj = NULL;
		PyErr_SetString(PyExc_BufferError, "a view of pulled rows is read-only: copy it");
		return -1;
	}
	*buffer = (Py_buffer){ .buf = view->memory->data,
			       .obj = Py_NewRef(self),
			       .len = (Py_ssize_t)view->memory->bytes,
			       .itemsize = view->type->bytes,
			       .readonly = 1,
			       .ndim = view->ndim,
			       .format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)view->type->format : NULL,
			       .shape = flags & PyBUF_ND ? view->shape : NULL,
			       .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? view->strides : NULL };
	return 0;
}

/* Called from any thread, with the GIL or without. */
static void delete_export(struct dlpack_managed *managed)
{
	struct export *export = managed->context;

	let_go(export->memory);
	free(export);
}

/* A capsule whose tensor was not consumed: consumers rename it. */
static void capsule_destructor(PyObject *capsule)
{
	struct dlpack_managed *managed;

	if (!PyCapsule_IsValid(capsule, "dltensor"))
		return;
	managed = PyCapsule_GetPointer(capsule, "dltensor");
	managed->deleter(managed);
}

/* __dlpack__(stream=None, max_version=None, dl_device=None, copy=None): memory of the CPU has no streams, and it is not
 * copied here. */
static PyObject *view_dlpack(PyObject *self, PyObject *args, PyObject *options)
{
	struct py_view *view = (struct py_view *)self;
	struct export *export;
	PyObject *capsule;

	if (PyTuple_Size(args) > 0 || (options && PyDict_GetItemString(options, "copy") == Py_True)) {
		PyErr_SetString(PyExc_BufferError, "__dlpack__ takes its arguments by name, and does not copy");
		return NULL;
	}
	export = calloc(1, sizeof(*export));
	if (!export)
		return PyErr_NoMemory();
	for (int i = 0; i < view->ndim; i++) {
		export->shape[i] = view->shape[i];
		export->strides[i] = view->strides[i] / view->type->bytes;
	}
	export->memory = view->memory;
	export->managed = (struct dlpack_managed){ .tensor = { .data = view->memory->data,
							       .device_type = DLPACK_CPU,
							       .ndim = view->ndim,
							       .type_code = view->type->code,
							       .type_bits = (uint8_t)(8 * view->type->bytes),
							       .lanes = 1,
							       .shape = export->shape,
							       .strides = export->strides },
						   .context = export,
						   .deleter = delete_export };
	atomic_fetch_add(&view->memory->users, 1);
	capsule = PyCapsule_New(&export->managed, "dltensor", capsule_destructor);
	if (!capsule)
		delete_export(&export->managed);
	return capsule;
}

static PyObject *view_dlpack_device(PyObject *self, PyObject *none)
{
	return Py_BuildValue("ii", DLPACK_CPU, 0);
}

static PyObject *view_shape(PyObject *self, void *closure)
{
	struct py_view *view = (struct py_view *)self;
	PyObject *shape = PyTuple_New(view->ndim);

	for (int i = 0; shape && i < view->ndim; i++)
		if (PyTuple_SetItem(shape, i, PyLong_FromSsize_t(view->shape[i])) < 0)
			Py_CLEAR(shape);
	return shape;
}

static PyObject *view_dtype(PyObject *self, void *closure)
{
	return PyUnicode_FromString(((struct py_view *)self)->type->name);
}

static PyObject *view_repr(PyObject *self)
{
	PyObject *shape = view_shape(self, NULL), *text;

	if (!shape)
		return NULL;
	text = PyUnicode_FromFormat("<starserver.View of %R %s>", shape, ((struct py_view *)self)->type->name);
	Py_DECREF(shape);
	return text;
}

static PyMethodDef view_methods[] = {
	{ "__dlpack__", (PyCFunction)(void (*)(void))view_dlpack, METH_VARARGS | METH_KEYWORDS,
	  "The rows as a DLPack tensor: numpy.from_dlpack(view), torch.from_dlpack(view)." },
	{ "__dlpack_device__", view_dlpack_device, METH_NOARGS, "(1, 0): memory of the CPU." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef view_attributes[] = {
	{ "shape", view_shape, NULL, "(rows, dim); of a variable its shape", NULL },
	{ "dtype", view_dtype, NULL, "the type of the elements", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static const char view_doc[] = "Pulled rows in libstar's memory, read-only: what pull_view() returns.\n\n"
			       "Has __dlpack__ and the buffer protocol. The memory is freed when the view and all "
			       "arrays that were made of it are gone, in any order, also after Cluster.close().";

static PyType_Slot view_slots[] = {
	{ Py_tp_dealloc, view_dealloc },
	{ Py_tp_methods, view_methods },
	{ Py_tp_getset, view_attributes },
	{ Py_tp_repr, view_repr },
	{ Py_tp_doc, (void *)(uintptr_t)view_doc },
	{ Py_bf_getbuffer, view_get_buffer },
	{ 0, NULL },
};

PyType_Spec native_view_spec = {
	.name = "starserver.View",
	.basicsize = sizeof(struct py_view),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = view_slots,
};
