/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/ckpt/support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32.h"
#include "base/hash.h"
#include "ckpt/row.h"
#include "tensor/dtype.h"
#include "tests/unit.h"

static char *make_in(const char *parent, char path[static DIRECTORY_MAX])
{
	snprintf(path, DIRECTORY_MAX, "%s/star-ckpt-XXXXXX", parent);
	if (!mkdtemp(path)) {
		perror(path);
		abort();
	}
	return path;
}

char *make_directory(char path[static DIRECTORY_MAX])
{
	const char *parent = getenv("TMPDIR");

	return make_in(parent ? parent : "/tmp", path);
}

char *make_memory_directory(char path[static DIRECTORY_MAX])
{
	return access("/dev/shm", W_OK) == 0 ? make_in("/dev/shm", path) : make_directory(path);
}

struct path in(const char *directory, const char *name)
{
	struct path path;

	if (snprintf(path.text, sizeof(path.text), "%s/%s", directory, name) >= (int)sizeof(path.text))
		abort();
	return path;
}

const struct object_spec *sample_objects(void)
{
	static struct object_spec objects[OBJECTS];
	static const struct {
		const char *name, *options;
		unsigned dtype, optimizer;
		uint32_t dim, rows; /* rows: a variable's */
	} samples[OBJECTS] = {
		{ "plain", "", STAR_FLOAT32, OPTIM_SGD, 4, 0 },
		{ "adam", "versions=1,steps_to_live=10", STAR_FLOAT32, OPTIM_ADAM, 5, 0 },
		{ "narrow", "master=1,stochastic=1,full=evict_lfu,rows_max=100", STAR_BFLOAT16, OPTIM_AMSGRAD, 3, 0 },
		{ "half", "full=evict_lru,rows_max=9", STAR_FLOAT16, OPTIM_FTRL, 7, 0 },
		{ "wide", "filter=counter,filter_frequency=3", STAR_FLOAT64, OPTIM_ADADELTA, 2, 0 },
		{ "scaled", "", STAR_SCALED_INT8, OPTIM_ADAGRAD, 9, 0 },
		{ "counts", "filter=bloom,filter_frequency=300,filter_keys=1000", STAR_INT64, OPTIM_NONE, 1, 0 },
		{ "letters \xc3\xa9", "", STAR_INT8, OPTIM_NONE, 3, 0 },
		{ "dense/weights", "whole=1", STAR_FLOAT32, OPTIM_LAMB, 0, 10 },
	};
	struct star_error err;

	if (objects[0].id)
		return objects;
	for (unsigned i = 0; i < OBJECTS; i++) {
		struct object_spec *spec = &objects[i];

		*spec = (struct object_spec){ .kind = samples[i].rows ? OBJECT_VARIABLE : OBJECT_TABLE,
					      .dtype = (uint8_t)samples[i].dtype,
					      .dim = samples[i].dim,
					      .ndim = samples[i].rows ? 2 : 0,
					      .shape = { samples[i].rows, 6 } };
		strcpy(spec->name, samples[i].name);
		wire_object_spec_defaults(spec, samples[i].optimizer);
		spec->seed = hash_mix(i + 1);
		if (wire_object_spec_options(spec, samples[i].options, &err) < 0 ||
		    wire_object_spec_check(spec, &err) < 0) {
			printf("# %s: %s\n", spec->name, err.text);
			abort();
		}
		spec->id = i * i + 1;
	}
	return objects;
}

static uint32_t sample_looks(const struct save *save, uint32_t file)
{
	return (save->looks + file + 3) & INT32_MAX;
}

/* Keys are the same in all checkpoints: a delta has new rows for them. */
uint64_t sample_key(uint32_t file, const struct object_spec *spec, uint32_t n)
{
	if (spec->kind == OBJECT_VARIABLE)
		return 0; /* its only block */
	return hash_mix(((uint64_t)spec->id << 48) + ((uint64_t)file << 32) + n);
}

void sample_row(const struct save *save, uint32_t file, const struct object_spec *spec, uint32_t n, uint8_t *row,
		uint32_t bytes)
{
	const uint64_t key = sample_key(file, spec, n);
	struct ckpt_row_shape shape;

	ckpt_row_shape(spec, &shape);
	for (uint32_t i = 0; i < bytes; i += 8) {
		const uint64_t random = hash_mix(key ^ hash_mix(save->id * 65536 + i + (save->seed << 32)));

		memcpy(row + i, &random, 8);
	}
	memset(row + shape.end, 0, bytes - shape.end);
	/* As no row has them: version 0, and a use before all that are counted. */
	if (shape.version)
		row[shape.version] |= 1;
	if (shape.used)
		row[shape.used + sizeof(uint32_t) - 1] &= INT8_MAX;
	if (spec->dtype == STAR_SCALED_INT8) /* its own padding */
		memset(row + shape.values + sizeof(float) + spec->dim, 0,
		       dtype_row_bytes(spec->dtype, spec->dim) - sizeof(float) - spec->dim);
	memcpy(row, &key, sizeof(key));
}

/* A block that is being filled. */
struct filling {
	const struct save *save;
	struct ckpt_writer *writer;
	uint8_t *block;
	uint32_t used, limit; /* of the payload */
	uint64_t rows, deleted;
	struct star_error *err;
};

static int flush(struct filling *f)
{
	int rc = f->used ? ckpt_writer_block(f->writer, f->block, f->used, f->rows, f->deleted, f->err) : 0;

	f->used = 0;
	f->rows = f->deleted = 0;
	return rc;
}

static void put(struct filling *f, const void *from, uint32_t bytes)
{
	memcpy(f->block + sizeof(struct checkpoint_block) + f->used, from, bytes);
	f->used += bytes;
}

/* Room for the beginning of a run and a record; how many records fit. */
static int room(struct filling *f, uint32_t each, uint32_t *records)
{
	int rc = 0;

	if (f->limit - f->used < sizeof(struct checkpoint_run) + each + 8)
		rc = flush(f);
	*records = (f->limit - f->used - (uint32_t)sizeof(struct checkpoint_run) - 8) / each;
	if (*records > f->save->run_rows)
		*records = f->save->run_rows;
	return rc;
}

static void begin_run(struct filling *f, const struct object_spec *spec, unsigned kind, uint32_t count, uint32_t each)
{
	const struct checkpoint_run run = {
		.object = spec->id, .kind = (uint16_t)kind, .count = count, .row_bytes = each
	};

	put(f, &run, sizeof(run));
}

static int write_object(struct filling *f, uint32_t file, const struct object_spec *spec)
{
	const struct checkpoint_table table = {
		.step = f->save->id * 10, .pushes = file + 1, .removed = file + 2, .looks = sample_looks(f->save, file)
	};
	const uint32_t each = ckpt_row_bytes(spec);
	uint8_t row[256 * 1024];
	uint32_t n;
	int rc = room(f, sizeof(table), &n);

	begin_run(f, spec, CHECKPOINT_TABLE, 1, sizeof(table));
	put(f, &table, sizeof(table));
	if (rc == 0 && f->save->parent && spec->kind == OBJECT_TABLE) {
		const uint64_t gone = sample_key(file, spec, f->save->rows);

		rc = room(f, sizeof(gone), &n);
		begin_run(f, spec, CHECKPOINT_DELETED, 1, sizeof(gone));
		put(f, &gone, sizeof(gone));
		f->deleted++;
	}
	for (uint32_t done = 0; rc == 0 && done < f->save->rows; done += n) {
		rc = room(f, each, &n);
		if (n > f->save->rows - done)
			n = f->save->rows - done;
		begin_run(f, spec, CHECKPOINT_ROWS, n, each);
		for (uint32_t i = 0; i < n; i++) {
			sample_row(f->save, file, spec, done + i, row, each);
			put(f, row, each);
		}
		f->rows += n;
	}
	return rc;
}

static int write_data(const char *path, const struct save *save, uint32_t file, struct ckpt_file *written,
		      struct star_error *err)
{
	const struct ckpt_writer_options options = { .header = { .id = save->id,
								 .parent = save->parent,
								 .task = file / 2,
								 .reactor = file % 2,
								 .partitions = 1024 },
						     .buffered = save->buffered };
	struct filling f = { .save = save,
			     .limit = save->run_limit ? save->run_limit : CHECKPOINT_PAYLOAD_MAX,
			     .err = err };
	char name[64];
	int rc = 0;

	snprintf(name, sizeof(name), "node%u-reactor%u.star", file / 2, file % 2);
	f.writer = ckpt_writer_create(path, name, &options, err);
	if (!f.writer)
		return err->code;
	f.block = aligned_alloc(CHECKPOINT_ALIGN, CHECKPOINT_BLOCK_MAX);
	for (uint32_t i = 0; i < OBJECTS && rc == 0; i++)
		rc = write_object(&f, file, &sample_objects()[i]);
	if (rc == 0)
		rc = flush(&f);
	if (rc == 0)
		rc = ckpt_writer_finish(f.writer, written, err);
	ckpt_writer_destroy(f.writer);
	free(f.block);
	return rc;
}

int save_checkpoint(const char *directory, const struct save *save, struct star_error *err)
{
	struct ckpt_manifest manifest = { .id = save->id,
					  .parent = save->parent,
					  .time_ms = 1700000000000 + save->id % 1000,
					  .partitions = 1024,
					  .tasks = (save->files + 1) / 2,
					  .reactors = save->files,
					  .step = UINT64_MAX - save->id,
					  .objects_count = OBJECTS,
					  .objects = (struct object_spec *)sample_objects(),
					  .files_count = save->files };
	struct ckpt_file files[FILES_MAX] = { 0 };
	char path[CKPT_PATH_MAX];
	int rc = ckpt_begin(directory, save->id, save->parent, path, err);

	if (rc < 0)
		return rc;
	manifest.files = files;
	for (uint32_t i = 0; i < save->files && rc == 0; i++)
		rc = write_data(path, save, i, &files[i], err);
	if (rc == 0)
		rc = ckpt_commit(path, &manifest, err);
	if (rc < 0)
		ckpt_abandon(path);
	return rc;
}

void save_bare(const char *directory, const struct bare *bare)
{
	const uint32_t partitions = bare->partitions ? bare->partitions : 1024;
	const struct ckpt_writer_options options = {
		.header = { .id = bare->id, .parent = bare->parent, .partitions = partitions }, .buffered = true
	};
	struct ckpt_file file = { 0 };
	const struct ckpt_manifest manifest = { .id = bare->id,
						.parent = bare->parent,
						.lineage = bare->lineage,
						.partitions = partitions,
						.tasks = 1,
						.reactors = 1,
						.files_count = 1,
						.files = &file };
	struct star_error err = { 0 };
	char name[CHECKPOINT_ID_MAX], *text;
	struct ckpt_writer *writer;
	struct path path;
	size_t bytes;

	ckpt_name(name, bare->id, bare->parent != 0, "");
	path = in(directory, name);
	CHECK_INT(mkdir(path.text, 0755), 0);
	writer = ckpt_writer_create(path.text, "a.star", &options, &err);
	if (!CHECK(writer) || !CHECK_INT(ckpt_writer_finish(writer, &file, &err), 0)) {
		printf("# %s\n", err.text);
		return;
	}
	ckpt_writer_destroy(writer);
	text = ckpt_manifest_text(&manifest, &bytes, &err);
	if (CHECK(text))
		write_file(in(path.text, CKPT_MANIFEST_NAME).text, text, bytes);
	free(text);
}

struct path checkpoint_path(const char *directory, const struct save *save)
{
	char name[CHECKPOINT_ID_MAX];

	ckpt_name(name, save->id, save->parent != 0, "");
	return in(directory, name);
}

char *changed_manifest(const char *text, const char *from, const char *to, size_t *bytes)
{
	const char *found = strstr(text, from), *tail = strstr(text, ",\n \"crc32\"");
	char *changed = malloc(strlen(text) + strlen(to) + 1);

	if (!found || !tail || !changed) {
		printf("# there is no %s in the manifest\n", from);
		abort();
	}
	sprintf(changed, "%.*s%s%s", (int)(found - text), text, to, found + strlen(from));
	*bytes = (size_t)(strstr(changed, ",\n \"crc32\"") - changed);
	*bytes += (size_t)sprintf(changed + *bytes, ",\n \"crc32\": \"%08x\"\n}\n", base_crc32(changed, *bytes));
	return changed;
}

/* The rows of a run, which go on where the last run of the object ended. */
static bool check_rows(const struct save *save, uint32_t file, const struct object_spec *spec, uint32_t from,
		       const struct checkpoint_run *run, const uint8_t *records)
{
	uint8_t row[256 * 1024];

	for (uint32_t i = 0; i < run->count; i++) {
		sample_row(save, file, spec, from + i, row, run->row_bytes);
		if (!CHECK_MEM(records + (size_t)i * run->row_bytes, row, run->row_bytes))
			return false;
	}
	return true;
}

static bool check_run(const struct save *save, uint32_t file, const struct checkpoint_run *run, const void *records,
		      uint32_t rows[static OBJECTS])
{
	const struct object_spec *objects = sample_objects();
	uint32_t i = 0;

	while (i < OBJECTS && objects[i].id != run->object)
		i++;
	if (run->kind == CHECKPOINT_TABLE) {
		const struct checkpoint_table *table = records;

		return CHECK_UINT(table->step, save->id * 10) && CHECK_UINT(table->pushes, file + 1) &&
		       CHECK_UINT(table->removed, file + 2) && CHECK_UINT(table->looks, sample_looks(save, file));
	}
	if (run->kind == CHECKPOINT_DELETED)
		return CHECK_UINT(*(const uint64_t *)records, sample_key(file, &objects[i], save->rows));
	if (!CHECK_UINT(run->kind, CHECKPOINT_ROWS) || !check_rows(save, file, &objects[i], rows[i], run, records))
		return false;
	rows[i] += run->count;
	return true;
}

static bool check_file(const char *path, const struct save *save, const struct ckpt_manifest *manifest, uint32_t file)
{
	struct star_error err = { 0 };
	struct ckpt_reader *reader = ckpt_reader_create(path, manifest, &manifest->files[file], &err);
	uint32_t rows[OBJECTS] = { 0 }, bytes;
	const uint8_t *payload;
	bool good = true;
	int rc = 1;

	if (!reader)
		return unit_fail(__FILE__, __LINE__, "%s", err.text);
	while (good && (rc = ckpt_reader_next(reader, &payload, &bytes, &err)) > 0) {
		struct checkpoint_run run;
		const void *records;
		uint32_t at = 0;

		while (good && (rc = ckpt_run_next(payload, bytes, &at, manifest, &run, &records, &err)) > 0)
			good = check_run(save, file, &run, records, rows);
		good = good && rc == 0;
	}
	ckpt_reader_destroy(reader);
	if (rc < 0)
		return unit_fail(__FILE__, __LINE__, "%s", err.text);
	for (uint32_t i = 0; i < OBJECTS && good; i++)
		good = CHECK_UINT(rows[i], save->rows);
	return good;
}

bool check_saved(const char *path, const struct save *save)
{
	struct ckpt_manifest manifest;
	struct star_error err = { 0 };
	bool good = true;

	if (ckpt_manifest_read(path, &manifest, &err) < 0)
		return unit_fail(__FILE__, __LINE__, "%s", err.text);
	good = CHECK_UINT(manifest.id, save->id) && CHECK_UINT(manifest.parent, save->parent) &&
	       CHECK_UINT(manifest.step, UINT64_MAX - save->id) && CHECK_UINT(manifest.files_count, save->files) &&
	       CHECK_UINT(manifest.objects_count, OBJECTS) &&
	       CHECK_UINT(manifest.time_ms, 1700000000000 + save->id % 1000) && CHECK_UINT(manifest.partitions, 1024);
	for (uint32_t i = 0; i < OBJECTS && good; i++)
		good = CHECK_UINT(manifest.objects[i].id, sample_objects()[i].id) &&
		       CHECK_INT(wire_object_spec_same(&manifest.objects[i], &sample_objects()[i], NULL), 0);
	for (uint32_t i = 0; i < save->files && good; i++)
		good = check_file(path, save, &manifest, i);
	ckpt_manifest_free(&manifest);
	return good;
}

uint8_t *read_file(const char *path, size_t *bytes)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data;
	long size;

	if (!file || fseek(file, 0, SEEK_END) < 0 || (size = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) < 0) {
		perror(path);
		abort();
	}
	data = malloc((size_t)size + 1);
	*bytes = fread(data, 1, (size_t)size, file);
	fclose(file);
	return data;
}

void write_file(const char *path, const void *data, size_t bytes)
{
	FILE *file = fopen(path, "wb");

	if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) {
		perror(path);
		abort();
	}
}

void save_all(const char *directory, const char *text)
{
	for (const char *at = text; *at;) {
		struct save save = { .files = 1, .rows = 1, .run_rows = 1 };
		struct star_error err = { 0 };
		char *end;

		save.id = strtoull(at, &end, 10);
		if (*end == '<')
			save.parent = strtoull(end + 1, &end, 10);
		if (!CHECK_INT(save_checkpoint(directory, &save, &err), 0))
			printf("# %s\n", err.text);
		at = *end ? end + 1 : end;
	}
}

const char *list_text(const char *directory, char text[static 512])
{
	struct ckpt_entry *entries;
	uint32_t count;
	size_t used = 0;

	text[0] = 0;
	if (!CHECK_INT(ckpt_list(directory, &entries, &count, NULL), 0))
		return "none";
	for (uint32_t i = 0; i < count; i++)
		used += (size_t)snprintf(text + used, 512 - used, "%s%s%s", i ? " " : "",
					 entries[i].name + strspn(entries[i].name, "0"),
					 entries[i].whole || entries[i].partial ? "" : "!");
	free(entries);
	return text;
}

void destroy_manifest(const char *directory, const char *short_name)
{
	char name[64];

	snprintf(name, sizeof(name), "%08lu%s", strtoul(short_name, NULL, 10), strchr(short_name, '-'));
	unlink(in(in(directory, name).text, CKPT_MANIFEST_NAME).text);
}

void damage_data(const char *directory, const char *short_name)
{
	char name[64];
	struct path path;
	uint8_t *data;
	size_t bytes;

	snprintf(name, sizeof(name), "%08lu%s", strtoul(short_name, NULL, 10), strchr(short_name, '-'));
	path = in(in(directory, name).text, "node0-reactor0.star");
	data = read_file(path.text, &bytes);
	data[CHECKPOINT_ALIGN + 64] ^= 1;
	write_file(path.text, data, bytes);
	free(data);
}

void save_and_spoil(char directory[static DIRECTORY_MAX], const char *saved, const char *damaged, const char *destroyed)
{
	make_memory_directory(directory);
	save_all(directory, saved);
	if (damaged)
		damage_data(directory, damaged);
	if (destroyed)
		destroy_manifest(directory, destroyed);
}
