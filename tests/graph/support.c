/* SPDX-License-Identifier: BSD-3-Clause */
#include "exec/exec.h"
#include "tests/graph/support.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

bool stepper_begin(struct stepper *s, const struct graph *graph, const struct graph_cut *cut,
		   const struct graph_plan_options *options)
{
	*s = (struct stepper){ 0 };
	s->plan = graph_compile(graph, cut, options, &s->err);
	if (s->plan)
		s->run = graph_run_create(s->plan, &s->err);
	return s->run;
}

void stepper_end(struct stepper *s)
{
	graph_run_destroy(s->run);
	graph_plan_destroy(s->plan);
}

static _Atomic uint64_t calls;

uint64_t allocations(void)
{
	return calls;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* In place of the C library's, which has them under these names too. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *memory);

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
	calls++;
	return __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t n, size_t bytes)
{
	calls++;
	return __libc_calloc(n, bytes);
}

__attribute__((visibility("default"))) void *realloc(void *memory, size_t bytes)
{
	calls++;
	return __libc_realloc(memory, bytes);
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t bytes)
{
	calls++;
	return __libc_memalign(alignment, bytes);
}

__attribute__((visibility("default"))) int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
	calls++;
	*memory = __libc_memalign(alignment, bytes);
	return *memory ? 0 : ENOMEM;
}

__attribute__((visibility("default"))) void free(void *memory)
{
	__libc_free(memory);
}
#endif
