/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/probe.h"
#include "store/sums.h"

#include <assert.h>
#include <string.h>

#include "store/journal_note.h"
#include "store/push_internal.h"

bool store_sums_possible(const struct object_spec *spec)
{
	return spec->optim.kind != OPTIM_NONE && spec->optim.kind != OPTIM_LAMB && !(spec->clip_global_norm > 0);
}

struct store_table *store_sums_create(struct store *beside, const struct store_table *of, double share,
				      struct star_error *err)
{
	struct object_spec spec = { .id = of->spec.id,
				    .kind = OBJECT_TABLE,
				    .dtype = of->wide ? STAR_FLOAT64 : STAR_FLOAT32,
				    .dim = of->spec.dim };
	struct store_table *sums;

	memcpy(spec.name, of->spec.name, sizeof(spec.name));
	wire_object_spec_defaults(&spec, OPTIM_SGD);
	spec.initializer = OBJECT_ZEROS;
	spec.optim.rate = 1;
	spec.nonfinite = of->spec.nonfinite;
	spec.versions = true;
	sums = store_table_create(beside, &spec, share, err);
	if (!sums)
		return NULL;
	sums->sums = true;
	store_sums_set_by_row(sums, false);
	return sums;
}

/* Rows of plain tables are updated without checking their versions. */
void store_sums_set_by_row(struct store_table *sums, bool by_row)
{
	sums->sums_by_row = by_row;
	sums->plain = !sums->wide && !by_row;
}

bool store_sums_by_row(const struct store_table *sums)
{
	return sums->sums_by_row;
}

/* Such a table is never swept, so the walk's state can be used for this. */
void store_sums_begin(struct store_table *sums, struct store_table *of)
{
	sums->sweep.rows = (struct index_walk){ 0 };
	if (of)
		of->uncounted++; /* until it ends: rows may be deleted and created while it is in progress */
}

/* The look-up counts rows for which there is no memory. */
static void apply_some(struct store_table *of, const struct store_push_step *step, const uint64_t *keys,
		       const void *const *gradients, const uint32_t *counts, unsigned n)
{
	const struct optim_step common = store_push_apply_step(of, step, 0);
	store_row rows[STORE_BATCH];

	store_find(of, keys, n, STORE_PUSH, step->step, rows);
	store_push_apply(of, &common, rows, gradients, counts, n);
}

/* Rows that were taken are removed from the index, so the same segment is read again until it is empty. */
bool store_sums_take(struct store_table *sums, struct store_table *of, const struct store_push_step *step, unsigned n,
		     unsigned *taken)
{
	store_row *const segment = sums->store->sweep_rows;
	struct index_walk walk = sums->sweep.rows;
	const void *gradients[STORE_BATCH];
	uint64_t keys[STORE_BATCH];
	uint32_t counts[STORE_BATCH];
	unsigned there;

	assert(n <= STORE_BATCH);
	*taken = 0;
	if (walk.over) {
		of->stats.pushes += step != NULL;
		of->uncounted -= step != NULL;
		if (step) {
			PROBE(push_applied, of->spec.name, 0, of->stats.pushes);
			journal_note_push(of);
		}
		return false;
	}
	there = store_index_walk(&sums->index, &walk, segment);
	if (there <= n) {
		sums->sweep.rows = walk;
		n = there;
	}
	for (unsigned i = 0; i < n; i++)
		table_load(sums, segment[i], sums->row_lines);
	for (unsigned i = 0; i < n; i++) {
		const uint8_t *row = table_row(sums, segment[i]);

		keys[i] = row_key(row);
		counts[i] = store_version(sums, segment[i]);
		gradients[i] = row + sums->at.values;
	}
	if (step && n)
		apply_some(of, step, keys, gradients, step->by_row && sums->sums_by_row ? counts : NULL, n);
	for (unsigned i = 0; i < n; i++)
		store_table_remove(sums, index_hash(keys[i]), segment[i]);
	*taken = n;
	return true;
}
