/* SPDX-License-Identifier: BSD-3-Clause */
/* The command for each node, with the node's names filled in. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/starctl/rolling.h"
#include "config/config.h"

enum { COMMAND_MAX = 4096, END_MS = 5000 };

static const char *const names[] = { "{host}", "{control}", "{task}" };

enum { NAMES = sizeof(names) / sizeof(names[0]) };

int rolling_command_check(const char *option, const char *command, struct star_error *err)
{
	if (strlen(command) > COMMAND_MAX)
		return star_error_set(err, -E2BIG, "the command of --%s is longer than %d bytes", option, COMMAND_MAX);
	for (unsigned i = 0; i < NAMES; i++)
		if (strstr(command, names[i]))
			return 0;
	return star_error_set(err, -EINVAL,
			      "--%s is the same command for each node: say which one with {host}, {control} or {task}, "
			      "as in 'ssh {host} ...'",
			      option);
}

/* Addresses come from nodes, and are passed to a shell. */
static bool is_harmless(const char *host)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-_";

	return host[0] && host[0] != '-' && strspn(host, letters) == strlen(host);
}

char *rolling_command_for(const char *command, const char *control, unsigned task, struct star_error *err)
{
	struct config_address address;
	char number[16], *text = NULL;
	const char *values[NAMES];
	size_t bytes;
	FILE *out;

	if (config_parse_address(control, &address, err) < 0)
		return NULL;
	if (!is_harmless(address.host)) {
		star_error_set(err, -EINVAL, "the host \"%.100s\" has characters that are not passed to a shell",
			       address.host);
		return NULL;
	}
	snprintf(number, sizeof(number), "%u", task);
	values[0] = address.host;
	values[1] = control;
	values[2] = number;
	out = open_memstream(&text, &bytes);
	if (!out) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	while (*command) {
		unsigned i = 0;

		while (i < NAMES && strncmp(command, names[i], strlen(names[i])) != 0)
			i++;
		fputs(i < NAMES ? values[i] : (char[]){ *command, 0 }, out);
		command += i < NAMES ? strlen(names[i]) : 1;
	}
	if (fclose(out) != 0) {
		star_error_set(err, -ENOMEM, "out of memory");
		free(text);
		return NULL;
	}
	return text;
}

/* Its output is for the user, and not part of ours. It ends with this process: otherwise it might later restart a node
 * that serves by then, after the restart was continued by another process. */
static void become(const struct rolling *rolling, const char *command, pid_t parent)
{
	const int nothing = open("/dev/null", O_RDONLY);

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(127);
	if (nothing >= 0)
		dup2(nothing, STDIN_FILENO);
	dup2(fileno(rolling->invocation->errors), STDOUT_FILENO);
	dup2(fileno(rolling->invocation->errors), STDERR_FILENO);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

/* Waits for the given time; returns whether it has ended. */
static bool has_ended(pid_t child, int pid_fd, uint64_t ms, int *status)
{
	struct pollfd process = { .fd = pid_fd, .events = POLLIN };

	if (pid_fd >= 0 && poll(&process, 1, ms > INT_MAX ? INT_MAX : (int)ms) != 1)
		return false;
	return waitpid(child, status, 0) == child;
}

int rolling_command_run(const struct rolling *rolling, const char *command, struct star_error *err)
{
	const pid_t parent = getpid();
	int status = 0, pid_fd, rc = 0;
	pid_t child;

	fflush(rolling->invocation->out);
	fflush(rolling->invocation->errors);
	child = fork();
	if (child < 0)
		return star_error_set(err, -errno, "cannot create a process: %s", strerror(errno));
	if (child == 0)
		become(rolling, command, parent);
	pid_fd = pidfd_open(child, 0);
	if (!has_ended(child, pid_fd, rolling->timeout_us / 1000, &status)) {
		rc = star_error_set(err, -ETIMEDOUT, "the command had not ended after %llu s, and was killed: %.300s",
				    (unsigned long long)(rolling->timeout_us / 1000000), command);
		kill(child, SIGTERM);
		if (!has_ended(child, pid_fd, END_MS, &status)) {
			kill(child, SIGKILL);
			waitpid(child, &status, 0);
		}
	} else if (WIFSIGNALED(status)) {
		rc = star_error_set(err, -EIO, "the command was ended by SIG%s: %.300s",
				    sigabbrev_np(WTERMSIG(status)) ? sigabbrev_np(WTERMSIG(status)) : "?", command);
	} else if (WEXITSTATUS(status) != 0) {
		rc = star_error_set(err, -EIO, "the command failed, with exit status %d: %.300s", WEXITSTATUS(status),
				    command);
	}
	if (pid_fd >= 0)
		close(pid_fd);
	return rc;
}
