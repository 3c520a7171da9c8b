/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels compute a graph's operations on tensors in memory. They have no state and allocate nothing. Errors (an index
 * out of bounds) name the node, and are detected before anything out of bounds is written. Threads: any, each with its
 * own tensors.
 */
#ifndef EXEC_KERNEL_H
#define EXEC_KERNEL_H

#include "exec/exec.h"
#include "exec/team.h"

struct kernel_call {
	const struct graph_node *node;
	const struct graph_tensor *const *in;
	struct graph_tensor *const
		*out;	   /* types as inferred; the kernel sets sizes that inference did not know (unique) */
	void *scratch;	   /* kernel_scratch bytes, at a multiple of 64 */
	struct team *team; /* NULL: only this thread */
	uint64_t seed, step;
	struct star_error *err;
};

/* Bytes of scratch memory that the node needs for these types, whose sizes are known. Smaller sizes need no more. */
uint64_t kernel_scratch(const struct graph_node *node, const struct graph_type *const *in,
			const struct graph_type *const *out);

/* Executes a node that has a kernel: all but control flow and operations on PS tasks. 0 or -EINVAL. */
int kernel_run(const struct kernel_call *call);

/* Whether the operation has a kernel. */
bool kernel_exists(enum graph_op op);

#endif
