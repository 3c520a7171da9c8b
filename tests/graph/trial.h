/* SPDX-License-Identifier: BSD-3-Clause */
/* An operation on random inputs: what kernels are tried with. */
#ifndef TESTS_GRAPH_TRIAL_H
#define TESTS_GRAPH_TRIAL_H

#include "base/prng.h"
#include "graph/graph.h"
#include "tests/graph/reference.h"

enum { TRIAL_INPUTS = 6 };

/* A graph of one operation, and what it is fed. */
struct trial {
	struct prng prng;
	struct graph *graph;
	unsigned real; /* float32 or float64 */
	bool zero;     /* a size may be 0 */
	struct graph_value inputs[TRIAL_INPUTS];
	uint32_t count;
	struct graph_type types[TRIAL_INPUTS];
	double values[TRIAL_INPUTS][REFERENCE_ELEMENTS];
	_Alignas(8) uint8_t data[TRIAL_INPUTS][REFERENCE_ELEMENTS * 8];
	struct graph_attr attrs[3];
	uint32_t attrs_count;
	int64_t ints[3][GRAPH_DIMS_MAX];
};

struct trial_maker {
	enum graph_op op;
	void (*inputs)(struct trial *t, enum graph_op op);
	bool zero; /* sizes of 0 have a meaning */
};
extern const struct trial_maker trial_makers[];
extern const unsigned trial_makers_count;

/* Element i of a tensor of a type. */
void trial_store(unsigned dtype, void *data, int64_t i, double x);
double trial_load(unsigned dtype, const void *data, int64_t i);

#endif
