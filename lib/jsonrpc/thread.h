/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts the control plane's threads: named, and with all signals blocked, so that those reach the program's main
 * thread. */
#ifndef JSONRPC_THREAD_H
#define JSONRPC_THREAD_H

#include <pthread.h>

#include "star_error.h"

/* name: as ps(1) shows it. 0 or a negative errno. */
int jsonrpc_thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg,
			 struct star_error *err);

#endif
