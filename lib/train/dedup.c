/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/dedup.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum {
	/* Of this many ids that differ in n, what is saved pays for the search: a quarter. */
	WORTH_OF = 3,
	WORTH_IN = 4,
	SKIP = 15,
	SLOTS_MIN = 16
};

static struct once *make(struct graph_value value, uint32_t run, uint32_t most)
{
	struct once *once = calloc(1, sizeof(*once));
	uint64_t slots = SLOTS_MIN;

	while (slots < UINT64_C(2) * most)
		slots *= 2;
	if (!once)
		return NULL;
	*once = (struct once){ .value = value, .run = run, .most = most, .mask = (uint32_t)(slots - 1) };
	once->ids = malloc((most + UINT64_C(1)) * sizeof(*once->ids));
	once->keys = malloc((most + UINT64_C(1)) * sizeof(*once->keys));
	once->where = malloc((most + UINT64_C(1)) * sizeof(*once->where));
	once->slots = malloc(slots * sizeof(*once->slots));
	if (once->ids && once->keys && once->where && once->slots)
		return once;
	train_once_free(once);
	return NULL;
}

struct once *train_once_get(struct once **list, struct graph_value value, uint32_t run, uint32_t most)
{
	struct once *once = *list;

	while (once && !(graph_same(once->value, value) && once->run == run))
		once = once->next;
	if (once)
		return once;
	once = make(value, run, most);
	if (once) {
		once->next = *list;
		*list = once;
	}
	return once;
}

void train_once_free(struct once *list)
{
	for (struct once *next; list; list = next) {
		next = list->next;
		free(list->ids);
		free(list->keys);
		free(list->where);
		free(list->slots);
		free(list);
	}
}

/* A slot holds 1 + the place of an id in keys, or 0. Most slots are free, so each search ends, and soon. */
static void find_repeats(struct once *once)
{
	const uint32_t mask = once->mask;
	uint32_t count = 0;

	memset(once->slots, 0, (mask + UINT64_C(1)) * sizeof(*once->slots));
	for (uint32_t i = 0; i < once->n; i++) {
		const uint64_t id = once->ids[i];
		uint32_t at = (uint32_t)hash_mix(id) & mask;

		while (once->slots[at] && once->keys[once->slots[at] - 1] != id)
			at = (at + 1) & mask;
		if (!once->slots[at]) {
			once->keys[count] = id;
			once->slots[at] = ++count;
		}
		once->where[i] = once->slots[at] - 1;
	}
	once->count = count;
}

static bool is_worth(const struct once *once)
{
	return (uint64_t)once->count * WORTH_IN <= (uint64_t)once->n * WORTH_OF;
}

bool train_once_find(struct once *once, const uint64_t *ids, uint32_t n)
{
	if (n == 0 || n > once->most)
		return false;
	if (once->n == n && !memcmp(once->ids, ids, n * sizeof(*ids)))
		return is_worth(once);
	once->n = 0;
	if (once->skip) {
		once->skip--;
		return false;
	}
	once->n = n;
	memcpy(once->ids, ids, n * sizeof(*ids));
	find_repeats(once);
	once->skip = is_worth(once) ? 0 : SKIP;
	return is_worth(once);
}

/* From the last to the first, no row is overwritten before it has been handed out: each comes from its own place or one before. */
void train_once_hand_out(const struct once *once, void *rows, size_t row_bytes)
{
	uint8_t *to = rows;

	for (uint32_t i = once->n; i-- > 0;)
		if (once->where[i] != i)
			memcpy(to + i * row_bytes, to + once->where[i] * row_bytes, row_bytes);
}

void train_once_sum(const struct once *once, const float *rows, size_t dim, float *sums)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < once->n; i++, rows += dim) {
		float *sum = sums + once->where[i] * dim;

		if (once->where[i] == count) {
			memcpy(sum, rows, dim * sizeof(*sum));
			count++;
			continue;
		}
		for (size_t k = 0; k < dim; k++)
			sum[k] += rows[k];
	}
}
