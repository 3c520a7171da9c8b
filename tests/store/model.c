/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random operations on a store and on a plain array of rows in float64, compared after each. The formulas, the filters
 * and the bookkeeping stand here once more, in the plainest way. Which row makes room for another is the store's
 * choice: the model looks which one went, and judges it. Rows of narrow types are compared to within one rounding, then
 * taken over.
 */
#include "tests/store/cases.h"

#include <errno.h>
#include <stdlib.h>

#include "base/prng.h"

enum { KEYS = 600, DIM = 6, OPERATIONS = 2500, BATCH_MAX = 150 };

struct model_row {
	uint64_t key;
	bool made;
	uint32_t waiting; /* pulls and pushes before its admission */
	uint32_t updates, version;
	uint64_t used, seen; /* operation; training step */
	uint64_t frequency;
	double values[DIM], m[DIM], v[DIM];
};

struct model {
	struct store_table *table;
	const struct object_spec *spec;
	struct store_push *push;
	struct prng prng;
	uint64_t operation, step, pushes, unadmitted, nonfinite, rows;
	double worth_gone, worth_blind;
	struct model_row rows_all[KEYS];
};

static const struct profile {
	const char *name;
	unsigned dtype, gradients, optimizer;
	const char *options;
} profiles[] = {
	{ "plain sgd", STAR_FLOAT32, STAR_FLOAT32, OPTIM_SGD, "" },
	{ "plain adagrad", STAR_FLOAT32, STAR_FLOAT32, OPTIM_ADAGRAD, "" },
	{ "plain adam", STAR_FLOAT32, STAR_FLOAT32, OPTIM_ADAM, "initializer=truncated_normal" },
	{ "float64 adam", STAR_FLOAT64, STAR_FLOAT64, OPTIM_ADAM, "versions=1" },
	{ "float64, float16 gradients", STAR_FLOAT64, STAR_FLOAT16, OPTIM_ADAGRAD, "nonfinite=clip" },
	{ "float16", STAR_FLOAT16, STAR_FLOAT32, OPTIM_SGD, "versions=1" },
	{ "bfloat16 stochastic", STAR_BFLOAT16, STAR_BFLOAT16, OPTIM_ADAGRAD, "stochastic=1" },
	{ "scaled_int8", STAR_SCALED_INT8, STAR_SCALED_INT8, OPTIM_ADAM, "" },
	{ "scaled_int8 master", STAR_SCALED_INT8, STAR_FLOAT32, OPTIM_ADAM, "master=1, versions=1" },
	{ "counter", STAR_FLOAT32, STAR_FLOAT32, OPTIM_ADAGRAD, "filter=counter, filter_frequency=3, filter_value=7" },
	{ "counter, aging", STAR_FLOAT32, STAR_FLOAT32, OPTIM_SGD,
	  "filter=counter, filter_frequency=4, steps_to_live=10" },
	{ "bloom", STAR_FLOAT16, STAR_FLOAT32, OPTIM_SGD,
	  "filter=bloom, filter_frequency=3, filter_keys=100000, filter_error=1e-6, filter_value=-2" },
	{ "bounded", STAR_FLOAT32, STAR_FLOAT32, OPTIM_ADAGRAD, "rows_max=200" },
	{ "lru", STAR_FLOAT32, STAR_FLOAT32, OPTIM_ADAGRAD, "rows_max=200, full=evict_lru, versions=1" },
	{ "lfu", STAR_FLOAT64, STAR_FLOAT32, OPTIM_SGD, "rows_max=200, full=evict_lfu, versions=1" },
	{ "lru, counter", STAR_FLOAT32, STAR_FLOAT32, OPTIM_ADAM,
	  "rows_max=200, full=evict_lru, filter=counter, filter_frequency=2, steps_to_live=20" },
	{ "aging", STAR_BFLOAT16, STAR_FLOAT32, OPTIM_SGD, "steps_to_live=12, versions=1" },
	{ "weighing", STAR_FLOAT32, STAR_FLOAT32, OPTIM_SGD, "l2_threshold=0.6" },
	{ "scheduled", STAR_FLOAT32, STAR_FLOAT32, OPTIM_SGD,
	  "schedule=exponential, schedule_steps=50, schedule_rate=0.9, warmup_steps=20, staleness=1" },
	{ "clipped", STAR_FLOAT32, STAR_FLOAT32, OPTIM_ADAGRAD, "nonfinite=clip, clip_value=0.5" },
};

/* What one rounding to the stored type may change in a row. */
static double tolerance(const struct model *m, const double *values)
{
	double most = 0;

	for (unsigned e = 0; e < DIM; e++)
		most = fmax(most, fabs(values[e]));
	switch (m->spec->master ? STAR_FLOAT32 : m->spec->dtype) {
	case STAR_FLOAT64:
		return 1e-11 * (1 + most);
	case STAR_FLOAT16:
		return 0x1p-11 * most + 1e-6;
	case STAR_BFLOAT16: /* stochastic: up to a whole unit */
		return 0x1p-7 * most + 1e-6;
	case STAR_SCALED_INT8:
		return most / 127 / 2 * 1.01 + 1e-6;
	}
	return 3e-6 * (1 + most);
}

static void read_doubles(const struct model *m, store_row row, uint64_t key, double values[DIM])
{
	store_read(m->table, row, key, STAR_FLOAT64, values);
}

static bool filtered(const struct model *m)
{
	return m->spec->filter != FILTER_NONE;
}

static bool evicts(const struct model *m)
{
	return m->spec->full != FULL_REFUSE;
}

/* Compares a row, and takes over what rounding made of it. */
static bool same(struct model *m, struct model_row *r, store_row row)
{
	const uint32_t version = store_version(m->table, row);
	const void *slots = row < STORE_UNADMITTED ? store_slots(m->table, row) : NULL;
	double values[DIM], most;

	read_doubles(m, row, r->key, values);
	if (!r->made) {
		for (unsigned e = 0; filtered(m) && e < DIM; e++)
			if (!CHECK_NEAR(values[e], m->spec->filter_value, 0))
				return false;
		return CHECK_UINT(row, filtered(m) ? STORE_UNADMITTED : STORE_NO_ROW) && CHECK_UINT(version, 0);
	}
	if (!CHECK(row < STORE_UNADMITTED))
		return false;
	if ((m->spec->versions && !CHECK(r->version ? version == r->version : version > 0)) ||
	    (!m->spec->versions && !CHECK_UINT(version, 0)))
		return false;
	r->version = version;
	most = tolerance(m, r->values);
	for (unsigned e = 0; e < DIM; e++) {
		if (!CHECK_NEAR(values[e], r->values[e], most))
			return false;
		r->values[e] = values[e];
		for (unsigned s = 0; slots && s < (m->spec->optim.kind == OPTIM_ADAM ? 2 : 1); s++) {
			double *mine = s == (m->spec->optim.kind == OPTIM_ADAM) ? &r->v[e] : &r->m[e];
			const double slot = m->spec->dtype == STAR_FLOAT64 ? ((const double *)slots)[s * DIM + e]
									   : ((const float *)slots)[s * DIM + e];

			if (!CHECK_NEAR(slot, *mine, 2e-6 * (1 + fabs(*mine))))
				return false;
			*mine = slot;
		}
	}
	return true;
}

static void make(struct model *m, struct model_row *r)
{
	const unsigned dtype = m->spec->master ? STAR_FLOAT32 : m->spec->dtype;
	float initial[DIM], scratch[DIM];
	double stored[DIM];

	*r = (struct model_row){
		.key = r->key, .made = true, .frequency = r->waiting, .used = r->used, .seen = r->seen
	};
	store_initial(m->table, r->key, initial);
	tensor_convert_row(stored, dtype, initial, STAR_FLOAT32, DIM, scratch);
	tensor_convert_row(r->values, STAR_FLOAT64, stored, dtype, DIM, scratch);
	for (unsigned e = 0; e < DIM; e++)
		r->v[e] = m->spec->optim.initial_accumulator;
	m->rows++;
}

static void unmake(struct model *m, struct model_row *r)
{
	/* A Bloom filter does not forget. */
	*r = (struct model_row){ .key = r->key,
				 .waiting = m->spec->filter == FILTER_BLOOM ? m->spec->filter_frequency : 0 };
	m->rows--;
}

/* A pull or push of a key: true if it has a row afterwards, or ought to. */
static bool visit(struct model *m, struct model_row *r, uint64_t step)
{
	if (step > m->step)
		m->step = step;
	r->used = m->operation;
	if (m->step)
		r->seen = m->step;
	if (!r->made) {
		if (filtered(m) && ++r->waiting < m->spec->filter_frequency) {
			m->unadmitted++;
			return false;
		}
		if (m->spec->rows_max && m->rows == m->spec->rows_max && !evicts(m))
			return false;
		if (filtered(m) && m->spec->filter == FILTER_COUNTER)
			r->waiting--;
		make(m, r);
	}
	r->frequency++;
	return true;
}

/* Rows that the store has chosen to evict: none of this operation. Adds up how old they were (LRU) or how often used
 * (LFU), and what as many rows picked blindly would have been. */
static bool judge_evictions(struct model *m, uint64_t evicted)
{
	double worth_all = 0;
	uint64_t gone = 0, all = 0;

	for (unsigned k = 0; k < KEYS && evicts(m); k++) {
		struct model_row *r = &m->rows_all[k];
		const double w =
			m->spec->full == FULL_EVICT_LFU ? (double)r->frequency : (double)(m->operation - r->used);
		const bool is_gone = r->made && find_one(m->table, r->key, STORE_LOOK) >= STORE_UNADMITTED;

		if (is_gone && !CHECK(r->used < m->operation))
			return false;
		if (r->made && r->used < m->operation) {
			worth_all += w;
			all++;
		}
		if (is_gone) {
			m->worth_gone += w;
			gone++;
			unmake(m, r);
		}
	}
	m->worth_blind += all ? (double)gone * worth_all / (double)all : 0;
	return CHECK_UINT(gone, evicted);
}

static void apply(const struct model *m, struct model_row *r, const double *g, double rate)
{
	const struct optim_options *o = &m->spec->optim;

	r->updates++;
	r->version += r->version != 0;
	for (unsigned e = 0; e < DIM; e++) {
		const double c = o->clip_value > 0 ? fmax(-o->clip_value, fmin(o->clip_value, g[e])) : g[e];

		if (o->kind == OPTIM_SGD) {
			r->values[e] -= rate * c;
		} else if (o->kind == OPTIM_ADAGRAD) {
			r->v[e] += c * c;
			r->values[e] -= rate * c / (sqrt(r->v[e]) + o->epsilon);
		} else {
			r->m[e] = o->beta1 * r->m[e] + (1 - (double)o->beta1) * c;
			r->v[e] = o->beta2 * r->v[e] + (1 - (double)o->beta2) * c * c;
			r->values[e] -= rate * r->m[e] / (1 - pow(o->beta1, r->updates)) /
					(sqrt(r->v[e] / (1 - pow(o->beta2, r->updates))) + o->epsilon);
		}
	}
}

static double rate_of(const struct model *m, double rate, uint64_t step, uint64_t version)
{
	const struct object_spec *s = m->spec;
	const uint64_t t = (step ? step : m->pushes + 1) - 1;

	if (t < s->warmup_steps)
		rate *= (double)(t + 1) / (double)s->warmup_steps;
	else if (s->schedule == SCHEDULE_EXPONENTIAL)
		rate *= pow(s->schedule_rate, (double)(t - s->warmup_steps) / (double)s->schedule_steps);
	return s->staleness && version && m->pushes > version ? rate / (double)(m->pushes - version) : rate;
}

struct batch {
	unsigned n;
	struct model_row *rows[BATCH_MAX];
	uint64_t keys[BATCH_MAX];
	bool admitted[BATCH_MAX];
	double gradients[BATCH_MAX][DIM];
	uint64_t wire[BATCH_MAX][DIM]; /* rows of the gradients' type */
	size_t stride;
};

/* Keys, duplicates among them, and gradients as they read after the rounding to their type. */
static void draw(struct model *m, const struct profile *profile, struct batch *b, unsigned most)
{
	const unsigned range = 1 + prng_below(&m->prng, KEYS);
	float scratch[DIM];

	b->n = 1 + prng_below(&m->prng, most);
	b->stride = sizeof(b->wire[0]);
	for (unsigned i = 0; i < b->n; i++) {
		double g[DIM];

		b->rows[i] = &m->rows_all[prng_below(&m->prng, range)];
		b->keys[i] = b->rows[i]->key;
		for (unsigned e = 0; e < DIM; e++)
			g[e] = 2 * prng_unit(&m->prng) - 1;
		if (m->spec->nonfinite == NONFINITE_CLIP && prng_below(&m->prng, 20) == 0)
			g[prng_below(&m->prng, DIM)] = NAN;
		tensor_convert_row(b->wire[i], profile->gradients, g, STAR_FLOAT64, DIM, scratch);
		tensor_convert_row(b->gradients[i], STAR_FLOAT64, b->wire[i], profile->gradients, DIM, scratch);
	}
}

static bool bookkeeping(const struct model *m)
{
	const struct store_stats *stats = store_table_stats(m->table);

	return CHECK_UINT(stats->rows, m->rows) && CHECK_UINT(stats->unadmitted, m->unadmitted) &&
	       CHECK_UINT(stats->pushes, m->pushes) && CHECK_UINT(stats->nonfinite, m->nonfinite) &&
	       CHECK_UINT(stats->created - stats->deleted - stats->evicted, m->rows);
}

static bool compare(struct model *m, const struct batch *b)
{
	store_row rows[STORE_BATCH];

	for (unsigned i = 0; i < b->n; i += STORE_BATCH) {
		const unsigned n = b->n - i < STORE_BATCH ? b->n - i : STORE_BATCH;

		look_up(m->table, b->keys + i, n, rows);
		for (unsigned j = 0; j < n; j++)
			if (!same(m, b->rows[i + j], rows[j]))
				return false;
	}
	return true;
}

static bool pull(struct model *m, const struct profile *profile, struct batch *b, uint64_t step)
{
	const uint64_t evicted = store_table_stats(m->table)->evicted;
	store_row rows[STORE_BATCH];
	unsigned refused = 0;

	draw(m, profile, b, STORE_BATCH);
	for (unsigned i = 0; i < b->n; i++) {
		const uint64_t unadmitted = m->unadmitted;

		refused += !visit(m, b->rows[i], step) && m->unadmitted == unadmitted;
	}
	if (!CHECK_UINT(store_find(m->table, b->keys, b->n, STORE_PULL, step, rows), refused))
		return false;
	return judge_evictions(m, store_table_stats(m->table)->evicted - evicted);
}

/* Sums the gradients of each key over the batch, and applies them once. */
static void push_plainly(struct model *m, const struct batch *b, double rate)
{
	for (unsigned i = 0; i < b->n; i++) {
		double sum[DIM] = { 0 };
		bool seen = false;

		for (unsigned j = 0; j < i; j++)
			seen |= b->keys[j] == b->keys[i] && b->admitted[j];
		if (seen || !b->admitted[i])
			continue;
		for (unsigned j = i; j < b->n; j++) {
			bool finite = true;

			if (b->keys[j] != b->keys[i] || !b->admitted[j])
				continue;
			for (unsigned e = 0; e < DIM; e++) {
				finite &= isfinite(b->gradients[j][e]) != 0;
				sum[e] += isfinite(b->gradients[j][e]) ? b->gradients[j][e] : 0;
			}
			m->nonfinite += !finite;
		}
		apply(m, b->rows[i], sum, rate);
	}
}

static bool push(struct model *m, const struct profile *profile, struct batch *b, uint64_t step)
{
	const uint64_t version = prng_below(&m->prng, 2) ? m->pushes : 1;
	const unsigned slice = 1 + prng_below(&m->prng, STORE_BATCH);
	const float rate = prng_below(&m->prng, 2) ? 0 : 0.25f;
	bool refused = false;
	int result = 0;

	draw(m, profile, b, BATCH_MAX);
	store_push_begin(m->push);
	store_push_op(m->push, m->table, b->n);
	for (unsigned i = 0; i < b->n && !result; i += slice) {
		const uint64_t evicted = store_table_stats(m->table)->evicted;
		const unsigned n = b->n - i < slice ? b->n - i : slice;

		for (unsigned j = i; j < i + n; j++) {
			const uint64_t unadmitted = m->unadmitted;

			b->admitted[j] = visit(m, b->rows[j], step);
			refused |= !b->admitted[j] && m->unadmitted == unadmitted;
		}
		result = store_push_keys(m->push, m->table, b->keys + i, n, step);
		/* The rows of earlier slices are still there: the push holds them. */
		if (!CHECK_INT(result, refused ? -ENOSPC : 0) ||
		    !judge_evictions(m, store_table_stats(m->table)->evicted - evicted))
			return false;
	}
	if (refused) {
		store_push_begin(m->push);
		return true;
	}
	if (store_push_needs_look(m->table) &&
	    !CHECK_INT(look_at(m->push, m->table, b->wire, profile->gradients, b->stride, b->n, slice), 0))
		return false;
	add_rows(m->push, m->table, b->wire, profile->gradients, b->stride, b->n, slice,
		 &(struct store_push_step){ .has_rate = rate != 0,
					    .has_version = version != 0,
					    .rate = rate,
					    .step = step,
					    .version = version });
	push_plainly(m, b, rate_of(m, rate == 0 ? m->spec->optim.rate : rate, step, version));
	m->pushes++;
	return true;
}

static bool delete (struct model *m, const struct profile *profile, struct batch *b)
{
	unsigned deleted = 0;

	draw(m, profile, b, 20);
	for (unsigned i = 0; i < b->n; i++)
		if (b->rows[i]->made) {
			unmake(m, b->rows[i]);
			deleted++;
		}
	return CHECK_UINT(store_delete(m->table, b->keys, b->n), deleted);
}

/* A whole pass: afterwards no row is there that is too old or too light. */
static bool sweep(struct model *m, struct store *store)
{
	const uint64_t live = m->spec->steps_to_live;
	unsigned evicted = 0, expected = 0;

	for (unsigned k = 0; k < KEYS; k++) {
		struct model_row *r = &m->rows_all[k];
		const bool old = live && r->seen && m->step - r->seen > live;
		double half = 0;

		for (unsigned e = 0; e < DIM; e++)
			half += r->values[e] * r->values[e] / 2;
		if (r->made && (old || half < m->spec->l2_threshold)) {
			unmake(m, r);
			expected++;
		} else if (old && m->spec->filter == FILTER_COUNTER) {
			r->waiting = 0;
		}
	}
	store_sweep_begin(m->table);
	for (unsigned slices = 0; store_sweep_left(m->table) && CHECK(slices < 10000); slices++)
		evicted += store_sweep(store, 7);
	return CHECK_UINT(evicted, expected);
}

static bool operate(struct model *m, const struct profile *profile, struct store *store)
{
	static struct batch b;
	const unsigned kind = prng_below(&m->prng, 16);
	const uint64_t step = m->spec->steps_to_live || prng_below(&m->prng, 2) ? m->operation / 8 + 1 : 0;
	bool good;

	m->operation++;
	b.n = 0;
	if (kind < 7)
		good = push(m, profile, &b, step);
	else if (kind < 14)
		good = pull(m, profile, &b, step);
	else if (kind < 15)
		good = delete (m, profile, &b);
	else
		good = sweep(m, store);
	if (b.n == 0) /* another look, which counts nothing */
		draw(m, profile, &b, BATCH_MAX);
	return good && compare(m, &b) && bookkeeping(m);
}

void random_operations_follow_the_model(void)
{
	static struct model m;

	for (unsigned i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++) {
		const struct profile *profile = &profiles[i];
		struct fixture f = fixture_open(4 << 20);

		memset(&m, 0, sizeof(m));
		prng_seed(&m.prng, 100 + i);
		m.table = table_with(&f, "t", DIM, profile->optimizer, profile->dtype, profile->options);
		m.spec = store_table_spec(m.table);
		m.push = open_push(BATCH_MAX, BATCH_MAX * DIM * sizeof(double));
		for (uint64_t k = 0; k < KEYS; k++)
			m.rows_all[k].key = k < 100 ? k : k < 200 ? UINT64_MAX - (k - 100) : prng_next(&m.prng);
		for (unsigned operation = 0; operation < OPERATIONS; operation++)
			if (!operate(&m, profile, f.store)) {
				unit_fail(__FILE__, __LINE__, "%s: operation %u of seed %u", profile->name, operation,
					  100 + i);
				break;
			}
		for (unsigned k = 0; k < KEYS; k++)
			if (!same(&m, &m.rows_all[k], find_one(m.table, m.rows_all[k].key, STORE_LOOK)))
				break;
		if (m.spec->full == FULL_EVICT_LRU)
			CHECK(m.worth_gone > 1.5 * m.worth_blind && m.worth_blind > 0);
		if (m.spec->full == FULL_EVICT_LFU)
			CHECK(m.worth_gone < 0.5 * m.worth_blind && m.worth_gone > 0);
		store_push_destroy(m.push);
		fixture_close(&f);
	}
}
