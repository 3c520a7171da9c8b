/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Complete reads and writes: what the kernel does only in part, or a signal interrupts, is continued. They block as
 * long as the descriptor does. Threads: any; but two threads that write to the same file interleave their bytes.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Opens a file for reading all of it. folder: the directory to which a relative path refers, or AT_FDCWD; flags:
 * O_NOFOLLOW, or 0. The descriptor, or a negative errno: -EISDIR for a directory, -EMEDIUMTYPE for anything else that
 * is not a regular file, except /dev/null, which is like an empty one. (Reading a pipe, a socket or a device could
 * block for ever, and so could opening a pipe.)
 */
int base_open_file(int folder, const char *path, int flags);
/* A message for such an error. */
const char *base_open_error(int code);

/* 0: all bytes are written; else a negative errno, and some of them may have been written. */
int base_write_all(int fd, const void *from, size_t bytes);

/* Appends to a file, all or nothing: if it fails the file is truncated to its former length. 0 or a negative errno;
 * *torn (unless NULL): a part was written and could not be removed. One writer at a time. */
int base_append_all(int fd, const void *from, size_t bytes, bool *torn);

/* Replaces a small file in an open directory atomically, by way of "name.partial", and syncs the file and the
 * directory. After an error the file is as it was, unless only syncing the directory has failed. mode: of the new
 * file. */
int base_replace_file(int folder, const char *name, const void *from, size_t bytes, mode_t mode);

/* Opens a directory and locks it as long as the descriptor is open. The descriptor; -EBUSY: another process has locked
 * it; or another negative errno. It also succeeds on network file systems that cannot lock directories. */
int base_lock_folder(const char *path);

/* Reads a file's first line, without its end, as far as there is room. false, and "": it cannot be read. For files in
 * /proc and /sys. */
bool base_read_line(const char *path, char *line, size_t room);

/* Reads `bytes` bytes, or fewer if the file ends before. Returns how many, or a negative errno. */
ssize_t base_read_all(int fd, void *to, size_t bytes);

/* The same from an offset on, without moving the descriptor's own. */
ssize_t base_read_at(int fd, void *to, size_t bytes, uint64_t offset);

#endif
