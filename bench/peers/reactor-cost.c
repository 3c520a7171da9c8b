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
#include "bench/peers/bare-loop.h"

enum {
	BURST = 16, /* requests that come together */
	TURN = 480, /* requests of one kind, before it is the other one's turn */
	WARM_UP = 20000,
	GAP_CYCLES = 4000, /* longer between two reads of the clock of an idle spin is the machine's doing */
};

enum stage { STAGE_RECEIVE, STAGE_EXECUTE, STAGE_TRANSMIT, STAGE_ALL, STAGE_BURST, STAGE_BARE, STAGES };
static const char *const stage_names[STAGES] = { "receive", "execute", "transmit", "all", "burst", "bare" };
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

/* The companion: a bare loop answers the same frames before the reactor does, which is as if they had just been
 * copied. Named for callgrind. */
static __rte_noinline void arrived(struct appliance *a, struct rte_mbuf *const *frames, unsigned n)
{
	const uint64_t begun = rte_rdtsc_precise();
	const unsigned answered = bare_loop_turn(frames, n);

	if (b.counting && answered == 1)
		histogram_record(&b.cycles[STAGE_BARE], rte_rdtsc_precise() - begun);
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

/* Of a request, `burst` at once: all the cycles of TURN of them, those of the server's turns, and those of both sides,
 * whose differences are as large, since the worker's side does the same; in turns with observe and without. What a side
 * finds in the caches when its turn comes does not count. */
static json_t *compare_observed(struct observe *observe, enum wire_op_kind kind, unsigned burst, uint64_t requests)
{
	enum { SERVER, BOTH, WAYS };
	struct histogram *cycles[2][WAYS] = { { &b.cycles[0], &b.cycles[1] }, { &b.cycles[2], &b.cycles[3] } };
	json_t *json;

	for (uint64_t turn = 0; turn < 2 * requests / TURN; turn++) {
		const unsigned side = turn % 2;
		uint64_t begun = 0;

		appliance_observe(&b.appliance, side ? observe : NULL);
		for (unsigned done = 0; done < TURN + TURN / 5; done += burst) {
			if (done >= TURN / 5 && !begun) {
				b.spent = 0;
				begun = rte_rdtsc_precise();
			}
			for (unsigned k = 0; k < burst; k++)
				appliance_ask(&b.appliance, kind, &(uint64_t){ prng_below(&b.appliance.prng, b.rows) },
					      1);
			appliance_await(&b.appliance);
		}
		histogram_record(cycles[side][SERVER], b.spent * 10 / TURN);
		histogram_record(cycles[side][BOTH], (rte_rdtsc_precise() - begun) * 10 / TURN);
	}
	appliance_observe(&b.appliance, NULL);
	json = json_pack("{s:f, s:f, s:f, s:f}", "without", histogram_quantile(cycles[0][SERVER], 0.5) / 10, "with",
			 histogram_quantile(cycles[1][SERVER], 0.5) / 10, "both_without",
			 histogram_quantile(cycles[0][BOTH], 0.5) / 10, "both_with",
			 histogram_quantile(cycles[1][BOTH], 0.5) / 10);
	memset(b.cycles, 0, sizeof(b.cycles));
	return json;
}

static struct observe *make_observe(void)
{
	struct star_error err;
	struct observe *observe = observe_create(rte_get_tsc_hz(), &err);

	if (!observe)
		appliance_fail(err.text);
	return observe;
}

static json_t *observed(uint64_t requests)
{
	struct observe *observe = make_observe();
	json_t *json = json_object();

	measure(WIRE_PULL, WARM_UP, false);
	json_object_set_new(json, "pull", compare_observed(observe, WIRE_PULL, 1, requests));
	json_object_set_new(json, "pull_burst", compare_observed(observe, WIRE_PULL, BURST, requests));
	json_object_set_new(json, "push", compare_observed(observe, WIRE_PUSH, 1, requests));
	json_object_set_new(json, "push_burst", compare_observed(observe, WIRE_PUSH, BURST, requests));
	json_object_set_new(json, "remembered", json_integer((json_int_t)observe->head));
	json_object_set_new(json, "tsc_hz", json_real((double)rte_get_tsc_hz()));
	observe_destroy(observe);
	return json;
}

/* In one way alone. */
static json_t *counted(uint64_t requests, bool with)
{
	if (with)
		appliance_observe(&b.appliance, make_observe());
	measure(WIRE_PULL, requests, false);
	return json_integer((json_int_t)requests);
}

/* For callgrind, which collects in counted_turn or in arrived: requests of one kind, as a node has them that remembers
 * them. */
static json_t *count(uint64_t requests, enum wire_op_kind kind)
{
	b.appliance.turned = NULL;
	appliance_observe(&b.appliance, make_observe());
	measure(kind, WARM_UP / 100, false);
	b.appliance.counted = true;
	b.appliance.arrived = arrived;
	measure(kind, requests, false);
	return json_integer((json_int_t)requests);
}

static json_t *stages(uint64_t requests, double ns)
{
	json_t *pull, *push;

	b.appliance.arrived = arrived;
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

static json_t *run(const char *mode, uint64_t requests)
{
	if (!mode)
		return stages(requests, 1e9 / (double)rte_get_tsc_hz());
	if (strcmp(mode, "programs") == 0)
		return programs(requests);
	if (strcmp(mode, "observe") == 0)
		return observed(requests);
	if (strcmp(mode, "observed") == 0 || strcmp(mode, "unobserved") == 0)
		return counted(requests, mode[0] == 'o');
	if (strcmp(mode, "pull") == 0 || strcmp(mode, "push") == 0)
		return count(requests, mode[2] == 'l' ? WIRE_PULL : WIRE_PUSH);
	return NULL;
}

/* Over what requests come: memif; or tcp, by a port as net_af_packet is. */
static bool set_transport(const char *name)
{
	b.appliance.memory = strcmp(name, "memif") == 0;
	b.appliance.stream = strcmp(name, "tcp") == 0;
	return b.appliance.memory || b.appliance.stream;
}

int main(int argc, char **argv)
{
	const uint64_t requests = argc >= 3 ? strtoull(argv[1], NULL, 10) : 0;
	json_t *json = NULL;

	b.rows = argc >= 3 ? strtoull(argv[2], NULL, 10) : 0;
	if (requests && b.rows && b.rows <= APPLIANCE_ROWS_MAX && argc <= 5 && (argc < 5 || set_transport(argv[4]))) {
		b.appliance.turned = turned;
		appliance_start(&b.appliance, NULL);
		bare_loop_start(appliance_pool(), b.rows, APPLIANCE_DIM);
		for (uint64_t key = 0; key < b.rows; key++) /* every row is there */
			appliance_request(&b.appliance, WIRE_PULL, key);
		json = run(argc >= 4 ? argv[3] : NULL, requests);
	}
	if (!json) {
		fprintf(stderr, "usage: reactor-cost REQUESTS ROWS "
				"[programs|observe|observed|unobserved|pull|push [memif|tcp]]\n"
				"of each kind, at random rows of a table; at most 1048576\n");
		return 2;
	}
	json_dumpf(json, stdout, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(json);
	return b.appliance.bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
