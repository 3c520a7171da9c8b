/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/dedup.h"

#include "base/prng.h"
#include "tests/train/cases.h"
#include "tests/unit.h"

enum { MOST = 1000, DIM = 3 };

/* What each id's row would be, and its gradient. */
static float row_of(uint64_t id, size_t k)
{
	return (float)id + 0.125f * (float)k;
}

static void check_rows(const struct once *once, const uint64_t *ids, uint32_t n)
{
	static float rows[MOST * DIM];

	for (uint32_t i = 0; i < once->count; i++)
		for (size_t k = 0; k < DIM; k++)
			rows[i * DIM + k] = row_of(once->keys[i], k);
	train_once_hand_out(once, rows, DIM * sizeof(float));
	for (uint32_t i = 0; i < n; i++)
		for (size_t k = 0; k < DIM; k++)
			CHECK_MEM(&rows[i * DIM + k], &(float){ row_of(ids[i], k) }, sizeof(float));
}

/* The same bits as sums in the order of places: not those of another order. */
static void check_sums(const struct once *once, const uint64_t *ids, uint32_t n, struct prng *prng)
{
	static float gradients[MOST * DIM], sums[MOST * DIM];

	for (uint32_t i = 0; i < n * DIM; i++)
		gradients[i] = (float)((prng_unit(prng) - 0.5) * 1e3);
	train_once_sum(once, gradients, DIM, sums);
	for (uint32_t u = 0; u < once->count; u++)
		for (size_t k = 0; k < DIM; k++) {
			float sum = 0;
			bool first = true;

			for (uint32_t i = 0; i < n; i++) {
				if (ids[i] != once->keys[u])
					continue;
				sum = first ? gradients[i * DIM + k] : sum + gradients[i * DIM + k];
				first = false;
			}
			CHECK(!first);
			CHECK_MEM(&sums[u * DIM + k], &sum, sizeof(sum));
		}
}

void ids_go_once_and_their_rows_to_all_places(void)
{
	const struct graph_value value = { 7, 0 };
	struct once *list = NULL, *once;
	uint64_t ids[MOST];
	struct prng prng;
	bool worth;

	prng_seed(&prng, 1);
	for (unsigned round = 0; round < 200; round++) {
		const uint32_t n = 1 + (uint32_t)prng_below(&prng, MOST), of = 1 + (uint32_t)prng_below(&prng, n);

		for (uint32_t i = 0; i < n; i++)
			ids[i] = (uint64_t)prng_below(&prng, of) << (round % 50);
		once = train_once_get(&list, value, 3, MOST);
		CHECK(once && once == train_once_get(&list, value, 3, MOST));
		once->skip = 0;
		worth = train_once_find(once, ids, n);
		CHECK_UINT(worth, (uint64_t)once->count * 4 <= (uint64_t)n * 3);
		CHECK_UINT(once->n, n);
		for (uint32_t i = 0; i < n; i++) {
			CHECK(once->where[i] <= i && once->where[i] < once->count);
			CHECK_UINT(once->keys[once->where[i]], ids[i]);
		}
		for (uint32_t i = 0; i < once->count; i++)
			for (uint32_t k = 0; k < i; k++)
				CHECK(once->keys[i] != once->keys[k]);
		check_rows(once, ids, n);
		check_sums(once, ids, n, &prng);
	}
	train_once_free(list);
}

void ids_that_differ_go_as_they_are(void)
{
	struct once *list = NULL, *once = train_once_get(&list, (struct graph_value){ 0, 0 }, 0, 4);
	const uint64_t differ[] = { 1, 2, 3, 4, 5 }, same[] = { 9, 9, 9, 9 };

	CHECK(once != NULL);
	CHECK(once != train_once_get(&list, (struct graph_value){ 0, 1 }, 0, 4));
	CHECK(once != train_once_get(&list, (struct graph_value){ 0, 0 }, 1, 4));
	CHECK(!train_once_find(once, differ, 0));
	CHECK(!train_once_find(once, differ, 5)); /* more than there can be */
	CHECK(!train_once_find(once, differ, 4));
	CHECK(!train_once_find(once, differ, 4)); /* the step's update */
	/* It is not tried again for some steps, and then it is. */
	CHECK(!train_once_find(once, same, 4));
	for (unsigned i = 0; i < 14; i++)
		CHECK(!train_once_find(once, same, 4));
	CHECK(train_once_find(once, same, 4));
	CHECK_UINT(once->count, 1);
	CHECK(!train_once_find(once, differ, 4));
	train_once_free(list);
}
