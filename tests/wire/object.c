/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/object.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tensor/dtype.h"
#include "tests/wire/cases.h"

static struct object_spec table(void)
{
	struct object_spec spec = { .kind = OBJECT_TABLE, .dtype = STAR_FLOAT32, .dim = 64, .name = "words" };

	wire_object_spec_defaults(&spec, OPTIM_ADAGRAD);
	CHECK_INT(wire_object_spec_options(&spec,
					   "initializer=uniform, scale=0.5, seed=1, rate=0.1, epsilon=1e-8, "
					   "initial_accumulator=0.125",
					   NULL),
		  0);
	return spec;
}

static struct object_spec variable(uint32_t ndim, const uint64_t *shape)
{
	struct object_spec spec = table();

	spec.kind = OBJECT_VARIABLE;
	spec.dim = 0;
	spec.ndim = ndim;
	for (uint32_t i = 0; i < ndim && i < OBJECT_NDIM_MAX; i++)
		spec.shape[i] = shape[i];
	return spec;
}

static void check_good(struct object_spec spec)
{
	struct star_error err = { 0 };

	if (!CHECK_INT(wire_object_spec_check(&spec, &err), 0))
		printf("# %s\n", err.text);
}

static void check_bad(struct object_spec spec, const char *part)
{
	struct star_error err = { 0 };

	CHECK_INT(wire_object_spec_check(&spec, &err), -EINVAL);
	CHECK_INT(err.code, -EINVAL);
	CHECK_HAS(err.text, part);
}

/* What requests name: each id with each generation is another number, and is read back. */
void ids_and_generations_have_their_bits(void)
{
	static const uint32_t ids[] = { 1, 2, 1023, 1024, 1025, 2047, 2048, WIRE_OBJECTS_MAX - 1, WIRE_OBJECTS_MAX };
	static const uint32_t generations[] = {
		0, 1, 2, 65535, 65536, OBJECT_GENERATION_MAX - 1, OBJECT_GENERATION_MAX
	};
	enum { IDS = sizeof(ids) / sizeof(ids[0]), GENERATIONS = sizeof(generations) / sizeof(generations[0]) };
	uint32_t seen[IDS * GENERATIONS];
	unsigned count = 0;

	CHECK_UINT(WIRE_OBJECTS_MAX, 16384);
	CHECK_UINT(OBJECT_GENERATION_MAX, 131071);
	for (unsigned i = 0; i < IDS; i++)
		for (unsigned g = 0; g < GENERATIONS; g++) {
			const struct object_spec spec = { .id = ids[i], .generation = generations[g] };
			const uint32_t wire_id = object_wire_id(&spec);

			CHECK_UINT(object_id_of(wire_id), ids[i]);
			CHECK_UINT(wire_id >> OBJECT_ID_BITS, generations[g]);
			for (unsigned s = 0; s < count; s++)
				CHECK(seen[s] != wire_id);
			seen[count++] = wire_id;
		}
	/* Whatever a request has, there is a place for it where reactors look. */
	CHECK(object_id_of(UINT32_MAX) < OBJECT_IDS);
}

void names_have_limits(void)
{
	struct object_spec spec = table();

	memset(spec.name, 0, sizeof(spec.name));
	check_bad(spec, "a name must have 1 to 127 bytes");
	memset(spec.name, 'n', WIRE_NAME_MAX);
	check_good(spec);
	spec.name[WIRE_NAME_MAX] = 'n'; /* 128 bytes, and no end */
	check_bad(spec, "a name must have 1 to 127 bytes");
	for (int c = 1; c < 256; c++) {
		char part[64];

		memset(spec.name, 0, sizeof(spec.name));
		memcpy(spec.name, "ab", 2);
		spec.name[1] = (char)c;
		snprintf(part, sizeof(part), "a control character (byte 1, %#x)", c);
		if (c < 0x20 || c == 0x7f)
			check_bad(spec, part);
		else if (c >= 0x80)
			check_bad(spec, "the name is not UTF-8 from its byte 1 on");
		else
			check_good(spec);
	}
	/* U+0080 to U+009F are control characters, too: terminals obey them. */
	for (int c = 0x80; c < 0xc0; c++) {
		snprintf(spec.name, sizeof(spec.name), "a\xc2%c", c);
		if (c < 0xa0)
			check_bad(spec, "the name has a control character (byte 1, 0xc2)");
		else
			check_good(spec);
	}
}

/* The limits of RFC 3629: shortest forms, no surrogates, nothing beyond U+10FFFF, nothing cut. */
void names_are_utf8(void)
{
	static const char *const good[] = { "\xc2\xa0",		"\xdf\xbf",	    "\xe0\xa0\x80",
					    "\xed\x9f\xbf",	"\xee\x80\x80",	    "\xef\xbf\xbf",
					    "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "W\xc3\xb6rter/\xe8\xaf\x8d" };
	static const char *const bad[] = { "\xc0\x80",
					   "\xc1\xbf",
					   "\xe0\x9f\xbf",
					   "\xed\xa0\x80",
					   "\xf0\x8f\xbf\xbf",
					   "\xf4\x90\x80\x80",
					   "\xf5\x80\x80\x80",
					   "\xc3",
					   "\xe8\xaf",
					   "\xf0\x90\x80",
					   "\xc3(",
					   "\xff" };
	struct object_spec spec = table();

	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(spec.name, sizeof(spec.name), "%s", good[i]);
		check_good(spec);
	}
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(spec.name, sizeof(spec.name), "abc%s", bad[i]);
		check_bad(spec, "the name is not UTF-8 from its byte 3 on");
	}
	/* Cut by the end of the field. */
	memset(spec.name, 'n', sizeof(spec.name));
	memcpy(spec.name + WIRE_NAME_MAX - 1, "\xc3", 2);
	check_bad(spec, "the name is not UTF-8 from its byte 126 on");
}

void each_bad_spec_is_refused(void)
{
	enum { CASES = 20 };
	struct object_spec s[CASES];
	const char *part[CASES];
	unsigned n = 0;

#define CASE(change, sentence) \
	do { \
		struct object_spec *c = &s[n]; \
		*c = table(); \
		change; \
		part[n++] = sentence; \
	} while (0)
	CASE(c->kind = 0, "neither a table nor a variable");
	CASE(c->kind = 4, "neither a table nor a variable");
	CASE(c->dtype = 0, "unknown element type 0; possible values are float32, ");
	CASE(c->dtype = 255, "unknown element type 255");
	CASE(c->initializer = 0, "initializer is unknown; possible: zeros, constant, uniform, ");
	CASE(c->initializer = 11, "initializer is unknown");
	CASE(c->optim.kind = 0, "there is no optimizer number 0: the optimizers are sgd, adagrad, ");
	CASE(c->optim.kind = 255, "there is no optimizer number 255");
	CASE(c->scale = NAN, "scale is nan; possible: any number");
	CASE(c->scale = INFINITY, "scale is inf");
	CASE(c->optim.rate = -INFINITY, "rate of optimizer adagrad is -inf");
	CASE(c->optim.rate = NAN, "rate of optimizer adagrad is nan");
	CASE(c->optim.rate = -1, "rate of optimizer adagrad is -1: it must be between 0 and 1e+30");
	CASE(c->optim.epsilon = -0.5f, "epsilon of optimizer adagrad is -0.5");
	CASE(c->optim.beta1 = 0.5f, "beta1 is 0.5, but optimizer adagrad does not use it");
	CASE(c->full = 4, "full is unknown; possible: refuse, evict_lru, evict_lfu");
	CASE(c->versions = 2, "versions is 2; possible: 0 or 1");
	CASE(c->filter_error = 0.6f, "filter_error is 0.6; possible: 1e-06 to 0.5");
	CASE(c->rows_max = UINT64_MAX, "rows_max is 18446744073709551615; possible: 0 to 1000000000000000");
#undef CASE
	for (unsigned i = 0; i < n; i++) {
		check_bad(s[i], part[i]);
		check_bad(s[i], "\"words\"");
	}
	s[0] = table();
	s[0].optim.rate = 0;
	check_good(s[0]);
	CHECK_INT(wire_object_spec_check(&(struct object_spec){ .name = "" }, NULL), -EINVAL);
}

void table_dims_have_limits(void)
{
	struct object_spec spec = table();

	spec.dim = 0;
	check_bad(spec, "table \"words\": dim is 0; 1 to 4096 are possible");
	spec.dim = WIRE_DIM_MAX + 1;
	check_bad(spec, "dim is 4097");
	spec.dim = UINT32_MAX;
	check_bad(spec, "dim is 4294967295");
	spec.dim = 1;
	check_good(spec);
	spec.dim = WIRE_DIM_MAX;
	check_good(spec);
}

#define SHAPE(...) \
	(const uint64_t[]) \
	{ \
		__VA_ARGS__ \
	}

void variable_shapes_have_limits(void)
{
	check_bad(variable(0, NULL), "has 0 dimensions: 1 to 8 are possible");
	check_bad(variable(9, SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), "has 9 dimensions");
	check_bad(variable(UINT32_MAX, SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), "has 4294967295 dimensions");
	check_good(variable(8, SHAPE(2, 2, 2, 2, 2, 2, 2, 2)));
	check_bad(variable(1, SHAPE(0)), "dimension 0 of variable \"words\" is 0");
	check_bad(variable(3, SHAPE(4, 5, 0)), "dimension 2 of variable \"words\" is 0");
	check_good(variable(1, SHAPE(UINT64_C(1) << 38)));
	check_bad(variable(1, SHAPE((UINT64_C(1) << 38) + 1)), "has 274877906945 elements: at most 2^38");
	check_good(variable(2, SHAPE(1 << 19, 1 << 19)));
	check_bad(variable(2, SHAPE(1 << 20, 1 << 19)), "at most 2^38");
	/* Products that wrap around 2^64 are not believed. */
	check_bad(variable(2, SHAPE(UINT64_C(1) << 32, UINT64_C(1) << 32)), "at most 2^38");
	check_bad(variable(4, SHAPE(UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX)), "at most 2^38");
}

void blocks_hold_whole_rows(void)
{
	static const struct {
		uint32_t ndim;
		uint64_t shape[3];
		uint32_t dim;
		uint64_t elements, blocks;
	} cases[] = {
		{ 1, { 1 }, 1, 1, 1 },
		{ 1, { 10 }, 10, 10, 1 },
		{ 1, { 1024 }, 1024, 1024, 1 },
		{ 1, { 1025 }, 1024, 1025, 2 },
		{ 2, { 100, 64 }, 1024, 6400, 7 },	/* 16 rows a block */
		{ 2, { 1000, 300 }, 900, 300000, 334 }, /* 3 rows a block; the last holds one */
		{ 2, { 3, 600 }, 600, 1800, 3 },	/* one row a block: two would be more than 1024 */
		{ 2, { 2, 300 }, 600, 600, 1 },		/* all of it is less than a block */
		{ 2, { 5, 1024 }, 1024, 5120, 5 },
		{ 2, { 2, 5000 }, 1024, 10000, 10 }, /* a row that is longer than a block is cut */
		{ 3, { 7, 10, 20 }, 1000, 1400, 2 }, /* a row is 10 x 20 */
		{ 2, { 1, 1 }, 1, 1, 1 },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct object_spec spec = variable(cases[i].ndim, cases[i].shape);
		const uint64_t row = cases[i].elements / cases[i].shape[0];

		CHECK_INT(wire_object_spec_check(&spec, NULL), 0);
		CHECK_UINT(spec.dim, cases[i].dim);
		CHECK_UINT(wire_object_elements(&spec), cases[i].elements);
		if (!CHECK_UINT(wire_object_blocks(&spec), cases[i].blocks) ||
		    !CHECK(row > 1024 || spec.dim % row == 0 || spec.dim == cases[i].elements))
			printf("# case %u\n", i);
		CHECK(spec.dim <= WIRE_DIM_MAX);
	}
}

void equal_specs_are_the_same(void)
{
	struct object_spec a = table(), b = table();
	struct star_error err = { 0 };

	a.id = 1;
	b.id = 2;
	CHECK_INT(wire_object_spec_same(&a, &b, &err), 0);
	a = b = variable(2, SHAPE(10, 20));
	CHECK_INT(wire_object_spec_check(&a, &err), 0);
	CHECK_INT(wire_object_spec_check(&b, &err), 0);
	b.shape[2] = 5; /* beyond ndim: not part of it */
	CHECK_INT(wire_object_spec_same(&a, &b, &err), 0);
}

static void check_differ(const struct object_spec *have, const struct object_spec *want, const char *sentence)
{
	struct star_error err = { 0 };
	char whole[sizeof(err.text)];

	snprintf(whole, sizeof(whole), "%s%s", sentence,
		 strstr(sentence, " there, ") ? "; use that definition, or drop it to start again (starctl tables drop)"
					      : "");
	CHECK_INT(wire_object_spec_same(have, want, &err), -EEXIST);
	CHECK_STR(err.text, whole);
	CHECK_INT(wire_object_spec_same(want, have, &err), -EEXIST);
}

void each_difference_names_both_sides(void)
{
	const struct object_spec have = table();
	struct object_spec want, v = variable(2, SHAPE(10, 20)), w;

#define DIFFERS(change, sentence) \
	do { \
		want = have; \
		change; \
		check_differ(&have, &want, "\"words\" exists " sentence); \
	} while (0)
	DIFFERS(want.kind = OBJECT_VARIABLE, "as a table, but a variable was requested");
	DIFFERS(want.dtype = STAR_FLOAT16, "with another element type: float32 there, float16 requested");
	DIFFERS(want.dim = 65, "with another dim: 64 there, 65 requested");
	DIFFERS(want.initializer = OBJECT_NORMAL, "with another initializer: uniform there, normal requested");
	DIFFERS(want.optim.kind = OPTIM_SGD, "with another optimizer: adagrad there, sgd requested");
	DIFFERS(want.seed = UINT64_MAX, "with another seed: 1 there, 18446744073709551615 requested");
	DIFFERS(want.scale = 0.25f, "with another scale: 0.5 there, 0.25 requested");
	DIFFERS(want.optim.rate = 0.5f, "with another rate: 0.1 there, 0.5 requested");
	DIFFERS(want.optim.epsilon = 0, "with another epsilon: 1e-08 there, 0 requested");
	DIFFERS(want.full = FULL_EVICT_LFU, "with another full: refuse there, evict_lfu requested");
	DIFFERS(want.versions = 1, "with another versions: 0 there, 1 requested");
#undef DIFFERS
	wire_object_spec_check(&v, NULL);
	w = variable(2, SHAPE(20, 20));
	wire_object_spec_check(&w, NULL);
	check_differ(&v, &w, "\"words\" exists with another shape: 10 x 20 there, 20 x 20 requested");
	w = variable(1, SHAPE(200));
	wire_object_spec_check(&w, NULL);
	check_differ(&v, &w, "\"words\" exists with another shape: 10 x 20 there, 200 requested");
}

/* No member of a definition can differ unseen: a change of any byte that means something is found. */
void each_option_is_compared(void)
{
	struct object_spec have = { .kind = OBJECT_TABLE, .dtype = STAR_FLOAT32, .dim = 4, .name = "words" };

	wire_object_spec_defaults(&have, OPTIM_ADAM);
	for (const struct object_option *o = wire_object_options; o->name; o++) {
		struct object_spec want = have;
		struct star_error err = { 0 };
		char part[64];

		if (o->type == OPTION_FLOAT)
			wire_object_option_set(o, &want, 0, wire_object_option_float(o, &have) + 1);
		else
			wire_object_option_set(o, &want, wire_object_option_whole(o, &have) + 1, 0);
		CHECK_INT(wire_object_spec_same(&have, &want, &err), -EEXIST);
		snprintf(part, sizeof(part), "with another %s: ", o->name);
		CHECK_HAS(err.text, part);
	}
}

void names_of_kinds_parse_back(void)
{
	CHECK_STR(wire_object_kind_name(OBJECT_TABLE), "table");
	CHECK_STR(wire_object_kind_name(OBJECT_VARIABLE), "variable");
	CHECK_STR(wire_object_kind_name(OBJECT_PROGRAM), "program");
	CHECK(!wire_object_kind_name(0) && !wire_object_kind_name(4) && !wire_object_kind_name(UINT32_MAX));
	CHECK(!wire_object_initializer_name(0) && !wire_object_initializer_name(11));
	for (unsigned i = OBJECT_ZEROS; i <= OBJECT_HE_NORMAL; i++)
		CHECK_UINT(wire_object_initializer_parse(wire_object_initializer_name(i)), i);
	CHECK_UINT(wire_object_initializer_parse("Zeros"), 0);
	CHECK_UINT(wire_object_initializer_parse(""), 0);
	for (const struct object_option *o = wire_object_options; o->name; o++)
		for (unsigned i = 1; o->type == OPTION_NAME && o->name_of(i); i++)
			CHECK_UINT(wire_object_option_parse(o, o->name_of(i)), i);
}
