/* SPDX-License-Identifier: BSD-3-Clause */
#include "jsonrpc/thread.h"

#include <signal.h>
#include <string.h>

#include "base/signals.h"

int jsonrpc_thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg,
			 struct star_error *err)
{
	sigset_t all, before;
	int rc;

	/* The new thread inherits the mask: it never sees a signal, not even between its start and its first line. */
	base_signals_of_others(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return star_error_set(err, -rc, "cannot start the thread %s: %s", name, strerrordesc_np(rc));
	pthread_setname_np(*thread, name);
	return 0;
}
