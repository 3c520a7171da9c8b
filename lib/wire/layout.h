/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layout: which reactor owns which partition. partition = hash >> shift, with hash of base/hash.h and a power of
 * two of partitions that never changes in a cluster's life. Partitions are given to reactors in contiguous ranges, in
 * the order of nodes and of reactors within a node; an epoch numbers the layouts. Pure data.
 */
#ifndef WIRE_LAYOUT_H
#define WIRE_LAYOUT_H

#include <stdint.h>

#include "base/hash.h"
#include "wire/frame.h"

/* log2 of the partitions, to the shift of a hash. */
static inline unsigned layout_shift(uint32_t partitions)
{
	return 64 - (unsigned)__builtin_ctz(partitions);
}

static inline uint32_t layout_partition(uint64_t hash, uint32_t partitions)
{
	return partitions == 1 ? 0 : (uint32_t)(hash >> layout_shift(partitions));
}

/* The first partition of reactor `index` of `reactors` in the whole cluster; that of index == reactors is the end. */
static inline uint32_t layout_first(uint32_t partitions, uint32_t reactors, uint32_t index)
{
	return (uint32_t)((uint64_t)partitions * index / reactors);
}

/* The reactor, counted over the whole cluster, that owns a partition: the inverse of layout_first. */
static inline uint32_t layout_owner(uint32_t partitions, uint32_t reactors, uint32_t partition)
{
	return (uint32_t)((((uint64_t)partition + 1) * reactors - 1) >> __builtin_ctz(partitions));
}

#endif
