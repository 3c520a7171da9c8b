/* SPDX-License-Identifier: BSD-3-Clause */
/* Work queues: a pure state and a clock of the test's own; then by the methods of a node. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/prng.h"
#include "control/node.h"
#include "control/queue.h"
#include "tests/control/cases.h"
#include "tests/control/harness.h"
#include "tests/unit.h"

enum { LEASE_MS = 1000, SLICES = 40, EPOCHS = 2 };
#define LEASE_US (LEASE_MS * UINT64_C(1000))

static const struct control_queue_spec usual = {
	.name = "job", .text = "a test", .digest = 7, .slices = SLICES, .epochs = EPOCHS, .lease_ms = LEASE_MS
};

static struct control_queue *make(struct control_queues *queues, const struct control_queue_spec *spec)
{
	struct star_error err;

	CHECK_INT(control_queue_open(queues, spec, &err), 0);
	return control_queue_find(queues, spec->name);
}

/* A worker that has at most one slice at a time says what became of it. */
static struct control_queue_answer ask(struct control_queue *q, uint64_t worker, const uint64_t *has,
				       const uint64_t *done, bool wants, uint64_t now_us)
{
	const struct control_queue_call call = { .worker = worker,
						 .has = has,
						 .has_count = has != NULL,
						 .done = done,
						 .done_count = done != NULL,
						 .wants = wants };
	static struct control_queue_answer answer;
	struct star_error err;

	CHECK_INT(control_queue_work(q, &call, now_us, &answer, &err), 0);
	return answer;
}

void each_slice_is_assigned_once_per_epoch(void)
{
	unsigned seen[SLICES * EPOCHS] = { 0 };
	struct control_queues queues = { .count = 0 };
	struct control_queue *q = make(&queues, &usual);
	uint64_t has[3];
	bool busy[3] = { false };
	unsigned over = 0;

	for (unsigned turn = 0; over < 3 && turn < 1000; turn++) {
		const unsigned w = turn % 3;
		const struct control_queue_answer a = ask(q, w + 1, NULL, busy[w] ? &has[w] : NULL, true, turn);

		CHECK_UINT(a.lost_count, 0);
		busy[w] = a.what == QUEUE_SLICE;
		has[w] = a.slice;
		if (busy[w])
			seen[a.slice]++;
		over = a.what == QUEUE_OVER ? over + 1 : 0;
	}
	CHECK_UINT(over, 3);
	for (unsigned i = 0; i < SLICES * EPOCHS; i++)
		CHECK_UINT(seen[i], 1);
	control_queues_fini(&queues);
}

void the_last_slices_are_waited_for(void)
{
	struct control_queues queues = { .count = 0 };
	struct control_queue_spec one = usual;
	struct control_queue_answer a;
	struct control_queue *q;
	uint64_t slice = 0;

	one.slices = one.epochs = 1;
	q = make(&queues, &one);
	CHECK_INT(ask(q, 1, NULL, NULL, true, 0).what, QUEUE_SLICE);
	a = ask(q, 2, NULL, NULL, true, 0);
	CHECK_INT(a.what, QUEUE_WAIT);
	CHECK(a.wait_ms >= 1 && a.wait_ms <= LEASE_MS);
	/* renewed, it stays the first one's; then that one is not heard any more */
	ask(q, 1, &slice, NULL, false, LEASE_US - 1);
	CHECK_INT(ask(q, 2, NULL, NULL, true, 2 * LEASE_US - 2).what, QUEUE_WAIT);
	CHECK_INT(ask(q, 2, NULL, NULL, true, 2 * LEASE_US).what, QUEUE_SLICE);
	a = ask(q, 1, &slice, NULL, true, 2 * LEASE_US + 1);
	CHECK_INT(a.what, QUEUE_WAIT);
	CHECK_UINT(a.lost_count, 1);
	CHECK_UINT(a.lost[0], 0);
	a = ask(q, 1, NULL, &slice, true, 2 * LEASE_US + 2); /* too late: it is the second one's */
	CHECK_UINT(a.lost_count, 1);
	CHECK_INT(a.what, QUEUE_WAIT);
	CHECK_INT(ask(q, 2, NULL, &slice, true, 2 * LEASE_US + 3).what, QUEUE_OVER);
	CHECK_INT(ask(q, 1, NULL, NULL, true, 2 * LEASE_US + 4).what, QUEUE_OVER);
	control_queues_fini(&queues);
}

/* An answer was lost: the slice in it is not named, and goes out again; what was done stays so. */
void slices_may_be_requested_again(void)
{
	struct control_queues queues = { .count = 0 };
	struct control_queue *q = make(&queues, &usual);
	const uint64_t first = ask(q, 1, NULL, NULL, true, 0).slice;
	const uint64_t lost = ask(q, 1, &first, NULL, true, 0).slice;
	struct control_queue_answer a;

	CHECK(lost != first);
	CHECK_UINT(ask(q, 1, &first, NULL, true, 0).slice, lost);
	a = ask(q, 1, NULL, &first, false, 0);
	CHECK_INT(a.what, QUEUE_NOTHING);
	CHECK_UINT(a.lost_count, 0);
	CHECK_UINT(ask(q, 1, NULL, &first, false, 0).lost_count, 0); /* it is done already */
	CHECK_UINT(ask(q, 2, NULL, NULL, true, 0).slice, lost);
	CHECK_UINT(ask(q, 2, &lost, &(const uint64_t){ 70 }, false, 0).lost_count, 1); /* it was never handed out */
	control_queues_fini(&queues);
}

void queues_that_differ_are_refused(void)
{
	struct control_queues queues = { .count = 0 };
	struct control_queue_spec other = usual;
	struct star_error err;
	char name[16];

	make(&queues, &usual);
	other.digest++;
	other.text = "other files";
	CHECK_INT(control_queue_open(&queues, &other, &err), -EEXIST);
	CHECK_HAS(err.text, "the queue \"job\" is for a test, but this job has other files");
	other = usual;
	other.epochs--;
	CHECK_INT(control_queue_open(&queues, &other, &err), -EEXIST);
	CHECK_HAS(err.text, "has 2 epochs, and not 1");
	other.epochs = 3;
	CHECK_INT(control_queue_open(&queues, &other, &err), 0);
	for (unsigned i = 1; i < QUEUES_MAX; i++) {
		snprintf(name, sizeof(name), "job %u", i);
		other.name = name;
		CHECK_INT(control_queue_open(&queues, &other, &err), 0);
	}
	other.name = "one more";
	CHECK_INT(control_queue_open(&queues, &other, &err), -ENOSPC);
	control_queue_drop(&queues, control_queue_find(&queues, "job"));
	CHECK(!control_queue_find(&queues, "job"));
	CHECK_INT(control_queue_open(&queues, &other, &err), 0);
	control_queues_fini(&queues);
}

void a_checkpoint_has_what_is_not_done(void)
{
	struct control_queues queues = { .count = 0 }, again = { .count = 0 };
	struct control_queue *q = make(&queues, &usual);
	const uint64_t one = ask(q, 1, NULL, NULL, true, 0).slice, two = ask(q, 2, NULL, NULL, true, 0).slice;
	const uint64_t three = ask(q, 1, &one, NULL, true, 0).slice;
	struct control_queue_answer a;
	struct star_error err = { 0 };
	json_t *saved, *twice;

	ask(q, 2, NULL, &two, false, 0);
	saved = control_queues_save(&queues);
	CHECK_INT(control_queues_load(&again, saved, &err), 0);
	twice = control_queues_save(&again);
	CHECK(json_equal(saved, twice));
	q = control_queue_find(&again, "job");
	if (CHECK(q != NULL)) {
		/* earlier leases count for nothing: work done since then is not in the parameters */
		a = ask(q, 1, &three, &one, false, 0);
		CHECK_UINT(a.lost_count, 2);
		CHECK_UINT(ask(q, 3, NULL, NULL, true, 0).slice, one);
		CHECK_UINT(ask(q, 4, NULL, NULL, true, 0).slice, three);
		CHECK_UINT(ask(q, 5, NULL, NULL, true, 0).slice, 3);
	}
	json_decref(saved);
	json_decref(twice);
	control_queues_fini(&queues);
	control_queues_fini(&again);
}

#define QUEUE(left, next) \
	"[{\"name\": \"j\", \"text\": \"t\", \"digest\": 1, \"slices\": 10, \"epochs\": 1, \"lease_ms\": 1000, " \
	"\"next\": " next ", \"left\": " left "}]"

void malformed_queues_are_refused(void)
{
	static const struct {
		const char *text, *has;
	} cases[] = {
		{ "{}", "an array of at most 64" },
		{ "[3]", "queue 0: it is not an object" },
		{ "[{}]", "queue 0: " },
		{ QUEUE("[]", "11"), "\"next\"" },
		{ QUEUE("{}", "5"), "\"left\" must be an array" },
		{ QUEUE("[[5, 1]]", "5"), "run 0 is not" },
		{ QUEUE("[[4, 2]]", "5"), "run 0 is not" },
		{ QUEUE("[[0, 0]]", "5"), "run 0 is not" },
		{ QUEUE("[[0, -1]]", "5"), "run 0 is not" },
		{ QUEUE("[[-1, 2]]", "5"), "run 0 is not" },
		{ QUEUE("[[0]]", "5"), "run 0 is not" },
		{ QUEUE("[[0, 2], [1, 1]]", "5"), "run 1 is not" },
		{ QUEUE("[[0, 9223372036854775807]]", "5"), "run 0 is not" },
	};
	struct control_queues queues = { .count = 0 };
	struct star_error err;
	json_t *json = json_loads(QUEUE("[[0, 2], [3, 1]]", "5"), 0, NULL);

	CHECK_INT(control_queues_load(&queues, json, &err), 0);
	CHECK_UINT(queues.count, 1);
	control_queues_fini(&queues);
	json_decref(json);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json = json_loads(cases[i].text, 0, NULL);
		CHECK_INT(control_queues_load(&queues, json, &err), -EINVAL);
		CHECK_HAS(err.text, cases[i].has);
		CHECK_UINT(queues.count, 0);
		json_decref(json);
	}
	json = json_loads(QUEUE("[]", "5"), 0, NULL);
	json_array_append(json, json_array_get(json, 0));
	CHECK_INT(control_queues_load(&queues, json, &err), -EINVAL);
	CHECK_HAS(err.text, "two queues \"j\"");
	json_decref(json);
}

enum { WORKERS = 6, TURNS = 4000 };

struct worker {
	uint64_t id, has[4], handled;
	unsigned count;
	bool dead;
};

/* One turn of a worker: it may end a slice, ask, lose the answer, and, if it is not calm, die and come back as another
 * one. */
static void turn(struct control_queue *q, struct worker *w, struct prng *prng, bool calm, uint64_t now_us,
		 unsigned *done, unsigned *over)
{
	uint64_t ended[1];
	struct control_queue_call call = { .worker = w->id, .has = w->has, .done = ended };
	static struct control_queue_answer a;
	struct star_error err;

	if (w->dead) {
		w->dead = prng_below(prng, 50) != 0;
		return;
	}
	if (!calm && prng_below(prng, 200) == 0) {
		w->dead = true;
		w->id += WORKERS;
		w->count = 0;
		return;
	}
	if (w->count && prng_below(prng, 2)) {
		ended[0] = w->has[--w->count];
		call.done_count = 1;
	}
	call.has_count = w->count;
	call.wants = w->count < 4;
	CHECK_INT(control_queue_work(q, &call, now_us, &a, &err), 0);
	if (prng_below(prng, 10) == 0) { /* the answer is lost, and the question put again */
		call.wants = false;
		CHECK_INT(control_queue_work(q, &call, now_us, &a, &err), 0);
	}
	for (uint32_t i = 0; i < a.lost_count; i++) {
		call.done_count &= ended[0] != a.lost[i];
		for (unsigned k = 0; k < w->count; k++)
			if (w->has[k] == a.lost[i])
				w->has[k--] = w->has[--w->count];
	}
	if (call.done_count)
		done[ended[0]]++;
	if (a.what == QUEUE_SLICE)
		w->has[w->count++] = a.slice;
	*over = a.what == QUEUE_OVER ? *over + 1 : 0;
}

/* Whatever workers do, each slice is done; if none dies or is late, once. */
void slices_survive_any_workers(void)
{
	for (uint64_t seed = 1; seed <= 40; seed++) {
		unsigned done[SLICES * EPOCHS] = { 0 }, over = 0;
		struct control_queues queues = { .count = 0 };
		struct control_queue *q = make(&queues, &usual);
		struct worker workers[WORKERS] = { 0 };
		const bool calm = seed % 2;
		struct prng prng;
		uint64_t now_us = 0;

		prng_seed(&prng, seed);
		for (unsigned i = 0; i < WORKERS; i++)
			workers[i].id = i + 1;
		for (unsigned t = 0; over < WORKERS && t < TURNS;
		     t++, now_us += prng_below(&prng, LEASE_US / (calm ? 1000 : 8)))
			turn(q, &workers[prng_below(&prng, WORKERS)], &prng, calm, now_us, done, &over);
		if (!CHECK(over >= WORKERS))
			unit_fail(__FILE__, __LINE__, "seed %llu does not end", (unsigned long long)seed);
		for (unsigned i = 0; i < SLICES * EPOCHS; i++)
			if (done[i] < 1 || (calm && done[i] != 1))
				unit_fail(__FILE__, __LINE__, "seed %llu: slice %u was done %u times",
					  (unsigned long long)seed, i, done[i]);
		control_queues_fini(&queues);
	}
}

/* By the methods: a worker that got a slice from a PS task 0 that is gone no longer has it. */
void what_another_life_handed_out_is_lost(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	const char *address;
	json_int_t incarnation;
	json_t *json;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	address = cluster.nodes[0].address;
	json = call(address, "queue_open",
		    json_pack("{s:s, s:s, s:i, s:i, s:i, s:i}", "name", "job", "text", "t", "digest", 1, "slices", 3,
			      "epochs", 1, "lease_ms", LEASE_MS),
		    &err);
	incarnation = json_integer_value(json_object_get(json, "incarnation"));
	CHECK(incarnation != 0);
	json_decref(json);
	for (int other = 0; other < 2; other++) {
		json = call(address, "queue_work",
			    json_pack("{s:s, s:I, s:i, s:[], s:[], s:b}", "name", "job", "incarnation",
				      incarnation + other, "worker", 5, "has", "done", "wants", true),
			    &err);
		CHECK_INT(json_is_integer(json_object_get(json, "slice")), !other);
		CHECK_INT(other ? err.code : 0, other ? -ESTALE : 0);
		json_decref(json);
	}
	cluster_fini(&cluster);
}

/* A queue was dropped, and one of other files opened under its name: a worker that still reads the former files has
 * none of its slices, and marks none as done. */
void a_queue_of_other_slices_is_not_worked_on(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	const char *address;
	json_t *json, *params;
	json_int_t incarnation = 0;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	address = cluster.nodes[0].address;
	for (int digest = 1; digest <= 2; digest++) {
		json = call(address, "queue_open",
			    json_pack("{s:s, s:s, s:i, s:i, s:i, s:i}", "name", "job", "text", "t", "digest", digest,
				      "slices", 3, "epochs", 1, "lease_ms", LEASE_MS),
			    &err);
		incarnation = json_integer_value(json_object_get(json, "incarnation"));
		json_decref(json);
		params = json_pack("{s:s, s:I, s:i, s:i, s:[], s:[], s:b}", "name", "job", "incarnation", incarnation,
				   "digest", 1, "worker", 5, "has", "done", "wants", true);
		json = call(address, "queue_work", params, &err);
		CHECK_INT(json_is_integer(json_object_get(json, "slice")), digest == 1);
		json_decref(json);
		if (digest == 1)
			json_decref(call(address, "queue_drop", json_pack("{s:s}", "name", "job"), &err));
	}
	CHECK_INT(err.code, -ESTALE);
	CHECK_HAS(err.text, "the queue \"job\" has other slices by now: it was dropped, and opened with others");
	cluster_fini(&cluster);
}

static json_t *list_queues(struct node *node)
{
	struct star_error err = { 0 };

	return call(node->address, "queues", NULL, &err);
}

/* With the catalogue; a queue that was dropped goes there, too. Anything that is not a queue is refused, and changes
 * nothing. */
void queues_go_to_a_standby(void)
{
	struct cluster primary, standby;
	struct control *from, *to;
	struct star_error err = { 0 };
	json_t *catalogue, *list;
	uint64_t changes;
	uint32_t epoch;

	cluster_init(&primary, 1);
	cluster_init(&standby, 1);
	cluster_start(&primary);
	cluster_start(&standby);
	from = primary.nodes[0].control;
	to = standby.nodes[0].control;
	catalogue = control_pair_catalogue(from, CONTROL_PAIR_ALL);
	CHECK(!json_object_get(catalogue, "queues"));
	json_decref(catalogue);
	changes = control_pair_queues(from);
	json_decref(call(primary.nodes[0].address, "queue_open",
			 json_pack("{s:s, s:s, s:i, s:i, s:i, s:i}", "name", "job", "text", "files", "digest", 7,
				   "slices", 10, "epochs", 1, "lease_ms", 60000),
			 &err));
	CHECK_UINT(control_pair_queues(from), changes + 1);
	for (unsigned i = 0; i < 3; i++) {
		const bool done = i == 2;

		json_decref(call(primary.nodes[0].address, "queue_work",
				 json_pack("{s:s, s:i, s:i, s:o, s:o, s:b}", "name", "job", "incarnation", 100,
					   "worker", 5, "has", i ? json_pack("[i]", 0) : json_array(), "done",
					   done ? json_pack("[i]", 1) : json_array(), "wants", 1),
				 &err));
		/* What is handed out alone needs no telling. */
		CHECK_UINT(control_pair_queues(from), changes + 1 + done);
	}
	catalogue = control_pair_catalogue(from, CONTROL_PAIR_ALL);
	CHECK_INT(control_pair_take(to, catalogue, &epoch, &err), 0);
	list = list_queues(&standby.nodes[0]);
	CHECK_UINT(json_array_size(list), 1);
	CHECK_INT(json_integer_value(json_object_get(json_array_get(list, 0), "at_work")), 0);
	CHECK_INT(json_integer_value(json_object_get(json_array_get(list, 0), "waiting")), 9);
	json_decref(list);
	json_object_set_new(json_array_get(json_object_get(catalogue, "queues"), 0), "slices", json_integer(0));
	CHECK_INT(control_pair_take(to, catalogue, &epoch, &err), -EPROTO);
	CHECK_HAS(err.text, "the primary's work queues: queue 0: ");
	json_decref(catalogue);
	list = list_queues(&standby.nodes[0]);
	CHECK_UINT(json_array_size(list), 1);
	json_decref(list);
	json_decref(call(primary.nodes[0].address, "queue_drop", json_pack("{s:s}", "name", "job"), &err));
	CHECK_UINT(control_pair_queues(from), changes + 3);
	catalogue = control_pair_catalogue(from, CONTROL_PAIR_ALL);
	CHECK_INT(control_pair_take(to, catalogue, &epoch, &err), 0);
	json_decref(catalogue);
	list = list_queues(&standby.nodes[0]);
	CHECK_UINT(json_array_size(list), 0);
	json_decref(list);
	cluster_fini(&primary);
	cluster_fini(&standby);
}

/* Every other slice of many is done. */
static json_t *large_queues(unsigned count)
{
	json_t *queues = json_array();

	for (unsigned i = 0; i < count; i++) {
		json_t *left = json_array();
		char name[16];

		for (unsigned k = 0; k < QUEUE_LEFT_MAX; k++)
			json_array_append_new(left, json_pack("[i, i]", 2 * (int)k, 1));
		snprintf(name, sizeof(name), "job%u", i);
		json_array_append_new(queues, json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:o}", "name", name,
							"text", "files", "digest", "7", "slices", 1 << 20, "epochs", 1,
							"lease_ms", 60000, "next", 1 << 20, "left", left));
	}
	return queues;
}

void queues_too_large_for_a_standby_are_told_once(void)
{
	static struct log_event events[LOG_KEPT];
	struct star_error err = { 0 };
	struct cluster cluster;
	struct control *control;
	unsigned told = 0, n;
	json_t *queues, *catalogue;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	control = cluster.nodes[0].control;
	queues = large_queues(16);
	if (!CHECK_INT(control_queues_load(&control->queues, queues, &err), 0))
		printf("# %s\n", err.text);
	for (unsigned times = 0; times < 3; times++) {
		catalogue = control_pair_catalogue(control, CONTROL_PAIR_ALL);
		CHECK(catalogue && !json_object_get(catalogue, "queues"));
		json_decref(catalogue);
	}
	n = log_events(0, LOG_WARN, events, LOG_KEPT);
	for (unsigned i = 0; i < n; i++)
		told += strstr(events[i].text, "the standby does not get the work queues: they take ") != NULL;
	CHECK_UINT(told, 1);
	while (control->queues.count > 1)
		control_queue_drop(&control->queues, control->queues.of[0]);
	catalogue = control_pair_catalogue(control, CONTROL_PAIR_ALL);
	CHECK_UINT(json_array_size(json_object_get(catalogue, "queues")), 1);
	json_decref(catalogue);
	json_decref(queues);
	cluster_fini(&cluster);
}
