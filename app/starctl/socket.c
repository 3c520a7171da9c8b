/* SPDX-License-Identifier: BSD-3-Clause */
/* Which node is meant, when the command line does not say. */
#include <errno.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>

#include "app/starctl/starctl.h"

static bool newer(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

static void list(const glob_t *found, char *text, size_t size)
{
	size_t used = 0;

	text[0] = 0;
	for (size_t i = 0; i < found->gl_pathc && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", found->gl_pathv[i]);
}

static const char *newest(const glob_t *found, char *buffer, size_t size)
{
	struct timespec youngest = { 0 };
	struct stat status;

	buffer[0] = 0;
	for (size_t i = 0; i < found->gl_pathc; i++)
		if (stat(found->gl_pathv[i], &status) == 0 && S_ISSOCK(status.st_mode) &&
		    (!buffer[0] || newer(&status.st_ctim, &youngest))) {
			youngest = status.st_ctim;
			snprintf(buffer, size, "%s", found->gl_pathv[i]);
		}
	return buffer[0] ? buffer : NULL;
}

const char *choose_node(const struct invocation *invocation, bool may_guess, char *buffer, size_t size,
			struct star_error *err)
{
	char pattern[256], all[300];
	const char *chosen;
	glob_t found;

	if (invocation->socket || invocation->address)
		return invocation->socket ? invocation->socket : invocation->address;
	snprintf(pattern, sizeof(pattern), "%s/*.sock", invocation->sockets);
	if (glob(pattern, 0, NULL, &found) != 0)
		found.gl_pathc = 0;
	list(&found, all, sizeof(all));
	chosen = found.gl_pathc ? newest(&found, buffer, size) : NULL;
	if (!chosen) {
		star_error_set(
			err, -ENOENT,
			"no node runs here: there is no socket in %s; give --socket PATH, or --address HOST:PORT of a "
			"node elsewhere",
			invocation->sockets);
	} else if (found.gl_pathc > 1 && !may_guess) {
		star_error_set(err, -EINVAL, "there are several nodes; choose one with --socket: %s", all);
		chosen = NULL;
	} else if (found.gl_pathc > 1) {
		fprintf(invocation->errors, "starctl: asking %s, the newest of several; choose with --socket: %s\n",
			chosen, all);
	}
	if (found.gl_pathc)
		globfree(&found);
	return chosen;
}
