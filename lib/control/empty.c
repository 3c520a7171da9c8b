/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables are emptied on all nodes. PS task 0 begins only if it hears from all others, and the caller asks again until
 * no rows are left. A ticket identifies the nodes' incarnations: a node that restarts meanwhile may have loaded old
 * rows, so the request then fails. It identifies the table, too, which may be dropped meanwhile, and replaced by
 * another of the same name. At the end PS task 0 has a checkpoint written, because older ones still have the rows.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "jsonrpc/member.h"
#include "control/node.h"

/* A hash of a table and of all nodes' incarnations; not 0. Under lock. */
static uint64_t ticket_of(const struct control *control, const struct object_spec *spec)
{
	uint64_t ticket = hash_mix((uint64_t)spec->generation << 32 | spec->id);

	for (uint32_t task = 0; task < control->config->ps_count; task++)
		ticket = hash_mix(ticket ^ control->nodes[task].incarnation);
	return ticket ? ticket : 1;
}

/* Refuses changes while a node is reported as absent, so that changes on some nodes only stay the exception. Under
 * lock. */
int control_leader_check_heard(const struct control *control, const char *name, const char *what,
			       struct star_error *err)
{
	const uint64_t now_us = clock_us();

	for (uint32_t task = 1; task < control->config->ps_count; task++) {
		const uint64_t seen_us = control->nodes[task].seen_us;

		if (control_watch_is_silent(&control->nodes[task], now_us))
			return star_error_set(
				err, -EHOSTUNREACH,
				"\"%s\" cannot be %s: nothing was heard of PS task %u for %u s. Try again when that "
				"is back",
				name, what, task, now_us > seen_us ? (unsigned)((now_us - seen_us) / 1000000) : 0);
	}
	return 0;
}

/* Whether it may begin, or go on. *ticket: 0, or what begin has returned; then the current one. */
static int check_may_empty(struct control *control, const struct control_handle *handle, uint64_t *ticket, uint32_t *id,
			   struct star_error *err)
{
	const char *name = handle->name;
	const struct object_spec *spec;
	int rc;

	pthread_mutex_lock(&control->lock);
	rc = control_leader_laid_out(control, err);
	spec = rc == 0 ? control_handle_table(control, handle, err) : NULL;
	if (rc == 0 && !spec)
		rc = err->code;
	if (rc == 0)
		rc = control_leader_check_heard(control, name, *ticket ? "emptied whole" : "emptied", err);
	if (rc == 0 && *ticket && *ticket != ticket_of(control, spec))
		rc = star_error_set(
			err, -ESTALE,
			"\"%s\" may have rows: a PS task was restarted while it was being emptied, or it was "
			"dropped, and made again. Empty it again",
			name);
	if (rc == 0) {
		*ticket = ticket_of(control, spec);
		*id = spec->id;
	}
	pthread_mutex_unlock(&control->lock);
	return rc;
}

/* One node begins to empty it, or reports its progress: rows, added to *left. */
static int empty_on(struct control *control, uint32_t task, const char *name, bool begin, uint64_t *left,
		    struct star_error *err)
{
	struct star_error why = { 0 };
	json_t *result = NULL;
	char before[16] = "";
	uint64_t rows = 0;
	int rc;

	if (task > 1)
		snprintf(before, sizeof(before), " to %u", task - 1);
	if (task == 0)
		return control_empty(control, name, begin, left, err);
	rc = control_leader_ask(control, task, json_pack("{s:{s:s, s:b}}", "empty", "name", name, "begin", begin),
				&result, &why);
	if (rc == 0)
		rc = jsonrpc_member_u64(result, "left", &rows, &why);
	json_decref(result);
	*left += rows;
	/* PS task 0 has the table: that node has begun again, and was not given the catalogue yet. */
	if (rc == -ENOENT)
		rc = -ESTALE;
	if (rc < 0 && begin)
		return star_error_set(
			err, rc,
			"\"%s\" is being emptied on PS task 0%s, and not on PS task %u and those after it: "
			"%s. Empty it again",
			name, before, task, why.text);
	if (rc < 0)
		return star_error_set(err, rc, "\"%s\" may have rows on PS task %u: %s. Empty it again", name, task,
				      why.text);
	return 0;
}

/* True: no checkpoint is needed, or one will be written. */
bool control_leader_ask_checkpoint(struct control *control)
{
	struct star_error why = { 0 };
	json_t *asked = NULL;
	int rc = 0;

	if (control->config->checkpoint_directory[0])
		rc = control_checkpointer_save(control, NULL, &asked, &why);
	json_decref(asked);
	return rc != -EBUSY;
}

int control_leader_empty(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "name", "id", "generation", "ticket", NULL };
	const bool begin = !json_object_get(params, "ticket");
	struct control_handle handle;
	uint64_t ticket = 0, left = 0;
	uint32_t id = 0;
	int rc;

	if (jsonrpc_member_only(params, members, err) < 0 || control_handle_read(params, &handle, err) < 0 ||
	    (!begin && jsonrpc_member_u64(params, "ticket", &ticket, err) < 0))
		return control_invalid(err);
	if (!begin && ticket == 0) {
		star_error_set(err, -EINVAL, "member \"ticket\" is 0: leave it out to begin");
		return control_invalid(err);
	}
	rc = check_may_empty(control, &handle, &ticket, &id, err);
	for (uint32_t task = 0; rc == 0 && task < control->config->ps_count; task++) {
		bool refuses;

		if (control_is_stopping(control))
			return star_error_set(err, -ECANCELED, "PS task 0 is shutting down");
		pthread_mutex_lock(&control->lock);
		refuses = control_bit(control->nodes[task].refuses, id);
		pthread_mutex_unlock(&control->lock);
		if (!refuses)
			rc = empty_on(control, task, handle.name, begin, &left, err);
	}
	if (rc < 0)
		return rc;
	if (begin)
		log_info("\"%s\" is being emptied on all nodes", handle.name);
	/* The caller that has begun it asks at least once more. */
	if (left == 0 && (begin || !control_leader_ask_checkpoint(control)))
		left = 1;
	*result = json_pack("{s:i, s:o, s:o}", "nodes", (int)control->config->ps_count, "left",
			    jsonrpc_member_from_u64(left), "ticket", jsonrpc_member_from_u64(ticket));
	return 0;
}

int control_follower_empty(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "name", "begin", NULL };
	uint64_t left = 0;
	const char *name;
	int rc;

	if (jsonrpc_member_only(params, members, err) < 0 ||
	    jsonrpc_member_string(params, "name", WIRE_NAME_MAX, &name, err) < 0)
		return control_invalid(err);
	if (!json_is_boolean(json_object_get(params, "begin"))) {
		star_error_set(err, -EINVAL, "member \"begin\" must be true or false");
		return control_invalid(err);
	}
	rc = control_empty(control, name, json_is_true(json_object_get(params, "begin")), &left, err);
	if (rc == 0)
		*result = json_pack("{s:o}", "left", jsonrpc_member_from_u64(left));
	return rc;
}
