/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node is stopped, and a last checkpoint must contain everything that the cluster has acknowledged. Whichever node it
 * is, it asks PS task 0 for this checkpoint, and serves until it is committed. From its instant on no node accepts
 * requests, so everything that was acknowledged is in it. The other nodes serve again if it fails, or with the next
 * layout, when the node is back; meanwhile workers find nodes that wait for a layout. Other nodes that are stopped
 * meanwhile, in any order, need no further checkpoint. Only PS task 0 knows at first that it was committed, so it ends
 * when the others know, too.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "jsonrpc/member.h"
#include "control/node.h"

/* The state for a node that wants to stop; requests what is missing. Under lock. */
static json_t *leave_progress(struct control *control, uint32_t task)
{
	struct checkpointer *p = &control->checkpointer;

	control->nodes[task].leaving = true;
	if (p->running && !p->closed && !p->asked_last) {
		p->asked_last = p->woken = true;
		for (uint32_t other = 0; other < control->config->ps_count; other++)
			control->nodes[other].told_last = false;
		pthread_cond_broadcast(&control->wake);
	}
	control->nodes[task].told_last |= p->closed;
	return json_pack("{s:b, s:I, s:o}", "done", !p->running || p->closed, "failed", (json_int_t)p->lasts_failed,
			 "error", jsonrpc_member_from_text(p->error));
}

int control_leave_take(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "task", "incarnation", NULL };
	uint32_t task, incarnation;
	int rc = 0;

	if (control->config->ps_count < 2)
		return star_error_set(err, -EINVAL, "this cluster has one PS task");
	if (jsonrpc_member_only(params, members, err) < 0 ||
	    jsonrpc_member_u32(params, "task", 1, control->config->ps_count - 1, &task, err) < 0 ||
	    jsonrpc_member_u32(params, "incarnation", 1, UINT32_MAX, &incarnation, err) < 0)
		return control_invalid(err);
	pthread_mutex_lock(&control->lock);
	if (control->nodes[task].incarnation != incarnation)
		rc = star_error_set(err, -ESTALE, "PS task %u has not joined as this incarnation", task);
	else
		*result = leave_progress(control, task);
	pthread_mutex_unlock(&control->lock);
	return rc;
}

/* Asks PS task 0; NULL with err. */
static json_t *ask_about_leave(struct control *control, struct star_error *err)
{
	json_t *answer;

	if (control->task == 0) {
		pthread_mutex_lock(&control->lock);
		answer = leave_progress(control, 0);
		pthread_mutex_unlock(&control->lock);
		return answer;
	}
	return control_leader_call(control, CALLER_LEAVE, "leave",
				   json_pack("{s:i, s:I}", "task", (int)control->task, "incarnation",
					     (json_int_t)control->incarnation),
				   CONTROL_HEARTBEAT_US, err);
}

static bool is_closed(struct control *control)
{
	bool closed;

	pthread_mutex_lock(&control->lock);
	closed = control->closed;
	pthread_mutex_unlock(&control->lock);
	return closed;
}

/* Whether it has served anything that can be saved, that is, has a layout, and should be saved. PS task 0's setting
 * counts for all nodes: one that is not saved would lose its rows, while the others keep theirs. */
static bool is_to_be_saved(struct control *control)
{
	bool saved;

	pthread_mutex_lock(&control->lock);
	saved = control->epoch != 0 && (control->config->checkpoint_on_stop || control->leader_on_stop);
	pthread_mutex_unlock(&control->lock);
	return saved && control->config->checkpoint_directory[0];
}

void control_leave_note_begin(struct control *control, const struct control_checkpoint *c)
{
	pthread_mutex_lock(&control->lock);
	control->closing = c->last ? c->id : 0;
	control->closing_us = clock_us();
	pthread_mutex_unlock(&control->lock);
}

void control_leave_note_end(struct control *control, uint64_t id, bool kept)
{
	pthread_mutex_lock(&control->lock);
	if (control->closing == id) {
		control->closed = kept;
		control->closing = kept ? id : 0;
	}
	pthread_mutex_unlock(&control->lock);
}

void control_leave_note_layout(struct control *control)
{
	pthread_mutex_lock(&control->lock);
	control->closing = 0;
	control->closed = false;
	pthread_mutex_unlock(&control->lock);
}

void control_leave_look(struct control *control, bool closing, uint64_t asked_us)
{
	const struct control_data_plane *plane = &control->data_plane;
	uint64_t id;

	pthread_mutex_lock(&control->lock);
	id = !closing && control->closing_us < asked_us ? control->closing : 0;
	pthread_mutex_unlock(&control->lock);
	if (!id)
		return;
	log_warn("the last checkpoint %" PRIu64 " was given up: the node serves again", id);
	pthread_mutex_lock(&control->plane);
	plane->checkpoint_end(plane->ctx, id, false, 0);
	control_leave_note_end(control, id, false);
	pthread_mutex_unlock(&control->plane);
}

/* Whether another node is there that was not told that the last checkpoint was committed. */
static bool others_wait(struct control *control)
{
	const uint64_t now_us = clock_us();
	bool wait = false;

	pthread_mutex_lock(&control->lock);
	for (uint32_t task = 1; control->checkpointer.closed && task < control->config->ps_count; task++)
		wait |= control->nodes[task].joined && !control->nodes[task].told_last &&
			!control_watch_is_silent(&control->nodes[task], now_us);
	pthread_mutex_unlock(&control->lock);
	return wait;
}

/* PS task 0 waits before it ends. Nodes that stop ask again and again; a node that has not been told to stop yet must
 * be able to learn it in this time. */
static void let_others_ask(struct control *control)
{
	const uint64_t until_us = clock_us() + CONTROL_ALONE_US;

	if (!others_wait(control))
		return;
	while (others_wait(control) && clock_us() < until_us && control_pause(control, CONTROL_POLL_MS, NULL))
		;
	control_pause(control, CONTROL_POLL_MS, NULL); /* the answer is on its way */
}

/* 0 if a last checkpoint was committed. */
static int wait_for_last(struct control *control, struct star_error *err)
{
	const uint64_t begun_us = clock_us();
	uint64_t heard_us = begun_us;
	json_int_t failed = -1;

	/* At PS task 0 its own part is closed first, while the others have yet to be told. */
	while (control->task == 0 || !is_closed(control)) {
		json_t *answer = ask_about_leave(control, err);
		const json_int_t now_failed = json_integer_value(json_object_get(answer, "failed"));
		const bool done = json_is_true(json_object_get(answer, "done"));

		if (answer && failed >= 0 && now_failed > failed)
			star_error_set(err, -EIO, "%s", json_string_value(json_object_get(answer, "error")));
		else if (answer)
			heard_us = clock_us();
		if (answer && failed < 0)
			failed = now_failed;
		json_decref(answer);
		if (done)
			return 0;
		if (answer && now_failed > failed)
			return err->code;
		if (clock_us() - heard_us > CONTROL_ALONE_US) {
			const struct star_error why = *err;

			return star_error_set(
				err, why.code,
				"it knows of none, though there may be one: PS task 0 did not answer for %u "
				"s: %s",
				CONTROL_ALONE_US / 1000000, why.text);
		}
		if (clock_us() - begun_us > CONTROL_DRAIN_US)
			return star_error_set(err, -ETIMEDOUT, "it took too long");
		if (!control_pause(control, CONTROL_POLL_MS, NULL))
			return star_error_set(err, -ECANCELED, "it rolls back to a checkpoint");
	}
	return 0;
}

int control_drain(struct control *control)
{
	struct star_error err = { 0 };

	if (!is_to_be_saved(control))
		return 0;
	log_info("a last checkpoint is written before the node ends");
	if (wait_for_last(control, &err) == 0) {
		if (control->task == 0)
			let_others_ask(control);
		return 0;
	}
	log_error("the node ends without a last checkpoint: %s", err.text);
	return err.code;
}
