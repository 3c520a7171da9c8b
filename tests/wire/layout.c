/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/layout.h"

#include <math.h>
#include <stdio.h>

#include "base/prng.h"
#include "tests/wire/cases.h"

/* Every partition of a layout, against the ranges that layout_first gives. */
static bool check_layout(uint32_t partitions, uint32_t reactors)
{
	uint32_t index = 0;

	if (!CHECK_UINT(layout_first(partitions, reactors, 0), 0) ||
	    !CHECK_UINT(layout_first(partitions, reactors, reactors), partitions))
		return false;
	for (uint32_t p = 0; p < partitions; p++) {
		while (layout_first(partitions, reactors, index + 1) <= p)
			index++; /* reactors without a partition, where there are more reactors than partitions */
		if (layout_owner(partitions, reactors, p) != index)
			return unit_fail(__FILE__, __LINE__, "partition %u of %u, %u reactors: owner %u, not %u", p,
					 partitions, reactors, layout_owner(partitions, reactors, p), index);
	}
	return true;
}

void owner_is_the_inverse_of_first(void)
{
	struct prng prng;

	for (uint32_t partitions = 1; partitions <= 4096; partitions *= 2)
		for (uint32_t reactors = 1; reactors <= 80; reactors++)
			if (!check_layout(partitions, reactors))
				return;
	check_layout(16384, 65536);
	check_layout(1, WIRE_NODES_MAX * WIRE_REACTORS_MAX);
	check_layout(WIRE_PARTITIONS_MAX, WIRE_NODES_MAX * WIRE_REACTORS_MAX);
	prng_seed(&prng, 11);
	for (int i = 0; i < 40; i++)
		if (!check_layout(1u << prng_below(&prng, 17), 1 + prng_below(&prng, 1u << prng_below(&prng, 17))))
			return;
}

void hashes_fall_into_partitions_by_their_upper_bits(void)
{
	struct prng prng;

	prng_seed(&prng, 12);
	for (uint32_t log2 = 0; log2 <= 20; log2++)
		for (int i = 0; i < 1000; i++) {
			const uint64_t hash = prng_next(&prng);
			const uint64_t expected = log2 ? hash >> (64 - log2) : 0;

			if (!CHECK_UINT(layout_partition(hash, 1u << log2), expected))
				return;
		}
	CHECK_UINT(layout_partition(UINT64_MAX, WIRE_PARTITIONS_MAX), WIRE_PARTITIONS_MAX - 1);
	CHECK_UINT(layout_partition(UINT64_MAX, 1), 0);
}

/* Ids 0, 1, 2, ... of a table over any number of reactors, within five standard deviations of a fair throw and the
 * rounding of the layout: ps-lite puts all of them on server 0. */
void small_consecutive_ids_spread_evenly(void)
{
	static const char *const names[] = { "words", "a", "embedding/users" };
	enum { IDS = 64000, PARTITIONS = 16384 };

	for (uint32_t reactors = 1; reactors <= WIRE_REACTORS_MAX; reactors++)
		for (unsigned n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
			const uint64_t name = hash_name(names[n]);
			unsigned counts[WIRE_REACTORS_MAX] = { 0 };
			const double fair = (double)IDS / reactors;

			for (uint64_t id = 0; id < IDS; id++)
				counts[layout_owner(PARTITIONS, reactors,
						    layout_partition(hash_key(name, id), PARTITIONS))]++;
			for (uint32_t r = 0; r < reactors; r++)
				if (!CHECK_NEAR(counts[r], fair, 5 * sqrt(fair) + IDS / PARTITIONS + 1)) {
					printf("# table %s, reactor %u of %u\n", names[n], r, reactors);
					return;
				}
		}
}
