/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table that grows from nothing: the cost of new rows at first and at the end, how long a pull takes meanwhile, and
 * how much memory is used in addition to the values.
 *
 * The last rows of a large table miss the caches more often than its first ones, in any data structure. So they are
 * compared with the last rows of 50 small tables that grow side by side and have the same total size: alternating with
 * the large one, pull by pull.
 *
 * The store's work in a pull is repeated exactly when a table grows from nothing again, with the same keys in the same
 * memory; interruptions by the machine occur elsewhere. So the time of a pull is the minimum of three growths, without
 * interruptions.
 */
#include "app/starbench/store.h"
#include "store/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	WINDOW_SHARE = 50, /* of the rows: first and last */
	TABLES = 50,
	GROWTHS = 3,
	WARM_UP = 4096,	      /* pulls after which the length of the spin is adjusted */
	SMALL_TABLE = 200000, /* number of rows from which on memory per row is meaningful */
};

struct growth {
	struct store_bench b, small;
	struct store_table *tables[TABLES];
	struct histogram pulls, spins, least_pulls;
	uint64_t *least_ns;				   /* for each pull, over the growths so far */
	double first_ns, last_ns, all_ns, side_by_side_ns; /* per row */
	double extra_most, extra_least;			   /* bytes per row in addition to the values */
};

/* One pull of new keys; its time. */
static uint64_t time_pull(struct store_table *table, uint64_t first, unsigned n)
{
	uint64_t keys[STORE_BATCH], begin;
	store_row rows[STORE_BATCH];

	for (unsigned i = 0; i < n; i++)
		keys[i] = store_bench_key(first + i);
	begin = clock_ns();
	store_find(table, keys, n, STORE_PULL, 0, rows);
	return clock_ns() - begin;
}

/* Spins for as long as most pulls take: more time than that is due to the machine. */
static uint64_t time_spin(uint64_t wanted)
{
	const uint64_t begin = clock_ns();
	uint64_t now = begin;

	while (now - begin < wanted)
		now = clock_ns();
	return now - begin;
}

static void note_memory(struct growth *g)
{
	const struct store_stats *stats = store_table_stats(g->b.table);
	const double extra = (double)stats->memory_bytes / (double)stats->rows - g->b.row_bytes;

	if (stats->rows < SMALL_TABLE)
		return;
	if (g->extra_most == 0 || extra > g->extra_most)
		g->extra_most = extra;
	if (g->extra_least == 0 || extra < g->extra_least)
		g->extra_least = extra;
}

/* The small tables, in memory of their own. */
static int open_small(struct growth *g, struct star_error *err)
{
	if (store_bench_open(&g->small, g->b.options, store_bench_bytes(g->b.options), err) < 0)
		return err->code;
	for (unsigned t = 0; t < TABLES; t++) {
		char name[16];

		snprintf(name, sizeof(name), "table-%u", t);
		g->tables[t] = store_bench_table(&g->small, name, err);
		if (!g->tables[t])
			return err->code;
	}
	return 0;
}

/* A pull of the large table and one of the same keys of a small one, alternately. */
static void grow_table(struct growth *g)
{
	const uint64_t rows = g->b.options->rows, window = rows / WINDOW_SHARE;
	uint64_t spin_ns = 0, pulls = 0;

	for (uint64_t at = 0; at < rows; at += STORE_BATCH, pulls++) {
		const uint64_t ns = time_pull(g->b.table, at, STORE_BATCH),
			       small_ns = time_pull(g->tables[pulls % TABLES], at, STORE_BATCH);

		histogram_record(&g->pulls, ns);
		g->least_ns[pulls] = ns;
		if (at < window)
			g->first_ns += (double)ns / (double)window;
		if (at >= rows - window) {
			g->last_ns += (double)ns / (double)window;
			g->side_by_side_ns += (double)small_ns / (double)window;
		}
		g->all_ns += (double)ns / (double)rows;
		note_memory(g);
		/* As long as pulls of a table of this size: longer ones meet more interruptions by the machine. */
		if (pulls % WARM_UP == WARM_UP - 1)
			spin_ns = (uint64_t)histogram_quantile(&g->pulls, 0.5);
		if (spin_ns)
			histogram_record(&g->spins, time_spin(spin_ns));
	}
}

/* Grows the large table from nothing again, in a new store in the same memory. */
static int grow_again(struct growth *g, struct star_error *err)
{
	const uint64_t rows = g->b.options->rows;

	store_destroy(g->b.store);
	g->b.store = store_create(g->b.memory, g->b.memory_bytes, err);
	g->b.table = g->b.store ? store_bench_table(&g->b, "growth", err) : NULL;
	if (!g->b.table)
		return err->code;
	for (uint64_t at = 0, pulls = 0; at < rows; at += STORE_BATCH, pulls++) {
		const uint64_t ns = time_pull(g->b.table, at, STORE_BATCH);

		if (ns < g->least_ns[pulls])
			g->least_ns[pulls] = ns;
	}
	return 0;
}

static int grow_all(struct growth *g, struct star_error *err)
{
	const uint64_t pulls = (g->b.options->rows + STORE_BATCH - 1) / STORE_BATCH;

	g->least_ns = calloc(pulls, sizeof(*g->least_ns));
	if (!g->least_ns)
		return star_error_set(err, -ENOMEM, "out of memory");
	grow_table(g);
	for (unsigned i = 1; i < GROWTHS; i++)
		if (grow_again(g, err) < 0)
			return err->code;
	for (uint64_t i = 0; i < pulls; i++)
		histogram_record(&g->least_pulls, g->least_ns[i]);
	return 0;
}

/* Bytes per row in addition to the values, in segments just before their splits. */
static double extra_split(const struct growth *g)
{
	const struct store_table *t = g->b.table;
	const double entries = (double)t->index.split_entries / t->index.splits;

	return t->pool.row_bytes - g->b.row_bytes + sizeof(struct index_segment) / entries;
}

static void report_growth(const struct growth *g, json_t *result)
{
	const double gap_us = (histogram_quantile(&g->spins, 0.9999) - histogram_quantile(&g->spins, 0.5)) * 1e-3;
	const double pull_us = histogram_quantile(&g->pulls, 0.9999) * 1e-3;

	json_object_update_new(result, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I}", "pull_median_us",
						 histogram_quantile(&g->pulls, 0.5) * 1e-3, "pull_9999_us", pull_us,
						 "gap_9999_us", gap_us, "pause_us",
						 histogram_quantile(&g->least_pulls, 0.9999) * 1e-3, "pull_longest_us",
						 (double)g->pulls.max_ns * 1e-3, "pause_longest_us",
						 (double)g->least_pulls.max_ns * 1e-3, "extra_most", g->extra_most,
						 "extra_least", g->extra_least, "extra_split", extra_split(g),
						 "moved_max", (json_int_t)store_table_stats(g->b.table)->moved_max));
	store_bench_side(result, "first", &g->first_ns, 1);
	store_bench_side(result, "last", &g->last_ns, 1);
	store_bench_side(result, "all", &g->all_ns, 1);
	store_bench_side(result, "side by side", &g->side_by_side_ns, 1);
}

int store_bench_growth(const struct store_options *options, json_t *result, struct star_error *err)
{
	struct growth *g = calloc(1, sizeof(*g));
	int outcome;

	if (!g)
		return star_error_set(err, -ENOMEM, "out of memory");
	outcome = store_bench_open(&g->b, options, store_bench_bytes(options), err);
	if (!outcome) {
		g->b.table = store_bench_table(&g->b, "growth", err);
		outcome = g->b.table ? open_small(g, err) : err->code;
	}
	if (!outcome)
		outcome = grow_all(g, err);
	if (!outcome) {
		report_growth(g, result);
		json_object_set_new(result, "memory", json_string(g->b.memory_kind));
		if (store_table_stats(g->b.table)->refused)
			outcome = star_error_set(err, -ENOMEM, "the store is full with %llu rows",
						 (unsigned long long)store_table_stats(g->b.table)->rows);
	}
	store_bench_close(&g->small);
	store_bench_close(&g->b);
	free(g->least_ns);
	free(g);
	return outcome;
}
