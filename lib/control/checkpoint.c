/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints of the cluster. A thread of PS task 0 tells all nodes to begin one, and asks for their progress until all
 * have written their parts. Then it has the manifest written, which commits the checkpoint, and tells all nodes. If
 * anything fails on the way, including a restart of a node, the whole checkpoint is abandoned, and the next one starts
 * over. Training goes on meanwhile.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "jsonrpc/jsonrpc_message.h"
#include "jsonrpc/member.h"
#include "control/node.h"
#include "jsonrpc/thread.h"

enum { SECOND_US = 1000000, IDLE_MS = 3600 * 1000, DROPPED_TRIES = 3 };

/* Between two checkpoints that nodes need for their journals: shorter if the last one succeeded. */
enum { WANTED_SOON_US = 5 * SECOND_US, WANTED_AGAIN_US = 60 * SECOND_US };

static json_t *part_begin(const struct control *control, const struct control_checkpoint *c, uint32_t task)
{
	return json_pack("{s:{s:o, s:o, s:s, s:b, s:I, s:I}}", "begin", "id", jsonrpc_member_from_u64(c->id), "parent",
			 jsonrpc_member_from_u64(c->parent), "name", c->name, "last", c->last, "incarnation",
			 (json_int_t)control->checkpointer.incarnations[task], "epoch", (json_int_t)c->epoch);
}

static json_t *part_end(const struct control *control, const struct control_checkpoint *c, uint32_t task, bool kept)
{
	return json_pack("{s:{s:o, s:b, s:I, s:I, s:I}}", "end", "id", jsonrpc_member_from_u64(c->id), "kept", kept,
			 "sum", (json_int_t)c->sum, "incarnation", (json_int_t)control->checkpointer.incarnations[task],
			 "epoch", (json_int_t)c->epoch);
}

json_t *control_checkpointer_ask(struct control *control, enum control_caller caller, uint32_t task, json_t *params,
				 struct star_error *err)
{
	struct jsonrpc_client *client;
	struct star_error why = { 0 };
	json_t *result = NULL;
	int rc;

	if (task == 0) {
		rc = control_checkpointer_part(control, params, &result, &why);
		json_decref(params);
	} else {
		client = control_connect(control, task, CONTROL_HEARTBEAT_US, &why);
		if (client)
			result =
				control_call(control, caller, client, "checkpoint_part", params, CONTROL_PEER_US, &why);
		else
			json_decref(params);
		jsonrpc_close(client);
		rc = result ? 0 : why.code;
	}
	if (rc < 0)
		star_error_set(err, rc, "PS task %u: %s", task, why.text);
	return rc < 0 ? NULL : result;
}

static json_t *ask_task(struct control *control, uint32_t task, json_t *params, struct star_error *err)
{
	return control_checkpointer_ask(control, CALLER_CHECKPOINTER, task, params, err);
}

/* The node that has answered is the one with which this checkpoint began, and serves its layout. */
static bool is_same(const struct control *control, const json_t *state, uint32_t task, uint32_t epoch)
{
	return (uint64_t)json_integer_value(json_object_get(state, "incarnation")) ==
		       control->checkpointer.incarnations[task] &&
	       (uint64_t)json_integer_value(json_object_get(state, "epoch")) == epoch;
}

static void add_count(uint64_t *sum, const json_t *state, const char *name)
{
	*sum += (uint64_t)json_integer_value(json_object_get(state, name));
}

/* Asks all nodes once. 1: all have written their parts, and files has their files; 0: not yet. */
static int look_at_parts(struct control *control, const struct control_checkpoint *c, json_t *files,
			 struct star_error *err)
{
	struct checkpointer sums = { .bytes = 0 };
	uint32_t written = 0;
	int rc = 0;

	json_array_clear(files);
	for (uint32_t task = 0; rc == 0 && task < control->config->ps_count; task++) {
		json_t *state = ask_task(control, task, json_object(), err);
		const char *name = json_string_value(json_object_get(state, "state"));
		const char *error = json_string_value(json_object_get(state, "error"));

		if (!state)
			return err->code;
		add_count(&sums.rows, state, "rows");
		add_count(&sums.left, state, "left");
		add_count(&sums.bytes, state, "bytes");
		add_count(&sums.copied, state, "copied");
		add_count(&sums.waited, state, "waited");
		if (name && error && strcmp(name, "failed") == 0)
			rc = star_error_set(err, -(int)json_integer_value(json_object_get(state, "errno")),
					    "PS task %u: %s", task, error);
		else if (!name || !is_same(control, state, task, c->epoch) ||
			 (uint64_t)json_integer_value(json_object_get(state, "id")) != c->id)
			rc = star_error_set(err, -ESTALE, "PS task %u was restarted meanwhile, or another node was",
					    task);
		else if (strcmp(name, "written") == 0 && ++written)
			json_array_extend(files, json_object_get(state, "files"));
		json_decref(state);
	}
	pthread_mutex_lock(&control->lock);
	control->checkpointer.rows = sums.rows;
	control->checkpointer.left = sums.left;
	control->checkpointer.bytes = sums.bytes;
	control->checkpointer.copied = sums.copied;
	control->checkpointer.waited = sums.waited;
	pthread_mutex_unlock(&control->lock);
	return rc < 0 ? rc : written == control->config->ps_count;
}

/* 0 while all nodes are those with which the checkpoint began, and serve the same layout. Under lock. */
static int check_same(const struct control *control, const struct control_checkpoint *c, struct star_error *err)
{
	int rc = control_leader_complete(control, err);

	if (rc == 0 && control->epoch != c->epoch)
		rc = star_error_set(err, -ESTALE, "there is another layout meanwhile");
	if (rc == 0 && (control->dropping || control->drops != control->checkpointer.drops))
		rc = star_error_set(err, -ESTALE, "a table was dropped meanwhile");
	for (uint32_t task = 0; rc == 0 && task < control->config->ps_count; task++)
		if (control->nodes[task].incarnation != control->checkpointer.incarnations[task])
			rc = star_error_set(err, -ESTALE, "PS task %u was restarted meanwhile", task);
	return rc;
}

/* From this check of all nodes until the manifest is written no node may join: a node that restarts meanwhile may have
 * to restore this checkpoint. */
static int make_it_count(struct control *control, struct control_checkpoint *c, const json_t *files,
			 const json_t *queues, struct star_error *err)
{
	const struct control_data_plane *plane = &control->data_plane;
	const struct object_spec *specs[WIRE_OBJECTS_MAX];
	uint32_t count = 0, reactors;
	int rc;

	/* Objects that were created since the nodes began are in the catalogue, too, and have no rows. Specs live as
	 * long as the node. */
	pthread_mutex_lock(&control->lock);
	rc = check_same(control, c, err);
	for (uint32_t id = 1; id <= control->objects_last; id++)
		if (control->objects[id])
			specs[count++] = control->objects[id];
	reactors = control->cluster_reactors;
	control->checkpointer.counting = rc == 0;
	pthread_mutex_unlock(&control->lock);
	if (rc < 0)
		return rc;
	rc = plane->checkpoint_commit(plane->ctx, c, reactors, specs, count, files, queues, err);
	pthread_mutex_lock(&control->lock);
	if (rc == 0 && control->config->checkpoint_restore) {
		control->begins_with = c->id;
		control->version += control->config->ps_count > 1; /* the standby must know it */
	}
	control->checkpointer.counting = false;
	pthread_mutex_unlock(&control->lock);
	return rc;
}

/* Tells all nodes how it ended. A node that is not reached writes its next part from scratch, as a full one. */
static void end_all(struct control *control, const struct control_checkpoint *c, bool kept)
{
	for (uint32_t task = 0; task < control->config->ps_count; task++) {
		struct star_error err = { 0 };
		json_t *state = ask_task(control, task, part_end(control, c, task, kept), &err);

		if (!state)
			log_warn("checkpoint %" PRIu64 ": %s", c->id, err.text);
		pthread_mutex_lock(&control->lock);
		control->nodes[task].told_last |= state && kept && c->last;
		pthread_mutex_unlock(&control->lock);
		json_decref(state);
	}
}

/* Records the nodes, and the layout that all of them must serve. */
static int note_nodes(struct control *control, uint32_t *epoch, struct star_error *err)
{
	int rc;

	pthread_mutex_lock(&control->lock);
	rc = control_leader_complete(control, err);
	*epoch = control->epoch;
	control->checkpointer.drops = control->drops;
	for (uint32_t task = 0; task < control->config->ps_count; task++)
		control->checkpointer.incarnations[task] = control->nodes[task].incarnation;
	pthread_mutex_unlock(&control->lock);
	return rc;
}

/* Waits before the first node begins: one that still loads would refuse, and the others would keep copies of rows
 * meanwhile. */
int control_checkpointer_wait_for_all(struct control *control, uint32_t *epoch, struct star_error *err)
{
	uint32_t task = 0;
	int rc = note_nodes(control, epoch, err);

	while (rc == 0 && task < control->config->ps_count) {
		json_t *state = ask_task(control, task, json_object(), err);

		if (!state)
			return err->code;
		if (!json_is_true(json_object_get(state, "loading")) && is_same(control, state, task, *epoch)) {
			task++;
		} else if (!control_pause(control, CONTROL_POLL_MS, NULL)) {
			rc = star_error_set(err, -ECANCELED, "PS task 0 is shutting down");
		} else {
			task = 0; /* it may have been replaced, with another layout */
			rc = note_nodes(control, epoch, err);
		}
		json_decref(state);
	}
	return rc;
}

static int write_one(struct control *control, struct control_checkpoint *c, struct star_error *err)
{
	const struct control_data_plane *plane = &control->data_plane;
	json_t *files = json_array(), *queues = NULL;
	/* The two nodes of a single task may have a directory each: the standby must know the number first. */
	const bool apart = control->config->ps_count == 1 && plane->catalogue_durable;
	struct star_error ignored;
	uint64_t version;
	int rc = control_checkpointer_wait_for_all(control, &c->epoch, err);

	if (rc == 0)
		rc = plane->checkpoint_new(plane->ctx, c, err);
	if (rc == 0)
		queues = control_queues_keep(control);
	if (rc < 0)
		goto out;
	pthread_mutex_lock(&control->lock);
	control->checkpointer.now = *c;
	control->version += apart;
	version = control->version;
	pthread_mutex_unlock(&control->lock);
	for (uint32_t task = 0; rc == 0 && task < control->config->ps_count; task++) {
		json_t *state = ask_task(control, task, part_begin(control, c, task), err);

		rc = state ? 0 : err->code;
		json_decref(state);
	}
	while (rc == 0) {
		rc = look_at_parts(control, c, files, err);
		if (rc == 0 && !control_pause(control, CONTROL_POLL_MS, NULL))
			rc = star_error_set(err, -ECANCELED, "PS task 0 is shutting down");
	}
	if (rc > 0 && apart)
		plane->catalogue_durable(plane->ctx, version, &ignored);
	if (rc > 0)
		rc = make_it_count(control, c, files, queues, err);
	end_all(control, c, rc == 0);
	if (rc < 0)
		plane->checkpoint_abandon(plane->ctx, c);
out:
	json_decref(queues);
	json_decref(files);
	return rc;
}

/* Since the last attempt began. */
static bool has_dropped(struct control *control)
{
	bool dropped;

	pthread_mutex_lock(&control->lock);
	dropped = control->drops != control->checkpointer.drops;
	pthread_mutex_unlock(&control->lock);
	return dropped;
}

/* Records how the last attempt ended. Under lock. */
static void note_end(struct checkpointer *p, const struct control_checkpoint *c)
{
	const unsigned at = (p->saved + p->failed) % CHECKPOINT_ENDS;

	p->ends[at].id = c->id;
	p->ends[at].delta = c->parent != 0;
	p->ends[at].rows = p->rows;
	p->ends[at].bytes = p->bytes;
	p->ends[at].us = clock_us() - p->begun_us;
	strcpy(p->ends[at].error, p->error);
}

static json_t *show_ends(const struct checkpointer *p)
{
	const uint64_t tries = p->saved + p->failed;
	json_t *shown = json_array();

	for (uint64_t i = tries > CHECKPOINT_ENDS ? tries - CHECKPOINT_ENDS + 1 : 1; i <= tries; i++) {
		const unsigned at = i % CHECKPOINT_ENDS;

		if (p->ends[at].error[0])
			json_array_append_new(shown, json_pack("{s:I, s:o}", "asked", (json_int_t)i, "error",
							       jsonrpc_member_from_text(p->ends[at].error)));
		else
			json_array_append_new(shown, json_pack("{s:I, s:I, s:b, s:I, s:I, s:f}", "asked", (json_int_t)i,
							       "id", (json_int_t)p->ends[at].id, "delta",
							       p->ends[at].delta, "rows", (json_int_t)p->ends[at].rows,
							       "bytes", (json_int_t)p->ends[at].bytes, "seconds",
							       (double)p->ends[at].us / 1e6));
	}
	return shown;
}

/* Writes one checkpoint; a full one if a delta is not possible. */
static void run_one(struct control *control, bool delta, bool last, uint32_t keep)
{
	struct checkpointer *p = &control->checkpointer;
	struct control_checkpoint c = { .parent = delta ? p->last.id : 0, .last = last, .keep = keep };
	struct star_error err = { 0 };
	int rc = write_one(control, &c, &err);

	if (rc == -EAGAIN && c.parent) {
		log_info("checkpoint: a full one instead of a delta: %s", err.text);
		c = (struct control_checkpoint){ .parent = 0, .last = last, .keep = keep };
		rc = write_one(control, &c, &err);
	}
	for (unsigned tries = 0; rc < 0 && tries < DROPPED_TRIES && has_dropped(control); tries++) {
		log_info("the checkpoint is started again, as a full one, because a table was dropped: %s", err.text);
		c = (struct control_checkpoint){ .parent = 0, .last = last, .keep = keep };
		rc = write_one(control, &c, &err);
	}
	pthread_mutex_lock(&control->lock);
	p->writing = false;
	p->error[0] = 0;
	if (rc == 0) {
		/* A node that needs another one will say so again. */
		for (uint32_t task = 1; task < control->config->ps_count; task++)
			control->nodes[task].wants = false;
		p->saved++;
		p->last = c;
		p->last_rows = p->rows;
		p->last_bytes = p->bytes;
		p->last_ended_us = clock_us();
		p->last_us = p->last_ended_us - p->begun_us;
	} else {
		p->failed++;
		strcpy(p->error, err.text);
	}
	note_end(p, &c);
	p->closed |= last && rc == 0;
	p->lasts_failed += last && rc < 0;
	if (last)
		p->asked_last = false;
	pthread_cond_broadcast(&control->wake);
	pthread_mutex_unlock(&control->lock);
	if (rc == 0)
		log_info("checkpoint %" PRIu64 " (%s): %" PRIu64 " rows, %" PRIu64 " MiB in %.1f s", c.id,
			 c.parent ? "delta" : "full", p->last_rows, p->last_bytes >> 20, (double)p->last_us / 1e6);
	else
		log_error("there is no new checkpoint: %s", err.text);
}

static uint64_t due_us(uint64_t last_us, uint32_t every_s)
{
	return every_s ? last_us + (uint64_t)every_s * SECOND_US : UINT64_MAX;
}

/* Whether one is due, and which kind; if not, how long to wait. Under lock. */
static bool is_time(struct control *control, bool *delta, bool *last, uint32_t *wait_ms)
{
	struct checkpointer *p = &control->checkpointer;
	struct star_error err;
	const uint64_t now_us = clock_us();
	const uint64_t full_us = due_us(p->full_us, control->config->checkpoint_every_s);
	const uint64_t delta_us = due_us(p->delta_us, control->config->checkpoint_delta_every_s);
	const uint64_t next_us = full_us < delta_us ? full_us : delta_us;

	if (p->settle && control_leader_laid_out(control, &err) == 0) {
		p->settle = false;
		p->asked = p->asked_full = true;
	}
	*wait_ms = p->settle || p->closed || control->pair_waits[0] ? CONTROL_BEAT_MS : IDLE_MS;
	/* A standby writes none on its own. */
	if (control->pair_waits[0] && !p->asked && !p->asked_last)
		return false;
	if (p->settle && !p->asked_last)
		return false;
	/* The last checkpoint has everything, and a node is stopping, or has stopped. */
	if (p->closed && !p->asked)
		return false;
	if (!p->asked && !p->asked_last && next_us > now_us) {
		if (next_us - now_us < (uint64_t)IDLE_MS * 1000)
			*wait_ms = (uint32_t)((next_us - now_us) / 1000) + 1;
		return false;
	}
	*delta = p->last.id && (p->asked ? !p->asked_full : p->asked_last || full_us > now_us);
	*last = p->asked_last;
	p->asked = p->asked_full = false;
	p->writing = true;
	p->delta = *delta;
	p->rows = p->left = p->bytes = p->copied = p->waited = 0;
	p->begun_us = p->delta_us = now_us;
	if (!*delta)
		p->full_us = now_us;
	return true;
}

static void *checkpoint_loop(void *arg)
{
	struct control *control = arg;
	bool delta = false, last = false, time, restore;
	uint32_t wait_ms = 0, keep;

	do {
		pthread_mutex_lock(&control->lock);
		control->checkpointer.woken = false;
		restore = control->checkpointer.asked_restore;
		time = !restore && is_time(control, &delta, &last, &wait_ms);
		keep = control->checkpointer.keep;
		pthread_mutex_unlock(&control->lock);
		if (restore)
			control_restore_run(control);
		else if (time)
			run_one(control, delta, last, keep);
		time |= restore;
	} while (control_pause(control, time ? 0 : wait_ms, &control->checkpointer.woken));
	return NULL;
}

int control_checkpointer_start(struct control *control, struct star_error *err)
{
	struct checkpointer *p = &control->checkpointer;
	int rc;

	if (!control->config->checkpoint_directory[0])
		return 0;
	p->full_us = p->delta_us = clock_us();
	/* Checkpoints in the directory that are newer than the one it has rolled back to must not be restored by a
	 * restart. */
	p->settle = control->rolled_back_to != 0;
	rc = jsonrpc_thread_start(&p->thread, "control-ckpt", checkpoint_loop, control, err);
	p->running = rc == 0;
	return rc;
}

void control_checkpointer_join(struct control *control)
{
	if (!control->checkpointer.running)
		return;
	pthread_join(control->checkpointer.thread, NULL);
	control->checkpointer.running = false;
}

/* Under lock. */
static int ask_for(struct control *control, bool full, struct star_error *err)
{
	struct checkpointer *p = &control->checkpointer;

	if (!p->running)
		return star_error_set(err, -EINVAL, "this cluster keeps no checkpoints: set checkpoint.directory");
	if (p->writing || p->asked)
		return star_error_set(err, -EBUSY, "a checkpoint is being written: wait until it is done");
	if (p->asked_restore || p->restoring)
		return star_error_set(err, -EBUSY, "a checkpoint is being restored: wait until that is done");
	p->asked = p->woken = true;
	p->asked_full = full;
	pthread_cond_broadcast(&control->wake);
	return 0;
}

/* Whether a node needs one, as far as they have reported. Under lock. */
static bool somebody_wants(const struct control *control)
{
	const struct control_data_plane *plane = &control->data_plane;

	for (uint32_t task = 1; task < control->config->ps_count; task++)
		if (control->nodes[task].wants)
			return true;
	return plane->checkpoint_wanted && plane->checkpoint_wanted(plane->ctx);
}

void control_checkpointer_look(struct control *control)
{
	struct checkpointer *p = &control->checkpointer;
	const uint64_t now_us = clock_us();
	struct star_error err;
	uint64_t pause_us;

	pthread_mutex_lock(&control->lock);
	/* After a failure there is a pause. */
	pause_us = p->error[0] ? WANTED_AGAIN_US : WANTED_SOON_US;
	if (control->task == 0 && p->running && !p->settle && !p->closed &&
	    (!p->wanted_us || now_us - p->wanted_us >= pause_us) && somebody_wants(control) &&
	    control_leader_laid_out(control, &err) == 0 && ask_for(control, false, &err) == 0)
		p->wanted_us = now_us;
	pthread_mutex_unlock(&control->lock);
}

int control_checkpointer_save(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "kind", "keep", NULL };
	const char *kind = "auto";
	uint32_t keep = 0;
	int rc;

	if (jsonrpc_member_only(params, members, err) < 0 ||
	    (json_object_get(params, "kind") && jsonrpc_member_string(params, "kind", 8, &kind, err) < 0) ||
	    (json_object_get(params, "keep") && jsonrpc_member_u32(params, "keep", 1, 10000, &keep, err) < 0))
		return control_invalid(err);
	if (strcmp(kind, "auto") != 0 && strcmp(kind, "full") != 0 && strcmp(kind, "delta") != 0) {
		star_error_set(err, -EINVAL, "member \"kind\" is \"%s\"; possible values are auto, full and delta",
			       kind);
		return control_invalid(err);
	}
	if (keep > control->config->checkpoint_keep && keep > control->config->checkpoint_keep_max) {
		star_error_set(
			err, -EINVAL,
			"%u checkpoints are more than a job may have kept: checkpoint.keep_max of PS task 0 is %u",
			keep, control->config->checkpoint_keep_max);
		return control_invalid(err);
	}
	pthread_mutex_lock(&control->lock);
	rc = ask_for(control, strcmp(kind, "full") == 0, err);
	if (rc == 0 && keep)
		control->checkpointer.keep = keep;
	if (rc == 0 && strcmp(kind, "delta") == 0 && !control->checkpointer.last.id)
		log_info("checkpoint: a full one instead of a delta: none was written since PS task 0 began");
	if (rc == 0)
		*result = json_pack("{s:I}", "asked",
				    (json_int_t)(control->checkpointer.saved + control->checkpointer.failed + 1));
	pthread_mutex_unlock(&control->lock);
	return rc;
}

int control_checkpointer_status(struct control *control, json_t **result, struct star_error *err)
{
	const struct checkpointer *p = &control->checkpointer;

	(void)err;
	pthread_mutex_lock(&control->lock);
	*result = json_pack("{s:o, s:b, s:b, s:I, s:I, s:o, s:o}", "directory",
			    jsonrpc_member_from_text(control->config->checkpoint_directory), "writing",
			    p->writing || p->asked || p->asked_last, "restoring", p->restoring || p->asked_restore,
			    "saved", (json_int_t)p->saved, "failed", (json_int_t)p->failed, "error",
			    jsonrpc_member_from_text(p->error), "ended", show_ends(p));
	if (p->writing)
		json_object_set_new(*result, "now",
				    json_pack("{s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:f}", "id", (json_int_t)p->now.id,
					      "delta", p->delta, "rows", (json_int_t)p->rows, "left",
					      (json_int_t)p->left, "bytes", (json_int_t)p->bytes, "copied",
					      (json_int_t)p->copied, "waited", (json_int_t)p->waited, "seconds",
					      (double)(clock_us() - p->begun_us) / 1e6));
	if (p->last.id)
		json_object_set_new(*result, "last",
				    json_pack("{s:I, s:b, s:I, s:I, s:f}", "id", (json_int_t)p->last.id, "delta",
					      p->last.parent != 0, "rows", (json_int_t)p->last_rows, "bytes",
					      (json_int_t)p->last_bytes, "seconds", (double)p->last_us / 1e6));
	if (control->rolled_back_to)
		json_object_set_new(*result, "gone_back_to", jsonrpc_member_from_u64(control->rolled_back_to));
	pthread_mutex_unlock(&control->lock);
	return 0;
}
