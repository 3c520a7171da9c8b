/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/queue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "jsonrpc/member.h"

enum {
	SHOWN_MAX = 256,  /* leases that are listed per queue */
	WAIT_MIN_MS = 20, /* before a worker asks again */
	WAIT_FEW_MS = 200,
	WAIT_MANY_MS = 1000,
	FEW = 64,
};

/* A slice that was handed out, and is not done. */
struct slice {
	uint64_t number;
	uint64_t worker; /* 0: none has it */
	uint64_t until_us;
	bool named; /* the worker has named it in this call */
};

struct control_queue {
	char name[QUEUE_NAME_MAX + 1], text[QUEUE_TEXT_MAX + 1];
	uint64_t digest, slices;
	uint32_t epochs, lease_ms;
	uint64_t next;		    /* the first slice that was never handed out */
	struct slice *left;	    /* sorted by number; a slice below next that is not here is done */
	uint32_t count, room, idle; /* idle: slices that no worker has */
	uint64_t expired;	    /* leases, since the node began */
};

static uint64_t total(const struct control_queue *q)
{
	return q->slices * q->epochs;
}

static void free_queue(struct control_queue *q)
{
	if (q)
		free(q->left);
	free(q);
}

void control_queues_fini(struct control_queues *queues)
{
	while (queues->count)
		free_queue(queues->of[--queues->count]);
}

struct control_queue *control_queue_find(const struct control_queues *queues, const char *name)
{
	for (unsigned i = 0; i < queues->count; i++)
		if (!strcmp(queues->of[i]->name, name))
			return queues->of[i];
	return NULL;
}

void control_queue_drop(struct control_queues *queues, struct control_queue *queue)
{
	for (unsigned i = 0; i < queues->count; i++)
		if (queues->of[i] == queue) {
			queues->of[i] = queues->of[--queues->count];
			free_queue(queue);
			return;
		}
}

/* ---- opening ---- */

static struct control_queue *add_queue(struct control_queues *queues, const struct control_queue_spec *spec,
				       struct star_error *err)
{
	struct control_queue *q;

	if (queues->count == QUEUES_MAX) {
		star_error_set(err, -ENOSPC, "there are %d queues already: starctl queue drop removes one", QUEUES_MAX);
		return NULL;
	}
	q = calloc(1, sizeof(*q));
	if (!q) {
		star_error_set(err, -ENOMEM, "no memory for a queue");
		return NULL;
	}
	memcpy(q->name, spec->name, strnlen(spec->name, QUEUE_NAME_MAX));
	memcpy(q->text, spec->text, strnlen(spec->text, QUEUE_TEXT_MAX));
	q->digest = spec->digest;
	q->slices = spec->slices;
	q->epochs = spec->epochs;
	q->lease_ms = spec->lease_ms;
	queues->of[queues->count++] = q;
	return q;
}

int control_queue_open(struct control_queues *queues, const struct control_queue_spec *spec, struct star_error *err)
{
	struct control_queue *q = control_queue_find(queues, spec->name);

	if (!q)
		return add_queue(queues, spec, err) ? 0 : err->code;
	if (q->digest != spec->digest || q->slices != spec->slices)
		return star_error_set(err, -EEXIST,
				      "the queue \"%s\" is for %s, but this job has %s: give the same files and "
				      "options, or another name, or drop it (starctl queue drop)",
				      q->name, q->text, spec->text);
	if (spec->epochs < q->epochs)
		return star_error_set(err, -EEXIST, "the queue \"%s\" has %u epochs, and not %u", q->name, q->epochs,
				      spec->epochs);
	q->epochs = spec->epochs;
	q->lease_ms = spec->lease_ms;
	return 0;
}

/* ---- work ---- */

/* The index at which it is, or would be. */
static uint32_t place(const struct control_queue *q, uint64_t number)
{
	uint32_t low = 0, high = q->count;

	while (low < high) {
		const uint32_t middle = (low + high) / 2;

		if (q->left[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct slice *find_slice(const struct control_queue *q, uint64_t number)
{
	const uint32_t at = place(q, number);

	return at < q->count && q->left[at].number == number ? &q->left[at] : NULL;
}

static void release(struct control_queue *q, struct slice *s)
{
	s->worker = 0;
	q->idle++;
}

static void expire(struct control_queue *q, uint64_t now_us)
{
	for (uint32_t i = 0; i < q->count; i++)
		if (q->left[i].worker && q->left[i].until_us <= now_us) {
			release(q, &q->left[i]);
			q->expired++;
		}
}

static void lose(struct control_queue_answer *answer, uint64_t number)
{
	answer->lost[answer->lost_count++] = number;
}

/* Slices may be reported as done again, because the answer to the first report may have been lost. */
static void take_done(struct control_queue *q, const struct control_queue_call *call,
		      struct control_queue_answer *answer)
{
	for (uint32_t i = 0; i < call->done_count; i++) {
		struct slice *s = find_slice(q, call->done[i]);

		if (s && s->worker == call->worker) {
			memmove(s, s + 1, (size_t)(q->left + q->count - (s + 1)) * sizeof(*s));
			q->count--;
		} else if (s || call->done[i] >= q->next) {
			lose(answer, call->done[i]);
		}
	}
}

static void renew_named(struct control_queue *q, const struct control_queue_call *call, uint64_t now_us,
			struct control_queue_answer *answer)
{
	for (uint32_t i = 0; i < q->count; i++)
		q->left[i].named = false;
	for (uint32_t i = 0; i < call->has_count; i++) {
		struct slice *s = find_slice(q, call->has[i]);

		if (s && s->worker == call->worker) {
			s->named = true;
			s->until_us = now_us + (uint64_t)q->lease_ms * 1000;
		} else {
			lose(answer, call->has[i]);
		}
	}
	for (uint32_t i = 0; i < q->count; i++)
		if (q->left[i].worker == call->worker && !q->left[i].named)
			release(q, &q->left[i]);
}

static int make_room(struct control_queue *q, struct star_error *err)
{
	const uint32_t room = q->room ? 2 * q->room : 64;
	struct slice *more;

	if (q->count < q->room)
		return 0;
	more = realloc(q->left, room * sizeof(*more));
	if (!more)
		return star_error_set(err, -ENOMEM, "no memory for a queue's slices");
	q->left = more;
	q->room = room;
	return 0;
}

static uint32_t wait_ms(const struct control_queue *q, uint64_t now_us)
{
	uint32_t ms = q->count <= FEW ? WAIT_FEW_MS : WAIT_MANY_MS;

	for (uint32_t i = 0; i < q->count; i++)
		if ((q->left[i].until_us - now_us) / 1000 < ms)
			ms = (uint32_t)((q->left[i].until_us - now_us) / 1000) + 1;
	return ms < WAIT_MIN_MS ? WAIT_MIN_MS : ms;
}

/* The first slice that no worker has, or else one that was never handed out; there is room for it. */
static void hand_out(struct control_queue *q, uint64_t worker, uint64_t now_us, struct control_queue_answer *answer)
{
	struct slice *s = NULL;

	for (uint32_t i = 0; q->idle && !s && i < q->count; i++)
		if (!q->left[i].worker)
			s = &q->left[i];
	if (s) {
		q->idle--;
	} else if (q->next < total(q) && q->count < QUEUE_LEFT_MAX) {
		s = &q->left[q->count++];
		s->number = q->next++;
	}
	if (s) {
		s->worker = worker;
		s->until_us = now_us + (uint64_t)q->lease_ms * 1000;
		answer->what = QUEUE_SLICE;
		answer->slice = s->number;
	} else if (q->count || q->next < total(q)) {
		answer->what = QUEUE_WAIT;
		answer->wait_ms = wait_ms(q, now_us);
	} else {
		answer->what = QUEUE_OVER;
	}
}

bool control_queue_is(const struct control_queue *queue, uint64_t digest)
{
	return queue->digest == digest;
}

int control_queue_work(struct control_queue *q, const struct control_queue_call *call, uint64_t now_us,
		       struct control_queue_answer *answer, struct star_error *err)
{
	answer->what = QUEUE_NOTHING;
	answer->lost_count = 0;
	if (make_room(q, err) < 0)
		return -ENOMEM;
	expire(q, now_us);
	take_done(q, call, answer);
	renew_named(q, call, now_us, answer);
	if (call->wants && call->has_count < QUEUE_HELD_MAX) {
		hand_out(q, call->worker, now_us, answer);
	} else if (call->wants) {
		answer->what = QUEUE_WAIT;
		answer->wait_ms = WAIT_FEW_MS;
	}
	return 0;
}

/* ---- checkpoints ---- */

/* Slices that are not done, as runs: [first, count]. */
static json_t *save_left(const struct control_queue *q)
{
	json_t *runs = json_array();

	for (uint32_t i = 0; i < q->count;) {
		const uint32_t first = i++;

		while (i < q->count && q->left[i].number == q->left[i - 1].number + 1)
			i++;
		json_array_append_new(runs,
				      json_pack("[I, I]", (json_int_t)q->left[first].number, (json_int_t)(i - first)));
	}
	return runs;
}

json_t *control_queues_save(const struct control_queues *queues)
{
	json_t *saved = json_array();

	for (unsigned i = 0; i < queues->count; i++) {
		const struct control_queue *q = queues->of[i];

		json_array_append_new(saved,
				      json_pack("{s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:o}", "name", q->name, "text",
						jsonrpc_member_from_text(q->text), "digest",
						jsonrpc_member_from_u64(q->digest), "slices", (json_int_t)q->slices,
						"epochs", (json_int_t)q->epochs, "lease_ms", (json_int_t)q->lease_ms,
						"next", (json_int_t)q->next, "left", save_left(q)));
	}
	return saved;
}

/* For a queue without slices; runs must be in order, disjoint, and below next. */
static int load_left(struct control_queue *q, const json_t *runs, struct star_error *err)
{
	uint64_t from = 0;
	const json_t *run;
	size_t i;

	if (!json_is_array(runs))
		return star_error_set(err, -EINVAL, "member \"left\" must be an array");
	json_array_foreach(runs, i, run)
	{
		const json_t *first = json_array_get(run, 0), *count = json_array_get(run, 1);
		const uint64_t begin = (uint64_t)json_integer_value(first), n = (uint64_t)json_integer_value(count);

		if (json_array_size(run) != 2 || !json_is_integer(first) || !json_is_integer(count) || begin < from ||
		    n < 1 || n > QUEUE_LEFT_MAX - q->count || begin > q->next || n > q->next - begin)
			return star_error_set(err, -EINVAL,
					      "member \"left\": run %zu is not [first, count] of slices that were "
					      "handed out, behind those before",
					      i);
		for (uint64_t k = 0; k < n; k++) {
			if (make_room(q, err) < 0)
				return -ENOMEM;
			q->left[q->count++] = (struct slice){ .number = begin + k };
			q->idle++;
		}
		from = begin + n;
	}
	return 0;
}

static int load_queue(struct control_queues *queues, const json_t *saved, struct star_error *err)
{
	static const char *const members[] = { "name",	   "text", "digest", "slices", "epochs",
					       "lease_ms", "next", "left",   NULL };
	struct control_queue_spec spec;
	struct control_queue *q;
	uint64_t next;

	if (!json_is_object(saved))
		return star_error_set(err, -EINVAL, "it is not an object");
	if (jsonrpc_member_only(saved, members, err) < 0 ||
	    jsonrpc_member_string(saved, "name", QUEUE_NAME_MAX, &spec.name, err) < 0 ||
	    jsonrpc_member_string(saved, "text", QUEUE_TEXT_MAX, &spec.text, err) < 0 ||
	    jsonrpc_member_u64(saved, "digest", &spec.digest, err) < 0 ||
	    jsonrpc_member_uint(saved, "slices", 1, QUEUE_SLICES_MAX, &spec.slices, err) < 0 ||
	    jsonrpc_member_u32(saved, "epochs", 1, QUEUE_EPOCHS_MAX, &spec.epochs, err) < 0 ||
	    jsonrpc_member_u32(saved, "lease_ms", QUEUE_LEASE_MIN_MS, QUEUE_LEASE_MAX_MS, &spec.lease_ms, err) < 0 ||
	    jsonrpc_member_uint(saved, "next", 0, spec.slices * spec.epochs, &next, err) < 0)
		return -EINVAL;
	if (control_queue_find(queues, spec.name))
		return star_error_set(err, -EINVAL, "there are two queues \"%s\"", spec.name);
	q = add_queue(queues, &spec, err);
	if (!q)
		return err->code;
	q->next = next;
	return load_left(q, json_object_get(saved, "left"), err);
}

int control_queues_load(struct control_queues *queues, const json_t *saved, struct star_error *err)
{
	struct star_error why = { 0 };
	const json_t *queue;
	size_t i;
	int rc = 0;

	if (!json_is_array(saved) || json_array_size(saved) > QUEUES_MAX)
		return star_error_set(err, -EINVAL, "queues are an array of at most %d", QUEUES_MAX);
	json_array_foreach(saved, i, queue)
	{
		if (rc == 0)
			rc = load_queue(queues, queue, &why);
		if (rc < 0) {
			control_queues_fini(queues);
			return star_error_set(err, rc, "queue %zu: %.400s", i, why.text);
		}
	}
	return 0;
}

/* ---- for people ---- */

static json_t *show_leases(const struct control_queue *q, uint64_t now_us)
{
	json_t *shown = json_array();

	for (uint32_t i = 0; i < q->count && json_array_size(shown) < SHOWN_MAX; i++)
		if (q->left[i].worker)
			json_array_append_new(shown,
					      json_pack("{s:I, s:o, s:f}", "slice", (json_int_t)q->left[i].number,
							"worker", jsonrpc_member_from_u64(q->left[i].worker), "left_s",
							(double)(q->left[i].until_us - now_us) / 1e6));
	return shown;
}

json_t *control_queues_show(struct control_queues *queues, uint64_t now_us)
{
	json_t *shown = json_array();

	for (unsigned i = 0; i < queues->count; i++) {
		struct control_queue *q = queues->of[i];

		expire(q, now_us);
		json_array_append_new(shown,
				      json_pack("{s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "name", q->name,
						"text", jsonrpc_member_from_text(q->text), "slices",
						(json_int_t)q->slices, "epochs", (json_int_t)q->epochs, "done",
						(json_int_t)(q->next - q->count), "waiting",
						(json_int_t)(total(q) - q->next + q->idle), "at_work",
						(json_int_t)(q->count - q->idle), "expired", (json_int_t)q->expired,
						"lease_ms", (json_int_t)q->lease_ms, "leases", show_leases(q, now_us)));
	}
	return shown;
}
