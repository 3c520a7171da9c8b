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

static void check_rows(const struct dedup *dedup, const uint64_t *ids, uint32_t n)
{
	static float rows[MOST * DIM];

	for (uint32_t i = 0; i < dedup->count; i++)
		for (size_t k = 0; k < DIM; k++)
			rows[i * DIM + k] = row_of(dedup->keys[i], k);
	train_dedup_expand(dedup, rows, DIM * sizeof(float));
	for (uint32_t i = 0; i < n; i++)
		for (size_t k = 0; k < DIM; k++)
			CHECK_MEM(&rows[i * DIM + k], &(float){ row_of(ids[i], k) }, sizeof(float));
}

/* The same bits as sums in the order of places: not those of another order. */
static void check_sums(const struct dedup *dedup, const uint64_t *ids, uint32_t n, struct prng *prng)
{
	static float gradients[MOST * DIM], sums[MOST * DIM];

	for (uint32_t i = 0; i < n * DIM; i++)
		gradients[i] = (float)((prng_unit(prng) - 0.5) * 1e3);
	train_dedup_sum(dedup, gradients, DIM, sums);
	for (uint32_t u = 0; u < dedup->count; u++)
		for (size_t k = 0; k < DIM; k++) {
			float sum = 0;
			bool first = true;

			for (uint32_t i = 0; i < n; i++) {
				if (ids[i] != dedup->keys[u])
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
	struct dedup *list = NULL, *dedup;
	uint64_t ids[MOST];
	struct prng prng;
	bool worth;

	prng_seed(&prng, 1);
	for (unsigned round = 0; round < 200; round++) {
		const uint32_t n = 1 + (uint32_t)prng_below(&prng, MOST), of = 1 + (uint32_t)prng_below(&prng, n);

		for (uint32_t i = 0; i < n; i++)
			ids[i] = (uint64_t)prng_below(&prng, of) << (round % 50);
		dedup = train_dedup_get(&list, value, 3, MOST);
		CHECK(dedup && dedup == train_dedup_get(&list, value, 3, MOST));
		dedup->skip = 0;
		worth = train_dedup_find(dedup, ids, n);
		CHECK_UINT(worth, (uint64_t)dedup->count * 4 <= (uint64_t)n * 3);
		CHECK_UINT(dedup->n, n);
		for (uint32_t i = 0; i < n; i++) {
			CHECK(dedup->inverse[i] <= i && dedup->inverse[i] < dedup->count);
			CHECK_UINT(dedup->keys[dedup->inverse[i]], ids[i]);
		}
		for (uint32_t i = 0; i < dedup->count; i++)
			for (uint32_t k = 0; k < i; k++)
				CHECK(dedup->keys[i] != dedup->keys[k]);
		check_rows(dedup, ids, n);
		check_sums(dedup, ids, n, &prng);
	}
	train_dedup_free(list);
}

void ids_that_differ_go_as_they_are(void)
{
	struct dedup *list = NULL, *dedup = train_dedup_get(&list, (struct graph_value){ 0, 0 }, 0, 4);
	const uint64_t differ[] = { 1, 2, 3, 4, 5 }, same[] = { 9, 9, 9, 9 };

	CHECK(dedup != NULL);
	CHECK(dedup != train_dedup_get(&list, (struct graph_value){ 0, 1 }, 0, 4));
	CHECK(dedup != train_dedup_get(&list, (struct graph_value){ 0, 0 }, 1, 4));
	CHECK(!train_dedup_find(dedup, differ, 0));
	CHECK(!train_dedup_find(dedup, differ, 5)); /* more than there can be */
	CHECK(!train_dedup_find(dedup, differ, 4));
	CHECK(!train_dedup_find(dedup, differ, 4)); /* the step's update */
	/* It is not tried again for some steps, and then it is. */
	CHECK(!train_dedup_find(dedup, same, 4));
	for (unsigned i = 0; i < 14; i++)
		CHECK(!train_dedup_find(dedup, same, 4));
	CHECK(train_dedup_find(dedup, same, 4));
	CHECK_UINT(dedup->count, 1);
	CHECK(!train_dedup_find(dedup, differ, 4));
	train_dedup_free(list);
}
