/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/ckpt/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What a loss of power may take back. */
enum change_kind { CHANGE_DATA, CHANGE_CREATE, CHANGE_MKDIR, CHANGE_RENAME, CHANGE_UNLINK, CHANGE_RMDIR };

struct change {
	enum change_kind kind;
	bool durable;
	int fd;	       /* of the file, or of the folder in which the name is */
	uint64_t file; /* its inode */
	off_t offset;  /* DATA: the file had this many bytes */
	char name[300], to[300];
};

enum { CHANGES_MAX = 1000 };

static struct shim_plan plan;
static bool armed;
static unsigned calls, changes_count;
static struct change changes[CHANGES_MAX];

/* ---- the loss of power ---- */

static uint64_t inode_of(int fd)
{
	struct stat status;

	return fstat(fd, &status) == 0 ? status.st_ino : 0;
}

static struct change *remember(enum change_kind kind, int fd, const char *name)
{
	struct change *c = &changes[changes_count++];

	if (changes_count == CHANGES_MAX)
		abort();
	*c = (struct change){ .kind = kind, .fd = fcntl(fd, F_DUPFD_CLOEXEC, 100), .file = inode_of(fd) };
	if (name)
		snprintf(c->name, sizeof(c->name), "%s", name);
	return c;
}

static void take_back(const struct change *c)
{
	switch (c->kind) {
	case CHANGE_DATA:
		(void)!ftruncate(c->fd, c->offset);
		break;
	case CHANGE_CREATE:
		syscall(SYS_unlinkat, c->fd, c->name, 0);
		break;
	case CHANGE_MKDIR:
		syscall(SYS_unlinkat, c->fd, c->name, AT_REMOVEDIR);
		break;
	case CHANGE_RENAME:
		syscall(SYS_renameat, c->fd, c->to, c->fd, c->name);
		break;
	case CHANGE_UNLINK:
		syscall(SYS_renameat, AT_FDCWD, c->to, c->fd, c->name);
		break;
	case CHANGE_RMDIR:
		syscall(SYS_mkdirat, c->fd, c->name, 0755);
		break;
	}
}

void shim_end(int status)
{
	for (unsigned i = changes_count; i-- > 0;)
		if (!changes[i].durable && (changes[i].kind == CHANGE_DATA ? plan.lose_data : plan.lose_names))
			take_back(&changes[i]);
	_exit(status);
}

/* True: the call fails. */
static bool comes(void)
{
	if (!armed)
		return false;
	if (plan.way == SHIM_FULL) {
		errno = plan.code;
		return calls++ >= plan.at;
	}
	if (calls++ != plan.at)
		return false;
	if (plan.way == SHIM_CRASH || plan.way == SHIM_TEAR)
		shim_end(SHIM_EXIT);
	errno = plan.code;
	return plan.way == SHIM_FAIL;
}

/* ---- the calls ---- */

static enum shim_direct direct;

void shim_refuse_direct(enum shim_direct where)
{
	direct = where;
}

static bool refuses(int fd)
{
	errno = EINVAL;
	return direct == SHIM_DIRECT_NOT_USED && fcntl(fd, F_GETFL) & O_DIRECT;
}

ssize_t pread(int fd, void *to, size_t bytes, off_t offset)
{
	return refuses(fd) ? -1 : syscall(SYS_pread64, fd, to, bytes, offset);
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t offset)
{
	struct stat status;

	if (armed && plan.way == SHIM_TEAR && calls == plan.at)
		syscall(SYS_pwrite64, fd, from, bytes / 2 / 512 * 512, offset);
	if (refuses(fd) || comes())
		return -1;
	if (armed && fstat(fd, &status) == 0)
		remember(CHANGE_DATA, fd, NULL)->offset = status.st_size;
	return syscall(SYS_pwrite64, fd, from, bytes, offset);
}

ssize_t write(int fd, const void *from, size_t bytes)
{
	struct stat status;
	const bool counts = armed && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && fd > STDERR_FILENO;

	if (counts && plan.way == SHIM_TEAR && calls == plan.at)
		syscall(SYS_write, fd, from, bytes / 2);
	if (counts && comes())
		return -1;
	if (counts)
		remember(CHANGE_DATA, fd, NULL)->offset = status.st_size;
	return syscall(SYS_write, fd, from, bytes);
}

int fsync(int fd)
{
	const uint64_t file = inode_of(fd);
	int rc;

	if (comes())
		return -1;
	rc = (int)syscall(SYS_fsync, fd);
	for (unsigned i = 0; armed && rc == 0 && i < changes_count; i++)
		changes[i].durable |= changes[i].file == file;
	return rc;
}

int openat(int folder, const char *name, int flags, ...)
{
	const bool counts = armed && flags & O_CREAT;
	va_list args;
	mode_t mode;
	int fd;

	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (counts && comes())
		return -1;
	fd = (int)syscall(SYS_openat, folder, name, flags, mode);
	if (counts && fd >= 0)
		remember(CHANGE_CREATE, folder, name);
	if (fd >= 0 && direct == SHIM_DIRECT_NOT_OPENED && flags & O_DIRECT) {
		close(fd);
		errno = EINVAL;
		return -1;
	}
	return fd;
}

int mkdirat(int folder, const char *name, mode_t mode)
{
	int rc;

	if (comes())
		return -1;
	rc = (int)syscall(SYS_mkdirat, folder, name, mode);
	if (armed && rc == 0)
		remember(CHANGE_MKDIR, folder, name);
	return rc;
}

/* Within one folder: the library has no other need. */
int renameat(int folder, const char *name, int to_folder, const char *to)
{
	int rc;

	if (folder != to_folder)
		abort();
	if (comes())
		return -1;
	rc = (int)syscall(SYS_renameat, folder, name, to_folder, to);
	if (armed && rc == 0) {
		struct change *c = remember(CHANGE_RENAME, folder, name);

		snprintf(c->to, sizeof(c->to), "%s", to);
	}
	return rc;
}

int unlinkat(int folder, const char *name, int flags)
{
	struct change *c;

	if (!armed || (plan.way != SHIM_FULL && comes()))
		return armed ? -1 : (int)syscall(SYS_unlinkat, folder, name, flags);
	if (flags & AT_REMOVEDIR) {
		if (syscall(SYS_unlinkat, folder, name, flags) < 0)
			return -1;
		remember(CHANGE_RMDIR, folder, name);
		return 0;
	}
	c = remember(CHANGE_UNLINK, folder, name);
	snprintf(c->to, sizeof(c->to), "%.200s/%u", plan.stash, changes_count);
	if (syscall(SYS_renameat, folder, name, AT_FDCWD, c->to) == 0)
		return 0;
	changes_count--;
	close(c->fd);
	return -1;
}

void shim_arm(const struct shim_plan *new_plan)
{
	plan = *new_plan;
	calls = 0;
	armed = true;
}

unsigned shim_disarm(void)
{
	for (unsigned i = 0; i < changes_count; i++)
		close(changes[i].fd);
	changes_count = 0;
	armed = false;
	return calls;
}
