/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands come on standard input, a line each; each is answered by a line: a JSON object. What goes wrong ends the
 * program. */
#include "bench/peers/batches/batches.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/power_law.h"

enum { EXIT_USAGE = 2, START_STEPS = 2048 };

static const char usage_text[] =
	"usage: batches SIDE ADDRESS [--rows N] [--keys N] [--sets N] [--power S]\n"
	"SIDE is star, zmq, epoll, redis, grpc or grpc-stream; ADDRESS its HOST:PORT (star: a control address). Reads "
	"commands:\n"
	"  fill              gives all rows their first values\n"
	"  pull DEPTH        pulls each batch once, DEPTH of them in flight; checks a sum of each\n"
	"  push DEPTH        pushes to each batch once\n"
	"  check             pulls every row, and compares it bit by bit with what it must be\n";

void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("batches: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(EXIT_FAILURE);
}

static void *allocate(size_t count, size_t bytes)
{
	void *memory = calloc(count, bytes);

	if (!memory)
		die("no memory for %zu times %zu bytes", count, bytes);
	return memory;
}

static uint64_t key_of(uint32_t index)
{
	return hash_mix(index + UINT64_C(1));
}

static int by_key(const void *a, const void *b)
{
	const uint64_t i = key_of(*(const uint32_t *)a), j = key_of(*(const uint32_t *)b);

	return i < j ? -1 : i > j;
}

/* Batches: distinct rows each, drawn by the power law. */
static void make_sets(struct worker *w)
{
	uint32_t *last = allocate(w->rows, sizeof(*last)); /* the set that a row was drawn for last, from 1 */
	struct power_law law;
	struct prng prng;

	power_law_init(&law, w->power, w->rows);
	prng_seed(&prng, 1);
	for (uint32_t set = 0; set < w->sets; set++) {
		uint32_t *indices = w->indices + (size_t)set * w->keys;

		for (uint32_t n = 0; n < w->keys;) {
			const uint32_t index = power_law_draw(&law, &prng);

			if (last[index] == set + 1)
				continue;
			last[index] = set + 1;
			indices[n++] = index;
		}
		qsort(indices, w->keys, sizeof(*indices), by_key);
		for (uint32_t i = 0; i < w->keys; i++)
			w->key[(size_t)set * w->keys + i] = key_of(indices[i]);
	}
	free(last);
}

/* Which element of a row a set's sum is over. */
static uint32_t element_of(uint32_t set)
{
	return set % BATCH_DIM;
}

static void prepare_pull(struct worker *w)
{
	for (uint32_t set = 0; set < w->sets; set++) {
		w->expected[set] = 0;
		for (uint32_t i = 0; i < w->keys; i++)
			w->expected[set] +=
				(double)w->mirror[w->indices[(size_t)set * w->keys + i]].values[element_of(set)];
	}
}

/* Gradients are whole numbers from -8 to 7, others in each round. The mirror is what it will be after it. */
static void prepare_push(struct worker *w, struct prng *prng)
{
	for (size_t i = 0; i < (size_t)w->sets * w->keys; i++) {
		struct batch_row *row = &w->mirror[w->indices[i]], *payload = &w->payload[i];
		const uint64_t random = prng_next(prng);

		for (int e = 0; e < BATCH_DIM; e++) {
			const float gradient = (float)(random >> 4 * e & 15) - 8;

			row->values[e] -= RATE * gradient;
			payload->values[e] = w->side->sets ? row->values[e] : gradient;
		}
	}
}

static void check_sum(const struct worker *w, uint32_t set, const struct batch_row *rows)
{
	const uint32_t e = element_of(set);
	double sum = 0;

	for (uint32_t i = 0; i < w->keys; i++)
		sum += (double)rows[i].values[e];
	if (sum != w->expected[set])
		die("batch %u has a sum of %.10g, not %.10g", set, sum, w->expected[set]);
}

/* CPU time of this program, its libraries' threads included. */
static double cpu_s(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void run(struct worker *w, bool push, uint32_t depth)
{
	struct batch in_flight[DEPTH_MAX];
	uint64_t stamps[DEPTH_MAX], began, total_ns = 0, end;
	uint32_t begun = 0;
	double cpu;

	memset(&w->latency, 0, sizeof(w->latency));
	cpu = cpu_s();
	began = end = clock_ns();
	for (uint32_t ended = 0; ended < w->sets; ended++) {
		struct batch *b;

		for (; begun < w->sets && begun - ended < depth; begun++) {
			const size_t first = (size_t)begun * w->keys;

			b = &in_flight[begun % depth];
			*b = (struct batch){ .keys = w->key + first,
					     .payload = w->payload + first,
					     .results = w->results + (size_t)(begun % depth) * w->keys,
					     .count = w->keys,
					     .rate = RATE,
					     .push = push };
			stamps[begun % depth] = clock_ns();
			w->side->begin(b, depth);
		}
		b = &in_flight[ended % depth];
		w->side->end(b);
		end = clock_ns();
		histogram_record(&w->latency, end - stamps[ended % depth]);
		total_ns += end - stamps[ended % depth];
		if (!push)
			check_sum(w, ended, b->results);
	}
	printf("{\"seconds\": %.9f, \"rows_s\": %.1f, \"mean_us\": %.3f, \"p50_us\": %.3f, \"p99_us\": %.3f, "
	       "\"max_us\": %.3f, \"client_cpu_us\": %.3f}\n",
	       (double)(end - began) * 1e-9, (double)w->sets * w->keys * 1e9 / (double)(end - began),
	       (double)total_ns / w->sets * 1e-3, histogram_quantile(&w->latency, 0.5) * 1e-3,
	       histogram_quantile(&w->latency, 0.99) * 1e-3, (double)w->latency.max_ns * 1e-3,
	       (cpu_s() - cpu) * 1e6 / w->sets);
}

/* One batch of all rows after the other, one at a time. */
static void for_all(struct worker *w, void (*use)(struct worker *w, struct batch *b, uint32_t first))
{
	uint64_t *keys = allocate(w->keys, sizeof(*keys));
	struct batch_row *payload = allocate(w->keys, sizeof(*payload));

	for (uint32_t first = 0; first < w->rows; first += w->keys) {
		struct batch b = { .keys = keys,
				   .payload = payload,
				   .results = w->results,
				   .count = w->rows - first < w->keys ? w->rows - first : w->keys,
				   .rate = RATE };

		for (uint32_t i = 0; i < b.count; i++)
			keys[i] = key_of(first + i);
		use(w, &b, first);
	}
	free(keys);
	free(payload);
}

/* A row that is not there is zero: its first value is minus its first gradient. */
static void fill(struct worker *w, struct batch *b, uint32_t first)
{
	struct batch_row *payload = (struct batch_row *)(uintptr_t)b->payload;

	for (uint32_t i = 0; i < b->count; i++)
		for (int e = 0; e < BATCH_DIM; e++) {
			const uint64_t random = hash_mix((uint64_t)(first + i) * BATCH_DIM + (uint64_t)e);
			const float gradient = (float)(random % START_STEPS) - START_STEPS / 2;

			w->mirror[first + i].values[e] = -RATE * gradient;
			payload[i].values[e] = w->side->sets ? -RATE * gradient : gradient;
		}
	b->push = true;
	w->side->begin(b, 1);
	w->side->end(b);
}

static double sum_of_all;

static void check(struct worker *w, struct batch *b, uint32_t first)
{
	w->side->begin(b, 1);
	w->side->end(b);
	for (uint32_t i = 0; i < b->count; i++)
		for (int e = 0; e < BATCH_DIM; e++) {
			const float is = b->results[i].values[e], must = w->mirror[first + i].values[e];

			if (is != must)
				die("element %d of row %u is %.9g, not %.9g", e, first + i, (double)is, (double)must);
			sum_of_all += (double)is * (1 + e);
		}
}

static bool obey(struct worker *w, const char *line, struct prng *prng)
{
	unsigned depth;

	if (strcmp(line, "fill\n") == 0) {
		for_all(w, fill);
		puts("{}");
	} else if (strcmp(line, "check\n") == 0) {
		sum_of_all = 0;
		for_all(w, check);
		printf("{\"sum\": %.17g}\n", sum_of_all);
	} else if (sscanf(line, "pull %u", &depth) == 1 && depth >= 1 && depth <= DEPTH_MAX) {
		prepare_pull(w);
		run(w, false, depth);
	} else if (sscanf(line, "push %u", &depth) == 1 && depth >= 1 && depth <= DEPTH_MAX) {
		prepare_push(w, prng);
		run(w, true, depth);
	} else {
		return false;
	}
	fflush(stdout);
	return true;
}

static int misused(void)
{
	fputs(usage_text, stderr);
	return EXIT_USAGE;
}

static bool parse(struct worker *w, int argc, char **argv)
{
	static const struct side *const sides[] = { &side_star,	 &side_zmq,  &side_epoll,
						    &side_redis, &side_grpc, &side_grpc_stream };
	static const struct option options[] = { { "rows", required_argument, NULL, 'r' },
						 { "keys", required_argument, NULL, 'k' },
						 { "sets", required_argument, NULL, 's' },
						 { "power", required_argument, NULL, 'p' },
						 { NULL, 0, NULL, 0 } };
	int id;

	while ((id = getopt_long(argc, argv, "", options, NULL)) != -1) {
		const double value = optarg ? strtod(optarg, NULL) : 0;

		if (id == 'r' && value >= 1 && value <= ROWS_MAX)
			w->rows = (uint32_t)value;
		else if (id == 'k' && value >= 1 && value <= BATCH_KEYS_MAX)
			w->keys = (uint32_t)value;
		else if (id == 's' && value >= 1 && value <= SETS_MAX)
			w->sets = (uint32_t)value;
		else if (id == 'p' && value > 1 && value <= 10)
			w->power = value;
		else
			return false;
	}
	for (unsigned i = 0; optind + 2 == argc && i < sizeof(sides) / sizeof(sides[0]); i++)
		if (strcmp(argv[optind], sides[i]->name) == 0)
			w->side = sides[i];
	w->address = argv[optind + 1];
	return w->side && w->keys <= w->rows / 2; /* else the draws of distinct rows would take long */
}

int main(int argc, char **argv)
{
	static struct worker w = { .rows = 1000000, .keys = 2000, .sets = 512, .power = 1.2 };
	struct prng prng;
	char line[64];
	size_t rows;

	if (!parse(&w, argc, argv))
		return misused();
	rows = (size_t)w.sets * w.keys;
	w.mirror = allocate(w.rows, sizeof(*w.mirror));
	w.indices = allocate(rows, sizeof(*w.indices));
	w.key = allocate(rows, sizeof(*w.key));
	w.payload = allocate(rows, sizeof(*w.payload));
	w.expected = allocate(w.sets, sizeof(*w.expected));
	w.results = allocate((size_t)DEPTH_MAX * w.keys, sizeof(*w.results));
	memset(w.payload, 0, rows * sizeof(*w.payload)); /* there from now on */
	make_sets(&w);
	prng_seed(&prng, 2);
	w.side->open(&w);
	while (fgets(line, sizeof(line), stdin))
		if (!obey(&w, line, &prng))
			return misused();
	w.side->close();
	return EXIT_SUCCESS;
}
