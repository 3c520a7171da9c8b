/* SPDX-License-Identifier: BSD-3-Clause */
/* A ring whose reader is the disk: how long it waits for it, and what counts as durable. */
#include <string.h>

#include "tests/journal/support.h"
#include "tests/unit.h"

static void fill(struct journal_ring *ring)
{
	while (journal_is_easy(ring))
		CHECK(journal_take(ring, JOURNAL_RUN, 0, 64 << 10));
}

void rings_wait_and_then_give_up(void)
{
	const uint64_t begun = 1000000;
	struct journal_ring *ring = make_ring();
	uint64_t end;

	if (!ring)
		return;
	end = begun + ring->ends[JOURNAL_DISK].wait_ns;
	fill(ring);
	CHECK_UINT(look_until(ring, begun, end), end);
	ring->tail = ring->head;
	CHECK(!journal_is_behind(ring, end));
	fill(ring);
	CHECK_UINT(look_until(ring, end, end + 2 * ring->ends[JOURNAL_DISK].wait_ns),
		   end + ring->ends[JOURNAL_DISK].wait_ns + 1000000);
	CHECK(ring->lost);
	CHECK_UINT(ring->waits, 2);
	journal_ring_destroy(ring);
}

static void write_outcome(struct journal_ring *ring)
{
	uint8_t *to = journal_take(ring, JOURNAL_OUTCOME, 0, 64);

	if (CHECK(to))
		memset(to, 1, 64);
}

/* What the reader has counts up to the last mark in it, also when there are more marks than are remembered. */
void what_is_durable_ends_at_a_mark(void)
{
	enum { MARKS = 3 * JOURNAL_GATE_MARKS };
	struct journal_ring *ring = make_ring();
	uint64_t before, at;

	if (!ring)
		return;
	CHECK_UINT(journal_durable(ring), UINT64_MAX);
	CHECK_UINT(journal_durable_at(ring), 0);
	write_outcome(ring);
	journal_gate_begin(ring, 1u << JOURNAL_DISK);
	before = journal_durable_at(ring);
	CHECK_UINT(before, ring->head);
	journal_free_to(ring, JOURNAL_DISK, ring->head);
	CHECK(journal_durable(ring) < before); /* there is no mark behind it */
	journal_mark(ring);
	CHECK(journal_durable(ring) < before); /* the reader does not have it */
	journal_free_to(ring, JOURNAL_DISK, ring->head - 1);
	CHECK(journal_durable(ring) < before);
	journal_free_to(ring, JOURNAL_DISK, ring->head);
	CHECK(journal_durable(ring) >= before);
	for (unsigned i = 0; i < MARKS; i++) {
		write_outcome(ring);
		at = journal_durable_at(ring);
		journal_mark(ring);
		if (i == MARKS / 2)
			before = at;
	}
	CHECK(journal_durable(ring) < before);
	journal_free_to(ring, JOURNAL_DISK, at);
	CHECK(journal_durable(ring) < at);
	journal_free_to(ring, JOURNAL_DISK, ring->head);
	CHECK_UINT(journal_durable(ring), ring->marked);
	/* Nobody reads any more: nothing waits. */
	ring->ends[JOURNAL_DISK].off = true;
	CHECK_UINT(journal_durable(ring), UINT64_MAX);
	journal_ring_destroy(ring);
}

/* While replies wait the reactor goes on, as long as there is room; a reader that does not come on is given up. */
void replies_do_not_wait_for_ever(void)
{
	const uint64_t begun = 1000000, step = 1000000;
	struct journal_ring *ring = make_ring();
	uint64_t now = begun;

	if (!ring)
		return;
	journal_gate_begin(ring, 1u << JOURNAL_DISK);
	write_outcome(ring);
	journal_mark(ring);
	for (; !ring->lost && now < begun + 2 * ring->ends[JOURNAL_DISK].wait_ns; now += step) {
		journal_look(ring, now);
		CHECK(!journal_is_behind(ring, now));
		journal_gate_wait(ring, now);
	}
	CHECK(now > begun + ring->ends[JOURNAL_DISK].wait_ns &&
	      now <= begun + ring->ends[JOURNAL_DISK].wait_ns + JOURNAL_LAG_NS + 10 * step);
	CHECK_UINT(journal_durable(ring), UINT64_MAX);
	journal_ring_destroy(ring);
}

/* With a lease somebody else says whether what was written last is there; without, it is lost, and nothing waits. */
void lost_rings_hold_what_they_have_not_written(void)
{
	for (unsigned leased = 0; leased < 2; leased++) {
		struct journal_ring *ring = make_ring();
		uint64_t before;

		if (!ring)
			return;
		journal_gate_begin(ring, 1u << JOURNAL_DISK);
		write_outcome(ring);
		before = journal_durable_at(ring);
		journal_mark(ring);
		ring->lease_ns = leased;
		while (journal_take(ring, JOURNAL_OUTCOME, 0, 1 << 16))
			;
		CHECK(ring->lost);
		journal_mark(ring);
		CHECK_UINT(journal_durable_at(ring), leased ? UINT64_MAX : 0);
		journal_free_to(ring, JOURNAL_DISK, ring->head);
		if (leased)
			CHECK(journal_durable(ring) >= before && journal_durable(ring) < ring->head);
		else
			CHECK_UINT(journal_durable(ring), UINT64_MAX);
		journal_ring_destroy(ring);
	}
}

/* A machine that was paused, for longer than a ring waits: that is not a disk that does not answer. */
void time_without_a_look_counts_little(void)
{
	const uint64_t begun = 1000000;
	struct journal_ring *ring = make_ring();
	uint64_t back, left;

	if (!ring)
		return;
	back = begun + 100 * ring->ends[JOURNAL_DISK].wait_ns;
	left = ring->ends[JOURNAL_DISK].wait_ns - JOURNAL_LOOK_NS;
	fill(ring);
	CHECK(journal_is_behind(ring, begun));
	CHECK(journal_is_behind(ring, back));
	CHECK(!ring->lost);
	/* It waits on for what is left of its time. */
	CHECK_UINT(look_until(ring, back, back + 2 * ring->ends[JOURNAL_DISK].wait_ns), back + left + 1000000);
	CHECK(ring->lost);
	CHECK_UINT(ring->waits, 1);
	journal_ring_destroy(ring);
}
