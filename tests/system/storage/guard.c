/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An unmapped page behind each large block of aligned_alloc: preloaded into a starserver that no sanitizer watches, so
 * that a write beyond one ends it, where the slack of malloc's mappings would take it. At its end the process says how
 * many blocks there were.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))
enum { LEAST = 64 << 10, BLOCKS_MAX = 1024 };

void __libc_free(void *block);
void *__libc_memalign(size_t alignment, size_t bytes);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	void *block, *mapping;
	size_t bytes; /* of the mapping */
} blocks[BLOCKS_MAX];
static unsigned count, guarded;

SHOWN void *aligned_alloc(size_t alignment, size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
	uint8_t *mapping = MAP_FAILED;

	if (bytes < LEAST || bytes % alignment || alignment > page)
		return __libc_memalign(alignment, bytes);
	pthread_mutex_lock(&lock);
	if (count < BLOCKS_MAX)
		mapping = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mapping != MAP_FAILED) {
		mprotect(mapping + whole, page, PROT_NONE);
		blocks[count].block = mapping + whole - bytes;
		blocks[count].mapping = mapping;
		blocks[count++].bytes = whole + page;
		guarded++;
	}
	pthread_mutex_unlock(&lock);
	return mapping == MAP_FAILED ? __libc_memalign(alignment, bytes) : mapping + whole - bytes;
}

SHOWN void free(void *block)
{
	const int before = errno;
	unsigned i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < count && blocks[i].block != block; i++)
		;
	if (i < count) {
		munmap(blocks[i].mapping, blocks[i].bytes);
		blocks[i] = blocks[--count];
		block = NULL;
	}
	pthread_mutex_unlock(&lock);
	__libc_free(block);
	errno = before;
}

__attribute__((destructor)) static void tell(void)
{
	fprintf(stderr, "star-guard: %u blocks\n", guarded);
}
