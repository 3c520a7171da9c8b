/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tickets and tags cost: the cycles of a reactor's turns for a pull of one row, as reactor-cost has them, without
 * keys, with tags, and sealed; of a request at a time, and of several at once; and what it takes to open a session and
 * have its first request answered. All three ways in turns in this process, with the same stack, service and rows.
 */
#include <jansson.h>
#include <rte_cycles.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/starbench/histogram.h"
#include "bench/peers/appliance.h"

enum {
	ROWS = 10000,
	BURST = 16,  /* requests that come together */
	TURN = 480,  /* requests by one way, before it is the next one's turn, */
	SETUPS = 48, /* or sessions */
	TURNS_LEAST = 8,
};

static const char *const way_names[APPLIANCE_WAYS] = {
	[APPLIANCE_OPEN] = "open", [APPLIANCE_CHECKED] = "checked", [APPLIANCE_SEALED] = "sealed"
};

static struct {
	struct appliance appliance;
	uint64_t spent; /* cycles of the server's turns */
	struct histogram server[APPLIANCE_WAYS], both[APPLIANCE_WAYS];
} b;

static void turned(struct appliance *a, unsigned received, const uint64_t at[APPLIANCE_MOMENTS])
{
	b.spent += at[APPLIANCE_END] - at[APPLIANCE_RECEIVE];
}

static void pull(unsigned burst)
{
	for (unsigned k = 0; k < burst; k++)
		appliance_ask(&b.appliance, WIRE_PULL, &(uint64_t){ prng_below(&b.appliance.prng, ROWS) }, 1);
	appliance_await(&b.appliance);
}

static void open_and_pull(unsigned burst)
{
	appliance_reopen(&b.appliance);
	pull(burst);
}

/* Of n things by each way in its turn: cycles of one, of the server's turns and of both sides. What a way finds in the
 * caches when its turn comes does not count. */
static json_t *compare(void (*what)(unsigned burst), unsigned burst, unsigned n, uint64_t turns)
{
	json_t *json = json_object();

	for (uint64_t turn = 0; turn < turns * APPLIANCE_WAYS; turn++) {
		const unsigned way = turn % APPLIANCE_WAYS;
		uint64_t begun = 0;

		appliance_use(&b.appliance, (enum appliance_way)way);
		for (unsigned done = 0; done < n + n / 4; done += burst) {
			if (done >= n / 4 && !begun) {
				b.spent = 0;
				begun = rte_rdtsc_precise();
			}
			what(burst);
		}
		histogram_record(&b.server[way], b.spent * 10 / n);
		histogram_record(&b.both[way], (rte_rdtsc_precise() - begun) * 10 / n);
	}
	for (unsigned way = 0; way < APPLIANCE_WAYS; way++)
		json_object_set_new(json, way_names[way],
				    json_pack("{s:f, s:f}", "server", histogram_quantile(&b.server[way], 0.5) / 10,
					      "both", histogram_quantile(&b.both[way], 0.5) / 10));
	memset(b.server, 0, sizeof(b.server));
	memset(b.both, 0, sizeof(b.both));
	return json;
}

static json_t *compare_all(uint64_t requests)
{
	const uint64_t turns = requests / TURN + TURNS_LEAST;
	json_t *one = compare(pull, 1, TURN, turns), *burst = compare(pull, BURST, TURN, turns),
	       *setup = compare(open_and_pull, 1, SETUPS, turns);

	return json_pack("{s:o, s:o, s:o, s:I, s:f}", "pull", one, "pull_burst", burst, "setup", setup, "bad",
			 (json_int_t)b.appliance.bad, "tsc_hz", (double)rte_get_tsc_hz());
}

/* By one way alone, for profilers: their instructions are those of server_turn. */
static json_t *counted(enum appliance_way way, uint64_t requests)
{
	appliance_use(&b.appliance, way);
	for (uint64_t i = 0; i < requests; i++)
		pull(1);
	return json_integer((json_int_t)requests);
}

int main(int argc, char **argv)
{
	const uint64_t requests = argc == 2 || argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
	unsigned way = 0;
	json_t *json;

	while (argc == 3 && way < APPLIANCE_WAYS && strcmp(argv[2], way_names[way]) != 0)
		way++;
	if (!requests || way == APPLIANCE_WAYS) {
		fprintf(stderr, "usage: secure-cost REQUESTS [open|checked|sealed]\n"
				"pulls of one row by all three ways in turns, or by one alone\n");
		return 2;
	}
	b.appliance.turned = turned;
	b.appliance.keyed = true;
	appliance_start(&b.appliance, NULL);
	for (uint64_t key = 0; key < ROWS; key++) /* every row is there */
		appliance_request(&b.appliance, WIRE_PULL, key);
	json = argc == 3 ? counted((enum appliance_way)way, requests) : compare_all(requests);
	json_dumpf(json, stdout, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(json);
	return b.appliance.bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
