/* SPDX-License-Identifier: BSD-3-Clause */
/* Files as they are, gzip's and zstd's. */
#include "input/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "input/input.h"
#include "tests/input/cases.h"
#include "tests/unit.h"

enum { TEXT = 1 << 20, ROOM = TEXT + (TEXT >> 6) };

static size_t pack_gzip(const void *from, size_t bytes, uint8_t *to, size_t room)
{
	z_stream z = {
		.next_in = (void *)(uintptr_t)from, .avail_in = (uInt)bytes, .next_out = to, .avail_out = (uInt)room
	};

	CHECK_INT(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	CHECK_INT(deflate(&z, Z_FINISH), Z_STREAM_END);
	CHECK_INT(deflateEnd(&z), Z_OK);
	return room - z.avail_out;
}

static size_t pack_zstd(const void *from, size_t bytes, uint8_t *to, size_t room)
{
	return ZSTD_compress(to, room, from, bytes, 3);
}

static size_t (*const pack[])(const void *from, size_t bytes, uint8_t *to, size_t room) = { pack_gzip, pack_zstd };
static const char *const names[] = { "gzip", "zstd" };

/* Lines of numbers that do not repeat. */
static void make_text(char *text)
{
	uint32_t x = 1;

	for (size_t i = 0; i < TEXT; i++) {
		x = x * 1664525 + 1013904223;
		text[i] = i % 20 == 19 ? '\n' : (char)('0' + (x >> 24) % 10);
	}
}

/* A descriptor of a file with these bytes. */
static int file_of(const void *bytes, size_t count)
{
	const int fd = memfd_create("source", 0);

	CHECK_INT(write(fd, bytes, count), count);
	CHECK_INT(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

/* Reads all in pieces of that size, which must be what text begins with: how many bytes, or the error. */
static int64_t read_all(int fd, size_t piece, const char *text, struct star_error *err)
{
	struct source source;
	char *buffer = malloc(piece);
	int64_t n = input_source_open_fd(&source, fd, err), all = 0;

	while (n == 0 && (n = input_source_read(&source, buffer, piece, err)) > 0) {
		if (text && !CHECK(all + n <= TEXT && memcmp(buffer, text + all, (size_t)n) == 0))
			break;
		all += n;
		n = 0;
	}
	input_source_close(&source);
	free(buffer);
	return n < 0 ? n : all;
}

void packed_files_are_read_as_they_were(void)
{
	static const size_t pieces[] = { 1000, 4096, 3 << 20 };
	char *text = malloc(TEXT);
	uint8_t *packed = malloc(2 * ROOM);
	struct star_error err = { 0 };

	make_text(text);
	for (unsigned i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
		CHECK_INT(read_all(file_of(text, TEXT), pieces[i], text, &err), TEXT);
	for (unsigned kind = 0; kind < 2; kind++)
		for (unsigned i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
			size_t n = pack[kind](text, 300000, packed, ROOM);

			/* several streams one behind the other, one of them of nothing */
			n += pack[kind]("", 0, packed + n, ROOM);
			n += pack[kind](text + 300000, TEXT - 300000, packed + n, ROOM);
			CHECK_INT(read_all(file_of(packed, n), pieces[i], text, &err), TEXT);
			if (kind == 0) { /* and zeros, as tapes have them */
				memset(packed + n, 0, 1000);
				CHECK_INT(read_all(file_of(packed, n + 1000), pieces[i], text, &err), TEXT);
			}
		}
	CHECK_INT(read_all(file_of("", 0), 10, text, &err), 0);
	CHECK_INT(read_all(file_of(text, 1), 10, text, &err), 1);
	free(text);
	free(packed);
}

void streams_that_are_cut_are_refused(void)
{
	char *text = malloc(TEXT);
	uint8_t *packed = malloc(ROOM);

	make_text(text);
	for (unsigned kind = 0; kind < 2; kind++) {
		const size_t n = pack[kind](text, TEXT, packed, ROOM);

		for (size_t cut = 4; cut < n; cut += cut < 40 || cut + 40 > n ? 1 : n / 13) {
			struct star_error err = { 0 };
			char said[80];

			CHECK_INT(read_all(file_of(packed, cut), 4096, text, &err), -EBADMSG);
			snprintf(said, sizeof(said), "it ends at byte %zu in the middle of a %s stream", cut,
				 names[kind]);
			CHECK_HAS(err.text, said);
		}
	}
	free(text);
	free(packed);
}

void streams_that_are_damaged_are_refused(void)
{
	char *text = malloc(TEXT);
	uint8_t *packed = malloc(ROOM);
	struct star_error err = { 0 };
	size_t n;

	make_text(text);
	n = pack_gzip(text, TEXT, packed, ROOM);
	packed[n - 6] ^= 1; /* of the sum of the whole */
	CHECK_INT(read_all(file_of(packed, n), 4096, text, &err), -EBADMSG);
	CHECK_HAS(err.text, "its gzip stream is damaged at byte");
	packed[n - 6] ^= 1;
	memcpy(packed + n, "more", 4); /* a text is not a stream */
	CHECK_INT(read_all(file_of(packed, n + 4), 4096, text, &err), -EBADMSG);
	CHECK_HAS(err.text, "incorrect header check");
	n = pack_zstd(text, TEXT, packed, ROOM);
	packed[4] = 0xff; /* the header of the frame */
	CHECK_INT(read_all(file_of(packed, n), 4096, NULL, &err), -EBADMSG);
	CHECK_HAS(err.text, "its zstd stream is damaged at byte");
	/* A frame whose window is 2^31 bytes, and which begins with a block of none. */
	CHECK_INT(read_all(file_of("\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00", 9), 4096, NULL, &err), -EBADMSG);
	CHECK_HAS(err.text, "its zstd stream is damaged at byte");
	free(text);
	free(packed);
}

/* As much as is free of the ratio may be zeros; twice that may not. */
void what_unpacks_to_too_much_is_refused(void)
{
	const size_t bytes = 2 * (size_t)SOURCE_UNPACKED_FREE;
	char *zeros = calloc(1, bytes);
	uint8_t *packed = malloc(ROOM);

	for (unsigned kind = 0; kind < 2; kind++) {
		struct star_error err = { 0 };
		const size_t n = pack[kind](zeros, bytes, packed, ROOM);

		CHECK_INT(read_all(file_of(packed, n), 1 << 20, NULL, &err), -EFBIG);
		CHECK_HAS(err.text, "grow more than 400 times when decompressed");
		CHECK_INT(read_all(file_of(packed, pack[kind](zeros, bytes / 2, packed, ROOM)), 1 << 20, NULL, &err),
			  SOURCE_UNPACKED_FREE);
	}
	free(zeros);
	free(packed);
}

static struct input_options options_of(const char *const *path)
{
	return (struct input_options){
		.format = INPUT_LIBSVM, .paths = path, .paths_count = 1, .batch = 4, .epochs = 1, .workers = 1
	};
}

/* How many rows there are, or the error. */
static int count_rows(const struct input_options *options, struct star_error *err)
{
	struct input *input = input_open(options, err);
	const struct input_batch *batch;
	int rows = 0, rc = input ? 1 : err->code;

	while (rc > 0 && (rc = input_next(input, &batch, err)) > 0)
		rows += (int)batch->rows;
	input_close(input);
	return rc < 0 ? rc : rows;
}

void standard_input_is_read_once(void)
{
	static const char *const path[] = { "-", "other" };
	static const char rows[] = "1 2:3\n0 4:5\n1 6:7\n0 8:9\n1 10:11\n";
	struct input_options options = options_of(path);
	const int own = dup(STDIN_FILENO);
	struct star_error err = { 0 };
	uint8_t packed[200];

	for (unsigned kind = 0; kind <= 2; kind++) {
		const size_t n =
			kind ? pack[kind - 1](rows, sizeof(rows) - 1, packed, sizeof(packed)) : sizeof(rows) - 1;
		int ends[2];

		CHECK_INT(pipe(ends), 0);
		CHECK_INT(write(ends[1], kind ? (const void *)packed : rows, n), n);
		close(ends[1]);
		CHECK_INT(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
		close(ends[0]);
		CHECK_INT(count_rows(&options, &err), 5);
	}
	dup2(file_of("1 2:3\nx\n", 8), STDIN_FILENO);
	CHECK_INT(count_rows(&options, &err), -EINVAL);
	CHECK_HAS(err.text, "standard input:2: the label must be 0 or 1");
	CHECK(dup2(own, STDIN_FILENO) == STDIN_FILENO && close(own) == 0);
	options.epochs = 2;
	CHECK_INT(count_rows(&options, &err), -EINVAL);
	CHECK_HAS(err.text, "standard input can be read only once and by one worker");
	options.epochs = 1;
	options.workers = 2;
	CHECK_INT(count_rows(&options, &err), -EINVAL);
	options.workers = 1;
	options.paths_count = 2;
	CHECK_INT(count_rows(&options, &err), -EINVAL);
}

void errors_of_packed_files_name_file_and_line(void)
{
	static const char rows[] = "1 2:3\n0 4:5\n1 6 7\n";
	char path[UNIT_FOLDER], said[80 + UNIT_FOLDER];
	const char *const paths[] = { path };
	const struct input_options options = options_of(paths);
	const int fd = unit_file(path, "input");
	uint8_t packed[200];

	for (unsigned kind = 0; kind < 2; kind++) {
		const size_t n = pack[kind](rows, sizeof(rows) - 1, packed, sizeof(packed));
		struct star_error err = { 0 };

		CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, packed, n, 0) == (ssize_t)n);
		CHECK_INT(count_rows(&options, &err), -EINVAL);
		snprintf(said, sizeof(said), "%s:3: \"6\" is not index:value", path);
		CHECK_HAS(err.text, said);
		CHECK_INT(ftruncate(fd, (off_t)n - 1), 0);
		CHECK_INT(count_rows(&options, &err) < 0, 1);
		CHECK_HAS(err.text, path);
	}
	close(fd);
	unlink(path);
}
