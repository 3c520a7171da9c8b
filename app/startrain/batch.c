/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int row_set_init(struct row_set *r, uint32_t vocabulary_size, uint32_t rows_max)
{
	r->keys = malloc(rows_max * sizeof(*r->keys));
	r->place = malloc(vocabulary_size * sizeof(*r->place));
	r->seen = calloc(vocabulary_size, sizeof(*r->seen));
	return r->keys != NULL && r->place != NULL && r->seen != NULL ? 0 : -ENOMEM;
}

static void row_set_fini(struct row_set *r)
{
	free(r->keys);
	free(r->place);
	free(r->seen);
}

static void row_set_clear(struct row_set *r, uint32_t vocabulary_size)
{
	r->count = 0;
	if (++r->batch == 0) { /* after 2^32 batches old stamps would seem current */
		memset(r->seen, 0, vocabulary_size * sizeof(*r->seen));
		r->batch = 1;
	}
}

static uint32_t row_set_add(struct row_set *r, uint32_t word)
{
	if (r->seen[word] != r->batch) {
		r->seen[word] = r->batch;
		r->place[word] = r->count;
		r->keys[r->count++] = word;
	}
	return r->place[word];
}

uint32_t batch_rows_max(const struct batch *b)
{
	return b->pairs_max * (1 + b->negatives);
}

int batch_init(struct batch *b, uint32_t vocabulary_size, uint32_t pairs, uint32_t negatives, struct star_error *err)
{
	memset(b, 0, sizeof(*b));
	b->pairs_max = pairs;
	b->negatives = negatives;
	b->groups = malloc(pairs * sizeof(*b->groups));
	b->contexts = malloc(pairs * sizeof(*b->contexts));
	b->negatives_drawn = malloc((size_t)pairs * negatives * sizeof(*b->negatives_drawn));
	if (row_set_init(&b->in, vocabulary_size, pairs) == 0 &&
	    row_set_init(&b->out, vocabulary_size, batch_rows_max(b)) == 0 && b->groups != NULL &&
	    b->contexts != NULL && b->negatives_drawn != NULL)
		return 0;
	batch_fini(b);
	return star_error_set(err, -ENOMEM, "not enough memory for a batch of %u pairs", pairs);
}

void batch_fini(struct batch *b)
{
	row_set_fini(&b->in);
	row_set_fini(&b->out);
	free(b->groups);
	free(b->contexts);
	free(b->negatives_drawn);
	memset(b, 0, sizeof(*b));
}

/* A negative that is the center or one of its contexts would counteract a true pair: it is omitted, as in
 * word2vec.c. */
static bool is_positive(uint32_t word, uint32_t center, const uint32_t *contexts, uint32_t count)
{
	bool found = word == center;

	for (uint32_t i = 0; i < count; i++)
		found |= contexts[i] == word;
	return found;
}

static void add_group(struct batch *b, struct stream *stream, uint32_t center, const uint32_t *contexts, uint32_t count)
{
	struct group *g = &b->groups[b->groups_count++];

	*g = (struct group){ .center = row_set_add(&b->in, center),
			     .first_context = b->pairs,
			     .contexts = count,
			     .first_negative = b->negatives_count };
	for (uint32_t i = 0; i < count; i++)
		b->contexts[b->pairs++] = row_set_add(&b->out, contexts[i]);
	for (uint32_t i = 0; i < b->negatives; i++) {
		const uint32_t word = sampler_negative(stream->sampler, &stream->random);

		if (!is_positive(word, center, contexts, count))
			b->negatives_drawn[b->negatives_count++] = row_set_add(&b->out, word);
	}
	g->negatives = b->negatives_count - g->first_negative;
}

uint32_t batch_fill(struct batch *b, struct stream *stream)
{
	const uint32_t vocabulary_size = stream->sampler->vocabulary->size;
	uint32_t contexts[2 * WINDOW_MAX], center, count;

	row_set_clear(&b->in, vocabulary_size);
	row_set_clear(&b->out, vocabulary_size);
	b->groups_count = b->pairs = b->negatives_count = 0;
	while (b->pairs_max - b->pairs >= 2 * stream->window) {
		count = stream_next(stream, &center, contexts);
		if (count == 0)
			break;
		add_group(b, stream, center, contexts, count);
	}
	return b->pairs;
}
