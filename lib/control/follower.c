/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PS tasks other than 0: a thread joins PS task 0, and then sends it a heartbeat every second. So the node notices a
 * restart of PS task 0, and PS task 0 one of the node. An object or a layout that PS task 0 could not deliver itself
 * comes with the replies.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "jsonrpc/jsonrpc_message.h"
#include "jsonrpc/member.h"
#include "control/node.h"
#include "jsonrpc/thread.h"

struct leader_link {
	struct jsonrpc_client *client;
	/* The catalogue is sent with a connection's first join, as only after a broken connection PS task 0 can be
	 * another process. */
	bool introduced;
	bool second; /* PS task 0 was tried at its second address */
	uint32_t retry_ms;
};

/* For a node of a task that is a pair. Under lock. */
static void add_pair(const struct control *control, json_t *params)
{
	const struct config_address *own = config_own_control(control->config);
	const struct layout_standby *standby = &control->own_standby;

	json_object_update_new(params, json_pack("{s:o, s:s, s:I}", "generation",
						 jsonrpc_member_from_u64(control->pair_generation), "control",
						 config_show(own->host, own->port).text, "inherited",
						 (json_int_t)control->inherited));
	if (standby->data_host[0])
		json_object_set_new(params, "standby",
				    json_pack("{s:s, s:s, s:i}", "control", standby->control, "data_host",
					      standby->data_host, "data_port", standby->data_port));
}

/* brings: the first id of the page that describes what this node holds, 0: none; then that of the next page. wants: the
 * same for the page of the catalogue that it asks for. */
static json_t *join_params(struct control *control, uint32_t *brings, uint32_t wants)
{
	const struct config *config = control->config;
	json_t *params = json_pack("{s:i, s:I, s:s, s:i, s:i, s:i, s:i, s:I}", "task", (int)control->task,
				   "incarnation", (json_int_t)control->incarnation, "data_host", config->own.data.host,
				   "data_port", config->own.data.port, "reactors", (int)config->reactors, "partitions",
				   (int)config->partitions, "ps_count", (int)config->ps_count, "request_max",
				   (json_int_t)config->request_mib << 20);
	json_t *objects = *brings ? control_objects_page(control, *brings, brings) : NULL, *refused = json_array();

	if (objects)
		json_object_set_new(params, "objects", objects);
	if (control_security_data(control) != SECURE_DATA_OPEN)
		json_object_set_new(params, "data", json_string(secure_data_name(control_security_data(control))));
	if (*brings)
		json_object_set_new(params, "objects_more", json_true());
	if (wants > 1)
		json_object_set_new(params, "objects_from", json_integer(wants));
	pthread_mutex_lock(&control->lock);
	json_object_set_new(params, "objects_count", json_integer(control->objects_count));
	json_object_set_new(params, "epoch", json_integer(control->epoch ? control->epoch : control->handed.epoch));
	if (control->pair_generation)
		add_pair(control, params);
	if (control->history.kept)
		json_object_update_new(params, json_pack("{s:o, s:b, s:I}", "taken_back",
							 jsonrpc_member_from_u64(control->history.taken_back),
							 "recovers", control->history.recovers, "inherited",
							 (json_int_t)control->inherited));
	if (control->epoch || control->handed.epoch) {
		const struct control_place place =
			control->epoch ? (struct control_place){ control->cluster_reactors, control->first_reactor }
				       : control->handed.place;

		json_object_set_new(params, "cluster_reactors", json_integer(place.reactors));
		json_object_set_new(params, "first_reactor", json_integer(place.first));
	}
	control->unsaid = false;
	memset(control->fresh, 0, sizeof(control->fresh));
	for (uint32_t id = 1; id <= WIRE_OBJECTS_MAX; id++)
		if (control_bit(control->refused, id))
			json_array_append_new(refused, json_integer(id));
	pthread_mutex_unlock(&control->lock);
	json_object_set_new(params, "refused", refused);
	if (control->steering.entries)
		json_object_set_new(params, "steering", jsonrpc_steering_encode(&control->steering));
	return params;
}

static json_t *heartbeat_params(struct control *control)
{
	const struct control_data_plane *plane = &control->data_plane;
	json_t *params =
		json_pack("{s:i, s:I}", "task", (int)control->task, "incarnation", (json_int_t)control->incarnation);

	pthread_mutex_lock(&control->lock);
	json_object_set_new(params, "objects_count", json_integer(control->objects_count));
	if (plane->checkpoint_wanted && plane->checkpoint_wanted(plane->ctx))
		json_object_set_new(params, "wants_checkpoint", json_true());
	if (control->pair_alone[0])
		json_object_set_new(params, "alone", jsonrpc_member_from_text(control->pair_alone));
	pthread_mutex_unlock(&control->lock);
	return params;
}

/* Whether this node continues its previous incarnation is known when it has begun; PS task 0 is told at once, by
 * another join. */
static void note_recovered(struct control *control, bool recovers)
{
	if (!recovers)
		return;
	pthread_mutex_lock(&control->lock);
	control->joined = false;
	control->layout_missed = true;
	pthread_cond_broadcast(&control->wake);
	pthread_mutex_unlock(&control->lock);
}

static int take_layout(struct control *control, const json_t *json, struct star_error *err)
{
	/* clang-format off */
	static const char *const members[] = {
		"epoch", "cluster_reactors", "first_reactor", "checkpoint", "incarnation", "lineage", "taken_back",
		NULL,
	};
	/* clang-format on */
	struct control_layout layout = { .checkpoint = 0 };
	uint32_t incarnation = control->incarnation;
	bool recovers;
	int rc;

	if (jsonrpc_member_only(json, members, err) < 0 ||
	    jsonrpc_member_u32(json, "epoch", 1, CONTROL_EPOCH_MAX, &layout.epoch, err) < 0 ||
	    jsonrpc_member_u32(json, "cluster_reactors", 1, WIRE_NODES_MAX * WIRE_REACTORS_MAX,
			       &layout.cluster_reactors, err) < 0 ||
	    jsonrpc_member_u32(json, "first_reactor", 0, layout.cluster_reactors - 1, &layout.first_reactor, err) < 0 ||
	    (json_object_get(json, "checkpoint") &&
	     jsonrpc_member_u64(json, "checkpoint", &layout.checkpoint, err) < 0) ||
	    (json_object_get(json, "lineage") && jsonrpc_member_u64(json, "lineage", &layout.lineage, err) < 0) ||
	    (json_object_get(json, "taken_back") &&
	     jsonrpc_member_u64(json, "taken_back", &layout.taken_back, err) < 0) ||
	    (json_object_get(json, "incarnation") &&
	     jsonrpc_member_u32(json, "incarnation", 1, UINT32_MAX, &incarnation, err) < 0))
		return control_invalid(err);
	if (incarnation != control->incarnation)
		return star_error_set(err, -ESTALE, "this is another start of PS task %u than the layout is for",
				      control->task);
	pthread_mutex_lock(&control->lock);
	recovers = control->history.recovers;
	pthread_mutex_unlock(&control->lock);
	rc = control_set_layout(control, &layout, err);
	if (rc == 0)
		note_recovered(control, recovers);
	return rc;
}

/* An object with an earlier generation of an id was dropped, and this node was not told. */
static void drop_older(struct control *control, const struct object_spec *spec)
{
	bool older;

	pthread_mutex_lock(&control->lock);
	older = control->objects[spec->id] && control->objects[spec->id]->generation < spec->generation;
	pthread_mutex_unlock(&control->lock);
	if (older)
		control_forget(control, spec->id, "it was dropped, and its id is another object's");
}

/* An object for which this node has no room does not keep it out of the cluster. */
static int install_or_refuse(struct control *control, const struct object_spec *spec, struct star_error *err)
{
	bool news = false;
	int rc;

	drop_older(control, spec);
	rc = control_install(control, spec, err);

	if (rc < 0 && rc != -ENOMEM && rc != -ENOSPC)
		return rc;
	pthread_mutex_lock(&control->lock);
	if (rc < 0) {
		news = !control_bit(control->refused, spec->id);
		control_set_bit(control->refused, spec->id);
	} else {
		control->refused[spec->id / 64] &= ~(UINT64_C(1) << (spec->id % 64));
	}
	pthread_mutex_unlock(&control->lock);
	if (news)
		log_error("\"%s\" of the catalogue cannot be held here: %s", spec->name, err->text);
	return 0;
}

static int take_objects(struct control *control, const json_t *objects, struct star_error *err)
{
	const json_t *json;
	size_t i;
	int rc = 0;

	json_array_foreach(objects, i, json)
	{
		struct object_spec spec;

		rc = jsonrpc_object_decode(json, &spec, err);
		if (rc == 0 && spec.id == 0)
			rc = star_error_set(err, -EPROTO, "PS task 0 sent \"%s\" without its id", spec.name);
		if (rc == 0)
			rc = install_or_refuse(control, &spec, err);
		if (rc < 0)
			break;
	}
	return rc;
}

/* Drops what this node holds with ids from `from` to `to`, if the catalogue's page does not have it: objects that were
 * dropped, or whose creation failed on another node, when this one could not be told. */
static void forget_others(struct control *control, const json_t *objects, uint32_t from, uint32_t to)
{
	uint64_t listed[WIRE_OBJECTS_MAX / 64 + 1] = { 0 };
	uint32_t generations[WIRE_OBJECTS_MAX + 1] = { 0 };
	const json_t *json;
	uint32_t last;
	size_t i;

	json_array_foreach(objects, i, json)
	{
		const json_int_t id = json_integer_value(json_object_get(json, "id"));

		if (id < 1 || id > WIRE_OBJECTS_MAX)
			continue;
		control_set_bit(listed, (uint32_t)id);
		generations[id] = (uint32_t)json_integer_value(json_object_get(json, "generation"));
	}
	pthread_mutex_lock(&control->lock);
	last = control->objects_last < to ? control->objects_last : to;
	pthread_mutex_unlock(&control->lock);
	for (uint32_t id = from; id <= last; id++) {
		bool gone;

		pthread_mutex_lock(&control->lock);
		/* Objects that came after the join was sent are newer than the list. */
		gone = control->objects[id] && !control_bit(control->fresh, id) &&
		       (!control_bit(listed, id) || control->objects[id]->generation != generations[id]);
		pthread_mutex_unlock(&control->lock);
		if (gone)
			control_forget(control, id, "PS task 0's catalogue does not have it");
	}
}

static void note_leader(struct control *control, uint32_t incarnation, uint64_t generation, bool joined,
			uint64_t begins_with)
{
	bool was_joined, replaced;
	uint32_t before;

	pthread_mutex_lock(&control->lock);
	before = control->leader_incarnation;
	replaced = generation > control->leader_generation && control->leader_generation;
	control->leader_generation = generation;
	was_joined = control->joined;
	control->leader_incarnation = incarnation;
	control->joined = joined;
	control->leader_seen_us = clock_us();
	if (joined)
		control->follower_error[0] = 0;
	pthread_mutex_unlock(&control->lock);
	if (before != incarnation && replaced)
		control_tell_replaced(0, generation);
	else if (before && before != incarnation)
		control_tell_restart(0, begins_with, control->history.kept);
	if (joined && !was_joined)
		log_info("joined PS task 0, incarnation %u", incarnation);
}

/*
 * Reads the catalogue's page in a reply; *wants: where it begins, then where the next one does, 1: this was the last.
 */
static int take_page(struct control *control, const json_t *reply, uint32_t incarnation, uint32_t *wants,
		     struct star_error *err)
{
	const json_t *objects = json_object_get(reply, "objects");
	const uint32_t from = *wants;
	uint32_t next = WIRE_OBJECTS_MAX + 1;

	*wants = 1;
	if (json_object_get(reply, "objects_next")) {
		if (jsonrpc_member_u32(reply, "objects_next", from + 1, WIRE_OBJECTS_MAX, &next, err) < 0)
			return -EPROTO;
		*wants = next;
	}
	if (objects && incarnation == control->leader_incarnation)
		forget_others(control, objects, from, next - 1);
	return take_objects(control, objects, err);
}

/* Acts on a reply. 1: another message must be sent at once, 0: the next heartbeat is enough, or a negative errno. wants
 * as for take_page: if there is a next page, nothing else is evaluated yet. */
static int take_reply(struct control *control, const json_t *reply, uint32_t *wants, uint64_t asked_us,
		      struct star_error *err)
{
	const json_t *layout = json_object_get(reply, "layout");
	const bool joined = json_is_true(json_object_get(reply, "joined"));
	uint64_t begins_with = 0, generation = 0;
	uint32_t incarnation;
	int rc = jsonrpc_member_u32(reply, "incarnation", 1, UINT32_MAX, &incarnation, err);

	if (rc == 0 && json_object_get(reply, "begins_with"))
		rc = jsonrpc_member_u64(reply, "begins_with", &begins_with, err);
	if (rc == 0 && json_object_get(reply, "generation"))
		rc = jsonrpc_member_u64(reply, "generation", &generation, err);
	/* A node that was paused may not know yet that it was replaced. */
	if (rc == 0 && generation && generation < control->leader_generation)
		rc = star_error_set(err, -EHOSTDOWN,
				    "the place of this PS task 0 was taken by the other node of its pair");
	if (rc == 0)
		rc = take_page(control, reply, incarnation, wants, err);
	if (rc == 0 && *wants > 1)
		return 1;
	if (rc == 0 && layout)
		rc = take_layout(control, layout, err);
	if (rc < 0)
		return rc;
	control_leave_look(control, json_is_true(json_object_get(reply, "closing")), asked_us);
	pthread_mutex_lock(&control->lock);
	control->leader_on_stop = json_is_true(json_object_get(reply, "on_stop"));
	pthread_mutex_unlock(&control->lock);
	note_leader(control, incarnation, generation, joined, begins_with);
	return !joined;
}

/* Checked before it joins. */
static int look_at_history(struct control *control, struct star_error *err)
{
	const struct control_data_plane *plane = &control->data_plane;
	const int rc =
		control->history_settled || !plane->history ? 0 : plane->history(plane->ctx, &control->history, err);

	control->history_settled = rc == 0;
	return rc;
}

static int send_heartbeat(struct control *control, const struct leader_link *link, struct star_error *err)
{
	const uint64_t asked_us = clock_us();
	json_t *reply = control_call(control, CALLER_FOLLOWER, link->client, "heartbeat", heartbeat_params(control),
				     CONTROL_HEARTBEAT_US, err);
	uint32_t wants = 1;
	const int rc = reply ? take_reply(control, reply, &wants, asked_us, err) : err->code;

	json_decref(reply);
	return rc;
}

/* Uses as many calls as needed: PS task 0 gets what this node holds page by page, and sends the catalogue in the same
 * way. Each call has the next page. */
static int send_join(struct control *control, struct leader_link *link, struct star_error *err)
{
	uint32_t brings = link->introduced ? 0 : 1, wants = 1;
	int rc;

	do {
		const uint64_t asked_us = clock_us();
		json_t *params = join_params(control, &brings, wants);
		json_t *reply =
			control_call(control, CALLER_FOLLOWER, link->client, "join", params, CONTROL_FORWARD_US, err);

		if (!reply)
			return err->code;
		link->introduced = !brings;
		rc = brings ? 0 : take_reply(control, reply, &wants, asked_us, err);
		json_decref(reply);
	} while (rc >= 0 && (brings || wants > 1));
	return rc;
}

static int beat(struct control *control, struct leader_link *link, struct star_error *err)
{
	json_t *reply;
	bool joined;
	int rc = look_at_history(control, err);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&control->lock);
	control->layout_missed = false;
	pthread_mutex_unlock(&control->lock);
	if (!link->client) {
		link->second = __atomic_load_n(&control->leader_second, __ATOMIC_RELAXED);
		link->client = control_connect(control, 0, CONTROL_HEARTBEAT_US, err);
		link->introduced = false;
	}
	if (!link->client)
		return err->code;
	pthread_mutex_lock(&control->lock);
	joined = control->joined && !control->unsaid;
	pthread_mutex_unlock(&control->lock);
	/* A process that hangs accepts a connection, too, and a join may take some time. */
	if (!link->introduced && config_ps_address(control->config, 0, true)) {
		reply = control_call(control, CALLER_FOLLOWER, link->client, "heartbeat", heartbeat_params(control),
				     CONTROL_HEARTBEAT_US, err);
		if (!reply)
			return err->code;
		json_decref(reply);
	}
	return joined && link->introduced ? send_heartbeat(control, link, err) : send_join(control, link, err);
}

/* Logs a reason once, not each time that it occurs. */
static void note_failure(struct control *control, const struct star_error *err)
{
	bool news;

	pthread_mutex_lock(&control->lock);
	news = strcmp(control->follower_error, err->text) != 0;
	strcpy(control->follower_error, err->text);
	control->joined = false;
	pthread_mutex_unlock(&control->lock);
	if (news)
		log_warn("not joined to PS task 0, trying on: %s", err->text);
}

/* Not as a standby, nor while its standby may have replaced it. */
static bool may_join(struct control *control)
{
	struct star_error err;
	bool may;

	pthread_mutex_lock(&control->lock);
	may = control_pair_leads(control, &err) == 0;
	if (!may)
		control->joined = control->layout_missed = false;
	pthread_mutex_unlock(&control->lock);
	return may;
}

static void *follower_loop(void *arg)
{
	struct control *control = arg;
	struct leader_link link = { .retry_ms = CONTROL_RETRY_MIN_MS };
	struct star_error err;
	uint32_t wait_ms = 0;

	do {
		int rc;

		if (!may_join(control)) {
			jsonrpc_close(link.client);
			link.client = NULL;
			wait_ms = CONTROL_RETRY_MIN_MS;
			continue;
		}
		rc = beat(control, &link, &err);
		if (rc < 0) {
			note_failure(control, &err);
			jsonrpc_close(link.client);
			link.client = NULL;
			if (control_leader_elsewhere(rc))
				control_leader_turn(control, link.second);
		}
		if (rc == 0) {
			link.retry_ms = CONTROL_RETRY_MIN_MS;
			wait_ms = CONTROL_BEAT_MS;
			continue;
		}
		/* If there is more to say, it is sent soon, but never in a tight loop. */
		wait_ms = link.retry_ms;
		link.retry_ms = link.retry_ms * 2 < CONTROL_RETRY_MAX_MS ? link.retry_ms * 2 : CONTROL_RETRY_MAX_MS;
	} while (control_pause(control, wait_ms, &control->layout_missed));
	jsonrpc_close(link.client);
	return NULL;
}

int control_follower_start(struct control *control, struct star_error *err)
{
	int rc = jsonrpc_thread_start(&control->follower, "control-join", follower_loop, control, err);

	control->following = rc == 0;
	return rc;
}

void control_follower_join(struct control *control)
{
	if (!control->following)
		return;
	pthread_join(control->follower, NULL);
	control->following = false;
}

static int take_object(struct control *control, const json_t *object, struct star_error *err)
{
	struct object_spec spec;

	if (jsonrpc_object_decode(object, &spec, err) < 0)
		return control_invalid(err);
	if (spec.id == 0) {
		star_error_set(err, -EINVAL, "member \"id\" is missing");
		return control_invalid(err);
	}
	drop_older(control, &spec);
	return control_install(control, &spec, err);
}

/* Before it has joined, this node may lack objects of the layout's checkpoint; the reply to its join brings both, in
 * order. */
static int take_pushed_layout(struct control *control, const json_t *layout, struct star_error *err)
{
	bool joined;

	pthread_mutex_lock(&control->lock);
	joined = control->joined;
	if (!joined) {
		control->layout_missed = true;
		pthread_cond_broadcast(&control->wake);
	}
	pthread_mutex_unlock(&control->lock);
	return joined ? take_layout(control, layout, err)
		      : star_error_set(err, -EAGAIN, "PS task %u has not joined yet", control->task);
}

int control_follower_install(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "object", "layout", "sweep", "empty", "forget", "generation", NULL };
	const json_t *object = json_object_get(params, "object"), *layout = json_object_get(params, "layout");
	const json_t *sweep = json_object_get(params, "sweep"), *forget = json_object_get(params, "forget");
	const json_t *empty = json_object_get(params, "empty");
	const char *name;
	int rc;

	if (jsonrpc_member_only(params, members, err) < 0)
		return control_invalid(err);
	if (!!object + !!layout + !!sweep + !!empty + !!forget != 1) {
		star_error_set(err, -EINVAL,
			       "one of \"object\", \"layout\", \"sweep\", \"empty\" and \"forget\" is needed");
		return control_invalid(err);
	}
	if (empty)
		return control_follower_empty(control, empty, result, err);
	if (layout)
		rc = take_pushed_layout(control, layout, err);
	else if (object)
		rc = take_object(control, object, err);
	else if (forget)
		rc = control_follower_forget(control, params, err);
	else if (jsonrpc_member_string(params, "sweep", WIRE_NAME_MAX, &name, err) < 0)
		rc = control_invalid(err);
	else
		rc = control_sweep(control, name, err);
	if (rc == 0)
		*result = json_true();
	return rc;
}
