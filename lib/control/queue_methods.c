/* SPDX-License-Identifier: BSD-3-Clause */
/* Work queues at PS task 0: requests of workers and administrators, and what checkpoints contain. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/node.h"
#include "jsonrpc/member.h"

int control_queue_make(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "name", "text", "digest", "slices", "epochs", "lease_ms", NULL };
	struct control_queue_spec spec;
	int rc;

	if (jsonrpc_member_only(params, members, err) < 0 ||
	    jsonrpc_member_string(params, "name", QUEUE_NAME_MAX, &spec.name, err) < 0 ||
	    jsonrpc_member_string(params, "text", QUEUE_TEXT_MAX, &spec.text, err) < 0 ||
	    jsonrpc_member_u64(params, "digest", &spec.digest, err) < 0 ||
	    jsonrpc_member_uint(params, "slices", 1, QUEUE_SLICES_MAX, &spec.slices, err) < 0 ||
	    jsonrpc_member_u32(params, "epochs", 1, QUEUE_EPOCHS_MAX, &spec.epochs, err) < 0 ||
	    jsonrpc_member_u32(params, "lease_ms", QUEUE_LEASE_MIN_MS, QUEUE_LEASE_MAX_MS, &spec.lease_ms, err) < 0)
		return control_invalid(err);
	pthread_mutex_lock(&control->lock);
	rc = control_pair_serves(control, err);
	if (rc == 0)
		rc = control_queue_open(&control->queues, &spec, err);
	control->queue_changes += rc == 0;
	pthread_mutex_unlock(&control->lock);
	if (rc == 0)
		*result = json_pack("{s:I}", "incarnation", (json_int_t)control->incarnation);
	return rc;
}

/* Reads an array of numbers, which the caller frees; NULL with err. */
static uint64_t *read_slices(const json_t *params, const char *name, uint32_t *count, struct star_error *err)
{
	const json_t *list = json_object_get(params, name), *slice;
	uint64_t *slices;
	size_t i;

	*count = (uint32_t)json_array_size(list);
	if (!json_is_array(list) || json_array_size(list) > QUEUE_HELD_MAX) {
		star_error_set(err, -EINVAL, "member \"%s\" must be an array of at most %d slices", name,
			       QUEUE_HELD_MAX);
		return NULL;
	}
	slices = malloc((*count + 1) * sizeof(*slices));
	if (!slices) {
		star_error_set(err, -ENOMEM, "no memory for a list of slices");
		return NULL;
	}
	json_array_foreach(list, i, slice)
	{
		if (!jsonrpc_member_to_u64(slice, &slices[i])) {
			star_error_set(err, -EINVAL, "member \"%s\": element %zu is not the number of a slice", name,
				       i);
			free(slices);
			return NULL;
		}
	}
	return slices;
}

static json_t *answer_json(const struct control_queue_answer *answer)
{
	json_t *json = json_object();

	if (answer->what == QUEUE_SLICE)
		json_object_set_new(json, "slice", json_integer((json_int_t)answer->slice));
	else if (answer->what == QUEUE_WAIT)
		json_object_set_new(json, "wait_ms", json_integer(answer->wait_ms));
	else if (answer->what == QUEUE_OVER)
		json_object_set_new(json, "over", json_true());
	if (answer->lost_count) {
		json_t *lost = json_array();

		for (uint32_t i = 0; i < answer->lost_count; i++)
			json_array_append_new(lost, jsonrpc_member_from_u64(answer->lost[i]));
		json_object_set_new(json, "lost", lost);
	}
	return json;
}

/* Under lock. */
static int find_queue(struct control *control, const char *name, struct control_queue **queue, struct star_error *err)
{
	if (control->pair_waits[0])
		return control_pair_serves(control, err);
	*queue = control_queue_find(&control->queues, name);
	return *queue ? 0 : star_error_set(err, -ENOENT, "there is no queue \"%s\"", name);
}

/* digest: of the slices that the worker reads, or NULL. If a queue was dropped, and another opened under its name, the
 * worker would train with its own slices, and have those of the other marked as done. */
static int work(struct control *control, const char *name, const uint64_t *digest,
		const struct control_queue_call *call, json_t **result, struct star_error *err)
{
	struct control_queue_answer *answer = malloc(sizeof(*answer));
	struct control_queue *queue;
	int rc;

	if (!answer)
		return star_error_set(err, -ENOMEM, "no memory for an answer");
	pthread_mutex_lock(&control->lock);
	rc = find_queue(control, name, &queue, err);
	if (rc == 0 && digest && !control_queue_is(queue, *digest))
		rc = star_error_set(err, -ESTALE,
				    "the queue \"%s\" has other slices by now: it was dropped, and opened with others",
				    name);
	if (rc == 0)
		rc = control_queue_work(queue, call, clock_us(), answer, err);
	/* Slices that were handed out and are not done are handed out again, so only finished ones are a change. */
	control->queue_changes += rc == 0 && call->done_count;
	pthread_mutex_unlock(&control->lock);
	if (rc == 0)
		*result = answer_json(answer);
	free(answer);
	return rc;
}

int control_queue_ask(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const members[] = {
		"name", "incarnation", "digest", "worker", "has", "done", "wants", NULL
	};
	const bool names_digest = json_object_get(params, "digest");
	struct control_queue_call call = { 0 };
	uint32_t incarnation;
	uint64_t digest;
	uint64_t *has, *done = NULL;
	const char *name;
	int rc;

	if (jsonrpc_member_only(params, members, err) < 0 ||
	    jsonrpc_member_string(params, "name", QUEUE_NAME_MAX, &name, err) < 0 ||
	    jsonrpc_member_u32(params, "incarnation", 0, UINT32_MAX, &incarnation, err) < 0 ||
	    (names_digest && jsonrpc_member_u64(params, "digest", &digest, err) < 0) ||
	    jsonrpc_member_u64(params, "worker", &call.worker, err) < 0 ||
	    jsonrpc_member_bool(params, "wants", &call.wants, err) < 0)
		return control_invalid(err);
	if (!call.worker) {
		star_error_set(err, -EINVAL, "member \"worker\" must not be 0");
		return control_invalid(err);
	}
	pthread_mutex_lock(&control->lock);
	rc = control_pair_serves(control, err);
	pthread_mutex_unlock(&control->lock);
	if (rc < 0)
		return rc;
	/* The worker's slices are of an earlier incarnation; they must not be confused with slices that are handed out
	 * again. */
	if (incarnation != control->incarnation)
		return star_error_set(err, -ESTALE, "PS task 0 was restarted: open the queue again");
	has = read_slices(params, "has", &call.has_count, err);
	done = has ? read_slices(params, "done", &call.done_count, err) : NULL;
	call.has = has;
	call.done = done;
	if (done)
		rc = work(control, name, names_digest ? &digest : NULL, &call, result, err);
	else
		rc = err->code == -EINVAL ? control_invalid(err) : err->code;
	free(done);
	free(has);
	return rc;
}

int control_queue_list(struct control *control, json_t **result, struct star_error *err)
{
	int rc;

	pthread_mutex_lock(&control->lock);
	rc = control_pair_serves(control, err);
	if (rc == 0)
		*result = control_queues_show(&control->queues, clock_us());
	pthread_mutex_unlock(&control->lock);
	return rc;
}

int control_queue_remove(struct control *control, const char *name, struct star_error *err)
{
	struct control_queue *queue;
	int rc;

	pthread_mutex_lock(&control->lock);
	rc = find_queue(control, name, &queue, err);
	if (rc == 0)
		control_queue_drop(&control->queues, queue);
	control->queue_changes += rc == 0;
	pthread_mutex_unlock(&control->lock);
	if (rc == 0)
		log_info("the queue \"%s\" was dropped", name);
	return rc;
}

json_t *control_queues_keep(struct control *control)
{
	json_t *saved;

	pthread_mutex_lock(&control->lock);
	saved = control_queues_save(&control->queues);
	pthread_mutex_unlock(&control->lock);
	return saved;
}

int control_queues_begin(struct control *control, struct star_error *err)
{
	const struct control_data_plane *plane = &control->data_plane;
	struct star_error why = { 0 };
	json_t *saved = NULL;
	int rc;

	if (!control->begins_with || !plane->restored_queues)
		return 0;
	rc = plane->restored_queues(plane->ctx, control->begins_with, &saved, &why);
	if (rc == 0 && saved)
		rc = control_queues_load(&control->queues, saved, &why);
	if (rc == 0 && control->queues.count)
		log_info("%u work queues go on as checkpoint %llu has them", control->queues.count,
			 (unsigned long long)control->begins_with);
	json_decref(saved);
	return rc < 0 ? star_error_set(err, rc, "the work queues of checkpoint %llu: %.400s",
				       (unsigned long long)control->begins_with, why.text)
		      : 0;
}
