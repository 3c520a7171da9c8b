/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels without a reference of their own: random numbers, ids, constants; numbers at the edges; broadcasting by
 * hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/prng.h"
#include "graph/build.h"
#include "exec/kernel_math.h"
#include "tensor/elementary.h"
#include "tensor/philox.h"
#include "tests/graph/cases.h"
#include "tests/graph/support.h"
#include "tests/unit.h"

/* Steps a graph whose feeds are these, in the order of its feeds; false: it failed. */
static bool step(struct graph *g, const struct graph_tensor *feeds, uint32_t count, uint64_t number, uint64_t seed,
		 struct stepper *s, struct graph_tensor *fetches)
{
	struct graph_plan_feed types[4];
	struct graph_plan_options options = { .feeds = types, .seed = seed };

	for (uint32_t n = 0; n < g->nodes_count && options.feeds_count < count; n++)
		if (g->nodes[n]->op == GRAPH_FEED) {
			types[options.feeds_count].name = g->nodes[n]->name;
			types[options.feeds_count].type = feeds[options.feeds_count].type;
			options.feeds_count++;
		}
	if (stepper_begin(s, g, NULL, &options) && graph_run_step(s->run, number, feeds, fetches, &s->err) == 0)
		return true;
	return unit_fail(__FILE__, __LINE__, "%s", s->err.text);
}

static struct graph_tensor vector(unsigned dtype, int64_t n, void *data)
{
	return (struct graph_tensor){ { .dtype = (uint8_t)dtype, .shape = { 1, { n } } }, data };
}

/* ---- random numbers ---- */

enum { MANY = 100000 };

/* Elements of a step, of a graph of one random node with a seed. */
static double draw(uint64_t seed_of_plan, int64_t seed, uint64_t number, unsigned dtype, double *elements)
{
	const struct graph_attr attrs[] = { GRAPH_ATTR_INT("seed", seed), GRAPH_ATTR_STRING("dtype", dtype_name(dtype)),
					    GRAPH_ATTR_INTS("shape", (const int64_t[]){ MANY }, 1) };
	struct graph *g = graph_create();
	const struct graph_value x =
		graph_add(g, &(struct graph_node_spec){ .op = GRAPH_RANDOM, .attrs = attrs, .attrs_count = 3 });
	struct graph_tensor out;
	struct stepper s;
	double sum = 0;

	graph_set_results(g, &x, 1);
	if (step(g, NULL, 0, number, seed_of_plan, &s, &out))
		for (uint32_t i = 0; i < MANY; i++) {
			elements[i] = dtype == STAR_FLOAT32 ? (double)((float *)out.data)[i] : ((double *)out.data)[i];
			CHECK(elements[i] >= 0 && elements[i] < 1);
			sum += elements[i];
		}
	stepper_end(&s);
	graph_destroy(g);
	return sum / MANY;
}

void random_numbers_depend_on_seed_step_and_element(void)
{
	double *a = calloc(MANY, sizeof(*a)), *b = calloc(MANY, sizeof(*b));
	const uint64_t key = hash_key(hash_mix(5), 6);
	uint32_t words[4];

	CHECK_NEAR(draw(5, 6, 7, STAR_FLOAT64, a), 0.5, 0.005); /* 5.5 standard deviations */
	philox((const uint32_t[]){ 250, 0, 7, 0 }, (const uint32_t[]){ (uint32_t)key, (uint32_t)(key >> 32) }, words);
	for (unsigned i = 0; i < 4; i++)
		CHECK_NEAR(a[1000 + i], words[i] * 0x1p-32, 0);
	draw(5, 6, 7, STAR_FLOAT64, b);
	CHECK_MEM(b, a, MANY * sizeof(*a));
	draw(5, 6, 8, STAR_FLOAT64, b);
	CHECK(a[0] != b[0] && a[1] != b[1]);
	draw(5, 7, 7, STAR_FLOAT64, b);
	CHECK(a[0] != b[0] && a[1] != b[1]);
	draw(6, 6, 7, STAR_FLOAT64, b);
	CHECK(a[0] != b[0] && a[1] != b[1]);
	CHECK_NEAR(draw(5, 6, 7, STAR_FLOAT32, b), 0.5, 0.005);
	for (unsigned i = 0; i < MANY; i++)
		CHECK(fabs(a[i] - b[i]) < 0x1p-24);
	free(a);
	free(b);
}

void dropout_drops_and_scales(void)
{
	struct graph *g = graph_create();
	const struct graph_value x = graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(-1));
	const struct graph_attr attrs[] = { GRAPH_ATTR_FLOAT("rate", 0.25), GRAPH_ATTR_INT("seed", 9) };
	const struct graph_node_spec spec = {
		.op = GRAPH_DROPOUT, .inputs = &x, .inputs_count = 1, .attrs = attrs, .attrs_count = 2
	};
	const struct graph_value results[] = { graph_add(g, &spec), graph_add(g, &spec) };
	float *data = calloc(MANY, sizeof(*data));
	struct graph_tensor given = vector(STAR_FLOAT32, MANY, data), out[2];
	struct stepper s;
	unsigned kept = 0;

	for (unsigned i = 0; i < MANY; i++)
		data[i] = 3;
	graph_set_results(g, results, 2);
	if (step(g, &given, 1, 1, 1, &s, out)) {
		for (unsigned i = 0; i < MANY; i++) {
			const float y = ((float *)out[0].data)[i];

			kept += y > 0;
			CHECK(y == 0 || y == 4);
		}
		CHECK_NEAR(kept / (double)MANY, 0.75, 0.0075);
		CHECK_MEM(out[1].data, out[0].data,
			  MANY * sizeof(float)); /* the mask is the seed's: as gradients need it */
	}
	stepper_end(&s);
	graph_destroy(g);
	free(data);
}

/* ---- ids ---- */

static void check_unique(int64_t *ids, int64_t n)
{
	struct graph *g = graph_create();
	const struct graph_value u = graph_unique(g, graph_feed(g, "ids", STAR_INT64, GRAPH_DIMS(-1)));
	const struct graph_value results[] = { u, graph_output(u, 1) };
	struct graph_tensor given = vector(STAR_INT64, n, ids), out[2];
	struct stepper s;
	int64_t next = 0;

	graph_set_results(g, results, 2);
	if (step(g, &given, 1, 1, 1, &s, out)) {
		const int64_t *seen = out[0].data, *where = out[1].data, m = out[0].type.shape.dims[0];

		for (int64_t i = 0; i < n; i++) {
			if (!CHECK(where[i] >= 0 && where[i] < m) || !CHECK_INT(seen[where[i]], ids[i]))
				break;
			CHECK(where[i] <= next); /* in the order in which they are first seen */
			next += where[i] == next;
		}
		CHECK_INT(next, m);
		for (int64_t i = 0; i < m && m < 100; i++)
			for (int64_t k = 0; k < i; k++)
				CHECK(seen[i] != seen[k]);
	}
	stepper_end(&s);
	graph_destroy(g);
}

void unique_ids_are_found(void)
{
	enum { N = 20000 };
	int64_t *ids = calloc(N, sizeof(*ids));

	check_unique((int64_t[]){ 5, 5, -1, INT64_MIN, INT64_MAX, 0, 5, -1 }, 8);
	check_unique(ids, 0);
	check_unique(ids, 1);
	check_unique(ids, N); /* all the same */
	for (int64_t i = 0; i < N; i++)
		ids[i] = i << 40; /* all different, alike in their low bits */
	check_unique(ids, N);
	for (int64_t i = 0; i < N; i++)
		ids[i] = (int64_t)(hash_mix((uint64_t)i) % 5000);
	check_unique(ids, N);
	free(ids);
}

/* Within bounds, the same for the same, other for another order and for another salt. */
void crosses_are_hashed(void)
{
	struct graph *g = graph_create();
	const struct graph_value a = graph_feed(g, "a", STAR_INT64, GRAPH_DIMS(-1)),
				 b = graph_feed(g, "b", STAR_INT64, GRAPH_DIMS(-1));
	const struct graph_attr salted[] = { GRAPH_ATTR_INT("buckets", 1000), GRAPH_ATTR_INT("salt", 1) };
	struct graph_value results[3];
	int64_t *x = calloc(2000, sizeof(*x)), *y = calloc(2000, sizeof(*y));
	const struct graph_tensor given[] = { vector(STAR_INT64, 2000, x), vector(STAR_INT64, 2000, y) };
	struct graph_tensor out[3];
	unsigned same_turned = 0, same_salted = 0, in_lower_half = 0;
	struct stepper s;

	for (int64_t i = 0; i < 2000; i++) {
		x[i] = i / 50 - 20;
		y[i] = i % 50 + 1000;
	}
	results[0] = graph_hash_cross(g, (struct graph_value[]){ a, b }, 2, 1000);
	results[1] = graph_hash_cross(g, (struct graph_value[]){ b, a }, 2, 1000);
	results[2] = graph_add(g, &(struct graph_node_spec){ .op = GRAPH_HASH_CROSS,
							     .inputs = (struct graph_value[]){ a, b },
							     .inputs_count = 2,
							     .attrs = salted,
							     .attrs_count = 2 });
	graph_set_results(g, results, 3);
	if (step(g, given, 2, 1, 1, &s, out))
		for (unsigned i = 0; i < 2000; i++) {
			const int64_t id = ((int64_t *)out[0].data)[i];

			CHECK(id >= 0 && id < 1000);
			CHECK_INT(id, hash_key(hash_key(hash_mix(0), (uint64_t)x[i]), (uint64_t)y[i]) % 1000);
			same_turned += id == ((int64_t *)out[1].data)[i];
			same_salted += id == ((int64_t *)out[2].data)[i];
			in_lower_half += id < 500;
		}
	CHECK(same_turned < 20 && same_salted < 20); /* 2 are to be expected */
	CHECK_NEAR(in_lower_half, 1000, 150);
	stepper_end(&s);
	graph_destroy(g);
	free(x);
	free(y);
}

/* ---- at the edges ---- */

/* What an operation makes of some float32 numbers. */
static void check_edges(enum graph_op op, const float *x, const float *wanted, int64_t n)
{
	struct graph *g = graph_create();
	const struct graph_value y = graph_op1(g, op, graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(-1)));
	const struct graph_tensor given = vector(STAR_FLOAT32, n, (void *)(uintptr_t)x);
	struct graph_tensor out;
	struct stepper s;

	graph_set_results(g, &y, 1);
	if (step(g, &given, 1, 1, 1, &s, &out))
		for (int64_t i = 0; i < n; i++) {
			const double got = (double)((float *)out.data)[i], want = (double)wanted[i];

			if (got != want && !(isnan(got) && isnan(want)) && !(fabs(got - want) <= 1e-6 * fabs(want)))
				unit_fail(__FILE__, __LINE__, "%s of %g is %g, not %g", graph_op_name(op), (double)x[i],
					  got, want);
		}
	stepper_end(&s);
	graph_destroy(g);
}

void numbers_at_the_edges(void)
{
	static const float x[] = { -INFINITY, -200, -1e-6F, 0, 1e-6F, 200, INFINITY, NAN };

	check_edges(GRAPH_SIGMOID, x, (float[]){ 0, 0, 0.49999975F, 0.5F, 0.50000025F, 1, 1, NAN }, 8);
	check_edges(GRAPH_TANH, x, (float[]){ -1, -1, -1e-6F, 0, 1e-6F, 1, 1, NAN }, 8);
	check_edges(GRAPH_EXP, x, (float[]){ 0, 0, 0.999999F, 1, 1.000001F, INFINITY, INFINITY, NAN }, 8);
	check_edges(GRAPH_LOG, x, (float[]){ NAN, NAN, NAN, -INFINITY, -13.815511F, 5.2983174F, INFINITY, NAN }, 8);
	check_edges(GRAPH_RELU, x, (float[]){ 0, 0, 0, 0, 1e-6F, 200, INFINITY, NAN }, 8);
	check_edges(GRAPH_SOFTMAX, (float[]){ 1000, 1000, -1000 }, (float[]){ 0.5F, 0.5F, 0 }, 3);
	check_edges(GRAPH_SOFTMAX, (float[]){ -1000, -1000 }, (float[]){ 0.5F, 0.5F }, 2);
}

void integers_wrap_around(void)
{
	struct graph *g = graph_create();
	const struct graph_value x = graph_feed(g, "x", STAR_INT64, GRAPH_DIMS(-1));
	const struct graph_value results[] = { graph_plus(g, x, x),
					       graph_times(g, x, x),
					       graph_neg(g, x),
					       graph_square(g, x),
					       graph_sum(g, x),
					       graph_op1(g, GRAPH_ABS, x),
					       graph_minus(g, x, graph_number(g, STAR_INT64, 1)) };
	int64_t most[] = { INT64_MIN, INT64_MIN, INT64_MAX };
	const struct graph_tensor given = vector(STAR_INT64, 3, most);
	struct graph_tensor out[7];
	struct stepper s;

	graph_set_results(g, results, 7);
	if (step(g, &given, 1, 1, 1, &s, out)) {
		static const int64_t wanted[][2] = { { 0, -2 },
						     { 0, 1 },
						     { INT64_MIN, -INT64_MAX },
						     { 0, 1 },
						     { INT64_MAX, 0 },
						     { INT64_MIN, INT64_MAX },
						     { INT64_MAX, INT64_MAX - 1 } };

		for (unsigned i = 0; i < 7; i++) {
			CHECK_INT(((int64_t *)out[i].data)[0], wanted[i][0]);
			if (i != 4)
				CHECK_INT(((int64_t *)out[i].data)[2], wanted[i][1]);
		}
	}
	stepper_end(&s);
	graph_destroy(g);
}

void losses_do_not_overflow(void)
{
	struct graph *g = graph_create();
	const struct graph_value x = graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(-1)),
				 z = graph_feed(g, "z", STAR_FLOAT32, GRAPH_DIMS(-1)),
				 c = graph_feed(g, "c", STAR_INT64, GRAPH_DIMS(-1));
	float logits[] = { 1000, 1000, -1000, -1000 }, labels[] = { 1, 0, 1, 0 };
	int64_t classes[] = { 0, 1 };
	const struct graph_tensor given[] = { vector(STAR_FLOAT32, 4, logits), vector(STAR_FLOAT32, 4, labels),
					      vector(STAR_INT64, 2, classes) };
	const struct graph_value results[] = { graph_op2(g, GRAPH_SIGMOID_LOSS, x, z),
					       graph_op2(g, GRAPH_SOFTMAX_LOSS, graph_reshape(g, x, GRAPH_DIMS(2, 2)),
							 c) };
	struct graph_tensor out[2];
	struct stepper s;

	graph_set_results(g, results, 2);
	if (step(g, given, 3, 1, 1, &s, out)) {
		const float *losses = out[0].data, *rows = out[1].data;

		CHECK_NEAR(losses[0], 0, 0);
		CHECK_NEAR(losses[1], 1000, 0);
		CHECK_NEAR(losses[2], 1000, 0);
		CHECK_NEAR(losses[3], 0, 0);
		CHECK_NEAR(rows[0], log(2), 1e-6);
		CHECK_NEAR(rows[1], log(2), 1e-6);
	}
	stepper_end(&s);
	graph_destroy(g);
}

/* A query that may attend to nothing gives 0, not NaN. */
void attention_with_everything_masked_is_zero(void)
{
	struct graph *g = graph_create();
	const struct graph_value q = graph_feed(g, "q", STAR_FLOAT32, GRAPH_DIMS(2, 1, 2)),
				 k = graph_feed(g, "k", STAR_FLOAT32, GRAPH_DIMS(2, 3, 2)),
				 mask = graph_feed(g, "mask", STAR_INT32, GRAPH_DIMS(2, 3)),
				 y = graph_attention(g, q, k, k, mask, 0);
	float numbers[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
	int32_t seen[] = { 0, 0, 0, 0, 1, 0 };
	struct graph_tensor given[] = {
		{ { .dtype = STAR_FLOAT32, .shape = { 3, { 2, 1, 2 } } }, numbers },
		{ { .dtype = STAR_FLOAT32, .shape = { 3, { 2, 3, 2 } } }, numbers },
		{ { .dtype = STAR_INT32, .shape = { 2, { 2, 3 } } }, seen },
	};
	struct graph_tensor out;
	struct stepper s;

	graph_set_results(g, &y, 1);
	if (step(g, given, 3, 1, 1, &s, &out)) {
		const float wanted[] = { 0, 0, 9, 10 };

		CHECK_MEM(out.data, wanted, sizeof(wanted));
	}
	stepper_end(&s);
	graph_destroy(g);
}

/* ---- broadcasting, as NumPy's documentation shows it ---- */

static const struct {
	struct graph_shape a, b, both;
	int64_t count;
	double last; /* of the sums of a's and b's elements, which are 0, 1, 2, ... */
} broadcasts[] = {
	{ { 0 }, { 0 }, { 0 }, 1, 0 },
	{ { 1, { 3 } }, { 0 }, { 1, { 3 } }, 3, 2 },
	{ { 3, { 4, 3, 3 } }, { 1, { 3 } }, { 3, { 4, 3, 3 } }, 36, 37 },
	{ { 4, { 8, 1, 6, 1 } }, { 3, { 7, 1, 5 } }, { 4, { 8, 7, 6, 5 } }, 1680, 47 + 34 },
	{ { 2, { 5, 4 } }, { 1, { 1 } }, { 2, { 5, 4 } }, 20, 19 },
	{ { 3, { 15, 3, 5 } }, { 3, { 15, 1, 5 } }, { 3, { 15, 3, 5 } }, 225, 224 + 74 },
	{ { 3, { 15, 3, 5 } }, { 2, { 3, 1 } }, { 3, { 15, 3, 5 } }, 225, 224 + 2 },
	{ { 2, { 0, 3 } }, { 1, { 3 } }, { 2, { 0, 3 } }, 0, 0 },
	{ { 2, { 0, 1 } }, { 2, { 1, 3 } }, { 2, { 0, 3 } }, 0, 0 },
};

void shapes_broadcast(void)
{
	float numbers[225];

	for (unsigned i = 0; i < 225; i++)
		numbers[i] = (float)i;
	for (unsigned i = 0; i < sizeof(broadcasts) / sizeof(broadcasts[0]); i++)
		for (unsigned turned = 0; turned < 2; turned++) {
			const struct graph_shape *a = &broadcasts[i].a, *b = &broadcasts[i].b;
			const struct graph_tensor given[] = { { { .dtype = STAR_FLOAT32, .shape = *a }, numbers },
							      { { .dtype = STAR_FLOAT32, .shape = *b }, numbers } };
			struct graph *g = graph_create();
			const struct graph_value x = graph_feed(g, "a", STAR_FLOAT32, a->dims, a->ndim),
						 y = graph_feed(g, "b", STAR_FLOAT32, b->dims, b->ndim),
						 sum = turned ? graph_plus(g, y, x) : graph_plus(g, x, y);
			const int64_t n = graph_elements(&broadcasts[i].both);
			struct graph_tensor out;
			struct stepper s;

			graph_set_results(g, &sum, 1);
			if (step(g, given, 2, 1, 1, &s, &out)) {
				CHECK(graph_shape_same(&out.type.shape, &broadcasts[i].both));
				CHECK_INT(n, broadcasts[i].count);
				if (n)
					CHECK_NEAR(((float *)out.data)[n - 1], broadcasts[i].last, 0);
			}
			stepper_end(&s);
			graph_destroy(g);
		}
}

/* Numbers of all magnitudes, and those where something happens. */
static double exponent(struct prng *prng, unsigned i)
{
	static const double edges[] = { 0,   -0.0,   709.79,   709.79000000000008, -745.2,    -745.20000000000005,
					NAN, -708.4, INFINITY, -INFINITY,	   0x1p-1074, -0x1p-1074 };
	const uint64_t bits = prng_next(prng);
	double x;

	memcpy(&x, &bits, sizeof(x));
	return i < sizeof(edges) / sizeof(edges[0]) ? edges[i] : i % 2 ? x : (prng_unit(prng) - 0.5) * 1600;
}

void exponentials_have_the_bits_of_ps_tasks(void)
{
	enum { N = 1003 };
	double x[N], any[N], avx2[N];
	struct prng prng;

	prng_seed(&prng, 1);
	for (unsigned k = 0; k < 200; k++) {
		for (unsigned i = 0; i < N; i++)
			x[i] = exponent(&prng, i);
		kernel_exp_many_any(x, any, N);
		if (__builtin_cpu_supports("avx2"))
			kernel_exp_many_avx2(x, avx2, N);
		for (unsigned i = 0; i < N; i++) {
			const double wanted = tensor_elementary_exp(x[i]);

			if (!CHECK_MEM(&any[i], &wanted, sizeof(wanted)))
				return;
		}
		if (__builtin_cpu_supports("avx2") && !CHECK_MEM(avx2, any, sizeof(any)))
			return;
	}
}
