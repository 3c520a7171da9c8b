/* SPDX-License-Identifier: BSD-3-Clause */
/* Error messages about files. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/internal.h"

static const char *advice(int code)
{
	switch (-code) {
	case ENOSPC:
		return ": free space there, or let `starctl checkpoint prune` remove old checkpoints";
	case EDQUOT:
		return ": raise the quota of this user, or let `starctl checkpoint prune` remove old checkpoints";
	case EROFS:
		return ": mount it for writing, or choose another directory (file systems are made read-only after "
		       "errors of their disks: look at the kernel's log)";
	case EIO:
	case ENXIO:
	case ENODEV:
		return ": the disk or the mount has failed; look at the kernel's log";
	case EACCES:
	case EPERM:
		return ": give the user who runs this the right to it";
	case ENOENT:
	case ENOTDIR:
		return ": make the directory, or mount what it lies on";
	case EFBIG:
		return ": the file system, or this process's limit (ulimit -f), does not allow a larger file";
	default:
		return "";
	}
}

int ckpt_io_error(struct star_error *err, int code, const char *what, const char *path, const char *name)
{
	return star_error_set(err, code, "cannot %s %.280s%s%.64s: %s%s", what, path, name ? "/" : "", name ? name : "",
			      strerror(-code), advice(code));
}

int ckpt_damaged(struct star_error *err, const char *path, const char *name, const char *format, ...)
{
	char reason[240];
	va_list args;

	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	return star_error_set(err, -EBADMSG, "%.180s/%.64s: %s", path, name, reason);
}

int ckpt_open_folder(const char *path, struct star_error *err)
{
	const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 ? fd : ckpt_io_error(err, -errno, "open", path, NULL);
}
