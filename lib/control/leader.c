/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PS task 0: the catalogue and the layout.
 *
 * A node counts as joined once it holds the whole catalogue. So a node that was restarted is given the catalogue first,
 * and only when it has installed it do workers get a layout with its new incarnation. A node that comes with objects is
 * believed: they can only stem from an earlier incarnation of PS task 0, whose catalogue is restored in this way.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/jsonrpc_message.h"
#include "control/member.h"
#include "control/node.h"

/* A join, read and checked by itself. */
struct join {
	uint32_t task, epoch, partitions, ps_count, objects_count;
	struct layout_node node;
	const json_t *objects; /* NULL or an array */
};

static bool holds(const struct cluster_node *node, uint32_t id)
{
	return node->holds[id / 64] >> (id % 64) & 1;
}

static void set_holds(struct cluster_node *node, uint32_t id)
{
	node->holds[id / 64] |= UINT64_C(1) << (id % 64);
}

/* "1, 2 and 5 more": the tasks that have not joined. Under lock. */
static unsigned missing(const struct control *control, char *text, size_t size)
{
	enum { NAMED_MAX = 8 };
	unsigned count = 0;
	size_t used = 0;

	text[0] = 0;
	for (uint32_t task = 0; task < control->config->ps_count; task++) {
		if (control->nodes[task].joined)
			continue;
		if (count < NAMED_MAX)
			used += (size_t)snprintf(text + used, size - used, "%s%u", count ? ", " : "", task);
		count++;
	}
	if (count > NAMED_MAX)
		snprintf(text + used, size - used, " and %u more", count - NAMED_MAX);
	return count;
}

int leader_laid_out(const struct control *control, struct star_error *err)
{
	char tasks[128];
	unsigned count = missing(control, tasks, sizeof(tasks));

	if (count)
		return star_error_set(err, -EAGAIN, "waiting for PS task%s %s to join", count > 1 ? "s" : "", tasks);
	if (control->goes_back)
		return star_error_set(err, -EAGAIN, "waiting for all nodes to go back to checkpoint %" PRIu64,
				      control->begins_with);
	if (control->layout_due)
		return star_error_set(err, -EAGAIN, "waiting for this node's reactors to take over the new layout");
	return 0;
}

static uint32_t first_reactor(const struct control *control, uint32_t task)
{
	uint32_t first = 0;

	for (uint32_t i = 0; i < task; i++)
		first += control->nodes[i].layout.reactors;
	return first;
}

/* Calls `install` of another node. */
static int tell(struct control *control, uint32_t task, json_t *params, uint64_t deadline_us, struct star_error *err)
{
	const uint64_t until_us = clock_us() + deadline_us;
	char address[CONTROL_ADDRESS_MAX];
	struct jsonrpc_client *client;
	json_t *result = NULL;
	uint64_t now_us;

	control_ps_address(control, task, address);
	client = jsonrpc_connect(address, deadline_us, err);
	now_us = clock_us();
	if (client)
		result = control_call(control, CALLER_EXECUTOR, client, "install", json_incref(params),
				      now_us < until_us ? until_us - now_us : 0, err);
	json_decref(params);
	jsonrpc_close(client);
	json_decref(result);
	return result ? 0 : err->code;
}

static uint64_t peer_deadline_us(const struct control *control)
{
	const uint64_t configured_us = (uint64_t)control->config->connect_timeout_ms * 1000;

	return configured_us && configured_us < CONTROL_PEER_US ? configured_us : CONTROL_PEER_US;
}

/* Brings an object of the catalogue to all nodes that do not hold it yet. */
static int spread(struct control *control, const struct object_spec *spec, struct star_error *err)
{
	for (uint32_t task = 1; task < control->config->ps_count; task++) {
		struct star_error why = { 0 };
		bool has;
		int rc;

		pthread_mutex_lock(&control->lock);
		has = holds(&control->nodes[task], spec->id);
		pthread_mutex_unlock(&control->lock);
		if (has)
			continue;
		if (control_is_stopping(control))
			return star_error_set(err, -ECANCELED, "PS task 0 is shutting down");
		rc = tell(control, task, json_pack("{s:o}", "object", object_to_json(spec)), peer_deadline_us(control),
			  &why);
		if (rc < 0)
			return star_error_set(
				err, rc, "\"%s\" is not yet on PS task %u: %s. Create it again when that is mended",
				spec->name, task, why.text);
		pthread_mutex_lock(&control->lock);
		set_holds(&control->nodes[task], spec->id);
		pthread_mutex_unlock(&control->lock);
	}
	return 0;
}

/* Under lock. */
static uint32_t count_programs(const struct control *control)
{
	uint32_t count = 0;

	for (uint32_t id = 1; id <= control->objects_last; id++)
		count += control->objects[id] && control->objects[id]->kind == OBJECT_PROGRAM;
	return count;
}

/* Gives the spec the id of its name, or the next free one. */
static int identify(struct control *control, struct object_spec *spec, struct star_error *err)
{
	const struct object_spec *have;
	int rc;

	pthread_mutex_lock(&control->lock);
	have = control_find(control, spec->name);
	rc = leader_laid_out(control, err);
	if (rc == 0 && have) {
		rc = object_spec_same(have, spec, err);
		spec->id = have->id;
	} else if (rc == 0) {
		spec->id = control->objects_last + 1;
		if (spec->id > WIRE_OBJECTS_MAX)
			rc = star_error_set(err, -ENOSPC, "the catalogue is full: %d tables and variables are possible",
					    WIRE_OBJECTS_MAX);
		else if (spec->kind == OBJECT_PROGRAM && count_programs(control) >= PROGRAMS_MAX)
			rc = star_error_set(err, -ENOSPC, "the catalogue has %d programs: no more are possible",
					    PROGRAMS_MAX);
	}
	pthread_mutex_unlock(&control->lock);
	return rc;
}

int leader_adopt(struct control *control, const struct object_spec *spec, struct star_error *err)
{
	int rc = control_install(control, spec, err);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&control->lock);
	set_holds(&control->nodes[0], spec->id);
	pthread_mutex_unlock(&control->lock);
	return 0;
}

/* The largest request that all nodes take, as far as they are known. */
static uint32_t least_request(struct control *control)
{
	uint32_t least = WIRE_PAYLOAD_MAX;

	pthread_mutex_lock(&control->lock);
	for (uint32_t task = 0; task < control->config->ps_count; task++) {
		const struct layout_node *node = &control->nodes[task].layout;

		if (node->incarnation && node->request_max < least)
			least = node->request_max;
	}
	pthread_mutex_unlock(&control->lock);
	return least;
}

int leader_create(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	struct object_spec spec;
	int rc;

	if (object_from_json(params, &spec, err) < 0)
		return control_invalid(err);
	if (spec.id) {
		star_error_set(err, -EINVAL, "member \"id\" is given by the catalogue: leave it out");
		return control_invalid(err);
	}
	if (object_check_whole(&spec, least_request(control), err) < 0)
		return control_invalid(err);
	rc = identify(control, &spec, err);
	if (rc == 0)
		rc = leader_adopt(control, &spec, err);
	if (rc == 0)
		rc = spread(control, &spec, err);
	if (rc == 0)
		*result = object_to_json(&spec);
	return rc;
}

int leader_lookup(struct control *control, const char *name, json_t **result, struct star_error *err)
{
	const struct object_spec *spec;
	int rc = 0;

	pthread_mutex_lock(&control->lock);
	spec = control_find(control, name);
	if (!spec || spec->kind == OBJECT_PROGRAM)
		rc = star_error_set(err, -ENOENT, "there is no table or variable \"%s\"", name);
	for (uint32_t task = 0; rc == 0 && task < control->config->ps_count; task++)
		if (!holds(&control->nodes[task], spec->id))
			rc = star_error_set(err, -EAGAIN,
					    "\"%s\" is not yet on PS task %u: look it up again, or create it again",
					    name, task);
	pthread_mutex_unlock(&control->lock);
	if (rc == 0)
		*result = object_to_json(spec);
	return rc;
}

int leader_sweep(struct control *control, const char *name, json_t **result, struct star_error *err)
{
	int rc = control_sweep(control, name, err);

	for (uint32_t task = 1; rc == 0 && task < control->config->ps_count; task++) {
		struct star_error why = { 0 };

		if (control_is_stopping(control))
			return star_error_set(err, -ECANCELED, "PS task 0 is shutting down");
		rc = tell(control, task, json_pack("{s:s}", "sweep", name), peer_deadline_us(control), &why);
		if (rc < 0)
			star_error_set(err, rc, "\"%s\" is not swept on PS task %u and those after it: %s", name, task,
				       why.text);
	}
	if (rc == 0)
		*result = json_pack("{s:i}", "nodes", (int)control->config->ps_count);
	return rc;
}

int leader_layout(struct control *control, json_t **result, struct star_error *err)
{
	const uint32_t count = control->config->ps_count;
	struct layout *layout = calloc(1, sizeof(*layout) + count * sizeof(layout->nodes[0]));
	int rc;

	if (!layout)
		return star_error_set(err, -ENOMEM, "out of memory");
	pthread_mutex_lock(&control->lock);
	rc = leader_laid_out(control, err);
	layout->epoch = control->epoch;
	layout->partitions = control->config->partitions;
	layout->nodes_count = count;
	layout->reactors = control->cluster_reactors;
	for (uint32_t task = 0; task < count; task++)
		layout->nodes[task] = control->nodes[task].layout;
	pthread_mutex_unlock(&control->lock);
	if (rc == 0)
		*result = layout_to_json(layout);
	free(layout);
	return rc;
}

/* What a node is to serve. Under lock. */
static json_t *layout_for(const struct control *control, uint32_t task)
{
	return json_pack("{s:I, s:I, s:I, s:o}", "epoch", (json_int_t)control->epoch, "cluster_reactors",
			 (json_int_t)control->cluster_reactors, "first_reactor",
			 (json_int_t)first_reactor(control, task), "checkpoint", member_from_u64(control->begins_with));
}

/* Tells the other nodes, as far as that goes quickly; the heartbeats tell the rest. */
static void announce(struct control *control, uint32_t except)
{
	const uint64_t until_us = clock_us() + CONTROL_PUSH_US;

	for (uint32_t task = 1; task < control->config->ps_count; task++) {
		const uint64_t now_us = clock_us();
		struct star_error err = { 0 };
		json_t *layout;

		if (task == except)
			continue;
		if (now_us >= until_us || control_is_stopping(control))
			return;
		pthread_mutex_lock(&control->lock);
		layout = layout_for(control, task);
		pthread_mutex_unlock(&control->lock);
		if (tell(control, task, json_pack("{s:o}", "layout", layout), until_us - now_us, &err) < 0)
			log_warn("PS task %u learns the new layout by its next heartbeat: %s", task, err.text);
	}
}

int leader_lay_out(struct control *control, uint32_t except, struct star_error *err)
{
	struct control_layout layout = { .epoch = 0 };
	bool again;
	char tasks[128];
	int rc;

	pthread_mutex_lock(&control->lock);
	if (control->layout_due && missing(control, tasks, sizeof(tasks)) == 0) {
		layout.epoch = (control->epoch > control->epoch_floor ? control->epoch : control->epoch_floor) + 1;
		layout.cluster_reactors = first_reactor(control, control->config->ps_count);
	}
	layout.checkpoint = control->begins_with;
	again = control->epoch != 0;
	pthread_mutex_unlock(&control->lock);
	if (layout.epoch == 0)
		return 0;
	rc = again ? restore_look_again(control, err) : 0;
	if (rc == 0)
		rc = control_set_layout(control, &layout, err);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&control->lock);
	control->layout_due = false;
	pthread_mutex_unlock(&control->lock);
	announce(control, except);
	return 0;
}

static int read_join(const struct control *control, const json_t *params, struct join *join, struct star_error *err)
{
	static const char *const members[] = { "task",	     "incarnation", "data_host", "data_port",	  "reactors",
					       "partitions", "ps_count",    "epoch",	 "objects_count", "objects",
					       "steering",   "request_max", NULL };
	const uint32_t last = control->config->ps_count - 1;

	*join = (struct join){ 0 };
	if (last == 0)
		return star_error_set(
			err, -EINVAL,
			"this cluster has one PS task, nobody can join it; give all nodes the same list of PS tasks");
	if (member_only(params, members, err) < 0 || member_u32(params, "task", 1, last, &join->task, err) < 0 ||
	    layout_node_from_json(params, &join->node, err) < 0 ||
	    member_u32(params, "partitions", 1, WIRE_PARTITIONS_MAX, &join->partitions, err) < 0 ||
	    member_u32(params, "ps_count", 1, WIRE_NODES_MAX, &join->ps_count, err) < 0 ||
	    member_u32(params, "epoch", 0, INT32_MAX, &join->epoch, err) < 0 ||
	    member_u32(params, "objects_count", 0, WIRE_OBJECTS_MAX, &join->objects_count, err) < 0)
		return -EINVAL;
	join->objects = json_object_get(params, "objects");
	if (join->objects && (!json_is_array(join->objects) || json_array_size(join->objects) != join->objects_count))
		return star_error_set(err, -EINVAL, "member \"objects\" must be an array of objects_count objects");
	return 0;
}

static bool overlap(const struct layout_node *a, const struct layout_node *b)
{
	return a->incarnation && b->incarnation && strcmp(a->data_host, b->data_host) == 0 &&
	       a->data_port < b->data_port + b->reactors && b->data_port < a->data_port + a->reactors;
}

/* Does what the node brings fit to this cluster? */
static int check_join(struct control *control, const struct join *join, struct star_error *err)
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
	pthread_mutex_lock(&control->lock);
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
	return rc;
}

/* A node that joined before another one brought the objects has to join again: it lacks some now. Under lock. */
static void rejudge(struct control *control)
{
	for (uint32_t task = 1; task < control->config->ps_count; task++)
		for (uint32_t id = 1; id <= control->objects_last; id++)
			if (control->objects[id] && !holds(&control->nodes[task], id))
				control->nodes[task].joined = false;
}

/* Takes over the objects that the node brought; all are read before the first one counts. */
static int adopt_all(struct control *control, const struct join *join, struct star_error *err)
{
	struct object_spec *specs = calloc(join->objects_count + 1, sizeof(*specs));
	struct star_error why = { 0 };
	uint32_t count_before;
	const json_t *json;
	size_t i;
	int rc = specs ? 0 : star_error_set(err, -ENOMEM, "out of memory");

	json_array_foreach(join->objects, i, json)
	{
		if (rc == 0 && object_from_json(json, &specs[i], err) < 0)
			rc = control_invalid(err);
		if (rc == 0 && specs[i].id == 0)
			rc = star_error_set(err, JSONRPC_INVALID_PARAMS, "member \"objects\": \"%s\" has no id",
					    specs[i].name);
	}
	pthread_mutex_lock(&control->lock);
	count_before = control->objects_count;
	pthread_mutex_unlock(&control->lock);
	for (i = 0; rc == 0 && i < join->objects_count; i++) {
		rc = leader_adopt(control, &specs[i], &why);
		if (rc < 0)
			star_error_set(err, rc, "PS task %u holds what the catalogue cannot take: %s; restart it",
				       join->task, why.text);
	}
	pthread_mutex_lock(&control->lock);
	for (i = 0; rc == 0 && i < join->objects_count; i++)
		set_holds(&control->nodes[join->task], specs[i].id);
	if (control->objects_count != count_before)
		rejudge(control);
	pthread_mutex_unlock(&control->lock);
	free(specs);
	return rc;
}

/* Notes the node under its incarnation. Under lock. */
static int note(struct control *control, const struct join *join, struct star_error *err)
{
	struct cluster_node *node = &control->nodes[join->task];
	const struct layout_node *had = &node->layout, *has = &join->node;

	if (had->incarnation == has->incarnation) {
		if (strcmp(had->data_host, has->data_host) != 0 || had->data_port != has->data_port ||
		    had->reactors != has->reactors)
			return star_error_set(err, -EINVAL,
					      "PS task %u has changed its data address without a restart: %s, now %s",
					      join->task, config_show(had->data_host, had->data_port).text,
					      config_show(has->data_host, has->data_port).text);
		return 0;
	}
	if (had->incarnation)
		log_warn("PS task %u was restarted: its rows are lost", join->task);
	*node = (struct cluster_node){ .layout = *has };
	control->layout_due = true;
	return 0;
}

/* The reply to a join or heartbeat. Under lock. */
static json_t *standing(const struct control *control, uint32_t task)
{
	struct star_error err;
	const bool laid_out = leader_laid_out(control, &err) == 0;
	const struct cluster_node *node = &control->nodes[task];
	json_t *reply = json_pack("{s:I, s:b, s:i}", "incarnation", (json_int_t)control->incarnation, "joined",
				  node->joined, "objects_count", (int)control->objects_count);

	if (node->joined && laid_out)
		json_object_set_new(reply, "layout", layout_for(control, task));
	return reply;
}

/* Joined is who holds everything. Under lock. */
static void judge(struct control *control, const struct join *join)
{
	struct cluster_node *node = &control->nodes[join->task];

	node->seen_us = clock_us();
	if (join->objects_count != control->objects_count)
		return;
	for (uint32_t id = 1; id <= control->objects_last; id++)
		if (control->objects[id])
			set_holds(node, id);
	if (!node->joined)
		log_info("PS task %u has joined: %u reactors at %s", join->task, join->node.reactors,
			 config_show(join->node.data_host, join->node.data_port).text);
	node->joined = true;
}

int leader_join(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	struct join join;
	uint32_t count;
	int rc;

	if (read_join(control, params, &join, err) < 0)
		return control_invalid(err);
	rc = check_join(control, &join, err);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&control->lock);
	rc = note(control, &join, err);
	if (rc == 0 && join.epoch > control->epoch_floor)
		control->epoch_floor = join.epoch;
	if (rc == 0 && control->goes_back)
		rc = star_error_set(err, -EAGAIN, "PS task 0 begins anew with checkpoint %" PRIu64,
				    control->begins_with);
	pthread_mutex_unlock(&control->lock);
	if (rc == 0 && join.objects)
		rc = adopt_all(control, &join, err);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&control->lock);
	judge(control, &join);
	pthread_mutex_unlock(&control->lock);
	rc = leader_lay_out(control, join.task, err);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&control->lock);
	*result = standing(control, join.task);
	count = control->objects_count;
	pthread_mutex_unlock(&control->lock);
	if (count != join.objects_count)
		json_object_set_new(*result, "objects", control_objects_json(control, false));
	return 0;
}

int leader_heartbeat(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "task", "incarnation", "objects_count", NULL };
	uint32_t task, incarnation, count;
	struct cluster_node *node;
	char tasks[128];

	if (member_only(params, members, err) < 0 ||
	    member_u32(params, "task", 1, WIRE_NODES_MAX - 1, &task, err) < 0 ||
	    member_u32(params, "incarnation", 1, UINT32_MAX, &incarnation, err) < 0 ||
	    member_u32(params, "objects_count", 0, WIRE_OBJECTS_MAX, &count, err) < 0)
		return control_invalid(err);
	if (task >= control->config->ps_count)
		return star_error_set(err, -ENOENT, "this cluster has no PS task %u", task);
	pthread_mutex_lock(&control->lock);
	node = &control->nodes[task];
	*result = standing(control, task);
	/* Whoever has to change something is to join, which is the executor's work. */
	if (node->layout.incarnation != incarnation || !node->joined || count != control->objects_count ||
	    (control->layout_due && missing(control, tasks, sizeof(tasks)) == 0))
		json_object_set_new(*result, "joined", json_false());
	else
		node->seen_us = clock_us();
	pthread_mutex_unlock(&control->lock);
	return 0;
}

json_t *leader_nodes_json(struct control *control)
{
	const uint64_t now_us = clock_us();
	json_t *nodes = json_array();
	char address[CONTROL_ADDRESS_MAX];

	pthread_mutex_lock(&control->lock);
	for (uint32_t task = 0; task < control->config->ps_count; task++) {
		const struct cluster_node *node = &control->nodes[task];
		json_t *json;

		control_ps_address(control, task, address);
		json = json_pack("{s:i, s:s, s:b}", "task", (int)task, "control", address, "joined", node->joined);
		if (node->layout.incarnation) {
			const struct config_address_text data =
				config_show(node->layout.data_host, node->layout.data_port);

			json_object_set_new(json, "data", json_string(data.text));
			json_object_set_new(json, "reactors", json_integer(node->layout.reactors));
			json_object_set_new(json, "incarnation", json_integer(node->layout.incarnation));
		}
		if (task && node->seen_us)
			json_object_set_new(json, "silent_ms",
					    json_integer((json_int_t)((now_us - node->seen_us) / 1000)));
		json_array_append_new(nodes, json);
	}
	pthread_mutex_unlock(&control->lock);
	return nodes;
}
