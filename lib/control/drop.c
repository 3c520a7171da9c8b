/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables are dropped on all nodes. PS task 0 begins only if it hears from all others. A drop is final when the id's
 * next generation is recorded (if there are checkpoints) and the table is removed from the catalogue. A node that is
 * not reached after that, or dies meanwhile, drops the table when it joins again and its catalogue has more than PS
 * task 0's (follower.c). A checkpoint in progress is abandoned, and written again as a full one.
 *
 * A free id is assigned to another object with the next generation, so that the two cannot be confused.
 */
#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "jsonrpc/member.h"
#include "control/node.h"

int control_leader_bring_back(struct control *control, struct star_error *err)
{
	const struct control_data_plane *plane = &control->data_plane;

	/* With a checkpoint that the configuration names, everything in it is restored. If the cluster rolls back by
	 * itself, it is not; if an administrator has requested the rollback, restore.c has decided that. */
	if (control->config->checkpoint_restore && control->config->checkpoint_id && !control->rolled_back_to &&
	    plane->bring_back)
		return plane->bring_back(plane->ctx, control->config->checkpoint_id, err);
	return 0;
}

int control_leader_begin_drops(struct control *control, struct star_error *err)
{
	const struct control_data_plane *plane = &control->data_plane;

	return plane->dropped_read ? plane->dropped_read(plane->ctx, control->generations, err) : 0;
}

uint32_t control_leader_generation(const struct control *control, uint32_t id)
{
	/* An earlier PS task 0 may have assigned the id before, and nobody knows how often. */
	if (!control->generations[id] && (control->epoch_floor || control->ids_unsure))
		return (uint32_t)hash_mix(control->incarnation + (uint64_t)id) % (OBJECT_GENERATION_MAX / 2) + 1;
	return control->generations[id];
}

void control_leader_clear_forgotten(struct control *control)
{
	for (uint32_t task = 0; task < control->config->ps_count; task++) {
		struct cluster_node *node = &control->nodes[task];

		for (uint32_t id = 1; id <= WIRE_OBJECTS_MAX; id++) {
			const uint64_t bit = UINT64_C(1) << (id % 64);

			if (control->objects[id])
				continue;
			node->holds[id / 64] &= ~bit;
			node->refuses_count -= control_bit(node->refuses, id);
			node->refuses[id / 64] &= ~bit;
		}
	}
}

static int read_params(const json_t *params, struct control_handle *drop, struct star_error *err)
{
	static const char *const members[] = { "name", "id", "generation", NULL };

	return jsonrpc_member_only(params, members, err) < 0 || control_handle_read(params, drop, err) < 0
		       ? control_invalid(err)
		       : 0;
}

/* Whether it may be dropped. If so, sets id and generation, and the generations as they must be recorded then. */
static int check_may_drop(struct control *control, struct control_handle *drop, uint32_t *generations,
			  struct star_error *err)
{
	const struct object_spec *spec;
	int rc;

	pthread_mutex_lock(&control->lock);
	rc = control_leader_laid_out(control, err);
	spec = rc == 0 ? control_handle_table(control, drop, err) : NULL;
	if (rc == 0 && !spec)
		rc = err->code;
	if (rc == 0)
		rc = control_leader_check_heard(control, drop->name, "dropped", err);
	memcpy(generations, control->generations, sizeof(control->generations));
	control->dropping = rc == 0; /* from here on no rollback may bring it back */
	if (rc == 0) {
		drop->id = spec->id;
		drop->generation = spec->generation;
		generations[spec->id] = spec->generation + 1;
		for (uint32_t id = 1; id <= control->objects_last; id++)
			if (control->objects[id] && object_is_used_by(spec, control->objects[id]))
				generations[id] = control->objects[id]->generation + 1;
	}
	pthread_mutex_unlock(&control->lock);
	return rc;
}

/* Tells the others; a node that is not reached does it when it joins again. Returns the tasks that were not reached. */
static json_t *tell_all(struct control *control, const struct control_handle *drop)
{
	json_t *later = json_array();

	for (uint32_t task = 1; task < control->config->ps_count; task++) {
		struct star_error why = { 0 };
		json_t *params = json_pack("{s:I, s:I}", "forget", (json_int_t)drop->id, "generation",
					   (json_int_t)drop->generation);

		if (control_leader_tell(control, task, params, control_leader_deadline_us(control), &why) == 0)
			continue;
		log_warn("\"%s\" is dropped on PS task %u when that joins again: %s", drop->name, task, why.text);
		json_array_append_new(later, json_integer(task));
		/* Until it has joined again, its part of a checkpoint would have the table. */
		pthread_mutex_lock(&control->lock);
		control->nodes[task].joined = false;
		pthread_mutex_unlock(&control->lock);
	}
	return later;
}

/* A checkpoint that has begun before the end may have rows of the table in some nodes' parts. */
static void note_dropping(struct control *control, bool dropping)
{
	pthread_mutex_lock(&control->lock);
	control->dropping = dropping;
	control->drops++;
	pthread_mutex_unlock(&control->lock);
}

int control_leader_drop(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	const struct control_data_plane *plane = &control->data_plane;
	uint32_t generations[WIRE_OBJECTS_MAX + 1];
	struct control_handle drop;
	json_t *later;
	int rc = read_params(params, &drop, err);

	if (rc == 0)
		rc = check_may_drop(control, &drop, generations, err);
	if (rc < 0)
		return rc;
	if (plane->dropped_write)
		rc = plane->dropped_write(plane->ctx, generations, err);
	if (rc < 0) {
		note_dropping(control, false);
		return rc;
	}
	note_dropping(control, true);
	control_forget(control, drop.id, "it was dropped");
	pthread_mutex_lock(&control->lock);
	control_leader_clear_forgotten(control);
	pthread_mutex_unlock(&control->lock);
	later = tell_all(control, &drop);
	note_dropping(control, false);
	control_leader_ask_checkpoint(control);
	rc = control_catalogue_durable(control, drop.name, "dropped", "the table may be there again",
				       "Look with `starctl tables` after that, and drop it again if it is", err);
	if (rc < 0) {
		json_decref(later);
		return rc;
	}
	*result = json_pack("{s:i, s:o}", "nodes", (int)control->config->ps_count, "later", later);
	return 0;
}

int control_follower_forget(struct control *control, const json_t *params, struct star_error *err)
{
	uint32_t id, generation = 0;
	bool there;

	if (jsonrpc_member_u32(params, "forget", 1, WIRE_OBJECTS_MAX, &id, err) < 0 ||
	    (json_object_get(params, "generation") &&
	     jsonrpc_member_u32(params, "generation", 0, OBJECT_GENERATION_MAX, &generation, err) < 0))
		return control_invalid(err);
	pthread_mutex_lock(&control->lock);
	there = control->objects[id] && control->objects[id]->generation == generation;
	if (!there && !control->objects[id])
		control->refused[id / 64] &= ~(UINT64_C(1) << (id % 64));
	pthread_mutex_unlock(&control->lock);
	if (there)
		control_forget(control, id, "PS task 0 says that it is gone");
	return 0;
}
