/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/file.h>
#include <unistd.h>

/* /dev/null, which people use where a file must be named but nothing is needed. */
static bool is_null(const struct stat *file)
{
	return S_ISCHR(file->st_mode) && file->st_rdev == makedev(1, 3);
}

int base_open_file(int folder, const char *path, int flags)
{
	const int fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
	struct stat file;
	int rc = 0;

	if (fd < 0)
		return errno == ENXIO ? -EMEDIUMTYPE : -errno; /* a socket, or a device without a driver */
	if (fstat(fd, &file) < 0)
		rc = -errno;
	else if (S_ISDIR(file.st_mode))
		rc = -EISDIR;
	else if (!S_ISREG(file.st_mode) && !is_null(&file))
		rc = -EMEDIUMTYPE;
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

const char *base_open_error(int code)
{
	return code == -EMEDIUMTYPE ? "it is a pipe, a socket or a device, and not a regular file"
				    : strerrordesc_np(-code);
}

static int write_some(int fd, const uint8_t *from, size_t bytes, size_t *done)
{
	while (*done < bytes) {
		const ssize_t n = write(fd, from + *done, bytes - *done);

		if (n < 0 && errno == EINTR)
			continue;
		/* A device that accepts nothing without an error would cause an endless loop. */
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		*done += (size_t)n;
	}
	return 0;
}

int base_write_all(int fd, const void *from, size_t bytes)
{
	size_t done = 0;

	return write_some(fd, from, bytes, &done);
}

int base_append_all(int fd, const void *from, size_t bytes, bool *torn)
{
	struct stat before;
	size_t done = 0;
	bool left;
	int rc;

	if (torn)
		*torn = false;
	if (fstat(fd, &before) < 0)
		return -errno;
	rc = write_some(fd, from, bytes, &done);
	left = rc < 0 && done && ftruncate(fd, before.st_size) < 0;
	if (torn)
		*torn = left;
	return rc;
}

int base_replace_file(int folder, const char *name, const void *from, size_t bytes, mode_t mode)
{
	char partial[NAME_MAX + 1];
	int fd, rc;

	if (snprintf(partial, sizeof(partial), "%s.partial", name) >= (int)sizeof(partial))
		return -ENAMETOOLONG;
	fd = openat(folder, partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return -errno;
	rc = base_write_all(fd, from, bytes);
	if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	if (rc == 0 && renameat(folder, partial, folder, name) < 0)
		rc = -errno;
	if (rc < 0)
		unlinkat(folder, partial, 0);
	else if (fsync(folder) < 0)
		rc = -errno;
	return rc;
}

int base_lock_folder(const char *path)
{
	const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
		close(fd);
		return -EBUSY;
	}
	return fd;
}

static ssize_t read_some(int fd, uint8_t *to, size_t bytes, const uint64_t *offset)
{
	size_t done = 0;

	while (done < bytes) {
		const ssize_t n = offset ? pread(fd, to + done, bytes - done, (off_t)(*offset + done))
					 : read(fd, to + done, bytes - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

bool base_read_line(const char *path, char *line, size_t room)
{
	FILE *file = fopen(path, "re");
	const bool read = file && fgets(line, (int)room, file);

	if (file)
		fclose(file);
	line[read ? strcspn(line, "\n") : 0] = 0;
	return read;
}

ssize_t base_read_all(int fd, void *to, size_t bytes)
{
	return read_some(fd, to, bytes, NULL);
}

ssize_t base_read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
	return read_some(fd, to, bytes, &offset);
}
