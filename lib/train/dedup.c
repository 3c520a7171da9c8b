/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/dedup.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum {
	/* The search is worthwhile if at most three quarters of the ids are distinct. */
	WORTH_OF = 3,
	WORTH_IN = 4,
	SKIP = 15,
	SLOTS_MIN = 16
};

static struct dedup *make_dedup(struct graph_value value, uint32_t run, uint32_t most)
{
	struct dedup *dedup = calloc(1, sizeof(*dedup));
	uint64_t slots = SLOTS_MIN;

	while (slots < UINT64_C(2) * most)
		slots *= 2;
	if (!dedup)
		return NULL;
	*dedup = (struct dedup){ .value = value, .run = run, .most = most, .mask = (uint32_t)(slots - 1) };
	dedup->ids = malloc((most + UINT64_C(1)) * sizeof(*dedup->ids));
	dedup->keys = malloc((most + UINT64_C(1)) * sizeof(*dedup->keys));
	dedup->inverse = malloc((most + UINT64_C(1)) * sizeof(*dedup->inverse));
	dedup->slots = malloc(slots * sizeof(*dedup->slots));
	if (dedup->ids && dedup->keys && dedup->inverse && dedup->slots)
		return dedup;
	train_dedup_free(dedup);
	return NULL;
}

struct dedup *train_dedup_get(struct dedup **list, struct graph_value value, uint32_t run, uint32_t most)
{
	struct dedup *dedup = *list;

	while (dedup && !(graph_same(dedup->value, value) && dedup->run == run))
		dedup = dedup->next;
	if (dedup)
		return dedup;
	dedup = make_dedup(value, run, most);
	if (dedup) {
		dedup->next = *list;
		*list = dedup;
	}
	return dedup;
}

void train_dedup_free(struct dedup *list)
{
	for (struct dedup *next; list; list = next) {
		next = list->next;
		free(list->ids);
		free(list->keys);
		free(list->inverse);
		free(list->slots);
		free(list);
	}
}

/* A slot has 1 + the index of an id in keys, or 0. Most slots are free, so each search is short. */
static void find_repeats(struct dedup *dedup)
{
	const uint32_t mask = dedup->mask;
	uint32_t count = 0;

	memset(dedup->slots, 0, (mask + UINT64_C(1)) * sizeof(*dedup->slots));
	for (uint32_t i = 0; i < dedup->n; i++) {
		const uint64_t id = dedup->ids[i];
		uint32_t at = (uint32_t)hash_mix(id) & mask;

		while (dedup->slots[at] && dedup->keys[dedup->slots[at] - 1] != id)
			at = (at + 1) & mask;
		if (!dedup->slots[at]) {
			dedup->keys[count] = id;
			dedup->slots[at] = ++count;
		}
		dedup->inverse[i] = dedup->slots[at] - 1;
	}
	dedup->count = count;
}

static bool is_worth(const struct dedup *dedup)
{
	return (uint64_t)dedup->count * WORTH_IN <= (uint64_t)dedup->n * WORTH_OF;
}

bool train_dedup_find(struct dedup *dedup, const uint64_t *ids, uint32_t n)
{
	if (n == 0 || n > dedup->most)
		return false;
	if (dedup->n == n && !memcmp(dedup->ids, ids, n * sizeof(*ids)))
		return is_worth(dedup);
	dedup->n = 0;
	if (dedup->skip) {
		dedup->skip--;
		return false;
	}
	dedup->n = n;
	memcpy(dedup->ids, ids, n * sizeof(*ids));
	find_repeats(dedup);
	dedup->skip = is_worth(dedup) ? 0 : SKIP;
	return is_worth(dedup);
}

/* From last to first, so that no row is overwritten before it was copied: each comes from its own index or an earlier
 * one. */
void train_dedup_expand(const struct dedup *dedup, void *rows, size_t row_bytes)
{
	uint8_t *to = rows;

	for (uint32_t i = dedup->n; i-- > 0;)
		if (dedup->inverse[i] != i)
			memcpy(to + i * row_bytes, to + dedup->inverse[i] * row_bytes, row_bytes);
}

void train_dedup_sum(const struct dedup *dedup, const float *rows, size_t dim, float *sums)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < dedup->n; i++, rows += dim) {
		float *sum = sums + dedup->inverse[i] * dim;

		if (dedup->inverse[i] == count) {
			memcpy(sum, rows, dim * sizeof(*sum));
			count++;
			continue;
		}
		for (size_t k = 0; k < dim; k++)
			sum[k] += rows[k];
	}
}
