/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads and writes that are whole: what the kernel cuts short, or a signal interrupts, goes on. They wait for as long
 * as the descriptor does. Threads: any; two that write to one file mix their bytes.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Opens a file that is to be read whole. folder: what a relative path begins at, or AT_FDCWD; flags: O_NOFOLLOW, or 0.
 * The descriptor, or a negative errno: -EISDIR for a folder, -EMEDIUMTYPE for anything else that is no file, but
 * for /dev/null, which is as an empty one. A pipe, a socket or a device may have nothing to say for ever, and opening a
 * pipe may already wait for somebody to write.
 */
int base_open_file(int folder, const char *path, int flags);
/* What such an error is, for people. */
const char *base_open_error(int code);

/* 0 when all bytes are written; else a negative errno, and some of them may stand there. */
int base_write_all(int fd, const void *from, size_t bytes);

/* The same at a file's end, all of it or nothing: the file has its length again when that fails. A negative errno;
 * *torn, where that is wanted: a part of it stands there, since that failed too. One writer at a time. */
int base_append_all(int fd, const void *from, size_t bytes, bool *torn);

/* The same for a small file of a folder that is open: it has these bytes and is synced, name and all, or it is as it
 * was, but for a folder that cannot be synced. They go into "name.partial" first. The file has that mode. */
int base_replace_file(int folder, const char *name, const void *from, size_t bytes, mode_t mode);

/* Opens a folder and locks it for as long as the descriptor is open. The descriptor; -EBUSY: another process has locked
 * it; or a negative errno. Some network file systems lock no folders: there it succeeds. */
int base_lock_folder(const char *path);

/* A file's first line, without its end, or as much of it as there is room for; false, and "", when it cannot be read.
 * For what the kernel says in /proc and /sys. */
bool base_read_line(const char *path, char *line, size_t room);

/* How many bytes were read: fewer than wanted are all that there are up to the end. Or a negative errno. */
ssize_t base_read_all(int fd, void *to, size_t bytes);

/* The same from an offset on, without moving the descriptor's own. */
ssize_t base_read_at(int fd, void *to, size_t bytes, uint64_t offset);

#endif
