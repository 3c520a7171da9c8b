/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/starctl/cluster_nodes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/frame.h"

static int open_one(struct cluster *cluster, const json_t *from, unsigned task, struct jsonrpc_client **first)
{
	const char *control = json_string_value(json_object_get(from, "control"));
	struct cluster_one *node = &cluster->nodes[cluster->count++];

	snprintf(node->name, sizeof(node->name), "ps:%u", task);
	snprintf(node->control, sizeof(node->control), "%s", control ? control : "");
	/* The existing connection is PS task 0's. */
	if (task == 0 && *first) {
		node->client = *first;
		*first = NULL;
	} else if (!control) {
		star_error_set(&node->why, -EPROTO, "its address is unknown");
	}
	return 0;
}

static int open_whole(struct cluster *cluster, struct jsonrpc_client **client, struct star_error *err)
{
	json_t *status = cluster_ask_leader(client, err);
	const json_t *nodes = json_object_get(status, "nodes"), *node;
	int rc = status ? 0 : err->code;
	size_t task;

	if (rc == 0 && (json_array_size(nodes) == 0 || json_array_size(nodes) > WIRE_NODES_MAX))
		rc = star_error_set(err, -EPROTO, "the node does not report the cluster's nodes");
	if (rc == 0)
		cluster->nodes = calloc(json_array_size(nodes), sizeof(*cluster->nodes));
	if (rc == 0 && !cluster->nodes)
		rc = star_error_set(err, -ENOMEM, "out of memory");
	json_array_foreach(nodes, task, node)
	{
		if (rc == 0)
			rc = open_one(cluster, node, (unsigned)task, client);
	}
	json_decref(status);
	return rc;
}

static int open_alone(struct cluster *cluster, struct jsonrpc_client **client, struct star_error *err)
{
	json_t *status = jsonrpc_call(*client, "status", NULL, STARCTL_CALL_US, err);
	const char *name = json_string_value(json_object_get(status, "name"));

	cluster->nodes = status ? calloc(1, sizeof(*cluster->nodes)) : NULL;
	if (status && !cluster->nodes)
		star_error_set(err, -ENOMEM, "out of memory");
	if (cluster->nodes) {
		snprintf(cluster->nodes[0].name, sizeof(cluster->nodes[0].name), "%s", name ? name : "?");
		cluster->nodes[0].client = *client;
		cluster->count = 1;
		*client = NULL;
	}
	json_decref(status);
	return cluster->nodes ? 0 : err->code;
}

int cluster_open(struct cluster *cluster, const struct invocation *invocation, bool whole, struct star_error *err)
{
	struct jsonrpc_client *client = open_node(invocation, true, err);
	int rc;

	*cluster = (struct cluster){ 0 };
	if (!client)
		return err->code;
	rc = whole ? open_whole(cluster, &client, err) : open_alone(cluster, &client, err);
	jsonrpc_close(client);
	if (rc < 0)
		cluster_close(cluster);
	return rc;
}

void cluster_close(struct cluster *cluster)
{
	for (unsigned i = 0; i < cluster->count; i++)
		jsonrpc_close(cluster->nodes[i].client);
	free(cluster->nodes);
	*cluster = (struct cluster){ 0 };
}

/* Not before it is queried: a node closes silent connections (CONTROL_GREETING_US), and earlier nodes may have taken
 * long. */
static void connect_one(struct cluster_one *one)
{
	if (!one->tried && !one->client && one->control[0])
		one->client = connect_node(one->control, STARCTL_CALL_US, &one->why);
	one->tried = true;
}

json_t *cluster_ask(struct cluster *cluster, unsigned node, const char *method, json_t *params)
{
	struct cluster_one *one = &cluster->nodes[node];

	connect_one(one);
	if (one->client)
		return jsonrpc_call(one->client, method, params, STARCTL_CALL_US, &one->why);
	json_decref(params);
	return NULL;
}

void cluster_lose(struct cluster *cluster, unsigned node)
{
	jsonrpc_close(cluster->nodes[node].client);
	cluster->nodes[node].client = NULL;
}

void cluster_again(struct cluster *cluster, unsigned node, uint64_t timeout_us)
{
	struct cluster_one *one = &cluster->nodes[node];

	if (one->control[0])
		one->client = connect_node(one->control, timeout_us, &one->why);
}

unsigned cluster_complain(const struct cluster *cluster, const struct invocation *invocation)
{
	unsigned missing = 0;

	for (unsigned i = 0; i < cluster->count; i++) {
		if (!cluster->nodes[i].why.text[0])
			continue;
		fprintf(invocation->errors, "starctl: %s: ", cluster->nodes[i].name);
		print_text(cluster->nodes[i].why.text, invocation->errors);
		fputc('\n', invocation->errors);
		missing++;
	}
	return missing;
}
