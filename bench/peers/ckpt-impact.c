/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a checkpoint costs the requests that are served meanwhile: the reactor's own time for a pull and a push of one
 * row, from receive burst to transmit burst, in turn while there is none and none to go on from ("none"), while what
 * changes is noted for the next delta ("noted"), and while a full one is written ("saving"). Prints a JSON object.
 *
 *   ckpt-impact DIRECTORY ROUNDS REQUESTS
 */
#include <jansson.h>
#include <rte_cycles.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/peers/saves.h"

enum { WARM_UP = 5000, CACHED = 10000 };
enum state { NONE, NOTED, SAVING, STATES };
static const char *const state_names[STATES] = { "none", "noted", "saving" };

static struct {
	struct appliance appliance;
	struct saves saves;
	uint64_t requests;
	bool counting;
	struct histogram cycles;
	double ns; /* of a cycle */
	uint64_t saving_ns, saving_slices;
} b;

static void turned(struct appliance *a, unsigned received, const uint64_t at[APPLIANCE_MOMENTS])
{
	if (b.counting && received)
		histogram_record(&b.cycles, at[APPLIANCE_END] - at[APPLIANCE_RECEIVE]);
}

/* From whatever it is. */
static void enter(enum state state)
{
	if (b.saves.under_way)
		saves_give_up(&b.saves);
	saves_begin(&b.saves, STORE_SNAPSHOT_FULL);
	if (state == NONE) {
		saves_give_up(&b.saves);
	} else if (state == NOTED) {
		saves_finish(&b.saves);
		saves_keep(&b.saves);
	}
}

static void request(bool push, uint64_t rows)
{
	appliance_request(&b.appliance, push ? WIRE_PUSH : WIRE_PULL, prng_below(&b.appliance.prng, rows));
}

static void measure(enum state state, bool push, uint64_t rows)
{
	enter(state);
	for (unsigned i = 0; i < WARM_UP; i++)
		request(push, rows);
	for (uint64_t left = b.requests; left;) {
		const uint64_t begun = clock_ns(), before = b.saves.slices_cycles;

		b.counting = true;
		for (; left && (state != SAVING || saves_under_way(&b.saves)); left--)
			request(push, rows);
		b.counting = false;
		if (state == SAVING) {
			b.saving_ns += clock_ns() - begun;
			b.saving_slices += b.saves.slices_cycles - before;
		}
		if (left) /* it was written before there were enough */
			enter(SAVING);
	}
	if (service_snapshot_status(&b.saves.snapshot) < 0)
		appliance_fail("a checkpoint was lost");
}

static json_t *measure_kind(bool push, uint64_t rows, unsigned rounds)
{
	json_t *json = json_object();

	for (unsigned s = 0; s < STATES; s++)
		json_object_set_new(json, state_names[s], json_pack("{s:[], s:[]}", "median_ns", "p99_ns"));
	for (unsigned i = 0; i < rounds; i++)
		for (unsigned j = 0; j < STATES; j++) {
			const unsigned s = i % 2 ? STATES - 1 - j : j; /* who begins turns round */
			json_t *side = json_object_get(json, state_names[s]);

			memset(&b.cycles, 0, sizeof(b.cycles));
			measure(s, push, rows);
			json_array_append_new(json_object_get(side, "median_ns"),
					      json_real(histogram_quantile(&b.cycles, 0.5) * b.ns));
			json_array_append_new(json_object_get(side, "p99_ns"),
					      json_real(histogram_quantile(&b.cycles, 0.99) * b.ns));
		}
	return json;
}

static json_t *slices(void)
{
	const struct histogram *h = &b.saves.slices;

	return json_pack("{s:f, s:f, s:f, s:f}", "median_us", histogram_quantile(h, 0.5) * b.ns / 1000, "p99_us",
			 histogram_quantile(h, 0.99) * b.ns / 1000, "p999_us",
			 histogram_quantile(h, 0.999) * b.ns / 1000, "share_of_time",
			 (double)b.saving_slices * b.ns / (double)b.saving_ns);
}

int main(int argc, char **argv)
{
	const unsigned rounds = argc == 4 ? (unsigned)atoi(argv[2]) : 0;
	json_t *json;

	b.requests = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;
	if (rounds == 0 || b.requests == 0) {
		fprintf(stderr, "usage: ckpt-impact DIRECTORY ROUNDS REQUESTS\n");
		return 2;
	}
	b.appliance.turned = turned;
	saves_start(&b.saves, &b.appliance, argv[1]);
	b.ns = 1e9 / (double)rte_get_tsc_hz();
	for (uint64_t key = 0; key < APPLIANCE_ROWS_MAX; key++) /* every row is there */
		appliance_request(&b.appliance, WIRE_PULL, key);
	json = json_object();
	for (unsigned push = 0; push < 2; push++)
		for (unsigned cached = 0; cached < 2; cached++) {
			char name[32];

			snprintf(name, sizeof(name), "%s %s", push ? "push" : "pull", cached ? "cached" : "uncached");
			json_object_set_new(json, name,
					    measure_kind(push, cached ? CACHED : APPLIANCE_ROWS_MAX, rounds));
		}
	json = json_pack("{s:o, s:o, s:i, s:i, s:I}", "kinds", json, "slices", slices(), "rows", APPLIANCE_ROWS_MAX,
			 "cached_rows", CACHED, "bad", (json_int_t)b.appliance.bad);
	json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(json);
	return b.appliance.bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
