/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/quality.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "app/startrain/batch.h"
#include "app/startrain/model.h"

enum {
	HELD_OUT_SEED = 20, /* its own, so that runs with different seeds can be compared */
	HELD_OUT_PAIRS = 1 << 16,
	HELD_OUT_BATCH = 2048,
	READ_KEYS = 1024,	  /* rows per call: far below the protocol's limits */
	NEIGHBOUR_MIN_COUNT = 20, /* rarer words are in too few pairs to be meaningful */
};

static const char *const shown_words[] = { "king", "mother",  "france", "city", "river",    "ocean",
					   "bird", "disease", "music",	"wine", "computer", "ship" };

static int quality_no_memory(struct star_error *err)
{
	return star_error_set(err, -ENOMEM, "not enough memory to judge the vectors");
}

static int sum_loss(const struct reader *reader, uint32_t dim, struct batch *b, struct stream *stream, float *in,
		    float *out, double *loss, struct star_error *err)
{
	double sum = 0;
	uint64_t pairs = 0;
	int rc;

	while (pairs < HELD_OUT_PAIRS && batch_fill(b, stream) > 0) {
		rc = reader->read(reader->ctx, WORDS_IN, b->in.keys, b->in.count, in, err);
		if (rc == 0)
			rc = reader->read(reader->ctx, WORDS_OUT, b->out.keys, b->out.count, out, err);
		if (rc != 0)
			return rc;
		sum += model_loss(b, dim, in, out, NULL, NULL);
		pairs += b->pairs;
	}
	if (pairs == 0)
		return star_error_set(err, -EINVAL, "the held-out text (every %dth sentence) has no pair of words",
				      CORPUS_HELD_OUT);
	*loss = sum / (double)pairs;
	return 0;
}

int quality_held_out(const struct reader *reader, const struct training *t, const struct corpus *corpus,
		     const struct sampler *sampler, double *loss, struct star_error *err)
{
	float *in = NULL, *out = NULL;
	struct stream stream;
	struct batch b;
	int rc;

	rc = stream_init(&stream, sampler, &corpus->held_out, t->window, 0, 1, HELD_OUT_SEED, 0, err);
	if (rc != 0)
		return rc;
	rc = batch_init(&b, corpus->vocabulary.size, HELD_OUT_BATCH, t->negatives, err);
	if (rc != 0)
		goto fini_stream;
	in = malloc((size_t)HELD_OUT_BATCH * t->dim * sizeof(*in));
	out = malloc((size_t)batch_rows_max(&b) * t->dim * sizeof(*out));
	rc = in != NULL && out != NULL ? sum_loss(reader, t->dim, &b, &stream, in, out, loss, err)
				       : quality_no_memory(err);
	free(in);
	free(out);
	batch_fini(&b);
fini_stream:
	stream_fini(&stream);
	return rc;
}

float *quality_read_all(const struct reader *reader, enum side side, uint32_t words, uint32_t dim,
			struct star_error *err)
{
	float *rows = malloc((size_t)words * dim * sizeof(*rows));
	uint64_t keys[READ_KEYS];

	if (rows == NULL) {
		quality_no_memory(err);
		return NULL;
	}
	for (uint32_t done = 0, n; done < words; done += n) {
		n = words - done < READ_KEYS ? words - done : READ_KEYS;
		for (uint32_t i = 0; i < n; i++)
			keys[i] = done + i;
		if (reader->read(reader->ctx, side, keys, n, rows + (size_t)done * dim, err) != 0) {
			free(rows);
			return NULL;
		}
	}
	return rows;
}

static double dot_product(const float *a, const float *b, uint32_t dim)
{
	double sum = 0;

	for (uint32_t i = 0; i < dim; i++)
		sum += (double)a[i] * b[i];
	return sum;
}

uint32_t quality_neighbours(const struct vocabulary *v, const float *rows, uint32_t dim, uint32_t word, uint32_t count,
			    uint32_t *nearest)
{
	const float *own = rows + (size_t)word * dim;
	double cosines[NEIGHBOURS_MAX];
	uint32_t found = 0;

	for (uint32_t id = 0; count > 0 && id < v->size && v->words[id].count >= NEIGHBOUR_MIN_COUNT; id++) {
		const float *row = rows + (size_t)id * dim;
		const double norm = sqrt(dot_product(row, row, dim) * dot_product(own, own, dim));
		const double cosine = norm > 0 ? dot_product(row, own, dim) / norm : 0;
		uint32_t at = found;

		if (id == word || (found == count && cosine <= cosines[count - 1]))
			continue;
		found += found < count;
		for (at = found - 1; at > 0 && cosines[at - 1] < cosine; at--) {
			cosines[at] = cosines[at - 1];
			nearest[at] = nearest[at - 1];
		}
		cosines[at] = cosine;
		nearest[at] = id;
	}
	return found;
}

void quality_print_neighbours(FILE *file, const struct vocabulary *v, const float *rows, uint32_t dim, uint32_t count,
			      bool json)
{
	uint32_t nearest[NEIGHBOURS_MAX], printed = 0;

	if (json)
		fputc('{', file);
	for (size_t i = 0; i < sizeof(shown_words) / sizeof(shown_words[0]); i++) {
		const uint32_t word = vocabulary_find(v, shown_words[i]);
		uint32_t found;

		if (word == VOCABULARY_NONE)
			continue;
		found = quality_neighbours(v, rows, dim, word, count, nearest);
		if (json)
			fprintf(file, "%s\"%s\": [", printed > 0 ? ", " : "", shown_words[i]);
		else
			fprintf(file, "  %-8s ", shown_words[i]);
		for (uint32_t k = 0; k < found; k++)
			fprintf(file, json ? "%s\"%s\"" : "%s%s", k > 0 ? ", " : "", v->words[nearest[k]].text);
		fputs(json ? "]" : "\n", file);
		printed++;
	}
	if (json)
		fputc('}', file);
}
