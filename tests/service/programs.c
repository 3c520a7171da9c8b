/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs: what their steps compute, feed by feed, against what the same rows give in plain C. */
#include "tests/service/programs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 1024 /* of VARIABLE */ };

unsigned node(struct program *p, unsigned op, unsigned a, unsigned b)
{
	p->version = PROGRAM_VERSION;
	p->nodes[p->count] = (struct program_node){ .op = (uint8_t)op, .a = (uint8_t)a, .b = (uint8_t)b };
	return p->count++;
}

unsigned node_keys(struct program *p, unsigned object)
{
	const unsigned n = node(p, PROGRAM_KEYS, 0, 0);

	p->nodes[n].object = (uint16_t)object;
	p->nodes[n].dim = (uint16_t)specs[object]->dim;
	return n;
}

unsigned node_rows(struct program *p, unsigned op, unsigned a, uint32_t dim)
{
	const unsigned n = node(p, op, a, 0);

	p->nodes[n].dim = (uint16_t)dim;
	return n;
}

int install_program(unsigned id, const struct program *p, struct star_error *err)
{
	struct object_spec spec = { .id = id, .kind = OBJECT_PROGRAM, .program = *p };

	wire_program_name(p, spec.name);
	if (wire_object_spec_check(&spec, err) < 0)
		return -EINVAL;
	return service_install(shard.service, &spec, err);
}

void install_good(unsigned id, const struct program *p)
{
	struct star_error err = { 0 };

	if (!CHECK_INT(install_program(id, p, &err), 0))
		printf("# %s\n", err.text);
}

void body_begin(struct body *b, unsigned id, const struct program *p, const uint32_t *counts, uint32_t segments)
{
	struct program_shape shape;
	unsigned bad;

	CHECK(!wire_program_check(p, &shape, &bad));
	memset(b, 0, sizeof(*b));
	b->op = (struct wire_op){ .kind = WIRE_RUN, .object = id, .dim = segments, .step = 1 };
	for (unsigned k = 0; k < shape.keys_count; k++)
		b->op.count += counts[k];
	b->op.body_bytes = (uint32_t)wire_program_request_bytes(p, &shape, counts, segments, false);
	body_part(b, counts, shape.keys_count * sizeof(*counts));
}

void body_part(struct body *b, const void *bytes, size_t n)
{
	request_append(&b->r, bytes, n);
	request_zeros(&b->r, (uint32_t)(program_padded(n) - n));
}

void body_into(struct body *b, struct request *r)
{
	request_append(r, &b->op, sizeof(b->op));
	request_append(r, b->r.bytes, b->r.n);
	request_free(&b->r);
}

const float *body_run(struct body *b, struct peer *peer, struct reply *reply)
{
	static float values[WIRE_PAYLOAD_DEFAULT / sizeof(float)];
	struct wire_result result;
	struct request r = { 0 };
	const uint8_t *at;

	body_into(b, &r);
	*reply = request_run(&r, peer);
	at = result_of(reply, 0, &result);
	CHECK_UINT(result.object, b->op.object);
	CHECK_UINT(result.count, b->op.count);
	if (at)
		memcpy(values, at, result.body_bytes);
	return values;
}

static float without_formula(unsigned op)
{
	unit_fail(__FILE__, __LINE__, "step %s has no formula here: add it above", wire_program_op(op)->name);
	return 0;
}

static float plain_unary(unsigned op, float x, float c)
{
	switch (op) {
	case ELEMENTWISE_NEG:
		return -x;
	case ELEMENTWISE_RELU:
		return x < 0 ? 0 : x;
	case ELEMENTWISE_SIGMOID:
		return (float)(1 / (1 + exp(-(double)x)));
	case ELEMENTWISE_TANH:
		return (float)tanh((double)x);
	case ELEMENTWISE_EXP:
		return (float)exp((double)x);
	case ELEMENTWISE_SQUARE:
		return x * x;
	case ELEMENTWISE_SQRT:
		return sqrtf(x);
	case ELEMENTWISE_ABS:
		return fabsf(x);
	case ELEMENTWISE_SIGN:
		return x > 0 ? 1 : x < 0 ? -1 : 0;
	case ELEMENTWISE_SCALE:
		return x * c;
	case ELEMENTWISE_OFFSET:
		return x + c;
	default:
		return without_formula(op);
	}
}

static float plain_binary(unsigned op, float x, float y)
{
	switch (op) {
	case ELEMENTWISE_ADD:
		return x + y;
	case ELEMENTWISE_SUB:
		return x - y;
	case ELEMENTWISE_MUL:
		return x * y;
	case ELEMENTWISE_DIV:
		return x / y;
	case ELEMENTWISE_MAX:
		return x > y || x != x ? x : y;
	case ELEMENTWISE_MIN:
		return x < y || x != x ? x : y;
	case ELEMENTWISE_RELU_GRAD:
		return x > 0 ? y : 0;
	case ELEMENTWISE_SIGMOID_GRAD:
		return y * x * (1 - x);
	case ELEMENTWISE_TANH_GRAD:
		return y * (1 - x * x);
	default:
		return without_formula(op);
	}
}

/* y is for dot only. */
static double plain_reduction(unsigned op, const float *x, const float *y, unsigned n)
{
	double sum = 0, products = 0;
	float greatest = -INFINITY;

	for (unsigned d = 0; d < n; d++) {
		sum += (double)x[d];
		products += (double)x[d] * (double)y[d];
		greatest = x[d] > greatest ? x[d] : greatest;
	}
	switch (op) {
	case ELEMENTWISE_ROW_SUM:
	case ELEMENTWISE_ROW_SUM64:
		return sum;
	case ELEMENTWISE_ROW_MEAN:
		return sum / n;
	case ELEMENTWISE_ROW_MAX:
		return (double)greatest;
	case ELEMENTWISE_DOT:
		return products;
	default:
		return (double)without_formula(op);
	}
}

enum { N = 300, DIM = 16 }; /* several tiles */
static uint64_t keys[N];
static float rows[N * DIM], fed[N * DIM], column[N];

static bool is_exact(unsigned op)
{
	switch (op) {
	case ELEMENTWISE_EXP:
	case ELEMENTWISE_SIGMOID:
	case ELEMENTWISE_TANH:
	case ELEMENTWISE_ROW_SUM:
	case ELEMENTWISE_ROW_SUM64:
	case ELEMENTWISE_ROW_MEAN:
	case ELEMENTWISE_DOT:
		return false;
	default:
		return true;
	}
}

static struct peer *begin(uint64_t seed)
{
	struct peer *peer = shard_simple(seed);

	for (unsigned i = 0; i < N; i++)
		keys[i] = i % 50 ? i : hash_mix(i);
	for (unsigned i = 0; i < N * DIM; i++)
		fed[i] = (float)(int)(i * 7 % 31) / 8 - 1.5f;
	for (unsigned i = 0; i < N; i++)
		column[i] = (float)i / 16 + 1;
	pull(peer, WORDS, keys, N, WIRE_READ_ONLY, rows);
	return peer;
}

/* All that there are. */
static const unsigned unaries[] = {
#define X(NAME, number, ...) number,
	ELEMENTWISE_UNARIES(X) ELEMENTWISE_CONSTANTS(X)
#undef X
};
static const unsigned binaries[] = {
#define X(NAME, number, ...) number,
	ELEMENTWISE_BINARIES(X)
#undef X
};
static const unsigned reductions[] = {
#define X(NAME, number, ...) number,
	ELEMENTWISE_REDUCTIONS(X) ELEMENTWISE_PRODUCTS(X)
#undef X
};
enum { REDUCTIONS = sizeof(reductions) / sizeof(reductions[0]) };
enum { UNARIES = sizeof(unaries) / sizeof(unaries[0]), BINARIES = sizeof(binaries) / sizeof(binaries[0]) };

/* Of rows that are there, of rows that come with the request, and of one that is shared. */
void unary_steps_are_those_of_plain_c(void)
{
	struct peer *peer = begin(1);

	for (unsigned which = 0; which < UNARIES; which++) {
		const unsigned op = unaries[which];
		struct program p = { 0 };
		const unsigned k = node_keys(&p, WORDS), x = node_rows(&p, PROGRAM_ROWS, k, DIM);
		const unsigned s = node_rows(&p, PROGRAM_SHARED, 0, DIM), l = node(&p, PROGRAM_LOOKUP, k, 0);
		const float c = wire_program_op(op)->uses & PROGRAM_USES_CONSTANT ? 1.5f : 0;
		unsigned made[3] = { node(&p, op, l, 0), node(&p, op, x, 0), node(&p, op, s, 0) };
		struct reply reply;
		struct body b;
		const float *at;

		for (unsigned i = 0; i < 3; i++)
			p.nodes[made[i]].constant = c;
		node(&p, PROGRAM_FETCH, made[0], 0);
		node(&p, PROGRAM_FETCH, made[1], 0);
		node(&p, PROGRAM_FETCH, node(&p, ELEMENTWISE_ADD, x, made[2]), 0);
		install_good(100 + op, &p);
		body_begin(&b, 100 + op, &p, (uint32_t[]){ N }, 0);
		body_part(&b, fed, DIM * sizeof(float));
		body_part(&b, keys, sizeof(keys));
		body_part(&b, fed, sizeof(fed));
		at = body_run(&b, peer, &reply);
		for (unsigned i = 0; i < N; i++, at += 3 * DIM)
			for (unsigned d = 0; d < DIM; d++) {
				const float expected[3] = { plain_unary(op, rows[i * DIM + d], c),
							    plain_unary(op, fed[i * DIM + d], c),
							    fed[i * DIM + d] + plain_unary(op, fed[d], c) };

				for (unsigned f = 0; f < 3; f++) {
					if (isnan(expected[f]) && isnan(at[f * DIM + d]))
						continue;
					if (!CHECK_NEAR(at[f * DIM + d], expected[f],
							is_exact(op) ? 0 : 1e-6 * (1 + fabs((double)expected[f]))))
						printf("# op %u, fetch %u, row %u, element %u\n", op, f, i, d);
				}
			}
	}
	shard_stop();
}

/* Rows with rows, with a column, with what is shared, either way round. */
void binary_steps_are_those_of_plain_c(void)
{
	struct peer *peer = begin(2);

	for (unsigned which = 0; which < BINARIES; which++) {
		const unsigned op = binaries[which];
		struct program p = { 0 };
		const unsigned k = node_keys(&p, WORDS), x = node_rows(&p, PROGRAM_ROWS, k, DIM);
		const unsigned c = node_rows(&p, PROGRAM_ROWS, k, 1), s = node_rows(&p, PROGRAM_SHARED, 0, 1);
		const unsigned l = node(&p, PROGRAM_LOOKUP, k, 0);
		struct reply reply;
		struct body b;
		const float *at;

		node(&p, PROGRAM_FETCH, node(&p, op, l, x), 0);
		node(&p, PROGRAM_FETCH, node(&p, op, c, l), 0);
		node(&p, PROGRAM_FETCH, node(&p, op, l, s), 0);
		install_good(200 + op, &p);
		body_begin(&b, 200 + op, &p, (uint32_t[]){ N }, 0);
		body_part(&b, &column[9], sizeof(float));
		body_part(&b, keys, sizeof(keys));
		body_part(&b, fed, sizeof(fed));
		body_part(&b, column, sizeof(column));
		at = body_run(&b, peer, &reply);
		for (unsigned i = 0; i < N; i++, at += 3 * DIM)
			for (unsigned d = 0; d < DIM; d++) {
				const float row = rows[i * DIM + d];
				const float expected[3] = { plain_binary(op, row, fed[i * DIM + d]),
							    plain_binary(op, column[i], row),
							    plain_binary(op, row, column[9]) };

				for (unsigned f = 0; f < 3; f++)
					if (at[f * DIM + d] != expected[f] &&
					    !CHECK_NEAR(at[f * DIM + d], expected[f], 0))
						printf("# op %u, fetch %u, row %u, element %u\n", op, f, i, d);
			}
	}
	shard_stop();
}

void reductions_are_those_of_plain_c(void)
{
	struct peer *peer = begin(3);

	for (unsigned which = 0; which < REDUCTIONS; which++) {
		const unsigned op = reductions[which], elements = elementwise_reduced(op);
		struct program p = { 0 };
		const unsigned k = node_keys(&p, WORDS), x = node_rows(&p, PROGRAM_ROWS, k, DIM);
		const unsigned l = node(&p, PROGRAM_LOOKUP, k, 0);
		const unsigned other = wire_program_op(op)->uses & PROGRAM_USES_B ? x : 0;
		struct reply reply;
		struct body b;
		const float *at;

		node(&p, PROGRAM_FETCH, node(&p, op, l, other), 0);
		install_good(300 + op, &p);
		body_begin(&b, 300 + op, &p, (uint32_t[]){ N }, 0);
		body_part(&b, keys, sizeof(keys));
		body_part(&b, fed, sizeof(fed));
		at = body_run(&b, peer, &reply);
		for (unsigned i = 0; i < N; i++, at += elements) {
			const double expected = plain_reduction(op, &rows[i * DIM], &fed[i * DIM], DIM);
			double result = (double)at[0];

			if (elements == 2)
				memcpy(&result, at, sizeof(result));
			if (!CHECK_NEAR(result, expected, is_exact(op) ? 0 : 1e-5 * (1 + fabs(expected))))
				printf("# op %u, row %u\n", op, i);
		}
	}
	shard_stop();
}

/* Two tables, one of which no key is asked of in turn; segments of both. */
void pools_are_sums_by_segment(void)
{
	enum { SEGMENTS = 37, OTHER_DIM = 7 };
	static uint32_t segments[N];
	static float sums[SEGMENTS * DIM], others[SEGMENTS * OTHER_DIM], other_rows[N * OTHER_DIM];
	struct peer *peer = begin(4);
	struct program p = { 0 };
	const unsigned a = node_keys(&p, WORDS), sa = node(&p, PROGRAM_SEGMENTS, a, 0),
		       la = node(&p, PROGRAM_LOOKUP, a, 0);
	const unsigned c = node_keys(&p, ADAGRAD), sc = node(&p, PROGRAM_SEGMENTS, c, 0),
		       lc = node(&p, PROGRAM_LOOKUP, c, 0);

	node(&p, PROGRAM_FETCH, node(&p, PROGRAM_POOL, la, sa), 0);
	node(&p, PROGRAM_FETCH, node(&p, PROGRAM_POOL, lc, sc), 0);
	install_good(100, &p);
	pull(peer, ADAGRAD, keys, N, WIRE_READ_ONLY, other_rows);
	for (unsigned i = 0; i < N; i++)
		segments[i] = i * i % (SEGMENTS - 1); /* the last one gets nothing */
	for (unsigned round = 0; round < 3; round++) {
		const uint32_t counts[2] = { round == 1 ? 0 : N, round == 2 ? 0 : N };
		struct reply reply;
		struct body b;
		const float *at;

		memset(sums, 0, sizeof(sums));
		memset(others, 0, sizeof(others));
		for (unsigned i = 0; i < N; i++) {
			for (unsigned d = 0; d < DIM && counts[0]; d++)
				sums[segments[i] * DIM + d] += rows[i * DIM + d];
			for (unsigned d = 0; d < OTHER_DIM && counts[1]; d++)
				others[segments[i] * OTHER_DIM + d] += other_rows[i * OTHER_DIM + d];
		}
		body_begin(&b, 100, &p, counts, SEGMENTS);
		for (unsigned k = 0; k < 2; k++) {
			body_part(&b, keys, counts[k] * sizeof(*keys));
			body_part(&b, segments, counts[k] * sizeof(*segments));
		}
		at = body_run(&b, peer, &reply);
		CHECK_MEM(at, sums, sizeof(sums));
		CHECK_MEM((const uint8_t *)at + program_padded(sizeof(sums)), others, sizeof(others));
	}
	CHECK_UINT(shard_rows(), 2 * N); /* a look-up makes rows */
	shard_stop();
}

static void body_segments(struct body *b, unsigned op, const uint32_t *segments, unsigned n)
{
	const uint32_t bytes = program_segment_bytes(op);
	uint8_t numbers[N * sizeof(*segments)];

	for (unsigned i = 0; i < n; i++)
		memcpy(numbers + i * bytes, &segments[i], bytes); /* little endian */
	body_part(b, numbers, n * bytes);
}

/* Sums, and what is handed back to rows, to the last number that a feed has; and one that is not there. */
void segments_of_one_and_two_bytes_are_those_of_four(void)
{
	static const struct {
		unsigned op;
		uint32_t segments;
	} cases[] = { { PROGRAM_SEGMENTS8, 256 },
		      { PROGRAM_SEGMENTS16, 256 },
		      { PROGRAM_SEGMENTS16, 1000 },
		      { PROGRAM_SEGMENTS, 1000 } };
	enum { WIDTH = 2 };
	static uint32_t segments[N];
	static float sums[1000 * DIM], by_segment[1000 * WIDTH];
	struct peer *peer = begin(6);

	for (unsigned i = 0; i < 1000 * WIDTH; i++)
		by_segment[i] = (float)i;
	for (unsigned c = 0; c < RTE_DIM(cases); c++) {
		const unsigned op = cases[c].op;
		const uint32_t count = cases[c].segments;
		struct program p = { 0 };
		const unsigned k = node_keys(&p, WORDS), s = node(&p, op, k, 0);
		const unsigned g = node_rows(&p, PROGRAM_SEGMENT_ROWS, 0, WIDTH);
		const float *at;
		struct reply reply;
		struct request r = { 0 };
		struct body b;

		node(&p, PROGRAM_FETCH, node(&p, PROGRAM_POOL, node(&p, PROGRAM_LOOKUP, k, 0), s), 0);
		node(&p, PROGRAM_FETCH, node(&p, PROGRAM_UNPOOL, g, s), 0);
		install_good(100 + c, &p);
		memset(sums, 0, sizeof(sums));
		for (unsigned i = 0; i < N; i++) {
			segments[i] = count - 1 - i * i % count;
			for (unsigned d = 0; d < DIM; d++)
				sums[segments[i] * DIM + d] += rows[i * DIM + d];
		}
		body_begin(&b, 100 + c, &p, (uint32_t[]){ N }, count);
		body_part(&b, by_segment, count * WIDTH * sizeof(float));
		body_part(&b, keys, sizeof(keys[0]) * N);
		body_segments(&b, op, segments, N);
		at = body_run(&b, peer, &reply);
		for (unsigned i = 0; i < N; i++)
			CHECK_MEM(at + i * WIDTH, by_segment + segments[i] * WIDTH, WIDTH * sizeof(float));
		CHECK_MEM((const uint8_t *)at + program_padded(N * WIDTH * sizeof(float)), sums,
			  count * DIM * sizeof(float));
		body_begin(&b, 100 + c, &p, (uint32_t[]){ N }, count - 1);
		body_part(&b, by_segment, (count - 1) * WIDTH * sizeof(float));
		body_part(&b, keys, sizeof(keys[0]) * N);
		body_segments(&b, op, segments, N);
		body_into(&b, &r);
		request_refused(&r, peer, WIRE_BAD_REQUEST, "names segment");
	}
	shard_stop();
}

/* The gradient of a pool, handed back to the rows and applied, is that of a push; duplicates are summed first. */
void gradients_of_pools_are_pushed(void)
{
	enum { SEGMENTS = 20, WIDTH = 8 };
	static uint64_t others[N];
	static uint32_t segments[N];
	static float by_segment[SEGMENTS * WIDTH], gradients[N * WIDTH], got[N * WIDTH], expected[N * WIDTH];
	struct peer *peer = begin(5);
	struct program p = { 0 };
	const unsigned k = node_keys(&p, EIGHTS), s = node(&p, PROGRAM_SEGMENTS, k, 0);
	const unsigned g = node_rows(&p, PROGRAM_SEGMENT_ROWS, 0, WIDTH), u = node(&p, PROGRAM_UNPOOL, g, s);
	struct reply reply;
	struct body b;

	node(&p, PROGRAM_APPLY, k, node(&p, ELEMENTWISE_NEG, u, 0));
	install_good(100, &p);
	for (unsigned i = 0; i < SEGMENTS * WIDTH; i++)
		by_segment[i] = (float)i / 32 - 2;
	for (unsigned i = 0; i < N; i++) {
		keys[i] = i % 70; /* each of them several times */
		others[i] = keys[i] + 1000000;
		segments[i] = i * 3 % SEGMENTS;
		for (unsigned d = 0; d < WIDTH; d++)
			gradients[i * WIDTH + d] = -by_segment[segments[i] * WIDTH + d];
	}
	for (uint32_t n = 5; n <= N; n += N - 5) { /* in one slice, and in several */
		body_begin(&b, 100, &p, (uint32_t[]){ n }, SEGMENTS);
		b.op.rate = 0.25f;
		b.op.flags |= WIRE_RATE;
		body_part(&b, by_segment, sizeof(by_segment));
		body_part(&b, keys, n * sizeof(*keys));
		body_part(&b, segments, n * sizeof(*segments));
		body_run(&b, peer, &reply);
		request_push(&b.r, EIGHTS, others, gradients, n, 0.25f);
		request_good(&b.r, peer);
		pull(peer, EIGHTS, keys, N, WIRE_READ_ONLY, got);
		pull(peer, EIGHTS, others, N, WIRE_READ_ONLY, expected);
		CHECK_MEM(got, expected, sizeof(got));
	}
	CHECK_NEAR(service_counters(shard.service)->pushes, 4, 0);
	CHECK(got[0] != 0);
	shard_stop();
}

/* A step of logistic regression on the node: what it fetches are the rows before it; and what was applied once is not
 * again. */
void one_run_reads_computes_and_applies(void)
{
	static float after[N * DIM], expected[N * DIM];
	struct peer *peer = begin(6);
	struct program p = { 0 };
	const unsigned k = node_keys(&p, WORDS), x = node_rows(&p, PROGRAM_ROWS, k, DIM),
		       t = node_rows(&p, PROGRAM_ROWS, k, 1);
	const unsigned l = node(&p, PROGRAM_LOOKUP, k, 0);
	const unsigned y = node(&p, ELEMENTWISE_SIGMOID, node(&p, ELEMENTWISE_DOT, l, x), 0);
	const unsigned e = node(&p, ELEMENTWISE_SUB, y, t);
	struct reply reply;
	struct body b;
	const float *at;

	node(&p, PROGRAM_APPLY, k, node(&p, ELEMENTWISE_MUL, e, x));
	node(&p, PROGRAM_FETCH, l, 0);
	node(&p, PROGRAM_FETCH, e, 0);
	install_good(100, &p);
	for (unsigned round = 0; round < 2; round++) {
		body_begin(&b, 100, &p, (uint32_t[]){ N }, 0);
		b.op.flags = round ? WIRE_APPLIED : 0;
		body_part(&b, keys, sizeof(keys));
		body_part(&b, fed, sizeof(fed));
		body_part(&b, column, sizeof(column));
		at = body_run(&b, peer, &reply);
		for (unsigned i = 0; i < N; i++, at += DIM + 1) {
			CHECK_MEM(at, round ? &expected[i * DIM] : &rows[i * DIM], DIM * sizeof(float));
			for (unsigned d = 0; d < DIM && !round; d++)
				expected[i * DIM + d] = rows[i * DIM + d] - 0.5f * (at[DIM] * fed[i * DIM + d]);
		}
		pull(peer, WORDS, keys, N, 0, after);
		CHECK_MEM(after, expected, sizeof(expected));
	}
	CHECK_UINT(service_counters(shard.service)->pushes, 1);
	shard_stop();
}

/* The rows themselves as gradients: w -= rate w. */
void rows_may_be_their_own_gradients(void)
{
	struct peer *peer = begin(7);
	struct program p = { 0 };
	const unsigned k = node_keys(&p, WORDS), l = node(&p, PROGRAM_LOOKUP, k, 0);
	static float after[N * DIM];
	struct reply reply;
	struct body b;

	node(&p, PROGRAM_APPLY, k, l);
	install_good(100, &p);
	body_begin(&b, 100, &p, (uint32_t[]){ N }, 0);
	body_part(&b, keys, sizeof(keys));
	body_run(&b, peer, &reply);
	pull(peer, WORDS, keys, N, 0, after);
	for (unsigned i = 0; i < N * DIM; i++)
		CHECK_NEAR(after[i], rows[i] - 0.5f * rows[i], 0);
	shard_stop();
}

/* Gradients of the variable's blocks: computed, brought, the blocks themselves, and those of segments. */
static unsigned gradients_of(struct program *p, unsigned how, unsigned k, unsigned block, unsigned given)
{
	switch (how) {
	case 0:
		return node(p, ELEMENTWISE_MUL, block, given);
	case 1:
		return given;
	case 2:
		return block;
	default:
		return node(p, PROGRAM_UNPOOL, node_rows(p, PROGRAM_SEGMENT_ROWS, 0, BLOCK),
			    node(p, PROGRAM_SEGMENTS, k, 0));
	}
}

/* What lies beyond a variable's end in its last block is in no sum, and gets no gradient; also where the block comes
 * again. */
void sums_and_gradients_end_where_a_variable_does(void)
{
	enum { BLOCKS = 9, LAST = 100 * 64 % BLOCK };
	static const uint64_t blocks[BLOCKS] = { 6, 0, 6, 5, 1, 2, 3, 4, 6 };
	static const uint32_t segments[BLOCKS] = { 0 };
	static float given[BLOCKS * BLOCK], before[BLOCKS * BLOCK], after[BLOCKS * BLOCK];

	for (unsigned i = 0; i < RTE_DIM(given); i++)
		given[i] = (float)(i % 37) / 8 + 1;
	for (unsigned how = 0; how < 4; how++) {
		struct peer *peer = shard_simple(9);
		struct program p = { 0 };
		const unsigned k = node_keys(&p, VARIABLE), g = node_rows(&p, PROGRAM_ROWS, k, BLOCK);
		const unsigned l = node(&p, PROGRAM_LOOKUP, k, 0), sum = node(&p, ELEMENTWISE_ROW_SUM, g, 0);
		const unsigned product = node(&p, ELEMENTWISE_DOT, l, g);
		struct reply reply;
		struct body b;
		const float *at;

		node(&p, PROGRAM_APPLY, k, gradients_of(&p, how, k, l, g));
		node(&p, PROGRAM_FETCH, sum, 0);
		node(&p, PROGRAM_FETCH, product, 0);
		install_good(100, &p);
		pull(peer, VARIABLE, blocks, BLOCKS, 0, before);
		body_begin(&b, 100, &p, (uint32_t[]){ BLOCKS }, how == 3);
		if (how == 3)
			body_part(&b, given, BLOCK * sizeof(float));
		body_part(&b, blocks, sizeof(blocks));
		body_part(&b, given, sizeof(given));
		if (how == 3)
			body_part(&b, segments, sizeof(segments));
		at = body_run(&b, peer, &reply);
		pull(peer, VARIABLE, blocks, BLOCKS, 0, after);
		for (unsigned i = 0; i < BLOCKS; i++, at += 2) {
			double sums[2] = { 0 };

			for (unsigned d = 0; d < (blocks[i] == 6 ? LAST : BLOCK); d++) {
				sums[0] += given[i * BLOCK + d];
				sums[1] += given[i * BLOCK + d] * before[i * BLOCK + d];
			}
			CHECK_NEAR(at[0], sums[0], 1e-3);
			CHECK_NEAR(at[1], sums[1], 1e-3);
			for (unsigned d = LAST; d < BLOCK && blocks[i] == 6; d++)
				CHECK_NEAR(after[i * BLOCK + d], before[i * BLOCK + d], 0);
			CHECK(after[i * BLOCK + LAST - 1] != before[i * BLOCK + LAST - 1]);
			CHECK(blocks[i] == 6 || after[i * BLOCK + BLOCK - 1] != before[i * BLOCK + BLOCK - 1]);
		}
		shard_stop();
	}
}

/* Converted, filtered, of a variable's blocks; read-only and not. */
void lookups_read_what_pulls_read(void)
{
	static const struct {
		unsigned object, flags;
		uint64_t makes;
	} cases[] = { { HALVES, PROGRAM_READ_ONLY, 0 },
		      { HALVES, 0, 7 },
		      { FILTERED, 0, 0 },
		      { WORDS, PROGRAM_READ_ONLY, 0 },
		      { WORDS, 0, 7 },
		      { VARIABLE, 0, 7 },
		      { WIDE, 0, 7 },
		      { LAMB, PROGRAM_READ_ONLY, 0 } };
	static float expected[7 * WIRE_DIM_MAX];

	for (unsigned i = 0; i < RTE_DIM(cases); i++) {
		struct peer *peer = shard_simple(8);
		struct program p = { 0 };
		const unsigned k = node_keys(&p, cases[i].object), l = node(&p, PROGRAM_LOOKUP, k, 0);
		const uint32_t dim = specs[cases[i].object]->dim;
		struct reply reply;
		struct body b;
		const float *at;

		p.nodes[l].flags = (uint8_t)cases[i].flags;
		node(&p, PROGRAM_FETCH, l, 0);
		install_good(100, &p);
		fill_keys(keys, 7, 0);
		pull(peer, cases[i].object, keys, 7, WIRE_READ_ONLY, expected);
		body_begin(&b, 100, &p, (uint32_t[]){ 7 }, 0);
		body_part(&b, keys, 7 * sizeof(*keys));
		at = body_run(&b, peer, &reply);
		if (cases[i].object == FILTERED) /* whose look-up waits for admission, and says so */
			CHECK_NEAR(at[0], 0.5, 0);
		else
			CHECK_MEM(at, expected, 7 * dim * sizeof(float));
		CHECK_UINT(shard_rows(), cases[i].makes);
		/* What a pull of float32 does as well goes its way. */
		CHECK_UINT(service_counters(shard.service)->runs,
			   cases[i].object != WORDS && cases[i].object != FILTERED);
		shard_stop();
	}
}
