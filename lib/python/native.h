/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * starserver._native: star.h for Python, by CPython's limited API. What can be done in Python (names, defaults,
 * futures) is in starserver/; here is what needs C: memory by the buffer protocol, calls without the GIL, completions.
 *
 * Who frees a handle. A cluster counts the threads inside a libstar call (users, under the GIL). After close() no
 * thread may enter; the last one to leave calls star_close. A forked child has none of libstar's threads, so it may not
 * enter, and frees nothing.
 */
#ifndef STAR_PYTHON_NATIVE_H
#define STAR_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>
#include <stdbool.h>

#include "star.h"

struct call;

struct py_cluster {
	PyObject ob_base;
	struct star_cluster *handle; /* NULL once it is freed */
	unsigned generation;	     /* of this process: see native_cluster_enter */
	unsigned users;
	bool closed;
	pthread_mutex_t lock; /* protects what follows; never held while the GIL is acquired */
	pthread_cond_t changed;
	struct call *completed, **completed_end; /* completed, for completions() */
	unsigned in_flight;			 /* started, and not yet passed on */
	bool handle_closed;			 /* star_close has been called */
};

struct py_table {
	PyObject ob_base;
	struct py_cluster *cluster; /* a reference */
	struct star_table *handle;
};

extern PyTypeObject *native_cluster_type, *native_table_type, *native_view_type;
extern PyType_Spec native_cluster_spec, native_table_spec, native_view_spec;

/* Sets the exception that corresponds to the error; returns NULL. */
PyObject *native_raise(const struct star_error *err);
/* ECANCELED, with what has happened, and what to do. */
void native_raise_closed(const char *what);
/* The exception object, without setting it; NULL if another one was set meanwhile. */
PyObject *native_exception(int code, const char *text);
/* For module.c. */
PyObject *native_set_exception(PyObject *module, PyObject *factory);
PyObject *native_open(PyObject *module, PyObject *args);
PyObject *native_unique(PyObject *module, PyObject *args);
void native_after_fork(void);

/* False with an exception: it is closed, or belongs to the parent process. */
bool native_cluster_enter(struct py_cluster *cluster);
/* Afterwards the cluster may be freed; keeps the current exception. */
void native_cluster_leave(struct py_cluster *cluster);

/* The operations of one call, with the buffers that they use. */
struct ops {
	struct star_op *list;
	Py_buffer *buffers; /* four for each: keys, values, results, versions; obj is NULL if there is none */
	uint32_t count;
	PyObject *sequence; /* keeps tables and strings alive */
};

/* From a list of tuples (kind, flags, table, elements of a row, keys, values, results, dtype, step, rate, scale, tag,
 * versions). */
bool native_ops_fill(struct ops *ops, struct py_cluster *cluster, PyObject *list);
void native_ops_release(struct ops *ops);

/* Executes the operations and waits. view: NULL, or the view of the first one, a pull: set as star_op's, also on
 * failure. False with an exception. */
bool native_call_run(struct py_cluster *cluster, PyObject *list, struct star_view **view,
		     unsigned long long deadline_us);
PyObject *native_call_execute(PyObject *self, PyObject *args);
PyObject *native_call_execute_async(PyObject *self, PyObject *args);
PyObject *native_call_completions(PyObject *self, PyObject *none);
/* pull_view(operation, dtype, shape, deadline_us) -> View */
PyObject *native_view_pull(PyObject *self, PyObject *args);
/* star_close was called: no thread may wait for requests any more. The thread in completions() returns. */
void native_call_wake(struct py_cluster *cluster);

#endif
