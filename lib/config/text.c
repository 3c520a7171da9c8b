/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

static unsigned line_of(const char *text, const char *place)
{
	unsigned line = 1;

	for (; text < place; text++)
		line += *text == '\n';
	return line;
}

static int check_text(const char *path, char *text, size_t bytes, struct star_error *err)
{
	const char *nul = memchr(text, 0, bytes);

	if (bytes > CONFIG_FILE_MAX)
		return star_error_set(err, -EFBIG, "%s is larger than %d MiB: is it the right file?", path,
				      CONFIG_FILE_MAX >> 20);
	if (nul)
		return star_error_set(err, -EINVAL, "%s:%u: a NUL byte: the file is not UTF-8 text", path,
				      line_of(text, nul));
	text[bytes] = 0;
	if (!strncmp(text, "\xef\xbb\xbf", 3))
		memmove(text, text + 3, bytes - 3 + 1);
	return 0;
}

char *config_read_text(const char *path, struct star_error *err)
{
	const int fd = base_open_file(AT_FDCWD, path, 0);
	char *text = NULL, *larger;
	size_t bytes = 0, room = 4096;
	ssize_t n = 0;

	if (fd < 0) {
		star_error_set(err, fd, "cannot open %s: %s", path, base_open_error(fd));
		return NULL;
	}
	/* Reads one byte more than allowed, to detect a file that is too large, and keeps one for the NUL. */
	do {
		room *= 2;
		larger = realloc(text, room);
		if (!larger) {
			star_error_set(err, -ENOMEM, "no memory to read %s", path);
			goto failed;
		}
		text = larger;
		n = base_read_all(fd, text + bytes, room - 1 - bytes);
		bytes += n > 0 ? (size_t)n : 0;
	} while (bytes == room - 1 && bytes <= CONFIG_FILE_MAX);
	if (n < 0) {
		star_error_set(err, (int)n, "cannot read %s: %s", path, strerrordesc_np((int)-n));
		goto failed;
	}
	if (check_text(path, text, bytes, err))
		goto failed;
	close(fd);
	return text;
failed:
	free(text);
	close(fd);
	return NULL;
}
