/* SPDX-License-Identifier: BSD-3-Clause */
#include "jsonrpc/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/signals.h"

struct start {
	void *(*run)(void *arg);
	void *arg;
	char name[16]; /* the kernel's limit */
};

/* The thread sets its own name: to name another thread, a file of /proc is needed, whose entries the kernel would have
 * to remove when the thread ends. */
static void *run_named(void *arg)
{
	const struct start start = *(struct start *)arg;

	free(arg);
	pthread_setname_np(pthread_self(), start.name);
	return start.run(start.arg);
}

int jsonrpc_thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg,
			 struct star_error *err)
{
	struct start *start = malloc(sizeof(*start));
	sigset_t all, before;
	int rc;

	if (!start)
		return star_error_set(err, -ENOMEM, "cannot start the thread %s: out of memory", name);
	*start = (struct start){ .run = run, .arg = arg };
	snprintf(start->name, sizeof(start->name), "%s", name);

	/* The new thread inherits the mask, so it never receives a signal, not even before its first line. */
	base_signals_of_others(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(thread, NULL, run_named, start);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		free(start);
		return star_error_set(err, -rc, "cannot start the thread %s: %s", name, strerrordesc_np(rc));
	}
	return 0;
}
