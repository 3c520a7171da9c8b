/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The same memory twice, all of it there from now on: a reactor must not wait for the kernel to find some. */
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
	madvise(memory, 2 * bytes, MADV_DONTDUMP); /* rows */
	return memory;
}

struct journal_ring *journal_ring_create(uint64_t bytes, uint64_t wait_ns, struct star_error *err)
{
	struct journal_ring *ring = aligned_alloc(64, (sizeof(*ring) + 63) / 64 * 64);
	uint64_t size = JOURNAL_RING_MIN;

	while (size < bytes)
		size *= 2;
	if (ring) {
		*ring = (struct journal_ring){ .bytes = size, .wait_ns = wait_ns, .memory = map_twice(size) };
		if (ring->memory)
			return ring;
	}
	free(ring);
	star_error_set(err, -ENOMEM, "no memory for the journal: %llu MiB of each reactor (journal.ring_mib)",
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
	struct journal_ring fresh = { .memory = ring->memory,
				      .bytes = ring->bytes,
				      .wait_ns = ring->wait_ns,
				      .moved = ring->moved,
				      .moved_ctx = ring->moved_ctx,
				      .head = ring->head,
				      .tail_seen = ring->head,
				      .marked = ring->head,
				      .published = ring->head,
				      .tail = ring->head,
				      .changes = ring->changes,
				      .waits = ring->waits };

	*ring = fresh;
}

static bool has_lease(const struct journal_ring *ring)
{
	return __atomic_load_n(&ring->lease_ns, __ATOMIC_ACQUIRE) != 0;
}

static void ring_lose(struct journal_ring *ring)
{
	__atomic_store_n(&ring->lost, true, __ATOMIC_RELEASE);
	ring->passes = !has_lease(ring);
	ring->slow = !ring->passes;
}

bool journal_has_room(struct journal_ring *ring, uint64_t bytes)
{
	ring->tail_seen = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	if (ring->head + bytes - ring->tail_seen <= ring->bytes)
		return true;
	ring_lose(ring);
	return false;
}

void journal_look(struct journal_ring *ring, uint64_t now_ns)
{
	const uint64_t lease_ns = __atomic_load_n(&ring->lease_ns, __ATOMIC_ACQUIRE);

	ring->fenced = lease_ns && (ring->lost || now_ns > lease_ns);
	ring->tail_seen = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	if (!ring->lag_since_ns || ring->tail_seen >= ring->lag_at) {
		ring->lag_since_ns = ring->published != ring->tail_seen ? now_ns : 0;
		ring->lag_at = ring->published;
		ring->slow = ring->gate.late = false;
	} else if (now_ns - ring->lag_since_ns > JOURNAL_LAG_NS) {
		ring->slow = !ring->gate.on;
		ring->gate.late = true;
	}
	ring->slow |= ring->fenced;
}

/* One look more at a reader that does not come on. True: that was for too long. */
static bool has_waited(const struct journal_ring *ring, uint64_t *looked_ns, uint64_t *waited_ns, uint64_t now_ns)
{
	if (*looked_ns && now_ns > *looked_ns)
		*waited_ns += now_ns - *looked_ns < JOURNAL_LOOK_NS ? now_ns - *looked_ns : JOURNAL_LOOK_NS;
	*looked_ns = now_ns;
	if (!__atomic_load_n(&ring->off, __ATOMIC_RELAXED) && *waited_ns <= ring->wait_ns)
		return false;
	*looked_ns = *waited_ns = 0;
	return true;
}

bool journal_is_behind_now(struct journal_ring *ring, uint64_t now_ns)
{
	journal_look(ring, now_ns);
	if (ring->head - ring->tail_seen + JOURNAL_SLICE_MAX <= ring->bytes && !ring->slow) {
		ring->looked_ns = ring->waited_ns = 0;
		return false;
	}
	if (ring->fenced) { /* somebody else decides how long */
		ring->looked_ns = ring->waited_ns = 0;
		return true;
	}
	if (!ring->looked_ns)
		__atomic_store_n(&ring->waits, ring->waits + 1, __ATOMIC_RELAXED);
	if (!has_waited(ring, &ring->looked_ns, &ring->waited_ns, now_ns))
		return true;
	ring_lose(ring);
	return !ring->passes;
}

void journal_free_to(struct journal_ring *ring, uint64_t position)
{
	__atomic_store_n(&ring->tail, position, __ATOMIC_RELEASE);
	if (ring->moved)
		ring->moved(ring->moved_ctx);
}

/* ---- what is durable ---- */

static void gate_mark(struct journal_gate *gate, uint64_t position)
{
	if (gate->count < JOURNAL_GATE_MARKS)
		gate->count++;
	gate->marks[(gate->first + gate->count - 1) % JOURNAL_GATE_MARKS] = position;
}

/* Everything up to the head is behind a mark now. */
static void note_mark(struct journal_ring *ring)
{
	ring->marked = ring->head;
	if (ring->gate.on && !ring->lost)
		gate_mark(&ring->gate, ring->head);
}

void journal_gate_begin(struct journal_ring *ring)
{
	ring->gate = (struct journal_gate){ .on = true };
	gate_mark(&ring->gate, ring->marked);
}

void journal_gate_wait(struct journal_ring *ring, uint64_t now_ns)
{
	struct journal_gate *gate = &ring->gate;

	if (!gate->late || ring->fenced || ring->lost)
		gate->looked_ns = gate->waited_ns = 0;
	else if (has_waited(ring, &gate->looked_ns, &gate->waited_ns, now_ns))
		ring_lose(ring);
}

uint64_t journal_durable(struct journal_ring *ring)
{
	struct journal_gate *gate = &ring->gate;
	const uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);

	if (!gate->on || ring->passes || __atomic_load_n(&ring->off, __ATOMIC_RELAXED))
		return UINT64_MAX;
	for (; gate->count && gate->marks[gate->first] <= tail; gate->count--) {
		gate->durable = gate->marks[gate->first];
		gate->first = (gate->first + 1) % JOURNAL_GATE_MARKS;
	}
	return gate->durable;
}

uint64_t journal_durable_at(const struct journal_ring *ring)
{
	if (!ring->gate.on || ring->passes)
		return 0;
	return ring->lost ? UINT64_MAX : ring->head; /* lost: what was written last may not be there */
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
	/* Between these two nobody takes the new position for that of the checkpoint before. */
	__atomic_store_n(&ring->instant_id, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ring->instant_at, at, __ATOMIC_RELEASE);
	__atomic_store_n(&ring->instant_id, id, __ATOMIC_RELEASE);
	journal_publish(ring);
}
