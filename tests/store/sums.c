/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of gradients that are applied later. Their tags are the service's task (tests/service/commit.c). */
#include "store/sums.h"

#include <errno.h>
#include <math.h>

#include "base/prng.h"
#include "store/push_internal.h"
#include "tensor/dtype.h"
#include "tests/store/cases.h"

enum { DIM = 3, KEYS = 500, SOME = 7 };

static const char zeros[] = "initializer=zeros, scale=0";

/* A store with an object, and one beside it with its sums. */
struct summing {
	struct fixture f;
	struct store *beside;
	struct store_table *of, *sums;
};

static struct summing open_sums(size_t arena_bytes, unsigned optimizer, unsigned dtype, const char *options)
{
	struct summing s = { .f = fixture_open(arena_bytes) };
	struct star_error err = { 0 };

	s.of = table_with(&s.f, "t", DIM, optimizer, dtype, options);
	s.beside = store_create_beside(s.f.store, &err);
	s.sums = s.beside ? store_sums_create(s.beside, s.of, 1, &err) : NULL;
	if (!s.sums)
		unit_fail(__FILE__, __LINE__, "no sums: %s", err.text);
	return s;
}

static void close_sums(struct summing *s)
{
	store_destroy(s->beside);
	fixture_close(&s->f);
}

/* Gradients of one worker, as the service adds them: the object's rows are made first. What the first call that refuses
 * says. */
static int add_up(struct summing *s, const uint64_t *keys, const void *gradients, unsigned dtype, unsigned n)
{
	const uint32_t bytes = (uint32_t)dtype_row_bytes(dtype, DIM);
	struct store_push *p = open_push(n, n * bytes);
	int result;

	for (unsigned i = 0; i < n; i++)
		find_one(s->of, keys[i], STORE_PULL);
	store_push_begin(p);
	store_push_op(p, s->sums, n);
	result = add_keys(p, s->sums, keys, n, STORE_BATCH);
	if (!result)
		result = look_at(p, s->sums, gradients, dtype, bytes, n, STORE_BATCH);
	if (!result)
		add_rows(p, s->sums, gradients, dtype, bytes, n, STORE_BATCH,
			 &(struct store_push_step){ .has_scale = true, .scale = -1 });
	store_push_destroy(p);
	return result;
}

/* Empties the sums, `n` rows at a time; returns how many there were. */
static unsigned take_all(struct summing *s, const struct store_push_step *step, unsigned n)
{
	unsigned taken, all = 0, calls = 0;

	store_sums_begin(s->sums, step ? s->of : NULL);
	while (store_sums_take(s->sums, s->of, step, n, &taken) && CHECK(calls++ < 100 * KEYS)) {
		CHECK(taken <= n);
		all += taken;
	}
	CHECK_UINT(taken, 0);
	return all;
}

void sums_are_applied_as_one_gradient(void)
{
	enum { WORKERS = 5, EACH = 300 };
	struct summing s = open_sums(2 << 20, OPTIM_ADAGRAD, STAR_FLOAT32, zeros);
	struct store_table *twin = table_with(&s.f, "twin", DIM, OPTIM_ADAGRAD, STAR_FLOAT32, zeros);
	static float sums[KEYS][DIM];
	static bool there[KEYS];
	unsigned different = 0;
	struct prng r;

	prng_seed(&r, 31);
	memset(sums, 0, sizeof(sums));
	memset(there, 0, sizeof(there));
	for (unsigned w = 0; w < WORKERS; w++) {
		/* Keys of two workers are the same now and then, those of one are not. */
		const unsigned first = prng_below(&r, KEYS);
		uint64_t keys[EACH];
		float gradients[EACH][DIM];

		for (unsigned i = 0; i < EACH; i++) {
			keys[i] = (first + i) % KEYS;
			different += !there[keys[i]];
			there[keys[i]] = true;
			for (unsigned e = 0; e < DIM; e++)
				sums[keys[i]][e] += gradients[i][e] = (float)prng_unit(&r) - 0.5f;
		}
		CHECK_INT(add_up(&s, keys, gradients, STAR_FLOAT32, EACH), 0);
	}
	CHECK_UINT(store_table_stats(s.sums)->rows, different);
	CHECK_UINT(store_table_stats(s.of)->pushes, 0);
	for (uint64_t key = 0; key < KEYS; key++)
		if (there[key])
			CHECK_NEAR(*values_of(s.of, find_one(s.of, key, STORE_LOOK)), 0, 0);
	CHECK_UINT(take_all(&s, &(struct store_push_step){ .has_rate = true, .rate = 0.5f }, SOME), different);
	CHECK_UINT(store_table_stats(s.of)->pushes, 1);
	CHECK_UINT(store_table_stats(s.sums)->rows, 0);
	for (uint64_t key = 0; key < KEYS; key++) {
		store_row row, twin_row;

		if (!there[key])
			continue;
		row = find_one(s.of, key, STORE_LOOK);
		twin_row = find_one(twin, key, STORE_PULL);
		push_one(twin, key, sums[key], 0.5f);
		CHECK_MEM(values_of(s.of, row), values_of(twin, twin_row), DIM * sizeof(float));
		CHECK_MEM(slots_of(s.of, row), slots_of(twin, twin_row), DIM * sizeof(float));
	}
	close_sums(&s);
}

/* Given up: nothing is applied, and the memory serves the next sums. */
void sums_are_thrown_away(void)
{
	struct summing s = open_sums(2 << 20, OPTIM_SGD, STAR_FLOAT32, zeros);
	const struct store_stats *stats = store_table_stats(s.sums);
	uint64_t memory = 0;

	for (unsigned round = 0; round < 20; round++) {
		for (uint64_t key = 0; key < KEYS; key++) {
			const uint64_t other = key + round * KEYS / 2;

			CHECK_INT(add_up(&s, &other, (float[DIM]){ 1, 2, 3 }, STAR_FLOAT32, 1), 0);
		}
		if (round == 0)
			memory = stats->memory_bytes + stats->free_bytes;
		CHECK_UINT(take_all(&s, NULL, STORE_BATCH), KEYS);
		CHECK_UINT(stats->rows, 0);
	}
	CHECK_UINT(stats->memory_bytes + stats->free_bytes, memory);
	CHECK_UINT(store_table_stats(s.of)->pushes, 0);
	for (uint64_t key = 0; key < KEYS; key++)
		CHECK_NEAR(*values_of(s.of, find_one(s.of, key, STORE_LOOK)), 0, 0);
	close_sums(&s);
}

/* Each gradient that comes while sums go out is applied with these or with the next ones. */
void gradients_that_come_while_sums_go_out_are_applied_once(void)
{
	struct summing s = open_sums(4 << 20, OPTIM_SGD, STAR_FLOAT32, zeros);
	const struct store_push_step step = { .has_rate = true, .rate = 1 };
	static unsigned times[4 * KEYS];
	unsigned taken, late = 0;
	struct prng r;

	prng_seed(&r, 32);
	memset(times, 0, sizeof(times));
	for (unsigned round = 0; round < 2; round++) {
		for (uint64_t key = 0; key < KEYS; key++, times[key - 1]++)
			CHECK_INT(add_up(&s, &key, (float[DIM]){ 1, 1, 1 }, STAR_FLOAT32, 1), 0);
		store_sums_begin(s.sums, s.of);
		while (store_sums_take(s.sums, s.of, &step, SOME, &taken)) {
			const uint64_t key = prng_below(&r, 4 * KEYS);

			CHECK_INT(add_up(&s, &key, (float[DIM]){ 1, 1, 1 }, STAR_FLOAT32, 1), 0);
			times[key]++;
		}
		late += (unsigned)store_table_stats(s.sums)->rows;
	}
	CHECK(late > 0);
	take_all(&s, &step, STORE_BATCH);
	CHECK_UINT(store_table_stats(s.of)->pushes, 3);
	CHECK_UINT(store_table_stats(s.sums)->rows, 0);
	for (uint64_t key = 0; key < 4 * KEYS; key++)
		if (times[key])
			CHECK_NEAR(*values_of(s.of, find_one(s.of, key, STORE_LOOK)), -(double)times[key], 0);
	close_sums(&s);
}

void sums_in_a_full_arena_are_refused(void)
{
	struct summing s = open_sums(1 << 20, OPTIM_SGD, STAR_FLOAT32, zeros);
	const float one[DIM] = { 1, 1, 1 };
	uint64_t made, key;

	/* Rows of the object until nothing is left; then only memory that the sums had before is theirs. */
	for (key = 0; key < 100; key++)
		CHECK_INT(add_up(&s, &key, one, STAR_FLOAT32, 1), 0);
	CHECK_UINT(take_all(&s, NULL, STORE_BATCH), 100);
	while (store_find(s.of, &key, 1, STORE_PULL, 0, &(store_row){ 0 }) == 0)
		key++;
	for (made = 0; made < key; made++) {
		struct store_push *p = open_push(1, sizeof(one));

		store_push_begin(p);
		store_push_op(p, s.sums, 1);
		if (add_keys(p, s.sums, &made, 1, 1)) {
			store_push_begin(p);
			store_push_destroy(p);
			break;
		}
		add_rows(p, s.sums, one, STAR_FLOAT32, sizeof(one), 1, 1,
			 &(struct store_push_step){ .has_scale = true, .scale = -1 });
		store_push_destroy(p);
	}
	CHECK(made >= 100 && made < key);
	CHECK(store_table_stats(s.sums)->refused > 0);
	CHECK_UINT(take_all(&s, &(struct store_push_step){ .has_rate = true, .rate = 1 }, STORE_BATCH), made);
	for (uint64_t i = 0; i < key; i++)
		CHECK_NEAR(*values_of(s.of, find_one(s.of, i, STORE_LOOK)), i < made ? -1 : 0, 0);
	close_sums(&s);
}

void sums_that_are_not_finite_are_left_out(void)
{
	struct summing s = open_sums(1 << 20, OPTIM_SGD, STAR_FLOAT32, zeros);
	const uint64_t keys[] = { 1, 2 };
	const float bad[2][DIM] = { { 1, 1, 1 }, { 1, NAN, 1 } }, large[2][DIM] = { { 0x1p127f, 1, 1 }, { 2, 2, 2 } };

	CHECK_INT(add_up(&s, keys, bad, STAR_FLOAT32, 2), -EDOM);
	/* Each is finite, their sum is not. */
	CHECK_INT(add_up(&s, keys, large, STAR_FLOAT32, 2), 0);
	CHECK_INT(add_up(&s, keys, large, STAR_FLOAT32, 2), 0);
	/* The refused push made rows of zeros. */
	CHECK_UINT(take_all(&s, &(struct store_push_step){ .has_rate = true, .rate = 1 }, STORE_BATCH), 2);
	CHECK_UINT(store_table_stats(s.of)->nonfinite, 1);
	CHECK_NEAR(*values_of(s.of, find_one(s.of, 1, STORE_LOOK)), 0, 0);
	CHECK_NEAR(*values_of(s.of, find_one(s.of, 2, STORE_LOOK)), -4, 0);
	close_sums(&s);
}

/* In float64 where the object is: 2^53 + 1 is not a float64. */
void sums_are_as_wide_as_their_object(void)
{
	struct summing s = open_sums(1 << 20, OPTIM_SGD, STAR_FLOAT64, zeros);
	const uint64_t key = 9;

	CHECK_INT(add_up(&s, &key, (double[DIM]){ 0x1p53 - 1, 0x1p-60, 0 }, STAR_FLOAT64, 1), 0);
	CHECK_INT(add_up(&s, &key, (double[DIM]){ 1, 1, 0 }, STAR_FLOAT64, 1), 0);
	CHECK_UINT(store_table_spec(s.sums)->dtype, STAR_FLOAT64);
	take_all(&s, &(struct store_push_step){ .has_rate = true, .rate = 1 }, 1);
	CHECK_MEM(store_values(s.of, find_one(s.of, key, STORE_LOOK), STAR_FLOAT64),
		  ((double[DIM]){ -0x1p53, -1 - 0x1p-60, 0 }), DIM * sizeof(double));
	close_sums(&s);
}

/* Rows may be deleted, and made again, between two slices of a commit, and after parts of a push of which no last one
 * comes. */
void versions_rise_while_sums_go_out(void)
{
	const struct store_push_step step = { 0 };
	const float one[DIM] = { 1, 1, 1 };

	for (unsigned parts = 0; parts < 4; parts++) {
		struct summing s =
			open_sums(1 << 20, OPTIM_SGD, STAR_FLOAT32, "versions=1, initializer=zeros, scale=0");
		struct store_push *p = open_push(1, 64);
		const uint64_t key = 5;
		uint32_t last;
		unsigned taken;

		for (unsigned round = 0; round < 3; round++) {
			CHECK_INT(add_up(&s, &key, one, STAR_FLOAT32, 1), 0);
			if (round < 2)
				take_all(&s, &step, 1);
		}
		for (unsigned part = 0; part < parts; part++) {
			store_push_begin(p);
			store_push_op(p, s.of, 1);
			CHECK_INT(add_keys(p, s.of, &key, 1, 1), 0);
			add_rows(p, s.of, one, STAR_FLOAT32, sizeof(one), 1, 1,
				 &(struct store_push_step){ .more = true });
		}
		store_sums_begin(s.sums, s.of);
		while (store_sums_take(s.sums, s.of, &step, 1, &taken) && !taken)
			;
		CHECK_UINT(taken, 1);
		last = store_version(s.of, find_one(s.of, key, STORE_LOOK));
		CHECK_UINT(last, 1 + 3 + parts);
		store_delete(s.of, &key, 1);
		CHECK(store_version(s.of, find_one(s.of, key, STORE_PULL)) > last);
		store_push_destroy(p);
		close_sums(&s);
	}
}

/*
 * Of several pushes, each of which names some rows more than once, and is seen in batches. Memory of rows is used again
 * by the next round, which counts from 0; then without counting, and with it again.
 */
void sums_are_divided_by_the_pushes_of_each_row(void)
{
	enum { PUSHES = 7, EACH = 200, ROUNDS = 4 };
	static const unsigned dtypes[] = { STAR_FLOAT32, STAR_FLOAT64, STAR_FLOAT16 };

	for (unsigned d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
		struct summing s = open_sums(2 << 20, OPTIM_ADAGRAD, dtypes[d], zeros);
		struct store_table *twin = table_with(&s.f, "twin", DIM, OPTIM_ADAGRAD, dtypes[d], zeros);
		struct prng r;

		prng_seed(&r, 33 + d);
		for (unsigned round = 0; round < ROUNDS; round++) {
			const bool by_row = round != 2;
			static float sums[KEYS][DIM];
			static unsigned pushes[KEYS];

			store_sums_set_by_row(s.sums, by_row);
			CHECK(store_sums_by_row(s.sums) == by_row);
			memset(sums, 0, sizeof(sums));
			memset(pushes, 0, sizeof(pushes));
			for (unsigned p = 0; p < PUSHES; p++) {
				uint64_t keys[EACH];
				float gradients[EACH][DIM];
				bool there[KEYS] = { false };

				for (unsigned i = 0; i < EACH; i++) {
					keys[i] = prng_below(&r, 1 + (KEYS - 1) / (p + 1));
					pushes[keys[i]] += !there[keys[i]];
					there[keys[i]] = true;
					for (unsigned e = 0; e < DIM; e++) /* exact sums, in any order */
						sums[keys[i]][e] += gradients[i][e] = (float)prng_below(&r, 9) - 4;
				}
				CHECK_INT(add_up(&s, keys, gradients, STAR_FLOAT32, EACH), 0);
			}
			take_all(&s,
				 &(struct store_push_step){ .has_rate = true,
							    .rate = 0.5f,
							    .has_scale = true,
							    .scale = 3,
							    .by_row = by_row },
				 SOME);
			for (uint64_t key = 0; key < KEYS; key++) {
				const struct optim_step step = { .rate = 0.5f,
								 .scale = by_row ? 3 / (float)pushes[key] : 3 };
				const void *gradient = sums[key];
				double wide[DIM];
				store_row row;

				if (!pushes[key])
					continue;
				for (unsigned e = 0; e < DIM; e++)
					wide[e] = (double)sums[key][e];
				row = find_one(twin, key, STORE_PULL);
				gradient = dtypes[d] == STAR_FLOAT64 ? (const void *)wide : gradient;
				store_push_apply(twin, &step, &row, &gradient, NULL, 1);
				CHECK_MEM(store_values(s.of, find_one(s.of, key, STORE_LOOK), dtypes[d]),
					  store_values(twin, row, dtypes[d]), dtype_row_bytes(dtypes[d], DIM));
			}
		}
		close_sums(&s);
	}
}

void sums_are_not_for_all_optimizers(void)
{
	struct object_spec spec = spec_of("t", DIM, OPTIM_ADAM);

	CHECK(store_sums_possible(&spec));
	spec.clip_global_norm = 1;
	CHECK(!store_sums_possible(&spec));
	spec = spec_of("t", DIM, OPTIM_LAMB);
	CHECK(!store_sums_possible(&spec));
	spec = spec_of("t", DIM, OPTIM_NONE);
	CHECK(!store_sums_possible(&spec));
}
