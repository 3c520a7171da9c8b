/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/peers/saves.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/internal.h"

enum { COPIES_MIB = 64, LOG_MIB = 16, LOOK_US = 50 };

static _Noreturn void refuse(const struct star_error *err)
{
	appliance_fail(err->text);
}

/* ---- the reactor's side ---- */

static struct saves *of(struct appliance *a)
{
	return a->ctx;
}

/* A node's housekeeping. */
static void housekeeping(struct appliance *a, uint64_t now_ns, bool busy)
{
	struct saves *s = of(a);
	struct snapshot_turns *turns = &a->service->snapshots;
	const uint64_t pause = turns->pause_cycles;
	void *block;
	uint64_t begun, cycles;

	while (rte_ring_dequeue(s->written, &block) == 0)
		service_snapshot_give(a->service, block);
	begun = clock_cycles();
	service_snapshot_turn(a->service, now_ns, busy);
	cycles = clock_cycles() - begun;
	/* After a slice, and only then, there is another pause. */
	if (turns->pause_cycles == pause || !turns->snapshot)
		return;
	s->slices_cycles += cycles;
	histogram_record(&s->slices, cycles);
}

static void *memory(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		appliance_fail("no memory for checkpoints");
	madvise(at, bytes, MADV_HUGEPAGE);
	memset(at, 0, bytes);
	return at;
}

static struct rte_ring *ring(const char *name)
{
	struct rte_ring *r = rte_ring_create(name, SAVES_BLOCKS * 2, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);

	if (!r)
		appliance_fail("no ring");
	return r;
}

void saves_start(struct saves *s, struct appliance *a, const char *directory)
{
	const struct store_snapshot_options options = {
		.marks = memory(store_snapshot_memory(APPLIANCE_ARENA_BYTES)),
		.copies = memory((size_t)(COPIES_MIB + LOG_MIB) << 20),
		.copies_bytes = (size_t)(COPIES_MIB + LOG_MIB) << 20,
		.log_bytes = (size_t)LOG_MIB << 20,
	};

	*s = (struct saves){ .appliance = a, .directory = directory };
	a->ctx = s;
	appliance_start(a, &options);
	s->snapshot.full = ring("full");
	s->written = ring("written");
	for (unsigned b = 0; b < SAVES_BLOCKS; b++) {
		s->blocks[b].memory = aligned_alloc(CHECKPOINT_ALIGN, CHECKPOINT_BLOCK_MAX);
		if (!s->blocks[b].memory)
			appliance_fail("no memory for blocks");
		memset(s->blocks[b].memory, 0, CHECKPOINT_BLOCK_MAX);
		s->snapshot.blocks[s->snapshot.blocks_count++] = &s->blocks[b];
	}
	a->housekeeping = housekeeping;
}

/* ---- the thread ---- */

static void write_block(struct saves *s, struct service_block *b)
{
	struct star_error err = { 0 };

	if (b->payload_bytes &&
	    ckpt_writer_block(s->writer, b->memory, b->payload_bytes, b->rows, b->deleted, &err) < 0)
		refuse(&err);
}

static void *write_file(void *ctx)
{
	struct saves *s = ctx;
	struct service_block *b;

	while (!s->over && !__atomic_load_n(&s->give_up, __ATOMIC_ACQUIRE)) {
		if (rte_ring_dequeue(s->snapshot.full, (void **)&b) != 0) {
			usleep(LOOK_US);
			continue;
		}
		if (b->last)
			__atomic_store_n(&s->over, true, __ATOMIC_RELEASE);
		write_block(s, b);
		rte_ring_enqueue(s->written, b);
	}
	return NULL;
}

/* Any core but that of the reactor. */
static void start_thread(struct saves *s)
{
	pthread_attr_t attributes;
	cpu_set_t cores;

	CPU_ZERO(&cores);
	for (int core = 0; core < (int)sysconf(_SC_NPROCESSORS_CONF); core++)
		if (core != sched_getcpu())
			CPU_SET(core, &cores);
	pthread_attr_init(&attributes);
	if (CPU_COUNT(&cores))
		pthread_attr_setaffinity_np(&attributes, sizeof(cores), &cores);
	if (pthread_create(&s->thread, &attributes, write_file, s) != 0)
		appliance_fail("no thread");
	pthread_attr_destroy(&attributes);
}

/* ---- one checkpoint ---- */

void saves_begin(struct saves *s, enum store_snapshot_kind kind)
{
	struct star_error err = { 0 };

	s->begun_ns = clock_ns();
	s->parent = kind == STORE_SNAPSHOT_DELTA ? s->kept : 0;
	s->over = s->give_up = false;
	s->slices_cycles = 0;
	if (ckpt_begin(s->directory, ++s->id, s->parent, s->path, &err) < 0)
		refuse(&err);
	s->writer =
		ckpt_writer_create(s->path, "node0-reactor0.star",
				   &(struct ckpt_writer_options){ .header = { .id = s->id,
									      .parent = s->parent,
									      .partitions = APPLIANCE_PARTITIONS } },
				   &err);
	if (!s->writer)
		refuse(&err);
	rte_ring_reset(s->snapshot.full);
	rte_ring_reset(s->written);
	if (service_snapshot_begin(s->appliance->service, kind, &s->snapshot) < 0)
		appliance_fail("no checkpoint can be begun");
	start_thread(s);
	s->under_way = true;
	while (s->appliance->service->snapshots.pending)
		appliance_turn(s->appliance);
}

bool saves_under_way(const struct saves *s)
{
	return s->under_way && !__atomic_load_n(&s->over, __ATOMIC_ACQUIRE);
}

void saves_finish(struct saves *s)
{
	while (saves_under_way(s)) {
		appliance_turn(s->appliance);
		if (service_snapshot_status(&s->snapshot) < 0)
			appliance_fail("a checkpoint was lost");
	}
}

/* The thread has ended. */
static void end(struct saves *s, bool kept)
{
	ckpt_writer_destroy(s->writer);
	service_snapshot_end(s->appliance->service, kept);
	while (s->appliance->service->snapshots.clearing)
		appliance_turn(s->appliance);
	s->under_way = false;
}

struct saves_result saves_keep(struct saves *s)
{
	struct ckpt_manifest manifest = { .id = s->id,
					  .parent = s->parent,
					  .partitions = APPLIANCE_PARTITIONS,
					  .tasks = 1,
					  .reactors = 1,
					  .objects_count = 1,
					  .objects = &s->appliance->spec,
					  .files_count = 1,
					  .files = &s->file };
	struct saves_result result;
	struct star_error err = { 0 };

	pthread_join(s->thread, NULL);
	if (ckpt_writer_finish(s->writer, &s->file, &err) < 0 || ckpt_commit(s->path, &manifest, &err) < 0)
		refuse(&err);
	result = (struct saves_result){ .rows = s->file.rows,
					.bytes = s->file.bytes,
					.whole_ns = clock_ns() - s->begun_ns,
					.slices_cycles = s->slices_cycles };
	if (!s->parent && ckpt_prune(s->directory, &(struct ckpt_pruning){ .keep = 1 }, &err) < 0)
		refuse(&err);
	s->kept = s->id;
	end(s, true);
	return result;
}

void saves_give_up(struct saves *s)
{
	__atomic_store_n(&s->give_up, true, __ATOMIC_RELEASE);
	pthread_join(s->thread, NULL);
	end(s, false);
	ckpt_abandon(s->path);
}
