/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Storage that stalls or fails when a test says so: preloaded into a starserver, it looks at file calls below
 * STAR_STORAGE_FOLDER. The file STAR_STORAGE_ORDER, which both map, says what they are to do:
 * tests/system/starstorage.py writes it. No privileges and no file system of one's own are needed, and each call of a
 * save or a restore can be met by itself.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))
enum { NAP_US = 2000, PATH_BYTES = 4200 };

/* As starstorage.py packs it. */
static struct order {
	char call[16];	 /* "": none; "any" */
	uint32_t number; /* of the order: a new one ends what stalls */
	int32_t error;	 /* 0: it stalls */
	uint32_t skip;	 /* this many calls succeed before */
	uint32_t met;	 /* calls that it was meant for, those skipped included */
} * order;
static const char *folder;

__attribute__((constructor)) static void find_order(void)
{
	const char *path = getenv("STAR_STORAGE_ORDER");
	const int fd = path ? (int)(intptr_t)open(path, O_RDWR | O_CLOEXEC) : -1;
	void *memory = fd >= 0 ? mmap(NULL, sizeof(*order), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

	folder = getenv("STAR_STORAGE_FOLDER");
	if (fd >= 0)
		close(fd);
	if (memory != MAP_FAILED && folder)
		order = memory;
}

/* Whether a path below the folder's is meant. */
static bool is_meant(int at, const char *name)
{
	char link[48], path[PATH_BYTES];
	ssize_t bytes;

	if (name && name[0] == '/')
		return strncmp(name, folder, strlen(folder)) == 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", at);
	bytes = readlink(link, path, sizeof(path) - 1);
	if (bytes <= 0)
		return false;
	path[bytes] = 0;
	return strncmp(path, folder, strlen(folder)) == 0;
}

/* Stalls as long as that is the order; 0, or -1 with errno. */
static int obey(const char *call, int at, const char *name)
{
	const int before = errno;
	uint32_t number;

	if (!order || !order->call[0] || (strcmp(order->call, call) != 0 && strcmp(order->call, "any") != 0) ||
	    !is_meant(at, name)) {
		errno = before;
		return 0;
	}
	number = __atomic_load_n(&order->number, __ATOMIC_ACQUIRE);
	if (__atomic_fetch_add(&order->met, 1, __ATOMIC_ACQ_REL) < order->skip)
		return 0;
	if (order->error) {
		errno = order->error;
		return -1;
	}
	while (__atomic_load_n(&order->number, __ATOMIC_ACQUIRE) == number)
		usleep(NAP_US);
	errno = before;
	return 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

SHOWN int open(const char *path, int flags, ...)
{
	va_list list;
	mode_t mode;

	va_start(list, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
	va_end(list);
	return obey("open", AT_FDCWD, path) < 0 ? -1 : REAL(open)(path, flags, mode);
}

SHOWN int openat(int at, const char *path, int flags, ...)
{
	va_list list;
	mode_t mode;

	va_start(list, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
	va_end(list);
	return obey("open", at, path) < 0 ? -1 : REAL(openat)(at, path, flags, mode);
}

SHOWN int mkdirat(int at, const char *path, mode_t mode)
{
	return obey("mkdir", at, path) < 0 ? -1 : REAL(mkdirat)(at, path, mode);
}

SHOWN int renameat(int at, const char *from, int to_at, const char *to)
{
	return obey("rename", at, from) < 0 ? -1 : REAL(renameat)(at, from, to_at, to);
}

SHOWN int unlinkat(int at, const char *path, int flags)
{
	return obey("unlink", at, path) < 0 ? -1 : REAL(unlinkat)(at, path, flags);
}

SHOWN ssize_t pwrite(int fd, const void *bytes, size_t n, off_t offset)
{
	return obey("write", fd, NULL) < 0 ? -1 : REAL(pwrite)(fd, bytes, n, offset);
}

SHOWN ssize_t write(int fd, const void *bytes, size_t n)
{
	return obey("write", fd, NULL) < 0 ? -1 : REAL(write)(fd, bytes, n);
}

/* A journal's. */
SHOWN ssize_t pwritev2(int fd, const struct iovec *pieces, int count, off_t offset, int flags)
{
	return obey("write", fd, NULL) < 0 ? -1 : REAL(pwritev2)(fd, pieces, count, offset, flags);
}

SHOWN ssize_t pread(int fd, void *bytes, size_t n, off_t offset)
{
	return obey("read", fd, NULL) < 0 ? -1 : REAL(pread)(fd, bytes, n, offset);
}

SHOWN ssize_t read(int fd, void *bytes, size_t n)
{
	return obey("read", fd, NULL) < 0 ? -1 : REAL(read)(fd, bytes, n);
}

SHOWN int fsync(int fd)
{
	return obey("sync", fd, NULL) < 0 ? -1 : REAL(fsync)(fd);
}

SHOWN int fstat(int fd, struct stat *stat)
{
	return obey("stat", fd, NULL) < 0 ? -1 : REAL(fstat)(fd, stat);
}

SHOWN int fstatat(int at, const char *path, struct stat *stat, int flags)
{
	return obey("stat", at, path) < 0 ? -1 : REAL(fstatat)(at, path, stat, flags);
}

SHOWN int flock(int fd, int operation)
{
	return obey("lock", fd, NULL) < 0 ? -1 : REAL(flock)(fd, operation);
}

SHOWN struct dirent *readdir(DIR *dir)
{
	return obey("list", dirfd(dir), NULL) < 0 ? NULL : REAL(readdir)(dir);
}
