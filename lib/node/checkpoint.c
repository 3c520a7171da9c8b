/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node's part of a checkpoint: reactors put blocks of rows into rings when their turns have time for it, and one
 * thread writes them to the reactors' files. Checksums and disks are the thread's business: a reactor never waits for
 * either, but at times finds no empty block.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/checkpoint.h"
#include "node/journal.h"
#include "node/lineage.h"
#include "node/snapshot.h"
#include "jsonrpc/member.h"
#include "jsonrpc/thread.h"
#include "store/snapshot.h"

enum { LOOK_US = 200, PATH_BYTES = 4096 };

enum state { IDLE, WRITING, WRITTEN, FAILED };

/* A reactor's file. */
struct part {
	struct node_snapshot snapshot;
	struct ckpt_writer *writer;
	struct ckpt_file file;
	uint64_t step; /* the latest training step in it */
	bool over;
};

struct node_checkpoint {
	struct node *node;
	pthread_mutex_t lock; /* protects the members below, except for parts while the thread runs */
	struct control_checkpoint now;
	enum state state;
	bool give_up, threaded;
	pthread_t thread;
	uint64_t kept; /* the id of the last committed one */
	uint64_t bytes;
	struct star_error err;
	/* why the next one must be a full one; NULL: no reason */
	const char *no_delta;
	struct ckpt_claim claim; /* of the thread that requests new ones; claim_lock protects its directory */
	pthread_mutex_t claim_lock;
	bool saving; /* likewise: one was begun and has not ended */
	struct node_lineage line;
	struct ckpt_dropped dropped; /* used by the executor */
	uint64_t last;		     /* the id of the last one written, and the checksum of its manifest */
	uint32_t last_sum;
	struct part parts[WIRE_REACTORS_MAX];
};

/* ---- what reactors are told ---- */

struct look_message {
	struct reactor_message message;
	bool possible;
};

static void look_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct look_message *m = (struct look_message *)message;

	m->possible = store_snapshot_delta_possible(shard->store);
}

/* ---- the thread ---- */

static enum state checkpoint_state(struct node_checkpoint *c)
{
	enum state state;

	pthread_mutex_lock(&c->lock);
	state = c->state;
	pthread_mutex_unlock(&c->lock);
	return state;
}

static bool is_given_up(struct node_checkpoint *c)
{
	bool given_up;

	pthread_mutex_lock(&c->lock);
	given_up = c->give_up;
	pthread_mutex_unlock(&c->lock);
	return given_up;
}

static bool goes_on(void *ctx)
{
	return !is_given_up(ctx);
}

/* Writes the blocks that a reactor has ready; returns their number, or a negative errno. */
static int write_ready(struct node_checkpoint *c, unsigned reactor, struct star_error *err)
{
	struct part *part = &c->parts[reactor];
	struct service_block *block;
	int written = 0;

	while (!part->over && (block = node_snapshot_take(&part->snapshot))) {
		if (block->payload_bytes && ckpt_writer_block(part->writer, block->memory, block->payload_bytes,
							      block->rows, block->deleted, err) < 0)
			return err->code;
		pthread_mutex_lock(&c->lock);
		c->bytes += block->payload_bytes;
		pthread_mutex_unlock(&c->lock);
		part->over = block->last;
		part->step = block->step;
		written++;
		if (!part->over && node_snapshot_give(&c->node->shards[reactor], block, goes_on, c, err) < 0)
			return err->code;
	}
	return written;
}

/* The reactor has abandoned the snapshot. */
static int snapshot_lost(const struct service_snapshot *snapshot, unsigned reactor, struct star_error *err)
{
	const int status = service_snapshot_status(snapshot);

	return star_error_set(err, status,
			      status == -EAGAIN	  ? "reactor %u no longer has the list of changed rows"
			      : status == -ESTALE ? "reactor %u has dropped a table meanwhile"
			      : status == -ETIME  ? "requests to reactor %u waited too long for it (checkpoint.wait_s)"
						  : "reactor %u had no memory for a row's copy (checkpoint.copies_mib)",
			      reactor);
}

static int write_all(struct node_checkpoint *c, struct star_error *err)
{
	const unsigned parts = c->node->shards_count;
	unsigned over = 0;

	while (over < parts) {
		int written = 0;

		if (is_given_up(c))
			return star_error_set(err, -ECANCELED, "it was given up");
		over = 0;
		for (unsigned i = 0; i < parts; i++) {
			const int n = write_ready(c, i, err);

			if (n < 0)
				return n;
			written += n;
			over += c->parts[i].over;
			if (service_snapshot_status(&c->parts[i].snapshot.snapshot) < 0)
				return snapshot_lost(&c->parts[i].snapshot.snapshot, i, err);
		}
		if (!written && over < parts)
			usleep(LOOK_US);
	}
	for (unsigned i = 0; i < parts; i++)
		if (ckpt_writer_finish(c->parts[i].writer, &c->parts[i].file, err) < 0)
			return err->code;
	return 0;
}

static int open_files(struct node_checkpoint *c, struct star_error *err)
{
	const struct config *config = c->node->config;
	char path[PATH_BYTES], name[32];

	if (snprintf(path, sizeof(path), "%s/%s", config->checkpoint_directory, c->now.name) >= (int)sizeof(path))
		return star_error_set(err, -ENAMETOOLONG, "the path of the checkpoint is too long");
	for (unsigned i = 0; i < c->node->shards_count; i++) {
		const struct ckpt_writer_options options = {
			.header = { .id = c->now.id,
				    .parent = c->now.parent,
				    .task = config->task_index,
				    .reactor = i,
				    .partitions = config->partitions },
			.limit_mib_s = config->checkpoint_rate_mib_s / c->node->shards_count +
				       (config->checkpoint_rate_mib_s != 0),
		};

		snprintf(name, sizeof(name), "node%u-reactor%u.star", config->task_index, i);
		c->parts[i].over = false;
		c->parts[i].writer = ckpt_writer_create(path, name, &options, err);
		if (!c->parts[i].writer)
			return err->code;
	}
	return 0;
}

static void end_snapshots(struct node_checkpoint *c, bool kept)
{
	for (unsigned i = 0; i < c->node->shards_count; i++)
		node_snapshot_end(&c->node->shards[i], &c->parts[i].snapshot, kept);
}

static int begin_snapshots(struct node_checkpoint *c, struct star_error *err)
{
	const enum store_snapshot_kind kind = c->now.parent ? STORE_SNAPSHOT_DELTA : STORE_SNAPSHOT_FULL;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < c->node->shards_count; i++)
		rc = node_snapshot_begin(&c->node->shards[i], &c->parts[i].snapshot, kind, c->now.id, err);
	return rc;
}

static uint32_t part_sum(const struct node_checkpoint *c)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < c->node->shards_count; i++)
		sum += c->parts[i].file.checksum;
	return sum;
}

static void *write_checkpoint(void *arg)
{
	struct node_checkpoint *c = arg;
	struct star_error err = { 0 };
	int rc = open_files(c, &err);
	/* A life that begins meanwhile has no instant of this checkpoint, and continues a later one. */
	const bool instants = node_journal_gets_instants(c->node);

	if (rc == 0)
		rc = begin_snapshots(c, &err);
	if (rc == 0)
		rc = write_all(c, &err);
	/* A checkpoint is committed only if each task's journal continues it. */
	if (rc == 0 && instants)
		rc = node_journal_settle(c->node, c->now.id, part_sum(c), goes_on, c, &err);
	if (rc < 0)
		end_snapshots(c, false);
	for (unsigned i = 0; i < c->node->shards_count; i++) {
		ckpt_writer_destroy(c->parts[i].writer);
		c->parts[i].writer = NULL;
	}
	pthread_mutex_lock(&c->lock);
	c->state = rc < 0 ? FAILED : WRITTEN;
	c->err = err;
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* Ends the thread, if there is one; what it has written is invalid unless kept. */
static void finish_checkpoint(struct node_checkpoint *c, bool kept)
{
	bool written;

	pthread_mutex_lock(&c->lock);
	c->give_up = true;
	pthread_mutex_unlock(&c->lock);
	if (c->threaded)
		pthread_join(c->thread, NULL);
	c->threaded = false;
	written = checkpoint_state(c) == WRITTEN;
	if (written)
		end_snapshots(c, kept);
	pthread_mutex_lock(&c->lock);
	c->state = IDLE;
	c->kept = written && kept ? c->now.id : 0;
	pthread_mutex_unlock(&c->lock);
}

/* Zeroed and resident memory: a reactor must not wait for page faults. */
static void *map(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	/* Marks are accessed in any order, beside rows in huge pages. */
	madvise(memory, bytes, MADV_HUGEPAGE);
	madvise(memory, bytes, MADV_DONTDUMP); /* core dumps must not contain rows */
	if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0)
		return memory;
	munmap(memory, bytes);
	return NULL;
}

static size_t copies_bytes(const struct config *config)
{
	return (size_t)(config->checkpoint_copies_mib + config->checkpoint_log_mib) << 20;
}

int node_shard_add_snapshots(struct shard *shard, struct star_error *err)
{
	const struct config *config = shard->node->config;
	const size_t arena_bytes = shard->node->arena_bytes;

	shard->marks = map(store_snapshot_memory(arena_bytes));
	shard->copies = map(copies_bytes(config));
	if (!shard->marks || !shard->copies)
		return star_error_set(err, -ENOMEM, "no memory for checkpoints (checkpoint.copies_mib, log_mib)");
	return store_snapshot_init(shard->store,
				   &(struct store_snapshot_options){ .marks = shard->marks,
								     .copies = shard->copies,
								     .copies_bytes = copies_bytes(config),
								     .log_bytes = (size_t)config->checkpoint_log_mib
										  << 20 },
				   err);
}

void node_shard_remove_snapshots(struct shard *shard)
{
	if (shard->marks)
		munmap(shard->marks, store_snapshot_memory(shard->node->arena_bytes));
	if (shard->copies)
		munmap(shard->copies, copies_bytes(shard->node->config));
}

/* ---- what the control plane calls ---- */

struct node_checkpoint *node_checkpoint_create(struct node *node, struct star_error *err)
{
	struct node_checkpoint *c = calloc(1, sizeof(*c));
	int rc = c ? 0 : star_error_set(err, -ENOMEM, "out of memory");

	if (rc < 0)
		return NULL;
	c->node = node;
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->claim_lock, NULL);
	node_lineage_init(&c->line, node->config);
	ckpt_claim_init(&c->claim, node->config->checkpoint_directory);
	/* For a pair, the node that serves has it. */
	if (node->config->task_index == 0 && !node->config->standby_peer[0])
		node_checkpoint_own(c);
	for (unsigned i = 0; rc == 0 && i < node->shards_count; i++)
		rc = node_snapshot_make(&c->parts[i].snapshot, "ckpt", i, err);
	if (rc == 0)
		return c;
	node_checkpoint_destroy(c);
	return NULL;
}

void node_checkpoint_destroy(struct node_checkpoint *c)
{
	if (!c)
		return;
	if (checkpoint_state(c) != IDLE)
		finish_checkpoint(c, false);
	for (unsigned i = 0; i < c->node->shards_count; i++)
		node_snapshot_free(&c->parts[i].snapshot);
	pthread_mutex_destroy(&c->lock);
	pthread_mutex_destroy(&c->claim_lock);
	ckpt_claim_fini(&c->claim);
	node_lineage_fini(&c->line);
	free(c);
}

void node_checkpoint_begins(struct node_checkpoint *c, uint64_t id, uint64_t lineage,
			    const struct ckpt_manifest *manifest)
{
	if (!c)
		return;
	node_lineage_begin(&c->line, id, lineage, manifest);
}

void node_checkpoint_follows(struct node_checkpoint *c, const struct control_lineage *lineage)
{
	node_lineage_follow(&c->line, lineage->began, lineage->id, lineage->newest);
}

struct control_lineage node_checkpoint_lineage(const struct node_checkpoint *c)
{
	return (struct control_lineage){ c->line.id, c->line.began, node_lineage_newest(&c->line) };
}

uint64_t node_checkpoint_began(const struct node_checkpoint *c)
{
	return c->line.began;
}

void node_checkpoint_goes_with(struct node_checkpoint *c, uint64_t lineage)
{
	c->line.id = lineage;
}

uint64_t node_checkpoint_own_lineage(const struct node_checkpoint *c)
{
	return c->line.id;
}

struct ckpt_dropped *node_checkpoint_dropped(struct node_checkpoint *c)
{
	return &c->dropped;
}

uint32_t node_checkpoint_own_sum(const struct node_checkpoint *c)
{
	return c->line.began_sum;
}

uint32_t node_checkpoint_own_part(const struct node_checkpoint *c)
{
	return c->line.began_part;
}

static int claim_folder(struct node_checkpoint *c, bool saving, struct star_error *err)
{
	int rc;

	pthread_mutex_lock(&c->claim_lock);
	rc = ckpt_claim_take(&c->claim, c->node->config->checkpoint_directory, err);
	c->saving |= rc == 0 && saving;
	pthread_mutex_unlock(&c->claim_lock);
	return rc;
}

int node_checkpoint_claim(struct node_checkpoint *c, struct star_error *err)
{
	return claim_folder(c, false, err);
}

void node_checkpoint_leave(struct node_checkpoint *c)
{
	/* The holder of the lock may be waiting for a disk. */
	if (!c || pthread_mutex_trylock(&c->claim_lock) != 0)
		return;
	if (!c->saving)
		ckpt_claim_leave(&c->claim);
	pthread_mutex_unlock(&c->claim_lock);
}

/* Ends a checkpoint, committed or not. */
static void end_save(struct node_checkpoint *c)
{
	ckpt_claim_written(&c->claim);
	pthread_mutex_lock(&c->claim_lock);
	c->saving = false;
	pthread_mutex_unlock(&c->claim_lock);
}

/* Claims the directory at the start, so that nobody imports into it. Otherwise a save finds out who owns it: by then it
 * may be free. */
void node_checkpoint_own(struct node_checkpoint *c)
{
	if (!c || node_checkpoint_claim(c, NULL) < 0)
		return;
	ckpt_dropped_clean(c->node->config->checkpoint_directory);
	node_lineage_use(&c->line);
	node_lineage_look(&c->line);
}

int node_checkpoint_next(struct node_checkpoint *c, bool partial, uint64_t *id, struct star_error *err)
{
	return node_lineage_next(&c->line, partial, id, err);
}

/* Whether the checkpoint with that id in the directory is the one that this node wrote last. */
static bool is_last(const struct node_checkpoint *c, uint64_t parent)
{
	return parent && parent == c->last;
}

int node_checkpoint_new(void *ctx, struct control_checkpoint *checkpoint, struct star_error *err)
{
	const struct node *node = ctx;
	const char *directory = node->config->checkpoint_directory, *name;
	struct node_checkpoint *c = node->checkpoint;
	struct ckpt_entry entry = { .parent = checkpoint->parent,
				    .lineage = c->line.id,
				    .partitions = node->config->partitions,
				    .parent_sum = c->last_sum,
				    .parent_named = is_last(c, checkpoint->parent) };
	char path[PATH_BYTES];
	int rc = claim_folder(c, true, err);

	if (rc == 0)
		rc = ckpt_claim_write(&c->claim, directory, CKPT_WAIT_US, err);
	if (rc == 0)
		rc = ckpt_chain_check(directory, &entry, node->config->chain_max, err);
	if (rc == 0)
		rc = node_lineage_give(&c->line, &checkpoint->id, err);
	if (rc == 0)
		rc = ckpt_begin(directory, checkpoint->id, checkpoint->parent, path, err);
	if (rc < 0) {
		end_save(c);
		return rc;
	}
	name = strrchr(path, '/') + 1;
	if (strlen(name) >= sizeof(checkpoint->name))
		return star_error_set(err, -ENAMETOOLONG, "the name %s is too long", name);
	strcpy(checkpoint->name, name);
	return 0;
}

void node_checkpoint_no_delta(struct node_checkpoint *c, const char *why)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->no_delta = why;
	pthread_mutex_unlock(&c->lock);
}

static int delta_possible(struct node_checkpoint *c, uint64_t parent, struct star_error *err)
{
	const char *why = c->no_delta ? c->no_delta
			  : c->node->config->checkpoint_log_mib
				  ? "more rows have changed than it has a list for (checkpoint.log_mib)"
				  : "it has no list of what changes (checkpoint.log_mib is 0)";

	if (c->kept != parent)
		return star_error_set(err, -EAGAIN, "it has not written its part of checkpoint %" PRIu64, parent);
	for (unsigned i = 0; i < c->node->shards_count; i++) {
		struct look_message m = { .message.run = look_on_reactor };
		const int rc = node_ask_copy(&c->node->shards[i], &m.message, sizeof(m), err);

		if (rc < 0)
			return rc;
		if (!m.possible)
			return star_error_set(err, -EAGAIN, "reactor %u: %s", i, why);
	}
	return 0;
}

/* The last checkpoint was not committed, so the node goes on. */
static void open_again(struct node *node)
{
	struct star_error err = { 0 };

	if (node_open(node, &err) < 0)
		log_error("the node serves no requests: %s; restart it", err.text);
}

int node_checkpoint_begin(void *ctx, const struct control_checkpoint *checkpoint, struct star_error *err)
{
	struct node *node = ctx;
	struct node_checkpoint *c = node->checkpoint;
	int rc;

	if (checkpoint_state(c) != IDLE)
		finish_checkpoint(c, false);
	rc = checkpoint->parent ? delta_possible(c, checkpoint->parent, err) : 0;
	if (rc == 0)
		rc = checkpoint->last ? node_close(node, err) : node_open(node, err);
	if (rc < 0) {
		open_again(node);
		return rc;
	}
	pthread_mutex_lock(&c->lock);
	c->now = *checkpoint;
	c->state = WRITING;
	c->no_delta = NULL;
	c->give_up = false;
	c->bytes = 0;
	c->err = (struct star_error){ 0 };
	pthread_mutex_unlock(&c->lock);
	rc = jsonrpc_thread_start(&c->thread, "ckpt-write", write_checkpoint, c, err);
	c->threaded = rc == 0;
	if (rc < 0) {
		c->state = IDLE;
		open_again(node);
	}
	return rc;
}

static json_t *files_json(const struct node_checkpoint *c)
{
	json_t *files = json_array();

	for (unsigned i = 0; i < c->node->shards_count; i++) {
		const struct ckpt_file *f = &c->parts[i].file;

		json_array_append_new(files, json_pack("{s:s, s:i, s:i, s:I, s:I, s:I, s:I, s:o}", "name", f->name,
						       "task", (int)f->task, "reactor", (int)f->reactor, "bytes",
						       (json_int_t)f->bytes, "rows", (json_int_t)f->rows, "deleted",
						       (json_int_t)f->deleted, "checksum", (json_int_t)f->checksum,
						       "step", jsonrpc_member_from_u64(c->parts[i].step)));
	}
	return files;
}

json_t *node_checkpoint_state(void *ctx)
{
	static const char *const names[] = {
		[IDLE] = "idle", [WRITING] = "writing", [WRITTEN] = "written", [FAILED] = "failed"
	};
	const struct node *node = ctx;
	struct node_checkpoint *c = node->checkpoint;
	const bool restored = __atomic_load_n(&node->restored, __ATOMIC_ACQUIRE);
	struct store_snapshot_progress sum = { 0 };
	json_t *json;

	for (unsigned i = 0; i < node->shards_count; i++) {
		const struct store_snapshot_progress p = store_snapshot_progress(node->shards[i].store);

		sum.rows += p.rows;
		sum.left += p.left;
		sum.copied += p.copied;
		sum.put_off += p.put_off;
	}
	pthread_mutex_lock(&c->lock);
	json = json_pack("{s:I, s:b, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:I}", "id", (json_int_t)c->now.id, "loading",
			 !restored, "restored", restored ? (json_int_t)node->restored_rows : 0, "restored_from",
			 restored ? (json_int_t)node->restored_from : 0, "state", names[c->state], "rows",
			 (json_int_t)sum.rows, "left", (json_int_t)sum.left, "bytes", (json_int_t)c->bytes, "copied",
			 (json_int_t)sum.copied, "waited", (json_int_t)sum.put_off);
	if (c->state == WRITTEN)
		json_object_set_new(json, "files", files_json(c));
	if (c->state == FAILED)
		json_object_update_new(json, json_pack("{s:s, s:i}", "error", c->err.text, "errno", -c->err.code));
	pthread_mutex_unlock(&c->lock);
	return json;
}

void node_checkpoint_end(void *ctx, uint64_t id, bool kept, uint32_t sum)
{
	struct node *node = ctx;
	struct node_checkpoint *c = node->checkpoint;

	if (checkpoint_state(c) != IDLE && c->now.id == id) {
		finish_checkpoint(c, kept);
		/* PS task 0 has known it since the manifest was written. */
		if (kept && node->config->task_index)
			node_journal_counts(node, id, sum);
	}
	if (!kept)
		open_again(node);
}

int node_checkpoint_commit(void *ctx, struct control_checkpoint *checkpoint, uint32_t cluster_reactors,
			   const struct object_spec *const *specs, uint32_t count, const json_t *files,
			   const json_t *queues, struct star_error *err)
{
	const struct node *node = ctx;
	const struct config *config = node->config;
	struct node_checkpoint *c = node->checkpoint;
	char path[PATH_BYTES];
	struct ckpt_manifest m = { .id = checkpoint->id,
				   .parent = checkpoint->parent,
				   .time_ms = clock_date_us() / 1000,
				   .partitions = config->partitions,
				   .tasks = config->ps_count,
				   .reactors = cluster_reactors,
				   .lineage = c->line.id,
				   .parent_sum = c->last_sum,
				   .parent_named = is_last(c, checkpoint->parent) };
	int rc = node_checkpoint_read_files(files, &m, err);

	m.objects = calloc(count + 1, sizeof(*m.objects));
	if (rc == 0 && !m.objects)
		rc = star_error_set(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; rc == 0 && i < count; i++)
		m.objects[m.objects_count++] = *specs[i];
	if (rc == 0 && json_array_size(queues) > 0) {
		m.queues = json_dumps(queues, JSON_COMPACT);
		rc = m.queues ? 0 : star_error_set(err, -ENOMEM, "no memory for the work queues");
	}
	if (snprintf(path, sizeof(path), "%s/%s", config->checkpoint_directory, checkpoint->name) >= (int)sizeof(path))
		rc = star_error_set(err, -ENAMETOOLONG, "the path of the checkpoint is too long");
	if (rc == 0)
		rc = ckpt_commit(path, &m, err);
	ckpt_manifest_free(&m);
	end_save(c);
	if (rc == 0) {
		node_lineage_count(&c->line, checkpoint->id, checkpoint->parent == 0);
		c->last = m.id;
		c->last_sum = m.sum;
		checkpoint->sum = m.sum;
		node_journal_counts(ctx, m.id, m.sum);
	}
	if (rc == 0 && !checkpoint->parent) {
		const struct ckpt_pruning pruning = { .keep = RTE_MAX(checkpoint->keep, config->checkpoint_keep),
						      .lineage = &m.lineage,
						      .began = c->line.began,
						      .since = c->line.since,
						      .wait_us = CKPT_WAIT_US };
		struct star_error why = { 0 };

		if (ckpt_prune(config->checkpoint_directory, &pruning, &why) < 0)
			log_warn("older checkpoints were not removed: %s", why.text);
	}
	return rc;
}

void node_checkpoint_abandon(void *ctx, const struct control_checkpoint *checkpoint)
{
	const struct node *node = ctx;
	char path[PATH_BYTES];

	if (checkpoint->name[0] && snprintf(path, sizeof(path), "%s/%s", node->config->checkpoint_directory,
					    checkpoint->name) < (int)sizeof(path))
		ckpt_abandon(path);
	end_save(node->checkpoint);
}
