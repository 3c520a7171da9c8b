/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * "starbench worker": pulls through libstar as a worker does, over the transport that the cluster's address names, and
 * checks every row against its first value.
 */
#include "app/starbench/worker.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/starbench/histogram.h"
#include "base/clock.h"
#include "base/prng.h"
#include "star.h"
#include "wire/frame.h"

enum { EXIT_USAGE = 2, DEPTH_MAX = 256, ROWS_MAX = 1 << 20, KEYS_MAX = 10 * 1000 * 1000, FILL_ROWS = 1024 };

#define DEADLINE_US UINT64_C(10000000)
#define GAP_NS 2000 /* an idle spin counts a longer time as a gap */

static const char usage[] = "usage: starbench worker --cluster ADDRESS [OPTION]...\n"
			    "Pulls random rows through libstar in a closed loop, one thread, and prints rate and "
			    "latency as one JSON object.\n"
			    "\n"
			    "  --cluster ADDRESS  as star_open takes it: tcp:HOST:PORT,... or dpdk:FILE\n"
			    "  --rows N           rows per pull, 1 to 1048576 [1]\n"
			    "  --depth N          pulls in flight, 1 to 256 [1]\n"
			    "  --keys N           keys to draw from, 1 to 10000000 [10000]\n"
			    "  --dim N            elements (float32) of a row, 1 to 4096 [16]\n"
			    "  --seconds S        how long to count [3]\n"
			    "  --warmup S         how long to run before counting [0.2]\n"
			    "  --seed N           of the keys [1]\n"
			    "  --view             read the rows in place, instead of copying them\n";

struct options {
	const char *cluster;
	double rows, depth, keys, dim, seconds, warmup_s, seed;
	bool view;
};

static const struct {
	const char *name;
	size_t offset;
	double least, most;
} numbers[] = {
	{ "rows", offsetof(struct options, rows), 1, ROWS_MAX },
	{ "depth", offsetof(struct options, depth), 1, DEPTH_MAX },
	{ "keys", offsetof(struct options, keys), 1, KEYS_MAX },
	{ "dim", offsetof(struct options, dim), 1, WIRE_DIM_MAX },
	{ "seconds", offsetof(struct options, seconds), 0.001, 86400 },
	{ "warmup", offsetof(struct options, warmup_s), 0, 86400 },
	{ "seed", offsetof(struct options, seed), 0, 9007199254740992.0 },
};
enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]), OPTION_CLUSTER = NUMBERS, OPTION_VIEW, OPTION_HELP };

/* A pull in progress. */
struct slot {
	struct star_op op;
	struct star_request *request; /* NULL if only one is in flight: it is executed synchronously */
	uint64_t *keys;
	float *values;
	struct star_view *view;
	uint64_t begun_ns;
};

struct worker {
	struct options o;
	struct star_cluster *cluster;
	struct star_table *table;
	float *first; /* by key: the first element of its row */
	struct slot slots[DEPTH_MAX];
	struct prng prng;
	struct clock clock;
	struct histogram latency;
	uint64_t pulls, errors;
	double seconds;
	struct star_error err;
};

static int wrong(struct worker *w, const char *what)
{
	w->errors++;
	return star_error_set(&w->err, -EPROTO, "%s", what);
}

static bool parse_worker_options(int argc, char **argv, struct options *o)
{
	struct option list[NUMBERS + 4] = { [OPTION_CLUSTER] = { "cluster", required_argument, NULL, OPTION_CLUSTER },
					    [OPTION_VIEW] = { "view", no_argument, NULL, OPTION_VIEW },
					    [OPTION_HELP] = { "help", no_argument, NULL, OPTION_HELP } };
	int id;

	for (int i = 0; i < NUMBERS; i++)
		list[i] = (struct option){ numbers[i].name, required_argument, NULL, i };
	while ((id = getopt_long(argc, argv, "", list, NULL)) != -1) {
		char *end;
		double value;

		if (id == '?' || id == OPTION_HELP)
			return false;
		if (id == OPTION_CLUSTER) {
			o->cluster = optarg;
			continue;
		}
		if (id == OPTION_VIEW) {
			o->view = true;
			continue;
		}
		value = strtod(optarg, &end);
		if (end == optarg || *end || !(value >= numbers[id].least && value <= numbers[id].most)) {
			fprintf(stderr, "starbench: --%s %s: a number from %.15g to %.15g is needed\n",
				numbers[id].name, optarg, numbers[id].least, numbers[id].most);
			return false;
		}
		memcpy((char *)o + numbers[id].offset, &value, sizeof(value));
	}
	return o->cluster && optind == argc;
}

/* Creates the rows, and keeps the first element of each. */
static int fill_slots(struct worker *w)
{
	const uint32_t count = (uint32_t)w->o.keys, dim = (uint32_t)w->o.dim;
	uint64_t keys[FILL_ROWS];
	float *rows = malloc(sizeof(*rows) * FILL_ROWS * dim);
	int status = rows ? 0 : wrong(w, "out of memory");

	for (uint32_t at = 0; at < count && status == 0; at += FILL_ROWS) {
		const uint32_t n = count - at < FILL_ROWS ? count - at : FILL_ROWS;

		for (uint32_t i = 0; i < n; i++)
			keys[i] = at + i;
		status = star_pull(w->table, keys, n, rows, 0, DEADLINE_US, &w->err);
		for (uint32_t i = 0; i < n && status == 0; i++)
			w->first[at + i] = rows[(size_t)i * dim];
	}
	free(rows);
	return status;
}

static int open_worker(struct worker *w)
{
	char name[64];
	const struct star_spec spec = {
		.name = name, .dim = (uint32_t)w->o.dim, .initializer = "uniform", .scale = 1, .optimizer = "sgd"
	};

	snprintf(name, sizeof(name), "starbench.worker.%u", spec.dim);
	prng_seed(&w->prng, (uint64_t)w->o.seed);
	w->cluster = star_open(w->o.cluster, DEADLINE_US, &w->err);
	if (!w->cluster)
		return w->err.code;
	w->table = star_table_create(w->cluster, &spec, DEADLINE_US, &w->err);
	if (!w->table)
		return w->err.code;
	w->first = calloc((size_t)w->o.keys, sizeof(*w->first));
	for (unsigned i = 0; i < (unsigned)w->o.depth; i++) {
		struct slot *s = &w->slots[i];

		s->keys = calloc((size_t)w->o.rows, sizeof(*s->keys));
		s->values = calloc((size_t)w->o.rows * spec.dim, sizeof(*s->values));
		if (!w->first || !s->keys || !s->values)
			return wrong(w, "out of memory");
		s->op = (struct star_op){ .kind = STAR_PULL,
					  .table = w->table,
					  .keys = s->keys,
					  .count = (uint32_t)w->o.rows,
					  .values = w->o.view ? NULL : s->values,
					  .view = w->o.view ? &s->view : NULL };
	}
	return fill_slots(w);
}

static void close_worker(struct worker *w)
{
	if (w->cluster)
		star_close(w->cluster);
	for (unsigned i = 0; i < DEPTH_MAX; i++) {
		free(w->slots[i].keys);
		free(w->slots[i].values);
	}
	free(w->first);
}

/* now_ns: read just before. */
static int begin_slot(struct worker *w, struct slot *s, uint64_t now_ns)
{
	for (uint32_t i = 0; i < s->op.count; i++)
		s->keys[i] = prng_below(&w->prng, (uint64_t)w->o.keys);
	/* With one in flight it is measured exactly from here on. Otherwise the reads of the clock, at 36 ns each,
	 * would be a tenth of the measured time. */
	s->begun_ns = w->o.depth == 1 ? clock_ns() : now_ns;
	if (w->o.depth == 1)
		return 0;
	s->request = star_execute_async(w->cluster, &s->op, 1, DEADLINE_US, NULL, NULL, &w->err);
	return s->request ? 0 : w->err.code;
}

/* The first element of a pulled row; if it cannot be read -2, which no row has. */
static float first_of(const struct slot *s, uint32_t i, uint32_t dim)
{
	float first;

	if (!s->view)
		return s->values[(size_t)i * dim];
	return star_view_copy(s->view, i * (uint64_t)dim * sizeof(first), sizeof(first), &first) == 0 ? first : -2;
}

static void drop_view(struct slot *s)
{
	star_view_release(s->view);
	s->view = NULL;
}

/* *now_ns: when it ended. */
static int end_slot(struct worker *w, struct slot *s, uint64_t counts_ns, uint64_t *now_ns)
{
	const uint32_t dim = (uint32_t)w->o.dim;
	const int status = s->request ? star_request_wait(s->request, &w->err)
				      : star_execute(w->cluster, &s->op, 1, DEADLINE_US, &w->err);

	s->request = NULL;
	if (status < 0) {
		w->errors++;
		return status;
	}
	*now_ns = w->o.depth == 1 ? clock_ns() : clock_read(&w->clock);
	if (*now_ns >= counts_ns) {
		histogram_record(&w->latency, *now_ns - s->begun_ns);
		w->pulls++;
	}
	for (uint32_t i = 0; i < s->op.count; i++)
		if (first_of(s, i, dim) != w->first[s->keys[i]])
			return wrong(w, "a pull returned a value other than the first one of that row");
	drop_view(s);
	return 0;
}

/* The slots in turn: waits for the oldest one, and starts it again. */
static int worker_loop(struct worker *w)
{
	const unsigned depth = (unsigned)w->o.depth;
	const uint64_t from = clock_ns() + (uint64_t)(w->o.warmup_s * 1e9),
		       until = from + (uint64_t)(w->o.seconds * 1e9);
	uint64_t now = clock_ns();
	int status = 0;

	for (unsigned i = 0; i < depth && status == 0; i++)
		status = begin_slot(w, &w->slots[i], now);
	for (unsigned i = 0; status == 0 && now < until; i = i + 1 == depth ? 0 : i + 1) {
		status = end_slot(w, &w->slots[i], from, &now);
		if (status == 0)
			status = begin_slot(w, &w->slots[i], now);
	}
	w->seconds = (double)(now - from) * 1e-9;
	for (unsigned i = 0; i < depth; i++) {
		if (w->slots[i].request)
			star_request_wait(w->slots[i].request, NULL);
		drop_view(&w->slots[i]);
	}
	return status;
}

/* The share of time that an idle spin on this core loses in gaps, which no program could have used. */
static double lost_share(void)
{
	const uint64_t begun = clock_ns(), until = begun + 200000000;
	uint64_t lost = 0, before = begun, now = begun;

	while (now < until) {
		now = clock_ns();
		if (now - before > GAP_NS)
			lost += now - before;
		before = now;
	}
	return (double)lost / (double)(now - begun);
}

static void print(const struct worker *w, double lost)
{
	const double bytes = w->o.rows * w->o.dim * sizeof(float) * (double)w->pulls;
	json_t *json =
		json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:f}", "rate", (double)w->pulls / w->seconds,
			  "mib_s", bytes / w->seconds / (1 << 20), "p50_us",
			  histogram_quantile(&w->latency, 0.5) * 1e-3, "p99_us",
			  histogram_quantile(&w->latency, 0.99) * 1e-3, "p999_us",
			  histogram_quantile(&w->latency, 0.999) * 1e-3, "max_us", (double)w->latency.max_ns * 1e-3,
			  "seconds", w->seconds, "errors", (json_int_t)w->errors, "lost_share", lost);

	json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(json);
}

int worker_main(int argc, char **argv)
{
	static struct worker w = {
		.o = { .rows = 1, .depth = 1, .keys = 10000, .dim = 16, .seconds = 3, .warmup_s = 0.2, .seed = 1 }
	};
	int status;

	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		fputs(usage, stdout);
		return EXIT_SUCCESS;
	}
	if (!parse_worker_options(argc, argv, &w.o)) {
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	status = open_worker(&w);
	if (status == 0)
		status = worker_loop(&w);
	if (w.pulls)
		print(&w, lost_share());
	if (status < 0)
		fprintf(stderr, "starbench: %s\n", w.err.text);
	close_worker(&w);
	return status < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
