/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations as their definitions say, element by element in float64: what kernels are compared with. */
#ifndef TESTS_GRAPH_REFERENCE_H
#define TESTS_GRAPH_REFERENCE_H

#include "graph/graph.h"

enum { REFERENCE_ELEMENTS = 4096, REFERENCE_TENSORS = 8 };

struct reference_tensor {
	struct graph_type type;
	double *values; /* of any element type */
};

/* Of in, and of out: types; the values of out are written. False: the operation is not known here. */
bool reference_run(const struct graph_node *node, const struct reference_tensor *in, struct reference_tensor *out);

#endif
