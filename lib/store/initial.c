/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/initial.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "tensor/elementary.h"
#include "tensor/philox.h"

enum { ATTEMPTS_MAX = 64 }; /* one value in 22 is drawn again; that all of this many are is practically impossible */

/* The standard deviation of a normal distribution that is truncated at two of them. */
#define TRUNCATED_DEVIATION 0.87962566103423978

/* Inputs and outputs of a layer with these weights. */
static void fans(const struct object_spec *spec, double *in, double *out)
{
	double others = 1;

	if (spec->kind == OBJECT_TABLE) {
		*in = 1;
		*out = spec->dim;
		return;
	}
	for (unsigned i = 0; i + 2 < spec->ndim; i++)
		others *= (double)spec->shape[i];
	*out = (double)spec->shape[spec->ndim - 1] * others;
	*in = spec->ndim > 1 ? (double)spec->shape[spec->ndim - 2] * others : *out;
}

void store_initial_init(struct initial *in, const struct object_spec *spec)
{
	const uint64_t key = hash_mix(spec->seed ^ hash_name(spec->name));
	double fan_in, fan_out;

	*in = (struct initial){ .kind = spec->initializer,
				.scale = spec->scale,
				.mean = spec->mean,
				.key = { (uint32_t)key, (uint32_t)(key >> 32) },
				.elements = spec->kind == OBJECT_VARIABLE ? wire_object_elements(spec) : 0 };
	fans(spec, &fan_in, &fan_out);
	switch (spec->initializer) {
	case OBJECT_ZEROS:
	case OBJECT_ONES:
		in->kind = OBJECT_CONSTANT;
		in->scale = spec->initializer == OBJECT_ONES;
		break;
	case OBJECT_GLOROT_UNIFORM:
	case OBJECT_HE_UNIFORM:
		in->kind = OBJECT_UNIFORM;
		in->scale = (float)sqrt(6 / (spec->initializer == OBJECT_HE_UNIFORM ? fan_in : fan_in + fan_out));
		in->mean = 0;
		break;
	case OBJECT_GLOROT_NORMAL:
	case OBJECT_HE_NORMAL:
		in->kind = OBJECT_TRUNCATED_NORMAL;
		in->scale = (float)(sqrt(2 / (spec->initializer == OBJECT_HE_NORMAL ? fan_in : fan_in + fan_out)) /
				    TRUNCATED_DEVIATION);
		in->mean = 0;
		break;
	}
}

static void uniform(const struct initial *in, const uint32_t words[4], float values[4])
{
	for (int i = 0; i < 4; i++)
		values[i] = in->mean + in->scale * ((float)(words[i] >> 8) * 0x1p-23f - 1.0f);
}

/* Four normally distributed values, of mean 0 and deviation 1. */
static void normal(const uint32_t words[4], double values[4])
{
	double radius, sine, cosine;

	for (int i = 0; i < 4; i += 2) {
		radius = sqrt(-2 * tensor_elementary_log(((double)words[i] + 1) * 0x1p-32));
		tensor_elementary_sincos(words[i + 1], &sine, &cosine);
		values[i] = radius * cosine;
		values[i + 1] = radius * sine;
	}
}

/* Replaces values beyond two deviations by those of the next attempts. */
static void truncate_normal(const struct initial *in, uint32_t counter[4], double values[4])
{
	uint32_t words[4];
	double again[4];

	for (counter[3] = 1; counter[3] < ATTEMPTS_MAX; counter[3]++) {
		bool all = true;

		for (int i = 0; i < 4; i++)
			all &= fabs(values[i]) <= 2;
		if (all)
			break;
		philox(counter, in->key, words);
		normal(words, again);
		for (int i = 0; i < 4; i++)
			values[i] = fabs(values[i]) <= 2 ? values[i] : again[i];
	}
	counter[3] = 0;
}

static void draw_values(const struct initial *in, uint32_t counter[4], float values[4])
{
	uint32_t words[4];
	double normals[4];

	philox(counter, in->key, words);
	if (in->kind == OBJECT_UNIFORM) {
		uniform(in, words, values);
		return;
	}
	normal(words, normals);
	if (in->kind == OBJECT_TRUNCATED_NORMAL)
		truncate_normal(in, counter, normals);
	for (int i = 0; i < 4; i++)
		values[i] = in->mean + (float)normals[i] * in->scale;
}

void store_initial_values(const struct initial *in, uint64_t key, float *values, uint32_t dim)
{
	uint32_t counter[4] = { (uint32_t)key, (uint32_t)(key >> 32), 0, 0 };
	float four[4];

	if (in->kind == OBJECT_CONSTANT)
		for (uint32_t i = 0; i < dim; i++)
			values[i] = in->scale;
	else
		for (uint32_t i = 0; i < dim; i += 4) {
			const uint32_t n = dim - i < 4 ? dim - i : 4;

			counter[2] = i / 4;
			draw_values(in, counter, four);
			memcpy(values + i, four, n * sizeof(*four));
		}
	if (in->elements && key >= in->elements / dim) {
		const uint32_t own = key == in->elements / dim ? (uint32_t)(in->elements % dim) : 0;

		memset(values + own, 0, (dim - own) * sizeof(*values));
	}
}
