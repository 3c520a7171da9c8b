/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls: blocking ones, which Ctrl-C interrupts, and asynchronous ones. libstar's I/O thread marks an
 * asynchronous call as completed; the thread in completions() then releases its buffers and passes its future on. So no
 * I/O thread ever waits for the GIL.
 */
#include "native.h"

#include <errno.h>
#include <stdlib.h>

struct call {
	struct call *next;
	struct py_cluster *cluster; /* a reference, as are its future and its buffers */
	PyObject *future;
	struct ops ops;
	struct star_request *request;
	bool started, done; /* both: it has completed. Protected by the cluster's lock */
	struct star_error err;
};

static _Thread_local PyThreadState *waiting; /* of a thread that is blocked in star_execute */

/* Nonzero ends the call: a signal handler has raised an exception, or the cluster is being closed. */
static int ask_python(void *arg)
{
	const struct py_cluster *cluster = arg;
	int rc;

	PyEval_RestoreThread(waiting);
	rc = PyErr_CheckSignals() || cluster->closed;
	waiting = PyEval_SaveThread();
	return rc;
}

bool native_call_run(struct py_cluster *cluster, PyObject *list, struct star_view **view,
		     unsigned long long deadline_us)
{
	struct star_error err = { 0 };
	struct ops ops;
	int rc;

	if (waiting) {
		star_error_set(&err, -EDEADLK,
			       "a signal handler must not call a cluster whose call it has interrupted: note the "
			       "signal, and do so after the call");
		native_raise(&err);
		return false;
	}
	if (!native_cluster_enter(cluster))
		return false;
	if (!native_ops_fill(&ops, cluster, list)) {
		native_cluster_leave(cluster);
		return false;
	}
	ops.list[0].view = view;
	waiting = PyEval_SaveThread();
	star_set_interrupted(ask_python, cluster);
	rc = star_execute(cluster->handle, ops.list, ops.count, deadline_us, &err);
	star_set_interrupted(NULL, NULL);
	PyEval_RestoreThread(waiting);
	waiting = NULL;
	/* A handler may have raised an exception although the call succeeded: the exception counts. */
	if (PyErr_Occurred())
		rc = -EINTR;
	else if (rc == -EINTR && cluster->closed)
		native_raise_closed("the cluster was closed while the call was waiting");
	else if (rc < 0)
		native_raise(&err);
	/* Exporters of buffers may run Python code, which must not be called with an exception set. */
	if (rc < 0) {
		PyObject *type, *value, *traceback;

		PyErr_Fetch(&type, &value, &traceback);
		native_ops_release(&ops);
		PyErr_Restore(type, value, traceback);
	} else {
		native_ops_release(&ops);
	}
	native_cluster_leave(cluster);
	return rc >= 0;
}

PyObject *native_call_execute(PyObject *self, PyObject *args)
{
	unsigned long long deadline_us;
	PyObject *list;

	if (!PyArg_ParseTuple(args, "OK", &list, &deadline_us) ||
	    !native_call_run((struct py_cluster *)self, list, NULL, deadline_us))
		return NULL;
	return Py_NewRef(Py_None);
}

/* Called with the cluster's lock held. */
static void complete_call(struct call *call)
{
	struct py_cluster *cluster = call->cluster;

	call->next = NULL;
	*cluster->completed_end = call;
	cluster->completed_end = &call->next;
	pthread_cond_broadcast(&cluster->changed);
}

/* Called on an I/O thread, without the GIL. The call's reference keeps the cluster alive. */
static void on_done(void *arg, int status, const struct star_error *err)
{
	struct call *call = arg;
	struct py_cluster *cluster = call->cluster;

	pthread_mutex_lock(&cluster->lock);
	if (status < 0)
		call->err = *err;
	call->done = true;
	if (call->started)
		complete_call(call);
	pthread_mutex_unlock(&cluster->lock);
}

/* Called with the GIL. */
static void call_free(struct call *call)
{
	native_ops_release(&call->ops);
	Py_DECREF(call->future);
	Py_DECREF((PyObject *)call->cluster);
	free(call);
}

/* False with an exception; the call is freed. */
static bool start_call(struct call *call, uint64_t deadline_us)
{
	struct py_cluster *cluster = call->cluster;
	struct star_error err = { 0 };
	struct star_request *request;

	Py_BEGIN_ALLOW_THREADS;
	pthread_mutex_lock(&cluster->lock);
	cluster->in_flight++;
	pthread_mutex_unlock(&cluster->lock);
	request =
		star_execute_async(cluster->handle, call->ops.list, call->ops.count, deadline_us, on_done, call, &err);
	pthread_mutex_lock(&cluster->lock);
	if (!request) {
		cluster->in_flight--;
		pthread_cond_broadcast(&cluster->changed);
	} else {
		call->request = request;
		call->started = true;
		if (call->done)
			complete_call(call);
	}
	pthread_mutex_unlock(&cluster->lock);
	Py_END_ALLOW_THREADS;
	if (request)
		return true;
	call_free(call);
	native_raise(&err);
	return false;
}

PyObject *native_call_execute_async(PyObject *self, PyObject *args)
{
	struct py_cluster *cluster = (struct py_cluster *)self;
	unsigned long long deadline_us;
	struct call *call;
	PyObject *list, *future;
	bool good;

	if (!PyArg_ParseTuple(args, "OKO", &list, &deadline_us, &future) || !native_cluster_enter(cluster))
		return NULL;
	call = calloc(1, sizeof(*call));
	if (!call || !native_ops_fill(&call->ops, cluster, list)) {
		if (!call)
			PyErr_NoMemory();
		free(call);
		native_cluster_leave(cluster);
		return NULL;
	}
	call->cluster = (struct py_cluster *)Py_NewRef(self);
	call->future = Py_NewRef(future);
	good = start_call(call, deadline_us);
	native_cluster_leave(cluster);
	return good ? Py_NewRef(Py_None) : NULL;
}

/* Frees the request, unless star_close does. The call has completed, so this does not wait for a reply. */
static void end_request(struct call *call)
{
	struct py_cluster *cluster = call->cluster;

	if (cluster->closed)
		return;
	cluster->users++;
	Py_INCREF((PyObject *)cluster);
	Py_BEGIN_ALLOW_THREADS;
	star_request_wait(call->request, NULL);
	Py_END_ALLOW_THREADS;
	native_cluster_leave(cluster);
}

/* Returns a list of (future, exception or None) as soon as there is one; None: the cluster is closed, and nothing is in
 * flight. */
PyObject *native_call_completions(PyObject *self, PyObject *none)
{
	struct py_cluster *cluster = (struct py_cluster *)self;
	struct call *completed, *call;
	PyObject *list = NULL;

	Py_BEGIN_ALLOW_THREADS;
	pthread_mutex_lock(&cluster->lock);
	while (!cluster->completed && (cluster->in_flight || !cluster->handle_closed))
		pthread_cond_wait(&cluster->changed, &cluster->lock);
	completed = cluster->completed;
	cluster->completed = NULL;
	cluster->completed_end = &cluster->completed;
	for (call = completed; call; call = call->next)
		cluster->in_flight--;
	pthread_mutex_unlock(&cluster->lock);
	Py_END_ALLOW_THREADS;
	if (!completed)
		Py_RETURN_NONE;
	list = PyList_New(0);
	while ((call = completed)) {
		PyObject *exception = Py_NewRef(Py_None), *pair;

		completed = call->next;
		end_request(call);
		if (call->err.code) {
			Py_DECREF(exception);
			exception = native_exception(call->err.code, call->err.text);
		}
		pair = exception ? PyTuple_Pack(2, call->future, exception) : NULL;
		if (list && (!pair || PyList_Append(list, pair) < 0))
			Py_CLEAR(list);
		Py_XDECREF(pair);
		Py_XDECREF(exception);
		call_free(call);
	}
	return list;
}

void native_call_wake(struct py_cluster *cluster)
{
	pthread_mutex_lock(&cluster->lock);
	cluster->handle_closed = true;
	pthread_cond_broadcast(&cluster->changed);
	pthread_mutex_unlock(&cluster->lock);
}
