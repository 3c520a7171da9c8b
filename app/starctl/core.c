/* SPDX-License-Identifier: BSD-3-Clause */
/* `starctl core`: runs gdb on a core file of a node, with the script that is installed with this program. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/starctl/starctl.h"

#define SCRIPT "share/starserver/gdb/starserver.py"
#define SCRIPT_IN_TREE "scripts/gdb/starserver.py"

/* The script is below PREFIX, which has this program in bin; or in the source tree, which has it in
 * build/release/app/starctl. */
static bool find_script(char path[static PATH_MAX])
{
	static const struct {
		unsigned up;
		const char *name;
	} places[] = { { 2, SCRIPT }, { 5, SCRIPT_IN_TREE } };
	char program[PATH_MAX];
	const ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

	if (n < 0)
		return false;
	program[n] = 0;
	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		char *slash = program + n;

		for (unsigned up = 0; slash && up < places[i].up; up++)
			slash = memrchr(program, '/', (size_t)(slash - program));
		if (slash &&
		    snprintf(path, PATH_MAX, "%.*s/%s", (int)(slash - program), program, places[i].name) < PATH_MAX &&
		    access(path, R_OK) == 0)
			return true;
	}
	return false;
}

int run_core(const struct invocation *invocation)
{
	const char *core = invocation->argv[0], *given = invocation->argc > 1 ? invocation->argv[1] : NULL;
	struct star_error err = { 0 };
	char script[PATH_MAX];
	int status = 0;
	pid_t child;

	if (access(core, R_OK) < 0 || (given && access(given, R_OK) < 0)) {
		star_error_set(&err, -errno, "%s cannot be read: %s", access(core, R_OK) < 0 ? core : given,
			       strerror(errno));
		return fail(invocation, &err, STARCTL_FAILED);
	}
	if (!find_script(script)) {
		star_error_set(&err, -ENOENT, "the script for gdb is missing: %s below the prefix of starctl", SCRIPT);
		return fail(invocation, &err, STARCTL_FAILED);
	}
	setenv("STAR_CORE", core, 1);
	setenv("STAR_CORE_PROGRAM", given ? given : "", 1);
	setenv("STAR_CORE_JSON", invocation->json ? "1" : "", 1);
	fflush(invocation->out);
	child = fork();
	if (child == 0) {
		dup2(fileno(invocation->out), STDOUT_FILENO);
		execlp("gdb", "gdb", "-nx", "-nh", "-batch", "-q", "-iex", "set debuginfod enabled off", "-x", script,
		       (char *)NULL);
		_exit(127);
	}
	if (child > 0)
		waitpid(child, &status, 0);
	if (child < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 127)) {
		star_error_set(&err, -ENOENT, "cannot run gdb: apt-get install gdb");
		return fail(invocation, &err, STARCTL_FAILED);
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? STARCTL_OK : STARCTL_FAILED;
}
