/* SPDX-License-Identifier: BSD-3-Clause */
/* The blocks of a Bloom filter: their number, and which hashes each has, follow from the table's definition. */
#include "wire/checkpoint.h"

#include <math.h>
#include <string.h>

#include "tensor/elementary.h"
#include "wire/object.h"

#define LN2 0.69314718055994531

uint32_t wire_checkpoint_bloom_blocks(const struct object_spec *spec)
{
	const double keys = (double)spec->filter_keys, error = (double)spec->filter_error;
	const double counters = ceil(keys * -tensor_elementary_log(error) / (LN2 * LN2));
	const double blocks = ceil(counters * checkpoint_bloom_width(spec->filter_frequency) / CHECKPOINT_BLOOM_BYTES);

	if (spec->filter != FILTER_BLOOM || !(blocks <= CHECKPOINT_BLOOM_BLOCKS_MAX))
		return 0;
	return blocks < 1 ? 1 : (uint32_t)blocks;
}

bool wire_checkpoint_bloom_hashes(const struct object_spec *spec, uint64_t number, uint64_t *first, uint64_t *last)
{
	const uint64_t blocks = wire_checkpoint_bloom_blocks(spec);

	if (number >= blocks)
		return false;
	*first = ((number << 32) + blocks - 1) / blocks << 32;
	*last = ((((number + 1) << 32) + blocks - 1) / blocks << 32) - 1;
	return true;
}

uint32_t wire_checkpoint_bloom_counter(const uint8_t *counter, unsigned width)
{
	uint16_t two;
	uint32_t four;

	switch (width) {
	case 1:
		return *counter;
	case 2:
		memcpy(&two, counter, sizeof(two));
		return two;
	}
	memcpy(&four, counter, sizeof(four));
	return four;
}

bool wire_checkpoint_bloom_possible(const struct object_spec *spec, const void *block)
{
	const unsigned width = checkpoint_bloom_width(spec->filter_frequency);
	uint64_t number;
	bool possible;

	memcpy(&number, block, sizeof(number));
	possible = number < wire_checkpoint_bloom_blocks(spec);
	for (unsigned at = 0; at < CHECKPOINT_BLOOM_BYTES; at += width)
		possible &= wire_checkpoint_bloom_counter((const uint8_t *)block + sizeof(number) + at, width) <=
			    spec->filter_frequency;
	return possible;
}
