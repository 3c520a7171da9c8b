/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "ckpt/internal.h"
#include "ckpt/keyset.h"
#include "ckpt/line.h"
#include "ckpt/lines.h"
#include "ckpt/row.h"
#include "jsonrpc/member.h"
#include "jsonrpc/object_json.h"

struct export
{
	FILE *out;
	const char *name;
	struct object_spec spec; /* of the newest checkpoint */
	struct ckpt_row_shape shape;
	struct keyset seen;    /* keys that newer checkpoints have contained */
	struct keyset deleted; /* of the current checkpoint: added to `seen` at its end */
	bool youngest, oldest;
	uint64_t rows, waiting, blooms;
	struct checkpoint_table figures; /* of the current checkpoint: the maxima over its shards */
	bool counted;			 /* figures has those of a shard */
	uint32_t looks, aged;		 /* the youngest's looks; how many of them came after the one that is read */
	ckpt_progress *progress;
	void *ctx;
	uint64_t done, total;
};

/* ---- lines ---- */

/* Prints the counters that are not 0, each with its index. */
static void print_bloom(const struct export *e, const uint8_t *record)
{
	const unsigned width = checkpoint_bloom_width(e->spec.filter_frequency);
	const uint8_t *counters = record + sizeof(uint64_t);
	const char *comma = "";
	uint64_t number;

	memcpy(&number, record, sizeof(number));
	fprintf(e->out, "{\"bloom\": %" PRIu64 ", \"counters\": [", number);
	for (unsigned i = 0; i < CHECKPOINT_BLOOM_BYTES / width; i++) {
		const uint32_t count = wire_checkpoint_bloom_counter(counters + (size_t)i * width, width);

		if (count == 0)
			continue;
		fprintf(e->out, "%s[%u, %" PRIu32 "]", comma, i, count);
		comma = ", ";
	}
	fputs("]}\n", e->out);
}

/* ---- runs ---- */

/* Whether the current checkpoint has the newest data of the key. */
static int take_key(struct export *e, uint64_t key)
{
	/* Keys of the oldest checkpoint need not be remembered. */
	return e->oldest ? !ckpt_keyset_has(&e->seen, key) : ckpt_keyset_add(&e->seen, key);
}

static int take_record(struct export *e, unsigned kind, const uint8_t *record)
{
	struct checkpoint_count count;
	uint64_t key;
	int rc;

	memcpy(&key, record, sizeof(key));
	switch (kind) {
	case CHECKPOINT_ROWS:
		rc = take_key(e, key);
		if (rc > 0) {
			ckpt_line_row(e->out, &e->spec, &e->shape, e->aged, record);
			e->rows++;
		}
		return rc;
	case CHECKPOINT_COUNTS:
		memcpy(&count, record, sizeof(count));
		rc = take_key(e, key);
		if (rc > 0) {
			ckpt_line_key(e->out, "waiting", key);
			fprintf(e->out, ", \"count\": %" PRIu32 ", \"seen\": %" PRIu32 "}\n", count.count, count.seen);
			e->waiting++;
		}
		return rc;
	case CHECKPOINT_DELETED:
		return ckpt_keyset_add(&e->deleted, key);
	case CHECKPOINT_BLOOM:
		print_bloom(e, record);
		e->blooms++;
		return 0;
	default:
		return 0; /* begin has already searched for it */
	}
}

static int take_block(struct export *e, const struct ckpt_manifest *manifest, uint32_t object, const uint8_t *payload,
		      uint32_t bytes, struct star_error *err)
{
	struct checkpoint_run run;
	const void *records;
	uint32_t at = 0;
	int rc;

	while ((rc = ckpt_run_next(payload, bytes, &at, manifest, &run, &records, err)) > 0)
		for (uint32_t i = 0; run.object == object && i < run.count; i++)
			if (take_record(e, run.kind, (const uint8_t *)records + (size_t)i * run.row_bytes) < 0)
				return star_error_set(err, -ENOMEM, "no memory left for the keys of \"%s\"", e->name);
	return rc;
}

/* What a pass over a file does with a block: 0, 1 if the rest of the file is not needed, or a negative errno. */
typedef int block_consumer(struct export *e, const struct ckpt_manifest *manifest, uint32_t object,
			   const uint8_t *payload, uint32_t bytes, struct star_error *err);

static void keep_greatest(uint64_t *greatest, uint64_t number)
{
	if (number > *greatest)
		*greatest = number;
}

/* The difference between two times of a 31-bit clock, which may have wrapped around. */
static uint32_t since(uint32_t later, uint32_t earlier)
{
	return (later - earlier) & INT32_MAX;
}

static bool is_later(uint32_t looks, uint32_t others)
{
	const uint32_t ahead = since(looks, others);

	return ahead > 0 && ahead <= INT32_MAX / 2;
}

/* A shard's figures of the table, which come before its rows. */
static int take_figures(struct export *e, const struct ckpt_manifest *manifest, uint32_t object, const uint8_t *payload,
			uint32_t bytes, struct star_error *err)
{
	struct checkpoint_table table;
	struct checkpoint_run run;
	const void *records;
	uint32_t at = 0;
	int rc;

	while ((rc = ckpt_run_next(payload, bytes, &at, manifest, &run, &records, err)) > 0) {
		if (run.object != object)
			continue;
		if (run.kind == CHECKPOINT_TABLE) {
			memcpy(&table, records, sizeof(table));
			keep_greatest(&e->figures.step, table.step);
			keep_greatest(&e->figures.pushes, table.pushes);
			keep_greatest(&e->figures.removed, table.removed);
			if (!e->counted || is_later(table.looks, e->figures.looks))
				e->figures.looks = table.looks;
			e->counted = true;
		}
		return 1;
	}
	return rc;
}

static int take_file(struct export *e, const char *path, const struct ckpt_manifest *manifest,
		     const struct ckpt_file *file, uint32_t object, block_consumer *take, struct star_error *err)
{
	struct ckpt_reader *reader = ckpt_reader_create(path, manifest, file, err);
	const uint8_t *payload;
	bool over = false;
	uint32_t bytes;
	int rc = reader ? 1 : err->code;

	while (rc > 0 && !over && (rc = ckpt_reader_next(reader, &payload, &bytes, err)) > 0) {
		const int taken = take(e, manifest, object, payload, bytes, err);

		over = taken > 0;
		if (taken < 0)
			rc = taken;
		else if (ferror(e->out))
			rc = star_error_set(err, -EIO, "the lines cannot be written");
		if (take == take_block)
			e->done += ckpt_block_bytes(bytes);
		if (rc > 0 && e->progress && !e->progress(e->ctx, e->done, e->total))
			rc = star_error_set(err, -ECANCELED, "it was given up");
	}
	ckpt_reader_destroy(reader);
	return rc < 0 ? rc : 0;
}

/* ---- checkpoints ---- */

static int no_table(const struct ckpt_manifest *manifest, const char *path, const char *table, struct star_error *err)
{
	const char **names = calloc(manifest->objects_count + 1, sizeof(*names)), *nearest;

	for (uint32_t i = 0; names && i < manifest->objects_count; i++)
		names[i] = manifest->objects[i].name;
	nearest = names && names[0] ? nearest_name(table, names, sizeof(*names)) : NULL;
	star_error_set(err, -ENOENT, "%.280s has no table or variable \"%.60s\"%s%.60s%s", path, table,
		       nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
	free(names);
	return -ENOENT;
}

static const struct object_spec *find_object(const struct ckpt_manifest *manifest, const char *name)
{
	for (uint32_t i = 0; i < manifest->objects_count; i++)
		if (strcmp(manifest->objects[i].name, name) == 0)
			return &manifest->objects[i];
	return NULL;
}

static int read_figures(struct export *e, const char *path, const struct ckpt_manifest *manifest, uint32_t object,
			struct star_error *err)
{
	int rc = 0;

	e->figures = (struct checkpoint_table){ 0 };
	e->counted = false;
	for (uint32_t i = 0; rc == 0 && i < manifest->files_count; i++)
		rc = take_file(e, path, manifest, &manifest->files[i], object, take_figures, err);
	return rc;
}

/* The newest checkpoint defines the table. */
static int begin_export(struct export *e, const char *path, const struct ckpt_manifest *manifest,
			const struct object_spec *spec, struct star_error *err)
{
	int rc;

	e->spec = *spec;
	if (ckpt_row_shape(spec, &e->shape) < 0)
		return star_error_set(err, -EINVAL, "\"%s\" has no rows that this program knows", spec->name);
	rc = read_figures(e, path, manifest, spec->id, err);
	if (rc < 0)
		return rc;
	e->looks = e->figures.looks;
	return ckpt_line_table(e->out, spec, manifest->partitions, &e->figures) == 0
		       ? 0
		       : star_error_set(err, -EIO, "the lines cannot be written");
}

/* Continues with an older checkpoint of the chain. */
static int go_on(struct export *e, const char *path, const struct ckpt_manifest *manifest,
		 const struct object_spec *spec, struct star_error *err)
{
	int rc = wire_object_spec_same(spec, &e->spec, err) < 0 ? -EEXIST : 0;

	if (rc == 0 && e->shape.used)
		rc = read_figures(e, path, manifest, spec->id, err);
	e->aged = e->counted && is_later(e->looks, e->figures.looks) ? since(e->looks, e->figures.looks) : 0;
	return rc;
}

static int forget(struct export *e)
{
	int rc = 0;

	for (uint64_t i = 0; i < e->deleted.size && rc >= 0; i++)
		if (e->deleted.keys[i])
			rc = ckpt_keyset_add(&e->seen, e->deleted.keys[i]);
	if (e->deleted.has_zero && rc >= 0)
		rc = ckpt_keyset_add(&e->seen, 0);
	ckpt_keyset_fini(&e->deleted);
	return rc < 0 ? rc : 0;
}

static int take_checkpoint(struct export *e, const char *path, struct star_error *err)
{
	const struct object_spec *spec;
	struct ckpt_manifest manifest;
	int rc = ckpt_manifest_read(path, &manifest, err);

	if (rc < 0)
		return rc;
	spec = find_object(&manifest, e->name);
	if (e->youngest && !spec)
		rc = no_table(&manifest, path, e->name, err);
	else if (e->youngest)
		rc = begin_export(e, path, &manifest, spec, err);
	else if (spec)
		rc = go_on(e, path, &manifest, spec, err);
	for (uint32_t i = 0; rc == 0 && spec && i < manifest.files_count; i++)
		rc = take_file(e, path, &manifest, &manifest.files[i], spec->id, take_block, err);
	ckpt_manifest_free(&manifest);
	if (rc == 0 && forget(e) < 0)
		rc = star_error_set(err, -ENOMEM, "no memory left for the keys of \"%s\"", e->name);
	return rc;
}

/* Adds up the totals, for progress. */
static void add_up(struct export *e, char **chain, uint32_t count)
{
	struct ckpt_manifest manifest;

	for (uint32_t i = 0; i < count; i++) {
		if (ckpt_manifest_read(chain[i], &manifest, NULL) < 0)
			continue;
		for (uint32_t j = 0; j < manifest.files_count; j++)
			e->total += manifest.files[j].bytes;
		ckpt_manifest_free(&manifest);
	}
}

/* Writes an end line, so that a truncated export is noticed. */
static int end_export(const struct export *e)
{
	fprintf(e->out, "{\"rows\": %" PRIu64 ", \"waiting_keys\": %" PRIu64, e->rows, e->waiting);
	if (e->spec.filter == FILTER_BLOOM)
		fprintf(e->out, ", \"bloom_blocks\": %" PRIu64, e->blooms);
	fputs("}\n", e->out);
	return fflush(e->out) != 0 || ferror(e->out) ? -EIO : 0;
}

/* Finds the chain of that checkpoint; for id 0 of the newest, as nodes with restore = "latest" do: silently taking an
 * older one would be misleading. */
static int find_chain(const char *directory, uint64_t id, char ***chain, uint32_t *count, struct star_error *err)
{
	struct star_error why = { 0 };
	struct ckpt_next next = { 0 };
	int rc = id ? 0 : ckpt_next_id(directory, false, &next, err);

	*chain = NULL;
	*count = 0;
	if (rc < 0)
		return rc;
	if (id || next.id == 1)
		return ckpt_chain(directory, id, chain, count, err);
	rc = ckpt_chain(directory, next.id - 1, chain, count, &why);
	if (rc == 0 || rc == -ENOMEM)
		return rc < 0 ? star_error_set(err, rc, "%s", why.text) : 0;
	if (ckpt_chain(directory, 0, chain, count, NULL) < 0)
		return star_error_set(err, rc, "the newest checkpoint is damaged or incomplete: %.400s", why.text);
	star_error_set(
		err, rc,
		"the newest checkpoint is damaged or incomplete: %.300s. To export an older one, name it: %.120s",
		why.text, (*chain)[*count - 1]);
	ckpt_chain_free(*chain, *count);
	*chain = NULL;
	*count = 0;
	return rc;
}

int ckpt_export(const char *directory, uint64_t id, const char *table, FILE *out, ckpt_progress *progress, void *ctx,
		struct star_error *err)
{
	struct export e = { .out = out, .name = table, .progress = progress, .ctx = ctx };
	struct star_error why = { 0 };
	uint32_t count;
	char **chain;
	int rc = find_chain(directory, id, &chain, &count, &why);

	if (rc == 0 && progress)
		add_up(&e, chain, count);
	/* From the newest to the oldest: for each key the first data found is valid. */
	for (uint32_t i = count; rc == 0 && i-- > 0;) {
		e.youngest = i == count - 1;
		e.oldest = i == 0;
		rc = take_checkpoint(&e, chain[i], &why);
	}
	if (rc == 0 && end_export(&e) < 0)
		rc = star_error_set(&why, -EIO, "the lines cannot be written");
	ckpt_chain_free(chain, count);
	ckpt_keyset_fini(&e.seen);
	ckpt_keyset_fini(&e.deleted);
	return rc < 0 ? star_error_set(err, rc, "%s", why.text) : 0;
}
