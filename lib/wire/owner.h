/* SPDX-License-Identifier: BSD-3-Clause */
/* Which reactor has a row of a table or variable. Pure. */
#ifndef WIRE_OWNER_H
#define WIRE_OWNER_H

#include "wire/layout.h"
#include "wire/object.h"

/* Counted over the whole cluster. */
static inline uint32_t wire_key_owner(uint32_t partitions, uint32_t reactors, const struct object_spec *spec,
				      uint64_t name_hash, uint64_t key)
{
	const uint64_t hash = hash_key(name_hash, object_partition_key(spec, key));

	return layout_owner(partitions, reactors, layout_partition(hash, partitions));
}

#endif
