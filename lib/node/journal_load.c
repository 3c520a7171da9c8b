/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A journal, into the reactors, behind the checkpoint that it goes on from. Each record goes to the reactor that has
 * its stream, or, if the node has another number of them now, each row to the one that it is of now. Streams may be
 * applied one after the other: no two of one life have the same key.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/checkpoint.h"
#include "node/journal.h"
#include "wire/layout.h"

enum { BATCH_BYTES = JOURNAL_RECORD_MAX, BATCHES = 8, WAIT_US = 60000000, TELL_US = 5000000 };

/* Of a record that no journal has: a life is over. */
enum { LIFE_END = UINT16_MAX };
struct life_end {
	struct journal_record record;
	uint32_t lives; /* with those after it that have left nothing */
	uint32_t reserved;
};

/* Records on their way to a reactor. */
struct batch {
	struct reactor_message message;
	struct star_error err;
	int status;
	bool posted;
	uint32_t bytes;
	uint8_t *records;
};

struct apply {
	struct node *node;
	uint32_t first_reactor, cluster_reactors;
	bool same; /* each stream has its reactor */
	uint32_t stream;
	uint64_t from; /* rows behind this position are applied */
	/* Not `same`: where filters have forgotten all is looked for first, in all streams (`clearing`): each reactor has
	 * keys of several, and is to forget before any of their counts come. By stream and object: counts behind this
	 * position stand. */
	bool clearing;
	uint64_t (*cleared)[WIRE_OBJECTS_MAX + 1];
	struct batch *batches;
	unsigned filling[WIRE_REACTORS_MAX];
	uint64_t rows, told_us;
};

/* ---- on a reactor ---- */

static int load_run(struct shard *shard, const struct journal_record *record, struct star_error *err)
{
	const struct checkpoint_run *run = (const struct checkpoint_run *)(record + 1);

	return service_load(shard->service, run, run + 1, run->count, err);
}

static void load_outcome(struct shard *shard, const struct journal_record *record)
{
	const struct journal_outcome *o = (const struct journal_outcome *)(record + 1);
	const struct rpc_outcome outcome = { .session = o->session,
					     .sequence = o->sequence,
					     .ended = record->flags & JOURNAL_REFUSALS ? o->ended : NULL,
					     .forgot = record->flags & JOURNAL_FORGOT,
					     .unknown = record->flags & JOURNAL_UNKNOWN };

	rpc_restore_outcome(shard->rpc, &outcome);
}

static void load_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct batch *b = (struct batch *)message;
	const struct journal_record *record;

	b->status = 0;
	for (uint32_t at = 0; at < b->bytes && b->status == 0; at += record->bytes) {
		record = (const struct journal_record *)(b->records + at);
		if (record->kind == JOURNAL_RUN)
			b->status = load_run(shard, record, &b->err);
		else if (record->kind == JOURNAL_OUTCOME)
			load_outcome(shard, record);
		else if (record->kind == JOURNAL_CLEARED)
			service_load_cleared(shard->service, ((const struct journal_object *)(record + 1))->object);
		else if (record->kind == LIFE_END)
			service_load_life_end(shard->service, ((const struct life_end *)record)->lives);
	}
}

/* ---- batches ---- */

static int settle_batch(unsigned shard, struct batch *b, struct star_error *err)
{
	if (!b->posted)
		return 0;
	if (reactor_wait(&b->message, WAIT_US) < 0)
		return star_error_set(err, -ETIMEDOUT, "reactor %u does not load what it is given", shard);
	b->posted = false;
	b->bytes = 0;
	return b->status < 0 ? star_error_set(err, b->status, "the journal cannot be applied: %.300s", b->err.text) : 0;
}

static struct batch *batch_of(const struct apply *a, unsigned shard)
{
	return &a->batches[shard * BATCHES + a->filling[shard]];
}

static int flush_loaded(struct apply *a, unsigned shard, struct star_error *err)
{
	struct batch *b = batch_of(a, shard);
	int rc;

	if (!b->bytes)
		return 0;
	b->message = (struct reactor_message){ .run = load_on_reactor };
	rc = reactor_post(a->node->shards[shard].reactor, &b->message);
	if (rc < 0)
		return star_error_set(err, rc, "reactor %u takes no messages", shard);
	b->posted = true;
	a->filling[shard] = (a->filling[shard] + 1) % BATCHES;
	return settle_batch(shard, batch_of(a, shard), err);
}

/* Room for a record in a shard's batch. */
static int take_record_room(struct apply *a, unsigned shard, uint32_t bytes, struct journal_record **to,
			    struct star_error *err)
{
	struct batch *b = batch_of(a, shard);
	int rc = 0;

	if (b->bytes + bytes > BATCH_BYTES)
		rc = flush_loaded(a, shard, err);
	b = batch_of(a, shard);
	*to = (struct journal_record *)(b->records + b->bytes);
	b->bytes += rc == 0 ? bytes : 0;
	return rc;
}

static int add_record(struct apply *a, unsigned shard, const struct journal_record *record, struct star_error *err)
{
	struct journal_record *to;
	const int rc = take_record_room(a, shard, record->bytes, &to, err);

	if (rc == 0)
		memcpy(to, record, record->bytes);
	return rc;
}

static int add_to_all(struct apply *a, const struct journal_record *record, struct star_error *err)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < a->node->shards_count; i++)
		rc = add_record(a, i, record, err);
	return rc;
}

/* ---- records ---- */

/* One row or key of a run, as a run of its own. */
static int add_row(struct apply *a, const struct checkpoint_run *run, const uint8_t *row, unsigned shard,
		   struct star_error *err)
{
	const uint32_t bytes = (uint32_t)(sizeof(struct journal_record) + sizeof(*run)) + run->row_bytes;
	struct journal_record *to;
	struct checkpoint_run *one;
	const int rc = take_record_room(a, shard, bytes, &to, err);

	if (rc < 0)
		return rc;
	*to = (struct journal_record){ .bytes = bytes, .kind = JOURNAL_RUN };
	one = (struct checkpoint_run *)(to + 1);
	*one = *run;
	one->count = 1;
	memcpy(one + 1, row, run->row_bytes);
	return 0;
}

static int route(struct apply *a, const struct object_spec *spec, const struct checkpoint_run *run,
		 struct star_error *err)
{
	const uint32_t partitions = a->node->config->partitions;
	const uint64_t name_hash = hash_name(spec->name);
	const uint8_t *rows = (const uint8_t *)(run + 1);
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < run->count; i++) {
		const uint8_t *row = rows + (size_t)i * run->row_bytes;
		uint64_t key;
		uint32_t owner;

		memcpy(&key, row, sizeof(key));
		owner = layout_owner(partitions, a->cluster_reactors,
				     layout_partition(hash_key(name_hash, object_partition_key(spec, key)),
						      partitions));
		if (owner < a->first_reactor || owner >= a->first_reactor + a->node->shards_count)
			return star_error_set(err, -EBADMSG, "the journal has rows of another node");
		rc = add_row(a, run, row, owner - a->first_reactor, err);
	}
	return rc;
}

/* What requests mean by an object, if it is there in its generation. */
static const struct object_spec *find_object(const struct node *node, uint32_t object)
{
	const uint32_t id = object_id_of(object);
	const struct object_spec *spec = id >= 1 && id <= WIRE_OBJECTS_MAX ? node->specs[id] : NULL;

	return spec && spec->kind != OBJECT_PROGRAM && object_wire_id(spec) == object ? spec : NULL;
}

static int apply_run(struct apply *a, struct journal_record *record, uint64_t behind, struct star_error *err)
{
	struct checkpoint_run *run = (struct checkpoint_run *)(record + 1);
	const struct object_spec *spec;
	const uint64_t head = sizeof(*record) + sizeof(*run);

	if (record->bytes < head || run->row_bytes < sizeof(uint64_t) || run->row_bytes % sizeof(uint64_t) ||
	    run->count == 0 || record->bytes - head != (uint64_t)run->count * run->row_bytes)
		return star_error_set(err, -EBADMSG, "the journal has a run of %u rows of %u bytes in %u", run->count,
				      run->row_bytes, record->bytes);
	spec = find_object(a->node, run->object);
	if (!spec)
		return 0; /* it was dropped since */
	if (!a->same && (a->clearing || (run->kind == CHECKPOINT_COUNTS && behind <= a->cleared[a->stream][spec->id])))
		return 0;
	run->object = spec->id;
	a->rows += run->kind == CHECKPOINT_ROWS ? run->count : 0;
	if (a->same)
		return add_record(a, a->stream, record, err);
	return run->kind == CHECKPOINT_TABLE ? add_to_all(a, record, err) : route(a, spec, run, err);
}

static int apply_outcome(struct apply *a, const struct journal_record *record, struct star_error *err)
{
	const uint32_t bytes = (uint32_t)(sizeof(*record) + sizeof(struct journal_outcome)) +
			       (record->flags & JOURNAL_REFUSALS ? WIRE_IN_FLIGHT_MAX : 0);

	if (record->bytes != bytes)
		return star_error_set(err, -EBADMSG, "the journal has an outcome of %u bytes", record->bytes);
	/* With other reactors workers have other channels. */
	return a->same ? add_record(a, a->stream, record, err) : 0;
}

static int apply_cleared(struct apply *a, struct journal_record *record, uint64_t behind, struct star_error *err)
{
	struct journal_object *object = (struct journal_object *)(record + 1);
	const struct object_spec *spec;

	if (record->bytes != sizeof(*record) + sizeof(*object))
		return star_error_set(err, -EBADMSG, "the journal has an object of %u bytes", record->bytes);
	spec = find_object(a->node, object->object);
	if (!spec)
		return 0;
	object->object = spec->id;
	if (a->same)
		return add_record(a, a->stream, record, err);
	a->cleared[a->stream][spec->id] = behind;
	return a->clearing ? add_to_all(a, record, err) : 0;
}

static int apply_record(void *ctx, const struct journal_record *record, const void *content, uint64_t behind,
			struct star_error *err)
{
	struct apply *a = ctx;
	/* The reader's buffer is nobody else's. */
	struct journal_record *mine = (struct journal_record *)record;

	(void)content;
	if (record->kind == JOURNAL_OUTCOME)
		return apply_outcome(a, record, err);
	if (behind <= a->from)
		return 0;
	if (record->kind == JOURNAL_CLEARED)
		return apply_cleared(a, mine, behind, err);
	return record->kind == JOURNAL_RUN ? apply_run(a, mine, behind, err) : 0;
}

static int report_loaded(struct apply *a, struct star_error *err)
{
	const uint64_t now_us = clock_us();

	if (node_told_to_stop(a->node))
		return star_error_set(err, -ECANCELED, "told to stop while the journal was applied");
	if (now_us - a->told_us >= TELL_US)
		log_info("applying the journal: %" PRIu64 " rows so far", a->rows);
	a->told_us = now_us - a->told_us >= TELL_US ? now_us : a->told_us;
	return 0;
}

static int visit(void *ctx, const struct journal_record *record, const void *content, uint64_t behind,
		 struct star_error *err)
{
	const int rc = record->kind == JOURNAL_MARK ? report_loaded(ctx, err) : 0;

	return rc < 0 ? rc : apply_record(ctx, record, content, behind, err);
}

static int visit_streams(struct apply *a, const struct node_journal *j, const struct journal_past_life *life,
			 bool clearing, struct star_error *err)
{
	const bool is_first = life == &j->contents->lives[j->first];
	int rc = 0;

	a->clearing = clearing;
	for (a->stream = 0; rc == 0 && a->stream < life->reactors; a->stream++) {
		const struct journal_stream *s = &life->streams[a->stream];

		a->from = is_first ? journal_stream_from(life, s, j->chosen) : 0;
		rc = journal_stream_visit(j->contents, s, visit, a, err);
	}
	return rc;
}

/* next: the number of the life that comes after it. */
static int apply_life(struct apply *a, const struct node_journal *j, const struct journal_past_life *life,
		      uint32_t next, struct star_error *err)
{
	const struct life_end end = { .record = { .bytes = sizeof(end), .kind = LIFE_END },
				      .lives = next - life->number };
	int rc = 0;

	a->same = life->reactors == a->node->shards_count && life->partitions == a->node->config->partitions;
	if (!a->same) {
		a->cleared = calloc(life->reactors, sizeof(*a->cleared));
		rc = a->cleared ? visit_streams(a, j, life, true, err) : star_error_set(err, -ENOMEM, "out of memory");
	}
	if (rc == 0)
		rc = visit_streams(a, j, life, false, err);
	free(a->cleared);
	a->cleared = NULL;
	if (rc == 0)
		rc = add_to_all(a, &end.record, err);
	for (unsigned i = 0; rc == 0 && i < a->node->shards_count; i++)
		rc = flush_loaded(a, i, err);
	return rc;
}

int node_journal_apply(struct node *node, const struct control_layout *layout, struct star_error *err)
{
	struct node_journal *j = node->journal;
	const uint64_t begun_us = clock_us();
	const unsigned batches = node->shards_count * BATCHES;
	struct apply a = { .node = node,
			   .first_reactor = layout->first_reactor,
			   .cluster_reactors = layout->cluster_reactors,
			   .told_us = begun_us,
			   .batches = calloc(batches, sizeof(*a.batches)) };
	struct star_error ignored;
	bool others = false, stays = false;
	int rc = a.batches ? 0 : star_error_set(err, -ENOMEM, "out of memory");

	for (unsigned i = 0; rc == 0 && i < batches; i++) {
		a.batches[i].records = aligned_alloc(64, BATCH_BYTES);
		if (!a.batches[i].records)
			rc = star_error_set(err, -ENOMEM, "out of memory");
	}
	for (uint32_t i = j->first; rc == 0 && i < j->contents->lives_count; i++) {
		const struct journal_past_life *life = &j->contents->lives[i];
		const bool is_last = i + 1 == j->contents->lives_count;

		rc = apply_life(&a, j, life, is_last ? j->contents->last + 1 : life[1].number, err);
		others |= !a.same;
	}
	for (unsigned i = 0; a.batches && i < batches; i++) {
		const int settled = settle_batch(i / BATCHES, &a.batches[i], rc < 0 ? &ignored : err);

		rc = rc < 0 ? rc : settled;
		/* What a reactor may still come to must live on, and so must all of them. */
		stays |= a.batches[i].posted;
		if (!a.batches[i].posted)
			free(a.batches[i].records);
	}
	if (!stays)
		free(a.batches);
	if (rc == 0 && others)
		rc = node_trim_tables(node, err);
	if (rc < 0)
		return rc;
	j->replayed_rows = a.rows;
	j->replayed_bytes = j->contents->bytes;
	j->replayed_s = j->read_s + (double)(clock_us() - begun_us) / 1e6;
	log_info("the journal was applied behind checkpoint %" PRIu64 ": %" PRIu64 " rows, in %.3f s", j->chosen,
		 a.rows, j->replayed_s);
	return 0;
}
