/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads a node's share of a checkpoint into its reactors, before the first layout is served, so that nobody requests
 * rows meanwhile. One thread reads all files, because another number of nodes or reactors may have written them, and
 * sorts this node's rows by reactor. Each reactor loads some batches while the next ones are filled.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/apply.h"
#include "node/checkpoint.h"
#include "node/journal.h"
#include "wire/owner.h"

/* Enough batches that neither the thread nor a reactor has to wait at every pause of the other. */
enum { BATCH_BYTES = 128 * 1024, BATCHES = 8, TELL_US = 5000000, LOAD_WAIT_US = 60000000, TRIM_ROWS = 1024 };

/* Records of one run on their way to a reactor. */
struct batch {
	struct reactor_message message;
	struct checkpoint_run run;
	struct star_error err;
	int status;
	bool posted;
	uint8_t *records;
};

struct restore {
	struct node *node;
	uint32_t first_reactor, cluster_reactors;
	const struct ckpt_manifest *manifest;
	uint32_t dropped[WIRE_OBJECTS_MAX + 1]; /* generations, as in ckpt_dropped_read */
	uint32_t writer;			/* of the file: its number among the reactors that wrote */
	struct batch *batches;			/* BATCHES per reactor */
	size_t batch_bytes;			/* of each; has room for the longest record */
	unsigned filling[WIRE_REACTORS_MAX];
	uint64_t rows, bytes, total, told_us;
};

static void load_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct batch *b = (struct batch *)message;

	b->status = service_load(shard->service, &b->run, b->records, b->run.count, &b->err);
}

static struct batch *batch_of(const struct restore *r, unsigned shard)
{
	return &r->batches[shard * BATCHES + r->filling[shard]];
}

/* Waits until the reactor has loaded it. */
static int wait_loaded(const struct restore *r, unsigned shard, struct batch *b, struct star_error *err)
{
	if (!b->posted)
		return 0;
	if (reactor_wait(&b->message, LOAD_WAIT_US) < 0)
		return star_error_set(err, -ETIMEDOUT, "reactor %u did not load the rows that it was sent", shard);
	b->posted = false;
	b->run.count = 0;
	if (b->status < 0)
		return star_error_set(err, b->status, "object \"%s\": %s",
				      r->node->specs[b->run.object] ? r->node->specs[b->run.object]->name : "?",
				      b->err.text);
	return 0;
}

/* Passes the batch to the reactor, and makes the oldest one free. */
static int flush_batch(struct restore *r, unsigned shard, struct star_error *err)
{
	struct batch *b = batch_of(r, shard);
	int rc;

	if (!b->run.count)
		return 0;
	b->message = (struct reactor_message){ .run = load_on_reactor };
	rc = reactor_post(r->node->shards[shard].reactor, &b->message);
	if (rc < 0)
		return star_error_set(err, rc, "reactor %u accepts no messages: it is overloaded or stopping", shard);
	b->posted = true;
	r->filling[shard] = (r->filling[shard] + 1) % BATCHES;
	return wait_loaded(r, shard, batch_of(r, shard), err);
}

static int add_record(struct restore *r, unsigned shard, const struct checkpoint_run *run, const void *record,
		      struct star_error *err)
{
	struct batch *b = batch_of(r, shard);
	int rc;

	if (b->run.count && (b->run.object != run->object || b->run.kind != run->kind ||
			     (b->run.count + 1) * (size_t)run->row_bytes > r->batch_bytes)) {
		rc = flush_batch(r, shard, err);
		if (rc < 0)
			return rc;
		b = batch_of(r, shard);
	}
	if (!b->run.count) {
		b->run = *run;
		b->run.count = 0;
	}
	if (run->row_bytes > r->batch_bytes || run->row_bytes != b->run.row_bytes)
		return star_error_set(err, -EBADMSG, "object %u has no records of %u bytes", run->object,
				      run->row_bytes);
	memcpy(b->records + (size_t)b->run.count * run->row_bytes, record, run->row_bytes);
	b->run.count++;
	return 0;
}

/* What a shard knows of a table goes to the same shard if the layout is the same, else to all: the largest values
 * count. */
static int add_table(struct restore *r, const struct checkpoint_run *run, const void *table, struct star_error *err)
{
	const bool same = r->manifest->reactors == r->cluster_reactors;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < r->node->shards_count; i++)
		if (!same || r->first_reactor + i == r->writer)
			rc = add_record(r, i, run, table, err);
	return rc;
}

/* A block of a Bloom filter goes to all shards that may be asked for keys which it counts: at most two, except for
 * filters with few blocks. */
static int add_bloom(struct restore *r, const struct object_spec *spec, const struct checkpoint_run *run,
		     const void *record, struct star_error *err)
{
	uint32_t first, end;
	int rc = 0;

	if (!node_bloom_shards(r->node, r->first_reactor, r->cluster_reactors, spec, record, &first, &end))
		return star_error_set(err, -EBADMSG, "\"%s\": the filter has no such block", spec->name);
	for (; rc == 0 && first < end; first++)
		rc = add_record(r, first, run, record, err);
	return rc;
}

/* Objects that were dropped since the checkpoint was written stay dropped; their ids may belong to other objects by
 * now. */
static bool was_dropped(const struct restore *r, const struct object_spec *spec)
{
	return spec->generation < r->dropped[spec->id];
}

static bool run_was_dropped(const struct restore *r, const struct checkpoint_run *run)
{
	for (uint32_t i = 0; i < r->manifest->objects_count; i++)
		if (r->manifest->objects[i].id == run->object)
			return was_dropped(r, &r->manifest->objects[i]);
	return false;
}

static int add_run(struct restore *r, const struct checkpoint_run *run, const uint8_t *records, struct star_error *err)
{
	const uint32_t partitions = r->node->config->partitions;
	const struct object_spec *spec = run->object <= WIRE_OBJECTS_MAX ? r->node->specs[run->object] : NULL;
	uint64_t name_hash;
	int rc = 0;

	if (run_was_dropped(r, run))
		return 0;
	if (!spec)
		return star_error_set(err, -ENOENT, "object %u of the checkpoint is not in this cluster's catalogue",
				      run->object);
	if (run->kind == CHECKPOINT_TABLE)
		return add_table(r, run, records, err);
	name_hash = hash_name(spec->name);
	for (uint32_t i = 0; rc == 0 && i < run->count; i++) {
		const uint8_t *record = records + (size_t)i * run->row_bytes;
		uint64_t key;
		uint32_t owner;

		if (run->kind == CHECKPOINT_BLOOM) {
			rc = add_bloom(r, spec, run, record, err);
			continue;
		}
		memcpy(&key, record, sizeof(key));
		owner = wire_key_owner(partitions, r->cluster_reactors, spec, name_hash, key);
		if (owner < r->first_reactor || owner >= r->first_reactor + r->node->shards_count)
			continue;
		rc = add_record(r, owner - r->first_reactor, run, record, err);
		r->rows += run->kind == CHECKPOINT_ROWS;
	}
	return rc;
}

/* Called between blocks: whether to go on. */
static int report_restore(struct restore *r, struct star_error *err)
{
	const uint64_t now_us = clock_us();

	if (node_told_to_stop(r->node))
		return star_error_set(err, -ECANCELED, "told to stop while a checkpoint was loaded");
	if (now_us - r->told_us < TELL_US)
		return 0;
	r->told_us = now_us;
	log_info("restoring: %" PRIu64 " of %" PRIu64 " MiB read, %" PRIu64 " rows", r->bytes >> 20, r->total >> 20,
		 r->rows);
	return 0;
}

static int restore_file(struct restore *r, const char *path, const struct ckpt_file *file, struct star_error *err)
{
	struct ckpt_reader *reader = ckpt_reader_create(path, r->manifest, file, err);
	const uint8_t *payload;
	uint32_t bytes;
	int rc = reader ? 1 : err->code;

	while (rc > 0 && (rc = ckpt_reader_next(reader, &payload, &bytes, err)) > 0) {
		struct checkpoint_run run;
		const void *records;
		uint32_t at = 0;

		while (rc > 0 && (rc = ckpt_run_next(payload, bytes, &at, r->manifest, &run, &records, err)) > 0)
			if (add_run(r, &run, records, err) < 0)
				rc = err->code;
		r->bytes += bytes;
		if (rc == 0)
			rc = report_restore(r, err) < 0 ? -ECANCELED : 1;
	}
	ckpt_reader_destroy(reader);
	/* Before the next file, because what that says about a key must be applied after this one. */
	for (unsigned i = 0; rc == 0 && i < r->node->shards_count; i++)
		rc = flush_batch(r, i, err);
	return rc;
}

/* Checks that the checkpoint's objects are those of the catalogue. */
static int check_objects(const struct restore *r, struct star_error *err)
{
	const struct ckpt_manifest *m = r->manifest;
	struct star_error why = { 0 };

	if (m->partitions != r->node->config->partitions)
		return star_error_set(err, -EINVAL, "it was written with %u partitions; this cluster has %u",
				      m->partitions, r->node->config->partitions);
	for (uint32_t i = 0; i < m->objects_count; i++) {
		const struct object_spec *has = r->node->specs[m->objects[i].id];

		if (was_dropped(r, &m->objects[i]))
			continue;
		if (!has)
			return star_error_set(err, -ENOENT, "\"%s\" is not in this cluster's catalogue",
					      m->objects[i].name);
		if (strcmp(has->name, m->objects[i].name) != 0 || wire_object_spec_same(has, &m->objects[i], &why) < 0)
			return star_error_set(err, -EEXIST, "\"%s\" is another object in this cluster: %s",
					      m->objects[i].name, why.text);
	}
	return 0;
}

static int restore_one(struct restore *r, const char *path, struct star_error *err)
{
	struct ckpt_manifest manifest;
	int rc = ckpt_manifest_read(path, &manifest, err);

	if (rc < 0)
		return rc;
	r->manifest = &manifest;
	rc = check_objects(r, err);
	for (uint32_t i = 0; i < manifest.files_count; i++)
		r->total += manifest.files[i].bytes;
	for (r->writer = 0; rc == 0 && r->writer < manifest.files_count; r->writer++)
		rc = restore_file(r, path, &manifest.files[r->writer], err);
	ckpt_manifest_free(&manifest);
	return rc;
}

/* ---- rows that a table has beyond a shard's share ---- */

struct trim_message {
	struct reactor_message message;
	uint32_t object;
	unsigned evicted;
};

static void trim_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct trim_message *m = (struct trim_message *)message;

	m->evicted = service_trim(shard->service, m->object, TRIM_ROWS);
}

static int trim_object(struct node *node, uint32_t object, struct star_error *err)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < node->shards_count; i++) {
		struct trim_message m = { .message.run = trim_on_reactor, .object = object, .evicted = TRIM_ROWS };

		while (rc == 0 && m.evicted == TRIM_ROWS)
			rc = node_told_to_stop(node)
				     ? star_error_set(err, -ECANCELED, "told to stop while rows were evicted")
				     : node_ask_copy(&node->shards[i], &m.message, sizeof(m), err);
	}
	return rc;
}

/* Loading may exceed shares, because these are divided differently than when the rows were written: now each table's
 * policy decides which rows are evicted. */
int node_trim_tables(struct node *node, struct star_error *err)
{
	int rc = 0;

	for (uint32_t id = 1; rc == 0 && id <= WIRE_OBJECTS_MAX; id++) {
		const struct object_spec *spec = node->specs[id];
		struct store_stats sum = { 0 };

		if (!spec || spec->kind != OBJECT_TABLE)
			continue;
		for (unsigned i = 0; i < node->shards_count; i++)
			service_table_stats(node->shards[i].service, id, &sum);
		if (sum.rows == 0) /* with thousands of tables: without a request to each reactor */
			continue;
		rc = trim_object(node, id, err);
		sum = (struct store_stats){ 0 };
		for (unsigned i = 0; i < node->shards_count; i++)
			service_table_stats(node->shards[i].service, id, &sum);
		if (sum.evicted)
			log_warn("\"%s\": %" PRIu64
				 " rows of the checkpoint were evicted: this node's share of rows_max, or "
				 "its parameter memory, holds no more, or their steps to live have passed",
				 spec->name, sum.evicted);
	}
	return rc;
}

/* Advice if it is not a damaged checkpoint. */
static const char *hint(const struct node *node, int rc)
{
	return rc == -EBADMSG && node->config->checkpoint_restore == CONFIG_RESTORE_LATEST
		       ? "; checkpoint.restore = \"good\" starts from the newest intact one"
		       : "";
}

/* Touches as many bytes and rows as the full checkpoint brings to each shard. NULL: it could not, and loading goes on
 * without it. */
static struct touch_ahead *touch_for(const struct restore *r, const char *full)
{
	struct ckpt_manifest manifest;
	uint64_t bytes = 0, rows = 0;

	if (ckpt_manifest_read(full, &manifest, NULL) < 0)
		return NULL;
	for (uint32_t i = 0; i < manifest.files_count; i++) {
		bytes += manifest.files[i].bytes;
		rows += manifest.files[i].rows;
	}
	ckpt_manifest_free(&manifest);
	rows = rows < bytes / sizeof(uint64_t) ? rows : bytes / sizeof(uint64_t); /* each row has a key */
	return node_touch_begin(r->node, bytes / r->cluster_reactors, rows / r->cluster_reactors);
}

/* Only existing objects matter: those of the checkpoint must be the same. */
static size_t longest_record(const struct node *node)
{
	size_t longest = sizeof(struct checkpoint_bloom);

	for (uint32_t id = 1; id <= WIRE_OBJECTS_MAX; id++) {
		const size_t bytes = node->specs[id] ? ckpt_row_bytes(node->specs[id]) : 0;

		longest = bytes > longest ? bytes : longest;
	}
	return longest;
}

static int restore_chain(struct restore *r, char **chain, uint32_t count, struct star_error *err)
{
	const size_t longest = longest_record(r->node);
	const unsigned batches = r->node->shards_count * BATCHES;
	struct star_error why = { 0 };
	bool stays = false;
	uint32_t at = 0;
	int rc = 0;

	r->batches = calloc(batches, sizeof(*r->batches));
	r->batch_bytes = longest > BATCH_BYTES ? (longest + 63) / 64 * 64 : BATCH_BYTES;
	for (unsigned i = 0; r->batches && i < batches; i++) {
		r->batches[i].records = aligned_alloc(64, r->batch_bytes);
		if (!r->batches[i].records)
			rc = -ENOMEM;
	}
	if (!r->batches || rc < 0)
		rc = star_error_set(&why, -ENOMEM, "out of memory");
	for (; rc == 0 && at < count; at++)
		rc = restore_one(r, chain[at], &why);
	for (unsigned i = 0; r->batches && i < batches; i++) {
		const int settled =
			wait_loaded(r, i / BATCHES, &r->batches[i], rc < 0 ? &(struct star_error){ 0 } : &why);

		rc = rc < 0 ? rc : settled;
		/* A batch that a reactor may still process must not be freed, and so none is. */
		stays |= r->batches[i].posted;
		if (!r->batches[i].posted)
			free(r->batches[i].records);
	}
	if (!stays)
		free(r->batches);
	return rc < 0 ? star_error_set(err, rc, "the checkpoint %.120s cannot be restored: %.250s%s",
				       chain[at ? at - 1 : 0], why.text, hint(r->node, rc))
		      : 0;
}

static int read_dropped(struct restore *r, const char *last, struct star_error *err)
{
	struct ckpt_manifest manifest;
	uint64_t lineage;
	int rc = ckpt_manifest_read(last, &manifest, err);

	if (rc < 0)
		return rc;
	lineage = manifest.lineage;
	ckpt_manifest_free(&manifest);
	return ckpt_dropped_read(r->node->config->checkpoint_directory, lineage, r->dropped, err);
}

int node_restore(struct node *node, const struct control_layout *layout, struct star_error *err)
{
	const uint64_t begun_us = clock_us();
	struct restore r = { .node = node,
			     .first_reactor = layout->first_reactor,
			     .cluster_reactors = layout->cluster_reactors,
			     .told_us = begun_us };
	uint32_t count = 0;
	char **chain = NULL;
	int rc;

	rc = ckpt_chain(node->config->checkpoint_directory, layout->checkpoint, &chain, &count, err);
	if (rc == 0)
		rc = read_dropped(&r, chain[count - 1], err);
	if (rc == 0) {
		struct touch_ahead *ahead = touch_for(&r, chain[0]);

		rc = restore_chain(&r, chain, count, err);
		node_touch_end(ahead);
	}
	node->restored_rows = r.rows;
	node->restored_from = rc == 0 ? layout->checkpoint : 0;
	if (rc == 0)
		rc = node_trim_tables(node, err);
	if (rc == 0)
		log_info("restored %s%s: %" PRIu64 " rows, %" PRIu64 " MiB, in %.3f s", chain[count - 1],
			 count > 1 ? " and those that it builds on" : "", r.rows, r.bytes >> 20,
			 (double)(clock_us() - begun_us) / 1e6);
	ckpt_chain_free(chain, count);
	return rc;
}

/* ---- which one ---- */

struct search {
	const struct node *node;
	uint64_t told_us;
};

static void tell_refused(void *ctx, const char *name, const char *why)
{
	(void)ctx;
	log_warn("checkpoint %s is passed over: %s", name, why);
}

static bool tell_read(void *ctx, uint64_t done, uint64_t total)
{
	struct search *s = ctx;
	const uint64_t now_us = clock_us();

	if (now_us - s->told_us >= TELL_US) {
		s->told_us = now_us;
		log_info("looking for a good checkpoint: %" PRIu64 " of %" PRIu64 " MiB of one read", done >> 20,
			 total >> 20);
	}
	return !node_told_to_stop(s->node);
}

/* Finds the chain that the configuration asks for, none newer than `newest` if that is not 0. -ENOENT and *any false:
 * there is none at all. */
static int find_chain(const struct node *node, uint64_t newest, char ***chain, uint32_t *length, bool *any,
		      struct star_error *err)
{
	const struct config *config = node->config;
	struct search ctx = { .node = node, .told_us = clock_us() };
	const struct ckpt_search search = { .newest = newest,
					    .partitions = config->partitions,
					    .progress = tell_read,
					    .refused = tell_refused,
					    .ctx = &ctx };
	uint64_t next;
	int rc = node_checkpoint_next(node->checkpoint, false, &next, err);

	*any = rc < 0 || next > 1;
	if (!*any)
		return star_error_set(err, -ENOENT, "there is no checkpoint in %.300s", config->checkpoint_directory);
	if (rc == 0 && config->checkpoint_restore == CONFIG_RESTORE_GOOD)
		rc = ckpt_chain_good(config->checkpoint_directory, &search, chain, length, err);
	else if (rc == 0)
		rc = ckpt_chain(config->checkpoint_directory, newest ? newest : next - 1, chain, length, err);
	return rc;
}

int node_checkpoint_check(void *ctx, uint64_t *id, struct star_error *err)
{
	const struct node *node = ctx;
	const struct config *config = node->config;
	struct search search = { .node = node, .told_us = clock_us() };
	struct ckpt_manifest manifest;
	uint32_t length = 0;
	char **chain = NULL;
	uint64_t next = 1;
	int rc = *id ? 0 : node_checkpoint_next(node->checkpoint, false, &next, err);

	if (rc == 0 && !*id && next == 1)
		rc = star_error_set(err, -ENOENT, "there is no checkpoint in %.300s", config->checkpoint_directory);
	if (rc == 0)
		rc = ckpt_chain(config->checkpoint_directory, *id ? *id : next - 1, &chain, &length, err);
	for (uint32_t i = 0; rc == 0 && i < length; i++)
		rc = ckpt_verify(chain[i], tell_read, &search, err);
	if (rc == 0)
		rc = ckpt_manifest_read(chain[length - 1], &manifest, err);
	ckpt_chain_free(chain, length);
	if (rc < 0)
		return rc;
	*id = manifest.id;
	if (manifest.id > INT32_MAX)
		rc = star_error_set(err, -ERANGE, "its id is too large for checkpoint.restore_id");
	else if (manifest.partitions != config->partitions)
		rc = star_error_set(err, -EINVAL, "it was written with %u partitions; this cluster has %u",
				    manifest.partitions, config->partitions);
	ckpt_manifest_free(&manifest);
	return rc;
}

/* None newer than `newest`, if that is not 0. */
static int choose_restore(const struct node *node, uint64_t newest, uint64_t *id, struct object_spec **specs,
			  uint32_t *count, struct star_error *err)
{
	struct ckpt_manifest manifest;
	uint32_t length = 0;
	char **chain = NULL;
	bool any;
	int rc = find_chain(node, newest, &chain, &length, &any, err);

	*id = 0;
	if (!any && !newest) {
		log_info("%s yet: the node starts empty", err->text);
		*count = 0;
		return 0;
	}
	if (rc == 0)
		rc = ckpt_manifest_read(chain[length - 1], &manifest, err);
	ckpt_chain_free(chain, length);
	if (rc < 0) {
		const struct star_error why = *err;

		return star_error_set(err, rc, "%.400s%s", why.text, hint(node, rc));
	}
	*id = manifest.id;
	node_checkpoint_begins(node->checkpoint, manifest.id, manifest.lineage, &manifest);
	if (specs) {
		*specs = manifest.objects;
		*count = manifest.objects_count;
		manifest.objects = NULL;
	}
	ckpt_manifest_free(&manifest);
	return 0;
}

int node_checkpoint_look(struct node *node, uint64_t id, uint64_t lineage, struct star_error *err)
{
	struct ckpt_manifest manifest;
	uint32_t length = 0;
	char **chain = NULL;
	int rc = id ? ckpt_chain(node->config->checkpoint_directory, id, &chain, &length, err) : 0;

	if (rc == 0 && id)
		rc = ckpt_manifest_read(chain[length - 1], &manifest, err);
	ckpt_chain_free(chain, length);
	if (rc < 0)
		return rc;
	node_checkpoint_begins(node->checkpoint, id, lineage, id ? &manifest : NULL);
	if (id)
		ckpt_manifest_free(&manifest);
	return 0;
}

int node_checkpoint_newest(void *ctx, uint64_t lineage, uint64_t *id, struct star_error *err)
{
	const struct node *node = ctx;
	struct ckpt_manifest manifest;
	uint32_t length = 0;
	char **chain = NULL;
	uint64_t next;
	int rc = node->checkpoint ? node_checkpoint_next(node->checkpoint, false, &next, err) : 0;

	if (rc < 0 || !node->checkpoint || next - 1 <= *id)
		return rc;
	rc = ckpt_chain(node->config->checkpoint_directory, next - 1, &chain, &length, err);
	if (rc == 0)
		rc = ckpt_manifest_read(chain[length - 1], &manifest, err);
	ckpt_chain_free(chain, length);
	if (rc < 0)
		return rc;
	if (manifest.lineage == lineage)
		*id = manifest.id;
	ckpt_manifest_free(&manifest);
	return 0;
}

int node_restored_queues(void *ctx, uint64_t id, json_t **queues, struct star_error *err)
{
	struct node *node = ctx;
	struct ckpt_manifest manifest = { .id = 0 };
	uint32_t length;
	char **chain;
	/* It was verified when it was chosen. */
	int rc = ckpt_chain(node->config->checkpoint_directory, id, &chain, &length, err);

	*queues = NULL;
	if (rc < 0)
		return rc;
	rc = ckpt_manifest_read(chain[length - 1], &manifest, err);
	ckpt_chain_free(chain, length);
	if (rc == 0 && manifest.queues) {
		*queues = json_loads(manifest.queues, JSON_REJECT_DUPLICATES, NULL);
		rc = *queues ? 0 : star_error_set(err, -ENOMEM, "no memory for them");
	}
	ckpt_manifest_free(&manifest);
	return rc;
}

int node_restored(void *ctx, uint64_t *id, struct object_spec **specs, uint32_t *count, struct star_error *err)
{
	struct node *node = ctx;
	const uint64_t asked_for = *id ? *id : node->config->checkpoint_id;
	uint64_t latest;
	int rc = specs ? node_journal_read(node, err) : 0;

	if (rc == 0)
		rc = choose_restore(node, asked_for, id, specs, count, err);
	if (rc < 0 || !specs || !node->journal)
		return rc;
	latest = asked_for ? *id : node_journal_at_latest(node, *id);
	if (latest != *id) {
		free(*specs);
		*specs = NULL;
		*count = 0;
		*id = 0;
		rc = latest ? choose_restore(node, latest, id, specs, count, err) : 0;
	}
	return rc < 0 ? rc : node_journal_choose(node, *id, asked_for != 0, specs, count, err);
}
