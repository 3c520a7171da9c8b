/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the node if the command line does not name one. */
#include <errno.h>
#include <glob.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "app/starctl/starctl.h"

static bool newer(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* A node's memif sockets may be in the same directory: they are not stream sockets. */
static bool is_for_workers(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const int fd = strlen(path) < sizeof(address.sun_path) ? socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0) : -1;
	bool wrong_type;

	if (fd < 0)
		return false;
	memcpy(address.sun_path, path, strlen(path));
	wrong_type = connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 && errno == EPROTOTYPE;
	close(fd);
	return wrong_type;
}

/* Moves them to the end, and excludes them from the count; returns how many paths there were. */
static size_t leave_out_workers(glob_t *found)
{
	const size_t all = found->gl_pathc;

	for (size_t i = 0; i < found->gl_pathc;) {
		char *path = found->gl_pathv[i];

		if (!is_for_workers(path)) {
			i++;
			continue;
		}
		memmove(&found->gl_pathv[i], &found->gl_pathv[i + 1], (all - i - 1) * sizeof(path));
		found->gl_pathv[all - 1] = path;
		found->gl_pathc--;
	}
	return all;
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
	size_t paths;
	glob_t found;

	if (invocation->socket || invocation->address)
		return invocation->socket ? invocation->socket : invocation->address;
	snprintf(pattern, sizeof(pattern), "%s/*.sock", invocation->sockets);
	if (glob(pattern, 0, NULL, &found) != 0)
		found.gl_pathc = 0;
	paths = leave_out_workers(&found);
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
	found.gl_pathc = paths;
	if (paths)
		globfree(&found);
	return chosen;
}
