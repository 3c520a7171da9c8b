/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables as JSON lines. */
#include "ckpt/lines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "ckpt/element.h"
#include "ckpt/row.h"
#include "tensor/dtype.h"
#include "tests/ckpt/cases.h"
#include "tests/ckpt/support.h"
#include "tests/unit.h"

/* The delta has new bytes for the first rows, and one row less. */
static const struct save full = { .id = 1, .files = 2, .rows = 300, .run_rows = 50 };
static const struct save delta = { .id = 2, .parent = 1, .files = 2, .rows = 100, .run_rows = 30, .seed = 7 };

/* The samples but the last, a variable, which has one block, and not as many rows as are written here. */
enum { TABLES = OBJECTS - 1 };

/* All tables, one after the other; to be freed. */
static char *export_all(const char *directory, uint64_t id)
{
	struct star_error err = { 0 };
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	for (unsigned i = 0; i < TABLES; i++)
		if (!CHECK_INT(ckpt_export(directory, id, sample_objects()[i].name, out, NULL, NULL, &err), 0))
			printf("# %s\n", err.text);
	fclose(out);
	return text;
}

static int import_text(const char *text, const char *directory, struct ckpt_imported *imported, struct star_error *err)
{
	FILE *in = fmemopen((char *)text, strlen(text), "r");
	int rc = ckpt_import(in, directory, 0, imported, NULL, NULL, err);

	fclose(in);
	return rc;
}

/* What row n of a file is after the delta (or without it); false: it is gone. */
static bool expected_row(bool with_delta, uint32_t file, const struct object_spec *spec, uint32_t n, uint8_t *row)
{
	if (with_delta && n == delta.rows)
		return false;
	sample_row(with_delta && n < delta.rows ? &delta : &full, file, spec, n, row, ckpt_row_bytes(spec));
	return true;
}

/* The record of a key in the runs of the imported checkpoint. */
struct found {
	uint8_t *records[TABLES];
	uint32_t count[TABLES];
};

static bool find_row(const struct found *found, unsigned object, const uint8_t *row, uint32_t bytes)
{
	for (uint32_t i = 0; i < found->count[object]; i++) {
		const uint8_t *have = found->records[object] + (size_t)i * bytes;

		if (memcmp(have, row, sizeof(uint64_t)) == 0)
			return CHECK_MEM(have, row, bytes);
	}
	return unit_fail(__FILE__, __LINE__, "a row of \"%s\" is missing", sample_objects()[object].name);
}

static void collect(const char *path, struct found *found)
{
	struct ckpt_manifest manifest;
	struct star_error err = { 0 };
	struct ckpt_reader *reader;
	const uint8_t *payload;
	uint32_t bytes;

	if (!CHECK_INT(ckpt_manifest_read(path, &manifest, &err), 0))
		return;
	reader = ckpt_reader_create(path, &manifest, &manifest.files[0], &err);
	while (CHECK(reader) && ckpt_reader_next(reader, &payload, &bytes, &err) > 0) {
		struct checkpoint_run run;
		const void *records;
		uint32_t at = 0;

		while (ckpt_run_next(payload, bytes, &at, &manifest, &run, &records, &err) > 0) {
			const unsigned i = run.object - 1; /* in the order of the lines */
			const size_t have = (size_t)found->count[i] * run.row_bytes,
				     more = (size_t)run.count * run.row_bytes;

			if (run.kind != CHECKPOINT_ROWS)
				continue;
			found->records[i] = realloc(found->records[i], have + more);
			memcpy(found->records[i] + have, records, more);
			found->count[i] += run.count;
		}
	}
	CHECK_STR(err.text, "");
	ckpt_reader_destroy(reader);
	ckpt_manifest_free(&manifest);
}

/* aged: look-ups since the full one, from which the lines count back. */
static void age_row(const struct object_spec *spec, uint32_t aged, uint8_t *row)
{
	struct ckpt_row_shape shape;
	uint32_t used;

	ckpt_row_shape(spec, &shape);
	if (!shape.used)
		return;
	memcpy(&used, row + shape.used, sizeof(used));
	used = used > INT32_MAX - aged ? INT32_MAX : used + aged;
	memcpy(row + shape.used, &used, sizeof(used));
}

static bool check_rows(const struct found *found, bool with_delta, uint32_t aged)
{
	static uint8_t row[256 * 1024];
	bool good = true;

	for (unsigned i = 0; i < TABLES; i++) {
		const struct object_spec *spec = &sample_objects()[i];
		uint32_t count = 0;

		for (uint32_t file = 0; file < full.files; file++)
			for (uint32_t n = 0; n < full.rows && good; n++)
				if (expected_row(with_delta, file, spec, n, row)) {
					if (!with_delta || n > delta.rows)
						age_row(spec, aged, row);
					good = find_row(found, i, row, ckpt_row_bytes(spec));
					count++;
				}
		good = good && CHECK_UINT(found->count[i], count);
	}
	return good;
}

/* What a running cluster writes there is not an import's to remove. */
void import_respects_who_writes_there(void)
{
	char from[DIRECTORY_MAX], to[DIRECTORY_MAX], said[2 * DIRECTORY_MAX], *text;
	struct ckpt_imported imported;
	struct star_error err = { 0 };
	struct ckpt_claim others;

	make_memory_directory(from);
	make_memory_directory(to);
	CHECK_INT(save_checkpoint(from, &full, &err), 0);
	text = export_all(from, 0);
	ckpt_claim_init(&others, to);
	CHECK_INT(ckpt_claim_take(&others, to, &err), 0);
	CHECK_INT(mkdir(in(to, "00000001-full.partial").text, 0755), 0);
	write_file(in(to, "00000001-full.partial/node0-reactor0.star").text, "x", 1);
	write_file(in(to, "dropped.json").text, "{}", 2);
	CHECK_INT(import_text(text, to, &imported, &err), -EBUSY);
	snprintf(said, sizeof(said), "another cluster writes its checkpoints to %s (process %d)", to, (int)getpid());
	CHECK_HAS(err.text, said);
	CHECK_HAS(err.text, "or stop that one first");
	CHECK(access(in(to, "00000001-full.partial/node0-reactor0.star").text, F_OK) == 0);
	CHECK(access(in(to, "dropped.json").text, F_OK) == 0);
	/* What is left when it has ended is nobody's. */
	ckpt_claim_fini(&others);
	CHECK_INT(import_text(text, to, &imported, &err), 0);
	CHECK_INT(ckpt_claim_holder(to), 0);
	free(text);
	unit_remove(from);
	unit_remove(to);
}

void tables_go_out_as_lines_and_come_back(void)
{
	char from[DIRECTORY_MAX], to[DIRECTORY_MAX], *text, *again;
	struct ckpt_imported imported;
	struct star_error err = { 0 };

	make_memory_directory(from);
	CHECK_INT(save_checkpoint(from, &full, &err), 0);
	CHECK_INT(save_checkpoint(from, &delta, &err), 0);
	for (unsigned with_delta = 0; with_delta < 2; with_delta++) {
		struct found found = { 0 };

		make_memory_directory(to);
		text = export_all(from, with_delta ? 0 : full.id);
		if (!CHECK_INT(import_text(text, to, &imported, &err), 0))
			printf("# %s\n", err.text);
		CHECK_UINT(imported.tables, TABLES);
		CHECK_UINT(imported.rows, TABLES * full.files * (full.rows - with_delta));
		CHECK_INT(ckpt_verify(in(to, "00000001-full").text, NULL, NULL, &err), 0);
		collect(in(to, "00000001-full").text, &found);
		check_rows(&found, with_delta, 0);
		again = export_all(to, 0);
		CHECK(strcmp(text, again) == 0);
		/* The next of them would hide what the directory has. */
		CHECK_INT(import_text(text, to, &imported, &err), -EEXIST);
		for (unsigned i = 0; i < TABLES; i++)
			free(found.records[i]);
		free(text);
		free(again);
		unit_remove(to);
	}
	CHECK_INT(ckpt_export(from, 0, "adma", stdout, NULL, NULL, &err), -ENOENT);
	CHECK_HAS(err.text, "has no table or variable \"adma\"; did you mean \"adam\"?");
	CHECK_INT(ckpt_export(from, 9, "adam", stdout, NULL, NULL, &err), -ENOENT);
	unit_remove(from);
}

/* Rows of both are on one scale: a table that evicts after the import evicts what the cluster would have evicted. */
void uses_count_back_from_the_youngest(void)
{
	static const struct {
		uint32_t full, delta, aged;
	} cases[] = { { 0, 1000, 1000 }, { INT32_MAX - 20, 30, 51 }, { 7, 7, 0 }, { 1000, 0, 0 } };

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct save older = full, younger = delta;
		char from[DIRECTORY_MAX], to[DIRECTORY_MAX], *text;
		struct found found = { 0 };
		struct ckpt_imported imported;
		struct star_error err = { 0 };

		older.looks = cases[i].full;
		younger.looks = cases[i].delta;
		make_memory_directory(from);
		make_memory_directory(to);
		CHECK_INT(save_checkpoint(from, &older, &err), 0);
		CHECK_INT(save_checkpoint(from, &younger, &err), 0);
		text = export_all(from, 0);
		if (!CHECK_INT(import_text(text, to, &imported, &err), 0))
			printf("# %s\n", err.text);
		collect(in(to, "00000001-full").text, &found);
		if (!check_rows(&found, true, cases[i].aged))
			printf("# case %u\n", i);
		for (unsigned t = 0; t < TABLES; t++)
			free(found.records[t]);
		free(text);
		unit_remove(from);
		unit_remove(to);
	}
}

/* All of the narrow types, and of the wide ones all exponents with many mantissas. */
static bool check_element(unsigned dtype, uint64_t bits)
{
	uint64_t back = 0;
	char text[ELEMENT_TEXT];
	json_t *json;
	bool good;

	ckpt_element_print(dtype, &bits, text);
	json = json_loads(text, JSON_DECODE_ANY, NULL);
	good = json && ckpt_element_parse(dtype, json, &back) && memcmp(&back, &bits, dtype_bytes(dtype)) == 0;
	json_decref(json);
	return good || unit_fail(__FILE__, __LINE__, "%s %#llx is %s, and %#llx again", dtype_name(dtype),
				 (unsigned long long)bits, text, (unsigned long long)back);
}

void elements_read_back_bit_for_bit(void)
{
	bool good = true;

	for (uint64_t bits = 0; bits < 65536 && good; bits++) {
		good = check_element(STAR_FLOAT16, bits) && check_element(STAR_BFLOAT16, bits) &&
		       (bits > 255 || check_element(STAR_INT8, bits));
		for (unsigned i = 0; i < 2 && good; i++) {
			const uint64_t random = hash_mix(2 * bits + i);

			good = check_element(STAR_FLOAT32, (bits << 16 | (random & 0xffff)) & UINT32_MAX) &&
			       check_element(STAR_FLOAT64, bits << 48 | random >> 16) &&
			       check_element(STAR_INT32, random & UINT32_MAX) && check_element(STAR_INT64, random);
		}
	}
	CHECK(check_element(STAR_FLOAT64, 1) && check_element(STAR_FLOAT32, 1) &&
	      check_element(STAR_FLOAT32, 0x80000000) && check_element(STAR_INT64, UINT64_C(1) << 63));
}

/* Numbers between two of the type, just above the middle: a float on the way would be the middle itself. */
void elements_of_text_are_rounded_once(void)
{
	static const struct {
		unsigned dtype;
		const char *text;
		uint16_t bits;
	} cases[] = {
		{ STAR_BFLOAT16, "1.00390625", 0x3f80 },       { STAR_BFLOAT16, "1.0039062500001", 0x3f81 },
		{ STAR_BFLOAT16, "-1.0117187499999", 0xbf81 }, { STAR_FLOAT16, "1.00048828125", 0x3c00 },
		{ STAR_FLOAT16, "1.0004882812501", 0x3c01 },   { STAR_FLOAT16, "2.98023223877e-08", 0x0001 },
		{ STAR_FLOAT16, "2.98023223877e-07", 0x0005 }, { STAR_FLOAT16, "65519.9999999", 0x7bff },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *json = json_loads(cases[i].text, JSON_DECODE_ANY, NULL);
		uint16_t found = 0;

		if (!CHECK(ckpt_element_parse(cases[i].dtype, json, &found)) || !CHECK_UINT(found, cases[i].bits))
			printf("# %s as %s\n", cases[i].text, dtype_name(cases[i].dtype));
		json_decref(json);
	}
}

#define HEAD \
	"{\"table\": {\"name\": \"t\", \"kind\": \"table\", \"dim\": 2, \"optimizer\": \"adam\"}, \"partitions\": 4, " \
	"\"step\": 0, \"pushes\": 0, \"removed\": 0, \"looks\": 0}\n"
#define ROW(key, rest) \
	"{\"key\": " key ", \"updates\": 1, \"values\": [1, 2], \"slots\": {\"m\": [1, 2], \"v\": [1, 2]}" rest "}\n"
#define END(rows) "{\"rows\": " rows ", \"waiting_keys\": 0}\n"

/* Rows with a version and a last use. */
#define USED_HEAD(looks) \
	"{\"table\": {\"name\": \"u\", \"kind\": \"table\", \"dim\": 1, \"versions\": true, \"full\": " \
	"\"evict_lru\"}, " \
	"\"partitions\": 16, \"step\": 0, \"pushes\": 0, \"removed\": 0, \"looks\": " looks "}\n"
#define USED_ROW(version, used) "{\"key\": 1, \"version\": " version ", \"used\": " used ", \"values\": [1]}\n"
#define BLOOM_HEAD \
	"{\"table\": {\"name\": \"b\", \"kind\": \"table\", \"dim\": 2, \"optimizer\": \"sgd\", \"filter\": " \
	"\"bloom\", " \
	"\"filter_frequency\": 300, \"filter_keys\": 1000}, \"partitions\": 4, \"step\": 0, \"pushes\": 0, " \
	"\"removed\": 0, " \
	"\"looks\": 0}\n"
/* A variable of three blocks. */
#define BLOCKS_HEAD \
	"{\"table\": {\"name\": \"w\", \"kind\": \"variable\", \"shape\": [2500], \"optimizer\": \"sgd\"}, " \
	"\"partitions\": 4, \"step\": 0, \"pushes\": 0, \"removed\": 0, \"looks\": 0}\n"
#define BLOCKS_ROW(key) "{\"key\": " key ", \"version\": 1, \"values\": [1, 2]}\n"
#define BLOOM(number, counters) "{\"bloom\": " number ", \"counters\": " counters "}\n"
#define BLOOM_END(blocks) "{\"rows\": 0, \"waiting_keys\": 0, \"bloom_blocks\": " blocks "}\n"

void bloom_filters_go_out_as_lines_and_come_back(void)
{
#define LINES BLOOM("3", "[[0, 1], [7, 299], [2047, 300]]") BLOOM("0", "[[1, 256]]") BLOOM("3", "[]") BLOOM_END("3")
	struct ckpt_imported imported;
	struct star_error err = { 0 };
	char directory[DIRECTORY_MAX], *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	make_memory_directory(directory);
	CHECK_INT(import_text(BLOOM_HEAD LINES, directory, &imported, &err), 0);
	CHECK_INT(ckpt_verify(in(directory, "00000001-full").text, NULL, NULL, &err), 0);
	CHECK_INT(ckpt_export(directory, 0, "b", out, NULL, NULL, &err), 0);
	fclose(out);
	CHECK_STR(strchr(text, '\n') + 1, LINES);
	free(text);
	unit_remove(directory);
}

struct lines {
	const char *text, *says; /* NULL: these are right */
};

static void check_lines(unsigned number, const struct lines *lines)
{
	struct ckpt_imported imported;
	char directory[DIRECTORY_MAX];
	struct star_error err = { 0 };
	struct ckpt_entry *entries;
	uint32_t count;
	int rc;

	make_memory_directory(directory);
	rc = import_text(lines->text, directory, &imported, &err);
	if (lines->says ? !CHECK(rc < 0) || !CHECK_HAS(err.text, lines->says) : !CHECK_INT(rc, 0))
		printf("# case %u: %s\n", number, err.text);
	/* Nothing is left of one that failed. */
	if (CHECK_INT(ckpt_list(directory, &entries, &count, &err), 0))
		CHECK_UINT(count, !lines->says);
	free(entries);
	unit_remove(directory);
}

void wrong_lines_are_refused(void)
{
	static const struct lines cases[] = {
		{ HEAD ROW("1", "") ROW("\"18446744073709551615\"", "") END("2"), NULL },
		{ HEAD END("0"), NULL },
		{ "\n", "line 1: " },
		{ "[]\n", "line 1: a table's first line" },
		{ "nothing", "line 1: " },
		{ ROW("1", ""), "line 1: a table's first line, with \"table\", is missing" },
		{ HEAD, "line 1: the lines end here: the last one of a table" },
		{ HEAD ROW("1", ""), "line 2: the lines end here: the last one of a table" },
		{ HEAD ROW("1", "") END("2"), "line 3: \"t\" ends after 1 rows" },
		{ HEAD HEAD, "line 2: table \"t\" has not ended" },
		{ HEAD END("0") HEAD, "line 3: table \"t\" occurs twice" },
		{ HEAD END("0") ROW("1", ""), "line 3: a table's first line" },
		{ HEAD ROW("1", "") ROW("2", "") ROW("1", ""), "line 4: key 1 was there before" },
		{ HEAD ROW("1.0", ""), "line 2: member \"key\"" },
		{ HEAD ROW("\"-1\"", ""), "line 2: member \"key\"" },
		/* A negative key is that of int64. */
		{ HEAD ROW("-1", "") ROW("\"18446744073709551614\"", "") END("2"), NULL },
		{ HEAD ROW("-1", "") ROW("\"18446744073709551615\"", ""),
		  "line 3: key 18446744073709551615 was there before" },
		{ BLOCKS_HEAD BLOCKS_ROW("2"), "line 2: member \"values\" must be an array of 1024 elements" },
		{ BLOCKS_HEAD BLOCKS_ROW("3"),
		  "line 2: member \"key\" is 3: variable \"w\" has 3 blocks, numbered from 0" },
		{ BLOCKS_HEAD BLOCKS_ROW("\"18446744073709551615\""),
		  "is 18446744073709551615: variable \"w\" has 3 blocks" },
		{ HEAD ROW("1", ", \"version\": 3"), "line 2: unknown member \"version\"" },
		{ HEAD ROW("1", ", \"key\": 2"), "line 2: duplicate object key" },
		{ HEAD "{\"key\": 1, \"updates\": 1, \"values\": [1, 2]}", "line 2: member \"slots\"" },
		{ HEAD "{\"key\": 1, \"values\": [1, 2]}", "line 2: member \"updates\" is missing" },
		{ HEAD "{\"key\": 1, \"updates\": 4294967296}", "line 2: member \"updates\"" },
		{ HEAD "{\"key\": 1, \"updates\": 1, \"values\": [1]}", "an array of 2 elements" },
		{ HEAD "{\"key\": 1, \"updates\": 1, \"values\": [1, 1e39]}", "element 1 is not a valid float32" },
		{ HEAD "{\"key\": 1, \"updates\": 1, \"values\": [1, null]}", "element 1 is not a valid float32" },
		{ HEAD "{\"key\": 1, \"updates\": 1, \"values\": [\"nan\", 1]}", "element 0 is not a valid float32" },
		{ HEAD "{\"key\": 1, \"updates\": 1, \"values\": [\"nan:3f800000\", 1]}",
		  "element 0 is not a valid float32" },
		{ HEAD "{\"waiting\": 1, \"count\": 1, \"seen\": 1}", "line 2: \"t\" has no filter" },
		{ HEAD "{\"waiting\": 1, \"count\": 0, \"seen\": 1}", "line 2: member \"count\"" },
		{ HEAD BLOOM("0", "[]"), "line 2: \"t\" has no Bloom filter" },
		{ HEAD BLOOM_END("0"), "line 2: unknown member \"bloom_blocks\"" },
		{ BLOOM_HEAD BLOOM_END("0"), NULL },
		{ BLOOM_HEAD END("0"), "line 2: member \"bloom_blocks\" is missing" },
		{ BLOOM_HEAD BLOOM("0", "[]") BLOOM_END("0"), "line 3: \"b\" ends after" },
		{ BLOOM_HEAD BLOOM("5", "[]"), "line 2: member \"bloom\" is 5: the filter has 5 blocks" },
		{ BLOOM_HEAD BLOOM("-1", "[]"), "line 2: member \"bloom\"" },
		{ BLOOM_HEAD BLOOM("0", "7"), "line 2: member \"counters\" must be an array" },
		{ BLOOM_HEAD BLOOM("0", "[[0, 1], [2048, 1]]"), "line 2: member \"counters\": element 1" },
		{ BLOOM_HEAD BLOOM("0", "[[-1, 1]]"), "element 0" },
		{ BLOOM_HEAD BLOOM("0", "[[0, 301]]"), "element 0" },
		{ BLOOM_HEAD BLOOM("0", "[[0, 0]]"), "element 0" },
		{ BLOOM_HEAD BLOOM("0", "[[0, 1.5]]"), "element 0" },
		{ BLOOM_HEAD BLOOM("0", "[[0, 1, 2]]"), "element 0" },
		{ BLOOM_HEAD BLOOM("0", "[{}]"), "element 0" },
		{ "{\"table\": 1}", "line 1: " },
		{ "{\"table\": {\"name\": \"t\", \"kind\": \"table\", \"dim\": 2}, \"partitions\": 3, \"step\": 0, "
		  "\"pushes\": 0, \"removed\": 0, \"looks\": 0}",
		  "line 1: member \"partitions\" is 3" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_lines(i, &cases[i]);
}

void lines_that_no_node_would_load_are_refused(void)
{
	static const struct lines cases[] = {
		{ USED_HEAD("2147483647") USED_ROW("4294967295", "2147483647") END("1"), NULL },
		{ USED_HEAD("2147483648"), "line 1: member \"looks\"" },
		{ USED_HEAD("0") USED_ROW("0", "0"), "line 2: member \"version\"" },
		{ USED_HEAD("0") USED_ROW("1", "2147483648"), "line 2: member \"used\"" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_lines(i, &cases[i]);
}
