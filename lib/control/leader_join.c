/* SPDX-License-Identifier: BSD-3-Clause */
/* PS task 0 and its nodes: how a node joins, what it brings, when it counts as joined, and what its heartbeats say. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "jsonrpc/jsonrpc_message.h"
#include "jsonrpc/member.h"
#include "control/join.h"
#include "control/node.h"

/* A node that joined before another one brought new objects must join again, because it lacks them. Under lock. */
static void rejudge(struct control *control)
{
	for (uint32_t task = 1; task < control->config->ps_count; task++)
		for (uint32_t id = 1; id <= control->objects_last; id++)
			if (control->objects[id] && !control_bit(control->nodes[task].holds, id) &&
			    !control_bit(control->nodes[task].refuses, id))
				control->nodes[task].joined = false;
}

/* Accepts a page of objects that the node brought; all are read before any is accepted. */
static int adopt_all(struct control *control, const struct control_join *join, struct star_error *err)
{
	const size_t count = json_array_size(join->objects);
	struct object_spec *specs = calloc(count + 1, sizeof(*specs));
	struct star_error why = { 0 };
	uint32_t count_before;
	const json_t *json;
	size_t i;
	int rc = specs ? 0 : star_error_set(err, -ENOMEM, "out of memory");

	json_array_foreach(join->objects, i, json)
	{
		if (rc == 0 && jsonrpc_object_decode(json, &specs[i], err) < 0)
			rc = control_invalid(err);
		if (rc == 0 && specs[i].id == 0)
			rc = star_error_set(err, JSONRPC_INVALID_PARAMS, "member \"objects\": \"%s\" has no id",
					    specs[i].name);
	}
	pthread_mutex_lock(&control->lock);
	count_before = control->objects_count;
	pthread_mutex_unlock(&control->lock);
	for (i = 0; rc == 0 && i < count; i++) {
		/* It was not told that the object was dropped; it drops it now, as the catalogue does not have it. */
		if (specs[i].generation < control->generations[specs[i].id])
			continue;
		rc = control_leader_adopt(control, &specs[i], &why);
		if (rc < 0)
			star_error_set(err, rc, "PS task %u holds what the catalogue cannot take: %s; restart it",
				       join->task, why.text);
	}
	pthread_mutex_lock(&control->lock);
	for (i = 0; rc == 0 && i < count; i++)
		if (specs[i].generation >= control->generations[specs[i].id])
			control_set_bit(control->nodes[join->task].holds, specs[i].id);
	if (control->objects_count != count_before)
		rejudge(control);
	pthread_mutex_unlock(&control->lock);
	free(specs);
	return rc;
}

static bool is_same_place(const struct layout_node *a, const struct layout_node *b)
{
	return strcmp(a->data_host, b->data_host) == 0 && a->data_port == b->data_port && a->reactors == b->reactors;
}

/* Records the node with its incarnation. A node that may continue its previous incarnation does not change the layout:
 * workers that have it find a node that does not answer for a while. Under lock. */
static int note_join(struct control *control, const struct control_join *join, struct star_error *err)
{
	struct cluster_node *node = &control->nodes[join->task];
	const struct layout_node had = node->layout, *has = &join->node;
	const bool was_known = join->recovers && node->incarnation && is_same_place(&had, has);
	const uint32_t before = node->incarnation;
	const bool replaced = before && node->generation && join->generation > node->generation;

	if (join->generation && join->generation < node->generation)
		return star_error_set(
			err, -ESTALE,
			"the place of PS task %u was taken by the other node of its pair, which serves under "
			"generation %" PRIu64,
			join->task, node->generation);
	if (before == join->incarnation) {
		control->layout_due |= join->generation > node->generation || /* it has become the primary again */
				       memcmp(&node->layout.standby, &has->standby, sizeof(has->standby)) != 0;
		node->generation = join->generation;
		node->layout.standby = has->standby;
		if (!is_same_place(&had, has))
			return star_error_set(err, -EINVAL,
					      "PS task %u has changed its data address without a restart: %s, now %s",
					      join->task, config_show(had.data_host, had.data_port).text,
					      config_show(has->data_host, has->data_port).text);
		control_history_begun(control, join);
		return 0;
	}
	if (replaced)
		control_tell_replaced(join->task, join->generation);
	else if (before)
		control_tell_restart(join->task, control->begins_with, join->recovers);
	*node = (struct cluster_node){ .layout = *has,
				       .incarnation = join->incarnation,
				       .recovers = join->recovers,
				       .was_known = was_known,
				       .taken_back = join->taken_back,
				       .place = join->place,
				       .reactors_before = node->reactors_before,
				       .away = node->away,
				       .away_us = node->away_us,
				       .second = join->second,
				       .generation = join->generation,
				       .is_back = before != 0 && !replaced };
	if (was_known)
		node->layout.incarnation = had.incarnation;
	else
		control->layout_due = true;
	control->misfit[0] = 0;
	control->checkpointer.together_failed = false;
	return 0;
}

/* Builds the reply to a join or heartbeat. Under lock. */
static json_t *standing(const struct control *control, uint32_t task)
{
	struct star_error err;
	const bool laid_out = control_leader_complete(control, &err) == 0;
	const struct cluster_node *node = &control->nodes[task];
	json_t *reply =
		json_pack("{s:I, s:b, s:i, s:b, s:o}", "incarnation", (json_int_t)control->incarnation, "joined",
			  node->joined && !node->recovers, "objects_count", (int)control->objects_count, "closing",
			  control->checkpointer.asked_last || control->checkpointer.closed, "begins_with",
			  jsonrpc_member_from_u64(control->begins_with));

	if (control->pair_generation)
		json_object_set_new(reply, "generation", jsonrpc_member_from_u64(control->pair_generation));
	if (control->config->checkpoint_on_stop)
		json_object_set_new(reply, "on_stop", json_true());
	if (node->joined && laid_out)
		json_object_set_new(reply, "layout", control_leader_layout_for(control, task));
	return reply;
}

/* Records objects for which the node has no room. Under lock. */
static void note_refused(struct control *control, const struct control_join *join)
{
	struct cluster_node *node = &control->nodes[join->task];
	const json_t *json;
	size_t i;

	memset(node->refuses, 0, sizeof(node->refuses));
	node->refuses_count = 0;
	json_array_foreach(join->refused, i, json)
	{
		const json_int_t id = json_integer_value(json);

		if (id < 1 || id > WIRE_OBJECTS_MAX || !control->objects[id] ||
		    control_bit(node->refuses, (uint32_t)id))
			continue;
		control_set_bit(node->refuses, (uint32_t)id);
		node->refuses_count++;
	}
}

/* A node has joined when it has everything except objects for which it has no room: these must not keep the whole
 * cluster waiting. Under lock. */
static void judge_join(struct control *control, const struct control_join *join)
{
	struct cluster_node *node = &control->nodes[join->task];

	node->seen_us = clock_us();
	note_refused(control, join);
	if (join->objects_count + node->refuses_count != control->objects_count)
		return;
	for (uint32_t id = 1; id <= control->objects_last; id++)
		if (control->objects[id] && !control_bit(node->refuses, id))
			control_set_bit(node->holds, id);
	node->known = true;
	if (!node->joined && node->refuses_count)
		log_warn("PS task %u has no room for %u objects of the catalogue: they cannot be used", join->task,
			 node->refuses_count);
	if (!node->joined)
		log_info("PS task %u has joined: %u reactor%s at %s", join->task, join->node.reactors,
			 join->node.reactors == 1 ? "" : "s",
			 config_show(join->node.data_host, join->node.data_port).text);
	node->joined = true;
}

/* Adds a page of the catalogue for a node that lacks some of it. */
static void put_objects(struct control *control, uint32_t from, json_t *reply)
{
	uint32_t next;

	json_object_set_new(reply, "objects", control_objects_page(control, from, &next));
	if (next)
		json_object_set_new(reply, "objects_next", json_integer(next));
}

/* The node has listed everything that it holds. If it is still receiving the catalogue, it does not have that yet. */
static int end_join(struct control *control, const struct control_join *join, json_t **result, struct star_error *err)
{
	const bool first = join->from == 1;
	uint32_t count;
	int rc;

	pthread_mutex_lock(&control->lock);
	if (first)
		judge_join(control, join);
	pthread_mutex_unlock(&control->lock);
	rc = control_leader_lay_out(control, join->task, err);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&control->lock);
	*result = standing(control, join->task);
	control->nodes[join->task].loads = control->begins_with != 0 || join->recovers;
	count = control->objects_count;
	pthread_mutex_unlock(&control->lock);
	if (!first || count != join->objects_count)
		put_objects(control, join->from, *result);
	return 0;
}

int control_leader_join(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	struct control_join join;
	bool known;
	int rc;

	if (control_join_read(control, params, &join, err) < 0)
		return control_invalid(err);
	rc = control_join_check(control, &join, err);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&control->lock);
	rc = control->checkpointer.counting ? star_error_set(err, -EAGAIN, "not now: a checkpoint is about to count")
					    : note_join(control, &join, err);
	if (rc == 0 && join.epoch > control->epoch_floor)
		control->epoch_floor = join.epoch;
	if (rc == 0 && control->rolls_back)
		rc = star_error_set(err, -EAGAIN, "PS task 0 restarts with checkpoint %" PRIu64, control->begins_with);
	pthread_mutex_unlock(&control->lock);
	pthread_mutex_lock(&control->lock);
	known = control->nodes[join.task].known;
	pthread_mutex_unlock(&control->lock);
	/* If the node was here before, what it brings is known, or was undone without its knowledge. */
	if (rc == 0 && join.objects && !known)
		rc = adopt_all(control, &join, err);
	if (rc == 0 && join.more)
		*result = json_pack("{s:I}", "incarnation", (json_int_t)control->incarnation);
	else if (rc == 0)
		rc = end_join(control, &join, result, err);
	return rc;
}

int control_leader_heartbeat(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	/* clang-format off */
	static const char *const members[] = {
		"task", "incarnation", "objects_count", "wants_checkpoint", "alone", NULL,
	};
	/* clang-format on */
	const bool wants = json_is_true(json_object_get(params, "wants_checkpoint"));
	const char *alone = "";
	uint32_t task, incarnation, count;
	struct cluster_node *node;
	char tasks[128];

	if (jsonrpc_member_only(params, members, err) < 0 ||
	    jsonrpc_member_u32(params, "task", 1, WIRE_NODES_MAX - 1, &task, err) < 0 ||
	    jsonrpc_member_u32(params, "incarnation", 1, UINT32_MAX, &incarnation, err) < 0 ||
	    jsonrpc_member_u32(params, "objects_count", 0, WIRE_OBJECTS_MAX, &count, err) < 0 ||
	    (json_object_get(params, "alone") &&
	     jsonrpc_member_string(params, "alone", CONTROL_ALONE_MAX - 1, &alone, err) < 0))
		return control_invalid(err);
	if (task >= control->config->ps_count)
		return star_error_set(err, -ENOENT,
				      "this cluster has no PS task %u; give all nodes the same list of PS tasks", task);
	pthread_mutex_lock(&control->lock);
	node = &control->nodes[task];
	*result = standing(control, task);
	/* A node for which something must be changed has to join, which is the executor's work. */
	if (node->incarnation != incarnation || !node->joined || node->recovers ||
	    count + node->refuses_count != control->objects_count ||
	    (control->layout_due && control_leader_missing(control, tasks, sizeof(tasks)) == 0))
		json_object_set_new(*result, "joined", json_false());
	else
		node->seen_us = clock_us();
	node->wants = wants;
	node->loads = false;
	if (node->incarnation == incarnation)
		strcpy(node->alone, alone);
	pthread_mutex_unlock(&control->lock);
	return 0;
}
