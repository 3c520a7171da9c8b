/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "jsonrpc/member.h"
#include "jsonrpc/object_json.h"
#include "node/checkpoint.h"
#include "node/gate.h"
#include "node/pair.h"

enum { SESSIONS_PER_TURN = 32, SEGMENT_MIN = 2 << 20, SETTLE_US = 500 };

/* ---- begin and end ---- */

int node_journal_open(struct node *node, struct star_error *err)
{
	const struct config *config = node->config;
	struct node_journal *j;

	if (!config->journal_directory[0])
		return 0;
	j = calloc(1, sizeof(*j));
	if (!j)
		return star_error_set(err, -ENOMEM, "out of memory");
	node->journal = j;
	j->node = node;
	pthread_mutex_init(&j->lock, NULL);
	j->folder = base_lock_folder(config->journal_directory);
	if (j->folder == -EBUSY)
		return star_error_set(
			err, -EBUSY,
			"journal.directory: another node keeps its journal in %.300s: give each node its own directory",
			config->journal_directory);
	if (j->folder < 0)
		return star_error_set(err, j->folder, "journal.directory: %.300s cannot be opened: %s",
				      config->journal_directory, strerror(-j->folder));
	for (unsigned i = 0; i < node->shards_count; i++) {
		j->rings[i] = journal_ring_create((uint64_t)config->journal_ring_mib << 20,
						  config->journal_wait_s * UINT64_C(1000000000), err);
		if (!j->rings[i])
			return err->code;
		if (config->journal_durability != CONFIG_DURABILITY_ASYNC && !config->standby_peer[0])
			node_gate_watch(&node->shards[i], j->rings[i], NULL);
	}
	return 0;
}

void node_journal_close(struct node *node)
{
	struct node_journal *j = node->journal;

	if (!j)
		return;
	node_journal_take_end(j);
	for (unsigned i = 0; i < node->shards_count; i++) {
		journal_writer_destroy(j->writers[i]);
		journal_ring_destroy(j->rings[i]);
	}
	journal_contents_free(j->contents);
	free(j->past.specs);
	if (j->folder >= 0)
		close(j->folder);
	pthread_mutex_destroy(&j->lock);
	free(j);
	node->journal = NULL;
}

/* Workers may go on as if nothing had happened, if nothing has: every change that was acknowledged is there, except for
 * the last moments', and so is how requests ended. */
static bool may_inherit(const struct node_journal *j, const struct control_layout *layout)
{
	const struct journal_past_life *last = node_journal_last_life(j);

	return j->usable && node_pair_inherits(j->node) && !last->sums && last->whole &&
	       last->reactors == j->node->shards_count && last->partitions == j->node->config->partitions &&
	       last->cluster_reactors == layout->cluster_reactors && last->first_reactor == layout->first_reactor;
}

struct begin_message {
	struct reactor_message message;
	struct journal_ring *ring;
	bool later;
};

static void write_outcome(void *ctx, const struct rpc_outcome *outcome)
{
	const struct shard *shard = ctx;

	service_journal_outcome(shard->service, outcome);
}

/* If a node has served under another name, no journal has what it knows of its sessions. */
static void begin_on_reactor(void *ctx, struct reactor_message *message)
{
	struct begin_message *m = (struct begin_message *)message;
	struct shard *shard = ctx;
	uint32_t at = 0;

	shard->journal = m->ring;
	service_journal_begin(shard->service, shard->journal);
	while (m->later && rpc_outcomes(shard->rpc, &at, SESSIONS_PER_TURN, write_outcome, shard))
		;
	shard->disk_counts = !m->later;
	node_gate_disk(shard);
}

static void count_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;

	shard->disk_counts = true;
	__atomic_store_n(&shard->disk_lacks, node_gate_disk(shard), __ATOMIC_RELEASE);
}

/* How much of the limit earlier lives leave to each reactor. */
static uint64_t room_of(const struct node_journal *j, uint64_t former_bytes)
{
	const uint64_t limit = (uint64_t)j->node->config->journal_limit_mib << 20;

	return (limit > former_bytes ? limit - former_bytes : 0) / j->node->shards_count;
}

static void describe_life(struct node_journal *j, const struct control_layout *layout)
{
	const struct config *config = j->node->config;
	const struct journal_past_life *last = node_journal_last_life(j);
	const uint64_t segment = (uint64_t)config->journal_segment_mib << 20, room = room_of(j, j->former_bytes);

	j->life = (struct journal_life){ .directory = config->journal_directory,
					 .number = j->contents->last + 1,
					 .reactors = j->node->shards_count,
					 .partitions = config->partitions,
					 .cluster_reactors = layout->cluster_reactors,
					 .first_reactor = layout->first_reactor,
					 .incarnation = j->node->incarnation,
					 .segment_bytes = segment,
					 .limit_bytes = room };
	/* At least two files, smaller ones if there is little room. */
	if (room < 2 * segment)
		j->life.segment_bytes = RTE_MAX(room / 2 / JOURNAL_ALIGN * JOURNAL_ALIGN, (uint64_t)SEGMENT_MIN);
	if (j->usable) {
		j->life.flags = JOURNAL_GOES_ON;
		j->life.after = last->number;
		j->life.story = last->story;
		j->life.base = last->base;
		j->life.passed_over = last->passed_over;
	} else {
		j->life.story = j->life.number;
		j->life.base = j->later ? JOURNAL_NO_BASE : j->chosen;
		j->life.passed_over = j->newest;
	}
}

static uint64_t former_of(const struct node_journal *j, unsigned reactor)
{
	const struct journal_past_life *last = node_journal_last_life(j);
	uint64_t sum = 0;

	for (uint32_t r = reactor; j->usable && r < last->reactors; r += j->node->shards_count)
		sum += last->streams[r].end;
	return sum;
}

void node_journal_prepare_life(struct node_journal *j, const struct control_layout *layout)
{
	describe_life(j, layout);
	j->taken_back = layout->taken_back;
	j->epoch = layout->epoch;
	if (!j->usable) {
		j->counted.count = 0;
		j->parts.count = 0;
	}
	/* It may have been committed just before a crash. */
	if (j->chosen && !node_journal_find_checkpoint(&j->counted, j->chosen))
		node_journal_add_checkpoint(&j->counted, j->chosen, node_checkpoint_own_sum(j->node->checkpoint));
}

int node_journal_make_files(struct node_journal *j, struct star_error *err)
{
	char whole[JOURNAL_NAME_MAX];
	int rc;

	journal_whole_name(whole, j->life.number);
	rc = node_journal_replace_file(j, whole, "", 0, err);
	for (unsigned i = 0; rc == 0 && i < j->node->shards_count; i++) {
		j->writers[i] = journal_writer_create(&j->life, i, former_of(j, i), j->rings[i], err);
		rc = j->writers[i] ? 0 : err->code;
	}
	return rc;
}

int node_journal_tell_reactors(struct node_journal *j, struct star_error *err)
{
	struct node *node = j->node;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < node->shards_count; i++) {
		struct begin_message m = { .message.run = begin_on_reactor, .ring = j->rings[i], .later = j->later };

		rc = node_ask_copy(&node->shards[i], &m.message, sizeof(m), err);
	}
	return rc;
}

static int begin_to_write(struct node_journal *j, const struct control_layout *layout, struct star_error *err)
{
	int rc;

	node_journal_prepare_life(j, layout);
	rc = node_journal_write_catalogue(j, err);
	if (rc == 0)
		rc = node_journal_make_files(j, err);
	return rc == 0 ? node_journal_tell_reactors(j, err) : rc;
}

void node_journal_discard_life(struct node_journal *j)
{
	char name[JOURNAL_NAME_MAX];

	for (unsigned i = 0; i < j->node->shards_count; i++) {
		journal_writer_destroy(j->writers[i]);
		j->writers[i] = NULL;
		journal_segment_name(name, j->life.number, i, 1);
		unlinkat(j->folder, name, 0);
	}
	journal_whole_name(name, j->life.number);
	unlinkat(j->folder, name, 0);
}

static bool is_full(int code)
{
	return code == -ENOSPC || code == -EDQUOT;
}

void node_journal_fail(struct node_journal *j, const struct star_error *why)
{
	if (!j->failure_told)
		log_error("%s. The node continues without a journal: if it dies, changes since the last checkpoint are "
			  "lost; restart it when the problem is solved",
			  why->text);
	j->failure_told = true;
}

/* Everything in the journal was applied, and a node without a journal is better than none. Workers must not continue as
 * if it had one; nor must those of the previous life, if the node returns to that. */
void node_journal_serve_without(struct node_journal *j, const struct star_error *why)
{
	char whole[JOURNAL_NAME_MAX];

	j->why = *why;
	j->ended = true;
	if (j->contents && node_journal_last_life(j)) {
		journal_whole_name(whole, node_journal_last_life(j)->number);
		unlinkat(j->folder, whole, 0);
	}
	node_journal_fail(j, why);
}

/* Begins to write, if possible. */
static int begin_life(struct node_journal *j, const struct control_layout *layout, struct star_error *err)
{
	struct node *node = j->node;
	const char *directory = node->config->journal_directory;
	int rc = begin_to_write(j, layout, err);

	if (rc == 0)
		return j->usable ? 0 : journal_remove(directory, j->life.number - 1, err);
	node_journal_discard_life(j);
	if (j->usable && (is_full(rc) || rc == -EROFS || rc == -EIO || rc == -EFBIG)) {
		node_journal_serve_without(j, err);
		return 0;
	}
	/* The old contents are useless, except to tell that later checkpoints were abandoned. */
	if (!is_full(rc) || j->usable || j->newest > j->chosen ||
	    journal_remove(directory, j->life.number - 1, err) < 0)
		return rc;
	rc = begin_to_write(j, layout, err);
	if (rc < 0)
		node_journal_discard_life(j);
	return rc;
}

/* If earlier lives take more than half of the limit, a checkpoint must make them unnecessary soon; if the disk has no
 * room, at once. */
static void look_at_former(struct node_journal *j)
{
	const uint64_t limit = (uint64_t)j->node->config->journal_limit_mib << 20;

	if (!j->ended && j->former_bytes <= limit / 2)
		return;
	j->wants_checkpoint = true;
	if (!j->ended)
		log_warn("earlier lives of the journal take %" PRIu64
			 " MiB, more than half of journal.limit_mib: a checkpoint is started, so that they can be "
			 "removed",
			 j->former_bytes >> 20);
}

/* From now on the directory's contents are this node's as the primary, whatever it was before. */
void node_journal_own_life(struct node_journal *j)
{
	struct star_error err = { 0 };

	if (j->ended || node_pair_owns_journal(j->node, &err) == 0)
		return;
	for (unsigned i = 0; i < j->node->shards_count; i++)
		journal_writer_fail(j->writers[i], &err);
	node_journal_fail(j, &err);
}

void node_journal_forget_past(struct node_journal *j)
{
	journal_contents_free(j->contents);
	j->contents = NULL;
	free(j->past.specs);
	j->past.specs = NULL;
}

int node_journal_begin(struct node *node, const struct control_layout *layout, struct star_error *err)
{
	struct node_journal *j = node->journal;
	const uint32_t own = node->incarnation;
	int rc = node_journal_read(node, err);

	if (rc == 0)
		rc = node->config->task_index ? node_journal_follow(j, layout, err)
					      : node_journal_check(j, layout, err);
	if (rc == 0 && j->usable)
		rc = node_journal_apply(node, layout, err);
	if (rc < 0)
		return rc;
	if (j->usable) {
		journal_contents_cut(j->contents);
		j->former_bytes = j->contents->bytes;
	}
	if (may_inherit(j, layout))
		node->incarnation = node_journal_last_life(j)->incarnation;
	else if (j->usable && node->restored_rows + j->replayed_rows)
		log_info("workers have to open the cluster again: %s",
			 node_journal_last_life(j)->sums
				 ? "sums of gradients were open, which the journal does not have"
			 : !node_journal_last_life(j)->whole ? "the journal had ended before the node did"
			 : !node_pair_inherits(node)
				 ? "nobody knows whether the other node of the pair has served since"
				 : "the node has another number of reactors than before");
	rc = begin_life(j, layout, err);
	if (rc < 0)
		return rc;
	if (j->ended)
		node->incarnation = own;
	else
		log_info("the journal continues in %s, life %u", node->config->journal_directory, j->life.number);
	if (!j->ended)
		journal_writer_watch_former(j->writers[0], j->former_bytes);
	look_at_former(j);
	/* A node without this journal must not begin from a checkpoint that the cluster has abandoned by a rollback, in
	 * this life or before. */
	if (!node->config->task_index && j->newest > j->chosen)
		j->wants_checkpoint = true;
	node_journal_own_life(j);
	node_journal_forget_past(j);
	__atomic_store_n(&j->begun, true, __ATOMIC_RELEASE);
	return 0;
}

/* ---- while it serves ---- */

/* Without its catalogue a journal cannot be read, so it ends if that cannot be written. */
static void update_catalogue(struct node_journal *j)
{
	struct star_error err = { 0 };
	char whole[JOURNAL_NAME_MAX];

	if (j->failure_told || node_journal_write_catalogue(j, &err) == 0)
		return;
	journal_whole_name(whole, j->life.number);
	unlinkat(j->folder, whole, 0);
	for (unsigned i = 0; i < j->node->shards_count; i++)
		journal_writer_fail(j->writers[i], &err);
	node_journal_fail(j, &err);
}

/* Appends one change to the file; if that is not possible, writes the whole file again. */
static void note_change(struct node_journal *j, json_t *change)
{
	struct star_error ignored;

	pthread_mutex_lock(&j->lock);
	if (j->failure_told)
		json_decref(change);
	else if (node_journal_add_to_catalogue(j, change, &ignored) < 0)
		update_catalogue(j);
	pthread_mutex_unlock(&j->lock);
}

/* With this a restart can tell the checkpoint whose instant the journal has from another one with the same id. */
static void note_part(struct node_journal *j, uint64_t id, uint32_t sum)
{
	const struct journal_checkpoint part = { .id = id, .sum = sum };

	pthread_mutex_lock(&j->lock);
	node_journal_add_checkpoint(&j->parts, id, sum);
	pthread_mutex_unlock(&j->lock);
	note_change(j, json_pack("{s:o}", "part", node_journal_checkpoint_json(&part)));
}

static bool has_begun(const struct node_journal *j)
{
	return j && j->begun;
}

void node_journal_installed(struct node *node, const struct object_spec *spec)
{
	if (has_begun(node->journal))
		note_change(node->journal, json_pack("{s:o}", "object", jsonrpc_object_encode(spec)));
}

void node_journal_forgot(struct node *node, uint32_t id)
{
	if (has_begun(node->journal))
		note_change(node->journal, json_pack("{s:I}", "forget", (json_int_t)id));
}

bool node_journal_goes_on(struct node *node, const struct control_layout *layout)
{
	struct node_journal *j = node->journal;
	bool news;

	if (!j)
		return true;
	if (layout->taken_back != j->taken_back) {
		log_warn("the cluster was rolled back to checkpoint %" PRIu64 ": this node restarts",
			 layout->checkpoint);
		return false;
	}
	pthread_mutex_lock(&j->lock);
	news = j->begun && j->epoch != layout->epoch;
	/* A PS task 0 that has started empty has another lineage; this node's state continues. */
	if (node->config->task_index) {
		news |= j->begun && layout->lineage != node_checkpoint_own_lineage(node->checkpoint);
		node_checkpoint_goes_with(node->checkpoint, layout->lineage);
	}
	j->epoch = layout->epoch;
	if (news)
		update_catalogue(j);
	pthread_mutex_unlock(&j->lock);
	return true;
}

/* Whether a stream has everything up to the instant on disk, or never will. */
static bool has_instant(const struct node_journal *j, unsigned reactor, uint64_t id)
{
	const struct journal_ring *ring = j->rings[reactor];
	const uint64_t bytes = sizeof(struct journal_record) + sizeof(struct journal_instant);

	if (__atomic_load_n(&ring->ends[JOURNAL_DISK].off, __ATOMIC_RELAXED) || journal_is_cut_off(ring, JOURNAL_DISK))
		return true;
	/* The id first: the position that is there then is not that of an earlier instant. */
	return __atomic_load_n(&ring->instant_id, __ATOMIC_ACQUIRE) == id &&
	       journal_reader_at(ring, JOURNAL_DISK) >= __atomic_load_n(&ring->instant_at, __ATOMIC_ACQUIRE) + bytes;
}

bool node_journal_gets_instants(const struct node *node)
{
	const struct node_journal *j = node->journal;

	return j && __atomic_load_n(&j->begun, __ATOMIC_ACQUIRE) && !j->ended;
}

int node_journal_settle(struct node *node, uint64_t id, uint32_t sum, bool (*go_on)(void *ctx), void *ctx,
			struct star_error *err)
{
	struct node_journal *j = node->journal;
	const uint64_t until_us = clock_us() + node->config->journal_wait_s * UINT64_C(1000000);

	if (!node_journal_gets_instants(node))
		return 0;
	for (unsigned i = 0; i < node->shards_count; i++)
		while (!has_instant(j, i, id)) {
			if (!go_on(ctx))
				return star_error_set(err, -ECANCELED, "the checkpoint was abandoned");
			if (clock_us() > until_us)
				return star_error_set(err, -ETIME,
						      "the journal of reactor %u made no progress for journal.wait_s",
						      i);
			usleep(SETTLE_US);
		}
	note_part(j, id, sum);
	return 0;
}

static bool has_all_instants(const struct node_journal *j, uint64_t id)
{
	bool all = !j->ended;

	for (unsigned i = 0; i < j->node->shards_count; i++)
		all &= __atomic_load_n(&j->rings[i]->instant_id, __ATOMIC_ACQUIRE) == id;
	return all;
}

/* A checkpoint was committed whose instant this life has. False: a reactor does not answer. */
static bool count_from_now(struct node_journal *j)
{
	struct star_error err = { 0 };
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < j->node->shards_count; i++) {
		struct reactor_message m = { .run = count_on_reactor };

		rc = node_ask_copy(&j->node->shards[i], &m, sizeof(m), &err);
	}
	if (rc < 0) {
		log_warn("the journal does not count yet: %s", err.text);
		return false;
	}
	__atomic_store_n(&j->later, false, __ATOMIC_RELEASE);
	log_info("a restart continues from the journal");
	return true;
}

bool node_journal_is_later(const struct node_journal *j)
{
	bool later = __atomic_load_n(&j->later, __ATOMIC_ACQUIRE);

	for (unsigned i = 0; !later && i < j->node->shards_count; i++)
		later = __atomic_load_n(&j->node->shards[i].disk_lacks, __ATOMIC_ACQUIRE);
	return later;
}

bool node_journal_counts_now(const struct node *node)
{
	const struct node_journal *j = node->journal;
	struct journal_figures sum = { 0 };
	struct star_error why;

	if (!j || !__atomic_load_n(&j->begun, __ATOMIC_ACQUIRE) || node_journal_is_later(j))
		return false;
	node_journal_add(j, &sum, &why);
	return !sum.failed;
}

void node_journal_counts(struct node *node, uint64_t id, uint32_t sum)
{
	struct node_journal *j = node->journal;
	bool settled;

	if (!j || !j->begun)
		return;
	pthread_mutex_lock(&j->lock);
	settled = node_journal_find_checkpoint(&j->parts, id) != NULL;
	node_journal_add_checkpoint(&j->counted, id, sum);
	update_catalogue(j);
	pthread_mutex_unlock(&j->lock);
	for (unsigned i = 0; !j->ended && i < node->shards_count; i++)
		journal_writer_keep_from(j->writers[i], id);
	if (j->later && !j->ended && !(settled && has_all_instants(j, id)))
		return; /* it began before this life */
	if (j->later && !j->ended && !count_from_now(j))
		return;
	__atomic_store_n(&j->wants_checkpoint, false, __ATOMIC_RELAXED);
	__atomic_store_n(&j->kept_id, id, __ATOMIC_RELEASE);
}

bool node_journal_wants_checkpoint(void *ctx)
{
	const struct node *node = ctx;
	const struct node_journal *j = node->journal;

	return j && __atomic_load_n(&j->begun, __ATOMIC_ACQUIRE) &&
	       __atomic_load_n(&j->wants_checkpoint, __ATOMIC_RELAXED);
}

/* A checkpoint makes earlier lives unnecessary. */
static void remove_former(struct node_journal *j)
{
	struct star_error why = { 0 };

	if (!j->ended)
		journal_writer_watch_former(j->writers[0], 0);
	if (journal_remove(j->node->config->journal_directory, j->life.number - 1, &why) < 0)
		log_warn("earlier lives of the journal were not removed: %s", why.text);
	else
		__atomic_store_n(&j->former_bytes, 0, __ATOMIC_RELAXED);
	for (unsigned i = 0; !j->ended && i < j->node->shards_count; i++)
		journal_writer_limit(j->writers[i], room_of(j, j->former_bytes));
	j->removed = true;
}

static void keep_catalogue(struct node_journal *j)
{
	pthread_mutex_lock(&j->lock);
	if (!j->ended && !j->failure_told && !node_journal_has_catalogue(j)) {
		log_warn("someone has removed the journal's catalogue from %s: it is written again",
			 j->node->config->journal_directory);
		update_catalogue(j);
	}
	pthread_mutex_unlock(&j->lock);
}

void node_journal_watch(struct node *node)
{
	struct node_journal *j = node->journal;
	struct journal_figures sum = { 0 };
	struct star_error why = { 0 };
	uint64_t kept;

	if (!j || !__atomic_load_n(&j->begun, __ATOMIC_ACQUIRE))
		return;
	keep_catalogue(j);
	node_journal_add(j, &sum, &why);
	/* Earlier changes are lost as well if files are missing. */
	if (sum.failed && !j->failure_told && why.code == -ENOENT)
		__atomic_store_n(&j->wants_checkpoint, true, __ATOMIC_RELAXED);
	if (sum.failed)
		node_journal_fail(j, &why);
	kept = __atomic_load_n(&j->kept_id, __ATOMIC_ACQUIRE);
	if (!kept || j->removed)
		return;
	for (unsigned i = 0; !j->ended && i < node->shards_count; i++)
		if (!journal_writer_keeps_from(j->writers[i], kept))
			return;
	remove_former(j);
}

unsigned node_journal_turn(struct shard *shard, uint64_t now_ns)
{
	const uint64_t due = service_journal_sessions_due(shard->service);
	unsigned hurry;

	if (unlikely(due)) {
		if (due != shard->sessions_of)
			shard->sessions_at = 0;
		shard->sessions_of = due;
		if (!rpc_outcomes(shard->rpc, &shard->sessions_at, SESSIONS_PER_TURN, write_outcome, shard)) {
			service_journal_sessions_done(shard->service, due);
			shard->sessions_of = 0;
		}
	}
	if (unlikely(shard->disk_lacks) && node_gate_covers(shard))
		__atomic_store_n(&shard->disk_lacks, false, __ATOMIC_RELEASE);
	node_gate_patience(shard);
	hurry = service_journal_turn(shard->service, now_ns, shard->slices != 0);
	node_gate_published(shard);
	return hurry + (due != 0);
}
