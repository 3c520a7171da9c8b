/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls: blocking ones, which Ctrl-C interrupts, and asynchronous ones. The latter are flights: libstar's I/O thread
 * marks a flight as landed, and the thread in completions() releases its buffers and passes its future on. So no I/O
 * thread ever waits for the GIL.
 */
#include "native.h"

#include <errno.h>
#include <stdlib.h>

struct flight {
	struct flight *next;
	struct py_cluster *cluster; /* a reference, as are its future and its buffers */
	PyObject *future;
	struct ops ops;
	struct star_request *request;
	bool started, done; /* both: it has landed. Protected by the cluster's lock */
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

bool native_flight_run(struct py_cluster *cluster, PyObject *list, struct star_view **view,
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

PyObject *native_flight_execute(PyObject *self, PyObject *args)
{
	unsigned long long deadline_us;
	PyObject *list;

	if (!PyArg_ParseTuple(args, "OK", &list, &deadline_us) ||
	    !native_flight_run((struct py_cluster *)self, list, NULL, deadline_us))
		return NULL;
	return Py_NewRef(Py_None);
}

/* Called with the cluster's lock held. */
static void land_flight(struct flight *flight)
{
	struct py_cluster *cluster = flight->cluster;

	flight->next = NULL;
	*cluster->landed_end = flight;
	cluster->landed_end = &flight->next;
	pthread_cond_broadcast(&cluster->changed);
}

/* Called on an I/O thread, without the GIL. The flight's reference keeps the cluster alive. */
static void on_done(void *arg, int status, const struct star_error *err)
{
	struct flight *flight = arg;
	struct py_cluster *cluster = flight->cluster;

	pthread_mutex_lock(&cluster->lock);
	if (status < 0)
		flight->err = *err;
	flight->done = true;
	if (flight->started)
		land_flight(flight);
	pthread_mutex_unlock(&cluster->lock);
}

/* Called with the GIL. */
static void flight_free(struct flight *flight)
{
	native_ops_release(&flight->ops);
	Py_DECREF(flight->future);
	Py_DECREF((PyObject *)flight->cluster);
	free(flight);
}

/* False with an exception; the flight is freed. */
static bool start_flight(struct flight *flight, uint64_t deadline_us)
{
	struct py_cluster *cluster = flight->cluster;
	struct star_error err = { 0 };
	struct star_request *request;

	Py_BEGIN_ALLOW_THREADS;
	pthread_mutex_lock(&cluster->lock);
	cluster->flying++;
	pthread_mutex_unlock(&cluster->lock);
	request = star_execute_async(cluster->handle, flight->ops.list, flight->ops.count, deadline_us, on_done, flight,
				     &err);
	pthread_mutex_lock(&cluster->lock);
	if (!request) {
		cluster->flying--;
		pthread_cond_broadcast(&cluster->changed);
	} else {
		flight->request = request;
		flight->started = true;
		if (flight->done)
			land_flight(flight);
	}
	pthread_mutex_unlock(&cluster->lock);
	Py_END_ALLOW_THREADS;
	if (request)
		return true;
	flight_free(flight);
	native_raise(&err);
	return false;
}

PyObject *native_flight_execute_async(PyObject *self, PyObject *args)
{
	struct py_cluster *cluster = (struct py_cluster *)self;
	unsigned long long deadline_us;
	struct flight *flight;
	PyObject *list, *future;
	bool good;

	if (!PyArg_ParseTuple(args, "OKO", &list, &deadline_us, &future) || !native_cluster_enter(cluster))
		return NULL;
	flight = calloc(1, sizeof(*flight));
	if (!flight || !native_ops_fill(&flight->ops, cluster, list)) {
		if (!flight)
			PyErr_NoMemory();
		free(flight);
		native_cluster_leave(cluster);
		return NULL;
	}
	flight->cluster = (struct py_cluster *)Py_NewRef(self);
	flight->future = Py_NewRef(future);
	good = start_flight(flight, deadline_us);
	native_cluster_leave(cluster);
	return good ? Py_NewRef(Py_None) : NULL;
}

/* Frees the request, unless star_close does. The flight has landed, so this does not wait for a reply. */
static void end_request(struct flight *flight)
{
	struct py_cluster *cluster = flight->cluster;

	if (cluster->closed)
		return;
	cluster->users++;
	Py_INCREF((PyObject *)cluster);
	Py_BEGIN_ALLOW_THREADS;
	star_request_wait(flight->request, NULL);
	Py_END_ALLOW_THREADS;
	native_cluster_leave(cluster);
}

/* Returns a list of (future, exception or None) as soon as there is one; None: the cluster is closed, and nothing is in
 * flight. */
PyObject *native_flight_completions(PyObject *self, PyObject *none)
{
	struct py_cluster *cluster = (struct py_cluster *)self;
	struct flight *landed, *flight;
	PyObject *list = NULL;

	Py_BEGIN_ALLOW_THREADS;
	pthread_mutex_lock(&cluster->lock);
	while (!cluster->landed && (cluster->flying || !cluster->grounded))
		pthread_cond_wait(&cluster->changed, &cluster->lock);
	landed = cluster->landed;
	cluster->landed = NULL;
	cluster->landed_end = &cluster->landed;
	for (flight = landed; flight; flight = flight->next)
		cluster->flying--;
	pthread_mutex_unlock(&cluster->lock);
	Py_END_ALLOW_THREADS;
	if (!landed)
		Py_RETURN_NONE;
	list = PyList_New(0);
	while ((flight = landed)) {
		PyObject *exception = Py_NewRef(Py_None), *pair;

		landed = flight->next;
		end_request(flight);
		if (flight->err.code) {
			Py_DECREF(exception);
			exception = native_exception(flight->err.code, flight->err.text);
		}
		pair = exception ? PyTuple_Pack(2, flight->future, exception) : NULL;
		if (list && (!pair || PyList_Append(list, pair) < 0))
			Py_CLEAR(list);
		Py_XDECREF(pair);
		Py_XDECREF(exception);
		flight_free(flight);
	}
	return list;
}

void native_flight_wake(struct py_cluster *cluster)
{
	pthread_mutex_lock(&cluster->lock);
	cluster->grounded = true;
	pthread_cond_broadcast(&cluster->changed);
	pthread_mutex_unlock(&cluster->lock);
}
