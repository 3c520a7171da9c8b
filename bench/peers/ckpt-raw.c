/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoint files against plain ones: the same number of bytes in writes (or reads) of the same sizes with the same
 * flags, and one fsync, in turn. Prints a JSON object with the bytes a second of each round.
 *
 *   ckpt-raw save|restore DIRECTORY MIB ROUNDS
 *   ckpt-raw make DIRECTORY MIB	only writes both, for
 *   ckpt-raw read DIRECTORY MIB     which reads the plain one once, and prints how many bytes it has and the MiB a
 *   second
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "ckpt/ckpt.h"
#include "store/index.h"

/* A row of Adam: key, updates, values and slots, and 4 bytes of padding. */
enum { PADDING = 4, ROW_DIM = 16, ROUNDS_MAX = 1000, PARTITIONS = 16384 };

struct bench {
	const char *directory;
	char plain[CKPT_PATH_MAX];
	uint32_t blocks; /* of CHECKPOINT_BLOCK_MAX bytes */
	uint32_t payload_bytes, rows, row_bytes;
	uint8_t *block;
	struct object_spec spec;
	bool direct;
	uint64_t *keys; /* of all rows; NULL: they are anything */
};

static void die(const char *what)
{
	fprintf(stderr, "ckpt-raw: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void refuse(const struct star_error *err)
{
	fprintf(stderr, "ckpt-raw: %s\n", err->text);
	exit(1);
}

/* A run of rows with random bytes fills a block. */
static void fill_block(struct bench *b)
{
	struct checkpoint_run run = { .object = 1, .kind = CHECKPOINT_ROWS };
	uint8_t *payload;

	b->spec = (struct object_spec){ .kind = OBJECT_TABLE, .dtype = STAR_FLOAT32, .dim = ROW_DIM, .name = "t" };
	wire_object_spec_defaults(&b->spec, OPTIM_ADAM);
	if (wire_object_spec_check(&b->spec, NULL) < 0)
		die("no table");
	b->spec.id = 1;
	b->row_bytes = run.row_bytes = ckpt_row_bytes(&b->spec);
	run.count = b->rows = (CHECKPOINT_PAYLOAD_MAX - (uint32_t)sizeof(run)) / run.row_bytes;
	b->payload_bytes = (uint32_t)sizeof(run) + run.count * run.row_bytes;
	b->block = aligned_alloc(CHECKPOINT_ALIGN, CHECKPOINT_BLOCK_MAX);
	if (!b->block)
		die("memory");
	payload = b->block + sizeof(struct checkpoint_block);
	memset(b->block, 0, CHECKPOINT_BLOCK_MAX);
	for (uint32_t i = 0; i < b->payload_bytes; i += 8)
		*(uint64_t *)(payload + i) = hash_mix(i);
	memcpy(payload, &run, sizeof(run));
	for (uint32_t i = 1; i <= run.count; i++) /* padding */
		memset(payload + sizeof(run) + i * run.row_bytes - PADDING, 0, PADDING);
}

static int by_order(const void *a, const void *b)
{
	const uint64_t first = index_order(index_hash(*(const uint64_t *)a)),
		       second = index_order(index_hash(*(const uint64_t *)b));

	return first < second ? -1 : first > second;
}

/* As many keys as there are rows, in the order in which a node writes them: that of its index. */
static void make_keys(struct bench *b)
{
	const uint64_t count = (uint64_t)b->blocks * b->rows;

	b->keys = malloc(count * sizeof(*b->keys));
	if (!b->keys)
		die("memory");
	for (uint64_t i = 0; i < count; i++)
		b->keys[i] = i;
	qsort(b->keys, count, sizeof(*b->keys), by_order);
}

static void set_keys(const struct bench *b, uint32_t block)
{
	uint8_t *row = b->block + sizeof(struct checkpoint_block) + sizeof(struct checkpoint_run);

	for (uint32_t i = 0; i < b->rows; i++, row += b->row_bytes)
		memcpy(row, &b->keys[(uint64_t)block * b->rows + i], sizeof(*b->keys));
}

static void write_plain(const struct bench *b)
{
	const int fd = open(b->plain, O_WRONLY | O_CREAT | O_EXCL | (b->direct ? O_DIRECT : 0), 0644);
	off_t at = CHECKPOINT_ALIGN;

	if (fd < 0 || pwrite(fd, b->block, CHECKPOINT_ALIGN, 0) != CHECKPOINT_ALIGN)
		die(b->plain);
	for (uint32_t i = 0; i < b->blocks; i++, at += CHECKPOINT_BLOCK_MAX)
		if (pwrite(fd, b->block, CHECKPOINT_BLOCK_MAX, at) != CHECKPOINT_BLOCK_MAX)
			die(b->plain);
	if (pwrite(fd, b->block, CHECKPOINT_ALIGN, at) != CHECKPOINT_ALIGN || fsync(fd) < 0 || close(fd) < 0)
		die(b->plain);
}

static void read_plain(const struct bench *b)
{
	const int fd = open(b->plain, O_RDONLY | (b->direct ? O_DIRECT : 0));
	uint8_t *to = aligned_alloc(CHECKPOINT_ALIGN, CHECKPOINT_BLOCK_MAX);
	ssize_t n = pread(fd, to, CHECKPOINT_ALIGN, 0);

	for (off_t at = CHECKPOINT_ALIGN; n > 0; at += n)
		n = pread(fd, to, CHECKPOINT_BLOCK_MAX, at);
	if (n < 0)
		die(b->plain);
	free(to);
	close(fd);
}

/* The whole way: begin, one file, commit. path: of the checkpoint. */
static void write_checkpoint(const struct bench *b, char path[static CKPT_PATH_MAX])
{
	const struct ckpt_writer_options options = { .header = { .id = 1, .partitions = PARTITIONS },
						     .buffered = !b->direct };
	struct ckpt_file file;
	struct ckpt_manifest manifest = { .id = 1,
					  .partitions = PARTITIONS,
					  .tasks = 1,
					  .reactors = 1,
					  .objects_count = 1,
					  .objects = (struct object_spec *)&b->spec,
					  .files_count = 1,
					  .files = &file };
	struct star_error err = { 0 };
	struct ckpt_writer *writer;

	if (ckpt_begin(b->directory, 1, 0, path, &err) < 0)
		refuse(&err);
	writer = ckpt_writer_create(path, "a.star", &options, &err);
	if (!writer)
		refuse(&err);
	for (uint32_t i = 0; i < b->blocks; i++) {
		if (b->keys)
			set_keys(b, i);
		if (ckpt_writer_block(writer, b->block, b->payload_bytes, b->rows, 0, &err) < 0)
			refuse(&err);
	}
	if (ckpt_writer_finish(writer, &file, &err) < 0 || ckpt_commit(path, &manifest, &err) < 0)
		refuse(&err);
	ckpt_writer_destroy(writer);
	*strrchr(path, '.') = 0;
}

static void remove_checkpoint(const char *path)
{
	char name[CKPT_PATH_MAX + 16];

	snprintf(name, sizeof(name), "%s/a.star", path);
	unlink(name);
	snprintf(name, sizeof(name), "%s/manifest.json", path);
	unlink(name);
	rmdir(path);
}

static void verify(const char *path)
{
	struct star_error err = { 0 };

	if (ckpt_verify(path, NULL, NULL, &err) < 0)
		refuse(&err);
}

/* Seconds of one side of a round. */
static double save_round(const struct bench *b, bool plain)
{
	char path[CKPT_PATH_MAX];
	const uint64_t begin = clock_ns();
	double seconds;

	if (plain)
		write_plain(b);
	else
		write_checkpoint(b, path);
	seconds = (double)(clock_ns() - begin) / 1e9;
	if (plain)
		unlink(b->plain);
	else
		remove_checkpoint(path);
	return seconds;
}

static double restore_round(const struct bench *b, bool plain, const char *path)
{
	const uint64_t begin = clock_ns();

	if (plain)
		read_plain(b);
	else
		verify(path);
	return (double)(clock_ns() - begin) / 1e9;
}

static void print_side(const char *name, const double *rates, unsigned rounds, const char *end)
{
	printf("\"%s\": {\"mib_s\": [", name);
	for (unsigned i = 0; i < rounds; i++)
		printf("%s%.1f", i ? ", " : "", rates[i]);
	printf("]}%s", end);
}

static void print_read(const struct bench *b)
{
	const double seconds = restore_round(b, true, NULL);

	printf("{\"mib\": %u, \"mib_s\": %.1f}\n", b->blocks, b->blocks / seconds);
}

int main(int argc, char **argv)
{
	static double rates[2][ROUNDS_MAX];
	const bool save = argc > 1 && strcmp(argv[1], "save") == 0;
	const unsigned rounds = argc > 4 ? (unsigned)atoi(argv[4]) : 0;
	struct bench b = { .directory = argc > 2 ? argv[2] : "",
			   .blocks = argc > 3 ? (uint32_t)atoi(argv[3]) : 0,
			   .direct = argc < 6 || strcmp(argv[5], "buffered") != 0 };
	char path[CKPT_PATH_MAX];

	snprintf(b.plain, sizeof(b.plain), "%s/plain", b.directory);
	if (argc == 4 && b.blocks && strcmp(argv[1], "read") == 0) {
		print_read(&b);
		return 0;
	}
	if (argc == 4 && b.blocks && strcmp(argv[1], "make") == 0) {
		fill_block(&b);
		make_keys(&b);
		write_plain(&b);
		write_checkpoint(&b, path);
		free(b.keys);
		return 0;
	}
	if (rounds < 1 || rounds > ROUNDS_MAX || b.blocks < 1) {
		fprintf(stderr, "usage: ckpt-raw save|restore DIRECTORY MIB ROUNDS [buffered], or ckpt-raw make|read "
				"DIRECTORY MIB\n");
		return 2;
	}
	fill_block(&b);
	if (!save) {
		write_plain(&b);
		write_checkpoint(&b, path);
	}
	/* In turn, and who begins turns round, too. */
	for (unsigned i = 0; i < rounds; i++)
		for (unsigned j = 0; j < 2; j++) {
			const bool plain = (i + j) % 2;
			const double seconds = save ? save_round(&b, plain) : restore_round(&b, plain, path);

			rates[plain][i] = b.blocks / seconds;
		}
	if (!save) {
		unlink(b.plain);
		remove_checkpoint(path);
	}
	printf("{\"direct\": %s, \"mib\": %u, \"sides\": {", b.direct ? "true" : "false", b.blocks);
	print_side("ckpt", rates[0], rounds, ", ");
	print_side("plain", rates[1], rounds, "}}\n");
	return 0;
}
