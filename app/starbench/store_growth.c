/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table that grows from nothing: what new rows cost at first and at last, how long a pull takes meanwhile, and what memory
 * takes beside the values.
 *
 * The last rows of a large table miss the caches more than its first ones did, whatever holds them. So they are compared with
 * the last rows of a hundred small tables that grow side by side and are as large together.
 */
#include "app/starbench/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	WINDOW_SHARE = 50, /* of the rows: first and last */
	TABLES = 50,
	WARM_UP = 4096,	      /* pulls before the spin's length is known */
	SMALL_TABLE = 200000, /* rows from which on memory a row means something */
};

struct growth {
	struct store_bench b;
	struct histogram pulls, spins;
	double first_ns, last_ns, side_by_side_ns; /* a row */
	double extra_most, extra_least;		   /* bytes a row beside the values */
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

/* As long as a pull takes mostly, doing nothing: what is longer is the machine's doing. */
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

static void grow(struct growth *g)
{
	const uint64_t rows = g->b.options->rows, window = rows / WINDOW_SHARE;
	uint64_t spin_ns = 0, pulls = 0;

	for (uint64_t at = 0; at < rows; at += STORE_BATCH, pulls++) {
		const uint64_t ns = time_pull(g->b.table, at, STORE_BATCH);

		histogram_record(&g->pulls, ns);
		if (at < window)
			g->first_ns += (double)ns / (double)window;
		if (at >= rows - window)
			g->last_ns += (double)ns / (double)window;
		note_memory(g);
		if (pulls == WARM_UP)
			spin_ns = (uint64_t)histogram_quantile(&g->pulls, 0.5);
		if (spin_ns)
			histogram_record(&g->spins, time_spin(spin_ns));
	}
}

/* Tables that are as large together: their last rows, as many as the large table's last window has. */
static int grow_side_by_side(struct growth *g, struct star_error *err)
{
	const uint64_t rows = g->b.options->rows / TABLES, window = rows / WINDOW_SHARE;
	struct store_table *tables[TABLES];

	for (unsigned t = 0; t < TABLES; t++) {
		char name[16];

		snprintf(name, sizeof(name), "table-%u", t);
		tables[t] = store_bench_table(&g->b, name, err);
		if (!tables[t])
			return err->code;
	}
	for (uint64_t at = 0; at < rows; at += STORE_BATCH)
		for (unsigned t = 0; t < TABLES; t++) {
			const uint64_t ns = time_pull(tables[t], t * rows + at, STORE_BATCH);

			if (at >= rows - window)
				g->side_by_side_ns += (double)ns / (double)(window * TABLES);
		}
	return 0;
}

static void report(const struct growth *g, json_t *result)
{
	const double gap_us = (histogram_quantile(&g->spins, 0.9999) - histogram_quantile(&g->spins, 0.5)) * 1e-3;
	const double pull_us = histogram_quantile(&g->pulls, 0.9999) * 1e-3;

	json_object_update_new(result, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I}", "pull_median_us",
						 histogram_quantile(&g->pulls, 0.5) * 1e-3, "pull_9999_us", pull_us,
						 "gap_9999_us", gap_us, "pause_us", pull_us - gap_us, "pull_longest_us",
						 (double)g->pulls.max_ns * 1e-3, "extra_most", g->extra_most,
						 "extra_least", g->extra_least, "moved_max",
						 (json_int_t)store_table_stats(g->b.table)->moved_max));
	store_bench_side(result, "first", &g->first_ns, 1);
	store_bench_side(result, "last", &g->last_ns, 1);
}

int store_bench_growth(const struct store_options *options, json_t *result, struct star_error *err)
{
	const uint64_t bytes = store_bench_bytes(options);
	struct growth *g = calloc(1, sizeof(*g));
	int outcome;

	if (!g)
		return star_error_set(err, -ENOMEM, "out of memory");
	outcome = store_bench_open(&g->b, options, bytes, err);
	if (!outcome) {
		g->b.table = store_bench_table(&g->b, "growth", err);
		outcome = g->b.table ? 0 : err->code;
	}
	if (!outcome) {
		grow(g);
		report(g, result);
		json_object_set_new(result, "memory", json_string(g->b.memory_kind));
		if (store_table_stats(g->b.table)->refused)
			outcome = star_error_set(err, -ENOMEM, "the store is full with %llu rows",
						 (unsigned long long)store_table_stats(g->b.table)->rows);
	}
	store_bench_close(&g->b);
	/* The other one in memory of its own: so both begin with what nobody has touched. */
	if (!outcome)
		outcome = store_bench_open(&g->b, options, bytes, err);
	if (!outcome) {
		outcome = grow_side_by_side(g, err);
		store_bench_side(result, "side by side", &g->side_by_side_ns, 1);
		store_bench_close(&g->b);
	}
	free(g);
	return outcome;
}
