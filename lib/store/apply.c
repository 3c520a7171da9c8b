/* SPDX-License-Identifier: BSD-3-Clause */
/* The gradients of pushes: checked, summed, applied. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/probe.h"
#include "store/journal_note.h"
#include "store/push_internal.h"
#include "tensor/dtype.h"

/* The element type in which a table's values, gradients and slots are computed. */
static unsigned work_type(const struct store_table *t)
{
	return t->wide ? STAR_FLOAT64 : STAR_FLOAT32;
}

static size_t work_bytes(const struct store_table *t)
{
	return t->dim * (t->wide ? sizeof(double) : sizeof(float));
}

enum {
	ROWS_AHEAD = 16,	/* prefetched */
	JOURNAL_ROWS = 64,	/* written to the journal in one call */
	LOOK_BYTES_MAX = 16384, /* of gradients that are checked before the first of them is applied */
};

/* Whether n gradients, contiguous in memory, are finite. */
static bool is_finite(const struct store_table *t, const void *gradients, uint32_t count)
{
	return t->wide ? optim_finite64(&t->optim, gradients, count * t->dim)
		       : optim_finite(&t->optim, gradients, count * t->dim);
}

/* Whether they are also small enough that sums of them are finite. */
static bool is_moderate(const struct store_table *t, const void *gradients, uint32_t count)
{
	return t->wide ? optim_moderate64(&t->optim, gradients, count * t->dim)
		       : optim_moderate(&t->optim, gradients, count * t->dim);
}

/* Converts a gradient to the type in which the table computes: in scratch[0], or in place. Applies the table's rule for
 * non-finite ones. */
static const void *take_in(struct store_table *t, const void *gradient, unsigned dtype, bool count)
{
	const unsigned type = work_type(t);
	void *copy = t->store->scratch[0];

	if (dtype != type) {
		tensor_convert_row(copy, type, gradient, dtype, t->dim, (float *)t->store->scratch[2]);
		gradient = copy;
	}
	if (t->spec.nonfinite == NONFINITE_REFUSE || is_finite(t, gradient, 1))
		return gradient;
	t->stats.nonfinite += count;
	if (t->spec.nonfinite == NONFINITE_PASS)
		return gradient;
	if (gradient != copy)
		memcpy(copy, gradient, work_bytes(t));
	if (t->wide)
		optim_make_finite64(&t->optim, copy, t->dim);
	else
		optim_make_finite(&t->optim, copy, t->dim);
	return copy;
}

/* Adds the first of several gradients, or a further one. */
static void add_gradient(const struct store_push *p, const struct store_table *t, const struct push_entry *e,
			 const void *gradient)
{
	const struct push_entry *first = &p->entries[e->first];
	void *sum = push_sum(p, first);

	if (first == e)
		memcpy(sum, gradient, work_bytes(t));
	else if (t->wide)
		optim_accumulate64(&t->optim, sum, gradient, t->dim);
	else
		optim_accumulate(&t->optim, sum, gradient, t->dim);
}

/* The row's values in the type in which they are computed: in place, or converted to float32 in scratch[1]. */
static void *open_values(const struct store_table *t, uint8_t *row)
{
	if (!t->narrow)
		return row + t->at.values;
	if (t->at.master)
		return row + t->at.master;
	t->converter->to_float((float *)t->store->scratch[1], row + t->at.values, t->dim);
	return t->store->scratch[1];
}

/* Stochastic rounding depends on row and update only, so it is the same for any order and any number of shards. */
static void close_values(const struct store_table *t, uint8_t *row, const void *values)
{
	uint64_t key;

	if (!t->narrow)
		return;
	if (!t->at.rounds) {
		t->converter->from_float(row + t->at.values, values, t->dim);
		return;
	}
	key = hash_mix(row_key(row) ^ ((uint64_t)t->rounding_key[1] << 32 | t->rounding_key[0]));
	t->converter->from_float_stochastic(row + t->at.values, values, t->dim,
					    (uint32_t[2]){ (uint32_t)key, (uint32_t)(key >> 32) },
					    (*row_word(row, t->at.rounds))++);
}

static void count_version(const struct store_table *t, uint8_t *row)
{
	uint32_t next;

	if (!t->at.version)
		return;
	next = *row_word(row, t->at.version) + 1;
	/* Versions wrap around. */
	if (t->version_least && (int32_t)(t->version_least - next) > 0)
		next = t->version_least;
	*row_word(row, t->at.version) = next + (next == 0); /* 0 means no row */
}

/* watched: the gradient has not been checked for NaN and infinities yet. */
static void apply_entry(struct store_table *t, struct push_op *op, store_row handle, const void *gradient, bool watched)
{
	uint8_t *row = table_row(t, handle);
	uint32_t *words = row_word(row, t->at.words);
	void *values = open_values(t, row), *slots = row + t->at.slots;

	if (t->optim.whole) {
		if (t->wide)
			optim_lamb_moments64(&t->optim, &op->step, values, slots, gradient, t->dim, *words + 1,
					     op->norms);
		else
			optim_lamb_moments(&t->optim, &op->step, values, slots, gradient, t->dim, *words + 1,
					   op->norms);
		return;
	}
	if (t->wide)
		optim_apply64(&t->optim, &op->step, values, slots, words, gradient, t->dim);
	else if (!watched)
		optim_apply(&t->optim, &op->step, values, slots, words, gradient, t->dim);
	else if (!optim_apply_watched(&t->optim, &op->step, values, slots, words, gradient, t->dim))
		t->stats.nonfinite++;
	close_values(t, row, values);
	count_version(t, row);
	journal_note_row(t, handle);
}

/* Assigns a value, which takes the place of a gradient in the push. */
static void assign(const struct store_push *p, struct store_table *t, const struct push_entry *e, const void *value,
		   unsigned dtype)
{
	float *scratch = (float *)t->store->scratch[1];
	uint8_t *row;

	if (e->row == STORE_UNADMITTED)
		return;
	if (t->converter && t->spec.nonfinite == NONFINITE_CLIP) {
		value = take_in(t, value, dtype, true);
		dtype = work_type(t);
	}
	row = table_row(t, e->row);
	if (t->at.master)
		tensor_convert_row(row + t->at.master, STAR_FLOAT32, value, dtype, t->dim, scratch);
	tensor_convert_row(row + t->at.values, t->spec.dtype, value, dtype, t->dim, scratch);
	if (&p->entries[e->first] == e)
		count_version(t, row); /* once per push, however often it names the key */
	journal_note_row(t, e->row);
}

bool store_push_needs_look(const struct store_table *table)
{
	if (!table->converter)
		return false; /* integers */
	return table->spec.nonfinite == NONFINITE_REFUSE || table->spec.clip_global_norm > 0;
}

static double square_sum(const struct store_table *t, const void *gradient)
{
	return t->wide ? optim_square_sum64(&t->optim, gradient, t->dim)
		       : optim_square_sum(&t->optim, gradient, t->dim);
}

static int refuse_gradient(struct store_table *t, const void *gradient)
{
	if (t->spec.nonfinite != NONFINITE_REFUSE || is_finite(t, gradient, 1))
		return 0;
	t->stats.nonfinite++;
	return -EDOM;
}

/* Adds up the squares of the operation's gradient. Its rows are summed first. -ERANGE: a sum has overflowed, and the
 * push is refused. */
static int measure_gradient(struct store_push *p, struct push_op *op, const struct push_entry *e, const void *gradient)
{
	struct store_table *t = op->table;
	struct push_entry *first = &p->entries[e->first];

	if (first->sum != PUSH_NO_SUM) {
		add_gradient(p, t, e, gradient);
		if (first == e || --first->left > 1)
			return 0;
		p->entries[e - p->entries].left = PUSH_LAST;
		gradient = push_sum(p, first);
		if (refuse_gradient(t, gradient) < 0)
			return -ERANGE;
	}
	if (t->spec.clip_global_norm > 0)
		op->squares += square_sum(t, gradient);
	return 0;
}

/* Element types whose largest number is smaller than float32's. */
static bool is_narrow(const struct store_table *t)
{
	return t->spec.dtype == STAR_FLOAT16 || t->spec.dtype == STAR_BFLOAT16;
}

/* Refuses a finite value that would become an infinity in the row. */
static int refuse_value(struct store_table *t, const void *value)
{
	void *row = t->store->scratch[1], *again = t->store->scratch[0];
	float *between = (float *)t->store->scratch[2];

	if (!is_narrow(t) || t->spec.nonfinite != NONFINITE_REFUSE)
		return 0;
	tensor_convert_row(row, t->spec.dtype, value, work_type(t), t->dim, between);
	tensor_convert_row(again, work_type(t), row, t->spec.dtype, t->dim, between);
	if (is_finite(t, again, 1))
		return 0;
	t->stats.nonfinite++;
	return -ERANGE;
}

/* Checks one gradient of the operation, unless it is known to be moderate; -EDOM or -ERANGE: it is refused. */
static int look_at_gradient(struct store_push *p, struct push_op *op, const struct push_entry *e, const void *gradient,
			    unsigned dtype, bool moderate)
{
	struct store_table *t = op->table;

	if (e->row == STORE_UNADMITTED)
		return 0;
	if (!moderate) {
		gradient = take_in(t, gradient, dtype, true);
		if (refuse_gradient(t, gradient) < 0)
			return -EDOM;
		op->large |= !is_moderate(t, gradient, 1);
	}
	if (op->assign)
		return refuse_value(t, gradient);
	return op->summed ? measure_gradient(p, op, e, gradient) : 0;
}

/* How many of the gradients are contiguous in memory. */
static unsigned run_length(const void *const *gradients, size_t bytes, unsigned n)
{
	unsigned run = 1;

	while (run < n && (const char *)gradients[run] == (const char *)gradients[0] + run * bytes)
		run++;
	return run;
}

/* Whether gradients must be summed by row before the first is applied: for their norm, or because a sum may be
 * refused. */
static bool needs_sums(const struct push_op *op)
{
	const struct object_spec *spec = &op->table->spec;

	return !op->assign && (spec->clip_global_norm > 0 ||
			       (op->sums && op->large && op->table->converter && spec->nonfinite == NONFINITE_REFUSE));
}

/* Whether all keys have come, so that it is known which are equal. */
static bool is_whole_push(const struct push_op *op)
{
	return op->keys == op->end - op->first;
}

bool store_push_look_again(struct store_push *p)
{
	struct push_op *op = p->look < p->ops_count ? &p->ops[p->look] : NULL;

	if (!op || op->summed || op->looked < op->keys || !needs_sums(op) || !is_whole_push(op))
		return false;
	op->looked = 0;
	return true;
}

int store_push_look(struct store_push *p, struct store_table *table, const void *const *gradients, unsigned dtype,
		    unsigned n)
{
	const size_t bytes = work_bytes(table);
	const struct push_entry *entries;
	struct push_op *op;
	unsigned run;

	while (p->look < p->ops_count &&
	       (p->ops[p->look].table != table || p->ops[p->look].looked == p->ops[p->look].keys))
		p->look++;
	assert(p->look < p->ops_count && n <= STORE_BATCH);
	op = &p->ops[p->look];
	assert(n <= op->keys - op->looked);
	entries = &p->entries[op->first + op->looked];
	if (op->looked == 0)
		op->summed = needs_sums(op) && is_whole_push(op);
	op->looked += n;
	if (!op->summed && table->spec.clip_global_norm > 0 && !op->assign)
		return 0; /* they will come again */
	for (unsigned i = 0; store_push_needs_look(table) && i < n; i += run) {
		bool moderate;

		run = run_length(gradients + i, bytes, n - i);
		/* Usually all of them are fine. */
		moderate = dtype == work_type(table) && is_moderate(table, gradients[i], run);
		if (moderate && !op->summed && !(op->assign && is_narrow(table)))
			continue;
		for (unsigned r = i; r < i + run; r++) {
			const int rc = look_at_gradient(p, op, &entries[r], gradients[r], dtype, moderate);

			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

struct optim_step store_push_apply_step(struct store_table *t, const struct store_push_step *step, double squares)
{
	const struct object_spec *spec = &t->spec;
	const uint64_t pushes = t->stats.pushes, count = step->step ? step->step : pushes + 1;
	float rate = step->has_rate ? step->rate : spec->optim.rate, scale = step->has_scale ? step->scale : 1;

	if (step->step > t->step)
		t->step = step->step;
	rate = wire_object_rate(spec, rate, count);
	if (spec->staleness && step->has_version && pushes > step->version)
		rate /= (float)(pushes - step->version);
	if (spec->clip_global_norm > 0) {
		const double norm = sqrt(squares) * fabs((double)scale);

		if (!(norm <= (double)spec->clip_global_norm))
			scale = (float)((double)scale * ((double)spec->clip_global_norm / norm));
	}
	return (struct optim_step){ .rate = rate, .scale = scale, .step = step->step, .count = count };
}

void store_push_step(struct store_push *p, struct store_table *table, const struct store_push_step *step)
{
	struct push_op *op = &p->ops[p->run];

	assert(p->run < p->ops_count && op->table == table && op->taken == 0);
	op->step = store_push_apply_step(table, step, op->squares);
	if (!step->more) /* the staleness counts once per push, with its last part */
		table_note_staleness(table, step->has_version, step->version);
	op->more = step->more;
	op->begun = true;
}

/* With NONFINITE_PASS, gradients with NaN or infinities are counted only. A long one is then checked as it is applied,
 * so that it is loaded once. */
static bool is_watched(const struct store_table *t, const struct push_op *op, unsigned dtype)
{
	return t->spec.nonfinite == NONFINITE_PASS && t->is_long && !t->wide && dtype == STAR_FLOAT32 && !op->summed &&
	       !t->optim.whole;
}

static void take_gradient(struct store_push *p, struct push_op *op, const struct push_entry *e, const void *gradient,
			  unsigned dtype)
{
	struct store_table *t = op->table;
	struct push_entry *first = &p->entries[e->first];

	if (e->row == STORE_UNADMITTED)
		return;
	if (op->summed && first->sum != PUSH_NO_SUM) {
		/* Only for the last entry: until then a program that applies reads the row as it was. */
		if (e->left == PUSH_LAST)
			apply_entry(t, op, first->row, push_sum(p, first), false);
		return;
	}
	if (first->sum == PUSH_NO_SUM && is_watched(t, op, dtype)) {
		apply_entry(t, op, first->row, gradient, true);
		return;
	}
	gradient = take_in(t, gradient, dtype, !op->summed); /* counted by the check before */
	if (first->sum == PUSH_NO_SUM) {
		apply_entry(t, op, first->row, gradient, false);
		return;
	}
	add_gradient(p, t, e, gradient);
	if (first != e && --first->left == 1)
		apply_entry(t, op, first->row, push_sum(p, first), false);
}

/* Prefetches the rows of later entries, also across slices. */
static inline __attribute__((always_inline)) void load_ahead(const struct store_push *p, const struct push_op *op,
							     uint32_t number)
{
	const store_row row = number < op->keys ? p->entries[op->first + number].row : STORE_UNADMITTED;

	if (row != STORE_UNADMITTED)
		table_load(op->table, row, op->table->row_lines);
}

/* The distance from an entry's row to the next one's, if there is one. */
static int64_t way_to_next(const struct store_table *t, const struct push_entry *e, bool more)
{
	if (!more || e->row == STORE_UNADMITTED || e[1].row == STORE_UNADMITTED)
		return 0;
	return table_row(t, e[1].row) - table_row(t, e->row);
}

/* Whether n gradients in the type of computation are finite. */
static bool all_finite(const struct store_table *t, const void *const *gradients, unsigned n)
{
	unsigned run;

	for (unsigned i = 0; i < n; i += run) {
		run = run_length(gradients + i, work_bytes(t), n - i);
		if (!is_finite(t, gradients[i], run))
			return false;
	}
	return true;
}

/* The usual push: finite float32 gradients for rows that are updated in place. If they were not checked before, they
 * are checked together, provided that the L1 cache holds them until they are applied. */
static bool is_plain(const struct push_op *op, const void *const *gradients, unsigned dtype, unsigned n)
{
	const struct store_table *t = op->table;

	if (!t->plain || dtype != STAR_FLOAT32 || t->spec.clip_global_norm > 0 || op->assign)
		return false;
	return t->spec.nonfinite == NONFINITE_REFUSE ||
	       (n * work_bytes(t) <= LOOK_BYTES_MAX && all_finite(t, gradients, n));
}

/* Writes those of the next n rows to the journal that have just been applied with a single gradient. The others are
 * written with their last gradient. */
static void journal_plain(const struct store_push *p, const struct push_op *op, unsigned n)
{
	const struct push_entry *e = &p->entries[op->first + op->taken];
	store_row rows[JOURNAL_ROWS];
	unsigned changed = 0;

	for (unsigned i = 0; i < n; i++, e++) {
		if (e->row != STORE_UNADMITTED && p->entries[e->first].sum == PUSH_NO_SUM)
			rows[changed++] = e->row;
		if (changed == JOURNAL_ROWS || i + 1 == n) {
			store_journal_changed(op->table, rows, changed);
			changed = 0;
		}
	}
}

/* Applies all n rows in this way. */
static void take_plain(struct store_push *p, struct push_op *op, const void *const *gradients, unsigned n)
{
	struct store_table *t = op->table;
	const struct push_entry *e = &p->entries[op->first + op->taken];
	const uint32_t left = op->keys - op->taken;

	for (unsigned i = 0; i < n; i++, e++) {
		uint8_t *row;

		if (i + ROWS_AHEAD < left && e[ROWS_AHEAD].row != STORE_UNADMITTED)
			table_load(t, e[ROWS_AHEAD].row, t->row_lines);
		if (e->row == STORE_UNADMITTED)
			continue;
		if (t->is_long)
			op->step.next = way_to_next(t, e, i + 1 < left);
		if (p->entries[e->first].sum != PUSH_NO_SUM) {
			take_gradient(p, op, e, gradients[i], STAR_FLOAT32);
			continue;
		}
		row = table_row(t, e->row);
		optim_apply(&t->optim, &op->step, (float *)(row + t->at.values), (float *)(row + t->at.slots),
			    row_word(row, t->at.words), gradients[i], t->dim);
	}
	if (journal_is_on(t))
		journal_plain(p, op, n);
	op->taken += n;
}

static void take_each(struct store_push *p, struct push_op *op, const void *const *gradients, unsigned dtype,
		      unsigned n)
{
	const struct store_table *t = op->table;

	for (unsigned i = 0; i < n; i++, op->taken++) {
		const struct push_entry *e = &p->entries[op->first + op->taken];

		load_ahead(p, op, op->taken + ROWS_AHEAD);
		if (op->assign) {
			assign(p, op->table, e, gradients[i], dtype);
			continue;
		}
		op->step.next = t->is_long ? way_to_next(t, e, op->taken + 1 < op->keys) : 0;
		take_gradient(p, op, e, gradients[i], dtype);
	}
}

void store_push_rows(struct store_push *p, struct store_table *table, const void *const *gradients, unsigned dtype,
		     unsigned n)
{
	struct push_op *op = &p->ops[p->run];

	assert(p->run < p->ops_count && op->table == table && n <= STORE_BATCH && n <= op->keys - op->taken);
	if (!op->begun)
		store_push_step(p, table, &(struct store_push_step){ 0 });
	for (uint32_t i = 0; op->taken == 0 && i < ROWS_AHEAD; i++)
		load_ahead(p, op, i);
	if (is_plain(op, gradients, dtype, n))
		take_plain(p, op, gradients, n);
	else
		take_each(p, op, gradients, dtype, n);
}

void store_push_apply(struct store_table *t, const struct optim_step *step, const store_row *rows,
		      const void *const *gradients, const uint32_t *counts, unsigned n)
{
	struct push_op op = { .step = *step };

	for (unsigned i = 0; i < n; i++)
		if (rows[i] < STORE_UNADMITTED)
			table_load(t, rows[i], t->row_lines);
	for (unsigned i = 0; i < n; i++) {
		const void *gradient;

		if (rows[i] >= STORE_UNADMITTED)
			continue;
		/* 0: a push that was refused has created the row, but added nothing. */
		op.step.scale = counts && counts[i] ? step->scale / (float)counts[i] : step->scale;
		gradient = take_in(t, gradients[i], work_type(t), true);
		if (t->spec.nonfinite == NONFINITE_REFUSE && !is_finite(t, gradient, 1)) {
			t->stats.nonfinite++;
			journal_note_row(t, rows[i]);
		} else {
			apply_entry(t, &op, rows[i], gradient, false);
		}
	}
}

static void apply_whole(struct store_table *t, struct push_op *op, store_row handle)
{
	uint8_t *row = table_row(t, handle);
	uint32_t *words = row_word(row, t->at.words);
	void *values = open_values(t, row), *slots = row + t->at.slots;

	++*words;
	if (t->wide)
		optim_lamb_apply64(&t->optim, &op->step, values, slots, t->dim, *words, op->norms);
	else
		optim_lamb_apply(&t->optim, &op->step, values, slots, t->dim, *words, op->norms);
	close_values(t, row, values);
	count_version(t, row);
	journal_note_row(t, handle);
}

bool store_push_finish(struct store_push *p, struct store_table *table, unsigned budget)
{
	struct push_op *op = &p->ops[p->run];

	assert(p->run < p->ops_count && op->table == table && op->taken == op->keys);
	for (; table->optim.whole && !op->assign && op->finished < op->keys; op->finished++, budget--) {
		const uint32_t at = op->first + op->finished;

		if (budget == 0)
			return false;
		if (p->entries[at].first == at && p->entries[at].row != STORE_UNADMITTED)
			apply_whole(table, op, p->entries[at].row);
	}
	if (op->more)
		table->uncounted += table->at.version != 0;
	else
		table->stats.pushes++;
	PROBE(push_applied, table->spec.name, op->keys, table->stats.pushes);
	journal_note_push(table);
	store_push_close(op);
	p->run++;
	return true;
}
