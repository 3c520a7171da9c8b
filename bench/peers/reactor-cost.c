/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a request costs the appliance from the receive burst to the transmit burst, by stage, in cycles: a reactor's
 * stack, sessions, service and shard in this process, fed with the frames of a worker's stack, one request at a time;
 * and what each costs when several come at once. The driver's own part is left out. With "programs": pulls, and runs of
 * a program that looks up the same rows, in turns.
 */
#include <jansson.h>
#include <rte_cycles.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/starbench/histogram.h"
#include "bench/peers/appliance.h"

enum {
	BURST = 16, /* requests that come together */
	TURN = 500, /* requests of one kind, before it is the other one's turn */
	WARM_UP = 20000,
	GAP_CYCLES = 4000, /* longer between two reads of the clock of an idle spin is the machine's doing */
};

enum stage { STAGE_RECEIVE, STAGE_EXECUTE, STAGE_TRANSMIT, STAGE_ALL, STAGE_BURST, STAGES };
static const char *const stage_names[STAGES] = { "receive", "execute", "transmit", "all", "burst" };
_Static_assert((int)STAGE_ALL == (int)APPLIANCE_END, "a stage begins at the moment of its number");

static struct {
	struct appliance appliance;
	uint64_t rows;
	bool counting;
	uint64_t spent; /* cycles of the server's turns */
	struct histogram cycles[STAGES];
} b;

static void turned(struct appliance *a, unsigned received, const uint64_t at[APPLIANCE_MOMENTS])
{
	const uint64_t all = at[APPLIANCE_END] - at[APPLIANCE_RECEIVE];

	b.spent += all;
	if (!b.counting || !received)
		return;
	for (unsigned s = 0; appliance_by_stage(a) && s < STAGE_ALL; s++)
		histogram_record(&b.cycles[s], at[s + 1] - at[s]);
	if (!appliance_by_stage(a))
		histogram_record(&b.cycles[STAGE_ALL], all);
}

static void measure(enum wire_op_kind kind, uint64_t requests, bool count)
{
	b.counting = count;
	for (uint64_t i = 0; i < requests; i++)
		appliance_request(&b.appliance, kind, prng_below(&b.appliance.prng, b.rows));
	b.counting = false;
}

/* A request's share of the turns that a burst takes. */
static void measure_bursts(enum wire_op_kind kind, uint64_t requests)
{
	for (uint64_t i = 0; i < requests; i += BURST) {
		for (unsigned k = 0; k < BURST; k++)
			appliance_ask(&b.appliance, kind, &(uint64_t){ prng_below(&b.appliance.prng, b.rows) }, 1);
		b.spent = 0;
		appliance_await(&b.appliance);
		histogram_record(&b.cycles[STAGE_BURST], b.spent / BURST);
	}
}

/* The longest 1 % of what an idle spin of this core sees between two reads of the clock, beyond the usual. */
static uint64_t gaps_share_ppm(void)
{
	const uint64_t begun = rte_rdtsc_precise(), until = begun + rte_get_tsc_hz() / 2;
	uint64_t before = begun, now = begun, gaps = 0, reads = 0;

	while (now < until) {
		now = rte_rdtsc_precise();
		gaps += now - before > GAP_CYCLES;
		reads++;
		before = now;
	}
	return gaps * 1000000 / reads;
}

static json_t *results(double ns)
{
	json_t *stages = json_object();

	for (unsigned s = 0; s < STAGES; s++) {
		const double median = histogram_quantile(&b.cycles[s], 0.5),
			     late = histogram_quantile(&b.cycles[s], 0.99);

		json_object_set_new(stages, stage_names[s],
				    json_pack("{s:f, s:f, s:f, s:f}", "median_cycles", median, "p99_cycles", late,
					      "median_ns", median * ns, "p99_ns", late * ns));
	}
	memset(b.cycles, 0, sizeof(b.cycles));
	return stages;
}

/* Of a request of n rows the cycles of all the server's turns that it takes; pulls and runs in turns. */
static json_t *compare(uint32_t n, uint64_t requests)
{
	static uint64_t keys[APPLIANCE_KEYS_MAX];
	struct histogram *sides[2] = { &b.cycles[0], &b.cycles[1] };
	json_t *json;

	for (uint64_t done = 0; done < 2 * requests; done++) {
		const unsigned side = done / TURN % 2;

		for (uint32_t i = 0; i < n; i++)
			keys[i] = prng_below(&b.appliance.prng, b.rows);
		b.spent = 0;
		appliance_ask(&b.appliance, side ? WIRE_RUN : WIRE_PULL, keys, n);
		appliance_await(&b.appliance);
		if (done >= 2 * TURN) /* the first ones warm up */
			histogram_record(sides[side], b.spent);
	}
	json = json_pack("{s:f, s:f}", "pull", histogram_quantile(sides[0], 0.5), "run",
			 histogram_quantile(sides[1], 0.5));
	memset(b.cycles, 0, sizeof(b.cycles));
	return json;
}

static json_t *programs(uint64_t requests)
{
	json_t *one, *many;

	measure(WIRE_PULL, WARM_UP, false);
	one = compare(1, requests);
	many = compare(APPLIANCE_KEYS_MAX, requests / APPLIANCE_KEYS_MAX + 3 * TURN);
	return json_pack("{s:o, s:o, s:i, s:I}", "one", one, "many", many, "rows", APPLIANCE_KEYS_MAX, "bad",
			 (json_int_t)b.appliance.bad);
}

static json_t *stages(uint64_t requests, double ns)
{
	json_t *pull, *push;

	measure(WIRE_PULL, WARM_UP, false);
	measure(WIRE_PULL, requests, true);
	measure_bursts(WIRE_PULL, requests);
	pull = results(ns);
	measure(WIRE_PUSH, WARM_UP, false);
	measure(WIRE_PUSH, requests, true);
	measure_bursts(WIRE_PUSH, requests);
	push = results(ns);
	return json_pack("{s:o, s:o, s:I, s:I, s:f}", "pull", pull, "push", push, "gaps_ppm",
			 (json_int_t)gaps_share_ppm(), "bad", (json_int_t)b.appliance.bad, "tsc_hz",
			 (double)rte_get_tsc_hz());
}

int main(int argc, char **argv)
{
	const uint64_t requests = argc >= 3 ? strtoull(argv[1], NULL, 10) : 0;
	const bool of_programs = argc == 4 && strcmp(argv[3], "programs") == 0;
	json_t *json;

	b.rows = argc >= 3 ? strtoull(argv[2], NULL, 10) : 0;
	if (requests == 0 || b.rows == 0 || b.rows > APPLIANCE_ROWS_MAX || argc > 3 + of_programs) {
		fprintf(stderr, "usage: reactor-cost REQUESTS ROWS [programs]\n"
				"of each kind, at random rows of a table; at most 1048576\n");
		return 2;
	}
	b.appliance.turned = turned;
	appliance_start(&b.appliance, NULL);
	for (uint64_t key = 0; key < b.rows; key++) /* every row is there */
		appliance_request(&b.appliance, WIRE_PULL, key);
	json = of_programs ? programs(requests) : stages(requests, 1e9 / (double)rte_get_tsc_hz());
	json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(json);
	return b.appliance.bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
