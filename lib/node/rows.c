/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of a running node for the administrator: their keys, and their contents. A reactor is asked step by step. Each
 * step is a message with bounded work, so that no request waits for a large table.
 */
#include "node/node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "jsonrpc/member.h"
#include "store/look.h"
#include "store/snapshot.h"
#include "wire/owner.h"

enum { STEP_KEYS = 128, STEP_BYTES = 64 << 10, RECORDS_BYTES = STORE_SNAPSHOT_SLICE_MIN };
_Static_assert((int)STEP_BYTES < (int)RECORDS_BYTES,
	       "a step goes on until it has that much, and a row more fits always");

/* One step: for keys, or for rows. */
struct rows_step {
	struct reactor_message message;
	uint32_t id, generation;
	bool unknown; /* the reactor has no such table */
	union {
		struct {
			uint64_t at;
			unsigned count;
			uint64_t keys[STORE_LOOK_KEYS];
		} walk;
		struct {
			unsigned count, done; /* keys; those that were looked up */
			uint64_t keys[STEP_KEYS];
			bool found[STEP_KEYS];
			uint32_t record_bytes, bytes;
			uint64_t records[RECORDS_BYTES / sizeof(uint64_t)]; /* of the keys that were found */
		} look;
	};
};

static void walk_on_reactor(void *ctx, struct reactor_message *message)
{
	const struct shard *shard = ctx;
	struct rows_step *step = (struct rows_step *)message;
	const struct store_table *table = store_look_table(shard->store, step->id, step->generation);

	step->unknown = !table;
	step->walk.count = table ? store_look_keys(table, &step->walk.at, step->walk.keys) : 0;
}

static void look_on_reactor(void *ctx, struct reactor_message *message)
{
	const struct shard *shard = ctx;
	struct rows_step *step = (struct rows_step *)message;
	const struct store_table *table = store_look_table(shard->store, step->id, step->generation);

	step->unknown = !table;
	step->look.done = step->look.bytes = 0;
	if (!table)
		return;
	step->look.record_bytes = store_row_record_bytes(table);
	for (unsigned i = 0; i < step->look.count && step->look.bytes < STEP_BYTES &&
			     step->look.bytes + step->look.record_bytes <= RECORDS_BYTES;
	     i++) {
		step->look.found[i] =
			store_look_row(table, step->look.keys[i], (uint8_t *)step->look.records + step->look.bytes);
		step->look.bytes += step->look.found[i] ? step->look.record_bytes : 0;
		step->look.done++;
	}
}

static int check_served(const struct node *node, struct star_error *err)
{
	return node->layout.cluster_reactors ? 0 : star_error_set(err, -EAGAIN, "the node serves no layout yet");
}

/* Lets a reactor do a step. If it does not do it in time, the step is left to it, and *step is NULL. */
static int take_step(struct shard *shard, struct rows_step **step, const struct object_spec *spec,
		     void (*run)(void *ctx, struct reactor_message *message), struct star_error *err)
{
	int status;

	(*step)->message = (struct reactor_message){ .run = run };
	(*step)->id = spec->id;
	(*step)->generation = spec->generation;
	status = node_ask(shard, &(*step)->message, err);
	if (status == -ETIMEDOUT)
		*step = NULL;
	else if (status == 0 && (*step)->unknown)
		status = star_error_set(err, -ENOENT, "reactor %u has no table \"%s\" any more", shard->index,
					spec->name);
	return status;
}

static int answer_no_memory(struct star_error *err)
{
	return star_error_set(err, -ENOMEM, "no memory for a step through the rows");
}

int node_row_keys(void *ctx, const struct object_spec *spec, struct control_row_keys *which, json_t *keys,
		  struct star_error *err)
{
	struct node *node = ctx;
	struct rows_step *step;
	int status = check_served(node, err);

	if (status == 0 && which->reactor >= node->shards_count)
		status = star_error_set(err, -EINVAL, "there is no reactor %u: this node has 0 to %u", which->reactor,
					node->shards_count - 1);
	if (status < 0)
		return status;
	step = malloc(sizeof(*step));
	if (!step)
		return answer_no_memory(err);
	step->walk.at = which->at;
	status = take_step(&node->shards[which->reactor], &step, spec, walk_on_reactor, err);
	for (unsigned i = 0; status == 0 && i < step->walk.count; i++)
		json_array_append_new(keys, jsonrpc_member_from_u64(step->walk.keys[i]));
	which->at = status == 0 ? step->walk.at : 0;
	free(step);
	return status;
}

/* Which of the node's reactors owns a key; NULL: it belongs to another node. */
static struct shard *shard_of(struct node *node, const struct object_spec *spec, uint64_t key)
{
	const uint32_t partitions = node->config->partitions;
	const uint32_t owner =
		wire_key_owner(partitions, node->layout.cluster_reactors, spec, hash_name(spec->name), key);
	const uint32_t index = owner - node->layout.first_reactor;

	return index < node->shards_count ? &node->shards[index] : NULL;
}

/* NULL: there is no memory. */
static json_t *hexadecimal(const uint8_t *from, uint32_t bytes)
{
	static const char digits[] = "0123456789abcdef";
	char *text = malloc(2 * (size_t)bytes + 1);
	json_t *json;

	if (!text)
		return NULL;
	for (uint32_t i = 0; i < bytes; i++) {
		text[2 * i] = digits[from[i] >> 4];
		text[2 * i + 1] = digits[from[i] & 15];
	}
	json = json_stringn_nocheck(text, 2 * (size_t)bytes);
	free(text);
	return json;
}

/* Looks up the first keys that one reactor owns, or that belong to no reactor here, and appends what exists of them.
 * Returns their number, or an error. */
static int look_up_records(struct node *node, const struct object_spec *spec, const uint64_t *keys, uint32_t count,
			   json_t *records, struct star_error *err)
{
	struct shard *shard = shard_of(node, spec, keys[0]);
	struct rows_step *step;
	const uint8_t *record;
	unsigned n = 1;
	int status;

	while (n < count && n < STEP_KEYS && shard_of(node, spec, keys[n]) == shard)
		n++;
	if (!shard) {
		for (unsigned i = 0; i < n; i++)
			json_array_append_new(records, json_null());
		return (int)n;
	}
	step = malloc(sizeof(*step));
	if (!step)
		return answer_no_memory(err);
	step->look.count = n;
	memcpy(step->look.keys, keys, n * sizeof(*keys));
	status = take_step(shard, &step, spec, look_on_reactor, err);
	record = status == 0 ? (const uint8_t *)step->look.records : NULL;
	for (unsigned i = 0; status == 0 && i < step->look.done; i++) {
		if (json_array_append_new(records, step->look.found[i] ? hexadecimal(record, step->look.record_bytes)
								       : json_null()) < 0)
			status = answer_no_memory(err);
		record += step->look.found[i] ? step->look.record_bytes : 0;
	}
	if (status == 0)
		status = (int)step->look.done;
	free(step);
	return status;
}

int node_rows(void *ctx, const struct object_spec *spec, const uint64_t *keys, uint32_t count, json_t *records,
	      struct star_error *err)
{
	struct node *node = ctx;
	const uint64_t until_us = clock_us() + CONTROL_ROWS_US;
	int status = check_served(node, err);
	size_t bytes = 0;

	for (uint32_t done = 0; status >= 0 && done < count && bytes < CONTROL_ROWS_BYTES && clock_us() < until_us;
	     done += (uint32_t)status) {
		const size_t before = json_array_size(records);

		status = look_up_records(node, spec, keys + done, count - done, records, err);
		for (size_t i = before; i < json_array_size(records); i++)
			bytes += json_string_length(json_array_get(records, i));
	}
	return status < 0 ? status : 0;
}
