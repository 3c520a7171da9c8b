/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and finding rows. */
#include "tests/store/cases.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/hash.h"
#include "base/prng.h"
#include "store/look.h"
#include "store/snapshot.h"
#include "store/table.h"

static void refuse_table(struct store *store, const struct object_spec *spec, int code, const char *part)
{
	struct star_error err = { 0 };

	CHECK(!store_table_create(store, spec, 1, &err));
	CHECK_INT(err.code, code);
	CHECK_HAS(err.text, part);
}

void creation_refuses_what_it_must(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct object_spec spec = spec_of("t", 0, OPTIM_SGD);
	struct star_error err = { 0 };

	CHECK(!store_create(f.memory, (1 << 20) - 1, &err));
	CHECK_INT(err.code, -EINVAL);
	CHECK_HAS(err.text, "1048575 bytes: give it at least 1048576");
	/* Only its bounds are looked at. */
	CHECK(!store_create(f.memory, (UINT64_C(256) << 30) + (1 << 20), &err));
	CHECK_INT(err.code, -EINVAL);
	CHECK_HAS(err.text, "at most 256 GiB");

	refuse_table(f.store, &spec, -EINVAL, "dim is 0");
	spec.dim = WIRE_DIM_MAX + 1;
	refuse_table(f.store, &spec, -EINVAL, "dim is 4097");
	spec = spec_of("t", 4, 99);
	refuse_table(f.store, &spec, -EINVAL, "no optimizer number 99");
	spec = spec_of("t", 4, OPTIM_SGD);
	spec.initializer = 99;
	refuse_table(f.store, &spec, -EINVAL, "initializer is unknown");
	spec = spec_of("", 4, OPTIM_SGD);
	refuse_table(f.store, &spec, -EINVAL, "a name must have");
	fixture_close(&f);
}

void rows_are_made_once_and_found(void)
{
	enum { KEYS = 20000 };
	struct fixture f = fixture_open(8 << 20);
	struct store_table *t = table_of(&f, "words", 5, OPTIM_ADAGRAD);
	static store_row rows[KEYS];
	float initial[5];

	CHECK_STR(store_table_spec(t)->name, "words");
	CHECK_UINT(store_name_hash(t), hash_name("words"));
	for (uint64_t key = 0; key < KEYS; key++) {
		CHECK_UINT(find_one(t, key, STORE_LOOK), STORE_NO_ROW);
		rows[key] = find_one(t, key, STORE_PULL);
		CHECK(rows[key] != STORE_NO_ROW);
	}
	for (uint64_t key = 0; key < KEYS; key++) {
		CHECK_UINT(find_one(t, key, key & 1 ? STORE_PULL : STORE_LOOK), rows[key]);
		store_initial(t, key, initial);
		CHECK_MEM(values_of(t, rows[key]), initial, sizeof(initial));
	}
	CHECK_UINT(store_table_stats(t)->rows, KEYS);
	CHECK_UINT(store_table_stats(t)->created, KEYS);
	CHECK_UINT(store_table_stats(t)->refused, 0);
	fixture_close(&f);
}

void reading_makes_nothing(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", 4, OPTIM_SGD);
	const struct store_stats before = *store_table_stats(t);
	uint64_t keys[STORE_BATCH];
	store_row rows[STORE_BATCH];

	for (unsigned n = 0; n <= STORE_BATCH; n++) {
		for (unsigned i = 0; i < n; i++)
			keys[i] = i * n;
		CHECK_UINT(look_up(t, keys, n, rows), n);
		for (unsigned i = 0; i < n; i++)
			CHECK_UINT(rows[i], STORE_NO_ROW);
	}
	CHECK_MEM(store_table_stats(t), &before, sizeof(before));
	fixture_close(&f);
}

/* A family of keys: the i-th of them. */
static uint64_t lowest_and_highest(uint64_t i)
{
	return i % 2 ? UINT64_MAX - i / 2 : i / 2;
}

static uint64_t same_low_bits(uint64_t i)
{
	return i << 32 | 0xdeadbeef;
}

static uint64_t only_high_bits(uint64_t i)
{
	return i << 50;
}

static uint64_t strided(uint64_t i)
{
	return i * 4096 * 48;
}

static uint64_t negative(uint64_t i)
{
	return (uint64_t) - (int64_t)i;
}

void keys_of_every_kind(void)
{
	enum { KEYS = 10000 };
	uint64_t (*const families[])(uint64_t) = { lowest_and_highest, same_low_bits, only_high_bits, strided,
						   negative };
	static store_row rows[KEYS];

	for (unsigned k = 0; k < sizeof(families) / sizeof(families[0]); k++) {
		struct fixture f = fixture_open(4 << 20);
		struct store_table *t = table_of(&f, "t", 1, OPTIM_SGD);

		for (uint64_t i = 0; i < KEYS; i++)
			rows[i] = find_one(t, families[k](i), STORE_PULL);
		for (uint64_t i = 0; i < KEYS; i++) {
			if (!CHECK(rows[i] != STORE_NO_ROW) ||
			    !CHECK_UINT(find_one(t, families[k](i), STORE_LOOK), rows[i]))
				break;
			find_one(t, families[k](i) ^ UINT64_C(1) << 48, STORE_LOOK);
		}
		CHECK_UINT(store_table_stats(t)->rows, KEYS);
		fixture_close(&f);
	}
}

void one_batch_with_duplicates_makes_one_row(void)
{
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_of(&f, "t", 4, OPTIM_SGD);
	uint64_t keys[STORE_BATCH];
	store_row rows[STORE_BATCH];

	for (unsigned i = 0; i < STORE_BATCH; i++)
		keys[i] = i % 3;
	CHECK_UINT(store_find(t, keys, STORE_BATCH, STORE_PULL, 0, rows), 0);
	for (unsigned i = 3; i < STORE_BATCH; i++)
		CHECK_UINT(rows[i], rows[i % 3]);
	CHECK(rows[0] != rows[1] && rows[1] != rows[2] && rows[0] != rows[2]);
	CHECK_UINT(store_table_stats(t)->rows, 3);
	fixture_close(&f);
}

void full_arena_refuses_and_serves_the_rest(void)
{
	enum { ARENA = 2 << 20, KEYS = 100000 };
	struct fixture f = fixture_open(ARENA);
	struct store_table *t = table_of(&f, "t", 14, OPTIM_SGD), *other = table_of(&f, "other", 3, OPTIM_SGD);
	struct object_spec third = spec_of("third", 3, OPTIM_SGD);
	static store_row rows[KEYS];
	uint64_t keys[STORE_BATCH];
	unsigned made = 0, missing = 0;

	find_one(other, 7, STORE_PULL);
	for (uint64_t key = 0; key < KEYS; key += 50) {
		for (unsigned i = 0; i < 50; i++)
			keys[i] = key + i;
		missing += store_find(t, keys, 50, STORE_PULL, 0, rows + key);
	}
	for (uint64_t key = 0; key < KEYS; key++) {
		made += rows[key] != STORE_NO_ROW;
		CHECK_UINT(find_one(t, key, STORE_LOOK), rows[key]);
	}
	CHECK_UINT(made + missing, KEYS);
	CHECK_UINT(store_table_stats(t)->rows, made);
	CHECK_UINT(store_table_stats(t)->refused, missing);
	CHECK(store_table_stats(t)->memory_bytes <= ARENA);
	CHECK(made * 64 > ARENA / 100 * 82); /* it was full indeed, but for what is kept for loading */
	/* Asked again, they are refused again; what is there is found in the same batch. */
	keys[0] = 0;
	keys[1] = KEYS - 1;
	keys[2] = 1;
	CHECK_UINT(store_find(t, keys, 3, STORE_PULL, 0, rows), 1);
	CHECK_UINT(rows[1], STORE_NO_ROW);
	CHECK_UINT(find_one(t, 0, STORE_LOOK), rows[0]);
	CHECK_UINT(store_table_stats(t)->refused, missing + 1);
	/* The other table uses up its slab, then is refused as well. */
	for (uint64_t key = 0; key < 2000; key++)
		find_one(other, key, STORE_PULL);
	CHECK(store_table_stats(other)->refused > 0);
	CHECK(find_one(other, 7, STORE_LOOK) != STORE_NO_ROW);
	refuse_table(f.store, &third, -ENOMEM, "no parameter memory left for \"third\"");
	fixture_close(&f);
}

void many_tables_share_an_arena(void)
{
	enum { TABLES = 300, KEYS = 40 };
	struct fixture f = fixture_open(16 << 20);
	static struct store_table *tables[TABLES];
	char name[16];
	float initial[64];

	for (unsigned i = 0; i < TABLES; i++) {
		snprintf(name, sizeof(name), "table %u", i);
		tables[i] = table_of(&f, name, 1 + i % 64, i % 2 ? OPTIM_SGD : OPTIM_ADAGRAD);
	}
	for (uint64_t key = 0; key < KEYS; key++)
		for (unsigned i = 0; i < TABLES; i++)
			CHECK(find_one(tables[i], key * i, STORE_PULL) != STORE_NO_ROW);
	for (unsigned i = 0; i < TABLES; i++)
		for (uint64_t key = 0; key < KEYS; key++) {
			const float *values = values_of(tables[i], find_one(tables[i], key * i, STORE_LOOK));

			store_initial(tables[i], key * i, initial);
			CHECK_MEM(values, initial, (1 + i % 64) * sizeof(float));
		}
	fixture_close(&f);
}

void small_tables_are_small(void)
{
	const uint32_t dims[] = { 1, 16, 1000, WIRE_DIM_MAX };

	for (unsigned i = 0; i < sizeof(dims) / sizeof(dims[0]); i++) {
		struct fixture f = fixture_open(4 << 20);
		struct store_table *t = table_of(&f, "t", dims[i], OPTIM_ADAGRAD);

		for (uint64_t key = 0; key < 10; key++)
			CHECK(find_one(t, key, STORE_PULL) != STORE_NO_ROW);
		CHECK(store_table_stats(t)->memory_bytes <= 32768 + 10 * (16 + 8 * dims[i]));
		fixture_close(&f);
	}
}

/* Over 32 GiB a row number counts 16 bytes, and rows are padded to that. */
void rows_in_a_huge_arena(void)
{
	const size_t bytes = (size_t)40 << 30;
	struct fixture f = { .memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) };
	struct star_error err = { 0 };
	struct store_table *t;
	float initial[3];

	if (f.memory == MAP_FAILED) {
		printf("# no 40 GiB of address space: arenas of that size are not tested\n");
		return;
	}
	f.store = store_create(f.memory, bytes, &err);
	if (CHECK(f.store != NULL)) {
		t = table_of(&f, "t", 3, OPTIM_SGD);
		for (uint64_t key = 0; key < 5000; key++)
			CHECK_UINT((uintptr_t)values_of(t, find_one(t, key, STORE_PULL)) % 16, 8);
		for (uint64_t key = 0; key < 5000; key++) {
			store_initial(t, key, initial);
			CHECK_MEM(values_of(t, find_one(t, key, STORE_LOOK)), initial, sizeof(initial));
		}
		CHECK(store_table_stats(t)->memory_bytes >= 5000 * 32);
	}
	store_destroy(f.store);
	munmap(f.memory, bytes);
}

/* Whatever is made and removed between two steps: those that stay are told once. And nothing of them changes. */
void rows_are_looked_at_while_their_table_grows(void)
{
	enum { STAY = 20000, ALL = 60000 };
	struct fixture f = fixture_open(32 << 20);
	struct store_table *t =
		table_with(&f, "t", 4, OPTIM_ADAGRAD, STAR_FLOAT32, "versions=1, rows_max=1000000, full=evict_lfu");
	static uint64_t keys[STORE_LOOK_KEYS], record[64], before[64];
	static uint8_t seen[ALL];
	uint64_t at = 0, more = STAY;
	uint32_t used;

	for (uint64_t key = 0; key < STAY; key++)
		find_one(t, key, STORE_PULL);
	CHECK(store_look_table(f.store, t->spec.id, t->spec.generation) == t);
	CHECK(!store_look_table(f.store, t->spec.id, t->spec.generation + 1));
	do {
		const unsigned n = store_look_keys(t, &at, keys);

		for (unsigned i = 0; i < n && CHECK(keys[i] < ALL); i++)
			seen[keys[i]]++;
		for (unsigned i = 0; i < 2000 && more < ALL; i++)
			find_one(t, more++, STORE_PULL);
	} while (at);
	CHECK_UINT(more, ALL);
	for (uint64_t key = 0; key < ALL; key++)
		CHECK(key < STAY ? seen[key] == 1 : seen[key] <= 1);

	/* As a checkpoint has it: `used` counts the look-ups since. */
	CHECK(store_row_record_bytes(t) <= sizeof(record));
	CHECK(!store_look_row(t, ALL, record));
	find_one(t, 7, STORE_PULL);
	CHECK(store_look_row(t, 7, before));
	CHECK_UINT(before[0], 7);
	memcpy(&used, (const char *)before + t->at.used, sizeof(used));
	CHECK_UINT(used, 0);
	for (unsigned i = 0; i < 5; i++)
		find_one(t, 8, STORE_PULL);
	CHECK(store_look_row(t, 7, record));
	CHECK(store_look_row(t, 7, record));
	memcpy(&used, (const char *)record + t->at.used, sizeof(used));
	CHECK_UINT(used, 5);
	used = 0;
	memcpy((char *)record + t->at.used, &used, sizeof(used));
	CHECK_MEM(record, before, store_row_record_bytes(t));
	fixture_close(&f);
}
