/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PS task 0: the catalogue and the layout.
 *
 * A node counts as joined when it has the whole catalogue. So a node that was restarted gets the catalogue first, and
 * only when it has installed that do workers get a layout with its new incarnation. Objects that a node brings are
 * accepted: they can only come from an earlier incarnation of PS task 0, whose catalogue is restored in this way.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "jsonrpc/jsonrpc_message.h"
#include "jsonrpc/member.h"
#include "control/node.h"

static bool holds(const struct cluster_node *node, uint32_t id)
{
	return control_bit(node->holds, id);
}

static void set_holds(struct cluster_node *node, uint32_t id)
{
	control_set_bit(node->holds, id);
}

unsigned control_leader_missing(const struct control *control, char *text, size_t size)
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

int control_leader_complete(const struct control *control, struct star_error *err)
{
	char tasks[128];
	unsigned count = control_leader_missing(control, tasks, sizeof(tasks));

	if (control_pair_leads(control, err) < 0)
		return err->code;
	if (count)
		return star_error_set(err, -EAGAIN, "waiting for PS task%s %s to join", count > 1 ? "s" : "", tasks);
	if (control->rolls_back)
		return star_error_set(err, -EAGAIN, "waiting for all nodes to roll back to checkpoint %" PRIu64,
				      control->begins_with);
	if (control->layout_due && control->misfit[0])
		return star_error_set(err, -EAGAIN, "waiting for nodes that fit: %s", control->misfit);
	if (control->layout_due)
		return star_error_set(err, -EAGAIN, "waiting for this node's reactors to take over the new layout");
	return 0;
}

int control_leader_laid_out(const struct control *control, struct star_error *err)
{
	const int rc = control_leader_complete(control, err);

	for (uint32_t task = 0; rc == 0 && task < control->config->ps_count; task++)
		if (control->nodes[task].leaving)
			return star_error_set(err, -EAGAIN, "waiting for PS task %u, which was stopped, to join again",
					      task);
		else if (control->nodes[task].goes_back)
			return star_error_set(err, -EAGAIN, "waiting for PS task %u to be rolled back", task);
		else if (control->nodes[task].recovers)
			return star_error_set(err, -EAGAIN, "waiting for PS task %u to recover from its journal", task);
	return rc;
}

static uint32_t first_reactor(const struct control *control, uint32_t task)
{
	uint32_t first = 0;

	for (uint32_t i = 0; i < task; i++)
		first += control->nodes[i].layout.reactors;
	return first;
}

/* Calls `install` of another node; *result: its answer. */
static int call_install(struct control *control, uint32_t task, json_t *params, uint64_t deadline_us, json_t **result,
			struct star_error *err)
{
	const uint64_t until_us = clock_us() + deadline_us;
	struct jsonrpc_client *client;
	uint64_t now_us;

	*result = NULL;

	client = control_connect(control, task, deadline_us, err);
	now_us = clock_us();
	if (client)
		*result = control_call(control, CALLER_EXECUTOR, client, "install", json_incref(params),
				       now_us < until_us ? until_us - now_us : 0, err);
	json_decref(params);
	jsonrpc_close(client);
	return *result ? 0 : err->code;
}

int control_leader_tell(struct control *control, uint32_t task, json_t *params, uint64_t deadline_us,
			struct star_error *err)
{
	json_t *result;
	const int rc = call_install(control, task, params, deadline_us, &result, err);

	json_decref(result);
	return rc;
}

uint64_t control_leader_deadline_us(const struct control *control)
{
	const uint64_t configured_us = (uint64_t)control->config->connect_timeout_ms * 1000;

	return configured_us && configured_us < CONTROL_PEER_US ? configured_us : CONTROL_PEER_US;
}

int control_leader_ask(struct control *control, uint32_t task, json_t *params, json_t **result, struct star_error *err)
{
	return call_install(control, task, params, control_leader_deadline_us(control), result, err);
}

/* Sends an object of the catalogue to all nodes that do not have it yet. */
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
		rc = control_leader_tell(control, task, json_pack("{s:o}", "object", jsonrpc_object_encode(spec)),
					 control_leader_deadline_us(control), &why);
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

/*
 * The next id, so that ids are not reused for as long as possible; then the lowest free one. If there are others, not
 * an id that a node may still use because it has not been told that it is free. Under lock.
 */
static uint32_t free_id(const struct control *control)
{
	uint32_t id = (control->objects_last > control->ids_given ? control->objects_last : control->ids_given) + 1;

	if (id > WIRE_OBJECTS_MAX || control->generations[id] > OBJECT_GENERATION_MAX)
		for (id = 1; id <= WIRE_OBJECTS_MAX &&
			     (control->objects[id] || control->generations[id] > OBJECT_GENERATION_MAX);)
			id++;
	return id;
}

/* Sets the spec's id to the one of its name, or to a free one; *fresh: it had none. */
static int identify(struct control *control, struct object_spec *spec, bool *fresh, struct star_error *err)
{
	const struct object_spec *have;
	int rc;

	pthread_mutex_lock(&control->lock);
	have = control_find(control, spec->name);
	rc = control_leader_laid_out(control, err);
	*fresh = !have;
	if (rc == 0 && have) {
		rc = wire_object_spec_same(have, spec, err);
		spec->id = have->id;
		spec->generation = have->generation;
	} else if (rc == 0) {
		spec->id = free_id(control);
		if (spec->id > WIRE_OBJECTS_MAX)
			rc = star_error_set(
				err, -ENOSPC,
				"the catalogue is full: %d tables, variables and programs are possible. Drop "
				"some (starctl tables drop), or have features of one dim share a table",
				WIRE_OBJECTS_MAX);
		else if (spec->kind == OBJECT_PROGRAM && count_programs(control) >= PROGRAMS_MAX)
			rc = star_error_set(err, -ENOSPC, "the catalogue has %d programs: no more are possible",
					    PROGRAMS_MAX);
		else
			spec->generation = control_leader_generation(control, spec->id);
	}
	pthread_mutex_unlock(&control->lock);
	return rc;
}

int control_leader_adopt(struct control *control, const struct object_spec *spec, struct star_error *err)
{
	int rc = control_install(control, spec, err);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&control->lock);
	set_holds(&control->nodes[0], spec->id);
	pthread_mutex_unlock(&control->lock);
	return 0;
}

/* The largest request that all known nodes accept. */
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

int control_leader_create(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	struct object_spec spec;
	bool fresh = false;
	int rc;

	if (jsonrpc_object_decode(params, &spec, err) < 0)
		return control_invalid(err);
	if (spec.id || spec.generation) {
		star_error_set(err, -EINVAL, "member \"%s\" is given by the catalogue: leave it out",
			       spec.id ? "id" : "generation");
		return control_invalid(err);
	}
	if (wire_object_check_whole(&spec, least_request(control), err) < 0)
		return control_invalid(err);
	rc = identify(control, &spec, &fresh, err);
	if (rc == 0)
		rc = control_leader_all_heard(control, &spec, err);
	if (rc == 0)
		rc = control_leader_adopt(control, &spec, err);
	if (rc == 0)
		rc = spread(control, &spec, err);
	else
		fresh = false;
	if (rc < 0 && fresh)
		control_leader_undo(control, &spec, rc);
	if (rc == 0)
		rc = control_catalogue_durable(control, spec.name, "created", "it may be gone",
					       "Create it again: that waits for it once more", err);
	if (rc == 0)
		*result = jsonrpc_object_encode(&spec);
	return rc;
}

int control_leader_lookup(struct control *control, const char *name, json_t **result, struct star_error *err)
{
	const struct object_spec *spec;
	int rc;

	pthread_mutex_lock(&control->lock);
	spec = control_find(control, name);
	rc = control_pair_serves(control, err);
	if (rc == 0 && (!spec || spec->kind == OBJECT_PROGRAM))
		rc = star_error_set(err, -ENOENT, "there is no table or variable \"%s\"", name);
	for (uint32_t task = 0; rc == 0 && task < control->config->ps_count; task++)
		if (control_bit(control->nodes[task].refuses, spec->id))
			rc = star_error_set(err, -ENOSPC,
					    "\"%s\" cannot be used: PS task %u has no room for it. Give that node more "
					    "memory.parameter_mib, and restart it",
					    name, task);
		else if (!holds(&control->nodes[task], spec->id))
			rc = star_error_set(err, -EAGAIN,
					    "\"%s\" is not yet on PS task %u: look it up again, or create it again",
					    name, task);
	pthread_mutex_unlock(&control->lock);
	if (rc == 0)
		*result = jsonrpc_object_encode(spec);
	return rc;
}

int control_leader_layout(struct control *control, json_t **result, struct star_error *err)
{
	const uint32_t count = control->config->ps_count;
	struct layout *layout = calloc(1, sizeof(*layout) + count * sizeof(layout->nodes[0]));
	int rc;

	if (!layout)
		return star_error_set(err, -ENOMEM, "out of memory");
	pthread_mutex_lock(&control->lock);
	rc = control_leader_laid_out(control, err);
	layout->epoch = control->epoch;
	layout->partitions = control->config->partitions;
	layout->nodes_count = count;
	layout->reactors = control->cluster_reactors;
	for (uint32_t task = 0; task < count; task++) {
		char *at = layout->nodes[task].control;

		layout->nodes[task] = control->nodes[task].layout;
		at[0] = 0;
		if (control->tickets)
			control_ps_address(control, task, at);
	}
	pthread_mutex_unlock(&control->lock);
	if (rc == 0)
		*result = jsonrpc_layout_encode(layout);
	free(layout);
	return rc;
}

/* The layout for a node. Under lock. */
json_t *control_leader_layout_for(const struct control *control, uint32_t task)
{
	json_t *json = json_pack("{s:I, s:I, s:I, s:o, s:I}", "epoch", (json_int_t)control->epoch, "cluster_reactors",
				 (json_int_t)control->cluster_reactors, "first_reactor",
				 (json_int_t)first_reactor(control, task), "checkpoint",
				 jsonrpc_member_from_u64(control->begins_with), "incarnation",
				 (json_int_t)control->nodes[task].incarnation);

	if (control->history.kept) {
		json_object_set_new(json, "lineage", jsonrpc_member_from_u64(control->history.lineage));
		json_object_set_new(json, "taken_back", jsonrpc_member_from_u64(control->history.taken_back));
	}
	return json;
}

/* Tells the other nodes, if that is quick; the heartbeats tell the rest. */
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
		layout = control_leader_layout_for(control, task);
		pthread_mutex_unlock(&control->lock);
		if (control_leader_tell(control, task, json_pack("{s:o}", "layout", layout), until_us - now_us, &err) <
			    0 &&
		    err.code != -EAGAIN) /* it has not processed the reply to its join yet, and will ask */
			log_warn("PS task %u learns the new layout by its next heartbeat: %s", task, err.text);
	}
}

int control_leader_lay_out(struct control *control, uint32_t except, struct star_error *err)
{
	struct control_layout layout = { .epoch = 0 };
	bool again, due;
	char tasks[128];
	int rc;

	pthread_mutex_lock(&control->lock);
	due = control->layout_due && control_leader_missing(control, tasks, sizeof(tasks)) == 0;
	rc = due && control->history.kept && !control->history_settled ? control_history_check(control, err) : 0;
	if (due && rc == 0) {
		if (control->history.kept && !control->history_settled)
			control_history_settle(control);
		control->history_settled = true;
		layout.epoch = (control->epoch > control->epoch_floor ? control->epoch : control->epoch_floor) + 1;
		layout.cluster_reactors = first_reactor(control, control->config->ps_count);
	}
	again = control->epoch != 0 && control->config->ps_count > 1;
	pthread_mutex_unlock(&control->lock);
	if (layout.epoch == 0)
		return rc;
	if (layout.epoch > CONTROL_EPOCH_MAX)
		return star_error_set(err, -EOVERFLOW,
				      "there is no layout after epoch %d: stop all nodes, then start them again",
				      CONTROL_EPOCH_MAX);
	rc = control_places_check(control, err);
	if (rc == 0 && again)
		rc = control_restore_look_again(control, err);
	pthread_mutex_lock(&control->lock);
	layout.checkpoint = control->begins_with;
	layout.lineage = control->history.lineage;
	layout.taken_back = control->history.taken_back;
	pthread_mutex_unlock(&control->lock);
	if (rc == 0)
		rc = control_set_layout(control, &layout, err);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&control->lock);
	control->layout_due = false;
	control->checkpointer.closed = false;
	control->checkpointer.wanted_us = 0; /* one that was abandoned because of other nodes is begun again */
	control_places_note(control);
	pthread_mutex_unlock(&control->lock);
	announce(control, except);
	return 0;
}
