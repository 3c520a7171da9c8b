/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs of PS tasks compute on rows (tensor/elementwise.h) has the bits of the workers' kernels: each step that
 * a session makes of an operation, with numbers at all edges. tests/system/samebits.test does the same with sessions
 * and nodes.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/exec.h"
#include "base/prng.h"
#include "graph/build.h"
#include "offload/compile_internal.h"
#include "tensor/elementwise.h"
#include "tensor/sums.h"
#include "tests/graph/cases.h"
#include "tests/graph/support.h"
#include "tests/unit.h"
#include "wire/program.h"

enum { ROWS = 37, DIM_MAX = 4096, ROUNDS = 12 };

static float left[ROWS * DIM_MAX], right[ROWS * DIM_MAX], got[ROWS * DIM_MAX];

/* Denormals, both zeros, infinities, NaN with a payload, and sums whose order matters. */
static float hard(struct prng *prng)
{
	static const float edges[] = { 0,	  -0.0f,	   1,	   -1, 1e8f, -1e8f, 0x1p-149f, -0x1p-149f,
				       0x1p-126f, 0x1.fffffep127f, 1e-20f, 3 };
	const uint32_t bits = (uint32_t)prng_next(prng);
	float x;

	switch (prng_below(prng, 8)) {
	case 0:
		memcpy(&x, &bits, sizeof(x)); /* anything: one in 256 is NaN or an infinity */
		return x;
	case 1:
		return (float)(prng_unit(prng) - 0.5);
	case 2:
		return prng_below(prng, 40) ? 1 : prng_below(prng, 2) ? (float)INFINITY : -(float)INFINITY;
	default:
		return edges[prng_below(prng, sizeof(edges) / sizeof(edges[0]))];
	}
}

/* All rounds but the first are drawn; that is the one that was seen to differ. */
static void draw(struct prng *prng, unsigned round, float *x, size_t n)
{
	static const float seen[] = { 1e8f, 1, -1e8f, 0, 1, 0, 0, 0 };

	for (size_t i = 0; i < n; i++)
		x[i] = round ? hard(prng) : seen[i % 8];
}

/* The same bits; of NaN the sign and payload are nobody's. */
static bool same(const char *name, const float *ps, const float *worker, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (memcmp(&ps[i], &worker[i], sizeof(*ps)) != 0 && !(isnan(ps[i]) && isnan(worker[i])))
			return unit_fail(__FILE__, __LINE__, "%s, element %zu: %a on a PS task, %a in a worker", name,
					 i, (double)ps[i], (double)worker[i]);
	return true;
}

/* A worker's, of one operation on [rows, dim] (both operands; right also as a column, or a number). */
static bool worker(enum graph_op op, const struct graph_shape *a, const struct graph_shape *b, const int64_t *axis,
		   const char *name, size_t n)
{
	struct graph *g = graph_create();
	const struct graph_attr axes = GRAPH_ATTR_INTS("axes", axis, axis ? 1 : 0);
	const struct graph_value inputs[] = { graph_feed(g, "a", STAR_FLOAT32, a->dims, a->ndim),
					      b ? graph_feed(g, "b", STAR_FLOAT32, b->dims, b->ndim) : GRAPH_NONE };
	struct graph_plan_feed types[] = { { "a", { .dtype = STAR_FLOAT32, .shape = *a } },
					   { "b", { .dtype = STAR_FLOAT32, .shape = b ? *b : *a } } };
	const struct graph_plan_options options = { .feeds = types, .feeds_count = b ? 2 : 1 };
	const struct graph_tensor feeds[] = { { types[0].type, left }, { types[1].type, right } };
	const struct graph_value y = graph_add(g, &(struct graph_node_spec){ .op = op,
									     .inputs = inputs,
									     .inputs_count = b ? 2 : 1,
									     .attrs = &axes,
									     .attrs_count = axis != NULL });
	struct graph_tensor out;
	struct stepper s = { 0 };
	bool good;

	graph_set_results(g, &y, 1);
	good = graph_error(g, &s.err) == 0 && stepper_begin(&s, g, NULL, &options) &&
	       graph_run_step(s.run, 1, feeds, &out, &s.err) == 0;
	if (!good)
		unit_fail(__FILE__, __LINE__, "%s: %s", name, s.err.text);
	good = good && same(name, got, out.data, n);
	stepper_end(&s);
	graph_destroy(g);
	return good;
}

static const float *pointers[2][ROWS];

static void point(uint32_t dim, uint32_t right_dim)
{
	for (unsigned i = 0; i < ROWS; i++) {
		pointers[0][i] = left + (size_t)i * dim;
		pointers[1][i] = right + (size_t)i * right_dim;
	}
}

/* All operations that go to PS tasks by themselves, element by element. */
static const struct {
	enum graph_op op;
	const char *step;
	bool by_itself;
} moved[] = {
#define X(OP, step, moves, rows, blocks) { GRAPH_##OP, step, COMPILE_MOVES_##moves == COMPILE_MOVES_IF_FLOAT },
	COMPILE_OPS(X)
#undef X
};

static const uint32_t dims[] = { 1, 2, 7, 8, 9, 16, 33, 77, 1000, 1024, 1025, 3000, 4096 };

static bool one_step(struct prng *prng, unsigned round, enum graph_op op, unsigned step, uint32_t dim)
{
	const struct graph_shape rows = { 2, { ROWS, dim } };

	draw(prng, round, left, (size_t)ROWS * dim);
	point(dim, dim);
	tensor_elementwise_unary(step, 0, pointers[0], ROWS, dim, got);
	return worker(op, &rows, NULL, NULL, graph_op_name(op), (size_t)ROWS * dim);
}

/* other: elements of the second operand's rows. */
static bool step_of_two(struct prng *prng, unsigned round, enum graph_op op, unsigned step, uint32_t dim,
			uint32_t other)
{
	const struct graph_shape rows = { 2, { ROWS, dim } }, others = { 2, { ROWS, other } };

	draw(prng, round, left, (size_t)ROWS * dim);
	draw(prng, round, right, (size_t)ROWS * other);
	point(dim, other);
	tensor_elementwise_binary(step, pointers[0], dim, pointers[1], other, ROWS, got);
	return worker(op, &rows, &others, NULL, graph_op_name(op), (size_t)ROWS * dim);
}

static bool all_steps(struct prng *prng, unsigned round, uint32_t dim)
{
	unsigned compared = 0;
	bool good = true;

	for (unsigned i = 0; good && i < sizeof(moved) / sizeof(moved[0]); i++) {
		const enum graph_op op = moved[i].op;
		unsigned step;

		if (!moved[i].by_itself)
			continue;
		compared++;
		step = wire_program_op_find(moved[i].step);
		if (!step)
			return unit_fail(__FILE__, __LINE__,
					 "COMPILE_OPS names step \"%s\": programs have no such step", moved[i].step);
		if (graph_op_info(op)->inputs_min == 1)
			good = one_step(prng, round, op, step, dim);
		else
			good = step_of_two(prng, round, op, step, dim, dim) &&
			       step_of_two(prng, round, op, step, dim, 1);
	}
	return good && CHECK(compared >= 12);
}

void programs_steps_have_the_bits_of_workers(void)
{
	struct prng prng;

	prng_seed(&prng, 20);
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned d = 0; d < 8; d++)
			if (!all_steps(&prng, round, dims[d]))
				return;
}

static bool step_of_a_reduction(struct prng *prng, unsigned round, enum graph_op op, unsigned step, uint32_t dim,
				uint32_t count)
{
	const struct graph_shape rows = { 2, { count, dim } };

	draw(prng, round, left, (size_t)count * dim);
	point(dim, dim);
	tensor_elementwise_reduce(step, pointers[0], pointers[0], count, dim, got);
	return worker(op, &rows, NULL, &(int64_t){ 1 }, graph_op_name(op), count);
}

/* Every reduction of COMPILE_OPS. Also of one row, whose sum is one of all elements. */
void reductions_of_rows_have_the_bits_of_workers(void)
{
	unsigned compared = 0;
	struct prng prng;

	prng_seed(&prng, 21);
	for (unsigned i = 0; i < sizeof(moved) / sizeof(moved[0]); i++) {
		const unsigned step = moved[i].step ? wire_program_op_find(moved[i].step) : 0;

		if (wire_program_op(step)->kind != PROGRAM_KIND_REDUCTION || graph_op_info(moved[i].op)->inputs_min > 1)
			continue;
		compared++;
		for (unsigned k = 0; k < 2 * ROUNDS * sizeof(dims) / sizeof(dims[0]); k++) {
			const uint32_t dim = dims[k / 2 / ROUNDS], count = k % 2 ? ROWS : 1;

			if (!step_of_a_reduction(&prng, k / 2 % ROUNDS, moved[i].op, step, dim, count)) {
				printf("# %u rows of %u, round %u\n", count, dim, k / 2 % ROUNDS);
				return;
			}
		}
	}
	CHECK(compared >= 2);
}

/* A variable's sum: each block's where it lies, as float64; the worker adds them in their order. */
void sums_of_variables_have_the_bits_of_workers(void)
{
	static const struct graph_shape shapes[] = {
		{ 1, { 1 } },	     { 1, { 1023 } },	 { 1, { 5000 } },
		{ 2, { 50, 70 } },   { 2, { 1, 3000 } }, { 2, { 30, 1024 } },
		{ 2, { 20, 1025 } }, { 2, { 4000, 1 } }, { 4, { 5, 1, 9, 100 } },
	};
	struct prng prng;

	prng_seed(&prng, 22);
	for (unsigned k = 0; k < ROUNDS * sizeof(shapes) / sizeof(shapes[0]); k++) {
		const struct graph_shape *shape = &shapes[k / ROUNDS];
		const size_t n = (size_t)graph_elements(shape);
		const uint32_t block = sums_block(n / (size_t)shape->dims[0], n);
		double all = 0;

		draw(&prng, k % ROUNDS, left, n);
		for (size_t at = 0; at < n; at += block) {
			const float *x = left + at;
			float bits[2];
			double sum;

			tensor_elementwise_reduce(ELEMENTWISE_ROW_SUM64, &x, &x, 1,
						  n - at < block ? (uint32_t)(n - at) : block, bits);
			memcpy(&sum, bits, sizeof(sum));
			all += sum;
		}
		got[0] = (float)(k % 2 ? all / (double)n : all);
		if (!worker(k % 2 ? GRAPH_MEAN : GRAPH_SUM, shape, NULL, NULL, k % 2 ? "mean" : "sum", 1))
			return;
	}
}

/* A number of each row's own times the row: a matrix product of inner size 1 there, a product and 0 on PS tasks. */
void outer_products_have_the_bits_of_workers(void)
{
	static float product[ROWS * DIM_MAX];
	struct prng prng;

	prng_seed(&prng, 23);
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned d = 0; d < sizeof(dims) / sizeof(dims[0]); d++) {
			const uint32_t dim = dims[d];
			const struct graph_shape numbers = { 3, { 1, ROWS, 1 } }, vector = { 3, { 1, 1, dim } };

			draw(&prng, round, left, ROWS);
			draw(&prng, round, right, dim);
			point(1, 0);
			tensor_elementwise_binary(ELEMENTWISE_MUL, pointers[0], 1, pointers[1], dim, ROWS, product);
			for (unsigned i = 0; i < ROWS; i++)
				pointers[0][i] = product + (size_t)i * dim;
			tensor_elementwise_unary(ELEMENTWISE_OFFSET, 0, pointers[0], ROWS, dim, got);
			if (!worker(GRAPH_MATMUL, &numbers, &vector, NULL, "matmul", (size_t)ROWS * dim)) {
				printf("# rows of %u, round %u\n", dim, round);
				return;
			}
		}
}
