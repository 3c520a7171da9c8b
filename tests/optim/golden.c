/* SPDX-License-Identifier: BSD-3-Clause */
/* What PyTorch's optimizers make of a row: golden.inc, which golden.py writes. */
#include "tests/optim/cases.h"

enum { N = 6, CHECKPOINTS = 6 };

static const unsigned checkpoints[CHECKPOINTS] = { 1, 2, 3, 10, 100, 1000 };

static const struct {
	const char *torch;
	struct optim_options options; /* what is not named: the defaults of the option where it is not used */
	double rows[CHECKPOINTS][N], rows64[CHECKPOINTS][N];
} vectors[] = {
#include "tests/optim/golden.inc"
};

enum { VECTORS = sizeof(vectors) / sizeof(vectors[0]) };
_Static_assert(VECTORS >= 18, "golden.inc has vectors");

/* golden.py's functions of the same names. */
static double weight(int i)
{
	return (i * 37 % 19 - 9) / 8.0;
}

static double gradient(int step, int i)
{
	if (step % 3 == 0 && i % 4 == 3)
		return 0;
	return ((step * 7919 + i * 104729) % 257 - 118) / 64.0;
}

/* A vector's options, and what the kind has no use for at its default. */
static struct optim_options options_of(unsigned v)
{
	const struct optim_options *named = &vectors[v].options;
	struct optim_options o = defaults_of(named->kind);

#define X(name, ...) \
	if (optim_uses(named->kind, #name)) \
		o.name = named->name;
	OPTIM_NUMBERS(X)
	OPTIM_SWITCHES(X)
#undef X
	return o;
}

static void follow(unsigned v, enum optim_simd simd)
{
	const struct optim_options options = options_of(v);
	const bool sparse = strcmp(vectors[v].torch, "SparseAdam") == 0;
	const struct optim o = make(&options, simd);
	struct optim_step step = step_of(options.rate);
	float value[N], slots[3 * N], grad[N];
	double value64[N], slots64[3 * N], grad64[N];
	uint32_t word = 0, word64 = 0;
	unsigned next = 0;

	for (int i = 0; i < N; i++) {
		value64[i] = weight(i);
		value[i] = (float)value64[i];
		for (int k = 0; k < 3; k++)
			slots64[k * N + i] = (double)(slots[k * N + i] = o.initial_slots[k]);
	}
	for (unsigned t = 1; t <= checkpoints[CHECKPOINTS - 1]; t++) {
		for (int i = 0; i < N; i++)
			grad[i] = (float)(grad64[i] = gradient((int)t, i));
		step.step = t;
		if (!sparse || t % 2) {
			optim_apply(&o, &step, value, slots, &word, grad, N);
			optim_apply64(&o, &step, value64, slots64, &word64, grad64, N);
		}
		if (t != checkpoints[next])
			continue;
		for (int i = 0; i < N; i++) {
			const double near = vectors[v].rows[next][i], near64 = vectors[v].rows64[next][i];

			/* float32's roundings add up; 1000 of them stay below this. */
			if (!(fabs((double)value[i] - near) <= (t < 100 ? 2e-6 : 1e-4) * (1 + fabs(near))))
				unit_fail(__FILE__, __LINE__, "vector %u (%s), step %u: element %d is %.9g, not %.9g",
					  v, vectors[v].torch, t, i, (double)value[i], near);
			if (!(fabs(value64[i] - near64) <= 1e-11 * (1 + fabs(near64))))
				unit_fail(__FILE__, __LINE__, "vector %u (%s), step %u: element %d is %.17g, not %.17g",
					  v, vectors[v].torch, t, i, value64[i], near64);
		}
		next++;
	}
}

void golden_vectors_of_pytorch(void)
{
	for (unsigned v = 0; v < VECTORS; v++)
		for (enum optim_simd simd = OPTIM_SCALAR; simd < OPTIM_BEST; simd++)
			if (has(simd))
				follow(v, simd);
}
