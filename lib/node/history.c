/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/history.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "node/observe.h"

#define READ(counter) __atomic_load_n(&(counter), __ATOMIC_RELAXED)

enum {
	PERIOD_US = 10000000,
	SAMPLES = 361, /* one hour */
	POINTS = 121,  /* returned at most */
	TABLES = 64,   /* likewise: the largest ones */
	PLACES = 256,  /* tables that are recorded: the largest ones, or all if there are no more */
	REACTORS = 64,
};
_Static_assert((int)REACTORS == (int)WIRE_REACTORS_MAX, "each has its line");

/* At one time; counts are those since the node's start. */
struct sample {
	uint64_t us;
	uint64_t requests, pulled, pushed, memory_bytes, rows, connections;
	float p50_us, p99_us; /* of the requests since the previous sample; 0: there were none */
	struct {
		uint64_t busy_cycles, cycles, requests;
	} reactors[REACTORS];
};

struct table_sample {
	uint64_t rows, memory_bytes;
};

/* The record of a table. */
struct place {
	const struct object_spec *spec; /* NULL: it is free */
	uint64_t memory_bytes;		/* in the last sample */
	struct table_sample *samples;	/* SAMPLES of them */
};

struct node_history {
	pthread_mutex_t lock; /* protects the members below */
	uint64_t count;	      /* samples since the start */
	struct sample samples[SAMPLES];
	struct place places[PLACES];
	uint16_t place_of[WIRE_OBJECTS_MAX + 1]; /* by id: index + 1; 0: none */
	struct observe_histogram before;	 /* of all requests, in the last sample */
};

struct node_history *node_history_create(struct star_error *err)
{
	struct node_history *h = calloc(1, sizeof(*h));

	if (h)
		pthread_mutex_init(&h->lock, NULL);
	else
		star_error_set(err, -ENOMEM, "no memory for the figures of the last hour");
	return h;
}

void node_history_destroy(struct node_history *h)
{
	for (unsigned i = 0; h && i < PLACES; i++)
		free(h->places[i].samples);
	free(h);
}

/* ---- samples ---- */

static void add_shard(const struct shard *shard, struct sample *s)
{
	const struct reactor_stats *stats = reactor_stats(shard->reactor);
	const struct service_counters *service = service_counters(shard->service);
	const struct store_stats store = service_store_stats(shard->service);
	const uint64_t requests = READ(rpc_counters(shard->rpc)->requests), busy = READ(stats->busy_cycles);

	s->requests += requests;
	s->pulled += READ(service->rows_pulled);
	s->pushed += READ(service->rows_pushed);
	s->memory_bytes += store.memory_bytes;
	s->rows += store.rows;
	s->connections += shard->sockets ? ksock_connections(shard->sockets) : net_connections(shard->net);
	s->reactors[shard->index].busy_cycles = busy;
	s->reactors[shard->index].cycles = busy + READ(stats->idle_cycles);
	s->reactors[shard->index].requests = requests;
}

/* The latencies of the requests since the last sample. */
static void add_times(const struct node *node, struct node_history *h, struct sample *s)
{
	struct observe_histogram now = { 0 }, new;

	for (unsigned i = 0; i < node->shards_count && node->shards[i].observe; i++)
		for (enum observe_class c = 0; c < OBSERVE_CLASSES_COUNT; c++)
			for (unsigned size = 0; size < OBSERVE_SIZES; size++)
				observe_add(node->shards[i].observe, c, size, OBSERVE_total, &now);
	for (unsigned b = 0; b < OBSERVE_BUCKETS; b++)
		new.buckets[b] = now.buckets[b] > h->before.buckets[b] ? now.buckets[b] - h->before.buckets[b] : 0;
	h->before = now;
	s->p50_us = (float)(observe_quantile(&new, 0.5) / 1e3);
	s->p99_us = (float)(observe_quantile(&new, 0.99) / 1e3);
}

static void free_place(struct node_history *h, struct place *place)
{
	if (place->spec)
		h->place_of[place->spec->id] = 0;
	place->spec = NULL;
}

/* A free place, or that of a table of less than half the size, so that two tables do not alternate; NULL: none. */
static struct place *find_place(struct node_history *h, uint64_t memory_bytes)
{
	struct place *smallest = &h->places[0];

	for (unsigned i = 0; i < PLACES; i++) {
		if (!h->places[i].spec)
			return &h->places[i];
		if (h->places[i].memory_bytes < smallest->memory_bytes)
			smallest = &h->places[i];
	}
	return smallest->memory_bytes < memory_bytes / 2 ? smallest : NULL;
}

/* The table's place, or a new and empty one; NULL: it is not recorded any more. */
static struct place *take_place(struct node_history *h, const struct object_spec *spec, uint64_t memory_bytes)
{
	struct place *place;

	if (h->place_of[spec->id])
		return &h->places[h->place_of[spec->id] - 1];
	place = find_place(h, memory_bytes);
	if (!place)
		return NULL;
	if (!place->samples)
		place->samples = calloc(SAMPLES, sizeof(*place->samples));
	if (!place->samples)
		return NULL;
	free_place(h, place);
	memset(place->samples, 0, SAMPLES * sizeof(*place->samples));
	place->spec = spec;
	h->place_of[spec->id] = (uint16_t)(place - h->places + 1);
	return place;
}

static void add_table(const struct node *node, struct node_history *h, uint32_t id, unsigned at)
{
	const struct object_spec *spec = node_observed_object(node, id);
	struct store_stats sum = { 0 };
	struct place *place;

	/* A table that was dropped starts again under its id, with another spec. */
	if (h->place_of[id] && spec != h->places[h->place_of[id] - 1].spec)
		free_place(h, &h->places[h->place_of[id] - 1]);
	if (!spec || spec->kind == OBJECT_PROGRAM)
		return;
	for (unsigned i = 0; i < node->shards_count; i++)
		service_table_stats(node->shards[i].service, id, &sum);
	place = take_place(h, spec, sum.memory_bytes);
	if (!place)
		return;
	place->memory_bytes = sum.memory_bytes;
	place->samples[at] = (struct table_sample){ sum.rows, sum.memory_bytes };
}

void node_history_watch(struct node *node)
{
	struct node_history *h = node->history;
	const uint64_t now_us = clock_us();
	struct sample *s;

	pthread_mutex_lock(&h->lock);
	/* Up to a second early, because the watch thread comes once a second. */
	if (h->count == 0 || now_us - h->samples[(h->count - 1) % SAMPLES].us >= PERIOD_US - 500000) {
		s = &h->samples[h->count % SAMPLES];
		memset(s, 0, sizeof(*s));
		s->us = now_us;
		for (unsigned i = 0; i < node->shards_count; i++)
			add_shard(&node->shards[i], s);
		add_times(node, h, s);
		for (uint32_t id = 1; id <= WIRE_OBJECTS_MAX; id++)
			add_table(node, h, id, (unsigned)(h->count % SAMPLES));
		h->count++;
	}
	pthread_mutex_unlock(&h->lock);
}

/* ---- told ---- */

/* Which samples are returned: every n-th one, and the newest. */
struct chosen {
	unsigned n;
	unsigned at[POINTS];
};

static struct chosen choose(const struct node_history *h, uint32_t seconds)
{
	const uint64_t now_us = clock_us(), span_us = seconds * UINT64_C(1000000);
	const uint64_t oldest = h->count > SAMPLES ? h->count - SAMPLES : 0;
	uint64_t first = h->count, step;
	struct chosen chosen = { 0 };

	while (first > oldest && (!seconds || now_us - h->samples[(first - 1) % SAMPLES].us <= span_us))
		first--;
	step = (h->count - first + POINTS - 1) / POINTS;
	for (uint64_t back = 0; step && chosen.n < POINTS && first + back * step < h->count; back++)
		chosen.at[chosen.n++] = (unsigned)((h->count - 1 - back * step) % SAMPLES);
	for (unsigned i = 0; i < chosen.n / 2; i++) {
		const unsigned at = chosen.at[i];

		chosen.at[i] = chosen.at[chosen.n - 1 - i];
		chosen.at[chosen.n - 1 - i] = at;
	}
	return chosen;
}

static json_t *rounded(double value)
{
	return json_real(round(value * 1000) / 1000);
}

static json_t *counts_json(const struct node_history *h, const struct chosen *chosen, size_t offset)
{
	json_t *json = json_array();

	for (unsigned i = 0; i < chosen->n; i++)
		json_array_append_new(
			json, json_integer(*(const json_int_t *)((const char *)&h->samples[chosen->at[i]] + offset)));
	return json;
}

static json_t *times_json(const struct node_history *h, const struct chosen *chosen, size_t offset)
{
	json_t *json = json_array();

	for (unsigned i = 0; i < chosen->n; i++)
		json_array_append_new(json, rounded((double)*(const float *)((const char *)&h->samples[chosen->at[i]] +
									     offset)));
	return json;
}

static json_t *dates_json(const struct node_history *h, const struct chosen *chosen)
{
	const double now_s = (double)time(NULL);
	const uint64_t now_us = clock_us();
	json_t *json = json_array();

	for (unsigned i = 0; i < chosen->n; i++)
		json_array_append_new(json, rounded(now_s - (double)(now_us - h->samples[chosen->at[i]].us) / 1e6));
	return json;
}

static json_t *reactor_json(const struct node_history *h, const struct chosen *chosen, unsigned reactor)
{
	json_t *busy = json_array(), *requests = json_array();

	for (unsigned i = 0; i < chosen->n; i++) {
		const struct sample *s = &h->samples[chosen->at[i]];
		const struct sample *before = i ? &h->samples[chosen->at[i - 1]] : NULL;
		const uint64_t cycles = before ? s->reactors[reactor].cycles - before->reactors[reactor].cycles : 0;
		const uint64_t worked =
			before ? s->reactors[reactor].busy_cycles - before->reactors[reactor].busy_cycles : 0;

		json_array_append_new(busy, rounded(cycles ? 100.0 * (double)worked / (double)cycles : 0));
		json_array_append_new(requests, json_integer((json_int_t)s->reactors[reactor].requests));
	}
	return json_pack("{s:i, s:o, s:o}", "index", (int)reactor, "busy_percent", busy, "requests", requests);
}

static json_t *table_json(const struct place *place, const struct chosen *chosen)
{
	json_t *rows = json_array(), *bytes = json_array();

	for (unsigned i = 0; i < chosen->n; i++) {
		const struct table_sample *s = &place->samples[chosen->at[i]];

		json_array_append_new(rows, json_integer((json_int_t)s->rows));
		json_array_append_new(bytes, json_integer((json_int_t)s->memory_bytes));
	}
	return json_pack("{s:s, s:o, s:o}", "name", place->spec->name, "rows", rows, "memory_bytes", bytes);
}

/* The largest tables at the moment. */
static json_t *tables_json(const struct node_history *h, const struct chosen *chosen)
{
	bool told[PLACES] = { false };
	json_t *json = json_array();

	for (unsigned n = 0; n < TABLES; n++) {
		const struct place *largest = NULL;

		for (unsigned i = 0; i < PLACES; i++)
			if (h->places[i].spec && !told[i] &&
			    (!largest || h->places[i].memory_bytes > largest->memory_bytes))
				largest = &h->places[i];
		if (!largest)
			break;
		told[largest - h->places] = true;
		json_array_append_new(json, table_json(largest, chosen));
	}
	return json;
}

json_t *node_history_json(struct node *node, uint32_t seconds)
{
	static const struct {
		const char *name;
		size_t offset;
	} counts[] = {
		{ "requests", offsetof(struct sample, requests) },
		{ "rows_pulled", offsetof(struct sample, pulled) },
		{ "rows_pushed", offsetof(struct sample, pushed) },
		{ "memory_bytes", offsetof(struct sample, memory_bytes) },
		{ "rows", offsetof(struct sample, rows) },
		{ "connections", offsetof(struct sample, connections) },
	};
	struct node_history *h = node->history;
	json_t *json = json_object(), *reactors = json_array();
	struct chosen chosen;

	pthread_mutex_lock(&h->lock);
	chosen = choose(h, seconds);
	json_object_set_new(json, "period_s", json_integer(PERIOD_US / 1000000));
	json_object_set_new(json, "memory_limit_bytes",
			    json_integer((json_int_t)(node->arena_bytes * node->shards_count)));
	json_object_set_new(json, "at", dates_json(h, &chosen));
	for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		json_object_set_new(json, counts[i].name, counts_json(h, &chosen, counts[i].offset));
	json_object_set_new(json, "p50_us", times_json(h, &chosen, offsetof(struct sample, p50_us)));
	json_object_set_new(json, "p99_us", times_json(h, &chosen, offsetof(struct sample, p99_us)));
	for (unsigned i = 0; i < node->shards_count; i++)
		json_array_append_new(reactors, reactor_json(h, &chosen, i));
	json_object_set_new(json, "reactors", reactors);
	json_object_set_new(json, "tables", tables_json(h, &chosen));
	pthread_mutex_unlock(&h->lock);
	return json;
}
