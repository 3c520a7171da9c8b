/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file's bytes, unpacked where it is gzip or zstd, which its first bytes say, whatever it is called. Several streams
 * one behind the other are one, as `cat a.gz b.gz` makes them. Outside bytes: what a small file unpacks to is bounded.
 * Threads: one at a time.
 */
#ifndef INPUT_SOURCE_H
#define INPUT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "star_error.h"

enum {
	/* More than that unpacked, and this many times what was read: no examples are like that, and it is refused. */
	SOURCE_UNPACKED_FREE = 64 << 20,
	SOURCE_RATIO_MAX = 400,
	SOURCE_WINDOW_LOG_MAX = 27, /* of zstd: 128 MiB of memory, as its own program allows without --long */
};

struct source {
	int fd; /* -1: none is open */
	enum { SOURCE_PLAIN, SOURCE_GZIP, SOURCE_ZSTD } kind;
	bool ended;  /* the file has */
	bool inside; /* a stream has begun, and not ended */
	void *state; /* zlib's or zstd's */
	uint8_t *packed;
	size_t begin, end;
	uint64_t read, unpacked; /* bytes of this file */
};

/* "-" is standard input. 0 or a negative errno with a message, without the path; nothing is open then. */
int input_source_open(struct source *source, const char *path, struct star_error *err);
/* The same of a descriptor, which is the source's from now on, also after a failure. */
int input_source_open_fd(struct source *source, int fd, struct star_error *err);
void input_source_close(struct source *source); /* of one that is closed, too */

/* The next bytes are those from there on; of one that is SOURCE_PLAIN, and no pipe. */
int input_source_seek(struct source *source, uint64_t offset, struct star_error *err);

/* Up to `bytes` > 0 bytes; 0: that was all; or a negative errno with a message that says at which byte of the file. */
int64_t input_source_read(struct source *source, void *to, size_t bytes, struct star_error *err);

#endif
