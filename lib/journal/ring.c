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
		ring->slow = false;
	} else if (now_ns - ring->lag_since_ns > JOURNAL_LAG_NS) {
		ring->slow = true;
	}
	ring->slow |= ring->fenced;
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
	else if (now_ns > ring->looked_ns)
		ring->waited_ns +=
			now_ns - ring->looked_ns < JOURNAL_LOOK_NS ? now_ns - ring->looked_ns : JOURNAL_LOOK_NS;
	ring->looked_ns = now_ns;
	if (__atomic_load_n(&ring->off, __ATOMIC_RELAXED) || ring->waited_ns > ring->wait_ns) {
		ring->looked_ns = ring->waited_ns = 0;
		ring_lose(ring);
		return !ring->passes;
	}
	return true;
}

void journal_mark(struct journal_ring *ring)
{
	if (ring->marked == ring->head)
		return;
	journal_take(ring, JOURNAL_MARK, 0, 0);
	ring->marked = ring->head;
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
	ring->marked = ring->head;
	/* Between these two nobody takes the new position for that of the checkpoint before. */
	__atomic_store_n(&ring->instant_id, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ring->instant_at, at, __ATOMIC_RELEASE);
	__atomic_store_n(&ring->instant_id, id, __ATOMIC_RELEASE);
	journal_publish(ring);
}
