/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/apply.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "wire/owner.h"

enum { BATCH_BYTES = JOURNAL_RECORD_MAX, BATCHES = 8, WAIT_US = 60000000 };

/* A kind that no journal has: the end of a life. */
enum { LIFE_END = UINT16_MAX };
struct life_end {
	struct journal_record record;
	uint32_t lives; /* including lives after it that have left nothing */
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

struct node_apply {
	struct node *node;
	const char *what;
	uint32_t first_reactor, cluster_reactors;
	bool same; /* each stream goes to the reactor of the same number */
	/* By stream and object: where a filter has forgotten everything, only counts after this position are valid.
	 * NULL: all are. */
	uint64_t (*cleared)[WIRE_OBJECTS_MAX + 1];
	bool clearing; /* only these records are looked for, and nothing else is applied */
	uint64_t rows;
	unsigned filling[WIRE_REACTORS_MAX];
	struct batch batches[]; /* BATCHES per reactor */
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

static int settle(const struct node_apply *a, unsigned shard, struct batch *b, struct star_error *err)
{
	if (!b->posted)
		return 0;
	if (reactor_wait(&b->message, WAIT_US) < 0)
		return star_error_set(err, -ETIMEDOUT, "reactor %u did not load the rows that it was sent", shard);
	b->posted = false;
	b->bytes = 0;
	return b->status < 0 ? star_error_set(err, b->status, "%s cannot be applied: %.300s", a->what, b->err.text) : 0;
}

static struct batch *batch_of(struct node_apply *a, unsigned shard)
{
	return &a->batches[shard * BATCHES + a->filling[shard]];
}

static int flush(struct node_apply *a, unsigned shard, struct star_error *err)
{
	struct batch *b = batch_of(a, shard);
	int rc;

	if (!b->bytes)
		return 0;
	b->message = (struct reactor_message){ .run = load_on_reactor };
	rc = reactor_post(a->node->shards[shard].reactor, &b->message);
	if (rc < 0)
		return star_error_set(err, rc, "reactor %u accepts no messages: it is overloaded or stopping", shard);
	b->posted = true;
	a->filling[shard] = (a->filling[shard] + 1) % BATCHES;
	return settle(a, shard, batch_of(a, shard), err);
}

/* Gets room for a record in a shard's batch. */
static int take(struct node_apply *a, unsigned shard, uint32_t bytes, struct journal_record **to,
		struct star_error *err)
{
	struct batch *b = batch_of(a, shard);
	int rc = 0;

	if (b->bytes + bytes > BATCH_BYTES)
		rc = flush(a, shard, err);
	b = batch_of(a, shard);
	*to = (struct journal_record *)(b->records + b->bytes);
	b->bytes += rc == 0 ? bytes : 0;
	return rc;
}

static int add_record(struct node_apply *a, unsigned shard, const struct journal_record *record, struct star_error *err)
{
	struct journal_record *to;
	const int rc = take(a, shard, record->bytes, &to, err);

	if (rc == 0)
		memcpy(to, record, record->bytes);
	return rc;
}

static int add_to_all(struct node_apply *a, const struct journal_record *record, struct star_error *err)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < a->node->shards_count; i++)
		rc = add_record(a, i, record, err);
	return rc;
}

/* ---- records ---- */

/* Adds one row or key of a run, as a run of its own. */
static int add_row(struct node_apply *a, const struct checkpoint_run *run, const uint8_t *row, unsigned shard,
		   struct star_error *err)
{
	const uint32_t bytes = (uint32_t)(sizeof(struct journal_record) + sizeof(*run)) + run->row_bytes;
	struct journal_record *to;
	struct checkpoint_run *one;
	const int rc = take(a, shard, bytes, &to, err);

	if (rc < 0)
		return rc;
	*to = (struct journal_record){ .bytes = bytes, .kind = JOURNAL_RUN };
	one = (struct checkpoint_run *)(to + 1);
	*one = *run;
	one->count = 1;
	memcpy(one + 1, row, run->row_bytes);
	return 0;
}

static int route(struct node_apply *a, const struct object_spec *spec, const struct checkpoint_run *run,
		 const uint8_t *rows, struct star_error *err)
{
	const uint32_t partitions = a->node->config->partitions;
	const uint64_t name_hash = hash_name(spec->name);
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < run->count; i++) {
		const uint8_t *row = rows + (size_t)i * run->row_bytes;
		uint64_t key;
		uint32_t owner;

		memcpy(&key, row, sizeof(key));
		owner = wire_key_owner(partitions, a->cluster_reactors, spec, name_hash, key);
		if (owner < a->first_reactor || owner >= a->first_reactor + a->node->shards_count)
			return star_error_set(err, -EBADMSG,
					      "%s has rows that belong to another PS task now, because the number of "
					      "reactors has changed: start all nodes with their former cores.number, "
					      "save a checkpoint (starctl checkpoint save) and stop them; a checkpoint "
					      "can be restored with any number of reactors",
					      a->what);
		rc = add_row(a, run, row, owner - a->first_reactor, err);
	}
	return rc;
}

/* The object that requests mean, if it exists in that generation. */
static const struct object_spec *find_object(const struct node *node, uint32_t object)
{
	const uint32_t id = object_id_of(object);
	const struct object_spec *spec = id >= 1 && id <= WIRE_OBJECTS_MAX ? node->specs[id] : NULL;

	return spec && spec->kind != OBJECT_PROGRAM && object_wire_id(spec) == object ? spec : NULL;
}

static int apply_run(struct node_apply *a, uint32_t stream, struct journal_record *record, uint64_t behind,
		     struct star_error *err)
{
	struct checkpoint_run *run = (struct checkpoint_run *)(record + 1);
	const struct object_spec *spec;
	const uint64_t head = sizeof(*record) + sizeof(*run);

	if (record->bytes < head || run->row_bytes < sizeof(uint64_t) || run->row_bytes % sizeof(uint64_t) ||
	    run->count == 0 || record->bytes - head != (uint64_t)run->count * run->row_bytes)
		return star_error_set(err, -EBADMSG, "%s has a run of %u rows of %u bytes in %u", a->what, run->count,
				      run->row_bytes, record->bytes);
	spec = find_object(a->node, run->object);
	if (!spec)
		return 0; /* it was dropped since */
	if (a->cleared && (a->clearing || (run->kind == CHECKPOINT_COUNTS && behind <= a->cleared[stream][spec->id])))
		return 0;
	run->object = spec->id;
	a->rows += run->kind == CHECKPOINT_ROWS ? run->count : 0;
	if (a->same)
		return add_record(a, stream, record, err);
	return run->kind == CHECKPOINT_TABLE ? add_to_all(a, record, err)
					     : route(a, spec, run, (const uint8_t *)(run + 1), err);
}

static int apply_outcome(struct node_apply *a, uint32_t stream, const struct journal_record *record,
			 struct star_error *err)
{
	const uint32_t bytes = (uint32_t)(sizeof(*record) + sizeof(struct journal_outcome)) +
			       (record->flags & JOURNAL_REFUSALS ? WIRE_IN_FLIGHT_MAX : 0);

	if (record->bytes != bytes)
		return star_error_set(err, -EBADMSG, "%s has an outcome of %u bytes", a->what, record->bytes);
	/* With another number of reactors workers have other channels, so outcomes of their sessions do not apply. */
	return a->same ? add_record(a, stream, record, err) : 0;
}

static int apply_cleared(struct node_apply *a, uint32_t stream, struct journal_record *record, uint64_t behind,
			 struct star_error *err)
{
	struct journal_object *object = (struct journal_object *)(record + 1);
	const struct object_spec *spec;

	if (record->bytes != sizeof(*record) + sizeof(*object))
		return star_error_set(err, -EBADMSG, "%s has an object of %u bytes", a->what, record->bytes);
	spec = find_object(a->node, object->object);
	if (!spec)
		return 0;
	object->object = spec->id;
	if (a->same)
		return add_record(a, stream, record, err);
	if (a->cleared)
		a->cleared[stream][spec->id] = behind;
	return !a->cleared || a->clearing ? add_to_all(a, record, err) : 0;
}

int node_apply_record(struct node_apply *a, uint32_t stream, struct journal_record *record, uint64_t behind,
		      bool outcome_only, struct star_error *err)
{
	if (record->kind == JOURNAL_OUTCOME)
		return a->clearing ? 0 : apply_outcome(a, stream, record, err);
	if (outcome_only)
		return 0;
	if (record->kind == JOURNAL_CLEARED)
		return apply_cleared(a, stream, record, behind, err);
	return record->kind == JOURNAL_RUN ? apply_run(a, stream, record, behind, err) : 0;
}

int node_apply_cleared_first(struct node_apply *a, uint32_t streams, struct star_error *err)
{
	a->cleared = calloc(streams, sizeof(*a->cleared));
	a->clearing = true;
	return a->cleared ? 0 : star_error_set(err, -ENOMEM, "out of memory");
}

void node_apply_cleared_known(struct node_apply *a)
{
	a->clearing = false;
}

/* ---- snapshots ---- */

static uint32_t within(uint32_t reactor, uint32_t first, uint32_t end)
{
	return reactor < first ? first : reactor > end ? end : reactor;
}

bool node_bloom_shards(const struct node *node, uint32_t first_reactor, uint32_t cluster_reactors,
		       const struct object_spec *spec, const void *block, uint32_t *first, uint32_t *end)
{
	const uint32_t partitions = node->config->partitions, last = first_reactor + node->shards_count;
	uint64_t number, low, high;

	memcpy(&number, block, sizeof(number));
	if (!wire_checkpoint_bloom_hashes(spec, number, &low, &high))
		return false;
	*first = layout_owner(partitions, cluster_reactors, layout_partition(low, partitions));
	*end = layout_owner(partitions, cluster_reactors, layout_partition(high, partitions)) + 1;
	*first = within(*first, first_reactor, last) - first_reactor;
	*end = within(*end, first_reactor, last) - first_reactor;
	return true;
}

/* Adds rows of a run, as records for one shard: as many at a time as fit into a batch. */
static int add_rows(struct node_apply *a, unsigned shard, const struct checkpoint_run *run, const uint8_t *rows,
		    struct star_error *err)
{
	const uint32_t head = (uint32_t)(sizeof(struct journal_record) + sizeof(*run));
	const uint32_t most = (BATCH_BYTES - head) / run->row_bytes;
	int rc = most ? 0 : star_error_set(err, -EBADMSG, "%s has rows of %u bytes", a->what, run->row_bytes);

	for (uint32_t done = 0; rc == 0 && done < run->count; done += most) {
		const uint32_t part = RTE_MIN(run->count - done, most), bytes = head + part * run->row_bytes;
		struct journal_record *to;
		struct checkpoint_run *some;

		rc = take(a, shard, bytes, &to, err);
		if (rc < 0)
			break;
		*to = (struct journal_record){ .bytes = bytes, .kind = JOURNAL_RUN };
		some = (struct checkpoint_run *)(to + 1);
		*some = *run;
		some->count = part;
		memcpy(some + 1, rows + (size_t)done * run->row_bytes, (size_t)part * run->row_bytes);
	}
	return rc;
}

static int add_bloom(struct node_apply *a, const struct object_spec *spec, const struct checkpoint_run *run,
		     const uint8_t *rows, struct star_error *err)
{
	struct checkpoint_run one = *run;
	uint32_t first, end;
	int rc = 0;

	one.count = 1;
	for (uint32_t i = 0; rc == 0 && i < run->count; i++) {
		const uint8_t *block = rows + (size_t)i * run->row_bytes;

		if (!node_bloom_shards(a->node, a->first_reactor, a->cluster_reactors, spec, block, &first, &end))
			return star_error_set(err, -EBADMSG, "\"%s\": the filter has no such block", spec->name);
		for (; rc == 0 && first < end; first++)
			rc = add_rows(a, first, &one, block, err);
	}
	return rc;
}

int node_apply_run(struct node_apply *a, uint32_t stream, const struct checkpoint_run *run, const void *rows,
		   struct star_error *err)
{
	const struct object_spec *spec = run->object <= WIRE_OBJECTS_MAX ? a->node->specs[run->object] : NULL;
	int rc = 0;

	if (!spec || spec->kind == OBJECT_PROGRAM)
		return star_error_set(err, -EBADMSG, "%s has rows of object %u, which is not in the catalogue", a->what,
				      run->object);
	a->rows += run->kind == CHECKPOINT_ROWS ? run->count : 0;
	if (a->same)
		return add_rows(a, stream, run, rows, err);
	if (run->kind == CHECKPOINT_BLOOM)
		return add_bloom(a, spec, run, rows, err);
	if (run->kind != CHECKPOINT_TABLE)
		return route(a, spec, run, rows, err);
	for (unsigned i = 0; rc == 0 && i < a->node->shards_count; i++)
		rc = add_rows(a, i, run, rows, err);
	return rc;
}

/* ---- begin and end ---- */

bool node_apply_from(struct node_apply *a, uint32_t reactors, uint32_t partitions, uint32_t first_reactor,
		     uint32_t cluster_reactors)
{
	free(a->cleared);
	a->cleared = NULL;
	a->clearing = false;
	a->same = reactors == a->node->shards_count && partitions == a->node->config->partitions &&
		  first_reactor == a->first_reactor && cluster_reactors == a->cluster_reactors;
	return a->same;
}

int node_apply_life_end(struct node_apply *a, uint32_t lives, struct star_error *err)
{
	const struct life_end end = { .record = { .bytes = sizeof(end), .kind = LIFE_END }, .lives = lives };

	return add_to_all(a, &end.record, err);
}

/* Settles all batches of all reactors. */
static int settle_all(struct node_apply *a, struct star_error *err)
{
	struct star_error ignored;
	int rc = 0;

	for (unsigned i = 0; i < a->node->shards_count * BATCHES; i++) {
		const int settled = settle(a, i / BATCHES, &a->batches[i], rc < 0 ? &ignored : err);

		rc = rc < 0 ? rc : settled;
	}
	return rc;
}

int node_apply_send(struct node_apply *a, struct star_error *err)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < a->node->shards_count; i++)
		rc = flush(a, i, err);
	return rc;
}

int node_apply_flush(struct node_apply *a, struct star_error *err)
{
	const int rc = node_apply_send(a, err);

	return rc < 0 ? rc : settle_all(a, err);
}

struct node_apply *node_apply_create(struct node *node, uint32_t first_reactor, uint32_t cluster_reactors,
				     const char *what, struct star_error *err)
{
	const unsigned batches = node->shards_count * BATCHES;
	struct node_apply *a = calloc(1, sizeof(*a) + batches * sizeof(a->batches[0]));
	bool made = a != NULL;

	if (a) {
		a->node = node;
		a->what = what;
		a->first_reactor = first_reactor;
		a->cluster_reactors = cluster_reactors;
	}
	for (unsigned i = 0; made && i < batches; i++) {
		a->batches[i].records = aligned_alloc(64, BATCH_BYTES);
		made = a->batches[i].records != NULL;
	}
	if (made)
		return a;
	star_error_set(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; a && i < batches; i++)
		free(a->batches[i].records);
	free(a);
	return NULL;
}

int node_apply_destroy(struct node_apply *a, struct star_error *err)
{
	const int rc = settle_all(a, err);
	bool stays = false;

	free(a->cleared);
	a->cleared = NULL;
	for (unsigned i = 0; i < a->node->shards_count * BATCHES; i++) {
		/* A batch that a reactor may still process must not be freed, and so none is. */
		stays |= a->batches[i].posted;
		if (!a->batches[i].posted)
			free(a->batches[i].records);
	}
	if (!stays)
		free(a);
	return rc;
}

uint64_t node_apply_rows(const struct node_apply *a)
{
	return a->rows;
}
