/* SPDX-License-Identifier: BSD-3-Clause */
/* All PS tasks of a running cluster, and their rows of one table. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "app/starctl/cluster_nodes.h"
#include "app/starctl/rows.h"
#include "control/control.h"
#include "jsonrpc/member.h"
#include "jsonrpc/object_json.h"

enum { LEADER_HOPS = 2 }; /* to PS task 0, and from its standby to its primary */

/* ---- the nodes ---- */

/* The node to ask instead; NULL: none. A standby of PS task 0 knows its primary. */
static const char *leader_of(const json_t *status)
{
	const char *leader = json_string_value(json_object_get(json_object_get(status, "leader"), "control"));
	const json_t *pair = json_object_get(status, "pair");
	const char *role = json_string_value(json_object_get(pair, "role"));
	const char *peer = json_string_value(json_object_get(pair, "peer"));

	return leader ? leader : role && strcmp(role, "standby") == 0 && peer && *peer ? peer : NULL;
}

json_t *cluster_ask_leader(struct jsonrpc_client **client, struct star_error *err)
{
	json_t *status = jsonrpc_call(*client, "status", NULL, STARCTL_CALL_US, err);

	for (unsigned i = 0; i < LEADER_HOPS && status && leader_of(status); i++) {
		struct jsonrpc_client *other = connect_node(leader_of(status), STARCTL_CALL_US, err);

		json_decref(status);
		jsonrpc_close(*client);
		*client = other;
		status = other ? jsonrpc_call(other, "status", NULL, STARCTL_CALL_US, err) : NULL;
	}
	return status;
}

/* Of the shard with the most, as in a checkpoint: a node that starts from one gives each shard this many. */
static void note_shards(struct row_node *node, const json_t *shards)
{
	const json_t *shard;
	size_t i;

	json_array_foreach(shards, i, shard)
	{
		const uint64_t pushes = (uint64_t)json_integer_value(json_object_get(shard, "pushes"));
		const uint64_t removed = (uint64_t)json_integer_value(json_object_get(shard, "deleted")) +
					 (uint64_t)json_integer_value(json_object_get(shard, "evicted"));

		node->pushes = pushes > node->pushes ? pushes : node->pushes;
		node->removed = removed > node->removed ? removed : node->removed;
	}
}

/* Sets the node's figures of the table; *definition, unless it is NULL, gets a new reference. */
static int note_table(struct row_node *node, const char *name, json_t **definition, struct star_error *err)
{
	json_t *object = table_of_node(node->client, name, err), *stats = json_object_get(object, "stats");

	if (!object)
		return err->code;
	node->rows = (uint64_t)json_integer_value(json_object_get(stats, "rows"));
	note_shards(node, json_object_get(stats, "reactors"));
	/* Nodes of an earlier version do not report it. */
	if (!jsonrpc_member_to_u64(json_object_get(stats, "step"), &node->step))
		node->step = 0;
	if (definition) {
		json_object_del(object, "stats");
		*definition = json_incref(object);
	}
	json_decref(object);
	return 0;
}

static int note_definition(struct row_source *source, const json_t *definition, struct star_error *err)
{
	struct star_error why;

	if (jsonrpc_object_decode(definition, &source->spec, &why) < 0 ||
	    ckpt_row_shape(&source->spec, &source->shape) < 0)
		return star_error_set(err, -EINVAL, "the node has a table that this program does not know: %s",
				      why.text);
	return 0;
}

static int open_one(struct row_source *source, const json_t *from, struct jsonrpc_client **first, FILE *ps,
		    struct star_error *err)
{
	const char *control = json_string_value(json_object_get(from, "control"));
	const json_int_t reactors = json_integer_value(json_object_get(from, "reactors"));
	struct row_node *node = &source->nodes[source->nodes_count];

	if (!control || reactors < 1 || reactors > WIRE_REACTORS_MAX || !json_is_true(json_object_get(from, "joined")))
		return star_error_set(err, -EAGAIN, "PS task %u has not joined the cluster", source->nodes_count);
	fprintf(ps, "%s%s", source->nodes_count ? "," : "tcp:", control);
	node->reactors = (uint32_t)reactors;
	/* The existing connection is PS task 0's. */
	node->client = source->nodes_count == 0 ? *first : connect_node(control, STARCTL_CALL_US, err);
	if (source->nodes_count == 0)
		*first = NULL;
	source->nodes_count++;
	return node->client ? 0 : err->code;
}

static int open_nodes(struct row_source *source, const json_t *status, struct jsonrpc_client **first,
		      struct star_error *err)
{
	const json_t *nodes = json_object_get(status, "nodes"), *node;
	const json_int_t partitions = json_integer_value(json_object_get(status, "partitions"));
	size_t i, bytes;
	FILE *ps;
	int rc = 0;

	if (!json_array_size(nodes) || json_array_size(nodes) > WIRE_NODES_MAX || partitions < 1 ||
	    partitions > WIRE_PARTITIONS_MAX)
		return star_error_set(err, -EINVAL, "the node does not report the cluster's nodes");
	source->partitions = (uint32_t)partitions;
	source->nodes = calloc(json_array_size(nodes), sizeof(*source->nodes));
	ps = open_memstream(&source->ps, &bytes);
	if (!source->nodes || !ps)
		rc = star_error_set(err, -ENOMEM, "out of memory");
	json_array_foreach(nodes, i, node)
	{
		if (rc == 0)
			rc = open_one(source, node, first, ps, err);
	}
	if (ps)
		fclose(ps);
	return rc;
}

int row_source_open(struct row_source *source, const struct invocation *invocation, const char *table,
		    struct star_error *err)
{
	struct jsonrpc_client *client = open_node(invocation, true, err);
	json_t *status = client ? cluster_ask_leader(&client, err) : NULL, *definition = NULL;
	int rc = status ? 0 : err->code;

	*source = (struct row_source){ 0 };
	if (rc == 0)
		rc = open_nodes(source, status, &client, err);
	for (uint32_t i = 0; rc == 0 && i < source->nodes_count; i++)
		rc = note_table(&source->nodes[i], table, i == 0 ? &definition : NULL, err);
	if (rc == 0)
		rc = note_definition(source, definition, err);
	json_decref(definition);
	json_decref(status);
	jsonrpc_close(client);
	return rc;
}

void row_source_close(struct row_source *source)
{
	for (uint32_t i = 0; i < source->nodes_count; i++)
		jsonrpc_close(source->nodes[i].client);
	free(source->nodes);
	free(source->ps);
	*source = (struct row_source){ 0 };
}

/* ---- rows ---- */

static int nibble(char digit)
{
	return digit >= '0' && digit <= '9' ? digit - '0' : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* Decodes the digits of a row of that key. */
static bool decode(const json_t *json, uint64_t key, uint8_t *record, uint32_t bytes)
{
	const char *text = json_string_value(json);
	uint64_t found;

	if (!text || json_string_length(json) != 2 * (size_t)bytes)
		return false;
	for (uint32_t i = 0; i < bytes; i++) {
		const int high = nibble(text[2 * i]), low = nibble(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		record[i] = (uint8_t)(high << 4 | low);
	}
	memcpy(&found, record, sizeof(found));
	return found == key;
}

static json_t *ask_rows(struct row_source *source, uint32_t node, const uint64_t *keys, size_t n,
			struct star_error *err)
{
	json_t *list = json_array(), *params = jsonrpc_object_handle(&source->spec);

	for (size_t i = 0; i < n && i < CONTROL_ROWS_KEYS; i++)
		json_array_append_new(list, jsonrpc_member_from_u64(keys[i]));
	json_object_set_new(params, "keys", list);
	return jsonrpc_call(source->nodes[node].client, "rows", params, STARCTL_CALL_US, err);
}

int row_source_read(struct row_source *source, uint32_t node, const uint64_t *keys, size_t n, row_consumer *take,
		    void *ctx, struct star_error *err)
{
	uint8_t *record = malloc(source->shape.bytes);
	int rc = record ? 0 : star_error_set(err, -ENOMEM, "out of memory");
	size_t done = 0, i;

	while (rc == 0 && done < n) {
		json_t *result = ask_rows(source, node, keys + done, n - done, err), *row;
		const json_t *rows = json_object_get(result, "rows");
		const size_t got = json_array_size(rows);

		if (!result)
			rc = err->code;
		else if (got == 0 || got > n - done)
			rc = star_error_set(err, -EPROTO, "PS task %u returned other rows than requested", node);
		for (i = 0; rc == 0 && i < got; i++) {
			row = json_array_get(rows, i);
			if (json_is_null(row))
				rc = take(ctx, keys[done + i], NULL, err);
			else if (decode(row, keys[done + i], record, source->shape.bytes))
				rc = take(ctx, keys[done + i], record, err);
			else
				rc = star_error_set(err, -EPROTO,
						    "PS task %u returned something that is not a row of \"%s\"", node,
						    source->spec.name);
		}
		done += got;
		json_decref(result);
	}
	free(record);
	return rc;
}

/* The next keys of a reactor; the caller frees them. *at is 0 after the last. */
static int ask_keys(struct row_source *source, uint32_t node, uint32_t reactor, uint64_t *at, uint64_t **keys,
		    size_t *n, struct star_error *err)
{
	json_t *params = jsonrpc_object_handle(&source->spec), *result;
	const json_t *list, *key;
	size_t i;
	bool ok;

	json_object_set_new(params, "reactor", json_integer((int)reactor));
	json_object_set_new(params, "at", jsonrpc_member_from_u64(*at));
	result = jsonrpc_call(source->nodes[node].client, "row_keys", params, STARCTL_CALL_US, err);
	if (!result)
		return err->code;
	list = json_object_get(result, "keys");
	ok = json_is_array(list) && jsonrpc_member_to_u64(json_object_get(result, "at"), at);
	*n = json_array_size(list);
	*keys = malloc((*n + 1) * sizeof(**keys));
	json_array_foreach(list, i, key)
	{
		ok = ok && *keys && jsonrpc_member_to_u64(key, &(*keys)[i]);
	}
	json_decref(result);
	return ok ? 0 : star_error_set(err, -EPROTO, "PS task %u returned something that is not a list of keys", node);
}

static int walk_reactor(struct row_source *source, uint32_t node, uint32_t reactor, row_consumer *take, void *ctx,
			struct star_error *err)
{
	uint64_t at = 0;
	int rc;

	do {
		uint64_t *keys = NULL;
		size_t n = 0;

		rc = ask_keys(source, node, reactor, &at, &keys, &n, err);
		if (rc == 0)
			rc = row_source_read(source, node, keys, n, take, ctx, err);
		free(keys);
	} while (rc == 0 && at != 0);
	return rc;
}

int row_source_walk(struct row_source *source, row_consumer *take, void *ctx, struct star_error *err)
{
	int rc = 0;

	for (uint32_t node = 0; rc == 0 && node < source->nodes_count; node++)
		for (uint32_t reactor = 0; rc == 0 && reactor < source->nodes[node].reactors; reactor++)
			rc = walk_reactor(source, node, reactor, take, ctx, err);
	return rc;
}
