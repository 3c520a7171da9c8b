/* SPDX-License-Identifier: BSD-3-Clause */
/* What PS task 0 has the nodes do about checkpoints. */
#include "tests/control/cases.h"
#include "tests/control/harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/node.h"
#include "tests/unit.h"

enum { NAP_US = 10000, WAIT_US = 10000000, LONG_US = 300000 };

/* Nodes that keep checkpoints. */
static void begin(struct cluster *cluster, unsigned count)
{
	cluster_init(cluster, count);
	for (unsigned i = 0; i < count; i++) {
		strcpy(cluster->nodes[i].config.checkpoint_directory, "/nowhere");
		cluster->nodes[i].config.checkpoint_restore = CONFIG_RESTORE_LATEST;
	}
	cluster_start(cluster);
}

static void set_loading(struct node *node, bool loading)
{
	pthread_mutex_lock(&node->plane.lock);
	node->plane.loading = loading;
	pthread_mutex_unlock(&node->plane.lock);
}

static void set_fail_check(struct node *node, int fail)
{
	pthread_mutex_lock(&node->plane.lock);
	node->plane.fail_check = fail;
	pthread_mutex_unlock(&node->plane.lock);
}

/* The status as soon as neither is under way; a new reference. */
static json_t *settled(const struct cluster *cluster)
{
	const uint64_t until_us = clock_us() + WAIT_US;
	struct star_error err = { 0 };

	for (;;) {
		json_t *status = call(cluster->nodes[0].address, "checkpoint_status", NULL, &err);

		if (!CHECK(status) || (json_is_false(json_object_get(status, "writing")) &&
				       json_is_false(json_object_get(status, "restoring"))))
			return status;
		json_decref(status);
		if (!CHECK(clock_us() < until_us))
			return NULL;
		usleep(NAP_US);
	}
}

void checkpoints_wait_for_nodes_that_load(void)
{
	struct star_error err = { 0 };
	struct cluster cluster;
	json_t *status;

	begin(&cluster, 2);
	set_loading(&cluster.nodes[1], true);
	json_decref(call(cluster.nodes[1].address, "checkpoint_save", NULL, &err));
	usleep(LONG_US);
	CHECK_UINT(PLANE(&cluster.nodes[0], begun) + PLANE(&cluster.nodes[1], begun), 0);
	/* Nor does it wait for ever when it is to end. */
	node_stop(&cluster, 0);
	node_start(&cluster, 0, 200);
	set_loading(&cluster.nodes[1], false);
	free(wait_layout(&cluster, 2));
	json_decref(call(cluster.nodes[1].address, "checkpoint_save", NULL, &err));
	status = settled(&cluster);
	CHECK_UINT(json_integer_value(json_object_get(status, "saved")), 1);
	json_decref(status);
	CHECK_UINT(PLANE(&cluster.nodes[0], begun), 1);
	CHECK_UINT(PLANE(&cluster.nodes[1], begun), 1);
	CHECK_UINT(PLANE(&cluster.nodes[0], committed), 1);
	CHECK_UINT(PLANE(&cluster.nodes[0], abandoned), 0);
	cluster_fini(&cluster);
}

/* Where nothing was written yet it is a full one. */
void a_delta_right_after_a_start_is_a_full_one(void)
{
	struct star_error err = { 0 };
	struct cluster cluster;

	begin(&cluster, 1);
	for (unsigned i = 0; i < 2; i++) {
		json_t *asked =
			call(cluster.nodes[0].address, "checkpoint_save", json_pack("{s:s}", "kind", "delta"), &err);
		json_t *status;

		if (!CHECK(asked != NULL))
			printf("# %s\n", err.text);
		status = settled(&cluster);
		CHECK_UINT(json_integer_value(json_object_get(status, "saved")), i + 1);
		CHECK_INT(json_is_true(json_object_get(json_object_get(status, "last"), "delta")), i == 1);
		json_decref(asked);
		json_decref(status);
	}
	cluster_fini(&cluster);
}

/* Also one that others have followed, as long as it is one of the last eight. */
void each_save_is_found_by_its_number(void)
{
	struct star_error err = { 0 };
	struct cluster cluster;

	begin(&cluster, 1);
	for (unsigned i = 1; i <= 11; i++) {
		json_t *asked = call(cluster.nodes[0].address, "checkpoint_save",
				     json_pack("{s:s}", "kind", i % 3 ? "delta" : "full"), &err);
		json_t *status = settled(&cluster), *ended = json_object_get(status, "ended"), *end;
		const size_t known = i < 8 ? i : 8;
		size_t at;

		CHECK_UINT(json_integer_value(json_object_get(asked, "asked")), i);
		CHECK_UINT(json_array_size(ended), known);
		json_array_foreach(ended, at, end)
		{
			const unsigned number = (unsigned)(i - known + at + 1);

			CHECK_UINT(json_integer_value(json_object_get(end, "asked")), number);
			CHECK_INT(json_is_true(json_object_get(end, "delta")), number != 1 && number % 3 != 0);
			CHECK(!json_object_get(end, "error"));
		}
		json_decref(asked);
		json_decref(status);
	}
	cluster_fini(&cluster);
}

static unsigned held(struct node *node, bool hold)
{
	unsigned holding;

	pthread_mutex_lock(&node->plane.lock);
	node->plane.hold_new = hold;
	holding = node->plane.holding_new;
	pthread_cond_broadcast(&node->plane.changed);
	pthread_mutex_unlock(&node->plane.lock);
	return holding;
}

static uint64_t overdue_logged(struct control *control)
{
	return __atomic_load_n(&control->overdue_logged_us, __ATOMIC_RELAXED);
}

/* Of a cluster that writes one each hour, which began two hours ago, and then four. */
void a_checkpoint_that_does_not_come_is_told(void)
{
	enum { HOUR_S = 3600 };
	const uint64_t until_us = clock_us() + WAIT_US;
	struct cluster cluster;
	struct control *control;
	uint32_t every_s;
	double age_s;

	cluster_init(&cluster, 1);
	strcpy(cluster.nodes[0].config.checkpoint_directory, "/nowhere");
	cluster.nodes[0].config.checkpoint_every_s = HOUR_S;
	cluster_start(&cluster);
	control = cluster.nodes[0].control;
	pthread_mutex_lock(&control->lock);
	control->started_us -= UINT64_C(2) * HOUR_S * 1000000;
	CHECK(!control_health_checkpoint_overdue(control, &age_s, &every_s));
	control->started_us -= UINT64_C(2) * HOUR_S * 1000000;
	CHECK(control_health_checkpoint_overdue(control, &age_s, &every_s));
	CHECK(age_s >= 4.0 * HOUR_S && every_s == HOUR_S);
	pthread_mutex_unlock(&control->lock);
	while (!overdue_logged(control) && CHECK(clock_us() < until_us))
		usleep(NAP_US);
	cluster_fini(&cluster);
}

/* PS task 0's storage stalls, and a node restarts meanwhile. */
void half_a_node_is_never_saved(void)
{
	const uint64_t until_us = clock_us() + WAIT_US;
	struct star_error err = { 0 };
	struct cluster cluster;
	json_t *status;

	begin(&cluster, 3);
	held(&cluster.nodes[0], true);
	json_decref(call(cluster.nodes[0].address, "checkpoint_save", NULL, &err));
	while (!held(&cluster.nodes[0], true) && CHECK(clock_us() < until_us))
		usleep(NAP_US);
	node_stop(&cluster, 1);
	node_start(&cluster, 1, 201);
	set_loading(&cluster.nodes[1], true);
	free(wait_layout(&cluster, 2));
	held(&cluster.nodes[0], false);
	status = settled(&cluster);
	CHECK_UINT(json_integer_value(json_object_get(status, "saved")), 0);
	CHECK_UINT(json_integer_value(json_object_get(status, "failed")), 1);
	json_decref(status);
	CHECK_UINT(PLANE(&cluster.nodes[1], begun), 0);
	CHECK_UINT(PLANE(&cluster.nodes[0], committed), 0);
	CHECK_UINT(PLANE(&cluster.nodes[0], abandoned), 1);
	CHECK_UINT(cluster.nodes[0].plane.kept + cluster.nodes[2].plane.kept, 0);
	set_loading(&cluster.nodes[1], false);
	json_decref(call(cluster.nodes[0].address, "checkpoint_save", NULL, &err));
	status = settled(&cluster);
	CHECK_UINT(json_integer_value(json_object_get(status, "saved")), 1);
	json_decref(status);
	cluster_fini(&cluster);
}

static unsigned part_held(struct node *node, bool slow, bool hold)
{
	unsigned holding;

	pthread_mutex_lock(&node->plane.lock);
	node->plane.slow_part = slow;
	node->plane.hold_state = hold;
	holding = hold ? node->plane.holding_state : 0;
	pthread_cond_broadcast(&node->plane.changed);
	pthread_mutex_unlock(&node->plane.lock);
	return holding;
}

/* Node 1 restarts after its part was written, while PS task 0 asks node `last` how far it is; why: what is said of
 * it. */
static void restart_behind(unsigned last, const char *why)
{
	const uint64_t until_us = clock_us() + WAIT_US;
	struct star_error err = { 0 };
	struct cluster cluster;
	struct node *asked = &cluster.nodes[last], *node = &cluster.nodes[1];
	json_t *status;

	begin(&cluster, 3);
	part_held(asked, true, false);
	json_decref(call(cluster.nodes[0].address, "checkpoint_save", NULL, &err));
	while ((!PLANE(&cluster.nodes[2], begun) || !PLANE(node, begun)) && CHECK(clock_us() < until_us))
		usleep(NAP_US);
	while (!part_held(asked, true, true) && CHECK(clock_us() < until_us))
		usleep(NAP_US);
	node_stop(&cluster, 1);
	node_start(&cluster, 1, 201);
	/* It says that it has written that one, as a node of another time might. */
	pthread_mutex_lock(&node->plane.lock);
	node->plane.checkpoint = cluster.nodes[2].plane.checkpoint;
	node->plane.begun = 1;
	pthread_mutex_unlock(&node->plane.lock);
	free(wait_layout(&cluster, 2));
	part_held(asked, false, false);
	status = settled(&cluster);
	CHECK_UINT(json_integer_value(json_object_get(status, "saved")), 0);
	CHECK_UINT(json_integer_value(json_object_get(status, "failed")), 1);
	CHECK_HAS(json_string_value(json_object_get(status, "error")), why);
	json_decref(status);
	CHECK_UINT(PLANE(&cluster.nodes[0], committed), 0);
	CHECK_UINT(PLANE(&cluster.nodes[0], abandoned), 1);
	for (unsigned i = 0; i < 3; i++)
		CHECK_UINT(PLANE(&cluster.nodes[i], kept), 0);
	cluster_fini(&cluster);
}

void parts_that_were_written_do_not_outlive_their_node(void)
{
	/* Of the round of questions that finds the last part written, or behind its answer about that node, before the
	 * manifest. */
	restart_behind(0, "was restarted meanwhile, or another node was");
	restart_behind(2, "there is another layout meanwhile");
}

static int part(struct node *node, json_t *params, struct star_error *err)
{
	json_t *state = call(node->address, "checkpoint_part", params, err);
	const int rc = state ? 0 : err->code;

	json_decref(state);
	return rc;
}

static json_t *begin_last_json(uint32_t incarnation, uint32_t epoch, bool last)
{
	return json_pack("{s:{s:i, s:i, s:s, s:b, s:i, s:i}}", "begin", "id", 9, "parent", 0, "name", "x.partial",
			 "last", last, "incarnation", (int)incarnation, "epoch", (int)epoch);
}

static json_t *begin_json(uint32_t incarnation, uint32_t epoch)
{
	return begin_last_json(incarnation, epoch, false);
}

static json_t *end_json(uint32_t incarnation, uint32_t epoch)
{
	return json_pack("{s:{s:i, s:b, s:i, s:i}}", "end", "id", 9, "kept", 1, "incarnation", (int)incarnation,
			 "epoch", (int)epoch);
}

void parts_are_of_one_incarnation_and_layout(void)
{
	struct star_error err = { 0 };
	struct cluster cluster;
	struct node *node = &cluster.nodes[1];
	json_t *state;

	begin(&cluster, 2);
	CHECK(wait_epoch(node, 1));
	CHECK_INT(part(node, begin_json(999, 1), &err), -ESTALE);
	CHECK_HAS(err.text, "not now");
	CHECK_INT(part(node, begin_json(101, 2), &err), -ESTALE);
	set_loading(node, true);
	CHECK_INT(part(node, begin_json(101, 1), &err), -EBUSY);
	CHECK_HAS(err.text, "not now: it has not finished restoring");
	set_loading(node, false);
	CHECK_UINT(PLANE(node, begun), 0);
	CHECK_INT(part(node, begin_json(101, 1), &err), 0);
	CHECK_UINT(PLANE(node, begun), 1);
	/* What it says of it says of which node, and of which layout. */
	state = call(node->address, "checkpoint_part", json_object(), &err);
	CHECK_INT(json_integer_value(json_object_get(state, "incarnation")), 101);
	CHECK_INT(json_integer_value(json_object_get(state, "epoch")), 1);
	json_decref(state);
	CHECK_INT(part(node, end_json(999, 1), &err), 0);
	CHECK_UINT(PLANE(node, kept), 0);
	CHECK_INT(part(node, end_json(101, 2), &err), 0);
	CHECK_UINT(PLANE(node, kept), 0);
	CHECK_INT(part(node, end_json(101, 1), &err), 0);
	CHECK_UINT(PLANE(node, kept), 1);
	cluster_fini(&cluster);
}

/* Asks for it, and waits for the outcome. */
static void refuse_to_roll_back(const struct cluster *cluster, const char *why)
{
	struct star_error err = { 0 };
	json_t *asked = call(cluster->nodes[0].config.control_socket, "checkpoint_restore", NULL, &err), *status;

	if (!CHECK(asked))
		printf("# %s\n", err.text);
	json_decref(asked);
	status = settled(cluster);
	CHECK_HAS(json_string_value(json_object_get(status, "error")), why);
	json_decref(status);
}

static void check_gone_back(struct cluster *cluster, uint64_t id)
{
	for (unsigned i = 0; i < cluster->count; i++)
		CHECK_UINT(PLANE(&cluster->nodes[i], rolls_back), id);
}

static void is_refused(const char *address, json_t *params, const char *why)
{
	struct star_error err = { 0 };
	json_t *result = call(address, "checkpoint_restore", params, &err);

	CHECK(!result);
	CHECK_HAS(err.text, why);
	json_decref(result);
}

void all_nodes_roll_back_or_none(void)
{
	struct star_error err = { 0 };
	struct cluster cluster;
	uint64_t until_us;
	json_t *asked;

	begin(&cluster, 3);
	is_refused(cluster.nodes[0].address, NULL, "is for the administrator's socket");
	is_refused(cluster.nodes[1].config.control_socket, NULL, "is for PS task 0");
	is_refused(cluster.nodes[0].config.control_socket, json_pack("{s:i}", "id", 0), "\"id\"");
	is_refused(cluster.nodes[0].config.control_socket, json_pack("{s:i}", "it", 7), "\"it\"");
	set_fail_check(&cluster.nodes[0], -EBADMSG);
	refuse_to_roll_back(&cluster, "block 5 is damaged in /cut");
	set_fail_check(&cluster.nodes[0], 0);
	node_stop(&cluster, 2);
	refuse_to_roll_back(&cluster, "PS task 2");
	check_gone_back(&cluster, 0);
	node_start(&cluster, 2, 300);
	free(wait_layout(&cluster, 2));
	asked = call(cluster.nodes[0].config.control_socket, "checkpoint_restore", json_pack("{s:i}", "id", 5), &err);
	CHECK(asked);
	json_decref(asked);
	for (until_us = clock_us() + WAIT_US; !PLANE(&cluster.nodes[0], rolls_back);)
		if (!CHECK(clock_us() < until_us))
			break;
		else
			usleep(NAP_US);
	check_gone_back(&cluster, 5);
	/* From now on nobody is let in until PS task 0 has restarted as well. */
	CHECK(!call(cluster.nodes[0].address, "layout", NULL, &err));
	CHECK_HAS(err.text, "waiting for all nodes to roll back to checkpoint 5");
	is_refused(cluster.nodes[0].config.control_socket, NULL, "being written or restored");
	node_stop(&cluster, 1);
	node_start(&cluster, 1, 301);
	usleep(LONG_US);
	CHECK_UINT(cluster.nodes[1].plane.layouts, 0);
	node_stop(&cluster, 0);
	node_stop(&cluster, 2);
	node_start(&cluster, 2, 302);
	node_start(&cluster, 0, 303);
	free(wait_layout(&cluster, 1));
	CHECK(wait_epoch(&cluster.nodes[1], 1) && wait_epoch(&cluster.nodes[2], 1));
	cluster_fini(&cluster);
}

static void wait_rolls_back(struct cluster *cluster, unsigned task, uint64_t id)
{
	const uint64_t until_us = clock_us() + WAIT_US;

	while (PLANE(&cluster->nodes[task], rolls_back) != id)
		if (!CHECK(clock_us() < until_us))
			break;
		else
			usleep(NAP_US);
}

/* A node comes back with other reactors: what the others hold would be looked for elsewhere. */
void nodes_that_do_not_fit_roll_back_together(void)
{
	struct star_error err = { 0 };
	struct cluster cluster;

	begin(&cluster, 3);
	json_decref(call(cluster.nodes[0].address, "checkpoint_save", NULL, &err));
	json_decref(settled(&cluster));
	node_stop(&cluster, 1);
	cluster.nodes[1].config.reactors = 5;
	node_start(&cluster, 1, 201);
	wait_rolls_back(&cluster, 0, 8);
	check_gone_back(&cluster, 8);
	CHECK_UINT(cluster.nodes[2].plane.layouts, 1);
	/* As the appliance does it. */
	for (unsigned i = 0; i < 3; i++)
		node_stop(&cluster, i);
	for (unsigned i = 0; i < 3; i++)
		node_start(&cluster, i, 300 + i);
	free(wait_layout(&cluster, 1));
	/* PS task 0 is what has changed; and what it would roll back to is damaged. */
	json_decref(call(cluster.nodes[0].address, "checkpoint_save", NULL, &err));
	json_decref(settled(&cluster));
	set_fail_check(&cluster.nodes[0], -EBADMSG);
	node_stop(&cluster, 2);
	cluster.nodes[2].config.reactors = 1;
	node_start(&cluster, 2, 400);
	usleep(2 * LONG_US);
	CHECK(!call(cluster.nodes[0].address, "layout", NULL, &err));
	CHECK_HAS(err.text, "PS task 2 has 1 reactors and had 3");
	check_gone_back(&cluster, 0);
	cluster_fini(&cluster);
}

static void *drain(void *arg)
{
	struct node *node = arg;

	CHECK_INT(control_drain(node->control), 0);
	return NULL;
}

/* Each node alone, and all at once; of all that are stopped one after the other only the first has one written. */
void a_last_checkpoint_is_written_whoever_stops(void)
{
	enum { NODES = 3 };
	struct star_error err = { 0 };
	struct cluster cluster;
	pthread_t threads[NODES];

	for (unsigned who = 0; who <= NODES; who++) {
		begin(&cluster, NODES);
		for (unsigned i = 0; i < NODES; i++) {
			CHECK(wait_epoch(&cluster.nodes[i], 1));
			cluster.nodes[i].config.checkpoint_on_stop = true;
		}
		for (unsigned i = 0; i < NODES; i++)
			if (who == NODES || i == who)
				pthread_create(&threads[i], NULL, drain, &cluster.nodes[i]);
		for (unsigned i = 0; i < NODES; i++)
			if (who == NODES || i == who)
				pthread_join(threads[i], NULL);
		CHECK_UINT(PLANE(&cluster.nodes[0], committed), 1);
		for (unsigned i = 0; i < NODES; i++) {
			CHECK(cluster.nodes[i].plane.checkpoint.last);
			CHECK_UINT(PLANE(&cluster.nodes[i], kept), 1);
		}
		/* No worker is let in any more, and nobody else needs another one. */
		CHECK(!call(cluster.nodes[0].address, "layout", NULL, &err));
		CHECK_HAS(err.text, "which was stopped, to join again");
		for (unsigned i = NODES; i-- > 0;)
			drain(&cluster.nodes[i]);
		CHECK_UINT(PLANE(&cluster.nodes[0], committed), 1);
		cluster_fini(&cluster);
	}
}

/* A node whose configuration lacks it would end without, and what it had since the last one would be gone. */
void what_ps_task_0_does_on_stop_counts_for_all(void)
{
	const uint64_t until_us = clock_us() + 30000000;
	struct cluster cluster;

	begin(&cluster, 2);
	CHECK(wait_epoch(&cluster.nodes[1], 1));
	drain(&cluster.nodes[1]);
	CHECK_UINT(PLANE(&cluster.nodes[0], committed), 0);
	cluster.nodes[0].config.checkpoint_on_stop = true;
	/* It is told with a heartbeat. */
	while (!PLANE(&cluster.nodes[0], committed) && CHECK(clock_us() < until_us)) {
		usleep(LONG_US);
		drain(&cluster.nodes[1]);
	}
	CHECK(cluster.nodes[1].plane.checkpoint.last);
	CHECK_UINT(PLANE(&cluster.nodes[1], kept), 1);
	cluster_fini(&cluster);
}

static void set_hold_end(struct node *node, bool hold)
{
	pthread_mutex_lock(&node->plane.lock);
	node->plane.hold_end = hold;
	pthread_cond_broadcast(&node->plane.changed);
	pthread_mutex_unlock(&node->plane.lock);
}

static bool drained;

static void *drain_and_note(void *arg)
{
	drain(arg);
	__atomic_store_n(&drained, true, __ATOMIC_RELEASE);
	return NULL;
}

static bool is_drained(void)
{
	usleep(LONG_US);
	return __atomic_load_n(&drained, __ATOMIC_ACQUIRE);
}

static bool last_counts(struct control *control)
{
	bool closed;

	pthread_mutex_lock(&control->lock);
	closed = control->checkpointer.closed;
	pthread_mutex_unlock(&control->lock);
	return closed;
}

/* PS task 1 is slow to hear that the last checkpoint counts, misses it, and asks: PS task 0 is there until then. */
/* It waits no longer than that, however long this machine stood still meanwhile. */
static bool waits_for_others(uint64_t begun_us)
{
	return !is_drained() || clock_us() - begun_us > CONTROL_ALONE_US;
}

void who_writes_the_last_checkpoint_ends_when_the_others_know(void)
{
	const uint64_t until_us = clock_us() + 3 * WAIT_US;
	struct star_error err = { 0 };
	struct cluster cluster;
	uint64_t begun_us;
	pthread_t thread;
	json_t *answer;

	begin(&cluster, 2);
	CHECK(wait_epoch(&cluster.nodes[1], 1));
	cluster.nodes[0].config.checkpoint_on_stop = true;
	set_hold_end(&cluster.nodes[1], true);
	drained = false;
	begun_us = clock_us();
	pthread_create(&thread, NULL, drain_and_note, &cluster.nodes[0]);
	while (!PLANE(&cluster.nodes[1], ended) && CHECK(clock_us() < until_us))
		usleep(NAP_US);
	CHECK(waits_for_others(begun_us));
	while (!last_counts(cluster.nodes[0].control) && CHECK(clock_us() < until_us))
		usleep(NAP_US);
	CHECK(waits_for_others(begun_us));
	answer = call(cluster.nodes[0].address, "leave", json_pack("{s:i, s:i}", "task", 1, "incarnation", 101), &err);
	CHECK(json_is_true(json_object_get(answer, "done")));
	json_decref(answer);
	pthread_join(thread, NULL);
	set_hold_end(&cluster.nodes[1], false);
	cluster_fini(&cluster);
}

void a_silent_node_is_away(void)
{
	const uint64_t until_us = clock_us() + 3 * WAIT_US;
	struct star_error err = { 0 };
	struct cluster cluster;
	bool away = false, back = false;

	begin(&cluster, 2);
	node_stop(&cluster, 1);
	while (!back && CHECK(clock_us() < until_us)) {
		json_t *status = call(cluster.nodes[0].address, "status", NULL, &err);
		const bool now =
			json_is_true(json_object_get(json_array_get(json_object_get(status, "nodes"), 1), "away"));

		if (now && !away)
			node_start(&cluster, 1, 201);
		back = away && !now;
		away |= now;
		json_decref(status);
		usleep(NAP_US);
	}
	CHECK(away && back);
	cluster_fini(&cluster);
}

/* It closes for a last checkpoint, and PS task 0 never says how that ended: a restart, or a lost message. Its
 * heartbeats show that none is being written. */
void a_last_checkpoint_that_was_given_up_lets_the_node_serve_again(void)
{
	const uint64_t until_us = clock_us() + WAIT_US;
	struct star_error err = { 0 };
	struct cluster cluster;
	struct node *node = &cluster.nodes[1];

	begin(&cluster, 2);
	CHECK(wait_epoch(node, 1));
	CHECK_INT(part(node, begin_last_json(101, 1, true), &err), 0);
	while (!PLANE(node, ended) && CHECK(clock_us() < until_us))
		usleep(NAP_US);
	CHECK_UINT(PLANE(node, ended), 1);
	CHECK_UINT(PLANE(node, kept), 0);
	/* Once: it is not closed any more. And one that is not a last checkpoint is not touched. */
	CHECK_INT(part(node, begin_last_json(101, 1, false), &err), 0);
	usleep(8 * LONG_US);
	CHECK_UINT(PLANE(node, ended), 1);
	cluster_fini(&cluster);
}
