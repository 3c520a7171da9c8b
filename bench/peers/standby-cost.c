/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a standby costs a reactor: the cycles of its turns for a push of many rows, a push and a pull of one, without a
 * standby, and with one of each durability, in turns in this process, with the same stack, service and rows. The
 * worker's requests come by TCP, where clients keep their pushes with "retained". What a node does with its shard's
 * stream is the node's own code; the thread that sends the stream is a reader here, on another core, which sleeps and
 * is woken as that one is, and has at once what it takes.
 */
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <rte_cycles.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/starbench/histogram.h"
#include "base/clock.h"
#include "bench/peers/appliance.h"
#include "node/gate.h"
#include "node/journal.h"
#include "rpc/rpc.h"

enum {
	ROWS = 1000000,
	TURN_ONE = 400, /* requests of a row by one way, before it is the next one's turn, */
	TURN_MANY = 20, /* or of many */
	RING_BYTES = 32 << 20,
	PACE_MS = 1, /* between looks of a reader that nobody wakes */
};
#define LEASE_NS UINT64_C(3600000000000)
#define WAIT_NS UINT64_C(10000000000)

enum way { WAY_NONE, WAY_ASYNC, WAY_RETAINED, WAY_SYNC, WAYS };
static const char *const way_names[WAYS] = { "none", "async", "retained", "sync" };
static const enum config_durability durabilities[WAYS] = { [WAY_ASYNC] = CONFIG_DURABILITY_ASYNC,
							   [WAY_RETAINED] = CONFIG_DURABILITY_RETAINED,
							   [WAY_SYNC] = CONFIG_DURABILITY_SYNC };

static struct {
	struct appliance appliance;
	struct config config;
	struct node node;
	struct shard *shard; /* the node's first */
	struct journal_ring *ring;
	struct node_bell bell;
	pthread_t reader;
	pthread_mutex_t lock; /* the reader's for each look; whoever begins the ring again has it */
	bool over;
	uint64_t turn, spent; /* cycles of the turn that ends, and of all in which there was something to do */
	unsigned received, held;
	struct histogram cycles[WAYS];
} b = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- the reader ---- */

static bool takes(void)
{
	uint64_t published;
	bool any;

	pthread_mutex_lock(&b.lock);
	published = __atomic_load_n(&b.ring->published, __ATOMIC_ACQUIRE);
	any = published != journal_reader_at(b.ring, JOURNAL_LINK);
	if (any)
		journal_free_to(b.ring, JOURNAL_LINK, published);
	pthread_mutex_unlock(&b.lock);
	return any;
}

/* As lib/node/pair_primary.c waits. */
static void reader_waits(void)
{
	const enum config_durability durability = __atomic_load_n(&b.config.standby_durability, __ATOMIC_RELAXED);
	struct pollfd bell = { .fd = b.bell.fd, .events = POLLIN };
	bool idle = true;

	if (durability == CONFIG_DURABILITY_ASYNC) {
		poll(NULL, 0, PACE_MS);
		return;
	}
	node_bell_sleeps(&b.bell);
	if (durability == CONFIG_DURABILITY_SYNC || node_gate_held(&b.node))
		idle = !takes();
	if (idle)
		poll(&bell, 1, PACE_MS);
	node_bell_woke(&b.bell);
}

static void *run_reader(void *arg)
{
	while (!__atomic_load_n(&b.over, __ATOMIC_RELAXED)) {
		takes();
		reader_waits();
	}
	return NULL;
}

/* Before DPDK starts, which pins this thread: the first of the cores that the process may use is the reader's, and the
 * last one the reactor's. */
static void find_cores(cpu_set_t *readers, cpu_set_t *reactors)
{
	cpu_set_t all;
	int first = 0, last = CPU_SETSIZE - 1;

	if (sched_getaffinity(0, sizeof(all), &all) < 0)
		appliance_fail("it cannot be seen which cores may be used");
	while (first < last && !CPU_ISSET(first, &all))
		first++;
	while (last > first && !CPU_ISSET(last, &all))
		last--;
	if (first == last)
		appliance_fail("two cores are needed, one for the reactor and one for the reader of its stream");
	CPU_ZERO(readers);
	CPU_SET(first, readers);
	CPU_ZERO(reactors);
	CPU_SET(last, reactors);
}

/* ---- the reactor ---- */

/* As shard_work of lib/node/node.c. */
static void shard_works(struct appliance *a, uint64_t now_ns)
{
	b.held = rpc_held(b.shard->rpc);
	if (b.shard->journal)
		node_gate_turn(b.shard, now_ns);
	b.held -= rpc_held(b.shard->rpc);
}

static void turned(struct appliance *a, unsigned received, const uint64_t at[APPLIANCE_MOMENTS])
{
	b.turn = at[APPLIANCE_END] - at[APPLIANCE_RECEIVE];
	b.received = received;
}

/* Turns that find nothing are a reactor's idle ones, while replies wait, too. A mark in one of them is something. */
static void shard_housekeeping(struct appliance *a, uint64_t now_ns, bool busy)
{
	const uint64_t published = b.ring->published, begun = rte_rdtsc_precise();

	b.shard->slices = busy;
	if (b.shard->journal)
		node_journal_turn(b.shard, now_ns);
	if (b.received || busy || a->sent || b.held || b.ring->published != published)
		b.spent += b.turn + rte_rdtsc_precise() - begun;
}

static void use_way(enum way way)
{
	pthread_mutex_lock(&b.lock);
	node_gate_end(b.shard);
	b.shard->journal = NULL;
	service_journal_begin(b.shard->service, NULL);
	__atomic_store_n(&b.config.standby_durability, durabilities[way], __ATOMIC_RELAXED);
	b.appliance.flags = way == WAY_RETAINED ? WIRE_KEEPS : 0;
	journal_ring_restart(b.ring);
	journal_reader_begin(b.ring, JOURNAL_LINK, WAIT_NS);
	if (way != WAY_NONE) {
		b.ring->lease_ns = clock_ns() + LEASE_NS;
		b.shard->journal = b.ring;
		service_journal_begin(b.shard->service, b.ring);
	}
	if (way == WAY_RETAINED || way == WAY_SYNC)
		node_gate_standby(b.shard);
	pthread_mutex_unlock(&b.lock);
}

/* Of requests by each way in its turn: the cycles of one. What a way finds in the caches when its turn comes does not
 * count. */
static json_t *compare(enum wire_op_kind kind, uint32_t rows, uint64_t turns)
{
	static uint64_t keys[APPLIANCE_KEYS_MAX];
	const unsigned n = rows == 1 ? TURN_ONE : TURN_MANY;
	json_t *json = json_object();

	for (uint64_t turn = 0; turn < turns * WAYS; turn++) {
		const unsigned way = turn / WAYS % 2 ? WAYS - 1 - turn % WAYS : turn % WAYS;

		use_way((enum way)way);
		for (unsigned done = 0; done < n + n / 4; done++) {
			for (uint32_t i = 0; i < rows; i++)
				keys[i] = prng_below(&b.appliance.prng, ROWS);
			b.spent = 0;
			appliance_ask(&b.appliance, kind, keys, rows);
			appliance_await(&b.appliance);
			if (done >= n / 4)
				histogram_record(&b.cycles[way], b.spent);
		}
		if (b.ring->lost)
			appliance_fail("the ring is lost");
	}
	for (unsigned way = 0; way < WAYS; way++)
		json_object_set_new(json, way_names[way], json_real(histogram_quantile(&b.cycles[way], 0.5)));
	memset(b.cycles, 0, sizeof(b.cycles));
	return json;
}

static void start_node(void)
{
	struct star_error err = { 0 };

	b.appliance.stream = true;
	appliance_start(&b.appliance, NULL);
	b.config.polling = true;
	snprintf(b.config.standby_peer, sizeof(b.config.standby_peer), "198.18.0.2:3433");
	b.node.config = &b.config;
	b.shard = &b.node.shards[0];
	b.node.shards_count = 1;
	b.shard->node = &b.node;
	b.shard->service = b.appliance.service;
	b.shard->rpc = appliance_rpc();
	b.ring = journal_ring_create(RING_BYTES, WAIT_NS, &err);
	if (!b.ring || node_bell_make(&b.bell, &err) < 0)
		appliance_fail(err.text);
	node_gate_watch(b.shard, b.ring, &b.bell);
	b.appliance.turned = turned;
	b.appliance.work = shard_works;
	b.appliance.housekeeping = shard_housekeeping;
}

static void fill_rows(void)
{
	static uint64_t keys[APPLIANCE_KEYS_MAX];

	for (uint64_t key = 0; key < ROWS; key += APPLIANCE_KEYS_MAX) {
		for (unsigned i = 0; i < APPLIANCE_KEYS_MAX; i++)
			keys[i] = key + i;
		appliance_ask(&b.appliance, WIRE_PUSH, keys, APPLIANCE_KEYS_MAX);
		appliance_await(&b.appliance);
	}
}

int main(int argc, char **argv)
{
	const uint64_t turns = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
	cpu_set_t readers, reactors;
	json_t *json;

	if (!turns) {
		fprintf(stderr,
			"usage: standby-cost TURNS\n"
			"pushes of %d rows and of one, and pulls of one, without a standby and with one, in turns\n",
			APPLIANCE_KEYS_MAX);
		return 2;
	}
	find_cores(&readers, &reactors);
	start_node();
	if (pthread_create(&b.reader, NULL, run_reader, NULL) ||
	    pthread_setaffinity_np(b.reader, sizeof(readers), &readers) ||
	    pthread_setaffinity_np(pthread_self(), sizeof(reactors), &reactors))
		appliance_fail("no thread on each of two cores");
	fill_rows();
	json = json_object();
	json_object_set_new(json, "push-2000", compare(WIRE_PUSH, APPLIANCE_KEYS_MAX, turns));
	json_object_set_new(json, "push-1", compare(WIRE_PUSH, 1, turns));
	json_object_set_new(json, "pull-1", compare(WIRE_PULL, 1, turns));
	json_object_set_new(json, "bad", json_integer((json_int_t)b.appliance.bad));
	json_object_set_new(json, "tsc_hz", json_real((double)rte_get_tsc_hz()));
	__atomic_store_n(&b.over, true, __ATOMIC_RELAXED);
	pthread_join(b.reader, NULL);
	json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(json);
	return b.appliance.bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
