/* SPDX-License-Identifier: BSD-3-Clause */
#include "local_directory.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "ckpt/ckpt.h"

enum {
	LOOK_US = 100000,
	LETS_GO_US = 1000000, /* for a process that is just ending, and whose lock the kernel has yet to release */
	ENDS_US = 30000000,   /* nodes whose parent has died write a last checkpoint */
	HOST_BYTES = 65,
	OWNER_BYTES = 160, /* the line in LOCK_NAME */
	WHO_BYTES = OWNER_BYTES + 80,
};

/* In the directory of checkpoints. */
#define LOCK_NAME "starserver-local.lock"
#define OWNER_FORMAT "starserver --local, process %d on %s"

/* Reads the line of the process that has locked the file. If the directory is shared, its pid may be one of another
 * machine. */
static void read_owner(int fd, char owner[static OWNER_BYTES])
{
	char *end;
	ssize_t bytes = pread(fd, owner, OWNER_BYTES - 1, 0);

	owner[bytes > 0 ? bytes : 0] = 0;
	end = strchr(owner, '\n');
	if (end)
		*end = 0;
	else
		strcpy(owner, "another starserver --local"); /* it has not written its line yet */
}

static void write_owner(int fd)
{
	char owner[OWNER_BYTES], host[HOST_BYTES] = "";
	int bytes;

	gethostname(host, sizeof(host) - 1);
	bytes = snprintf(owner, sizeof(owner), OWNER_FORMAT "\n", (int)getpid(), host);
	/* Only used in a message. */
	if (ftruncate(fd, 0) < 0 || pwrite(fd, owner, (size_t)bytes, 0) != bytes)
		fprintf(stderr, "starserver: %s cannot be written: %s\n", LOCK_NAME, strerror(errno));
}

/* Whether a process of this machine and this user has the file open. */
static bool has_open(const char *pid, const char *path)
{
	char name[PATH_MAX], folder[PATH_MAX];
	const struct dirent *entry;
	bool found = false;
	DIR *fds;

	snprintf(folder, sizeof(folder), "/proc/%.20s/fd", pid);
	fds = opendir(folder);
	while (fds && !found && (entry = readdir(fds))) {
		const ssize_t bytes = readlinkat(dirfd(fds), entry->d_name, name, sizeof(name) - 1);

		name[bytes > 0 ? bytes : 0] = 0;
		found = strcmp(name, path) == 0;
	}
	if (fds)
		closedir(fds);
	return found;
}

/* Finds a node of a --local that has ended; the node has inherited its lock. 0: there is none, or it is unknown. */
static pid_t find_orphan(const char *path, const char *owner)
{
	const struct dirent *entry;
	int parent = 0;
	char number[16];
	pid_t pid = 0;
	DIR *all;

	sscanf(owner, "starserver --local, process %d", &parent);
	snprintf(number, sizeof(number), "%d", parent);
	if (parent < 1 || has_open(number, path))
		return 0;
	all = opendir("/proc");
	while (all && !pid && (entry = readdir(all)))
		if (isdigit((unsigned char)entry->d_name[0]) && atoi(entry->d_name) != getpid() &&
		    has_open(entry->d_name, path))
			pid = atoi(entry->d_name);
	if (all)
		closedir(all);
	return pid;
}

/* Whether another process uses the directory for its checkpoints, and which; *orphan: one that should be ending, or 0.
 * Unknown if the file system has no locks. */
static bool is_taken(int fd, const char *directory, const char *path, char who[static WHO_BYTES], pid_t *orphan)
{
	const pid_t pid = ckpt_claim_holder(directory);
	char owner[OWNER_BYTES];

	*orphan = 0;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
		snprintf(who, WHO_BYTES, "process %d", (int)pid);
		return pid != 0;
	}
	read_owner(fd, owner);
	*orphan = find_orphan(path, owner);
	if (*orphan)
		snprintf(who, WHO_BYTES, "process %d, a node of %s (which has ended),", (int)*orphan, owner);
	else
		snprintf(who, WHO_BYTES, "%s", owner);
	return true;
}

/* 0, or -1 with a message on standard error. */
static int wait_for_lock(int fd, const char *directory, const char *path)
{
	const uint64_t begin_us = clock_us();
	char who[WHO_BYTES];
	bool said = false;
	pid_t orphan;

	while (is_taken(fd, directory, path, who, &orphan)) {
		const uint64_t waited_us = clock_us() - begin_us;

		if (waited_us >= (orphan ? ENDS_US : LETS_GO_US)) {
			fprintf(stderr,
				"starserver: --directory: %s uses %s for its checkpoints: stop it and its nodes first, "
				"or give another directory\n",
				who, directory);
			return -1;
		}
		if (orphan && !said)
			fprintf(stderr,
				"starserver: --directory: %s still uses %s for its checkpoints: waiting for it to end, "
				"at most %d s\n",
				who, directory, ENDS_US / 1000000);
		said |= orphan != 0;
		usleep(LOOK_US);
	}
	return 0;
}

int local_directory_lock(const char *directory)
{
	char path[PATH_MAX + sizeof(LOCK_NAME)];
	int fd;

	snprintf(path, sizeof(path), "%s/" LOCK_NAME, directory);
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0640);
	if (fd < 0) {
		fprintf(stderr, "starserver: --directory: %s cannot be created: %s\n", path, strerror(errno));
		return -1;
	}
	if (wait_for_lock(fd, directory, path) < 0) {
		close(fd);
		return -1;
	}
	write_owner(fd);
	return fd;
}
