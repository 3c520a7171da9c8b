/* SPDX-License-Identifier: BSD-3-Clause */
#include "secure/memory.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Precedes the memory that is returned, which keeps its alignment for any type. */
struct header {
	_Alignas(64) size_t mapped;
};

void *secure_alloc(size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct header *header;
	size_t mapped;

	if (bytes > SIZE_MAX / 2)
		return NULL;
	mapped = (sizeof(*header) + bytes + page - 1) / page * page;
	header = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (header == MAP_FAILED)
		return NULL;
	if (madvise(header, mapped, MADV_DONTDUMP) < 0) {
		munmap(header, mapped);
		return NULL;
	}
	/* Pages are locked when they are touched; a worker's limit may be too low: docs/security.rst. */
	(void)mlock2(header, mapped, MLOCK_ONFAULT);
	header->mapped = mapped;
	return header + 1;
}

void secure_free(void *memory)
{
	struct header *header = memory;
	size_t mapped;

	if (!memory)
		return;
	header--;
	mapped = header->mapped;
	explicit_bzero(header, mapped);
	munmap(header, mapped);
}
