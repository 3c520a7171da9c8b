/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/object.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tensor/dtype.h"

static const char *const kind_names[] = { [OBJECT_TABLE] = "table", [OBJECT_VARIABLE] = "variable" };
static const char *const initializer_names[] = {
	[OBJECT_ZEROS] = "zeros",
	[OBJECT_CONSTANT] = "constant",
	[OBJECT_UNIFORM] = "uniform",
	[OBJECT_NORMAL] = "normal",
};
static const char *const optimizer_names[] = { [OBJECT_SGD] = "sgd", [OBJECT_ADAGRAD] = "adagrad" };

enum { BLOCK_ELEMENTS = 1024, ELEMENTS_LOG2_MAX = 38 };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static unsigned parse(const char *const *names, unsigned count, const char *name)
{
	for (unsigned i = 1; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return 0;
}

const char *object_kind_name(unsigned kind)
{
	return kind < COUNT(kind_names) ? kind_names[kind] : NULL;
}

const char *object_initializer_name(unsigned initializer)
{
	return initializer < COUNT(initializer_names) ? initializer_names[initializer] : NULL;
}

const char *object_optimizer_name(unsigned optimizer)
{
	return optimizer < COUNT(optimizer_names) ? optimizer_names[optimizer] : NULL;
}

unsigned object_initializer_parse(const char *name)
{
	return parse(initializer_names, COUNT(initializer_names), name);
}

unsigned object_optimizer_parse(const char *name)
{
	return parse(optimizer_names, COUNT(optimizer_names), name);
}

uint64_t object_elements(const struct object_spec *spec)
{
	uint64_t elements = 1;

	for (unsigned i = 0; i < spec->ndim; i++)
		elements *= spec->shape[i];
	return elements;
}

uint64_t object_blocks(const struct object_spec *spec)
{
	return (object_elements(spec) + spec->dim - 1) / spec->dim;
}

/* Bytes of the UTF-8 sequence (RFC 3629) at s, or 0 when it is none. Reads no further than a zero byte. */
static unsigned utf8_bytes(const unsigned char *s)
{
	unsigned n = 0;

	if (s[0] < 0x80)
		n = 1;
	else if (s[0] >= 0xc2 && s[0] < 0xe0)
		n = 2;
	else if (s[0] >= 0xe0 && s[0] < 0xf0)
		n = 3;
	else if (s[0] >= 0xf0 && s[0] < 0xf5)
		n = 4;
	for (unsigned i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
	    (s[0] == 0xf4 && s[1] > 0x8f))
		return 0; /* overlong, a surrogate, or beyond U+10FFFF */
	return n;
}

static int check_name(const char *name, struct star_error *err)
{
	const size_t length = strnlen(name, WIRE_NAME_MAX + 1);

	if (length == 0 || length > WIRE_NAME_MAX)
		return star_error_set(err, -EINVAL, "a name must have 1 to %d bytes", WIRE_NAME_MAX);
	for (size_t i = 0; i < length; i += utf8_bytes((const unsigned char *)name + i))
		if (utf8_bytes((const unsigned char *)name + i) == 0)
			return star_error_set(err, -EINVAL, "the name is not UTF-8 from its byte %zu on", i);
		else if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
			return star_error_set(err, -EINVAL, "the name has a control character (byte %zu, %#x)", i,
					      (unsigned char)name[i]);
	return 0;
}

/* Whole tensor rows a block where they fit, so that a row is never cut; else plain blocks. */
static int check_shape(struct object_spec *spec, struct star_error *err)
{
	double elements = 1;
	uint64_t row = 1, total;

	if (spec->ndim < 1 || spec->ndim > OBJECT_NDIM_MAX)
		return star_error_set(err, -EINVAL, "variable \"%s\" has %u dimensions: 1 to %d are possible",
				      spec->name, spec->ndim, OBJECT_NDIM_MAX);
	for (unsigned i = 0; i < spec->ndim; i++) {
		if (spec->shape[i] == 0)
			return star_error_set(err, -EINVAL, "dimension %u of variable \"%s\" is 0", i, spec->name);
		elements *= (double)spec->shape[i];
	}
	if (elements > ldexp(1, ELEMENTS_LOG2_MAX))
		return star_error_set(err, -EINVAL, "variable \"%s\" has %.0f elements: at most 2^%d are possible",
				      spec->name, elements, ELEMENTS_LOG2_MAX);
	for (unsigned i = 1; i < spec->ndim; i++)
		row *= spec->shape[i];
	total = object_elements(spec);
	spec->dim = row > BLOCK_ELEMENTS ? BLOCK_ELEMENTS : (uint32_t)(BLOCK_ELEMENTS / row * row);
	if (total < spec->dim)
		spec->dim = (uint32_t)total;
	return 0;
}

int object_spec_check(struct object_spec *spec, struct star_error *err)
{
	if (check_name(spec->name, err) < 0)
		return -EINVAL;
	if (!object_kind_name(spec->kind))
		return star_error_set(err, -EINVAL, "\"%s\" is neither a table nor a variable", spec->name);
	if (dtype_bytes(spec->dtype) == 0)
		return star_error_set(err, -EINVAL, "\"%s\": unknown element type %u; float32 is possible", spec->name,
				      spec->dtype);
	if (!object_initializer_name(spec->initializer))
		return star_error_set(err, -EINVAL,
				      "\"%s\": unknown initializer; zeros, constant, uniform and normal are possible",
				      spec->name);
	if (!object_optimizer_name(spec->optimizer))
		return star_error_set(err, -EINVAL, "\"%s\": unknown optimizer; sgd and adagrad are possible",
				      spec->name);
	if (!isfinite(spec->scale) || !isfinite(spec->rate) || !(spec->epsilon >= 0) || !isfinite(spec->epsilon) ||
	    !(spec->initial_accumulator >= 0) || !isfinite(spec->initial_accumulator))
		return star_error_set(
			err, -EINVAL,
			"\"%s\": scale, rate, epsilon and initial accumulator must be finite, the last two not "
			"negative",
			spec->name);
	if (spec->optimizer == OBJECT_ADAGRAD && spec->epsilon == 0 && spec->initial_accumulator == 0)
		return star_error_set(
			err, -EINVAL,
			"\"%s\": adagrad needs an epsilon or an initial accumulator: with neither, a gradient of 0 "
			"divides 0 by 0",
			spec->name);
	if (spec->kind == OBJECT_VARIABLE)
		return check_shape(spec, err);
	if (spec->dim < 1 || spec->dim > WIRE_DIM_MAX)
		return star_error_set(err, -EINVAL, "table \"%s\": dim is %u; 1 to %d is possible", spec->name,
				      spec->dim, WIRE_DIM_MAX);
	return 0;
}

static int differs(struct star_error *err, const char *name, const char *what, double have, double want)
{
	return star_error_set(err, -EEXIST, "\"%s\" exists with another %s: %.9g there, %.9g asked for", name, what,
			      have, want);
}

static int differs_whole(struct star_error *err, const char *name, const char *what, uint64_t have, uint64_t want)
{
	return star_error_set(err, -EEXIST, "\"%s\" exists with another %s: %" PRIu64 " there, %" PRIu64 " asked for",
			      name, what, have, want);
}

int object_spec_same(const struct object_spec *have, const struct object_spec *want, struct star_error *err)
{
	const char *name = want->name;

	if (have->kind != want->kind)
		return star_error_set(err, -EEXIST, "\"%s\" exists as a %s, a %s was asked for", name,
				      object_kind_name(have->kind), object_kind_name(want->kind));
	if (have->dtype != want->dtype)
		return star_error_set(err, -EEXIST, "\"%s\" exists with element type %s, %s was asked for", name,
				      dtype_name(have->dtype), dtype_name(want->dtype));
	if (have->dim != want->dim)
		return differs(err, name, have->kind == OBJECT_TABLE ? "dim" : "block size", have->dim, want->dim);
	if (have->ndim != want->ndim)
		return differs(err, name, "number of dimensions", have->ndim, want->ndim);
	for (unsigned i = 0; i < have->ndim; i++)
		if (have->shape[i] != want->shape[i])
			return differs_whole(err, name, "shape", have->shape[i], want->shape[i]);
	if (have->initializer != want->initializer)
		return star_error_set(err, -EEXIST, "\"%s\" exists with initializer %s, %s was asked for", name,
				      object_initializer_name(have->initializer),
				      object_initializer_name(want->initializer));
	if (have->optimizer != want->optimizer)
		return star_error_set(err, -EEXIST, "\"%s\" exists with optimizer %s, %s was asked for", name,
				      object_optimizer_name(have->optimizer), object_optimizer_name(want->optimizer));
	if (have->seed != want->seed)
		return differs_whole(err, name, "seed", have->seed, want->seed);
	if (have->scale != want->scale)
		return differs(err, name, "initializer scale", (double)have->scale, (double)want->scale);
	if (have->rate != want->rate)
		return differs(err, name, "learning rate", (double)have->rate, (double)want->rate);
	if (have->epsilon != want->epsilon)
		return differs(err, name, "epsilon", (double)have->epsilon, (double)want->epsilon);
	if (have->initial_accumulator != want->initial_accumulator)
		return differs(err, name, "initial accumulator", (double)have->initial_accumulator,
			       (double)want->initial_accumulator);
	return 0;
}
