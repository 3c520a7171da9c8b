/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PS task 0: a create is all or nothing. It is not begun while a node is silent; if one node fails, the others forget
 * the object again. A node that is not reached does so when it joins again (follower.c), and the id is not used for
 * another object.
 */
#include <errno.h>

#include "base/clock.h"
#include "control/node.h"

/* Whether all other nodes have been heard from lately: waiting for a dead one would keep everybody else waiting. */
int control_leader_all_heard(struct control *control, const struct object_spec *spec, struct star_error *err)
{
	uint64_t now_us;
	int rc = 0;

	pthread_mutex_lock(&control->lock);
	now_us = clock_us(); /* read after the lock, because a heartbeat may come meanwhile */
	for (uint32_t task = 1; rc == 0 && task < control->config->ps_count; task++) {
		const struct cluster_node *node = &control->nodes[task];

		if (!control_bit(node->holds, spec->id) && control_watch_is_silent(node, now_us))
			rc = star_error_set(
				err, -EHOSTUNREACH,
				"\"%s\" is not yet on PS task %u: nothing was heard of it for %u s. Create it "
				"again when it is back",
				spec->name, task, (unsigned)((now_us - node->seen_us) / 1000000));
	}
	pthread_mutex_unlock(&control->lock);
	return rc;
}

/* Whether a node on which the object could not be installed certainly lacks it: it said so, or was not reached. */
static bool is_certain(int code)
{
	return code == -ENOMEM || code == -ENOSPC || code == -EINVAL || code == -EEXIST || code == -ECONNREFUSED ||
	       code == -EHOSTUNREACH || code == -ENETUNREACH;
}

/* A create that failed on one node, with this code, must leave no trace on the others. */
void control_leader_undo(struct control *control, const struct object_spec *spec, int code)
{
	bool all = is_certain(code);

	for (uint32_t task = 1; task < control->config->ps_count; task++) {
		struct star_error why = { 0 };
		bool has;

		pthread_mutex_lock(&control->lock);
		has = control_bit(control->nodes[task].holds, spec->id);
		control->nodes[task].holds[spec->id / 64] &= ~(UINT64_C(1) << (spec->id % 64));
		pthread_mutex_unlock(&control->lock);
		/* A node that is not reached forgets it when it joins again, because its catalogue has more objects
		 * then (follower.c). */
		if (has && control_leader_tell(control, task,
					       json_pack("{s:I, s:I}", "forget", (json_int_t)spec->id, "generation",
							 (json_int_t)spec->generation),
					       control_leader_deadline_us(control), &why) < 0)
			all = false;
	}
	control_forget(control, spec->id, "it could not be created on all nodes");
	pthread_mutex_lock(&control->lock);
	control_leader_clear_forgotten(control);
	if (!all)
		control->ids_given = spec->id > control->ids_given ? spec->id : control->ids_given;
	pthread_mutex_unlock(&control->lock);
}
