/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes of a few rows, without the code for slices, sums and policies. */
#include <assert.h>
#include <errno.h>

#include "base/probe.h"
#include "store/journal_note.h"
#include "store/push_internal.h"

bool store_pushes_few(const struct store_table *table)
{
	return table->plain && !table->policies && !table->optim.whole && table->optim.options.kind != OPTIM_NONE &&
	       !(table->spec.clip_global_norm > 0);
}

static bool all_differ(const store_row *rows, unsigned n)
{
	for (unsigned i = 1; i < n; i++)
		for (unsigned k = 0; k < i; k++)
			if (rows[i] == rows[k])
				return false;
	return true;
}

int store_push_few(struct store_table *table, const uint64_t *keys, const float *gradients, unsigned n,
		   const struct store_push_step *step)
{
	const struct optim_step common = store_push_apply_step(table, step, 0);
	store_row rows[STORE_FEW];

	assert(n <= STORE_FEW);
	if (!optim_finite(&table->optim, gradients, n * table->dim))
		return -EAGAIN;
	if (store_find(table, keys, n, STORE_PUSH, step->step, rows))
		return -ENOSPC;
	if (!all_differ(rows, n))
		return -EAGAIN;
	for (unsigned i = 0; i < n; i++)
		table_load(table, rows[i], table->row_lines);
	for (unsigned i = 0; i < n; i++) {
		uint8_t *row = table_row(table, rows[i]);

		optim_apply(&table->optim, &common, (float *)(row + table->at.values), (float *)(row + table->at.slots),
			    row_word(row, table->at.words), gradients + (size_t)i * table->dim, table->dim);
	}
	if (journal_is_on(table))
		store_journal_rows(table, rows, n);
	table_note_staleness(table, step->has_version, step->version);
	table->stats.pushes++;
	PROBE(push_applied, table->spec.name, n, table->stats.pushes);
	journal_note_push(table);
	return 0;
}
