/* SPDX-License-Identifier: BSD-3-Clause */
/* What the reactors record of requests (lib/observe), for the administrator: latencies, and hot keys. No reactor is
 * asked. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "jsonrpc/member.h"
#include "node/history.h"
#include "node/observe.h"
#include "recorder/recorder.h"
#include "wire/layout.h"

_Static_assert((int)RECORDER_SLOW_MAX == (int)CONTROL_SLOW_MAX, "what may be asked for is told");

static const char *const time_names[] = {
#define X(name, text) [OBSERVE_##name] = #name "_us",
	OBSERVE_TIMES(X)
#undef X
};

static json_t *microseconds(double ns)
{
	return json_real((double)(int64_t)(ns + 0.5) / 1000);
}

static json_t *times_json(const struct observe_histogram *h)
{
	static const struct {
		const char *name;
		double share;
	} quantiles[] = { { "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 }, { "p999", 0.999 }, { "max", 1 } };
	json_t *json = json_object();

	json_object_set_new(json, "mean", microseconds(observe_mean(h)));
	for (unsigned i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++)
		json_object_set_new(json, quantiles[i].name, microseconds(observe_quantile(h, quantiles[i].share)));
	return json;
}

/* Latencies of requests, of one reactor or of several. */
struct window {
	struct observe_histogram of[OBSERVE_CLASSES_COUNT][OBSERVE_SIZES][OBSERVE_TIMES_COUNT];
};

/* Adds those of all requests of a reactor or, if there are records to copy them to, of those that ended within that
 * time. */
static void fill(const struct observe *o, uint64_t since_ns, struct observe_record *records, struct window *window)
{
	uint64_t from = 0;
	const size_t n = records ? observe_copy(o, &from, records, OBSERVE_RECORDS) : 0;

	for (size_t i = 0; i < n; i++) {
		const struct observe_record *r = &records[i];
		struct observe_histogram *h = window->of[observe_class(r)][observe_size(observe_keys(r))];

		if (r->arrived_ns + observe_units_ns(r->total) < since_ns)
			continue;
		observe_note(&h[OBSERVE_total], r->total);
		observe_note(&h[OBSERVE_wait], r->wait);
		observe_note(&h[OBSERVE_run], r->run);
	}
	for (enum observe_class c = 0; !records && c < OBSERVE_CLASSES_COUNT; c++)
		for (unsigned s = 0; s < OBSERVE_SIZES; s++)
			for (enum observe_time t = 0; t < OBSERVE_TIMES_COUNT; t++)
				observe_add(o, c, s, t, &window->of[c][s][t]);
}

static void add_to(struct observe_histogram *to, const struct observe_histogram *from)
{
	for (unsigned i = 0; i < OBSERVE_BUCKETS; i++)
		to->buckets[i] += from->buckets[i];
}

/* A line for a class and the sizes [from, to), or none if there were no such requests. */
static json_t *line_json(const struct window *window, enum observe_class class, unsigned from, unsigned to)
{
	json_t *line = NULL;

	for (enum observe_time t = 0; t < OBSERVE_TIMES_COUNT; t++) {
		struct observe_histogram sum = { 0 };
		uint64_t requests;

		for (unsigned s = from; s < to; s++)
			add_to(&sum, &window->of[class][s][t]);
		requests = observe_at_most(&sum, UINT64_MAX);
		if (t == OBSERVE_total && requests)
			line = json_pack("{s:s, s:I}", "class", observe_class_text(class), "requests",
					 (json_int_t)requests);
		if (line)
			json_object_set_new(line, time_names[t], times_json(&sum));
	}
	return line;
}

static void add_reactor(unsigned reactor, const struct window *window, json_t *lines)
{
	for (enum observe_class c = 0; c < OBSERVE_CLASSES_COUNT; c++) {
		json_t *line = line_json(window, c, 0, OBSERVE_SIZES);

		if (!line)
			continue;
		json_object_set_new(line, "reactor", json_integer(reactor));
		json_array_append_new(lines, line);
	}
}

static void add_sizes(const struct window *window, json_t *lines)
{
	for (enum observe_class c = 0; c < OBSERVE_CLASSES_COUNT; c++)
		for (unsigned s = 0; s < OBSERVE_SIZES; s++) {
			json_t *line = line_json(window, c, s, s + 1);

			if (!line)
				continue;
			json_object_set_new(line, "keys", json_string(observe_size_text(s)));
			json_array_append_new(lines, line);
		}
}

static int observe_no_memory(struct star_error *err)
{
	return star_error_set(err, -ENOMEM, "no memory for a copy of what the reactors remember");
}

static int latency(const struct node *node, const struct control_observed *which, json_t **result,
		   struct star_error *err)
{
	struct window *one = malloc(sizeof(*one)), *all = calloc(1, sizeof(*all));
	struct observe_record *records = which->seconds ? malloc(OBSERVE_RECORDS * sizeof(*records)) : NULL;
	const uint64_t now_ns = clock_ns(), span_ns = which->seconds * UINT64_C(1000000000);
	json_t *sizes, *reactors;
	int status = 0;

	if (!one || !all || (which->seconds && !records)) {
		status = observe_no_memory(err);
		goto free_all;
	}
	sizes = json_array();
	reactors = json_array();
	for (unsigned i = 0; i < node->shards_count; i++) {
		memset(one, 0, sizeof(*one));
		fill(node->shards[i].observe, now_ns > span_ns ? now_ns - span_ns : 0, records, one);
		add_reactor(i, one, reactors);
		for (size_t h = 0; h < sizeof(one->of) / sizeof(struct observe_histogram); h++)
			add_to(&all->of[0][0][0] + h, &one->of[0][0][0] + h);
	}
	add_sizes(all, sizes);
	*result = json_pack("{s:o, s:o}", "all", sizes, "reactors", reactors);
free_all:
	free(records);
	free(one);
	free(all);
	return status;
}

json_t *node_latency_summary(const struct shard *shard)
{
	struct observe_histogram sum = { 0 };

	if (!shard->observe)
		return NULL;
	for (enum observe_class c = 0; c < OBSERVE_CLASSES_COUNT; c++)
		for (unsigned s = 0; s < OBSERVE_SIZES; s++)
			observe_add(shard->observe, c, s, OBSERVE_total, &sum);
	return times_json(&sum);
}

/* ---- hot keys ---- */

/* Keys or partitions, and the sum of their samples' weights. */
struct heat {
	uint64_t key;
	uint32_t object;
	uint32_t reactor;
	uint64_t weight;
};

static int by_key(const void *a, const void *b)
{
	const struct heat *x = a, *y = b;

	if (x->object != y->object)
		return x->object < y->object ? -1 : 1;
	return x->key < y->key ? -1 : x->key > y->key;
}

static int by_weight(const void *a, const void *b)
{
	const struct heat *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight > y->weight ? -1 : 1;
	return by_key(a, b);
}

/* Merges equal ones, and sorts the hottest first; returns their number. */
static size_t rank(struct heat *heats, size_t n)
{
	size_t used = 0;

	qsort(heats, n, sizeof(*heats), by_key);
	for (size_t i = 0; i < n; i++) {
		if (used && by_key(&heats[used - 1], &heats[i]) == 0)
			heats[used - 1].weight += heats[i].weight;
		else
			heats[used++] = heats[i];
	}
	qsort(heats, used, sizeof(*heats), by_weight);
	return used;
}

const struct object_spec *node_observed_object(const struct node *node, uint32_t id)
{
	const struct object_spec *spec =
		id && id <= WIRE_OBJECTS_MAX ? __atomic_load_n(&node->specs[id], __ATOMIC_ACQUIRE) : NULL;

	return spec;
}

/* The table of a sample's key: for a program, that of its list of keys. NULL: it was dropped. */
static const struct object_spec *table_of(const struct node *node, uint32_t object)
{
	const struct object_spec *spec = node_observed_object(node, object_id_of(object));

	if (!spec || object_wire_id(spec) != object)
		return NULL;
	if (spec->kind != OBJECT_PROGRAM)
		return spec;
	for (unsigned i = 0; i < spec->program.count; i++)
		if (spec->program.nodes[i].op == PROGRAM_KEYS)
			return node_observed_object(node, object_id_of(spec->program.nodes[i].object));
	return NULL;
}

/* Collects all samples whose tables exist; returns their number, and the sum of their weights. */
static size_t collect(const struct node *node, struct observe_sample *samples, struct heat *heats, uint64_t *weight)
{
	size_t n = 0;

	for (unsigned i = 0; i < node->shards_count; i++) {
		const size_t count = observe_copy_samples(node->shards[i].observe, samples);

		for (size_t k = 0; k < count; k++) {
			const struct object_spec *spec = table_of(node, samples[k].object);

			if (!spec)
				continue;
			heats[n++] = (struct heat){
				.key = samples[k].key, .object = spec->id, .reactor = i, .weight = samples[k].weight
			};
			*weight += samples[k].weight;
		}
	}
	return n;
}

static json_t *share_json(const struct heat *heat, uint64_t weight)
{
	return json_real((double)(int64_t)(1e4 * (double)heat->weight / (double)weight + 0.5) / 100);
}

static json_t *keys_json(const struct node *node, const struct heat *heats, size_t n, uint64_t weight)
{
	json_t *json = json_array();

	for (size_t i = 0; i < n; i++) {
		const struct object_spec *spec = node_observed_object(node, heats[i].object);

		if (spec)
			json_array_append_new(json,
					      json_pack("{s:s, s:o, s:i, s:I, s:o}", "table", spec->name, "key",
							jsonrpc_member_from_u64(heats[i].key), "reactor",
							(int)heats[i].reactor, "samples", (json_int_t)heats[i].weight,
							"percent", share_json(&heats[i], weight)));
	}
	return json;
}

static json_t *partitions_json(const struct heat *heats, size_t n, uint64_t weight)
{
	json_t *json = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(json,
				      json_pack("{s:I, s:i, s:I, s:o}", "partition", (json_int_t)heats[i].key,
						"reactor", (int)heats[i].reactor, "samples",
						(json_int_t)heats[i].weight, "percent", share_json(&heats[i], weight)));
	return json;
}

static int hot(const struct node *node, const struct control_observed *which, json_t **result, struct star_error *err)
{
	const size_t most = (size_t)node->shards_count * OBSERVE_SAMPLES;
	struct observe_sample *samples = malloc(OBSERVE_SAMPLES * sizeof(*samples));
	struct heat *heats = malloc(most * sizeof(*heats));
	uint64_t weight = 0;
	json_t *keys;
	size_t n, different;

	if (!samples || !heats) {
		free(samples);
		free(heats);
		return observe_no_memory(err);
	}
	n = collect(node, samples, heats, &weight);
	different = rank(heats, n);
	keys = keys_json(node, heats, RTE_MIN(different, (size_t)which->limit), weight);
	for (size_t i = 0; i < different; i++) {
		const struct object_spec *spec = node_observed_object(node, heats[i].object);
		const uint64_t hash =
			spec ? hash_key(hash_name(spec->name), object_partition_key(spec, heats[i].key)) : 0;

		heats[i].key = layout_partition(hash, node->config->partitions);
		heats[i].object = 0;
	}
	different = rank(heats, different);
	*result = json_pack("{s:I, s:I, s:o, s:o}", "samples", (json_int_t)n, "of_keys",
			    (json_int_t)((double)weight * OBSERVE_SAMPLE_MEAN), "keys", keys, "partitions",
			    partitions_json(heats, RTE_MIN(different, (size_t)which->limit), weight));
	free(samples);
	free(heats);
	return 0;
}

/* ---- the flight recorders ---- */

/* A record has only the id, which may have been another object's when the request came. */
static const char *object_name(void *ctx, uint32_t id, uint64_t arrived_ns)
{
	const struct node *node = ctx;
	const struct object_spec *spec = node_observed_object(node, id);

	return spec && arrived_ns >= node->specs_ns[id] ? spec->name : "";
}

static int recorded(struct node *node, const struct control_observed *which, json_t **result, struct star_error *err)
{
	struct recorder recorder = {
		.reactors = node->shards_count, .now_ns = clock_ns(), .name = object_name, .ctx = node
	};
	const struct recorder_slow slow = { which->reactor, which->limit, which->seconds };

	for (unsigned i = 0; i < node->shards_count; i++)
		recorder.of[i] = node->shards[i].observe;
	*result = which->what == CONTROL_SLOW
			  ? recorder_slow(&recorder, &slow)
			  : recorder_trace(&recorder, which->reactor < 0 ? 0 : (unsigned)which->reactor, which->from);
	return *result ? 0 : observe_no_memory(err);
}

int node_observed(void *ctx, const struct control_observed *which, json_t **result, struct star_error *err)
{
	struct node *node = ctx;

	if (which->what == CONTROL_HISTORY) {
		*result = node_history_json(node, which->seconds);
		return *result ? 0 : observe_no_memory(err);
	}
	if (!node->config->observe_requests)
		return star_error_set(err, -ENOTSUP,
				      "this node keeps no records of requests: set metrics.requests = true in its "
				      "configuration, and restart it");
	if (which->what == CONTROL_LATENCY)
		return latency(node, which, result, err);
	if (which->what == CONTROL_HOT)
		return hot(node, which, result, err);
	if (which->reactor >= (int)node->shards_count)
		return star_error_set(err, -EINVAL, "there is no reactor %d: this node has 0 to %u", which->reactor,
				      node->shards_count - 1);
	return recorded(node, which, result, err);
}
