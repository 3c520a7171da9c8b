/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What lib/node/pair.c does to the control plane of a node of a pair: there is no layout until the node is the primary,
 * and a standby gets its catalogue from the primary.
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "control/node.h"
#include "jsonrpc/member.h"

enum {
	QUEUES_BYTES_MAX = 8 << 20, /* of a catalogue: far more than any job has needed so far */
	OTHER_EPOCHS = 16,	    /* more epochs than another node may have given out before it failed */
};

void control_pair_waits(struct control *control, const char *why)
{
	pthread_mutex_lock(&control->lock);
	snprintf(control->pair_waits, sizeof(control->pair_waits), "%.159s", why);
	pthread_mutex_unlock(&control->lock);
}

int control_pair_serves(const struct control *control, struct star_error *err)
{
	return control->pair_waits[0] ? star_error_set(err, -EHOSTDOWN, "%s", control->pair_waits) : 0;
}

int control_pair_leads(const struct control *control, struct star_error *err)
{
	const struct control_data_plane *plane = &control->data_plane;

	if (control_pair_serves(control, err) < 0)
		return err->code;
	return control->config->ps_count == 1 || !plane->leads || plane->leads(plane->ctx)
		       ? 0
		       : star_error_set(err, -EHOSTDOWN,
					"the node does not know whether its standby has taken its place: ask that one");
}

void control_pair_alone(struct control *control, const char *why)
{
	pthread_mutex_lock(&control->lock);
	snprintf(control->pair_alone, sizeof(control->pair_alone), "%.319s", why);
	pthread_mutex_unlock(&control->lock);
}

void control_pair_place(struct control *control, struct control_layout *layout)
{
	pthread_mutex_lock(&control->plane);
	pthread_mutex_lock(&control->lock);
	layout->cluster_reactors = control->handed.place.reactors;
	layout->first_reactor = control->handed.place.first;
	layout->taken_back = control->handed.taken_back;
	pthread_mutex_unlock(&control->lock);
	pthread_mutex_unlock(&control->plane);
}

/* A recorded drop has happened, whether or not all nodes were told. */
static void drop_what_was_dropped(struct control *control, const uint32_t *generations)
{
	for (uint32_t id = 1; id <= WIRE_OBJECTS_MAX; id++) {
		bool dropped;

		pthread_mutex_lock(&control->lock);
		dropped = control->objects[id] && control->objects[id]->generation < generations[id];
		if (control->generations[id] < generations[id])
			control->generations[id] = generations[id];
		pthread_mutex_unlock(&control->lock);
		if (dropped)
			control_forget(control, id, "the primary had dropped it");
	}
}

uint64_t control_pair_look(struct control *control, uint64_t *passed_over)
{
	const struct control_data_plane *plane = &control->data_plane;
	uint32_t generations[WIRE_OBJECTS_MAX + 1] = { 0 };
	struct star_error err = { 0 };
	uint64_t lineage, known, id;
	int rc = 0;

	*passed_over = 0;
	if (control->task || !config_shares_history(control->config))
		return 0;
	pthread_mutex_lock(&control->lock);
	lineage = control->handed.lineage;
	known = id =
		control->begins_with > control->handed.passed_over ? control->begins_with : control->handed.passed_over;
	*passed_over = control->handed.passed_over;
	pthread_mutex_unlock(&control->lock);
	if (control->config->checkpoint_restore && plane->newest)
		rc = plane->newest(plane->ctx, lineage, &id, &err);
	pthread_mutex_lock(&control->lock);
	if (rc == 0 && id > known)
		control->begins_with = id;
	id = control->begins_with;
	pthread_mutex_unlock(&control->lock);
	if (rc == 0 && plane->dropped_read)
		rc = plane->dropped_read(plane->ctx, generations, &err);
	if (rc == 0)
		drop_what_was_dropped(control, generations);
	else
		log_warn("checkpoint.directory cannot be searched, and this PS task 0 continues with what its primary "
			 "had sent: %s",
			 err.text);
	return id;
}

/* A node that replaces its primary continues the history that the primary has told it, and has no journal to apply, so
 * no disk is read. Under lock. */
static void take_history(struct control *control)
{
	if (!config_shares_history(control->config) || control->history.kept)
		return;
	control->history = (struct control_history){ .kept = true,
						     .lineage = control->handed.lineage,
						     .passed_over = control->handed.passed_over,
						     .taken_back = control->handed.taken_back };
	/* At PS task 0 the others have yet to report what they know. */
	control->history_settled = control->task != 0;
}

/* It joins PS task 0 again at once, so that PS task 0 learns something new. Under lock. */
static void join_again(struct control *control)
{
	control->joined = false;
	control->unsaid = true;
	control->layout_missed = true;
	pthread_cond_broadcast(&control->wake);
}

/* A task other than 0 serves as soon as PS task 0 knows it. */
static void lead_task(struct control *control, bool begins)
{
	const struct control_data_plane *plane = &control->data_plane;

	pthread_mutex_lock(&control->lock);
	/* A node that begins from its checkpoint holds no rows of any layout. */
	if (begins)
		control->handed = (struct control_handed){ .epoch = 0 };
	else
		take_history(control);
	if (plane->incarnation)
		control->inherited = plane->incarnation(plane->ctx);
	control->pair_waits[0] = 0;
	join_again(control);
	pthread_mutex_unlock(&control->lock);
}

/* The thread that monitors a standby must not wait for other nodes. */
static void lay_out_later(struct executor_job *job, bool cancelled)
{
	struct control *control = (struct control *)((char *)job - offsetof(struct control, lay_out_job));
	struct star_error err = { 0 };

	if (!cancelled && control_leader_lay_out(control, 0, &err) < 0)
		log_warn("there is no new layout: %s", err.text);
}

int control_pair_lead(struct control *control, uint64_t generation, uint32_t epoch, bool begins, struct star_error *err)
{
	int rc;

	pthread_mutex_lock(&control->lock);
	control->pair_generation = generation;
	pthread_mutex_unlock(&control->lock);
	if (control->task) {
		lead_task(control, begins);
		return 0;
	}
	rc = begins ? control_begin_with(control, err) : 0;
	pthread_mutex_lock(&control->lock);
	if (!begins)
		take_history(control);
	/* It holds its primary's rows, with the primary's place in the layout. */
	if (!begins && control->handed.epoch && !control->nodes[0].place.reactors)
		control->nodes[0].place = control->handed.place;
	if (epoch > control->epoch_floor)
		control->epoch_floor = epoch;
	control->layout_due = true;
	for (uint32_t id = 1; id <= control->objects_last; id++)
		if (control->objects[id])
			control_set_bit(control->nodes[0].holds, id);
	pthread_mutex_unlock(&control->lock);
	/* With several tasks the others have yet to join. */
	if (rc == 0 && control->config->ps_count == 1)
		rc = control_leader_lay_out(control, 0, err);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&control->lock);
	control->pair_waits[0] = 0;
	pthread_mutex_unlock(&control->lock);
	return 0;
}

int control_pair_lead_again(struct control *control, uint64_t generation, struct star_error *err)
{
	uint32_t epoch;
	int rc;

	pthread_mutex_lock(&control->lock);
	epoch = control->epoch + OTHER_EPOCHS;
	pthread_mutex_unlock(&control->lock);
	rc = control_pair_lead(control, generation, epoch, false, err);
	/* Nodes that have joined are still there, and need not join again. */
	if (rc == 0 && control->task == 0 && control->config->ps_count > 1)
		control_executor_post(control->executor, &control->lay_out_job, lay_out_later);
	return rc;
}

void control_pair_with_plane(struct control *control, void (*run)(void *ctx), void *ctx)
{
	pthread_mutex_lock(&control->plane);
	run(ctx);
	pthread_mutex_unlock(&control->plane);
}

int control_pair_close(struct control *control, const char *why, struct star_error *err)
{
	int rc;

	control_pair_waits(control, why);
	pthread_mutex_lock(&control->plane);
	rc = control->data_plane.close(control->data_plane.ctx, err);
	pthread_mutex_unlock(&control->plane);
	return rc;
}

int control_pair_standby(struct control *control, const char *data_host, uint16_t data_port, const char *address,
			 struct star_error *err)
{
	struct layout_standby *known = control->task ? &control->own_standby : &control->nodes[0].layout.standby;
	bool same;

	pthread_mutex_lock(&control->lock);
	same = strcmp(known->data_host, data_host) == 0 && known->data_port == data_port &&
	       strcmp(known->control, address) == 0;
	if (!same) {
		snprintf(known->data_host, sizeof(known->data_host), "%.63s", data_host);
		snprintf(known->control, sizeof(known->control), "%.79s", address);
		known->data_port = data_port;
		if (control->task)
			join_again(control);
		else
			control->layout_due = true;
	}
	pthread_mutex_unlock(&control->lock);
	if (same || control->task)
		return 0;
	if (control->config->ps_count == 1)
		return control_leader_lay_out(control, 0, err);
	control_executor_post(control->executor, &control->lay_out_job, lay_out_later);
	return 0;
}

static uint64_t number_now(struct control *control, const uint64_t *number)
{
	uint64_t now;

	pthread_mutex_lock(&control->lock);
	now = *number;
	pthread_mutex_unlock(&control->lock);
	return now;
}

uint64_t control_pair_version(struct control *control)
{
	return number_now(control, &control->version);
}

uint64_t control_pair_queues(struct control *control)
{
	return number_now(control, &control->queue_changes);
}

/* A standby that does not get the queues begins them again. The catalogue is sent several times per second; the problem
 * is logged once. */
static void add_queues(struct control *control, json_t *catalogue)
{
	json_t *queues = control_queues_keep(control);
	const size_t bytes = json_dumpb(queues, NULL, 0, JSON_COMPACT);

	const bool fit = bytes <= QUEUES_BYTES_MAX;

	if (!fit && !control->queues_left_out)
		log_warn("the standby does not get the work queues: they take %zu bytes, and %d are allowed", bytes,
			 QUEUES_BYTES_MAX);
	control->queues_left_out = !fit;
	if (fit && json_array_size(queues))
		json_object_set(catalogue, "queues", queues);
	json_decref(queues);
}

/* A node that takes over one of several tasks must let the others continue. */
static void add_cluster(struct control *control, json_t *catalogue)
{
	struct control_handed handed;
	json_t *json;

	pthread_mutex_lock(&control->lock);
	handed = control->handed;
	if (control->epoch)
		handed = (struct control_handed){ .epoch = control->epoch,
						  .place = { .reactors = control->cluster_reactors,
							     .first = control->first_reactor } };
	json = json_pack("{s:I, s:I, s:I, s:o}", "epoch", (json_int_t)handed.epoch, "reactors",
			 (json_int_t)handed.place.reactors, "first", (json_int_t)handed.place.first, "begins_with",
			 jsonrpc_member_from_u64(control->begins_with));
	if (control->history.kept)
		json_object_update_new(json,
				       json_pack("{s:o, s:o}", "taken_back",
						 jsonrpc_member_from_u64(control->history.taken_back), "passed_over",
						 jsonrpc_member_from_u64(control->history.passed_over)));
	pthread_mutex_unlock(&control->lock);
	json_object_set_new(catalogue, "cluster", json);
}

/* PS task 0 writes checkpoints of its lineage; every task's journal names it. */
static bool has_lineage(const struct control *control)
{
	return control->task == 0 || config_shares_history(control->config);
}

/* The node that replaces this one continues its checkpoints. */
static void add_lineage(struct control *control, json_t *catalogue)
{
	const struct control_data_plane *plane = &control->data_plane;
	const struct control_lineage lineage =
		plane->lineage ? plane->lineage(plane->ctx) : (struct control_lineage){ .id = 0 };

	if (lineage.id)
		json_object_set_new(catalogue, "checkpoints",
				    json_pack("{s:o, s:o, s:o}", "lineage", jsonrpc_member_from_u64(lineage.id),
					      "began", jsonrpc_member_from_u64(lineage.began), "newest",
					      jsonrpc_member_from_u64(lineage.newest)));
}

json_t *control_pair_catalogue(struct control *control, uint64_t since)
{
	json_t *catalogue, *objects = json_array(), *generations = json_array(), *gone = json_array();
	const bool all = since == CONTROL_PAIR_ALL;
	uint32_t epoch;

	pthread_mutex_lock(&control->lock);
	for (uint32_t id = 1; id <= WIRE_OBJECTS_MAX; id++) {
		if (!all && control->changed[id] <= since)
			continue;
		if (control->generations[id])
			json_array_append_new(generations,
					      json_pack("[i, I]", (int)id, (json_int_t)control->generations[id]));
		if (control->objects[id])
			json_array_append_new(objects, jsonrpc_object_encode(control->objects[id]));
		else if (!all)
			json_array_append_new(gone, json_integer(id));
	}
	/* A node that has replaced its primary, and has no layout yet, must use later epochs than that. */
	epoch = control->epoch > control->epoch_floor ? control->epoch : control->epoch_floor;
	pthread_mutex_unlock(&control->lock);
	catalogue = json_pack("{s:I, s:o, s:o}", "epoch", (json_int_t)epoch, "objects", objects, "generations",
			      generations);
	if (!all)
		json_object_set(catalogue, "gone", gone);
	json_decref(gone);
	if (control->config->ps_count > 1)
		add_cluster(control, catalogue);
	if (has_lineage(control))
		add_lineage(control, catalogue);
	add_queues(control, catalogue);
	return catalogue;
}

static int take_generations(struct control *control, const json_t *list, struct star_error *err)
{
	const json_t *each;
	size_t i;

	json_array_foreach(list, i, each)
	{
		const json_int_t id = json_integer_value(json_array_get(each, 0));
		const json_int_t generation = json_integer_value(json_array_get(each, 1));

		if (id < 1 || id > WIRE_OBJECTS_MAX || generation < 0 || generation > OBJECT_GENERATION_MAX + 1)
			return star_error_set(err, -EPROTO, "the primary's catalogue has an invalid generation");
		pthread_mutex_lock(&control->lock);
		if (control->generations[id] < (uint32_t)generation)
			control->generations[id] = (uint32_t)generation;
		pthread_mutex_unlock(&control->lock);
	}
	return 0;
}

static int take_queues(struct control *control, const json_t *saved, struct star_error *err)
{
	struct control_queues queues = { 0 }, before;
	struct star_error why = { 0 };

	if (saved && control_queues_load(&queues, saved, &why) < 0)
		return star_error_set(err, -EPROTO, "the primary's work queues: %.400s", why.text);
	pthread_mutex_lock(&control->lock);
	before = control->queues;
	control->queues = queues;
	pthread_mutex_unlock(&control->lock);
	control_queues_fini(&before);
	return 0;
}

static int take_cluster(struct control *control, const json_t *json, struct star_error *err)
{
	static const char *const members[] = { "epoch",	     "reactors",    "first", "begins_with",
					       "taken_back", "passed_over", NULL };
	const bool history = json_object_get(json, "taken_back") != NULL;
	struct control_handed handed = { .epoch = 0 };
	struct star_error why = { 0 };
	uint64_t begins_with = 0;
	uint32_t *reactors = &handed.place.reactors, *first = &handed.place.first;

	if (!json_is_object(json) || jsonrpc_member_only(json, members, &why) < 0 ||
	    jsonrpc_member_u32(json, "epoch", 0, CONTROL_EPOCH_MAX, &handed.epoch, &why) < 0 ||
	    jsonrpc_member_u32(json, "reactors", 0, WIRE_NODES_MAX * WIRE_REACTORS_MAX, reactors, &why) < 0 ||
	    jsonrpc_member_u32(json, "first", 0, WIRE_NODES_MAX * WIRE_REACTORS_MAX, first, &why) < 0 ||
	    jsonrpc_member_u64(json, "begins_with", &begins_with, &why) < 0 ||
	    (history && (jsonrpc_member_u64(json, "taken_back", &handed.taken_back, &why) < 0 ||
			 jsonrpc_member_u64(json, "passed_over", &handed.passed_over, &why) < 0)) ||
	    (handed.epoch ? *first + control->config->reactors > *reactors : *reactors || *first))
		return star_error_set(err, -EPROTO, "the primary does not report its place in the cluster: %.300s",
				      why.text);
	if (history != config_shares_history(control->config))
		return star_error_set(
			err, -EPROTO,
			"only one of the two nodes keeps a journal: give both a journal.directory, or none");
	pthread_mutex_lock(&control->lock);
	handed.lineage = control->handed.lineage; /* set by take_lineage */
	control->handed = handed;
	if (control->task == 0)
		control->begins_with = begins_with;
	pthread_mutex_unlock(&control->lock);
	return 0;
}

static int take_lineage(struct control *control, const json_t *json, struct star_error *err)
{
	static const char *const members[] = { "lineage", "began", "newest", NULL };
	const struct control_data_plane *plane = &control->data_plane;
	struct control_lineage lineage;
	struct star_error why = { 0 };

	if (jsonrpc_member_only(json, members, &why) < 0 ||
	    jsonrpc_member_u64(json, "lineage", &lineage.id, &why) < 0 ||
	    jsonrpc_member_u64(json, "began", &lineage.began, &why) < 0 ||
	    jsonrpc_member_u64(json, "newest", &lineage.newest, &why) < 0 || lineage.id == 0 ||
	    lineage.id > INT64_MAX || lineage.began > INT64_MAX || lineage.newest > INT64_MAX)
		return star_error_set(err, -EPROTO, "the primary does not report which checkpoints are its own: %.300s",
				      why.text[0] ? why.text : "a number is out of bounds");
	pthread_mutex_lock(&control->lock);
	control->handed.lineage = lineage.id;
	pthread_mutex_unlock(&control->lock);
	if (plane->follow_lineage)
		plane->follow_lineage(plane->ctx, &lineage);
	return 0;
}

/* Drops objects that are no longer listed, or are other objects under the same id. gone_ids NULL: all objects are
 * listed; otherwise those that have changed, and gone_ids are those that were dropped. */
static void forget_others(struct control *control, const struct object_spec *const *listed, const uint64_t *gone_ids)
{
	for (uint32_t id = 1; id <= WIRE_OBJECTS_MAX; id++) {
		bool gone;

		pthread_mutex_lock(&control->lock);
		gone = control->objects[id] && (listed[id] ? listed[id]->generation != control->objects[id]->generation
							   : !gone_ids || control_bit(gone_ids, id));
		pthread_mutex_unlock(&control->lock);
		if (gone)
			control_forget(control, id, "the primary has dropped it");
	}
}

static int take_gone(const json_t *list, uint64_t *ids, struct star_error *err)
{
	const json_t *each;
	size_t i;

	if (!json_is_array(list))
		return star_error_set(err, -EPROTO, "the primary's catalogue has no list of removed objects");
	json_array_foreach(list, i, each)
	{
		const json_int_t id = json_integer_value(each);

		if (id < 1 || id > WIRE_OBJECTS_MAX)
			return star_error_set(err, -EPROTO, "the primary's catalogue has an invalid id");
		control_set_bit(ids, (uint32_t)id);
	}
	return 0;
}

int control_pair_take(struct control *control, const json_t *catalogue, uint32_t *epoch, struct star_error *err)
{
	static const char *const members[] = { "epoch", "objects", "generations", "queues",
					       "gone",	"cluster", "checkpoints", NULL };
	const json_t *objects = json_object_get(catalogue, "objects"), *gone = json_object_get(catalogue, "gone"),
		     *checkpoints = json_object_get(catalogue, "checkpoints"), *json;
	uint64_t gone_ids[WIRE_OBJECTS_MAX / 64 + 1] = { 0 };
	const struct object_spec *listed[WIRE_OBJECTS_MAX + 1] = { 0 };
	struct object_spec *specs;
	size_t i;
	int rc = 0;

	if (jsonrpc_member_only(catalogue, members, err) < 0 ||
	    jsonrpc_member_u32(catalogue, "epoch", 0, CONTROL_EPOCH_MAX, epoch, err) < 0)
		return -EPROTO;
	if (!json_is_array(objects) || json_array_size(objects) > WIRE_OBJECTS_MAX)
		return star_error_set(err, -EPROTO, "the primary's catalogue has no list of objects");
	if (gone && take_gone(gone, gone_ids, err) < 0)
		return err->code;
	specs = calloc(json_array_size(objects) + 1, sizeof(*specs));
	if (!specs)
		return star_error_set(err, -ENOMEM, "out of memory");
	json_array_foreach(objects, i, json)
	{
		rc = jsonrpc_object_decode(json, &specs[i], err);
		if (rc == 0 && specs[i].id == 0)
			rc = star_error_set(err, -EPROTO, "the primary sent \"%s\" without its id", specs[i].name);
		if (rc < 0)
			break;
		listed[specs[i].id] = &specs[i];
	}
	if (rc == 0)
		forget_others(control, listed, gone ? gone_ids : NULL);
	for (i = 0; rc == 0 && i < json_array_size(objects); i++)
		rc = control_install(control, &specs[i], err);
	if (rc == 0)
		rc = take_generations(control, json_object_get(catalogue, "generations"), err);
	if (rc == 0)
		rc = take_queues(control, json_object_get(catalogue, "queues"), err);
	if (rc == 0 && control->config->ps_count > 1)
		rc = take_cluster(control, json_object_get(catalogue, "cluster"), err);
	if (rc == 0 && (checkpoints || config_shares_history(control->config)))
		rc = take_lineage(control, checkpoints, err);
	free(specs);
	return rc;
}

struct secure_ring *control_pair_ring(struct control *control)
{
	return control->ring;
}

int control_pair_keys(struct control *control, struct secure_keys **keys, struct star_error *err)
{
	return control_security_own(control, keys, err);
}
