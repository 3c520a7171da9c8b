/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels: what each operation computes, on tensors in memory. They are pure, keep nothing, allocate nothing; a failure
 * (an index out of its bounds) names the node and is found before anything is written outside. Threads: any, with
 * tensors of their own.
 */
#ifndef EXEC_KERNEL_H
#define EXEC_KERNEL_H

#include "exec/exec.h"
#include "exec/team.h"

struct kernel_call {
	const struct graph_node *node;
	const struct graph_tensor *const *in;
	struct graph_tensor *const
		*out;	   /* types as inferred; sizes that were not known (unique) are set by the kernel */
	void *scratch;	   /* kernel_scratch bytes, at a multiple of 64 */
	struct team *team; /* NULL: this thread alone */
	uint64_t seed, step;
	struct star_error *err;
};

/* What the node needs beside its outputs, for these types (sizes known); a kernel needs no more for smaller ones. */
uint64_t kernel_scratch(const struct graph_node *node, const struct graph_type *const *in,
			const struct graph_type *const *out);

/* Executes a node that is neither control flow nor what only PS tasks do. */
int kernel_run(const struct kernel_call *call);

/* Whether kernel_run can do it. */
bool kernel_exists(enum graph_op op);

#endif
