/* SPDX-License-Identifier: BSD-3-Clause */
/* A node's part of a checkpoint: PS task 0 tells it to begin and to end (checkpoint.c). */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/log.h"
#include "control/node.h"
#include "jsonrpc/member.h"

/* Reads what both messages contain: whose part it is. */
static int read_owner(const json_t *json, uint32_t *incarnation, uint32_t *epoch, struct star_error *err)
{
	if (jsonrpc_member_u32(json, "incarnation", 1, UINT32_MAX, incarnation, err) < 0 ||
	    jsonrpc_member_u32(json, "epoch", 1, UINT32_MAX, epoch, err) < 0)
		return -EINVAL;
	return 0;
}

struct part {
	const json_t *begin, *end, *restart;
	struct control_checkpoint checkpoint;
	uint64_t id;
	uint32_t incarnation, epoch;
	uint32_t sum;
	bool kept;
};

static int read_begin(const json_t *json, struct part *part, struct star_error *err)
{
	static const char *const members[] = { "id", "parent", "name", "last", "incarnation", "epoch", NULL };
	struct control_checkpoint *c = &part->checkpoint;
	const char *name;

	if (jsonrpc_member_only(json, members, err) < 0 || jsonrpc_member_u64(json, "id", &c->id, err) < 0 ||
	    jsonrpc_member_u64(json, "parent", &c->parent, err) < 0 ||
	    jsonrpc_member_bool(json, "last", &c->last, err) < 0 ||
	    jsonrpc_member_string(json, "name", sizeof(c->name) - 1, &name, err) < 0 ||
	    read_owner(json, &part->incarnation, &part->epoch, err) < 0)
		return -EINVAL;
	if (strchr(name, '/') || name[0] == '.')
		return star_error_set(err, -EINVAL, "member \"name\" must be the name of a directory, without a slash");
	strcpy(c->name, name);
	c->epoch = part->epoch;
	return 0;
}

static int read_end(const json_t *json, struct part *part, struct star_error *err)
{
	static const char *const members[] = { "id", "kept", "sum", "incarnation", "epoch", NULL };

	if (jsonrpc_member_only(json, members, err) < 0 || jsonrpc_member_u64(json, "id", &part->id, err) < 0 ||
	    jsonrpc_member_bool(json, "kept", &part->kept, err) < 0 ||
	    (json_object_get(json, "sum") && jsonrpc_member_u32(json, "sum", 0, UINT32_MAX, &part->sum, err) < 0) ||
	    read_owner(json, &part->incarnation, &part->epoch, err) < 0)
		return -EINVAL;
	return 0;
}

static int read_part(const json_t *params, struct part *part, struct star_error *err)
{
	static const char *const members[] = { "begin", "end", "restart", NULL };
	static const char *const restart_members[] = { "id", NULL };

	*part = (struct part){ .begin = json_object_get(params, "begin"),
			       .end = json_object_get(params, "end"),
			       .restart = json_object_get(params, "restart") };
	if (jsonrpc_member_only(params, members, err) < 0 || (part->begin && read_begin(part->begin, part, err) < 0) ||
	    (part->end && read_end(part->end, part, err) < 0) ||
	    (part->restart && (jsonrpc_member_only(part->restart, restart_members, err) < 0 ||
			       jsonrpc_member_u64(part->restart, "id", &part->id, err) < 0)))
		return -EINVAL;
	if (!!part->begin + !!part->end + !!part->restart > 1)
		return star_error_set(err, -EINVAL, "one of \"begin\", \"end\" and \"restart\" is possible");
	return 0;
}

/* Whether this node is the one that is meant, with the same layout. Holds the plane. */
static bool is_current(struct control *control, const struct part *part)
{
	return part->incarnation == control->incarnation && part->epoch == control->epoch;
}

static bool is_loading(struct control *control)
{
	json_t *state = control->data_plane.checkpoint_state(control->data_plane.ctx);
	const bool loading = json_is_true(json_object_get(state, "loading"));

	json_decref(state);
	return loading;
}

/* Loading holds the plane, so this is asked before. */
static int begin_part(struct control *control, const struct part *part, struct star_error *err)
{
	const struct control_data_plane *plane = &control->data_plane;
	int rc;

	if (is_loading(control))
		return star_error_set(err, -EBUSY, "not now: it has not finished restoring");
	pthread_mutex_lock(&control->plane);
	if (is_current(control, part))
		rc = plane->checkpoint_begin(plane->ctx, &part->checkpoint, err);
	else
		rc = star_error_set(err, -ESTALE, "not now: it was restarted, or serves another layout");
	if (rc == 0) {
		control_leave_note_begin(control, &part->checkpoint);
		control->part.id = part->checkpoint.id;
		control->part.epoch = part->epoch;
	}
	pthread_mutex_unlock(&control->plane);
	return rc;
}

/* What was written belongs to the checkpoint in any case; whether a delta may follow it is another question. */
static void end_part(struct control *control, const struct part *part)
{
	const struct control_data_plane *plane = &control->data_plane;
	bool kept;

	if (is_loading(control))
		return;
	pthread_mutex_lock(&control->plane);
	kept = part->kept && is_current(control, part);
	plane->checkpoint_end(plane->ctx, part->id, kept, part->sum);
	control_leave_note_end(control, part->id, kept);
	if (control->part.id == part->id)
		control->part.id = 0;
	pthread_mutex_unlock(&control->plane);
}

static void end_orphan(struct executor_job *job, bool cancelled)
{
	struct control *control = (struct control *)((char *)job - offsetof(struct control, part_job));
	const struct control_data_plane *plane = &control->data_plane;

	if (cancelled)
		return;
	pthread_mutex_lock(&control->plane);
	if (control->part.id && control->part.epoch != control->epoch) {
		plane->checkpoint_end(plane->ctx, control->part.id, false, 0);
		control->part.id = 0;
	}
	pthread_mutex_unlock(&control->plane);
}

/*
 * There is a new layout. A part that was begun under the previous one no longer counts, and the node that should say so
 * may be dead. The part would keep copies of rows, and no standby could be filled, until the next checkpoint. Storage
 * may stall, so the thread that installs the layout does not wait for it. Holds the plane.
 */
void control_checkpointer_note_layout(struct control *control)
{
	if (!control->part.id || control->part.epoch == control->epoch || control->task == 0)
		return; /* PS task 0 tells itself */
	control_executor_post(control->executor, &control->part_job, end_orphan);
}

int control_checkpointer_part(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	const struct control_data_plane *plane = &control->data_plane;
	struct part part;
	int rc = 0;

	if (read_part(params, &part, err) < 0)
		return control_invalid(err);
	if (!control->config->checkpoint_directory[0])
		return star_error_set(err, -EINVAL, "it keeps no checkpoints: set checkpoint.directory on all nodes");
	if (part.begin)
		rc = begin_part(control, &part, err);
	if (part.end)
		end_part(control, &part);
	if (rc < 0)
		return rc;
	*result = plane->checkpoint_state(plane->ctx);
	pthread_mutex_lock(&control->lock);
	json_object_set_new(*result, "incarnation", json_integer(control->incarnation));
	json_object_set_new(*result, "epoch", json_integer(control->epoch));
	pthread_mutex_unlock(&control->lock);
	if (part.restart) {
		log_info("PS task 0 has the cluster roll back to checkpoint %" PRIu64, part.id);
		plane->roll_back(plane->ctx, part.id);
		control_stop(control); /* in its present state it must not join any more */
	}
	return 0;
}
