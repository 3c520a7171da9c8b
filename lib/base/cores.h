/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that is excluded from core files: parameters, which would make them as large as they are; packets, which
 * workers have sent; and tables of connections beyond the first entries. It excludes whole pages. For the control path.
 */
#ifndef BASE_CORES_H
#define BASE_CORES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

/* Size that is kept of a table whose first entries are used first. */
enum { BASE_CORES_KEEP = 2 << 20 };

static inline void base_cores_without(void *memory, size_t bytes, size_t page)
{
	const uintptr_t from = ((uintptr_t)memory + page - 1) & ~(uintptr_t)(page - 1);
	const uintptr_t to = ((uintptr_t)memory + bytes) & ~(uintptr_t)(page - 1);

	if (memory && to > from)
		(void)madvise((void *)from, to - from, MADV_DONTDUMP);
}

/* Excludes everything but the first entries of a table in ordinary memory. */
static inline void base_cores_without_rest(void *table, size_t bytes)
{
	if (table && bytes > BASE_CORES_KEEP)
		base_cores_without((char *)table + BASE_CORES_KEEP, bytes - BASE_CORES_KEEP, 4096);
}

#endif
