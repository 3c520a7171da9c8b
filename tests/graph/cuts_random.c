/* SPDX-License-Identifier: BSD-3-Clause */
/* Random graphs: each protocol's cut is right, star_server's rounds are the least there are, lite's never cost more. */
#include <stdio.h>
#include <stdlib.h>

#include "offload/cut.h"
#include "tests/graph/cases.h"
#include "tests/graph/cutting.h"
#include "tests/unit.h"

enum { GRAPHS = 2000, GRAPHS_LONG = 10000, SMALL = 3000 };

static uint64_t all_bytes(const struct graph_cut *cut)
{
	return cut->to_ps_bytes + cut->from_ps_bytes;
}

static bool no_worse(const struct graph_cut *lite, const struct graph_cut *waves)
{
	const bool good = lite->requests <= waves->requests && lite->rounds <= waves->rounds &&
			  all_bytes(lite) <= all_bytes(waves);

	return good ||
	       unit_fail(__FILE__, __LINE__, "lite takes %u requests, %u rounds, %llu bytes; star_server %u, %u, %llu",
			 lite->requests, lite->rounds, (unsigned long long)all_bytes(lite), waves->requests,
			 waves->rounds, (unsigned long long)all_bytes(waves));
}

/* What was seen, so that the test does not pass for want of anything to see. */
struct seen {
	unsigned fewer_requests, fewer_bytes, moved, warned, rounds_2, loops, as_waves;
};

static bool try_graph(const struct graph *graph, uint64_t seed, struct seen *seen)
{
	struct graph_cut *cuts[] = {
		cut_by(graph, GRAPH_GRPCPP, false),
		cut_by(graph, GRAPH_GRPCPP, true),
		cut_by(graph, GRAPH_STAR_SERVER, false),
		cut_by(graph, GRAPH_STAR_SERVER_LITE, false),
	};
	const struct graph_cut *waves = cuts[2], *lite = cuts[3];
	bool good = true;

	for (unsigned i = 0; i < 4; i++)
		good = good && cuts[i] && cut_is_right(cuts[i], seed);
	good = good && no_worse(lite, waves) && CHECK(waves->requests <= cuts[1]->requests) &&
	       CHECK(cuts[1]->requests <= cuts[0]->requests) && CHECK_UINT(cuts[0]->rounds, waves->rounds);
	if (good) {
		seen->fewer_requests += lite->requests < waves->requests;
		seen->fewer_bytes += all_bytes(lite) < all_bytes(waves);
		seen->moved += lite->moved_count > 0;
		seen->warned += lite->warnings_count > 0;
		seen->as_waves += lite->warnings_count > 0 && strstr(lite->warnings[0], "cut by star_server");
		seen->rounds_2 += waves->rounds > 2;
		seen->loops += waves->bodies_count > 0;
	}
	for (unsigned i = 0; i < 4; i++)
		graph_cut_destroy(cuts[i]);
	return good;
}

void random_graphs_are_cut_right(void)
{
	const unsigned graphs = getenv("STAR_SOAK") ? GRAPHS_LONG : GRAPHS;
	struct seen seen = { 0 };
	bool good = true;

	for (uint64_t seed = 1; seed <= graphs && good; seed++) {
		struct star_error err = { 0 };
		struct graph *graph;
		struct prng random;

		prng_seed(&random, seed);
		graph = random_placed_graph(&random, 12 + prng_below(&random, 60), 1 + (unsigned)seed % 4);
		good = graph_error(graph, &err) == 0 || unit_fail(__FILE__, __LINE__, "%s", err.text);
		good = good && try_graph(graph, seed, &seen);
		if (!good) {
			printf("# seed %llu\n", (unsigned long long)seed);
			print_graph(graph);
		}
		graph_destroy(graph);
	}
	printf("# of %u graphs: lite has fewer requests in %u, fewer bytes in %u, moved nodes in %u, warned in %u, "
	       "took "
	       "star_server's cut in %u; %u have more than 2 rounds, %u have loops\n",
	       graphs, seen.fewer_requests, seen.fewer_bytes, seen.moved, seen.warned, seen.as_waves, seen.rounds_2,
	       seen.loops);
	CHECK(seen.fewer_requests > 100 && seen.fewer_bytes > 100 && seen.moved > 100 && seen.warned > 100);
	CHECK(seen.rounds_2 > graphs / 10 && seen.loops > graphs / 10);
	CHECK(seen.as_waves < graphs / 100);
}

void rounds_are_the_least_there_are(void)
{
	unsigned rounds[16] = { 0 };
	bool good = true;

	for (uint64_t seed = 1; seed <= SMALL && good; seed++) {
		struct graph_cut *cut;
		struct graph *graph;
		struct prng random;
		uint32_t least;

		prng_seed(&random, seed);
		/* with feeds, variables and tables, of which there are six to eleven */
		graph = random_placed_graph(&random, 12 + (unsigned)seed % 8, 1 + (unsigned)seed % 3);
		cut = cut_by(graph, GRAPH_STAR_SERVER, false);
		least = least_rounds(graph);
		good = cut && CHECK_UINT(cut->rounds, least);
		if (!good)
			print_graph(graph);
		if (good && least < 16)
			rounds[least]++;
		graph_cut_destroy(cut);
		graph_destroy(graph);
	}
	CHECK(rounds[2] > 100 && rounds[3] > 20);
}
