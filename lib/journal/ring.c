/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "wire/pair.h"

/* Maps the same memory twice, and makes it resident: a reactor must not wait for page faults. */
static uint8_t *map_twice(uint64_t bytes)
{
	const int fd = memfd_create("journal", MFD_CLOEXEC);
	uint8_t *memory = MAP_FAILED;

	if (fd < 0)
		return NULL;
	if (ftruncate(fd, (off_t)bytes) == 0)
		memory = mmap(NULL, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory != MAP_FAILED &&
	    (mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) == MAP_FAILED ||
	     mmap(memory + bytes, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) ==
		     MAP_FAILED)) {
		munmap(memory, 2 * bytes);
		memory = MAP_FAILED;
	}
	close(fd);
	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, 2 * bytes, MADV_DONTDUMP); /* core dumps must not contain rows */
	return memory;
}

struct journal_ring *journal_ring_create(uint64_t bytes, uint64_t wait_ns, struct star_error *err)
{
	struct journal_ring *ring = aligned_alloc(64, (sizeof(*ring) + 63) / 64 * 64);
	uint64_t size = JOURNAL_RING_MIN;

	while (size < bytes)
		size *= 2;
	if (ring) {
		*ring = (struct journal_ring){ .bytes = size, .memory = map_twice(size) };
		journal_reader_begin(ring, JOURNAL_DISK, wait_ns);
		if (ring->memory)
			return ring;
	}
	free(ring);
	star_error_set(
		err, -ENOMEM,
		"not enough memory for the journal: lower journal.ring_mib, which takes %llu MiB of each reactor",
		(unsigned long long)(size >> 20));
	return NULL;
}

void journal_ring_destroy(struct journal_ring *ring)
{
	if (!ring)
		return;
	munmap(ring->memory, 2 * ring->bytes);
	free(ring);
}

void journal_ring_restart(struct journal_ring *ring)
{
	const struct journal_end *disk = &ring->ends[JOURNAL_DISK];
	struct journal_ring fresh = {
		.memory = ring->memory,
		.bytes = ring->bytes,
		.moved = ring->moved,
		.moved_ctx = ring->moved_ctx,
		.head = ring->head,
		.tail_seen = ring->head,
		.marked = ring->head,
		.published = ring->head,
		.tail = ring->head,
		.changes = ring->changes,
		.waits = ring->waits,
		.ends[JOURNAL_DISK] = { .at = disk->at, .off = disk->off, .lost = disk->lost, .passes = disk->passes }
	};

	*ring = fresh;
}

/* ---- readers ---- */

/* Moves the tail to the position that all readers have reached. Two readers may do this at once; the one with the lower
 * result does not move it back. */
static void move_tail(struct journal_ring *ring)
{
	uint64_t least = UINT64_MAX, tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);

	for (unsigned r = 0; r < JOURNAL_READERS; r++) {
		const struct journal_end *end = &ring->ends[r];
		const uint64_t at = __atomic_load_n(&end->at, __ATOMIC_SEQ_CST);

		if (__atomic_load_n(&end->there, __ATOMIC_SEQ_CST) && at < least)
			least = at;
	}
	while (least != UINT64_MAX && least > tail &&
	       !__atomic_compare_exchange_n(&ring->tail, &tail, least, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		;
}

void journal_free_to(struct journal_ring *ring, enum journal_reader reader, uint64_t position)
{
	__atomic_store_n(&ring->ends[reader].at, position, __ATOMIC_SEQ_CST);
	move_tail(ring);
	if (ring->moved)
		ring->moved(ring->moved_ctx, reader);
}

void journal_reader_begin(struct journal_ring *ring, enum journal_reader reader, uint64_t wait_ns)
{
	struct journal_end *end = &ring->ends[reader];

	journal_publish(ring); /* nothing is added to the previous record any more */
	end->wait_ns = wait_ns;
	end->off = end->lost = end->passes = false;
	__atomic_store_n(&end->at, ring->head, __ATOMIC_SEQ_CST);
	__atomic_store_n(&end->there, true, __ATOMIC_SEQ_CST);
}

void journal_reader_end(struct journal_ring *ring, enum journal_reader reader)
{
	__atomic_store_n(&ring->ends[reader].there, false, __ATOMIC_SEQ_CST);
	move_tail(ring);
}

void journal_reader_cut_off(struct journal_ring *ring, enum journal_reader reader)
{
	__atomic_store_n(&ring->ends[reader].there, false, __ATOMIC_SEQ_CST);
	__atomic_store_n(&ring->ends[reader].lost, true, __ATOMIC_RELEASE);
}

static bool has_lease(const struct journal_ring *ring)
{
	return __atomic_load_n(&ring->lease_ns, __ATOMIC_ACQUIRE) != 0;
}

/* A reader is lost. While there is a lease, lib/node decides how to go on without the standby; or the other reader may
 * be what replies wait for next. If there is a standby, the disk is not needed: its thread may hang, and then cannot
 * even report its end. */
static void lose_reader(struct journal_ring *ring, enum journal_reader reader)
{
	struct journal_end *end = &ring->ends[reader];
	bool left = false;

	__atomic_store_n(&end->there, false, __ATOMIC_SEQ_CST);
	for (unsigned r = 0; r < JOURNAL_READERS; r++)
		left |= ring->ends[r].there;
	end->passes = left ? reader == JOURNAL_DISK : !has_lease(ring);
	/* Before anything that it reads is overwritten. */
	__atomic_store_n(&end->lost, true, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	move_tail(ring);
	if (!left) {
		__atomic_store_n(&ring->lost, true, __ATOMIC_RELEASE);
		ring->passes = end->passes;
	}
	ring->fenced |= has_lease(ring) && reader == JOURNAL_LINK;
	ring->slow = ring->fenced || (!left && !ring->passes);
}

bool journal_has_room(struct journal_ring *ring, uint64_t bytes)
{
	ring->tail_seen = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	if (ring->head + bytes - ring->tail_seen <= ring->bytes)
		return true;
	for (unsigned r = 0; r < JOURNAL_READERS; r++)
		if (ring->ends[r].there && journal_reader_at(ring, r) + ring->bytes < ring->head + bytes)
			lose_reader(ring, r);
	move_tail(ring); /* a reader may have advanced without having moved the tail yet */
	ring->tail_seen = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	return !ring->lost;
}

/* Whether replies wait for this reader. */
static bool is_gated(const struct journal_ring *ring, unsigned reader)
{
	return ring->gate.on && ring->gate.readers >> reader & 1;
}

/* Some reader has not reached lag_at in time. If replies wait for it, it does not hold up the reactor. */
static void look_who_is_late(struct journal_ring *ring)
{
	bool slow = false, late = false;

	for (unsigned r = 0; r < JOURNAL_READERS; r++) {
		const struct journal_end *end = &ring->ends[r];

		if (!end->there || journal_reader_at(ring, r) >= ring->lag_at)
			continue;
		if (is_gated(ring, r))
			late = true;
		else if (__atomic_load_n(&end->off, __ATOMIC_RELAXED))
			lose_reader(ring, r);
		else
			slow = true;
	}
	ring->slow = slow;
	ring->gate.late = late;
}

void journal_look(struct journal_ring *ring, uint64_t now_ns)
{
	const uint64_t lease_ns = __atomic_load_n(&ring->lease_ns, __ATOMIC_ACQUIRE);

	ring->fenced = lease_ns && (ring->lost || ring->ends[JOURNAL_LINK].lost || now_ns > lease_ns);
	ring->tail_seen = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	if (!ring->lag_since_ns || ring->tail_seen >= ring->lag_at) {
		ring->lag_since_ns = ring->published != ring->tail_seen ? now_ns : 0;
		ring->lag_at = ring->published;
		ring->slow = ring->gate.late = false;
	} else if (now_ns - ring->lag_since_ns > JOURNAL_LAG_NS) {
		look_who_is_late(ring);
	}
	ring->slow |= ring->fenced;
}

/* Counts another check in which a reader has not advanced. */
static void count_wait(uint64_t *looked_ns, uint64_t *waited_ns, uint64_t now_ns)
{
	if (*looked_ns && now_ns > *looked_ns)
		*waited_ns += now_ns - *looked_ns < JOURNAL_LOOK_NS ? now_ns - *looked_ns : JOURNAL_LOOK_NS;
	*looked_ns = now_ns;
}

static bool is_over(const struct journal_end *end, uint64_t waited_ns)
{
	return __atomic_load_n(&end->off, __ATOMIC_RELAXED) || waited_ns > end->wait_ns;
}

/* Gives up those readers for which the reactor has waited long enough. */
static bool give_up(struct journal_ring *ring)
{
	bool some = false;

	for (unsigned r = 0; r < JOURNAL_READERS; r++) {
		const struct journal_end *end = &ring->ends[r];
		const uint64_t at = journal_reader_at(ring, r);
		const bool late = ring->slow && at < ring->lag_at && !is_gated(ring, r);

		if (end->there && (late || at + ring->bytes < ring->head + JOURNAL_SLICE_MAX) &&
		    is_over(end, ring->waited_ns)) {
			lose_reader(ring, r);
			some = true;
		}
	}
	return some;
}

static bool is_easy_now(const struct journal_ring *ring)
{
	return ring->head - ring->tail_seen + JOURNAL_SLICE_MAX <= ring->bytes && !ring->slow;
}

bool journal_is_behind_now(struct journal_ring *ring, uint64_t now_ns)
{
	journal_look(ring, now_ns);
	if (is_easy_now(ring)) {
		ring->looked_ns = ring->waited_ns = 0;
		return false;
	}
	if (ring->fenced) { /* lib/node decides how long */
		ring->looked_ns = ring->waited_ns = 0;
		return true;
	}
	if (!ring->looked_ns)
		__atomic_store_n(&ring->waits, ring->waits + 1, __ATOMIC_RELAXED);
	count_wait(&ring->looked_ns, &ring->waited_ns, now_ns);
	if (!give_up(ring))
		return true;
	ring->looked_ns = ring->waited_ns = 0;
	if (ring->lost)
		return !ring->passes;
	journal_look(ring, now_ns);
	return !is_easy_now(ring);
}

/* ---- what is durable ---- */

static void gate_mark(struct journal_gate *gate, uint64_t position)
{
	if (gate->count < JOURNAL_GATE_MARKS)
		gate->count++;
	gate->marks[(gate->first + gate->count - 1) % JOURNAL_GATE_MARKS] = position;
}

/* A mark now covers everything up to the head. */
static void note_mark(struct journal_ring *ring)
{
	ring->marked = ring->head;
	if (ring->gate.on && !ring->lost)
		gate_mark(&ring->gate, ring->head);
}

void journal_gate_begin(struct journal_ring *ring, unsigned readers)
{
	ring->gate = (struct journal_gate){ .on = true,
					    .readers = (uint8_t)readers,
					    .durable = ring->gate.on ? ring->gate.durable : 0 };
	gate_mark(&ring->gate, ring->marked);
}

void journal_gate_end(struct journal_ring *ring)
{
	ring->gate = (struct journal_gate){ .on = false };
}

void journal_gate_wait(struct journal_ring *ring, uint64_t now_ns)
{
	struct journal_gate *gate = &ring->gate;
	bool over = false;

	if (!gate->late || ring->fenced || ring->lost) {
		gate->looked_ns = gate->waited_ns = 0;
		return;
	}
	count_wait(&gate->looked_ns, &gate->waited_ns, now_ns);
	for (unsigned r = 0; r < JOURNAL_READERS; r++)
		if (is_gated(ring, r) && ring->ends[r].there && journal_reader_at(ring, r) < ring->lag_at &&
		    is_over(&ring->ends[r], gate->waited_ns)) {
			lose_reader(ring, r);
			over = true;
		}
	if (over)
		gate->looked_ns = gate->waited_ns = 0;
}

/* The position reached by the readers that replies wait for, and that still read. */
static uint64_t gated_to(const struct journal_ring *ring)
{
	uint64_t least = UINT64_MAX;

	for (unsigned r = 0; r < JOURNAL_READERS; r++) {
		const struct journal_end *end = &ring->ends[r];
		const uint64_t at = journal_reader_at(ring, r);

		if (is_gated(ring, r) && !end->passes && !__atomic_load_n(&end->off, __ATOMIC_RELAXED) && at < least)
			least = at;
	}
	return least;
}

uint64_t journal_durable(struct journal_ring *ring)
{
	struct journal_gate *gate = &ring->gate;
	const uint64_t at = gated_to(ring);

	if (at == UINT64_MAX)
		return at;
	for (; gate->count && gate->marks[gate->first] <= at; gate->count--) {
		gate->durable = gate->covered = gate->marks[gate->first];
		gate->first = (gate->first + 1) % JOURNAL_GATE_MARKS;
	}
	return gate->durable;
}

uint64_t journal_covered(struct journal_ring *ring)
{
	return journal_durable(ring) == UINT64_MAX ? UINT64_MAX : ring->gate.covered;
}

uint64_t journal_durable_at(const struct journal_ring *ring)
{
	if (gated_to(ring) == UINT64_MAX)
		return 0;
	return ring->lost ? UINT64_MAX : ring->head; /* lost: the last records may not be there */
}

/* ---- marks ---- */

void journal_mark(struct journal_ring *ring)
{
	if (ring->marked == ring->head)
		return;
	journal_take(ring, JOURNAL_MARK, 0, 0);
	note_mark(ring);
	journal_publish(ring);
}

void journal_instant(struct journal_ring *ring, uint64_t id)
{
	struct journal_instant *instant;
	const uint64_t at = ring->head;

	instant = journal_take(ring, JOURNAL_INSTANT, 0, sizeof(*instant));
	if (!instant)
		return;
	instant->id = id;
	note_mark(ring);
	if (id == PAIR_INSTANT) { /* the last checkpoint's instant must stay known */
		journal_publish(ring);
		return;
	}
	/* Between these two stores no reader may take the new position for that of the previous checkpoint. */
	__atomic_store_n(&ring->instant_id, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ring->instant_at, at, __ATOMIC_RELEASE);
	__atomic_store_n(&ring->instant_id, id, __ATOMIC_RELEASE);
	journal_publish(ring);
}
