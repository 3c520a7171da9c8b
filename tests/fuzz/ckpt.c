/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints that somebody made: their checksums are right, as an input asks for it. The first byte says what the rest
 * is: a manifest without its last lines, the blocks of a data file, or lines to import. What is accepted is written
 * again, and must come out as it went in.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/crc32.h"
#include "ckpt/internal.h"
#include "ckpt/lines.h"

enum kinds { KIND_MANIFEST, KIND_BLOCKS, KIND_LINES, KINDS };
enum ways {
	WAY_BAD_HEADER = 1,
	WAY_BAD_BLOCKS = 2,
	WAY_BAD_FILE = 4,
	WAY_FULL = 8, /* else a delta */
	WAY_NO_LAST = 16,
};
enum { BLOCKS_MAX = 8, OBJECTS = 3, FILE_MAX = 128 * 1024, ID = 2, PARENT = 1 };

static char directory[64];
static struct object_spec objects[OBJECTS];

/* ---- a directory in memory, emptied before each use ---- */

static void clear(const char *name)
{
	const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	FUZZ_CHECK(fd >= 0 && ckpt_remove_folder(fd, name) == 0, "cannot clear %s/%s", directory, name);
	close(fd);
}

static void clear_all(void)
{
	static const char *const names[] = { "00000001-full", "00000001-full.partial", "00000002-full",
					     "00000002-delta" };

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		clear(names[i]);
}

static void write_file(const char *folder, const char *name, const void *data, size_t bytes)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s/%s", directory, folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FUZZ_CHECK(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes, "cannot write %s", path);
	close(fd);
}

/* ---- a manifest ---- */

static void try_manifest(struct input *in)
{
	char *text = malloc(input_left(in) + 64), *again, *third;
	struct ckpt_manifest manifest, same;
	struct star_error err = { 0 };
	size_t bytes = input_left(in), bytes_again, bytes_third;

	memcpy(text, in->at, bytes);
	bytes += (size_t)sprintf(text + bytes, ",\n \"crc32\": \"%08x\"\n}\n", base_crc32(text, bytes));
	text = realloc(text, bytes); /* so that what is read behind its end is seen */
	if (ckpt_manifest_parse("fuzz", text, bytes, &manifest, &err) == 0) {
		again = ckpt_manifest_text(&manifest, &bytes_again, &err);
		FUZZ_CHECK(again, "what was read cannot be written: %s", err.text);
		FUZZ_CHECK(ckpt_manifest_parse("fuzz", again, bytes_again, &same, &err) == 0, "%s", err.text);
		third = ckpt_manifest_text(&same, &bytes_third, &err);
		FUZZ_CHECK(third && bytes_third == bytes_again && memcmp(again, third, bytes_third) == 0,
			   "written as\n%s\nand then as\n%s", again, third ? third : err.text);
		ckpt_manifest_free(&manifest);
		ckpt_manifest_free(&same);
		free(again);
		free(third);
	} else {
		FUZZ_CHECK(err.code == -EBADMSG && err.text[0], "refused with %d, \"%s\"", err.code, err.text);
		FUZZ_CHECK(!manifest.objects && !manifest.files, "refused, and not released");
	}
	free(text);
}

/* ---- a data file ---- */

/* A file that is put together: header, blocks, sums. */
struct file {
	uint8_t data[FILE_MAX];
	uint32_t bytes, sum;
};

static void add_header(struct file *f, unsigned way)
{
	struct checkpoint_header header = { .magic = CHECKPOINT_MAGIC,
					    .version = CHECKPOINT_VERSION,
					    .id = ID,
					    .parent = way & WAY_FULL ? 0 : PARENT,
					    .partitions = 16 };

	header.checksum = ckpt_header_checksum(&header) ^ (way & WAY_BAD_HEADER);
	memcpy(f->data, &header, sizeof(header));
	f->bytes = CHECKPOINT_ALIGN;
	f->sum = ckpt_add_checksum(0, header.checksum);
}

static void add_block(struct file *f, unsigned way, uint32_t number, const struct checkpoint_block *fields,
		      const uint8_t *payload, uint32_t bytes)
{
	struct checkpoint_block *block = (struct checkpoint_block *)(f->data + f->bytes);

	*block = *fields;
	block->number += number;
	memcpy(block + 1, payload, bytes);
	/* The sum over what the header says, as far as there is something. */
	if (block->bytes <= FILE_MAX - f->bytes - sizeof(*block))
		block->checksum = ckpt_block_checksum(block, block->bytes) ^ (way & WAY_BAD_BLOCKS);
	f->sum = ckpt_add_checksum(f->sum, block->checksum);
	f->bytes += ckpt_block_bytes(bytes);
}

static void put_together(struct file *f, struct input *in, unsigned way, uint32_t rows)
{
	uint32_t number = 0;

	add_header(f, way);
	for (; number < BLOCKS_MAX && input_left(in); number++) {
		struct checkpoint_block fields = { .magic = CHECKPOINT_BLOCK_MAGIC, .id = ID };
		uint32_t *words = (uint32_t *)&fields, bytes = take16(in);
		const uint8_t tweak = take8(in);

		bytes = bytes < input_left(in) ? bytes : (uint32_t)input_left(in);
		bytes = bytes < CHECKPOINT_ALIGN ? bytes & ~7u : CHECKPOINT_ALIGN;
		fields.bytes = bytes;
		if (tweak) /* one word of the header */
			words[tweak % (sizeof(fields) / sizeof(*words))] ^= tweak;
		add_block(f, way, number, &fields, in->at, bytes);
		in->at += bytes;
	}
	if (!(way & WAY_NO_LAST)) {
		const struct checkpoint_block last = {
			.magic = CHECKPOINT_BLOCK_MAGIC, .id = ID, .flags = CHECKPOINT_LAST, .rows = rows
		};

		add_block(f, way, number, &last, f->data, 0);
	}
}

/* Everything in it is looked at. */
static void export_all(void)
{
	for (unsigned i = 0; i < OBJECTS; i++) {
		struct star_error err = { 0 };
		char *text = NULL;
		size_t bytes;
		FILE *out = open_memstream(&text, &bytes);
		const int rc = ckpt_export(directory, ID, objects[i].name, out, NULL, NULL, &err);

		FUZZ_CHECK(rc == 0, "in order, and cannot be exported: %s", err.text);
		fclose(out);
		free(text);
	}
}

static void try_blocks(struct input *in)
{
	static struct file f;
	const unsigned way = take8(in);
	struct ckpt_file file = { .name = "a.star" };
	struct ckpt_manifest manifest = { .id = ID,
					  .parent = way & WAY_FULL ? 0 : PARENT,
					  .partitions = 16,
					  .tasks = 1,
					  .reactors = 1,
					  .objects_count = OBJECTS,
					  .objects = objects,
					  .files_count = 1,
					  .files = &file };
	const char *name = way & WAY_FULL ? "00000002-full" : "00000002-delta";
	struct star_error err = { 0 };
	char path[128], *text;
	size_t bytes;

	file.rows = take8(in);
	file.deleted = way & WAY_FULL ? 0 : take8(in);
	memset(&f, 0, sizeof(f));
	put_together(&f, in, way, (uint32_t)(file.rows + file.deleted));
	file.bytes = f.bytes;
	file.checksum = f.sum ^ (way & WAY_BAD_FILE);
	if (f.bytes < CKPT_FILE_BYTES_MIN)
		return;
	clear_all();
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	FUZZ_CHECK(mkdir(path, 0700) == 0, "cannot make %s", path);
	write_file(name, "a.star", f.data, f.bytes);
	text = ckpt_manifest_text(&manifest, &bytes, &err);
	FUZZ_CHECK(text, "%s", err.text);
	write_file(name, CKPT_MANIFEST_NAME, text, bytes);
	free(text);
	if (ckpt_verify(path, NULL, NULL, &err) == 0) {
		FUZZ_CHECK(!(way & (WAY_BAD_HEADER | WAY_BAD_BLOCKS | WAY_BAD_FILE | WAY_NO_LAST)),
			   "accepted with a wrong sum or without its end");
		if (way & WAY_FULL)
			export_all();
	} else {
		FUZZ_CHECK(err.code == -EBADMSG && err.text[0], "refused with %d, \"%s\"", err.code, err.text);
	}
}

/* ---- lines ---- */

static void try_lines(struct input *in)
{
	struct ckpt_imported imported;
	struct star_error err = { 0 };
	char path[128];
	FILE *lines;

	if (!input_left(in))
		return;
	lines = fmemopen((void *)(uintptr_t)in->at, input_left(in), "r");
	clear_all();
	if (ckpt_import(lines, directory, 0, &imported, NULL, NULL, &err) == 0) {
		snprintf(path, sizeof(path), "%s/00000001-full", directory);
		FUZZ_CHECK(ckpt_verify(path, NULL, NULL, &err) == 0, "imported, and refused: %s", err.text);
	} else {
		FUZZ_CHECK(err.code < 0 && err.text[0], "refused with %d, \"%s\"", err.code, err.text);
	}
	fclose(lines);
}

static void remove_directory(void)
{
	clear_all();
	rmdir(directory);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const options[OBJECTS] = { "versions=1,steps_to_live=3", "filter=counter,filter_frequency=2",
						      "master=1,full=evict_lfu,rows_max=5" };
	static const uint8_t dtypes[OBJECTS] = { STAR_FLOAT32, STAR_SCALED_INT8, STAR_FLOAT16 };
	struct star_error err = { 0 };

	for (unsigned i = 0; i < OBJECTS; i++) {
		objects[i] = (struct object_spec){ .kind = OBJECT_TABLE, .dtype = dtypes[i], .dim = 1, .id = i + 1 };
		snprintf(objects[i].name, sizeof(objects[i].name), "t%u", i + 1);
		wire_object_spec_defaults(&objects[i], OPTIM_ADAM);
		FUZZ_CHECK(wire_object_spec_options(&objects[i], options[i], &err) == 0 &&
				   wire_object_spec_check(&objects[i], &err) == 0,
			   "%s", err.text);
	}
	strcpy(directory, access("/dev/shm", W_OK) == 0 ? "/dev/shm/fuzz-ckpt-XXXXXX" : "/tmp/fuzz-ckpt-XXXXXX");
	FUZZ_CHECK(mkdtemp(directory), "no directory %s", directory);
	atexit(remove_directory);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static void (*const tries[KINDS])(struct input * in) = { try_manifest, try_blocks, try_lines };
	struct input in = { data, data + bytes };

	tries[take8(&in) % KINDS](&in);
	return 0;
}
