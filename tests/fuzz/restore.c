/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nodes that begin with a checkpoint that somebody made: every checksum is right, the contents are an input's. The
 * input draws tables of every shape (types, optimizers, slots, filters, eviction, variables), a chain of a full
 * checkpoint and deltas, how many reactors wrote it, and how many load it; records of the right sizes or not.
 * lib/node/restore.c loads it into real services and stores, over reactors that run their messages late.
 *
 * What is accepted must be whole: no table that evicts has more rows than its share, and what is restored can be saved
 * and restored again and is the same then. A store that was restored goes on: rows are made, evicted, deleted.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "node/checkpoint.h"
#include "node/journal.h"
#include "base/log.h"
#include "base/prng.h"
#include "ckpt/internal.h"
#include "ckpt/row.h"
#include "service/internal.h"
#include "store/table.h"
#include "tests/fuzz/fuzz.h"

enum {
	OBJECTS_MAX = 4,
	SHARDS_MAX = 3,
	CHAIN_MAX = 3,
	PARTITIONS = 16,
	ARENA = 2 << 20,
	KEYS_MAX = 512,
	SLICE_ROWS = 64,
	LOG_BYTES = 64 << 10,
};

/* What a shard is made of, beside the node's part. */
struct half {
	void *arena, *marks, *copies;
	struct reactor_message *late; /* posted, and not run yet */
};

static char directory[64];
static struct half halves[2 * SHARDS_MAX];
static struct node node, again;
static struct config config;
static struct object_spec specs[OBJECTS_MAX];
static uint32_t specs_count;
static uint64_t keys[KEYS_MAX];
static unsigned keys_count, turns_left;
static uint8_t *block;

/* ---- what stands in for the rest of a node ---- */

static struct half *half_of(const struct reactor *reactor)
{
	return &halves[(uintptr_t)reactor - 1];
}

static struct shard *shard_of(const struct reactor *reactor)
{
	const uintptr_t at = (uintptr_t)reactor - 1;

	return at < SHARDS_MAX ? &node.shards[at] : &again.shards[at - SHARDS_MAX];
}

static void run_late(struct reactor *reactor)
{
	struct reactor_message *message = half_of(reactor)->late;

	half_of(reactor)->late = NULL;
	if (!message)
		return;
	message->run(shard_of(reactor), message);
	message->done = 1;
}

int reactor_post(struct reactor *reactor, struct reactor_message *message)
{
	run_late(reactor);
	half_of(reactor)->late = message;
	return 0;
}

int reactor_wait(const struct reactor_message *message, uint64_t timeout_us)
{
	for (uintptr_t i = 1; i <= 2 * SHARDS_MAX && !message->done; i++)
		if (halves[i - 1].late == message)
			run_late((struct reactor *)i);
	FUZZ_CHECK(message->done, "waits for what was never posted");
	return 0;
}

int node_ask_copy(struct shard *shard, struct reactor_message *message, size_t bytes, struct star_error *err)
{
	struct reactor_message *copy = malloc(bytes);

	memcpy(copy, message, bytes);
	run_late(shard->reactor);
	copy->run(shard, copy);
	memcpy(message, copy, bytes);
	free(copy);
	return 0;
}

bool node_told_to_stop(const struct node *told)
{
	return turns_left && --turns_left == 0;
}

struct touch_ahead *node_touch_begin(struct node *touched, uint64_t bytes, uint64_t rows)
{
	return NULL;
}

void node_touch_end(struct touch_ahead *ahead)
{
}

void node_checkpoint_begins(struct node_checkpoint *checkpoint, uint64_t id, uint64_t lineage,
			    const struct ckpt_manifest *manifest)
{
}

/* The node has no journal. (journal.c has some.) */
int node_journal_read(struct node *node, struct star_error *err)
{
	return 0;
}

uint64_t node_journal_at_latest(const struct node *node, uint64_t id)
{
	FUZZ_CHECK(false, "there is no journal to ask");
	return id;
}

int node_journal_choose(struct node *node, uint64_t id, bool asked_for, struct object_spec **specs, uint32_t *count,
			struct star_error *err)
{
	FUZZ_CHECK(false, "there is no journal to choose from");
	return 0;
}

int node_checkpoint_next(struct node_checkpoint *checkpoint, bool partial, uint64_t *id, struct star_error *err)
{
	struct ckpt_next next = { 0 };
	const int rc = ckpt_next_id(directory, partial, &next, err);

	(void)checkpoint;
	*id = next.id;
	return rc;
}

/* ---- tables ---- */

static const char *const option_sets[] = {
	"",
	"versions=1",
	"stochastic=1",
	"master=1",
	"master=1, stochastic=1, versions=1",
	"steps_to_live=5",
	"full=evict_lru, rows_max=5",
	"full=evict_lfu, rows_max=20",
	"full=evict_lru",
	"rows_max=4",
	"filter=counter, filter_frequency=3",
	"filter=bloom, filter_frequency=3, filter_keys=2000",
	"filter=bloom, filter_frequency=300, filter_keys=100, full=evict_lfu, rows_max=3, steps_to_live=9, versions=1",
	"filter=counter, filter_frequency=2, steps_to_live=2, l2_threshold=0.5, full=evict_lru, rows_max=7",
	"filter=bloom, filter_frequency=70000, filter_keys=50",
	"whole=1",
};

/* 4096 elements of float64 with three slots are the longest rows there are. */
static const uint32_t dims[] = { 1, 2, 3, 7, 16, 60, 1000, WIRE_DIM_MAX };

static void draw_object(struct input *in)
{
	const uint8_t shape = take8(in), how = take8(in), options = take8(in);
	struct object_spec spec = { .id = specs_count + 1u + (how >> 6 & 1),
				    .kind = how & 0x80 ? OBJECT_VARIABLE : OBJECT_TABLE,
				    .dtype = (uint8_t)(1 + (shape >> 3) % 9) };
	struct star_error err = { 0 };

	if (specs_count && spec.id <= specs[specs_count - 1].id)
		spec.id = specs[specs_count - 1].id + 1;
	snprintf(spec.name, sizeof(spec.name), "t%u", spec.id);
	if (spec.kind == OBJECT_VARIABLE) {
		spec.ndim = 2;
		spec.shape[0] = 1 + shape % 64;
		spec.shape[1] = dims[shape % 8];
	} else {
		spec.dim = dims[shape % 8];
	}
	wire_object_spec_defaults(&spec, 1 + how % 16);
	if (wire_object_spec_options(&spec, option_sets[options % 16], &err) < 0 ||
	    wire_object_spec_check(&spec, &err) < 0)
		return; /* a combination that there is not */
	specs[specs_count++] = spec;
}

static void make_shard(struct node *of, unsigned index, unsigned place, double share)
{
	struct shard *shard = &of->shards[index];
	struct half *half = &halves[place];
	struct star_error err = { 0 };

	shard->node = of;
	shard->index = index;
	shard->reactor = (struct reactor *)(uintptr_t)(place + 1);
	shard->arena = half->arena;
	shard->store = store_create(half->arena, ARENA, &err);
	FUZZ_CHECK(shard->store, "no store: %s", err.text);
	memset(half->marks, 0, store_snapshot_memory(ARENA));
	FUZZ_CHECK(store_snapshot_init(shard->store,
				       &(struct store_snapshot_options){ .marks = half->marks,
									 .copies = half->copies,
									 .copies_bytes =
										 STORE_SNAPSHOT_COPIES_MIN + LOG_BYTES,
									 .log_bytes = LOG_BYTES },
				       &err) == 0,
		   "no snapshots: %s", err.text);
	memset(shard->service, 0, sizeof(*shard->service));
	shard->service->options =
		(struct service_options){ .partitions = PARTITIONS, .store = shard->store, .share = share };
}

static bool make_node(struct node *of, unsigned first_place, unsigned shards, unsigned reactors)
{
	struct star_error err = { 0 };
	bool made = true;

	memset(of->specs, 0, sizeof(of->specs));
	of->config = &config;
	of->shards_count = shards;
	for (unsigned s = 0; s < shards; s++) {
		make_shard(of, s, first_place + s, 1.0 / reactors);
		for (uint32_t i = 0; i < specs_count; i++)
			made &= service_install(of->shards[s].service, &specs[i], &err) == 0;
	}
	for (uint32_t i = 0; i < specs_count; i++)
		of->specs[specs[i].id] = &specs[i];
	return made;
}

static void free_node(struct node *of)
{
	for (unsigned s = 0; s < of->shards_count; s++)
		store_destroy(of->shards[s].store);
	of->shards_count = 0;
}

/* ---- a checkpoint ---- */

static uint64_t draw_key(struct input *in)
{
	const uint8_t how = take8(in);
	const uint64_t key = how < 0x80	  ? how
			     : how < 0xf0 ? how * UINT64_C(0x9e3779b97f4a7c15)
					  : UINT64_MAX - (how & 15);

	if (keys_count < KEYS_MAX)
		keys[keys_count++] = key;
	return key;
}

/* A record as it should be, of any values; or not. */
static void draw_record(struct input *in, const struct object_spec *spec, unsigned kind, uint8_t *record,
			uint32_t bytes)
{
	const uint8_t how = take8(in);
	struct ckpt_row_shape shape;
	struct prng prng;
	uint64_t key = draw_key(in);

	prng_seed(&prng, how);
	for (uint32_t i = 0; i + 8 <= bytes; i += 8) {
		const uint64_t word = how & 1 ? prng_next(&prng) : 0;

		memcpy(record + i, &word, sizeof(word));
	}
	if (spec->kind == OBJECT_VARIABLE && how & 2)
		key %= wire_object_blocks(spec);
	if (kind == CHECKPOINT_BLOOM) {
		key %= how & 0x40 ? UINT64_MAX : wire_checkpoint_bloom_blocks(spec) + 1;
		memset(record + sizeof(key), how & 1 ? 1 : 0, CHECKPOINT_BLOOM_BYTES);
		record[8 + how % CHECKPOINT_BLOOM_BYTES] = take8(in);
	}
	if (kind == CHECKPOINT_ROWS && ckpt_row_shape(spec, &shape) == 0 && shape.bytes == bytes && how < 0xe0) {
		memset(record + shape.end, 0, bytes - shape.end);
		if (shape.version)
			record[shape.version] |= 1;
		if (shape.used)
			record[shape.used + 3] &= 0x7f;
		if (shape.used && how & 4)
			memset(record + shape.used, 0, sizeof(uint32_t));
	}
	if (kind == CHECKPOINT_TABLE && how < 0xe0) {
		memset(record + 28, 0, 4);
		record[27] &= 0x7f;
		return;
	}
	if (kind == CHECKPOINT_COUNTS && how < 0xe0)
		record[8] |= 1;
	memcpy(record, &key, sizeof(key));
	if (how >= 0xf0)
		record[take16(in) % bytes] ^= take8(in);
}

static uint32_t record_bytes(const struct object_spec *spec, unsigned kind)
{
	switch (kind) {
	case CHECKPOINT_ROWS:
		return ckpt_row_bytes(spec);
	case CHECKPOINT_DELETED:
		return sizeof(uint64_t);
	case CHECKPOINT_COUNTS:
		return sizeof(struct checkpoint_count);
	case CHECKPOINT_TABLE:
		return sizeof(struct checkpoint_table);
	default:
		return sizeof(struct checkpoint_bloom);
	}
}

/* Appends a run to the payload; how many bytes. */
static uint32_t draw_run(struct input *in, uint8_t *to, uint32_t room, uint64_t *rows, uint64_t *deleted)
{
	const uint8_t which = take8(in), many = take8(in), wrong = take8(in);
	const struct object_spec *spec = &specs[which % specs_count];
	struct checkpoint_run run = { .object = spec->id,
				      .kind = (uint16_t)(which & 0x80 ? CHECKPOINT_ROWS : 1 + (which >> 4 & 7) % 5) };
	uint32_t bytes;

	if (room < 64)
		return 0;
	run.row_bytes = record_bytes(spec, run.kind);
	run.count = run.kind == CHECKPOINT_TABLE ? 1 : 1 + many % 40;
	while (run.count > 1 && (uint64_t)run.count * run.row_bytes > room - 64)
		run.count--;
	if ((uint64_t)run.count * run.row_bytes > room - 64)
		return 0;
	for (uint32_t i = 0; i < run.count; i++)
		draw_record(in, spec, run.kind, to + sizeof(run) + (size_t)i * run.row_bytes, run.row_bytes);
	*rows += run.kind == CHECKPOINT_ROWS ? run.count : 0;
	*deleted += run.kind == CHECKPOINT_DELETED ? run.count : 0;
	bytes = (uint32_t)sizeof(run) + run.count * run.row_bytes;
	if (wrong >= 0xf0)
		((uint8_t *)&run)[take8(in) % sizeof(run)] ^= take8(in);
	memcpy(to, &run, sizeof(run));
	return bytes;
}

static void draw_file(struct input *in, const char *path, const struct ckpt_manifest *m, struct ckpt_file *file)
{
	const struct ckpt_writer_options options = {
		.header = { .id = m->id, .parent = m->parent, .partitions = PARTITIONS, .reactor = file->reactor },
		.buffered = true
	};
	const unsigned blocks = take8(in) % 4, reactor = file->reactor;
	struct star_error err = { 0 };
	struct ckpt_writer *writer;
	char name[32];

	snprintf(name, sizeof(name), "r%u.star", reactor);
	writer = ckpt_writer_create(path, name, &options, &err);
	FUZZ_CHECK(writer, "%s", err.text);
	for (unsigned b = 0; b < blocks; b++) {
		uint8_t *payload = block + sizeof(struct checkpoint_block);
		uint64_t rows = 0, deleted = 0;
		uint32_t used = 0;

		for (unsigned runs = 1 + take8(in) % 4; runs; runs--)
			used += draw_run(in, payload + used, CHECKPOINT_PAYLOAD_MAX - used, &rows, &deleted);
		if (used)
			FUZZ_CHECK(ckpt_writer_block(writer, block, used, rows, deleted, &err) == 0, "%s", err.text);
	}
	FUZZ_CHECK(ckpt_writer_finish(writer, file, &err) == 0, "%s", err.text);
	file->deleted = m->parent ? file->deleted : 0;
	ckpt_writer_destroy(writer);
}

static void write_manifest(const char *path, const struct ckpt_manifest *m)
{
	struct star_error err = { 0 };
	char name[128];
	size_t bytes;
	char *text = ckpt_manifest_text(m, &bytes, &err);
	int fd;

	FUZZ_CHECK(text, "%s", err.text);
	snprintf(name, sizeof(name), "%s/%s", path, CKPT_MANIFEST_NAME);
	fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	FUZZ_CHECK(fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes, "cannot write %s", name);
	close(fd);
	free(text);
}

static void draw_checkpoint(struct input *in, uint64_t id, unsigned reactors)
{
	struct ckpt_file files[SHARDS_MAX] = { 0 };
	struct ckpt_manifest m = { .id = id,
				   .parent = id - 1,
				   .partitions = PARTITIONS,
				   .tasks = 1,
				   .reactors = reactors,
				   .objects_count = specs_count,
				   .objects = specs,
				   .files_count = reactors,
				   .files = files };
	char path[CKPT_PATH_MAX], name[CHECKPOINT_ID_MAX];

	ckpt_name(name, id, id > 1, "");
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	FUZZ_CHECK(mkdir(path, 0700) == 0, "cannot make %s", path);
	for (unsigned i = 0; i < reactors; i++) {
		files[i].reactor = i;
		draw_file(in, path, &m, &files[i]);
	}
	write_manifest(path, &m);
}

static void clear_all(void)
{
	const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (uint64_t id = 1; id <= CHAIN_MAX; id++) {
		char name[CHECKPOINT_ID_MAX];

		ckpt_name(name, id, id > 1, "");
		FUZZ_CHECK(fd >= 0 && ckpt_remove_folder(fd, name) == 0, "cannot clear %s", name);
	}
	close(fd);
}

/* ---- what was restored ---- */

/* A store's rows as a full snapshot has them, into another's; false: there was no room. */
static bool copy_shard(const struct shard *from, const struct shard *to)
{
	static uint64_t out[STORE_SNAPSHOT_SLICE_MIN / 8];
	bool over = false, room = true;

	while (!store_snapshot_ready(from->store))
		;
	FUZZ_CHECK(store_snapshot_begin(from->store, STORE_SNAPSHOT_FULL), "no snapshot is possible");
	while (!over) {
		const size_t bytes = store_snapshot_slice(from->store, out, sizeof(out), SLICE_ROWS, &over);

		for (size_t at = 0; at < bytes && room;) {
			const struct checkpoint_run *run = (const void *)((uint8_t *)out + at);
			struct star_error err = { 0 };
			const int rc = service_load(to->service, run, run + 1, run->count, &err);

			FUZZ_CHECK(rc == 0 || rc == -ENOSPC, "what was saved is refused: %s", err.text);
			room = rc == 0;
			at += sizeof(*run) + ((size_t)run->count * run->row_bytes + 7) / 8 * 8;
		}
	}
	store_snapshot_end(from->store, true);
	return room;
}

static void compare_tables(struct store_table *a, struct store_table *b)
{
	const struct object_spec *spec = store_table_spec(a);
	const size_t bytes = dtype_row_bytes(spec->dtype, spec->dim);

	FUZZ_CHECK(store_table_stats(a)->rows == store_table_stats(b)->rows,
		   "%" PRIu64 " rows, saved and restored %" PRIu64, store_table_stats(a)->rows,
		   store_table_stats(b)->rows);
	for (unsigned i = 0; i < keys_count; i++) {
		store_row one, other;

		store_find(a, &keys[i], 1, STORE_LOOK, 0, &one);
		store_find(b, &keys[i], 1, STORE_LOOK, 0, &other);
		FUZZ_CHECK((one < STORE_UNADMITTED) == (other < STORE_UNADMITTED),
			   "key %" PRIu64 " has a row in one only", keys[i]);
		if (one < STORE_UNADMITTED)
			FUZZ_CHECK(memcmp(store_values(a, one, spec->dtype), store_values(b, other, spec->dtype),
					  bytes) == 0 &&
					   store_version(a, one) == store_version(b, other),
				   "key %" PRIu64 " has other values", keys[i]);
	}
}

/* It goes on: new rows, which may cost others, look-ups, deletes. */
static void use_table(struct store_table *t)
{
	const struct object_spec *spec = store_table_spec(t);
	uint64_t more[STORE_BATCH];
	store_row rows[STORE_BATCH];

	for (unsigned i = 0; i < STORE_BATCH; i++)
		more[i] = spec->kind == OBJECT_VARIABLE ? i % wire_object_blocks(spec) : i * 3;
	store_find(t, more, spec->dim > 100 ? 4 : STORE_BATCH, STORE_PULL, 7, rows);
	for (unsigned i = 0; i < 4; i++)
		store_read(t, rows[i], more[i], spec->dtype, t->store->scratch[2]);
	if (spec->kind == OBJECT_TABLE)
		for (unsigned at = 0; at < keys_count; at += STORE_BATCH / 2)
			store_delete(t, keys + at, RTE_MIN(keys_count - at, (unsigned)STORE_BATCH / 2));
}

static void check_restored(void)
{
	for (unsigned s = 0; s < node.shards_count; s++) {
		struct service *service = node.shards[s].service;
		bool room;

		for (uint32_t i = 0; i < specs_count; i++) {
			const struct store_table *t = service->tables[specs[i].id];

			FUZZ_CHECK(!t->evicts || t->stats.rows <= t->rows_max, "%" PRIu64 " rows of %" PRIu64,
				   t->stats.rows, t->rows_max);
		}
		room = copy_shard(&node.shards[s], &again.shards[s]);
		for (uint32_t i = 0; i < specs_count; i++) {
			if (room)
				compare_tables(service->tables[specs[i].id],
					       again.shards[s].service->tables[specs[i].id]);
			use_table(service->tables[specs[i].id]);
		}
		for (unsigned i = 0; i < 50; i++)
			store_sweep(node.shards[s].store, 64);
	}
}

static void remove_directory(void)
{
	clear_all();
	rmdir(directory);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	log_set_level(LOG_ERROR);
	for (unsigned i = 0; i < 2 * SHARDS_MAX; i++) {
		halves[i].arena = aligned_alloc(4096, ARENA);
		halves[i].marks = aligned_alloc(64, store_snapshot_memory(ARENA));
		halves[i].copies = aligned_alloc(64, STORE_SNAPSHOT_COPIES_MIN + LOG_BYTES);
	}
	for (unsigned i = 0; i < SHARDS_MAX; i++) {
		node.shards[i].service = aligned_alloc(64, RTE_ALIGN_CEIL(sizeof(struct service), 64));
		again.shards[i].service = aligned_alloc(64, RTE_ALIGN_CEIL(sizeof(struct service), 64));
	}
	block = aligned_alloc(CHECKPOINT_ALIGN, CHECKPOINT_BLOCK_MAX);
	strcpy(directory, access("/dev/shm", W_OK) == 0 ? "/dev/shm/fuzz-restore-XXXXXX" : "/tmp/fuzz-restore-XXXXXX");
	FUZZ_CHECK(mkdtemp(directory), "no directory %s", directory);
	atexit(remove_directory);
	config.partitions = PARTITIONS;
	config.checkpoint_restore = CONFIG_RESTORE_GOOD;
	strcpy(config.checkpoint_directory, directory);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, data + bytes };
	const uint8_t counts = take8(&in), chain = take8(&in);
	const unsigned writers = 1 + counts % SHARDS_MAX, shards = 1 + counts / 4 % SHARDS_MAX;
	const struct control_layout layout = { .first_reactor = counts >> 6 & 1,
					       .cluster_reactors = shards + (counts >> 6 & 3),
					       .checkpoint = 1 + chain % CHAIN_MAX };
	struct star_error err = { 0 };

	specs_count = keys_count = 0;
	turns_left = chain >= 0xf8 ? 1 + take8(&in) : 0;
	for (unsigned i = 0; i < OBJECTS_MAX && (i == 0 || chain >> 4 & 3 & i); i++)
		draw_object(&in);
	if (!specs_count)
		return 0;
	clear_all();
	for (uint64_t id = 1; id <= layout.checkpoint; id++)
		draw_checkpoint(&in, id, writers);
	if (make_node(&node, 0, shards, layout.cluster_reactors) &&
	    make_node(&again, SHARDS_MAX, shards, layout.cluster_reactors)) {
		if (node_restore(&node, &layout, &err) == 0)
			check_restored();
		else
			FUZZ_CHECK(err.code < 0 && err.text[0], "refused with %d, \"%s\"", err.code, err.text);
		for (unsigned i = 0; i < 2 * SHARDS_MAX; i++)
			FUZZ_CHECK(!halves[i].late, "a message was left to a reactor");
	}
	free_node(&node);
	free_node(&again);
	return 0;
}
