/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/journal/support.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit.h"

enum { LOOK_US = 100, WAIT_US = 20000000 };

struct journal_life life_of(const char *directory, uint32_t number)
{
	return (struct journal_life){ .directory = directory,
				      .number = number,
				      .reactors = 1,
				      .partitions = 64,
				      .incarnation = 77,
				      .story = number,
				      .segment_bytes = SEGMENT,
				      .limit_bytes = 1 << 30 };
}

void settle(struct journal_ring *ring)
{
	const uint64_t until_us = clock_us() + WAIT_US;

	while (__atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) != ring->published && clock_us() < until_us)
		usleep(LOOK_US);
	CHECK_UINT(ring->tail, ring->published);
}

struct journal_ring *make_ring(void)
{
	struct star_error err = { 0 };
	struct journal_ring *ring = journal_ring_create(1, UINT64_C(60000000000), &err);

	if (!CHECK(ring))
		printf("# %s\n", err.text);
	return ring;
}

uint64_t look_until(struct journal_ring *ring, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t at = from_ns;

	while (at < to_ns && journal_is_behind(ring, at))
		at += 1000000;
	return at < to_ns ? at : to_ns;
}
