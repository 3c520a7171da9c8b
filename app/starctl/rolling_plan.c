/* SPDX-License-Identifier: BSD-3-Clause */
/* The state at the start of a rolling restart, in a file: the process of each node. It is written once; the progress
 * need not be recorded, because the nodes themselves report it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "app/starctl/rolling.h"
#include "wire/frame.h"

enum { FILE_MAX = 4 << 20 };

static int unreadable(const struct rolling *rolling, struct star_error *err)
{
	return star_error_set(err, -EINVAL, "%s was not written by a rolling restart: --from-scratch ignores it",
			      rolling->file);
}

static int take_node(const json_t *from, struct rolling_node *node)
{
	const char *control = json_string_value(json_object_get(from, "control"));
	const char *process = json_string_value(json_object_get(from, "process"));

	if (!control || !process || !*control || !*process || strlen(control) >= sizeof(node->control) ||
	    strlen(process) >= sizeof(node->process))
		return -EINVAL;
	strcpy(node->control, control);
	strcpy(node->process, process);
	return 0;
}

static int take_plan(struct rolling *rolling, const json_t *json)
{
	const json_t *tasks = json_object_get(json, "tasks"), *nodes, *node;
	const size_t count = json_array_size(tasks);
	size_t task, i;

	if (!json_is_string(json_object_get(json, "begun")) || count == 0 || count > WIRE_NODES_MAX)
		return -EINVAL;
	rolling->tasks = calloc(count, sizeof(*rolling->tasks));
	if (!rolling->tasks)
		return -ENOMEM;
	rolling->count = (unsigned)count;
	rolling->begun = json_incref(json_object_get(json, "begun"));
	json_array_foreach(tasks, task, nodes)
	{
		if (json_array_size(nodes) < 1 || json_array_size(nodes) > 2)
			return -EINVAL;
		rolling->tasks[task].count = (unsigned)json_array_size(nodes);
		json_array_foreach(nodes, i, node)
		{
			if (take_node(node, &rolling->tasks[task].nodes[i]) < 0)
				return -EINVAL;
		}
	}
	return 0;
}

static int read_plan(struct rolling *rolling, size_t bytes, struct star_error *err)
{
	char *text = malloc(bytes + 1);
	json_t *json = NULL;
	int rc = -EINVAL;

	if (text && pread(rolling->fd, text, bytes, 0) == (ssize_t)bytes) {
		json = json_loadb(text, bytes, 0, NULL);
		rc = json ? take_plan(rolling, json) : -EINVAL;
	}
	json_decref(json);
	free(text);
	rolling->written = true;
	return rc < 0 ? unreadable(rolling, err) : 1;
}

/* Creates all directories of a path. */
static void make_folders(const char *path)
{
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%s", path);
	for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(folder, 0700);
		*slash = '/';
	}
}

/* Closes the file: it belongs to another process, and stays. */
static int let_go(struct rolling *rolling, int rc)
{
	close(rolling->fd);
	rolling->fd = -1;
	return rc;
}

/* The process that held the lock until now may have removed it. */
static bool lock_file(int fd)
{
	struct stat status;

	return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &status) == 0 && status.st_nlink > 0;
}

int rolling_plan_open(struct rolling *rolling, struct star_error *err)
{
	struct stat status;

	/* A dry run creates nothing. */
	if (!rolling->dry)
		make_folders(rolling->file);
	rolling->fd = open(rolling->file, O_NONBLOCK | O_CLOEXEC | (rolling->dry ? O_RDONLY : O_RDWR | O_CREAT), 0600);
	if (rolling->fd < 0 && rolling->dry && errno == ENOENT)
		return 0;
	if (rolling->fd < 0)
		return star_error_set(err, -errno, "%s cannot be opened: %s; --state FILE names another one",
				      rolling->file, strerror(errno));
	if (!rolling->dry && !lock_file(rolling->fd))
		return let_go(rolling, star_error_set(err, -EBUSY,
						      "another rolling restart of this cluster is under way: it has %s",
						      rolling->file));
	/* Only now: the contents belong to another process while it has the lock. */
	if (fstat(rolling->fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size > FILE_MAX)
		return let_go(
			rolling,
			star_error_set(err, -EINVAL,
				       "%s is not a file that a rolling restart writes: --state FILE names another one",
				       rolling->file));
	return status.st_size == 0 || rolling->from_scratch ? 0 : read_plan(rolling, (size_t)status.st_size, err);
}

static json_t *plan_json(const struct rolling *rolling)
{
	json_t *tasks = json_array();

	for (unsigned task = 0; task < rolling->count; task++) {
		json_t *nodes = json_array();

		for (unsigned i = 0; i < rolling->tasks[task].count; i++) {
			const struct rolling_node *node = &rolling->tasks[task].nodes[i];

			json_array_append_new(nodes, json_pack("{s:s, s:s}", "control", node->control, "process",
							       node->process));
		}
		json_array_append_new(tasks, nodes);
	}
	return json_pack("{s:O, s:o}", "begun", rolling->begun, "tasks", tasks);
}

int rolling_plan_write(struct rolling *rolling, struct star_error *err)
{
	json_t *json;
	char *text;
	size_t bytes;
	int rc = 0;

	rolling->written = true;
	json = plan_json(rolling);
	text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
	json_decref(json);
	if (!text)
		return star_error_set(err, -ENOMEM, "out of memory");
	bytes = strlen(text);
	if (ftruncate(rolling->fd, 0) < 0 || pwrite(rolling->fd, text, bytes, 0) != (ssize_t)bytes ||
	    fsync(rolling->fd) < 0)
		rc = star_error_set(err, -EIO, "%s cannot be written: %s; --state FILE names another one",
				    rolling->file, strerror(errno));
	free(text);
	return rc;
}

void rolling_plan_end(struct rolling *rolling)
{
	rolling->written = false;
}

void rolling_plan_close(struct rolling *rolling)
{
	/* It is still locked, so no other process has started. */
	if (rolling->fd >= 0 && !rolling->dry && !rolling->written)
		unlink(rolling->file);
	if (rolling->fd >= 0)
		close(rolling->fd);
	json_decref(rolling->begun);
	free(rolling->tasks);
}
