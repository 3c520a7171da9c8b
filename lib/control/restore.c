/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A running cluster rolls back to a checkpoint: each node restarts as if it had been killed, and PS task 0 says with
 * which checkpoint. So nothing is restored in another way than at a start, and workers notice it as they notice any
 * restart. PS task 0 first reads the checkpoint to its end, then tells the others and lets none join meanwhile, and
 * restarts itself when all have been told.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "jsonrpc/member.h"
#include "control/node.h"

int control_restore_look_again(struct control *control, struct star_error *err)
{
	const struct control_data_plane *plane = &control->data_plane;
	uint64_t id;
	int rc;

	pthread_mutex_lock(&control->lock);
	id = control->begins_with;
	pthread_mutex_unlock(&control->lock);
	if (!id || control->config->checkpoint_restore != CONFIG_RESTORE_GOOD)
		return 0;
	rc = plane->restored(plane->ctx, &id, NULL, NULL, err);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&control->lock);
	control->begins_with = id;
	pthread_mutex_unlock(&control->lock);
	return 0;
}

/* A node that restarts is replaced by its standby, with that one's state. Under lock. */
static bool has_pair(const struct control *control)
{
	for (uint32_t task = 1; task < control->config->ps_count; task++)
		if (control->nodes[task].generation)
			return true;
	return control->config->standby_peer[0] != 0;
}

bool control_restore_together(struct control *control)
{
	struct checkpointer *p = &control->checkpointer;

	/* With journals, their changes would be lost. */
	if (!p->running || !control->begins_with || p->together_failed || control->history.kept || has_pair(control))
		return false;
	if (!p->asked_restore && !p->restoring) {
		p->asked_restore = p->woken = p->together = true;
		p->error[0] = 0;
		pthread_cond_broadcast(&control->wake);
	}
	return true;
}

int control_restore_ask(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "id", NULL };
	struct checkpointer *p = &control->checkpointer;
	uint32_t id = 0;
	int rc = 0;

	if (jsonrpc_member_only(params, members, err) < 0 ||
	    (json_object_get(params, "id") && jsonrpc_member_u32(params, "id", 1, INT32_MAX, &id, err) < 0))
		return control_invalid(err);
	pthread_mutex_lock(&control->lock);
	if (!p->running)
		rc = star_error_set(err, -EINVAL, "this cluster keeps no checkpoints: set checkpoint.directory");
	else if (!control->config->checkpoint_restore)
		rc = star_error_set(
			err, -EINVAL,
			"checkpoint.restore is \"no\" in this cluster: a node that dies would begin with nothing. "
			"Set it to latest or good, and start the nodes again with checkpoint.restore_id");
	else if (p->writing || p->asked || p->asked_restore || p->restoring)
		rc = star_error_set(err, -EBUSY, "a checkpoint is being written or restored: wait until that is done");
	else if (has_pair(control))
		rc = star_error_set(
			err, -ENOTSUP,
			"nodes of this cluster have standbys, which would take the places of those that begin "
			"again: stop all nodes, move away what is in standby.directory of each, and start them "
			"with checkpoint.restore_id");
	else
		rc = control_leader_laid_out(control, err);
	if (rc == 0) {
		p->asked_restore = p->woken = true;
		p->restore_id = id;
		p->together = false;
		p->error[0] = 0;
		pthread_cond_broadcast(&control->wake);
		*result = json_pack("{s:I}", "incarnation", (json_int_t)control->inherited); /* as in status */
	}
	pthread_mutex_unlock(&control->lock);
	return rc;
}

/* Until the node has been told, or has restarted already and will restore that checkpoint. */
static int send_back(struct control *control, uint32_t task, uint32_t incarnation, uint64_t id, struct star_error *err)
{
	bool heard = false;

	while (!heard) {
		json_t *params = json_pack("{s:{s:o}}", "restart", "id", jsonrpc_member_from_u64(id));
		json_t *state = control_checkpointer_ask(control, CALLER_CHECKPOINTER, task, params, err);

		heard = state != NULL;
		json_decref(state);
		pthread_mutex_lock(&control->lock);
		heard |= control->nodes[task].incarnation != incarnation;
		pthread_mutex_unlock(&control->lock);
		if (heard)
			break;
		log_warn("rolling back to checkpoint %" PRIu64 ", it has to be told again: %s", id, err->text);
		if (!control_pause(control, CONTROL_BEAT_MS, NULL))
			return star_error_set(err, -ECANCELED, "PS task 0 is shutting down");
	}
	return 0;
}

/* together: because the nodes do not fit together, so that there is no layout. */
static int roll_back(struct control *control, uint64_t id, bool together, struct star_error *err)
{
	const struct control_data_plane *plane = &control->data_plane;
	const uint32_t count = control->config->ps_count;
	uint32_t *incarnations = calloc(count, sizeof(*incarnations));
	uint32_t epoch;
	int rc = incarnations ? 0 : star_error_set(err, -ENOMEM, "out of memory");

	if (rc == 0)
		rc = together ? control_restore_look_again(control, err)
			      : control_checkpointer_wait_for_all(control, &epoch, err);
	if (rc == 0 && together) {
		pthread_mutex_lock(&control->lock);
		id = control->begins_with;
		pthread_mutex_unlock(&control->lock);
	}
	if (rc == 0)
		rc = plane->checkpoint_check(plane->ctx, &id, err);
	if (rc < 0)
		goto out;
	log_info("all nodes roll back to checkpoint %" PRIu64, id);
	pthread_mutex_lock(&control->lock);
	if (!together)
		rc = control->dropping ? star_error_set(err, -EBUSY, "a table is being dropped: try again")
				       : control_leader_laid_out(control, err); /* still? */
	else if (!control->misfit[0])
		rc = star_error_set(err, -ECANCELED, "nodes have changed meanwhile");
	control->rolls_back = rc == 0;
	if (rc == 0)
		control->begins_with = id;
	for (uint32_t task = 0; task < count; task++)
		incarnations[task] = control->nodes[task].incarnation;
	pthread_mutex_unlock(&control->lock);
	/* An administrator wants everything in it; otherwise objects that were dropped since stay dropped. */
	if (rc == 0 && !together && plane->bring_back) {
		rc = plane->bring_back(plane->ctx, id, err);
		pthread_mutex_lock(&control->lock);
		control->rolls_back = rc == 0;
		pthread_mutex_unlock(&control->lock);
	}
	for (uint32_t task = 1; rc == 0 && task < count; task++)
		rc = send_back(control, task, incarnations[task], id, err);
	if (rc == 0)
		plane->roll_back(plane->ctx, id);
out:
	free(incarnations);
	return rc;
}

void control_restore_run(struct control *control)
{
	struct checkpointer *p = &control->checkpointer;
	struct star_error err = { 0 };
	bool together;
	uint64_t id;
	int rc;

	pthread_mutex_lock(&control->lock);
	p->asked_restore = false;
	p->restoring = true;
	together = p->together;
	id = p->restore_id;
	pthread_mutex_unlock(&control->lock);
	rc = roll_back(control, id, together, &err);
	if (rc == 0)
		return; /* its present state ends */
	log_error("the cluster cannot roll back: %s", err.text);
	pthread_mutex_lock(&control->lock);
	p->restoring = p->together = false;
	p->together_failed = together && rc != -ECANCELED; /* until nodes have changed */
	strcpy(p->error, err.text);
	pthread_mutex_unlock(&control->lock);
}
