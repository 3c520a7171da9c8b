/* SPDX-License-Identifier: BSD-3-Clause */
/* Random operations on a store and on plain arrays of float64, compared after each. */
#include "tests/store/cases.h"

#include <stdlib.h>

#include "base/prng.h"

enum { TABLES = 3, KEYS = 4000, DIM_MAX = 9, OPERATIONS = 60000 };

struct model_row {
	uint64_t key;
	bool made;
	double values[DIM_MAX], sums[DIM_MAX];
};

struct model {
	struct store_table *table;
	uint32_t dim;
	bool adagrad;
	uint64_t rows_made;
	struct model_row rows[KEYS];
};

static void model_make(struct model *m, struct model_row *r)
{
	float initial[DIM_MAX];

	if (r->made)
		return;
	store_initial(m->table, r->key, initial);
	for (unsigned e = 0; e < m->dim; e++) {
		r->values[e] = initial[e];
		r->sums[e] = 0.125;
	}
	r->made = true;
	m->rows_made++;
}

static void model_apply(struct model *m, struct model_row *r, const float *gradient, double rate)
{
	for (unsigned e = 0; e < m->dim; e++) {
		r->sums[e] += (double)gradient[e] * gradient[e];
		r->values[e] -= rate * gradient[e] / (m->adagrad ? sqrt(r->sums[e]) + 1e-8 : 1);
	}
}

static bool same(const struct model *m, const struct model_row *r, store_row row)
{
	const float *slots, *values;

	if (!r->made || row == STORE_NO_ROW)
		return CHECK_INT(row != STORE_NO_ROW, r->made);
	values = store_values(m->table, row);
	slots = store_slots(m->table, row);
	for (unsigned e = 0; e < m->dim; e++)
		if (!CHECK_NEAR(values[e], r->values[e], 2e-5 * (1 + fabs(r->values[e]))) ||
		    (m->adagrad && !CHECK_NEAR(slots[e], r->sums[e], 2e-5 * r->sums[e])))
			return false;
	return true;
}

static bool step(struct model *m, struct prng *p)
{
	const unsigned n = 1 + prng_below(p, STORE_BATCH), range = 1 + prng_below(p, KEYS);
	const int create = prng_below(p, 3) > 0;
	const float rate = prng_below(p, 2) ? 0 : 0.25f;
	struct model_row *picked[STORE_BATCH];
	store_row rows[STORE_BATCH];
	uint64_t keys[STORE_BATCH];
	unsigned missing = 0;
	float gradient[DIM_MAX];

	for (unsigned i = 0; i < n; i++) {
		picked[i] = &m->rows[prng_below(p, range)];
		keys[i] = picked[i]->key;
		if (create)
			model_make(m, picked[i]);
		missing += !picked[i]->made;
	}
	if (!CHECK_UINT(store_find(m->table, keys, n, create, rows), missing))
		return false;
	for (unsigned i = 0; i < n; i++)
		if (!same(m, picked[i], rows[i]))
			return false;
	if (missing)
		return true;
	for (unsigned i = 0; i < n && i < 8; i++) {
		for (unsigned e = 0; e < m->dim; e++)
			gradient[e] = (float)(2 * prng_unit(p) - 1);
		store_prefetch(m->table, rows[i]);
		store_apply(m->table, rows[i], gradient, rate);
		model_apply(m, picked[i], gradient, rate == 0 ? (double)0.1f : 0.25);
		if (!same(m, picked[i], rows[i]))
			return false;
	}
	return CHECK_UINT(store_table_stats(m->table)->rows, m->rows_made);
}

void random_operations_follow_the_model(void)
{
	static struct model models[TABLES];
	const uint32_t dims[TABLES] = { 1, 4, DIM_MAX };
	struct fixture f = fixture_open(4 << 20);
	struct prng p;

	prng_seed(&p, 6);
	memset(models, 0, sizeof(models));
	for (unsigned i = 0; i < TABLES; i++) {
		models[i].dim = dims[i];
		models[i].adagrad = i != 1;
		models[i].table =
			table_of(&f, i ? i > 1 ? "c" : "b" : "a", dims[i], i != 1 ? OBJECT_ADAGRAD : OBJECT_SGD);
		for (uint64_t k = 0; k < KEYS; k++)
			models[i].rows[k].key = i == 0 ? k : i == 1 ? UINT64_MAX - k * k : prng_next(&p);
	}
	for (unsigned i = 0; i < OPERATIONS; i++)
		if (!step(&models[prng_below(&p, TABLES)], &p)) {
			unit_fail(__FILE__, __LINE__, "operation %u of seed 6", i);
			break;
		}
	for (unsigned i = 0; i < TABLES; i++)
		for (unsigned k = 0; k < KEYS; k++)
			if (!same(&models[i], &models[i].rows[k], find_one(models[i].table, models[i].rows[k].key, 0)))
				break;
	fixture_close(&f);
}
