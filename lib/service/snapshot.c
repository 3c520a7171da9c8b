/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Snapshots in slices: a slice a turn, of some microseconds, into blocks that another thread writes down. While requests are
 * served it pauses after each slice for three times as long as that took, so that it has a quarter of the time, and always
 * that. When no empty block is there it waits: the store goes on, and copies rows that change, as long as it has room.
 */
#include "service/internal.h"

#include <errno.h>

#include "base/clock.h"
#include "wire/checkpoint.h"

enum {
	SLICE_ROWS = 128,
	PAUSE = 3, /* times a slice's own */
};

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
	return 0;
}

void service_snapshot_end(struct service *service, bool kept)
{
	struct snapshot_turns *s = &service->snapshots;

	if (!s->snapshot)
		return;
	store_snapshot_end(service->options.store, kept && s->written);
	*s = (struct snapshot_turns){ .clearing = true };
}

static void give_up(struct service *service, int status)
{
	struct service_snapshot *snapshot = service->snapshots.snapshot;

	service_snapshot_end(service, false);
	/* From here on the other thread may free it. */
	__atomic_store_n(&snapshot->status, status, __ATOMIC_RELEASE);
}

/* The instant, if it can be now. */
static void begin(struct service *service)
{
	struct snapshot_turns *s = &service->snapshots;
	struct store *store = service->options.store;

	if (!s->holds)
		s->holds = store_snapshot_ready(store);
	if (!s->holds || service->large_owner)
		return;
	if (store_snapshot_begin(store, s->kind))
		s->pending = s->holds = false;
	else
		give_up(service, -EAGAIN);
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

static struct service_block *take_block(struct snapshot_turns *s)
{
	void *block;

	if (s->block || rte_ring_sc_dequeue(s->snapshot->empty, &block))
		return s->block;
	s->block = block;
	s->block->payload_bytes = 0;
	s->block->rows = s->block->deleted = 0;
	s->block->last = false;
	return s->block;
}

/* One slice into the block; gives it away when it is full, or the last. */
static void fill(struct service *service, struct service_block *block)
{
	struct snapshot_turns *s = &service->snapshots;
	struct store *store = service->options.store;
	const struct store_snapshot_progress before = store_snapshot_progress(store);
	struct store_snapshot_progress after;
	uint8_t *payload = (uint8_t *)block->memory + sizeof(struct checkpoint_block);

	block->payload_bytes +=
		(uint32_t)store_snapshot_slice(store, payload + block->payload_bytes,
					       CHECKPOINT_PAYLOAD_MAX - block->payload_bytes, SLICE_ROWS, &block->last);
	after = store_snapshot_progress(store);
	block->rows += after.rows - before.rows;
	block->deleted += after.deleted - before.deleted;
	if (store_snapshot_lost(store)) {
		give_up(service, -ENOBUFS);
		return;
	}
	if (!block->last && CHECKPOINT_PAYLOAD_MAX - block->payload_bytes >= STORE_SNAPSHOT_SLICE_MIN)
		return;
	s->written = block->last;
	s->block = NULL;
	rte_ring_sp_enqueue(s->snapshot->full, block); /* which has room for all there are */
}

unsigned service_snapshot_turn(struct service *service, uint64_t now_ns, bool busy)
{
	struct snapshot_turns *s = &service->snapshots;
	struct service_block *block;
	uint64_t begun;

	if (!s->snapshot) {
		s->clearing = s->clearing && !store_snapshot_ready(service->options.store);
		return s->clearing;
	}
	if (s->written)
		return 0;
	if (s->pending) {
		begin(service);
		return 1;
	}
	if (is_overdue(s, now_ns)) {
		give_up(service, -ETIME);
		return 1;
	}
	begun = clock_cycles();
	if (busy && (int64_t)(begun - s->pause_cycles) < 0)
		return 1;
	block = take_block(s);
	if (block) {
		fill(service, block);
		s->pause_cycles = clock_cycles() + PAUSE * (clock_cycles() - begun);
	}
	return 1;
}

bool snapshot_asks_room(struct service *service, uint64_t need)
{
	if (store_snapshot_room(service->options.store, need))
		return true;
	service->snapshots.waits = true;
	return false;
}

uint64_t snapshot_need_small(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;
	uint64_t need = 0;

	while (task->ops_left) {
		operation_next(service, task);
		if (task->op.kind == WIRE_RUN)
			need += run_snapshot_need(task);
		else
			need += store_snapshot_need(task->table, task->op.count, op_mode(&task->op));
	}
	operation_rewind(request);
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
