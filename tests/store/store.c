/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/store/cases.h"

#include <stdio.h>
#include <stdlib.h>

#include "tensor/dtype.h"

struct fixture fixture_open(size_t arena_bytes)
{
	struct fixture f = { .memory = malloc(arena_bytes) };
	struct star_error err = { 0 };

	if (!f.memory)
		abort();
	memset(f.memory, 0xa5, arena_bytes);
	f.store = store_create(f.memory, arena_bytes, &err);
	if (!f.store)
		unit_fail(__FILE__, __LINE__, "no store: %s", err.text);
	return f;
}

void fixture_close(struct fixture *f)
{
	store_destroy(f->store);
	free(f->memory);
}

struct object_spec spec_of(const char *name, uint32_t dim, unsigned optimizer)
{
	struct object_spec spec = { .kind = OBJECT_TABLE, .dtype = STAR_FLOAT32, .dim = dim };

	wire_object_spec_defaults(&spec, optimizer);
	spec.initializer = OBJECT_UNIFORM;
	spec.scale = 1;
	if (optimizer != OPTIM_NONE)
		spec.optim.rate = 0.1f;
	if (optimizer == OPTIM_ADAGRAD) {
		spec.optim.epsilon = 1e-8f;
		spec.optim.initial_accumulator = 0.125f;
	}
	snprintf(spec.name, sizeof(spec.name), "%s", name);
	return spec;
}

struct store_table *table_from(struct fixture *f, const struct object_spec *spec)
{
	struct star_error err = { 0 };
	struct store_table *table = store_table_create(f->store, spec, 1, &err);

	if (!table) {
		unit_fail(__FILE__, __LINE__, "no table: %s", err.text);
		abort();
	}
	return table;
}

struct store_table *table_of(struct fixture *f, const char *name, uint32_t dim, unsigned optimizer)
{
	const struct object_spec spec = spec_of(name, dim, optimizer);

	return table_from(f, &spec);
}

struct store_table *table_with(struct fixture *f, const char *name, uint32_t dim, unsigned optimizer, unsigned dtype,
			       const char *options)
{
	struct object_spec spec = spec_of(name, dim, optimizer);
	struct star_error err = { 0 };

	spec.dtype = (uint8_t)dtype;
	if (!dtype_is_real(dtype)) {
		spec.initializer = OBJECT_ONES;
		spec.scale = 0;
	}
	if (wire_object_spec_options(&spec, options, &err) < 0)
		unit_fail(__FILE__, __LINE__, "no options: %s", err.text);
	return table_from(f, &spec);
}

store_row find_one(struct store_table *table, uint64_t key, enum store_find_mode mode)
{
	store_row row;
	const unsigned refused = store_find(table, &key, 1, mode, 0, &row);

	CHECK_UINT(refused, mode != STORE_LOOK && row == STORE_NO_ROW);
	return row;
}

unsigned look_up(struct store_table *table, const uint64_t *keys, unsigned n, store_row *rows)
{
	unsigned missing = 0;

	CHECK_UINT(store_find(table, keys, n, STORE_LOOK, 0, rows), 0);
	for (unsigned i = 0; i < n; i++)
		missing += rows[i] == STORE_NO_ROW;
	return missing;
}

const float *values_of(const struct store_table *table, store_row row)
{
	return store_values(table, row, STAR_FLOAT32);
}

const float *slots_of(const struct store_table *table, store_row row)
{
	return store_slots(table, row);
}

struct store_push *open_push(uint32_t max_keys, uint32_t max_bytes)
{
	struct star_error err = { 0 };
	struct store_push *p = store_push_create(max_keys, max_bytes, &err);

	if (!p)
		unit_fail(__FILE__, __LINE__, "no push: %s", err.text);
	return p;
}

int add_keys(struct store_push *p, struct store_table *t, const uint64_t *keys, unsigned n, unsigned slice)
{
	int result = 0;

	for (unsigned i = 0; i < n && !result; i += slice)
		result = store_push_keys(p, t, keys + i, n - i < slice ? n - i : slice, 0);
	return result;
}

/* Pointers to the next rows of a slice; returns how many. */
static unsigned point(const void *pointers[STORE_BATCH], const void *gradients, size_t stride, unsigned at, unsigned n,
		      unsigned slice)
{
	const unsigned count = n - at < slice ? n - at : slice;

	for (unsigned i = 0; i < count; i++)
		pointers[i] = (const char *)gradients + (at + i) * stride;
	return count;
}

int look_at(struct store_push *p, struct store_table *t, const void *gradients, unsigned dtype, size_t stride,
	    unsigned n, unsigned slice)
{
	const void *pointers[STORE_BATCH];
	int result = 0;

	do {
		for (unsigned i = 0; i < n && !result; i += slice)
			result =
				store_push_look(p, t, pointers, dtype, point(pointers, gradients, stride, i, n, slice));
	} while (!result && store_push_look_again(p));
	return result;
}

void add_rows(struct store_push *p, struct store_table *t, const void *gradients, unsigned dtype, size_t stride,
	      unsigned n, unsigned slice, const struct store_push_step *step)
{
	const void *pointers[STORE_BATCH];
	unsigned calls = 0;

	if (step)
		store_push_step(p, t, step);
	for (unsigned i = 0; i < n; i += slice)
		store_push_rows(p, t, pointers, dtype, point(pointers, gradients, stride, i, n, slice));
	while (!store_push_finish(p, t, slice) && CHECK(calls < n))
		calls++;
}

void push_one(struct store_table *t, uint64_t key, const float *gradient, float rate)
{
	const uint32_t bytes = store_table_spec(t)->dim * (uint32_t)sizeof(float);
	struct store_push *p = open_push(1, bytes);

	store_push_begin(p);
	store_push_op(p, t, 1);
	CHECK_INT(add_keys(p, t, &key, 1, 1), 0);
	add_rows(p, t, gradient, STAR_FLOAT32, bytes, 1, 1,
		 &(struct store_push_step){ .has_rate = rate != 0, .rate = rate });
	store_push_destroy(p);
}

/* x ^ x >> shift, undone. */
static uint64_t unshift(uint64_t x, unsigned shift)
{
	uint64_t y = x;

	for (unsigned done = shift; done < 64; done += shift)
		y = x ^ y >> shift;
	return y;
}

/* The inverse of an odd number modulo 2^64, by Newton's iteration. */
static uint64_t inverse(uint64_t odd)
{
	uint64_t x = odd;

	for (int i = 0; i < 6; i++)
		x *= 2 - odd * x;
	return x;
}

uint64_t key_of_hash(uint64_t hash)
{
	hash = unshift(hash, 31) * inverse(0x94d049bb133111ebu);
	hash = unshift(hash, 27) * inverse(0xbf58476d1ce4e5b9u);
	return unshift(hash, 30) - 0x9e3779b97f4a7c15u;
}

#define X(name) { #name, name },
const char *const unit_suite = "store";
const struct unit_case unit_cases[] = { STORE_CASES(X){ NULL, NULL } };
