/* SPDX-License-Identifier: BSD-3-Clause */
/* Each directory belongs to one cluster, and must be the directory that was meant. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"
#include "ckpt/internal.h"

/* Whether a file system is mounted on the directory; false if it cannot be determined. */
static bool is_mount(int folder)
{
	struct stat here, above;

	return fstat(folder, &here) == 0 && fstatat(folder, "..", &above, 0) == 0 && here.st_dev != above.st_dev;
}

static bool is_same(int one, int other)
{
	struct stat a, b;

	return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Finds the process that holds the lock, in the kernel's list of locks. */
static pid_t find_holder(int folder)
{
	struct stat at;
	FILE *locks = fstat(folder, &at) == 0 ? fopen("/proc/locks", "re") : NULL;
	pid_t pid = 0;
	char line[128];

	while (locks && !pid && fgets(line, sizeof(line), locks)) {
		unsigned high, low;
		uint64_t inode;
		int who;

		if (sscanf(line, "%*u: FLOCK ADVISORY %*s %d %x:%x:%" SCNu64, &who, &high, &low, &inode) == 4 &&
		    who > 0 && inode == at.st_ino && makedev(high, low) == at.st_dev)
			pid = who;
	}
	if (locks)
		fclose(locks);
	return pid;
}

pid_t ckpt_claim_holder(const char *directory)
{
	const int folder = ckpt_open_folder(directory, NULL);
	const pid_t pid = folder >= 0 ? find_holder(folder) : 0;

	if (folder >= 0)
		close(folder);
	return pid;
}

static int refuse_claim(int folder, const char *directory, struct star_error *err)
{
	const pid_t pid = find_holder(folder);
	char who[32] = "";

	if (pid)
		snprintf(who, sizeof(who), " (process %d)", (int)pid);
	return star_error_set(err, -EBUSY,
			      "another cluster writes its checkpoints to %.280s%s: give each its own directory, or "
			      "stop that one first",
			      directory, who);
}

void ckpt_claim_init(struct ckpt_claim *claim, const char *directory)
{
	const int folder = ckpt_open_folder(directory, NULL);

	*claim = (struct ckpt_claim){ .folder = -1, .saves = -1, .mounted = folder >= 0 && is_mount(folder) };
	if (folder >= 0)
		close(folder);
}

int ckpt_claim_take(struct ckpt_claim *claim, const char *directory, struct star_error *err)
{
	const int folder = ckpt_open_folder(directory, err);
	int rc = 0;

	if (folder < 0)
		return folder;
	if (claim->mounted && !is_mount(folder))
		rc = star_error_set(err, -ENODEV,
				    "%.280s was a mounted file system, and is not mounted any more: mount it again",
				    directory);
	else if (claim->folder >= 0 && is_same(folder, claim->folder))
		rc = 1;
	/* Some network file systems cannot lock directories; then it is unknown. */
	else if (flock(folder, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		rc = refuse_claim(folder, directory, err);
	if (rc != 0) {
		close(folder);
		return rc < 0 ? rc : 0;
	}
	if (claim->folder >= 0)
		close(claim->folder);
	claim->folder = folder;
	claim->mounted = is_mount(folder);
	return 0;
}

/* ---- what a cluster has begun with ---- */

/* Opened for writing if possible, because some file systems need that for an exclusive lock. */
static int open_manifest(int folder, const char *name)
{
	static const int ways[] = { O_RDWR, O_RDONLY };
	char path[CHECKPOINT_ID_MAX + sizeof(CKPT_MANIFEST_NAME) + 1];
	int fd = -1;

	snprintf(path, sizeof(path), "%s/%s", name, CKPT_MANIFEST_NAME);
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]) && fd < 0; i++)
		fd = openat(folder, path, ways[i] | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

int ckpt_use(const char *directory, uint64_t id)
{
	const int folder = ckpt_open_folder(directory, NULL);
	char name[CHECKPOINT_ID_MAX];
	int fd = folder;

	for (unsigned delta = 0; folder >= 0 && delta < 2 && (delta == 0 || fd == -ENOENT); delta++) {
		ckpt_name(name, id, delta, "");
		fd = open_manifest(folder, name);
	}
	if (folder >= 0)
		close(folder);
	if (fd >= 0)
		(void)!flock(fd, LOCK_SH | LOCK_NB);
	return fd;
}

bool ckpt_is_used(int folder, const char *name, pid_t *holder)
{
	const int fd = open_manifest(folder, name);
	const bool used = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;

	*holder = used ? find_holder(fd) : 0;
	if (fd >= 0)
		close(fd);
	return used;
}

/* ---- saves and prunes ---- */

#define SAVES_NAME "starserver-saves.lock"
enum { LOOK_US = 50000 };

/* Created by the first process, which may be root; its owner must be the node's user. */
static int make_saves(int folder)
{
	const int fd = openat(folder, SAVES_NAME, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, CKPT_FILE_MODE);
	struct stat here;

	if (fd >= 0 && geteuid() == 0 && fstat(folder, &here) == 0)
		(void)!fchown(fd, here.st_uid, here.st_gid);
	return fd;
}

/* locks: if nothing can be written there, nothing needs a lock, and the directory itself is opened. */
static int open_saves(const char *directory, bool *locks, struct star_error *err)
{
	const int folder = ckpt_open_folder(directory, err);
	int fd = -1, code = -ENOENT;

	if (folder < 0)
		return folder;
	/* Two attempts, because another process may create it meanwhile. */
	for (unsigned i = 0; i < 2 && fd < 0 && (code == -ENOENT || code == -EEXIST); i++) {
		fd = openat(folder, SAVES_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0 && errno == ENOENT)
			fd = make_saves(folder);
		code = fd < 0 ? -errno : 0;
	}
	*locks = code != -EROFS;
	if (!*locks)
		return folder;
	close(folder);
	return fd < 0 ? ckpt_io_error(err, code, "open", directory, SAVES_NAME) : fd;
}

int ckpt_lock_saves(const char *directory, int how, uint64_t wait_us, struct star_error *err)
{
	const uint64_t until_us = clock_us() + wait_us;
	char who[32] = "";
	bool locks = false;
	const int fd = open_saves(directory, &locks, err);
	pid_t pid;

	if (fd < 0)
		return fd;
	/* Unknown if the file system has no locks. */
	while (locks && flock(fd, how | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
		if (clock_us() < until_us) {
			usleep(LOOK_US);
			continue;
		}
		pid = find_holder(fd);
		close(fd);
		if (pid)
			snprintf(who, sizeof(who), " (process %d)", (int)pid);
		return star_error_set(err, -EBUSY,
				      how == LOCK_EX
					      ? "a checkpoint is being written to %.280s%s, and the checkpoints that "
						"it is based on must stay: nothing was removed; try again after it"
					      : "checkpoints are being removed from %.280s%s: try again after it",
				      directory, who);
	}
	return fd;
}

int ckpt_claim_write(struct ckpt_claim *claim, const char *directory, uint64_t wait_us, struct star_error *err)
{
	if (claim->saves < 0)
		claim->saves = ckpt_lock_saves(directory, LOCK_SH, wait_us, err);
	return claim->saves < 0 ? claim->saves : 0;
}

void ckpt_claim_written(struct ckpt_claim *claim)
{
	if (claim->saves >= 0)
		close(claim->saves);
	claim->saves = -1;
}

void ckpt_claim_leave(struct ckpt_claim *claim)
{
	if (claim->folder >= 0)
		close(claim->folder);
	claim->folder = -1;
}

void ckpt_claim_fini(struct ckpt_claim *claim)
{
	ckpt_claim_written(claim);
	ckpt_claim_leave(claim);
}
