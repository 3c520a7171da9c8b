/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a file's bytes, and decompresses gzip and zstd, which it recognizes by the first bytes, not by name.
 * Concatenated streams (`cat a.gz b.gz`) are read as one. Files are not trusted: the compression ratio is bounded. One
 * thread at a time.
 */
#ifndef INPUT_SOURCE_H
#define INPUT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "star_error.h"

enum {
	/* A file that decompresses to more than SOURCE_UNPACKED_FREE bytes, and to more than SOURCE_RATIO_MAX times its
	 * size, is refused: training examples do not compress that well. */
	SOURCE_UNPACKED_FREE = 64 << 20,
	SOURCE_RATIO_MAX = 400,
	SOURCE_WINDOW_LOG_MAX = 27, /* of zstd: 128 MiB of memory, the limit of zstd(1) without --long */
};

struct source {
	int fd; /* -1: none is open */
	enum { SOURCE_PLAIN, SOURCE_GZIP, SOURCE_ZSTD } kind;
	bool ended;  /* end of file */
	bool inside; /* inside a compressed stream */
	void *state; /* zlib's or zstd's */
	uint8_t *packed;
	size_t begin, end;
	uint64_t read, unpacked; /* bytes of this file */
};

/* path "-": standard input. 0, or a negative errno with a message that does not name the path, and nothing is open. */
int input_source_open(struct source *source, const char *path, struct star_error *err);
/* The same for a descriptor, which the source owns from now on, even after a failure. */
int input_source_open_fd(struct source *source, int fd, struct star_error *err);
void input_source_close(struct source *source); /* also if it is closed already */

/* Continues reading at `offset`. Only for SOURCE_PLAIN, and not for pipes. 0 or a negative errno. */
int input_source_seek(struct source *source, uint64_t offset, struct star_error *err);

/* Reads up to `bytes` > 0 bytes. Returns their number; 0: end of file; or a negative errno with a message that names
 * the position in the file. */
int64_t input_source_read(struct source *source, void *to, size_t bytes, struct star_error *err);

#endif
