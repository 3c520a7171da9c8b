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
	struct object_spec spec = {
		.kind = OBJECT_TABLE,
		.dtype = STAR_FLOAT32,
		.initializer = OBJECT_UNIFORM,
		.optimizer = (uint8_t)optimizer,
		.dim = dim,
		.scale = 1,
		.rate = 0.1f,
		.epsilon = 1e-8f,
		.initial_accumulator = 0.125f,
	};

	snprintf(spec.name, sizeof(spec.name), "%s", name);
	return spec;
}

struct store_table *table_of(struct fixture *f, const char *name, uint32_t dim, unsigned optimizer)
{
	const struct object_spec spec = spec_of(name, dim, optimizer);
	struct star_error err = { 0 };
	struct store_table *table = store_table_create(f->store, &spec, &err);

	if (!table)
		unit_fail(__FILE__, __LINE__, "no table: %s", err.text);
	return table;
}

store_row find_one(struct store_table *table, uint64_t key, int create)
{
	store_row row;
	const unsigned missing = store_find(table, &key, 1, create, &row);

	CHECK_UINT(missing, row == STORE_NO_ROW);
	return row;
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
