/* SPDX-License-Identifier: BSD-3-Clause */
/* What a node says of itself when it joins: reads it, and compares it with this cluster. */
#include "control/join.h"

#include <errno.h>
#include <string.h>

#include "jsonrpc/member.h"

/* For a node that keeps a journal. */
static int read_journal(const json_t *params, struct control_join *join, struct star_error *err)
{
	join->journal = true;
	if (jsonrpc_member_u64(params, "taken_back", &join->taken_back, err) < 0 ||
	    jsonrpc_member_bool(params, "recovers", &join->recovers, err) < 0)
		return -EINVAL;
	return 0;
}

/* For a node of a pair: which of the task's two nodes it is. */
static int read_pair(const struct control *control, const json_t *params, struct control_join *join,
		     struct star_error *err)
{
	const char *address;

	if (jsonrpc_member_u64(params, "generation", &join->generation, err) < 0 ||
	    jsonrpc_member_string(params, "control", CONTROL_ADDRESS_MAX - 1, &address, err) < 0)
		return -EINVAL;
	for (unsigned second = 0; second < 2; second++) {
		const struct config_address *known = config_ps_address(control->config, join->task, second);

		if (!known || strcmp(config_show(known->host, known->port).text, address) != 0)
			continue;
		join->second = second;
		return 0;
	}
	return star_error_set(
		err, -EINVAL,
		"PS task %u comes from %s, which cluster.ps[%u] of PS task 0 does not have: give all nodes "
		"the same list of PS tasks",
		join->task, address, join->task);
}

/* For a node that serves a layout. */
static int read_place(const json_t *params, struct control_place *place, struct star_error *err)
{
	if (jsonrpc_member_u32(params, "cluster_reactors", 1, WIRE_NODES_MAX * WIRE_REACTORS_MAX, &place->reactors,
			       err) < 0 ||
	    jsonrpc_member_u32(params, "first_reactor", 0, place->reactors - 1, &place->first, err) < 0)
		return -EINVAL;
	return 0;
}

int control_join_read(const struct control *control, const json_t *params, struct control_join *join,
		      struct star_error *err)
{
	/* clang-format off */
	static const char *const members[] = {
		"task", "incarnation", "data_host", "data_port", "reactors", "partitions", "ps_count", "epoch",
		"objects_count", "objects", "steering", "request_max", "cluster_reactors", "first_reactor",
		"refused", "taken_back", "recovers", "inherited", "generation", "control", "standby", "objects_more",
		"objects_from", "data", NULL,
	};
	/* clang-format on */
	const uint32_t last = control->config->ps_count - 1;
	const char *data;

	*join = (struct control_join){ .data = SECURE_DATA_OPEN };
	if (last == 0)
		return star_error_set(
			err, -EINVAL,
			"this cluster has one PS task, nobody can join it; give all nodes the same list of PS tasks");
	if (jsonrpc_member_only(params, members, err) < 0 ||
	    jsonrpc_member_u32(params, "task", 1, last, &join->task, err) < 0 ||
	    jsonrpc_layout_node_decode(params, &join->node, err) < 0 ||
	    jsonrpc_member_u32(params, "partitions", 1, WIRE_PARTITIONS_MAX, &join->partitions, err) < 0 ||
	    jsonrpc_member_u32(params, "ps_count", 1, WIRE_NODES_MAX, &join->ps_count, err) < 0 ||
	    jsonrpc_member_u32(params, "epoch", 0, CONTROL_EPOCH_MAX, &join->epoch, err) < 0 ||
	    (join->epoch && read_place(params, &join->place, err) < 0) ||
	    jsonrpc_member_u32(params, "objects_count", 0, WIRE_OBJECTS_MAX, &join->objects_count, err) < 0)
		return -EINVAL;
	join->incarnation = join->node.incarnation;
	if (json_object_get(params, "data")) {
		if (jsonrpc_member_string(params, "data", SECURE_NAME_MAX, &data, err) < 0)
			return -EINVAL;
		join->data = secure_data_from(data);
	}
	if ((json_object_get(params, "taken_back") && read_journal(params, join, err) < 0) ||
	    (json_object_get(params, "generation") && read_pair(control, params, join, err) < 0))
		return -EINVAL;
	if ((join->journal || join->generation) &&
	    jsonrpc_member_u32(params, "inherited", 1, UINT32_MAX, &join->node.incarnation, err) < 0)
		return -EINVAL;
	join->objects = json_object_get(params, "objects");
	join->more = json_object_get(params, "objects_more");
	join->from = 1;
	if ((join->more && jsonrpc_member_bool(params, "objects_more", &join->more, err) < 0) ||
	    (json_object_get(params, "objects_from") &&
	     jsonrpc_member_u32(params, "objects_from", 1, WIRE_OBJECTS_MAX, &join->from, err) < 0))
		return -EINVAL;
	if (join->objects && (!json_is_array(join->objects) || json_array_size(join->objects) > JSONRPC_OBJECTS_PAGE))
		return star_error_set(err, -EINVAL, "member \"objects\" must be an array of at most %d objects",
				      JSONRPC_OBJECTS_PAGE);
	join->refused = json_object_get(params, "refused");
	if (join->refused && !json_is_array(join->refused))
		return star_error_set(err, -EINVAL, "member \"refused\" must be an array of ids");
	return 0;
}

static bool overlap(const struct layout_node *a, const struct layout_node *b)
{
	return a->incarnation && b->incarnation && strcmp(a->data_host, b->data_host) == 0 &&
	       a->data_port < b->data_port + b->reactors && b->data_port < a->data_port + a->reactors;
}

/* Workers connect to the addresses in the layout, so a node's data address must be that of the endpoint map, if that
 * has one. */
static int check_data_address(const struct config *config, const struct control_join *join, struct star_error *err)
{
	for (uint32_t i = 0; i < config->endpoints_count; i++) {
		const struct config_endpoint *e = &config->endpoints[i];
		const struct config_address *known = config_ps_address(config, join->task, join->second);

		if (e->control.port != known->port || strcmp(e->control.host, known->host) != 0)
			continue;
		/* With the kernel's sockets the endpoint map may have a name, which the node itself has resolved. */
		if (e->data.port == join->node.data_port &&
		    (strcmp(e->data.host, join->node.data_host) == 0 || !config_is_literal(e->data.host)))
			return 0;
		return star_error_set(err, -EINVAL,
				      "PS task %u says that its data address is %s, and the endpoint map of PS task 0 "
				      "has %s: give all "
				      "nodes the same map",
				      join->task, config_show(join->node.data_host, join->node.data_port).text,
				      config_show(e->data.host, e->data.port).text);
	}
	return 0;
}

/* Each reactor needs at least one partition: workers refuse other layouts, and the last reactors would have no rows.
 * Each node has checked only its own reactors. Under lock. */
static int check_partitions(const struct control *control, const struct control_join *join, struct star_error *err)
{
	const struct config *config = control->config;
	uint32_t reactors = join->node.reactors;

	for (uint32_t task = 0; task < config->ps_count; task++) {
		const uint32_t others = control->nodes[task].layout.reactors;

		if (task != join->task)
			reactors += others ? others : 1;
	}
	if (reactors <= config->partitions)
		return 0;
	return star_error_set(
		err, -EINVAL,
		"with the %u reactors of PS task %u the cluster has at least %u, more than its %u partitions: give it "
		"fewer (cores.number), or, if the cluster has no rows and no checkpoints yet, all nodes a greater "
		"cluster.partitions",
		join->node.reactors, join->task, reactors, config->partitions);
}

/* Whether what the node says fits this cluster. */
int control_join_check(struct control *control, const struct control_join *join, struct star_error *err)
{
	const struct config *config = control->config;
	int rc = 0;

	if (join->partitions != config->partitions)
		return star_error_set(err, -EINVAL,
				      "PS task %u has %u partitions, PS task 0 has %u: give all nodes the same number",
				      join->task, join->partitions, config->partitions);
	if (join->ps_count != config->ps_count)
		return star_error_set(err, -EINVAL,
				      "PS task %u knows %u PS tasks, PS task 0 knows %u: give all nodes the same list",
				      join->task, join->ps_count, config->ps_count);
	if (join->data != control_security_data(control))
		return star_error_set(err, -EINVAL,
				      "PS task %u has another security.data than PS task 0, whose data network is %s: "
				      "give all nodes the same",
				      join->task, secure_data_name(control_security_data(control)));
	if (join->journal != control->history.kept)
		return star_error_set(err, -EINVAL,
				      "PS task %u keeps %s journal, and PS task 0 keeps %s: give all nodes a "
				      "journal.directory, or none",
				      join->task, join->journal ? "a" : "no", join->journal ? "none" : "one");
	pthread_mutex_lock(&control->lock);
	rc = check_partitions(control, join, err);
	for (uint32_t task = 0; rc == 0 && task < config->ps_count; task++) {
		const struct layout_node *other = &control->nodes[task].layout;

		if (task != join->task && overlap(&join->node, other))
			rc = star_error_set(err, -EADDRINUSE,
					    "the data ports %u to %u of PS task %u on %s overlap with those of PS task "
					    "%u, %u to %u",
					    join->node.data_port, join->node.data_port + join->node.reactors - 1,
					    join->task, join->node.data_host, task, other->data_port,
					    other->data_port + other->reactors - 1);
	}
	pthread_mutex_unlock(&control->lock);
	return rc < 0 ? rc : check_data_address(config, join, err);
}
