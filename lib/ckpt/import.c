/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "ckpt/internal.h"
#include "ckpt/keyset.h"
#include "ckpt/line.h"
#include "ckpt/lines.h"
#include "ckpt/row.h"
#include "jsonrpc/member.h"
#include "jsonrpc/object_json.h"

enum { LINE_BYTES_MAX = 16 << 20, ID = 1 };

struct import {
	FILE *in;
	char *line;
	size_t line_size;
	uint64_t line_number, done, total;
	ckpt_progress *progress;
	void *ctx;

	struct ckpt_claim claim;
	char path[CKPT_PATH_MAX];
	struct ckpt_writer *writer;
	uint8_t *block;
	uint32_t used; /* of the block's payload */
	uint64_t block_rows;
	struct checkpoint_run *run; /* the current run, or NULL */

	struct object_spec objects[WIRE_OBJECTS_MAX];
	uint32_t objects_count, partitions;
	uint64_t step;
	/* The table that is being read. */
	bool open;
	struct ckpt_row_shape shape;
	struct keyset keys;
	uint64_t rows, waiting, blooms, rows_in_all;
	uint8_t *record;
	struct checkpoint_bloom bloom;
};

static struct object_spec *spec_of(struct import *m)
{
	return &m->objects[m->objects_count - 1];
}

/* ---- into blocks ---- */

/*
 * The file is created with its first block, because its header has the number of partitions, which the first line
 * gives.
 */
static int flush_import(struct import *m, struct star_error *err)
{
	const struct ckpt_writer_options options = { .header = { .id = ID, .partitions = m->partitions } };
	int rc;

	if (!m->writer)
		m->writer = ckpt_writer_create(m->path, "node0-reactor0.star", &options, err);
	if (!m->writer)
		return err->code;
	rc = m->used ? ckpt_writer_block(m->writer, m->block, m->used, m->block_rows, 0, err) : 0;
	m->used = 0;
	m->block_rows = 0;
	m->run = NULL;
	return rc;
}

/* Records are multiples of 8 bytes: a run needs no padding. */
static int put_record(struct import *m, unsigned kind, const void *record, uint32_t bytes, struct star_error *err)
{
	uint8_t *payload = m->block + sizeof(struct checkpoint_block);
	bool begins = !m->run || m->run->kind != kind || m->run->object != spec_of(m)->id;

	if (m->used + bytes + sizeof(*m->run) > CHECKPOINT_PAYLOAD_MAX) {
		if (flush_import(m, err) < 0)
			return err->code;
		begins = true;
	}
	if (begins) {
		m->run = (struct checkpoint_run *)(payload + m->used);
		*m->run =
			(struct checkpoint_run){ .object = spec_of(m)->id, .kind = (uint16_t)kind, .row_bytes = bytes };
		m->used += (uint32_t)sizeof(*m->run);
	}
	memcpy(payload + m->used, record, bytes);
	m->used += bytes;
	m->run->count++;
	m->block_rows += kind == CHECKPOINT_ROWS;
	return 0;
}

/* ---- lines ---- */

/* Checks the names of all members of a row's line, so that a wrong one is reported. */
static int check_members(const struct import *m, const json_t *json, struct star_error *err)
{
	const char *names[CKPT_LINE_MEMBERS];

	ckpt_line_members(&m->objects[m->objects_count - 1], &m->shape, names);
	return jsonrpc_member_only(json, names, err);
}

static int read_word(const json_t *json, const char *name, uint32_t least, uint32_t most, uint8_t *row, uint32_t at,
		     struct star_error *err)
{
	uint32_t word;

	if (!at)
		return 0;
	if (jsonrpc_member_u32(json, name, least, most, &word, err) < 0)
		return -EINVAL;
	memcpy(row + at, &word, sizeof(word));
	return 0;
}

static int read_slots(struct import *m, const json_t *json, uint8_t *row, struct star_error *err)
{
	const struct ckpt_row_shape *s = &m->shape;
	const unsigned type = s->slot_width == sizeof(double) ? STAR_FLOAT64 : STAR_FLOAT32;
	const json_t *slots = json_object_get(json, "slots");
	const char *names[OPTIM_SLOTS_MAX + 1] = { NULL };

	for (unsigned i = 0; i < s->optim.slots; i++)
		names[i] = s->optim.slot_names[i];
	if (s->slots && (!json_is_object(slots) || jsonrpc_member_only(slots, names, err) < 0))
		return star_error_set(
			err, -EINVAL,
			"member \"slots\" must be an object with \"%s\" and no others than the optimizer has",
			names[0]);
	for (unsigned i = 0; i < s->optim.slots; i++)
		if (ckpt_line_read_elements(slots, names[i], type,
					    row + s->slots + (size_t)i * spec_of(m)->dim * s->slot_width,
					    spec_of(m)->dim, err) < 0)
			return -EINVAL;
	return 0;
}

static int take_key(struct import *m, const json_t *json, const char *name, uint64_t *key, struct star_error *err)
{
	int rc = ckpt_line_read_key(json, name, key, err);

	if (rc < 0)
		return rc;
	rc = ckpt_keyset_add(&m->keys, *key);
	if (rc < 0)
		return star_error_set(err, rc, "no memory left for the keys of \"%s\"", spec_of(m)->name);
	return rc ? 0 : star_error_set(err, -EINVAL, "key %" PRIu64 " was there before", *key);
}

/* The keys of a variable are its block numbers. */
static int check_block(struct import *m, uint64_t key, struct star_error *err)
{
	const struct object_spec *spec = spec_of(m);

	if (spec->kind != OBJECT_VARIABLE || key < wire_object_blocks(spec))
		return 0;
	return star_error_set(err, -EINVAL,
			      "member \"key\" is %" PRIu64 ": variable \"%s\" has %" PRIu64 " blocks, numbered from 0",
			      key, spec->name, wire_object_blocks(spec));
}

static int import_row(struct import *m, const json_t *json, struct star_error *err)
{
	const struct ckpt_row_shape *s = &m->shape;
	uint8_t *row = m->record;
	uint64_t key;

	memset(row, 0, s->bytes);
	if (check_members(m, json, err) < 0 || take_key(m, json, "key", &key, err) < 0 ||
	    check_block(m, key, err) < 0 ||
	    /* A version that a store can have and load. */
	    read_word(json, "version", 1, UINT32_MAX, row, s->version, err) < 0 ||
	    read_word(json, "rounds", 0, UINT32_MAX, row, s->rounds, err) < 0 ||
	    read_word(json, "frequency", 0, UINT32_MAX, row, s->frequency, err) < 0 ||
	    read_word(json, "used", 0, INT32_MAX, row, s->used, err) < 0 ||
	    read_word(json, "seen", 0, UINT32_MAX, row, s->seen, err) < 0 ||
	    read_word(json, s->optim.word_name, 0, UINT32_MAX, row, s->words, err) < 0 ||
	    ckpt_line_read_values(json, spec_of(m), row + s->values, err) < 0 ||
	    (s->masters &&
	     ckpt_line_read_elements(json, "masters", STAR_FLOAT32, row + s->masters, spec_of(m)->dim, err) < 0) ||
	    read_slots(m, json, row, err) < 0)
		return -EINVAL;
	memcpy(row, &key, sizeof(key));
	m->rows++;
	return put_record(m, CHECKPOINT_ROWS, row, s->bytes, err);
}

/* Such a key may also have a row, because counts are saved a little after the rows. */
static int take_waiting(struct import *m, const json_t *json, struct star_error *err)
{
	static const char *const members[] = { "waiting", "count", "seen", NULL };
	struct checkpoint_count count;

	if (jsonrpc_member_only(json, members, err) < 0 || jsonrpc_member_u64(json, "waiting", &count.key, err) < 0 ||
	    jsonrpc_member_u32(json, "count", 1, UINT32_MAX, &count.count, err) < 0 ||
	    jsonrpc_member_u32(json, "seen", 0, UINT32_MAX, &count.seen, err) < 0)
		return -EINVAL;
	if (spec_of(m)->filter != FILTER_COUNTER)
		return star_error_set(err, -EINVAL, "\"%s\" has no filter that counts by key", spec_of(m)->name);
	m->waiting++;
	return put_record(m, CHECKPOINT_COUNTS, &count, sizeof(count), err);
}

/* Writes an [index, count] pair into the block. */
static bool read_counter(struct import *m, const json_t *pair)
{
	const unsigned width = checkpoint_bloom_width(spec_of(m)->filter_frequency);
	const json_t *at = json_array_get(pair, 0), *count = json_array_get(pair, 1);
	const json_int_t place = json_integer_value(at), number = json_integer_value(count);

	if (json_array_size(pair) != 2 || !json_is_integer(at) || !json_is_integer(count) || place < 0 ||
	    place >= CHECKPOINT_BLOOM_BYTES / (json_int_t)width || number < 1 ||
	    number > (json_int_t)spec_of(m)->filter_frequency)
		return false;
	memcpy(m->bloom.counters + (size_t)place * width, &(uint32_t){ (uint32_t)number }, width);
	return true;
}

/* A block at the edge of a shard may be written by two reactors, so it may occur twice. */
static int take_bloom(struct import *m, const json_t *json, struct star_error *err)
{
	static const char *const members[] = { "bloom", "counters", NULL };
	const json_t *counters = json_object_get(json, "counters"), *pair;
	size_t i;

	if (spec_of(m)->filter != FILTER_BLOOM)
		return star_error_set(err, -EINVAL, "\"%s\" has no Bloom filter", spec_of(m)->name);
	m->bloom = (struct checkpoint_bloom){ .number = 0 };
	if (jsonrpc_member_only(json, members, err) < 0 || jsonrpc_member_u64(json, "bloom", &m->bloom.number, err) < 0)
		return -EINVAL;
	if (m->bloom.number >= wire_checkpoint_bloom_blocks(spec_of(m)))
		return star_error_set(err, -EINVAL,
				      "member \"bloom\" is %" PRIu64 ": the filter has %" PRIu32 " blocks",
				      m->bloom.number, wire_checkpoint_bloom_blocks(spec_of(m)));
	if (!json_is_array(counters))
		return star_error_set(err, -EINVAL, "member \"counters\" must be an array");
	json_array_foreach(counters, i, pair)
	{
		if (!read_counter(m, pair))
			return star_error_set(
				err, -EINVAL,
				"member \"counters\": element %zu is not a place in a block and a count up "
				"to filter_frequency",
				i);
	}
	m->blooms++;
	return put_record(m, CHECKPOINT_BLOOM, &m->bloom, sizeof(m->bloom), err);
}

static int check_imported(struct import *m, const struct object_spec *spec, uint32_t partitions, struct star_error *err)
{
	for (uint32_t i = 0; i < m->objects_count; i++)
		if (strcmp(m->objects[i].name, spec->name) == 0)
			return star_error_set(err, -EINVAL, "table \"%s\" occurs twice", spec->name);
	if (m->objects_count == WIRE_OBJECTS_MAX)
		return star_error_set(err, -EINVAL, "there are more than %d tables", WIRE_OBJECTS_MAX);
	if ((m->partitions && partitions != m->partitions) || partitions & (partitions - 1))
		return star_error_set(err, -EINVAL,
				      "member \"partitions\" is %u: a power of two is needed, the same for all tables",
				      partitions);
	return 0;
}

static int take_table(struct import *m, const json_t *json, struct star_error *err)
{
	static const char *const members[] = { "table", "partitions", "step", "pushes", "removed", "looks", NULL };
	struct checkpoint_table table = { 0 };
	struct object_spec spec;
	uint32_t partitions;

	if (m->open)
		return star_error_set(err, -EINVAL,
				      "table \"%s\" has not ended: its last line, with \"rows\", is missing",
				      spec_of(m)->name);
	if (jsonrpc_member_only(json, members, err) < 0 ||
	    jsonrpc_object_decode(json_object_get(json, "table"), &spec, err) < 0 ||
	    jsonrpc_member_u32(json, "partitions", 1, WIRE_PARTITIONS_MAX, &partitions, err) < 0 ||
	    jsonrpc_member_u64(json, "step", &table.step, err) < 0 ||
	    jsonrpc_member_u64(json, "pushes", &table.pushes, err) < 0 ||
	    jsonrpc_member_u64(json, "removed", &table.removed, err) < 0 ||
	    jsonrpc_member_u32(json, "looks", 0, INT32_MAX, &table.looks, err) < 0 ||
	    check_imported(m, &spec, partitions, err) < 0)
		return -EINVAL;
	if (ckpt_row_shape(&spec, &m->shape) < 0)
		return star_error_set(err, -EINVAL, "\"%s\" has no rows that this program knows", spec.name);
	m->record = realloc(m->record, m->shape.bytes);
	if (!m->record)
		return star_error_set(err, -ENOMEM, "no memory left for a row of \"%s\"", spec.name);
	m->partitions = partitions;
	m->objects[m->objects_count++] = spec;
	spec_of(m)->id = m->objects_count;
	spec_of(m)->generation = 0;
	m->step = table.step > m->step ? table.step : m->step;
	m->rows = m->waiting = m->blooms = 0;
	m->open = true;
	return put_record(m, CHECKPOINT_TABLE, &table, sizeof(table), err);
}

static int take_end(struct import *m, const json_t *json, struct star_error *err)
{
	const bool has_bloom = spec_of(m)->filter == FILTER_BLOOM;
	const char *const members[] = { "rows", "waiting_keys", has_bloom ? "bloom_blocks" : NULL, NULL };
	uint64_t rows, waiting, blooms = 0;

	if (jsonrpc_member_only(json, members, err) < 0 || jsonrpc_member_u64(json, "rows", &rows, err) < 0 ||
	    jsonrpc_member_u64(json, "waiting_keys", &waiting, err) < 0 ||
	    (has_bloom && jsonrpc_member_u64(json, "bloom_blocks", &blooms, err) < 0))
		return -EINVAL;
	if (rows != m->rows || waiting != m->waiting || blooms != m->blooms)
		return star_error_set(err, -EINVAL,
				      "\"%s\" ends after %" PRIu64 " rows, %" PRIu64 " waiting keys and %" PRIu64
				      " blocks of a Bloom filter, and should have %" PRIu64 ", %" PRIu64
				      " and %" PRIu64,
				      spec_of(m)->name, m->rows, m->waiting, m->blooms, rows, waiting, blooms);
	m->open = false;
	m->rows_in_all += rows;
	ckpt_keyset_fini(&m->keys);
	return 0;
}

static int take_line(struct import *m, size_t bytes, struct star_error *err)
{
	json_error_t position;
	json_t *json = json_loadb(m->line, bytes, JSON_REJECT_DUPLICATES, &position);
	int rc;

	if (!json)
		return star_error_set(err, -EINVAL, "%.200s", position.text);
	if (json_object_get(json, "table"))
		rc = take_table(m, json, err);
	else if (!m->open)
		rc = star_error_set(err, -EINVAL, "a table's first line, with \"table\", is missing");
	else if (json_object_get(json, "waiting"))
		rc = take_waiting(m, json, err);
	else if (json_object_get(json, "bloom"))
		rc = take_bloom(m, json, err);
	else if (json_object_get(json, "rows"))
		rc = take_end(m, json, err);
	else
		rc = import_row(m, json, err);
	json_decref(json);
	return rc;
}

static int take_lines(struct import *m, struct star_error *err)
{
	struct star_error why = { 0 };
	ssize_t bytes;
	int rc = 0;

	while (rc == 0 && (bytes = getline(&m->line, &m->line_size, m->in)) > 0) {
		m->line_number++;
		m->done += (uint64_t)bytes;
		rc = bytes > LINE_BYTES_MAX ? star_error_set(&why, -EINVAL, "it has more than %d bytes", LINE_BYTES_MAX)
					    : take_line(m, (size_t)bytes, &why);
		if (rc == 0 && m->progress && !m->progress(m->ctx, m->done, m->total))
			rc = star_error_set(&why, -ECANCELED, "it was given up");
	}
	if (rc == 0 && ferror(m->in))
		rc = star_error_set(&why, -EIO, "the lines cannot be read");
	if (rc == 0 && (m->open || m->objects_count == 0))
		rc = star_error_set(&why, -EINVAL, "the lines end here: %s",
				    m->open ? "the last one of a table, with \"rows\", is missing"
					    : "there is no table");
	return rc < 0 ? star_error_set(err, rc, "line %" PRIu64 ": %.400s", m->line_number, why.text) : 0;
}

/* ---- the checkpoint ---- */

static int finish_import(struct import *m, struct star_error *err)
{
	struct ckpt_file file;
	struct ckpt_manifest manifest = { .id = ID,
					  .time_ms = clock_date_us() / 1000,
					  .partitions = m->partitions,
					  .tasks = 1,
					  .reactors = 1,
					  .step = m->step,
					  .objects_count = m->objects_count,
					  .objects = m->objects,
					  .files_count = 1,
					  .files = &file };

	if (flush_import(m, err) < 0 || ckpt_writer_finish(m->writer, &file, err) < 0)
		return err->code;
	return ckpt_commit(m->path, &manifest, err);
}

static int check_empty(const char *directory, struct star_error *err)
{
	struct ckpt_next next;
	int rc = ckpt_next_id(directory, false, &next, err);

	if (rc == 0 && next.id != ID)
		rc = star_error_set(
			err, -EEXIST,
			"%.280s has checkpoints: a restore would take the imported one for the newest of them. "
			"Import into a directory of its own",
			directory);
	/* Recorded drops referred to tables of checkpoints that are gone. */
	return rc < 0 ? rc : ckpt_dropped_remove(directory, NULL, err);
}

int ckpt_import(FILE *in, const char *directory, uint64_t total, struct ckpt_imported *imported,
		ckpt_progress *progress, void *ctx, struct star_error *err)
{
	struct import *m = calloc(1, sizeof(*m));
	struct star_error why = { 0 };
	int rc;

	if (m)
		m->block = aligned_alloc(CHECKPOINT_ALIGN, CHECKPOINT_BLOCK_MAX);
	if (!m || !m->block) {
		free(m);
		return star_error_set(err, -ENOMEM, "no memory left to import");
	}
	m->in = in;
	m->total = total;
	m->progress = progress;
	m->ctx = ctx;
	/* An unfinished checkpoint may be one that a node is writing: nothing is changed before that is known. */
	ckpt_claim_init(&m->claim, directory);
	rc = ckpt_claim_take(&m->claim, directory, &why);
	if (rc == 0)
		rc = check_empty(directory, &why);
	if (rc == 0)
		rc = ckpt_begin(directory, ID, 0, m->path, &why);
	if (rc == 0) {
		rc = take_lines(m, &why);
		if (rc == 0)
			rc = finish_import(m, &why);
		if (rc < 0)
			ckpt_abandon(m->path);
	}
	*imported = (struct ckpt_imported){ .id = ID, .rows = m->rows_in_all, .tables = m->objects_count };
	ckpt_writer_destroy(m->writer);
	ckpt_claim_fini(&m->claim);
	ckpt_keyset_fini(&m->keys);
	free(m->block);
	free(m->record);
	free(m->line);
	free(m);
	return rc < 0 ? star_error_set(err, rc, "%s", why.text) : 0;
}
