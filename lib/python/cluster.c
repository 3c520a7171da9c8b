/* SPDX-License-Identifier: BSD-3-Clause */
/* Cluster and Table: opening, entering for each call, closing; the calls of the control plane. */
#include "native.h"

#include <errno.h>

static unsigned generation; /* counts the forks between this process and the one that loaded the module */

void native_after_fork(void)
{
	generation++;
}

static bool other_process(const struct py_cluster *cluster)
{
	return cluster->generation != generation;
}

void native_raise_closed(const char *what)
{
	struct star_error err;

	star_error_set(&err, -ECANCELED, "%s: open it again with starserver.connect()", what);
	native_raise(&err);
}

bool native_cluster_enter(struct py_cluster *cluster)
{
	struct star_error err;

	if (other_process(cluster)) {
		star_error_set(&err, -EINVAL,
			       "this cluster was opened before fork(), and its connections and threads are the parent "
			       "process's: call starserver.connect() in the child, or start processes with spawn");
		native_raise(&err);
		return false;
	}
	if (cluster->closed) {
		native_raise_closed("the cluster is closed");
		return false;
	}
	cluster->users++;
	Py_INCREF((PyObject *)cluster);
	return true;
}

/* No thread is inside any more, and none can enter. */
static void free_handle(struct py_cluster *cluster)
{
	struct star_cluster *handle = cluster->handle;

	cluster->handle = NULL;
	if (!handle)
		return;
	Py_BEGIN_ALLOW_THREADS;
	star_close(handle); /* runs the callbacks of calls in flight */
	Py_END_ALLOW_THREADS;
	native_call_wake(cluster);
}

void native_cluster_leave(struct py_cluster *cluster)
{
	PyObject *type, *value, *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	if (--cluster->users == 0 && cluster->closed)
		free_handle(cluster);
	Py_DECREF((PyObject *)cluster);
	PyErr_Restore(type, value, traceback);
}

PyObject *native_open(PyObject *module, PyObject *args)
{
	struct star_error err = { 0 };
	struct star_cluster *handle;
	struct py_cluster *cluster;
	unsigned long long deadline_us;
	const char *ps;

	if (!PyArg_ParseTuple(args, "sK", &ps, &deadline_us))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	handle = star_open(ps, deadline_us, &err);
	Py_END_ALLOW_THREADS;
	if (!handle)
		return native_raise(&err);
	cluster = PyObject_New(struct py_cluster, native_cluster_type);
	if (!cluster) {
		star_close(handle);
		return NULL;
	}
	cluster->handle = handle;
	cluster->generation = generation;
	cluster->users = 0;
	cluster->closed = false;
	pthread_mutex_init(&cluster->lock, NULL);
	pthread_cond_init(&cluster->changed, NULL);
	cluster->completed = NULL;
	cluster->completed_end = &cluster->completed;
	cluster->in_flight = 0;
	cluster->handle_closed = false;
	return (PyObject *)cluster;
}

static PyObject *cluster_close(PyObject *self, PyObject *none)
{
	struct py_cluster *cluster = (struct py_cluster *)self;

	if (other_process(cluster))
		Py_RETURN_NONE;
	cluster->closed = true;
	if (!cluster->users)
		free_handle(cluster);
	Py_RETURN_NONE;
}

static void cluster_dealloc(PyObject *self)
{
	struct py_cluster *cluster = (struct py_cluster *)self;
	PyTypeObject *type = Py_TYPE(self);

	/* A call has a reference, so nothing is in flight. */
	if (!other_process(cluster)) {
		free_handle(cluster);
		pthread_cond_destroy(&cluster->changed);
		pthread_mutex_destroy(&cluster->lock);
	}
	PyObject_Free(self);
	Py_DECREF(type);
}

static PyObject *cluster_reactors(PyObject *self, PyObject *none)
{
	struct py_cluster *cluster = (struct py_cluster *)self;
	PyObject *number;

	if (!native_cluster_enter(cluster))
		return NULL;
	number = PyLong_FromUnsignedLong(star_reactors(cluster->handle));
	native_cluster_leave(cluster);
	return number;
}

static PyObject *wrap_table(struct py_cluster *cluster, struct star_table *handle, const struct star_error *err)
{
	struct py_table *table;

	if (!handle)
		return native_raise(err);
	table = PyObject_New(struct py_table, native_table_type);
	if (!table)
		return NULL;
	table->cluster = (struct py_cluster *)Py_NewRef((PyObject *)cluster);
	table->handle = handle;
	return (PyObject *)table;
}

static bool fill_shape(struct star_spec *spec, PyObject *shape, uint64_t sizes[8])
{
	const Py_ssize_t count = PyTuple_Size(shape);

	if (count < 1 || count > 8) {
		if (!PyErr_Occurred())
			PyErr_Format(PyExc_ValueError, "variable \"%s\" has %zd dimensions; 1 to 8 are possible",
				     spec->name, count);
		return false;
	}
	for (Py_ssize_t i = 0; i < count; i++) {
		sizes[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(shape, i));
		if (PyErr_Occurred())
			return false;
	}
	spec->ndim = (uint32_t)count;
	spec->shape = sizes;
	return true;
}

/* create(shape or None, name, dtype, dim, initializer, scale, seed, optimizer, rate, options, deadline_us) */
static PyObject *cluster_create(PyObject *self, PyObject *args)
{
	struct py_cluster *cluster = (struct py_cluster *)self;
	struct star_spec spec = { 0 };
	struct star_error err = { 0 };
	struct star_table *table;
	unsigned long long seed, deadline_us;
	PyObject *shape, *made;
	uint64_t sizes[8];
	unsigned dim;

	if (!PyArg_ParseTuple(args, "OszIzfKzfzK", &shape, &spec.name, &spec.dtype, &dim, &spec.initializer,
			      &spec.scale, &seed, &spec.optimizer, &spec.rate, &spec.options, &deadline_us))
		return NULL;
	spec.dim = dim;
	spec.seed = seed;
	if ((shape != Py_None && !fill_shape(&spec, shape, sizes)) || !native_cluster_enter(cluster))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	table = spec.shape ? star_variable_create(cluster->handle, &spec, deadline_us, &err)
			   : star_table_create(cluster->handle, &spec, deadline_us, &err);
	Py_END_ALLOW_THREADS;
	made = wrap_table(cluster, table, &err);
	native_cluster_leave(cluster);
	return made;
}

static PyObject *cluster_lookup(PyObject *self, PyObject *args)
{
	struct py_cluster *cluster = (struct py_cluster *)self;
	struct star_error err = { 0 };
	struct star_table *table;
	unsigned long long deadline_us;
	const char *name;
	PyObject *found;

	if (!PyArg_ParseTuple(args, "sK", &name, &deadline_us) || !native_cluster_enter(cluster))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	table = star_lookup(cluster->handle, name, deadline_us, &err);
	Py_END_ALLOW_THREADS;
	found = wrap_table(cluster, table, &err);
	native_cluster_leave(cluster);
	return found;
}

static PyObject *cluster_checkpoint(PyObject *self, PyObject *args)
{
	struct py_cluster *cluster = (struct py_cluster *)self;
	struct star_error err = { 0 };
	unsigned long long deadline_us;
	const char *kind;
	int rc;

	if (!PyArg_ParseTuple(args, "zK", &kind, &deadline_us) || !native_cluster_enter(cluster))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	rc = star_checkpoint(cluster->handle, kind, deadline_us, &err);
	Py_END_ALLOW_THREADS;
	if (rc < 0)
		native_raise(&err);
	native_cluster_leave(cluster);
	return rc < 0 ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef cluster_methods[] = {
	{ "close", cluster_close, METH_NOARGS, NULL },
	{ "reactors", cluster_reactors, METH_NOARGS, NULL },
	{ "create", cluster_create, METH_VARARGS, NULL },
	{ "lookup", cluster_lookup, METH_VARARGS, NULL },
	{ "checkpoint", cluster_checkpoint, METH_VARARGS, NULL },
	{ "execute", native_call_execute, METH_VARARGS, NULL },
	{ "pull_view", native_view_pull, METH_VARARGS, NULL },
	{ "execute_async", native_call_execute_async, METH_VARARGS, NULL },
	{ "completions", native_call_completions, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot cluster_slots[] = {
	{ Py_tp_dealloc, cluster_dealloc },
	{ Py_tp_methods, cluster_methods },
	{ 0, NULL },
};

PyType_Spec native_cluster_spec = {
	.name = "starserver._native.Cluster",
	.basicsize = sizeof(struct py_cluster),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = cluster_slots,
};

static void table_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	Py_DECREF((PyObject *)((struct py_table *)self)->cluster);
	PyObject_Free(self);
	Py_DECREF(type);
}

/* (elements, blocks, bytes of a row or of the whole variable as stored) */
static PyObject *table_size(PyObject *self, PyObject *none)
{
	struct py_table *table = (struct py_table *)self;
	PyObject *size;

	if (!native_cluster_enter(table->cluster))
		return NULL;
	size = Py_BuildValue("KKK", (unsigned long long)star_elements(table->handle),
			     (unsigned long long)star_blocks(table->handle),
			     (unsigned long long)star_bytes(table->handle, NULL));
	native_cluster_leave(table->cluster);
	return size;
}

/* A call that needs the table and a deadline. */
static PyObject *table_call(PyObject *self, PyObject *args,
			    int (*call)(struct star_table *table, uint64_t deadline_us, struct star_error *err))
{
	struct py_table *table = (struct py_table *)self;
	struct star_error err = { 0 };
	unsigned long long deadline_us;
	int rc;

	if (!PyArg_ParseTuple(args, "K", &deadline_us) || !native_cluster_enter(table->cluster))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	rc = call(table->handle, deadline_us, &err);
	Py_END_ALLOW_THREADS;
	if (rc < 0)
		native_raise(&err);
	native_cluster_leave(table->cluster);
	return rc < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *table_empty(PyObject *self, PyObject *args)
{
	return table_call(self, args, star_table_empty);
}

static PyObject *table_drop(PyObject *self, PyObject *args)
{
	return table_call(self, args, star_table_drop);
}

static PyMethodDef table_methods[] = {
	{ "empty", table_empty, METH_VARARGS, NULL },
	{ "drop", table_drop, METH_VARARGS, NULL },
	{ "size", table_size, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot table_slots[] = {
	{ Py_tp_dealloc, table_dealloc },
	{ Py_tp_methods, table_methods },
	{ 0, NULL },
};

PyType_Spec native_table_spec = {
	.name = "starserver._native.Table",
	.basicsize = sizeof(struct py_table),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = table_slots,
};
