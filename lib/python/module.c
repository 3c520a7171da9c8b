/* SPDX-License-Identifier: BSD-3-Clause */
/* The module: its functions, constants and types, and how errors become exceptions. */
#include "native.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *native_cluster_type, *native_table_type, *native_view_type; /* exist as long as the process */
static PyObject *make_exception; /* (code, text) -> exception, of starserver/_errors.py */

PyObject *native_exception(int code, const char *text)
{
	PyObject *words = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
	PyObject *exception;

	if (!words)
		return NULL;
	if (!make_exception)
		exception = PyObject_CallFunction(PyExc_RuntimeError, "O", words);
	else
		exception = PyObject_CallFunction(make_exception, "iO", code < 0 ? -code : code, words);
	Py_DECREF(words);
	return exception;
}

PyObject *native_raise(const struct star_error *err)
{
	PyObject *exception = native_exception(err->code, err->text);

	if (exception)
		PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
	Py_XDECREF(exception);
	return NULL;
}

PyObject *native_set_exception(PyObject *module, PyObject *factory)
{
	PyObject *before = make_exception;

	make_exception = Py_NewRef(factory);
	Py_XDECREF(before);
	Py_RETURN_NONE;
}

static PyObject *native_ask(PyObject *module, PyObject *args)
{
	const char *address, *method, *params;
	unsigned long long deadline_us;
	struct star_error err = { 0 };
	PyObject *answer;
	char *text;

	if (!PyArg_ParseTuple(args, "sszK", &address, &method, &params, &deadline_us))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	text = star_ask(address, method, params, deadline_us, &err);
	Py_END_ALLOW_THREADS;
	if (!text)
		return native_raise(&err);
	answer = PyUnicode_FromString(text);
	free(text);
	return answer;
}

static PyMethodDef methods[] = {
	{ "ask", native_ask, METH_VARARGS, "ask(address, method, params, deadline_us) -> text of JSON" },
	{ "open", native_open, METH_VARARGS, "open(ps, deadline_us) -> Cluster" },
	{ "unique", native_unique, METH_VARARGS, "unique(keys, distinct, inverse) -> how many distinct ones" },
	{ "set_exception", native_set_exception, METH_O, "set_exception(factory): factory(errno, text) -> exception" },
	{ NULL, NULL, 0, NULL },
};

static bool add_constants(PyObject *module)
{
	static const struct {
		const char *name;
		long value;
	} constants[] = {
		{ "PULL", STAR_PULL },		 { "PUSH", STAR_PUSH },
		{ "PUSH_PULL", STAR_PUSH_PULL }, { "DELETE", STAR_DELETE },
		{ "ASSIGN", STAR_ASSIGN },	 { "COMMIT", STAR_COMMIT },
		{ "READ_ONLY", STAR_READ_ONLY }, { "ACCUMULATE", STAR_ACCUMULATE },
		{ "OPEN", STAR_OPEN },		 { "AT_ONCE", STAR_AT_ONCE },
		{ "RATE", STAR_RATE },		 { "SCALE", STAR_SCALE },
		{ "BY_ROW", STAR_BY_ROW },
	};

	for (size_t i = 0; i < sizeof(constants) / sizeof(*constants); i++)
		if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) < 0)
			return false;
	return true;
}

/* Once per process: if the module is imported again, it has the same types. */
static bool make_types(void)
{
	if (native_cluster_type)
		return true;
	native_table_type = (PyTypeObject *)PyType_FromSpec(&native_table_spec);
	native_view_type = (PyTypeObject *)PyType_FromSpec(&native_view_spec);
	if (!native_table_type || !native_view_type)
		return false;
	native_cluster_type = (PyTypeObject *)PyType_FromSpec(&native_cluster_spec);
	if (native_cluster_type)
		pthread_atfork(NULL, NULL, native_after_fork);
	return native_cluster_type;
}

/* The types, and the function that makes exceptions, belong to one interpreter: if another one created them, they would
 * end with it. */
static int fill_module(PyObject *module)
{
	if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
		PyErr_SetString(PyExc_ImportError,
				"starserver serves the main interpreter only: call it there, from any "
				"thread, or start a process");
		return -1;
	}
	if (!make_types() || !add_constants(module) ||
	    PyModule_AddObjectRef(module, "Cluster", (PyObject *)native_cluster_type) < 0 ||
	    PyModule_AddObjectRef(module, "Table", (PyObject *)native_table_type) < 0 ||
	    PyModule_AddObjectRef(module, "View", (PyObject *)native_view_type) < 0 ||
	    PyModule_AddStringConstant(module, "version", STAR_VERSION) < 0)
		return -1;
	return 0;
}

PyMODINIT_FUNC PyInit__native(void); /* the interpreter finds it by its name */

/* Multi-phase initialization, so that fill_module is called in each interpreter. */
PyMODINIT_FUNC PyInit__native(void)
{
	static PyModuleDef_Slot slots[] = {
		{ Py_mod_exec, fill_module },
		{ 0, NULL },
	};
	static struct PyModuleDef definition = {
		PyModuleDef_HEAD_INIT,
		.m_name = "starserver._native",
		.m_doc = "star.h for Python; use the package starserver.",
		.m_methods = methods,
		.m_slots = slots,
	};

	return PyModuleDef_Init(&definition);
}
