/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/node.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "jsonrpc/jsonrpc_message.h"

int control_invalid(struct star_error *err)
{
	return err->code = JSONRPC_INVALID_PARAMS;
}

/* Which of a task's two addresses. */
static bool is_second(const struct control *control, uint32_t task)
{
	if (task == control->task)
		return control->config->standby_second;
	if (control->task == 0)
		return control->nodes && __atomic_load_n(&control->nodes[task].second, __ATOMIC_RELAXED);
	return task == 0 && __atomic_load_n(&control->leader_second, __ATOMIC_RELAXED);
}

void control_ps_address(const struct control *control, uint32_t task, char text[static CONTROL_ADDRESS_MAX])
{
	const struct config_address *address = config_ps_address(control->config, task, is_second(control, task));

	snprintf(text, CONTROL_ADDRESS_MAX, "%s", config_show(address->host, address->port).text);
}

struct jsonrpc_client *control_connect(const struct control *control, uint32_t task, uint64_t deadline_us,
				       struct star_error *err)
{
	char own[CONTROL_ADDRESS_MAX], address[CONTROL_ADDRESS_MAX];
	struct jsonrpc_client *client;
	struct secure_keys *keys;

	if (control_security_own(control, &keys, err) < 0)
		return NULL;
	control_ps_address(control, control->task, own);
	control_ps_address(control, task, address);
	client = jsonrpc_connect_from(own, keys, address, deadline_us, err);
	secure_keys_free(keys);
	return client;
}

void control_leader_turn(struct control *control, bool was_second)
{
	if (config_ps_address(control->config, 0, true))
		__atomic_compare_exchange_n(&control->leader_second, &was_second, !was_second, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
}

bool control_leader_elsewhere(int code)
{
	switch (-code) {
	case EHOSTDOWN:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ETIMEDOUT:
	case ECONNREFUSED:
	case ECONNRESET:
	case EPIPE:
		return true;
	default:
		return false;
	}
}

json_t *control_leader_call(struct control *control, enum control_caller caller, const char *method, json_t *params,
			    uint64_t deadline_us, struct star_error *err)
{
	const unsigned addresses = config_ps_address(control->config, 0, true) ? 2 : 1;
	json_t *result = NULL;

	for (unsigned i = 0; !result && i < addresses; i++) {
		const bool second = __atomic_load_n(&control->leader_second, __ATOMIC_RELAXED);
		struct jsonrpc_client *client = control_connect(control, 0, CONTROL_HEARTBEAT_US, err);
		const bool connected = client != NULL;

		if (connected)
			result = control_call(control, caller, client, method, json_incref(params), deadline_us, err);
		jsonrpc_close(client);
		/* A request to a node that has not answered may have been executed. */
		if (result || (connected && err->code != -EHOSTDOWN) || !control_leader_elsewhere(err->code))
			break;
		control_leader_turn(control, second);
	}
	json_decref(params);
	return result;
}

bool control_is_stopping(struct control *control)
{
	bool stopping;

	pthread_mutex_lock(&control->lock);
	stopping = control->stopping;
	pthread_mutex_unlock(&control->lock);
	return stopping;
}

json_t *control_call(struct control *control, enum control_caller caller, struct jsonrpc_client *client,
		     const char *method, json_t *params, uint64_t deadline_us, struct star_error *err)
{
	json_t *result = NULL;
	bool stopping;

	pthread_mutex_lock(&control->lock);
	stopping = control->stopping;
	if (!stopping)
		control->calling[caller] = client;
	pthread_mutex_unlock(&control->lock);
	if (stopping) {
		json_decref(params);
		star_error_set(err, -ECANCELED, "PS task %u is shutting down", control->task);
		return NULL;
	}
	result = jsonrpc_call(client, method, params, deadline_us, err);
	pthread_mutex_lock(&control->lock);
	control->calling[caller] = NULL;
	pthread_mutex_unlock(&control->lock);
	return result;
}

void control_stop(struct control *control)
{
	pthread_mutex_lock(&control->lock);
	control->stopping = true;
	for (unsigned i = 0; i < CALLERS; i++)
		if (control->calling[i])
			jsonrpc_interrupt(control->calling[i]);
	pthread_cond_broadcast(&control->wake);
	pthread_mutex_unlock(&control->lock);
}

bool control_pause(struct control *control, uint32_t ms, const bool *until)
{
	const struct timespec end = clock_timespec(clock_ns() + ms * 1000000ull);
	bool stopping;

	pthread_mutex_lock(&control->lock);
	while (!control->stopping && !(until && *until) &&
	       pthread_cond_timedwait(&control->wake, &control->lock, &end) != ETIMEDOUT)
		;
	stopping = control->stopping;
	pthread_mutex_unlock(&control->lock);
	return !stopping;
}

/* The list of ids whose names have this hash. */
static uint32_t name_place(const char *name)
{
	return (uint32_t)hash_name(name) & (CONTROL_NAMES - 1);
}

/* Under lock, when the object is added, and before it is removed. */
static void add_name(struct control *control, const struct object_spec *spec)
{
	uint16_t *first = &control->named[name_place(spec->name)];

	control->named_next[spec->id] = *first;
	*first = (uint16_t)spec->id;
}

static void take_out_name(struct control *control, const struct object_spec *spec)
{
	uint16_t *at = &control->named[name_place(spec->name)];

	while (*at && *at != spec->id)
		at = &control->named_next[*at];
	*at = control->named_next[spec->id];
}

const struct object_spec *control_find(const struct control *control, const char *name)
{
	uint32_t id = control->named[name_place(name)];

	while (id && strcmp(control->objects[id]->name, name) != 0)
		id = control->named_next[id];
	return id ? control->objects[id] : NULL;
}

static int compare(const struct control *control, const struct object_spec *spec, struct star_error *err)
{
	const struct object_spec *by_id = control->objects[spec->id], *by_name = control_find(control, spec->name);

	if (by_name && by_name->id != spec->id)
		return star_error_set(err, -EEXIST, "\"%s\" is object %u on PS task %u, not %u", spec->name,
				      by_name->id, control->task, spec->id);
	if (!by_id)
		return 0;
	if (strcmp(by_id->name, spec->name) != 0 || by_id->generation != spec->generation)
		return star_error_set(err, -EEXIST, "object %u is \"%s\" on PS task %u, not \"%s\"", spec->id,
				      by_id->name, control->task, spec->name);
	return wire_object_spec_same(by_id, spec, err) < 0 ? -EEXIST : 1;
}

int control_compare(struct control *control, const struct object_spec *spec, struct star_error *err)
{
	int rc;

	pthread_mutex_lock(&control->lock);
	rc = compare(control, spec, err);
	pthread_mutex_unlock(&control->lock);
	return rc;
}

static int install(struct control *control, const struct object_spec *spec, struct star_error *err)
{
	struct object_spec *copy;
	int rc = control_compare(control, spec, err);

	if (rc)
		return rc < 0 ? rc : 0;
	copy = malloc(sizeof(*copy));
	if (!copy)
		return star_error_set(err, -ENOMEM, "out of memory");
	*copy = *spec;
	rc = control->data_plane.install(control->data_plane.ctx, copy, err);
	if (rc < 0) {
		free(copy);
		return rc;
	}
	pthread_mutex_lock(&control->lock);
	control->objects[copy->id] = copy;
	add_name(control, copy);
	control->changed[copy->id] = ++control->version;
	control->objects_count++;
	if (copy->id > control->objects_last)
		control->objects_last = copy->id;
	control_set_bit(control->fresh, copy->id);
	pthread_mutex_unlock(&control->lock);
	log_info("%s \"%s\" is installed as object %u", wire_object_kind_name(copy->kind), copy->name, copy->id);
	return 0;
}

int control_install(struct control *control, const struct object_spec *spec, struct star_error *err)
{
	int rc;

	pthread_mutex_lock(&control->plane);
	rc = install(control, spec, err);
	pthread_mutex_unlock(&control->plane);
	return rc;
}

/* Holds the plane. NULL: there is none. */
static const struct object_spec *forget_one(struct control *control, uint32_t id)
{
	struct object_spec **retired, *spec;

	pthread_mutex_lock(&control->lock);
	spec = control->objects[id];
	retired = spec ? realloc(control->retired, (control->retired_count + 1) * sizeof(*retired)) : NULL;
	if (retired) {
		control->retired = retired;
		retired[control->retired_count++] = spec;
		take_out_name(control, spec);
		control->objects[id] = NULL;
		control->changed[id] = ++control->version;
		control->objects_count--;
		control->drops++; /* a checkpoint in progress may have it */
		if (control->generations[id] <= spec->generation)
			control->generations[id] = spec->generation + 1;
		while (control->objects_last && !control->objects[control->objects_last])
			control->objects_last--;
	}
	pthread_mutex_unlock(&control->lock);
	if (retired && control->data_plane.forget)
		control->data_plane.forget(control->data_plane.ctx, id);
	return retired ? spec : NULL;
}

void control_tell_restart(uint32_t task, uint64_t checkpoint, bool journal)
{
	if (journal)
		log_warn("PS task %" PRIu32 " was restarted: it recovers from its journal", task);
	else if (checkpoint)
		log_warn("PS task %" PRIu32 " was restarted: it begins with its share of checkpoint %" PRIu64, task,
			 checkpoint);
	else
		log_warn("PS task %" PRIu32 " was restarted: there is no checkpoint for it, its rows are lost", task);
}

void control_tell_replaced(uint32_t task, uint64_t generation)
{
	log_info("PS task %" PRIu32 ": the other node of its pair has taken its place, generation %" PRIu64, task,
		 generation);
}

/* The next program that uses it; 0: none. */
static uint32_t next_user(struct control *control, const struct object_spec *spec, uint32_t behind)
{
	uint32_t found = 0;

	pthread_mutex_lock(&control->lock);
	for (uint32_t id = behind + 1; !found && id <= control->objects_last; id++)
		if (control->objects[id] && object_is_used_by(spec, control->objects[id]))
			found = id;
	pthread_mutex_unlock(&control->lock);
	return found;
}

void control_forget(struct control *control, uint32_t id, const char *why)
{
	const struct object_spec *spec;

	pthread_mutex_lock(&control->plane);
	spec = forget_one(control, id);
	for (uint32_t user = spec ? next_user(control, spec, 0) : 0; user; user = next_user(control, spec, user))
		forget_one(control, user);
	pthread_mutex_unlock(&control->plane);
	if (spec)
		log_info("%s \"%s\" is not kept as object %u: %s", wire_object_kind_name(spec->kind), spec->name, id,
			 why);
}

static void set_loading(struct control *control, const struct control_layout *layout)
{
	pthread_mutex_lock(&control->lock);
	control->loading = layout ? layout->checkpoint : 0;
	control->loads = layout && (layout->checkpoint || control->history.recovers);
	pthread_mutex_unlock(&control->lock);
}

/* The checkpoint and journal that it begins with are loaded. Under lock. */
static void note_begun(struct control *control, const struct control_layout *layout)
{
	const struct control_data_plane *plane = &control->data_plane;

	control->history.recovers = false;
	control->history.lineage = layout->lineage;
	control->history.taken_back = layout->taken_back;
	if (!plane->incarnation)
		return;
	control->inherited = plane->incarnation(plane->ctx);
	if (control->task == 0)
		control->nodes[0].layout.incarnation = control->inherited;
}

int control_set_layout(struct control *control, const struct control_layout *layout, struct star_error *err)
{
	int rc = 0;

	pthread_mutex_lock(&control->plane);
	/* It was closed because the other node of its pair takes its place. PS task 0 decides itself what it serves. */
	if (control->task && control_pair_serves(control, err) < 0) {
		pthread_mutex_unlock(&control->plane);
		return err->code;
	}
	set_loading(control, control->epoch ? NULL : layout);
	/* A heartbeat's reply may arrive after a newer layout that PS task 0 has sent. Threads that hold the plane
	 * write it. */
	if (layout->epoch > control->epoch) {
		rc = control->data_plane.set_layout(control->data_plane.ctx, layout, err);
		if (rc == 0) {
			pthread_mutex_lock(&control->lock);
			control->epoch = layout->epoch;
			control->version++;
			control->cluster_reactors = layout->cluster_reactors;
			control->first_reactor = layout->first_reactor;
			note_begun(control, layout);
			pthread_mutex_unlock(&control->lock);
			control_leave_note_layout(control);
			control_checkpointer_note_layout(control);
			log_info("layout epoch %u: %u reactor%s in the cluster, %u on this node, numbered from %u",
				 layout->epoch, layout->cluster_reactors, layout->cluster_reactors == 1 ? "" : "s",
				 control->config->reactors, layout->first_reactor);
		}
	}
	set_loading(control, NULL);
	pthread_mutex_unlock(&control->plane);
	return rc;
}

int control_catalogue_durable(struct control *control, const char *name, const char *done, const char *may,
			      const char *again, struct star_error *err)
{
	const struct control_data_plane *plane = &control->data_plane;
	struct star_error why = { 0 };
	const int rc = plane->catalogue_durable
			       ? plane->catalogue_durable(plane->ctx, control_pair_version(control), &why)
			       : 0;

	if (rc == 0)
		return 0;
	log_warn("\"%s\" is %s, which is not known to be durable: %s", name, done, why.text);
	return star_error_set(err, rc,
			      "\"%s\" is %s here, and nobody knows whether that is durable (%s): if this node dies "
			      "before its standby has it, %s. %s",
			      name, done, why.text, may, again);
}

_Static_assert((int)CONTROL_DURABLE_US < (int)CONTROL_PEER_US, "a task that does not know yet says so itself");

int control_empty(struct control *control, const char *name, bool begin, uint64_t *left, struct star_error *err)
{
	const struct object_spec *spec = control_table_by_name(control, name, err);
	const struct control_data_plane *plane = &control->data_plane;
	struct star_error why = { 0 };
	uint64_t own = 0;
	int rc;

	if (!spec)
		return err->code;
	pthread_mutex_lock(&control->plane);
	rc = plane->empty(plane->ctx, spec, begin, &own, err);
	pthread_mutex_unlock(&control->plane);
	*left += own;
	if (rc < 0 || own || begin || !plane->rows_durable)
		return rc;
	rc = plane->rows_durable(plane->ctx, &why);
	return rc == 0 ? 0
		       : star_error_set(err, rc,
					"\"%s\" is empty on PS task %u, and nobody knows whether that is durable (%s): "
					"if the node dies now, rows may be there again. Empty it again",
					name, control->task, why.text);
}

int control_sweep(struct control *control, const char *name, struct star_error *err)
{
	const struct object_spec *spec;
	int rc = 0;

	pthread_mutex_lock(&control->lock);
	spec = control_find(control, name);
	if (control->pair_waits[0])
		rc = star_error_set(err, -EHOSTDOWN, "%s", control->pair_waits);
	else if (!spec)
		rc = control_unknown_table(control, name, err);
	else if (!spec->steps_to_live && spec->l2_threshold == 0)
		rc = star_error_set(err, -EINVAL,
				    "\"%s\" has nothing to evict by: neither steps_to_live nor l2_threshold", name);
	pthread_mutex_unlock(&control->lock);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&control->plane);
	rc = control->data_plane.sweep(control->data_plane.ctx, spec, err);
	pthread_mutex_unlock(&control->plane);
	return rc;
}
