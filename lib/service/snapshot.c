/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Snapshots in slices: one slice of about ten microseconds per turn, into blocks that another thread writes to disk.
 * While requests are served, it pauses after each slice for seven times as long as that took, and so uses an eighth of
 * the time: the less often rows to be written fill the caches, the less it delays requests. If there is no empty block
 * it waits for one. Meanwhile the store goes on, and copies rows that change as long as it has room.
 */
#include "service/internal.h"

#include <errno.h>

#include "base/clock.h"
#include "base/probe.h"
#include "base/stream.h"
#include "wire/checkpoint.h"

enum {
	SLICE_NS = 10000, /* a slice ends with the piece that exceeds it, ... */
	PIECE_ROWS = 64,  /* ... which takes some microseconds */
	PAUSE = 7,	  /* times a slice's own */
};

/* Everything from the block's previous use is reset. */
static void add_block(struct snapshot_turns *s, struct service_block *block)
{
	block->payload_bytes = 0;
	block->rows = block->deleted = 0;
	block->last = false;
	s->empty[s->empty_count++] = block;
}

int service_snapshot_begin(struct service *service, enum store_snapshot_kind kind, struct service_snapshot *snapshot)
{
	struct snapshot_turns *s = &service->snapshots;
	struct store *store = service->options.store;

	if (s->snapshot)
		return -EBUSY;
	if (!store_snapshot_possible(store))
		return -ENOTSUP;
	if (kind == STORE_SNAPSHOT_DELTA && !store_snapshot_delta_possible(store))
		return -EAGAIN;
	*s = (struct snapshot_turns){ .snapshot = snapshot, .kind = (uint8_t)kind, .pending = true };
	snapshot->status = 0;
	for (unsigned i = 0; i < snapshot->blocks_count && i < SERVICE_BLOCKS_MAX; i++)
		add_block(s, snapshot->blocks[i]);
	return 0;
}

bool service_snapshot_is(const struct service *service, const struct service_snapshot *snapshot)
{
	return service->snapshots.snapshot == snapshot;
}

void service_snapshot_end(struct service *service, bool kept)
{
	struct snapshot_turns *s = &service->snapshots;

	if (!s->snapshot)
		return;
	store_snapshot_end(service->options.store, kept && s->written);
	*s = (struct snapshot_turns){ .clearing = true };
}

void service_snapshot_give_up(struct service *service, int status)
{
	struct service_snapshot *snapshot = service->snapshots.snapshot;

	service_snapshot_end(service, false);
	/* From here on the other thread may free it. */
	__atomic_store_n(&snapshot->status, status, __ATOMIC_RELEASE);
}

/* Takes the snapshot's instant, if that is possible now. */
static void begin_instant(struct service *service)
{
	struct snapshot_turns *s = &service->snapshots;
	struct store *store = service->options.store;

	if (!s->holds)
		s->holds = store_snapshot_ready(store);
	if (!s->holds || service->large_owner || service->changing)
		return;
	if (store_snapshot_begin(store, s->kind)) {
		s->pending = s->holds = false;
		if (unlikely(service->journal))
			service_journal_instant(service, s->snapshot->id);
	} else {
		service_snapshot_give_up(service, -EAGAIN);
	}
}

/* Requests that wait for room have waited too long. */
static bool is_overdue(struct snapshot_turns *s, uint64_t now_ns)
{
	const uint64_t wait_max_ns = s->snapshot->wait_max_ns;

	if (!s->waits)
		s->waits_ns = 0;
	else if (!s->waits_ns)
		s->waits_ns = now_ns;
	s->waits = false;
	return wait_max_ns && s->waits_ns && now_ns - s->waits_ns > wait_max_ns;
}

void service_snapshot_give(struct service *service, struct service_block *block)
{
	struct snapshot_turns *s = &service->snapshots;

	if (s->snapshot && s->empty_count < SERVICE_BLOCKS_MAX)
		add_block(s, block);
}

static struct service_block *take_block(struct snapshot_turns *s)
{
	if (!s->block && s->empty_count)
		s->block = s->empty[--s->empty_count];
	return s->block;
}

/* Writes one piece of a slice into the block, and passes the block on if it is full or the last. */
static void fill_piece(struct service *service, struct service_block *block)
{
	struct snapshot_turns *s = &service->snapshots;
	struct store *store = service->options.store;
	const struct store_snapshot_progress before = store_snapshot_progress(store);
	struct store_snapshot_progress after;
	uint8_t *payload = (uint8_t *)block->memory + sizeof(struct checkpoint_block);
	uint32_t bytes;

	/* Blocks are read by another core. So records are first written to a small buffer that stays in the cache, and
	 * then copied past the cache, which is left to requests. */
	bytes = (uint32_t)store_snapshot_slice(store, service->records, sizeof(service->records), PIECE_ROWS,
					       &block->last);
	stream_copy(payload + block->payload_bytes, service->records, bytes);
	block->payload_bytes += bytes;
	after = store_snapshot_progress(store);
	block->rows += after.rows - before.rows;
	block->deleted += after.deleted - before.deleted;
	block->step = after.step;
	if (store_snapshot_lost(store)) {
		service_snapshot_give_up(service, -ENOBUFS);
		return;
	}
	if (!block->last && CHECKPOINT_PAYLOAD_MAX - block->payload_bytes >= STORE_SNAPSHOT_SLICE_MIN)
		return;
	s->written = block->last;
	s->block = NULL;
	stream_end();
	rte_ring_sp_enqueue(s->snapshot->full, block); /* the ring has room for all blocks */
}

/* Writes one slice: pieces for a certain time, whatever rows they have. */
static void fill_snapshot(struct service *service)
{
	struct snapshot_turns *s = &service->snapshots;
	const uint64_t begun = clock_ns();

	do
		fill_piece(service, s->block);
	while (s->snapshot && !s->written && take_block(s) && clock_ns() - begun < SLICE_NS);
}

/* Pauses after an activity that began at `begun`. */
static void pause(struct snapshot_turns *s, uint64_t begun)
{
	const uint64_t now = clock_cycles();

	s->pause_cycles = now + PAUSE * (now - begun);
}

unsigned service_snapshot_turn(struct service *service, uint64_t now_ns, bool busy)
{
	struct snapshot_turns *s = &service->snapshots;
	const uint64_t begun = clock_cycles();
	/* No pause while requests wait for the snapshot. */
	const bool pausing = busy && !s->waits && (int64_t)(begun - s->pause_cycles) < 0;

	if (!s->snapshot) {
		if (s->clearing && !pausing) {
			s->clearing = !store_snapshot_ready(service->options.store);
			pause(s, begun);
		}
		return s->clearing;
	}
	if (s->written)
		return 0;
	if (s->pending) {
		if (s->holds || !pausing) {
			begin_instant(service);
			pause(s, begun);
		}
		return 1;
	}
	if (is_overdue(s, now_ns)) {
		service_snapshot_give_up(service, -ETIME);
		return 1;
	}
	if (!take_block(s))
		return 0; /* requests that wait for room are checked in every turn anyway */
	if (!pausing) {
		const uint64_t id = s->snapshot->id;

		PROBE(checkpoint_slice_begin, id);
		fill_snapshot(service);
		PROBE(checkpoint_slice_end, id, s->block ? s->block->payload_bytes : 0, s->written);
		pause(s, begun);
	}
	return 1;
}

bool service_snapshot_lets_change(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;

	if (task->changes)
		return true;
	if (service->snapshots.holds || drop_waits(service) || journal_holds(service))
		return false;
	task->changes = true;
	service->changing++;
	request->begun = true;
	return true;
}

bool service_snapshot_asks_room(struct service *service, uint64_t need)
{
	if (store_snapshot_room(service->options.store, need))
		return true;
	service->snapshots.waits = true;
	return false;
}

uint64_t service_snapshot_need_small(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;
	uint64_t need = 0;

	while (task->ops_left) {
		service_operation_next(service, task);
		if (task->op.kind == WIRE_RUN)
			need += service_run_snapshot_need(task);
		else
			need += store_snapshot_need(operation_object(service, task), task->op.count,
						    op_mode(&task->op));
	}
	service_operation_rewind(request);
	return need;
}

int service_load(struct service *service, const struct checkpoint_run *run, const void *records, uint32_t n,
		 struct star_error *err)
{
	struct store_table *table = run->object <= WIRE_OBJECTS_MAX ? service->tables[run->object] : NULL;
	const uint32_t most = run->kind == CHECKPOINT_TABLE ? 1 : STORE_LOAD_MAX;
	const uint8_t *at = records;

	if (!table)
		return star_error_set(err, -ENOENT, "no table or variable has the id %u", run->object);
	for (uint32_t done = 0; done < n; done += most) {
		const uint32_t part = RTE_MIN(n - done, most);
		const int rc = store_load(table, run, at, part, err);

		if (rc < 0)
			return rc;
		at += (size_t)part * run->row_bytes;
	}
	return 0;
}

unsigned service_trim(struct service *service, uint32_t id, unsigned budget)
{
	struct store_table *table = id <= WIRE_OBJECTS_MAX ? service->tables[id] : NULL;

	return table ? store_trim(table, budget) : 0;
}
