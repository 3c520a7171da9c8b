/* SPDX-License-Identifier: BSD-3-Clause */
/* Files whose checksums are right, and that somebody made to do harm. */
#include "tests/ckpt/cases.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/ckpt/support.h"
#include "tests/unit.h"

static const struct {
	const char *from, *to, *says;
} manifest_cases[] = {
	{ "\"format\": \"starserver-checkpoint\"", "\"format\": \"else\"", "its format is \"else\"" },
	{ "\"format\": \"starserver-checkpoint\",", "", "member \"format\" is missing" },
	{ "\"version\": 1", "\"version\": 2", "its version is 2; this program reads version 1" },
	{ "\"version\": 1", "\"versions\": 1", "member \"version\" is missing" },
	{ "\"id\": 7", "\"id\": 0", "member \"id\"" },
	{ "\"id\": 7", "\"id\": 9223372036854775808", "too big" },
	{ "\"id\": 7", "\"id\": 7, \"id\": 7", "duplicate" },
	{ "\"id\": 7", "\"id\": 7, \"what\": 7", "unknown member \"what\"" },
	{ "\"parent\": 6", "\"parent\": 7", "member \"parent\"" },
	{ "\"parent\": 6", "\"parent\": 8", "member \"parent\"" },
	{ "\"parent\": 6", "\"parent\": -1", "member \"parent\"" },
	{ "\"parent\": 6", "\"parent\": 0", "has deleted keys, and no parent" },
	{ "\"partitions\": 1024", "\"partitions\": 1000", "power of two" },
	{ "\"partitions\": 1024", "\"partitions\": 2097152", "member \"partitions\"" },
	{ "\"tasks\": 1", "\"tasks\": 0", "member \"tasks\"" },
	{ "\"tasks\": 1", "\"tasks\": 1e9", "member \"tasks\"" },
	{ "\"reactors\": 2", "\"reactors\": 1000000000", "member \"reactors\"" },
	{ "\"step\": \"18446744073709551608\"", "\"step\": \"18446744073709551616\"", "member \"step\"" },
	{ "\"files\": [", "\"files\": [ 7, ", "a file must be a JSON object" },
	{ "node0-reactor1.star", "node0-reactor0.star", "two files \"node0-reactor0.star\"" },
	{ "node0-reactor1.star", "../node0-reactor1.star", "a file's name has letters" },
	{ "node0-reactor1.star", "..", "a file's name has letters" },
	{ "node0-reactor1.star", "/etc/passwd", "a file's name has letters" },
	{ "node0-reactor1.star", "a/b", "a file's name has letters" },
	{ "node0-reactor1.star", "manifest.json", "a file's name has letters" },
	{ "node0-reactor1.star", "a\\u0000b", "is not allowed" },
	{ "node0-reactor1.star", "\\u00e9", "a file's name has letters" },
	{ "\"reactor\": 1", "\"reactor\": 64", "member \"reactor\"" },
	{ "\"task\": 0", "\"task\": 1", "is of task 1, of 1 tasks" },
	{ "\"deleted\": 8", "\"deleted\": -8", "member \"deleted\"" },
	{ "\"rows\": 27", "\"rows\": 9223372036854775807", "member \"rows\"" },
	{ "\"rows\": 27", "\"rows\": 28", "it says that it has 35 rows" },
	{ "\"bytes\": ", "\"bytes\": 1", "member \"bytes\"" },
	{ "\"bytes\": ", "\"bytes\": 4611686018427387904, \"x\": ", "unknown member \"x\"" },
	{ "\"checksum\": ", "\"checksum\": 99", "member \"checksum\"" },
	{ "\"name\": \"plain\"", "\"name\": \"adam\"", "two objects \"adam\"" },
	{ "\"name\": \"plain\"", "\"name\": \"\"", "member \"name\"" },
	{ "\"id\": 1,", "\"id\": 2,", "the id of \"adam\" is 2" },
	{ "\"id\": 1,", "", "the id of \"plain\" is 0" },
	{ "\"id\": 1,", "\"id\": 4294967296,", "member \"id\"" },
	{ "\"dim\": 4", "\"dim\": 1000000000", "member \"dim\"" },
	{ "\"dim\": 4", "\"dim\": 5", "a run of \"plain\" has records of 24 bytes; 32 are possible" },
	{ "\"optimizer\": \"sgd\"", "\"optimizer\": \"madam\"", "member \"optimizer\"" },
	{ "\"objects\": [", "\"objects\": 7, \"files\": [", "duplicate" },
	{ "\"objects\": [", "\"objects\": [ [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]], ",
	  "a table or variable must be a JSON object" },
	{ "{", "{{", "line 1" },
	{ "{", "\xff", "line 1" },
};

void hostile_manifests_are_refused(void)
{
	const struct save save = { .id = 7, .parent = 6, .files = 2, .rows = 3, .run_rows = 2 };
	char directory[DIRECTORY_MAX], *text;
	struct star_error err = { 0 };
	struct path path, name;
	size_t bytes;

	make_memory_directory(directory);
	path = checkpoint_path(directory, &save);
	name = in(path.text, CKPT_MANIFEST_NAME);
	save_bare(directory, &(struct bare){ .id = save.parent });
	CHECK_INT(save_checkpoint(directory, &save, &err), 0);
	text = (char *)read_file(name.text, &bytes);
	text[bytes] = 0;
	for (unsigned i = 0; i < sizeof(manifest_cases) / sizeof(manifest_cases[0]); i++) {
		char *changed = changed_manifest(text, manifest_cases[i].from, manifest_cases[i].to, &bytes);
		int rc;

		write_file(name.text, changed, bytes);
		err.text[0] = 0;
		rc = ckpt_verify(path.text, NULL, NULL, &err);
		if (!CHECK_INT(rc, -EBADMSG) || !CHECK_HAS(err.text, manifest_cases[i].says))
			printf("# with %s instead of %s\n", manifest_cases[i].to, manifest_cases[i].from);
		free(changed);
	}
	/* With nothing changed it is taken again: it was the change each time. */
	write_file(name.text, text, strlen(text));
	CHECK_INT(ckpt_verify(path.text, NULL, NULL, &err), 0);
	free(text);
	unit_remove(directory);
}

/* A payload of words, in one block of one file. */
static int verify_payload(const char *directory, uint64_t parent, const uint64_t *words, uint32_t count, uint64_t rows,
			  uint64_t deleted, struct star_error *err)
{
	const struct ckpt_writer_options options = { .header = { .id = 9, .parent = parent, .partitions = 1 } };
	uint8_t *block = aligned_alloc(CHECKPOINT_ALIGN, CHECKPOINT_BLOCK_MAX);
	struct ckpt_file file;
	struct ckpt_manifest manifest = { .id = 9,
					  .parent = parent,
					  .partitions = 1,
					  .tasks = 1,
					  .reactors = 1,
					  .objects_count = OBJECTS,
					  .objects = (struct object_spec *)sample_objects(),
					  .files_count = 1,
					  .files = &file };
	char path[CKPT_PATH_MAX];
	struct ckpt_writer *writer;
	int rc = -1;

	if (parent)
		save_bare(directory, &(struct bare){ .id = parent, .partitions = 1 });
	CHECK_INT(ckpt_begin(directory, 9, parent, path, err), 0);
	writer = ckpt_writer_create(path, "a.star", &options, err);
	memcpy(block + sizeof(struct checkpoint_block), words, count * sizeof(*words));
	if (CHECK(writer) && CHECK_INT(ckpt_writer_block(writer, block, count * 8, rows, deleted, err), 0) &&
	    CHECK_INT(ckpt_writer_finish(writer, &file, err), 0) && CHECK_INT(ckpt_commit(path, &manifest, err), 0)) {
		path[strlen(path) - strlen(CKPT_PARTIAL)] = 0;
		err->text[0] = 0;
		rc = ckpt_verify(path, NULL, NULL, err);
	}
	ckpt_writer_destroy(writer);
	free(block);
	return rc;
}

/* The two words that a run begins with. */
#define RUN(object, kind, count, bytes) \
	(uint64_t)(object) | (uint64_t)(kind) << 32, (uint64_t)(count) | (uint64_t)(bytes) << 32

void hostile_runs_are_refused(void)
{
	enum { PLAIN = 1, WIDE = 17, LETTERS = 50, DENSE = 65, ROW = 24 };
	static const struct {
		uint64_t parent;
		uint32_t count;
		uint64_t words[12];
		uint64_t rows, deleted;
		const char *says; /* NULL: this one is in order */
	} cases[] = {
		{ 0, 5, { RUN(PLAIN, CHECKPOINT_ROWS, 1, ROW), 1, 2, 3 }, 1, 0, NULL },
		{ 0, 5, { RUN(PLAIN, CHECKPOINT_ROWS, 1, ROW), 1, 2, 3 }, 2, 0, "it has 1 rows and 0 deleted" },
		{ 8, 3, { RUN(PLAIN, CHECKPOINT_DELETED, 1, 8), 1 }, 0, 1, NULL },
		{ 8, 3, { RUN(PLAIN, CHECKPOINT_DELETED, 1, 8), 1 }, 1, 0, "it has 0 rows and 1 deleted" },
		{ 0, 3, { RUN(PLAIN, CHECKPOINT_DELETED, 1, 8), 1 }, 0, 0, "unknown, or has no place there" },
		{ 0, 4, { RUN(WIDE, CHECKPOINT_COUNTS, 1, 16), 1, 2 }, 0, 0, NULL },
		{ 0, 4, { RUN(PLAIN, CHECKPOINT_COUNTS, 1, 16), 1, 2 }, 0, 0, "unknown, or has no place there" },
		{ 8, 4, { RUN(WIDE, CHECKPOINT_COUNTS, 1, 16), 1, 2 }, 0, 0, "unknown, or has no place there" },
		{ 0, 6, { RUN(PLAIN, CHECKPOINT_TABLE, 1, 32), 1, 2, 3, 4 }, 0, 0, NULL },
		{ 0, 10, { RUN(PLAIN, CHECKPOINT_TABLE, 2, 32), 1, 2, 3, 4, 5, 6, 7, 8 }, 0, 0, "number of records" },
		{ 0,
		  4,
		  { RUN(WIDE, CHECKPOINT_COUNTS, 1, 16), 1, UINT64_C(5) << 32 },
		  0,
		  0,
		  "waits for admission, with a count of 0" },
		{ 0, 6, { RUN(PLAIN, CHECKPOINT_TABLE, 1, 32), 1, 2, 3, 0x80000000 }, 0, 0, "more look-ups than" },
		{ 0, 6, { RUN(PLAIN, CHECKPOINT_TABLE, 1, 32), 1, 2, 3, UINT64_C(1) << 32 }, 0, 0, "reserved field" },
		{ 0, 6, { RUN(LETTERS, CHECKPOINT_ROWS, 2, 16), 1, 0x030201, 2, 0x030201 }, 2, 0, NULL },
		{ 0,
		  6,
		  { RUN(LETTERS, CHECKPOINT_ROWS, 2, 16), 1, 0x030201, 2, 0x1030201 },
		  2,
		  0,
		  "padding that is not 0" },
		{ 8, 3, { RUN(DENSE, CHECKPOINT_DELETED, 1, 8), 0 }, 0, 1, NULL },
		{ 8, 3, { RUN(DENSE, CHECKPOINT_DELETED, 1, 8), 1 << 20 }, 0, 1, "a block beyond the variable's last" },
		{ 0, 1, { RUN(PLAIN, CHECKPOINT_ROWS, 1, ROW) }, 0, 0, "8 bytes are left of a block" },
		{ 0, 2, { RUN(PLAIN, CHECKPOINT_ROWS, 0, ROW) }, 0, 0, "number of records is not possible" },
		{ 0, 2, { RUN(PLAIN, CHECKPOINT_ROWS, 1, ROW) }, 1, 0, "number of records is not possible" },
		{ 0, 4, { RUN(PLAIN, CHECKPOINT_ROWS, 1, ROW), 1, 2 }, 1, 0, "number of records is not possible" },
		{ 0, 5, { RUN(PLAIN, CHECKPOINT_ROWS, UINT32_MAX, ROW), 1, 2, 3 }, 1, 0, "number of records" },
		{ 0, 5, { RUN(PLAIN, CHECKPOINT_ROWS, 0x80000001u, ROW), 1, 2, 3 }, 1, 0, "number of records" },
		{ 0, 5, { RUN(PLAIN, CHECKPOINT_ROWS, 1, 16), 1, 2, 3 }, 1, 0, "records of 16 bytes; 24 are possible" },
		{ 0, 5, { RUN(PLAIN, CHECKPOINT_ROWS, 1, 0), 1, 2, 3 }, 1, 0, "records of 0 bytes; 24 are possible" },
		{ 0, 5, { RUN(PLAIN, 0, 1, ROW), 1, 2, 3 }, 1, 0, "unknown, or has no place there" },
		{ 0, 5, { RUN(PLAIN, 6, 1, ROW), 1, 2, 3 }, 1, 0, "unknown, or has no place there" },
		{ 0, 5, { RUN(PLAIN, 0x10001, 1, ROW), 1, 2, 3 }, 1, 0, "unknown, or has no place there" },
		{ 0, 5, { RUN(0, CHECKPOINT_ROWS, 1, ROW), 1, 2, 3 }, 1, 0, "does not list this object" },
		{ 0, 5, { RUN(3, CHECKPOINT_ROWS, 1, ROW), 1, 2, 3 }, 1, 0, "does not list this object" },
		{ 0, 5, { RUN(UINT32_MAX, CHECKPOINT_ROWS, 1, ROW), 1, 2, 3 }, 1, 0, "does not list this object" },
		{ 0, 6, { RUN(PLAIN, CHECKPOINT_ROWS, 1, ROW), 1, 2, 3, 4 }, 1, 0, "8 bytes are left of a block" },
		{ 0,
		  10,
		  { RUN(PLAIN, CHECKPOINT_ROWS, 1, ROW), 1, 2, 3, RUN(PLAIN, CHECKPOINT_ROWS, 2, ROW), 4, 5, 6 },
		  3,
		  0,
		  "at byte 40 of the block: its number of records" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct star_error err = { 0 };
		char directory[DIRECTORY_MAX];
		int rc;

		make_memory_directory(directory);
		rc = verify_payload(directory, cases[i].parent, cases[i].words, cases[i].count, cases[i].rows,
				    cases[i].deleted, &err);
		if (!CHECK_INT(rc, cases[i].says ? -EBADMSG : 0) ||
		    (cases[i].says && !CHECK_HAS(err.text, cases[i].says)))
			printf("# case %u: %s\n", i, err.text);
		unit_remove(directory);
	}
}

/* Blocks that the filter has not, and counters above its frequency. */
void hostile_blooms_are_refused(void)
{
	enum { COUNTS = 37, WIDE = 17, WORDS = 1 + CHECKPOINT_BLOOM_BYTES / 8, FREQUENCY = 300, BLOCKS = 5 };
	static const struct {
		uint64_t parent, object, number, count;
		bool refused;
	} cases[] = {
		{ 0, COUNTS, 0, FREQUENCY, false },
		{ 0, COUNTS, BLOCKS - 1, FREQUENCY, false },
		{ 0, COUNTS, 0, FREQUENCY + 1, true },
		{ 0, COUNTS, 0, UINT16_MAX, true },
		{ 0, COUNTS, BLOCKS, 0, true },
		{ 0, COUNTS, UINT64_C(1) << 32, 0, true },
		{ 0, COUNTS, UINT64_MAX, 0, true },
		{ 8, COUNTS, 0, 1, true },
		{ 0, WIDE, 0, 1, true },
	};

	CHECK_UINT(wire_checkpoint_bloom_blocks(&sample_objects()[6]), BLOCKS);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t words[2 + WORDS] = { RUN(cases[i].object, CHECKPOINT_BLOOM, 1, WORDS * 8), cases[i].number };
		struct star_error err = { 0 };
		char directory[DIRECTORY_MAX];
		int rc;

		words[1 + WORDS] = cases[i].count << 48;
		make_memory_directory(directory);
		rc = verify_payload(directory, cases[i].parent, words, 2 + WORDS, 0, 0, &err);
		if (!CHECK_INT(rc, cases[i].refused ? -EBADMSG : 0) ||
		    (cases[i].refused && !CHECK_HAS(err.text, "the run of kind 5")))
			printf("# case %u: %s\n", i, err.text);
		unit_remove(directory);
	}
}

static void note_refused(void *ctx, const char *name, const char *why)
{
	char *told = ctx;

	snprintf(told + strlen(told), 1024 - strlen(told), "%s: %s\n", name, why);
}

/* With checksums that are right: the newest has a block that its variable has not, the next is of another cluster, then
 * come two deltas, of which the second has another object under the first one's id, then a good one. */
void what_no_node_loads_is_passed_over(void)
{
	const uint64_t last = wire_object_blocks(&sample_objects()[8]);
	const uint32_t bytes = ckpt_row_bytes(&sample_objects()[8]), count = 2 + bytes / 8;
	uint64_t *words = calloc(count, sizeof(*words));
	const uint64_t head[] = { RUN(65, CHECKPOINT_ROWS, 1, bytes), last, 1 /* its version */ };
	const struct ckpt_search any = { .refused = note_refused };
	char directory[DIRECTORY_MAX], told[1024] = "", *text, *changed;
	struct ckpt_search search = any;
	struct star_error err = { 0 };
	struct path manifest;
	uint32_t length = 0;
	char **chain = NULL;
	size_t size;

	make_memory_directory(directory);
	save_checkpoint(directory, &(struct save){ .id = 1, .files = 1, .rows = 2, .run_rows = 2 }, &err);
	save_checkpoint(directory, &(struct save){ .id = 2, .parent = 1, .files = 1, .rows = 2, .run_rows = 2 }, &err);
	save_checkpoint(directory, &(struct save){ .id = 3, .parent = 2, .files = 1, .rows = 2, .run_rows = 2 }, &err);
	manifest = in(in(directory, "00000003-delta").text, CKPT_MANIFEST_NAME);
	text = (char *)read_file(manifest.text, &size);
	text[size] = 0;
	changed = changed_manifest(text, "\"name\": \"plain\"", "\"name\": \"other\"", &size);
	write_file(manifest.text, changed, size);
	free(changed);
	free(text);
	memcpy(words, head, sizeof(head));
	CHECK_INT(verify_payload(directory, 0, words, count, 1, 0, &err), -EBADMSG);
	CHECK_HAS(err.text, "has what no node loads: a block beyond the variable's last");
	words[2] = last - 1;
	search.ctx = told;
	CHECK_INT(ckpt_chain_good(directory, &search, &chain, &length, &err), 0);
	if (CHECK_UINT(length, 2))
		CHECK_HAS(chain[1], "00000002-delta");
	ckpt_chain_free(chain, length);
	CHECK_HAS(told, "00000009-full: ");
	CHECK_HAS(told, "a block beyond the variable's last");
	CHECK_HAS(told, "00000003-delta: \"plain\" is another object in 00000002-delta");
	/* One of a cluster with another number of partitions. */
	search.partitions = 512;
	CHECK_INT(ckpt_chain_good(directory, &search, &chain, &length, &err), -ENOENT);
	CHECK_HAS(told, "was written with 1024 partitions; this cluster has 512");
	free(words);
	unit_remove(directory);
}
