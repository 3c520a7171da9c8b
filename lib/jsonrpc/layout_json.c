/* SPDX-License-Identifier: BSD-3-Clause */
#include "jsonrpc/object_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jsonrpc/member.h"

json_t *jsonrpc_layout_encode(const struct layout *layout)
{
	json_t *nodes = json_array();

	for (uint32_t i = 0; i < layout->nodes_count; i++) {
		const struct layout_node *node = &layout->nodes[i];

		json_t *json = json_pack("{s:i, s:I, s:s, s:i, s:i, s:I}", "task", (int)i, "incarnation",
					 (json_int_t)node->incarnation, "data_host", node->data_host, "data_port",
					 node->data_port, "reactors", (int)node->reactors, "request_max",
					 (json_int_t)node->request_max);

		if (node->steering.entries)
			json_object_set_new(json, "steering", jsonrpc_steering_encode(&node->steering));
		if (node->standby.data_host[0])
			json_object_set_new(json, "standby",
					    json_pack("{s:s, s:s, s:i}", "control", node->standby.control, "data_host",
						      node->standby.data_host, "data_port", node->standby.data_port));
		if (node->control[0])
			json_object_set_new(json, "tickets", json_string(node->control));
		json_array_append_new(nodes, json);
	}
	return json_pack("{s:I, s:i, s:i, s:o}", "epoch", (json_int_t)layout->epoch, "partitions",
			 (int)layout->partitions, "reactors", (int)layout->reactors, "nodes", nodes);
}

static bool is_printable(const char *host)
{
	for (const char *c = host; *c; c++)
		if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f)
			return false;
	return true;
}

static int read_standby(const json_t *json, struct layout_node *node, struct star_error *err)
{
	const char *host, *control;
	uint32_t port;

	memset(&node->standby, 0, sizeof(node->standby));
	if (!json)
		return 0;
	if (jsonrpc_member_string(json, "data_host", sizeof(node->standby.data_host) - 1, &host, err) < 0 ||
	    jsonrpc_member_string(json, "control", sizeof(node->standby.control) - 1, &control, err) < 0 ||
	    jsonrpc_member_u32(json, "data_port", 1, UINT16_MAX - node->reactors + 1, &port, err) < 0)
		return -EINVAL;
	if (!is_printable(host) || !is_printable(control))
		return star_error_set(err, -EINVAL, "member \"standby\" has no addresses");
	strcpy(node->standby.data_host, host);
	strcpy(node->standby.control, control);
	node->standby.data_port = (uint16_t)port;
	return 0;
}

int jsonrpc_layout_node_decode(const json_t *json, struct layout_node *node, struct star_error *err)
{
	const char *host, *tickets = "";
	uint32_t port;

	if (!json_is_object(json))
		return star_error_set(err, -EINVAL, "a node must be a JSON object");
	if (jsonrpc_member_u32(json, "incarnation", 1, UINT32_MAX, &node->incarnation, err) < 0 ||
	    jsonrpc_member_string(json, "data_host", sizeof(node->data_host) - 1, &host, err) < 0 ||
	    jsonrpc_member_u32(json, "data_port", 1, UINT16_MAX, &port, err) < 0 ||
	    jsonrpc_member_u32(json, "reactors", 1, WIRE_REACTORS_MAX, &node->reactors, err) < 0)
		return -EINVAL;
	node->request_max = WIRE_PAYLOAD_DEFAULT;
	if (json_object_get(json, "request_max") &&
	    jsonrpc_member_u32(json, "request_max", 1 << 20, WIRE_PAYLOAD_MAX, &node->request_max, err) < 0)
		return -EINVAL;
	if (!is_printable(host))
		return star_error_set(err, -EINVAL, "member \"data_host\" is not an address");
	if (read_standby(json_object_get(json, "standby"), node, err) < 0)
		return -EINVAL;
	if (json_object_get(json, "tickets") &&
	    jsonrpc_member_string(json, "tickets", sizeof(node->control) - 1, &tickets, err) < 0)
		return -EINVAL;
	strcpy(node->control, tickets);
	if (port + node->reactors - 1 > UINT16_MAX)
		return star_error_set(
			err, -EINVAL,
			"member \"data_port\" is %u: the last of %u reactors would have a port above 65535", port,
			node->reactors);
	strcpy(node->data_host, host);
	node->data_port = (uint16_t)port;
	return jsonrpc_steering_decode(json_object_get(json, "steering"), node->reactors, &node->steering, err);
}

static int read_nodes(const json_t *nodes, struct layout *layout, struct star_error *err)
{
	uint32_t reactors = 0, task;
	const json_t *json;
	size_t i;

	json_array_foreach(nodes, i, json)
	{
		if (jsonrpc_layout_node_decode(json, &layout->nodes[i], err) < 0 ||
		    jsonrpc_member_u32(json, "task", 0, WIRE_NODES_MAX - 1, &task, err) < 0)
			return -EINVAL;
		if (task != i)
			return star_error_set(err, -EINVAL, "member \"nodes\": task %u is entry %zu", task, i);
		reactors += layout->nodes[i].reactors;
	}
	if (reactors != layout->reactors)
		return star_error_set(err, -EINVAL, "member \"reactors\" is %u, but the nodes have %u",
				      layout->reactors, reactors);
	return 0;
}

struct layout *jsonrpc_layout_decode(const json_t *json, struct star_error *err)
{
	const json_t *nodes = json_object_get(json, "nodes");
	const size_t count = json_array_size(nodes);
	struct layout *layout;

	if (count < 1 || count > WIRE_NODES_MAX) {
		star_error_set(err, -EINVAL, "member \"nodes\" must be an array of 1 to %d nodes", WIRE_NODES_MAX);
		return NULL;
	}
	layout = calloc(1, sizeof(*layout) + count * sizeof(layout->nodes[0]));
	if (!layout) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	layout->nodes_count = (uint32_t)count;
	if (jsonrpc_member_u32(json, "epoch", 1, UINT32_MAX, &layout->epoch, err) < 0 ||
	    jsonrpc_member_u32(json, "partitions", 1, WIRE_PARTITIONS_MAX, &layout->partitions, err) < 0 ||
	    jsonrpc_member_u32(json, "reactors", 1, WIRE_NODES_MAX * WIRE_REACTORS_MAX, &layout->reactors, err) < 0 ||
	    read_nodes(nodes, layout, err) < 0)
		goto fail;
	if (layout->partitions & (layout->partitions - 1)) {
		star_error_set(err, -EINVAL, "member \"partitions\" is %u: it must be a power of two",
			       layout->partitions);
		goto fail;
	}
	return layout;
fail:
	free(layout);
	return NULL;
}
