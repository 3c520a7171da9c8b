/* SPDX-License-Identifier: BSD-3-Clause */
/* Tasks that are two nodes each: which nodes PS task 0 accepts in a task's name, and how its own two are found. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/node.h"
#include "tests/control/cases.h"
#include "tests/control/harness.h"

enum { WAIT_US = 10000000, NAP_US = 10000 };

/* A node that joins as PS task 1. */
struct comer {
	uint32_t incarnation, inherits;
	uint64_t generation;
	const char *control, *data_host;
	uint32_t epoch; /* of the layout that it goes on from; 0: none */
	const char *standby;
};

static json_t *come(const struct cluster *cluster, const struct comer *c, struct star_error *err)
{
	json_t *params =
		json_pack("{s:i, s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:[], s:i, s:i, s:s}", "task", 1,
			  "incarnation", (int)c->incarnation, "data_host", c->data_host, "data_port", 5555, "reactors",
			  2, "partitions", (int)cluster->nodes[0].config.partitions, "ps_count", 2, "request_max",
			  1 << 20, "epoch", (int)c->epoch, "objects_count", 0, "objects", "inherited", (int)c->inherits,
			  "generation", (int)c->generation, "control", c->control);

	if (c->epoch)
		json_object_update_new(params, json_pack("{s:i, s:i}", "cluster_reactors", 3, "first_reactor", 1));
	if (c->standby)
		json_object_set_new(params, "standby",
				    json_pack("{s:s, s:s, s:i}", "control", c->standby, "data_host", "198.18.0.9",
					      "data_port", 5555));
	return call(cluster->nodes[0].address, "join", params, err);
}

static bool is_let_in(const struct cluster *cluster, const struct comer *c)
{
	struct star_error err = { 0 };
	json_t *answer = come(cluster, c, &err);
	const bool joined = json_is_true(json_object_get(answer, "joined"));

	if (!answer)
		printf("# %s\n", err.text);
	json_decref(answer);
	return joined;
}

static json_t *member_of_task_1(const struct cluster *cluster, const char *name)
{
	struct star_error err = { 0 };
	json_t *status = call(cluster->nodes[0].address, "status", NULL, &err);
	json_t *member = json_incref(json_object_get(json_array_get(json_object_get(status, "nodes"), 1), name));

	json_decref(status);
	return member;
}

/* It has no standby, and PS task 0 hands that on. */
static void says_why_it_is_alone(const struct cluster *cluster, int incarnation)
{
	struct star_error err = { 0 };
	json_t *answer = call(cluster->nodes[0].address, "heartbeat",
			      json_pack("{s:i, s:i, s:i, s:s}", "task", 1, "incarnation", incarnation, "objects_count",
					0, "alone", "none has come"),
			      &err);

	CHECK(json_is_true(json_object_get(answer, "joined")));
	json_decref(answer);
	answer = call(cluster->nodes[0].address, "health", NULL, &err);
	CHECK_HAS(json_string_value(json_array_get(json_object_get(answer, "problems"), 0)),
		  "PS task 1 at 127.0.0.1:2 has no standby: none has come");
	json_decref(answer);
}

void who_had_its_place_taken_is_not_let_in_again(void)
{
	struct config_address others[2] = { { "", 0 }, { "127.0.0.1", 2 } };
	struct star_error err = { 0 };
	struct cluster cluster;
	struct layout *layout;
	struct comer first, before, second, stranger;
	json_t *answer;

	cluster_init(&cluster, 2);
	cluster.nodes[0].config.ps_others = others;
	CHECK(node_start(&cluster, 0, 100));
	first = (struct comer){ .incarnation = 201,
				.inherits = 201,
				.generation = 1,
				.control = cluster.nodes[1].address,
				.data_host = cluster.endpoints[1].data.host };
	CHECK(is_let_in(&cluster, &first));
	layout = wait_layout(&cluster, 1);
	CHECK_STR(layout->nodes[1].standby.data_host, "");
	free(layout);
	/* Workers are told of its standby, by a layout of its own. */
	first.standby = "127.0.0.1:2";
	CHECK(is_let_in(&cluster, &first));
	layout = wait_layout(&cluster, 2);
	CHECK_UINT(layout->epoch, 2);
	CHECK_STR(layout->nodes[1].standby.control, "127.0.0.1:2");
	CHECK_STR(layout->nodes[1].standby.data_host, "198.18.0.9");
	free(layout);
	CHECK(is_let_in(&cluster, &first));
	layout = wait_layout(&cluster, 2);
	CHECK_UINT(layout->epoch, 2);
	free(layout);
	answer = member_of_task_1(&cluster, "standby");
	CHECK_STR(json_string_value(answer), "127.0.0.1:2");
	json_decref(answer);
	/* It had closed for its standby, which came to nothing: it serves again, under a later generation, by a later
	 * layout. */
	before = first;
	first.generation = 2;
	first.epoch = 2;
	CHECK(is_let_in(&cluster, &first));
	layout = wait_layout(&cluster, 3);
	CHECK_UINT(layout->epoch, 3);
	CHECK_UINT(layout->nodes[1].incarnation, 201);
	free(layout);
	CHECK(come(&cluster, &before, &err) == NULL);
	CHECK_INT(err.code, -ESTALE);
	/* That takes its place: workers know it as what was there before. */
	second = (struct comer){ .incarnation = 202,
				 .inherits = 201,
				 .generation = 3,
				 .control = "127.0.0.1:2",
				 .data_host = "198.18.0.9",
				 .epoch = 3 };
	CHECK(is_let_in(&cluster, &second));
	layout = wait_layout(&cluster, 4);
	CHECK_UINT(layout->nodes[1].incarnation, 201);
	CHECK_STR(layout->nodes[1].data_host, "198.18.0.9");
	CHECK_STR(layout->nodes[1].standby.data_host, "");
	free(layout);
	answer = member_of_task_1(&cluster, "control");
	CHECK_STR(json_string_value(answer), "127.0.0.1:2");
	json_decref(answer);
	/* The first one was paused, and wakes up. */
	answer = call(cluster.nodes[0].address, "heartbeat",
		      json_pack("{s:i, s:i, s:i}", "task", 1, "incarnation", 201, "objects_count", 0), &err);
	CHECK(json_is_false(json_object_get(answer, "joined")));
	json_decref(answer);
	CHECK(come(&cluster, &first, &err) == NULL);
	CHECK_INT(err.code, -ESTALE);
	CHECK_HAS(err.text, "the place of PS task 1 was taken by the other node of its pair");
	stranger = second;
	stranger.generation = 4;
	stranger.control = "127.0.0.1:3";
	CHECK(come(&cluster, &stranger, &err) == NULL);
	CHECK_HAS(err.text, "which cluster.ps[1] of PS task 0 does not have");
	layout = wait_layout(&cluster, 4);
	CHECK_UINT(layout->epoch, 4);
	free(layout);
	says_why_it_is_alone(&cluster, 202);
	cluster_fini(&cluster);
}

static bool wait_joined(struct node *node, bool joined)
{
	const uint64_t until_us = clock_us() + WAIT_US;
	bool is = !joined;

	while (is != joined && clock_us() < until_us) {
		pthread_mutex_lock(&node->control->lock);
		is = node->control->joined;
		pthread_mutex_unlock(&node->control->lock);
		usleep(NAP_US);
	}
	return is == joined;
}

/* The first of its addresses is nobody's; and as long as it does not serve, nobody is let in, or told anything. */
void the_node_that_is_ps_task_0_is_looked_for(void)
{
	struct config_address others[2] = { { "127.0.0.1", 0 }, { "", 0 } };
	struct star_error err = { 0 };
	struct cluster cluster;
	json_t *answer;

	cluster_init(&cluster, 2);
	others[0].port = cluster.ps[0].port;
	cluster.ps[0].port = free_port();
	cluster.nodes[0].config.standby_second = 1;
	for (unsigned i = 0; i < 2; i++)
		cluster.nodes[i].config.ps_others = others;
	CHECK(cluster_start(&cluster));
	CHECK(wait_joined(&cluster.nodes[1], true));
	answer = call(cluster.nodes[1].address, "layout", NULL, &err);
	CHECK(answer != NULL);
	json_decref(answer);
	CHECK_INT(create_table(&cluster.nodes[1], "words", 8, &err), 1);
	/* Its standby takes its place. */
	control_pair_waits(cluster.nodes[0].control, "a standby of the test's");
	CHECK(wait_joined(&cluster.nodes[1], false));
	CHECK(call(cluster.nodes[1].address, "layout", NULL, &err) == NULL);
	CHECK_HAS(err.text, "");
	CHECK(call(cluster.nodes[0].address, "heartbeat",
		   json_pack("{s:i, s:i, s:i}", "task", 1, "incarnation", 101, "objects_count", 1), &err) == NULL);
	CHECK_INT(err.code, -EHOSTDOWN);
	CHECK_STR(err.text, "a standby of the test's");
	CHECK_INT(control_pair_lead(cluster.nodes[0].control, 3, 7, false, &err), 0);
	CHECK(wait_joined(&cluster.nodes[1], true));
	free(wait_layout(&cluster, 8));
	CHECK(wait_epoch(&cluster.nodes[1], 8));
	pthread_mutex_lock(&cluster.nodes[1].control->lock);
	CHECK_UINT(cluster.nodes[1].control->leader_generation, 3);
	/* One that was paused since before answers in its name, which nobody listens to. */
	cluster.nodes[1].control->leader_generation = 4;
	pthread_mutex_unlock(&cluster.nodes[1].control->lock);
	CHECK(wait_joined(&cluster.nodes[1], false));
	cluster_fini(&cluster);
}

/* Whose join is under way just then, and knows nothing of it. */
void a_standby_that_comes_during_a_join_is_told(void)
{
	struct config_address others[2] = { { "", 0 }, { "127.0.0.1", 2 } };
	struct star_error err = { 0 };
	struct cluster cluster;
	struct layout *layout;

	cluster_init(&cluster, 2);
	for (unsigned i = 0; i < 2; i++)
		cluster.nodes[i].config.ps_others = others;
	cluster.nodes[1].loads_for_long = true; /* the reply to its join has come, and it takes the layout over */
	CHECK(cluster_start(&cluster));
	cluster.nodes[1].plane.incarnation = 101;
	CHECK_INT(control_pair_lead(cluster.nodes[1].control, 1, 0, false, &err), 0);
	CHECK_INT(control_pair_standby(cluster.nodes[1].control, "198.18.0.9", 5555, "127.0.0.1:2", &err), 0);
	end_hold_layout(&cluster.nodes[1]);
	layout = wait_layout(&cluster, 2);
	if (layout)
		CHECK_STR(layout->nodes[1].standby.control, "127.0.0.1:2");
	free(layout);
	CHECK(wait_joined(&cluster.nodes[1], true));
	cluster_fini(&cluster);
}

/* What its primary has written is its own when it takes that one's place. */
void a_standby_knows_which_checkpoints_are_its_own(void)
{
	static const char *const bad[][2] = { { "lineage", "0" },  { "lineage", "\"x\"" }, { "lineage", "-1" },
					      { "began", "true" }, { "since", "1" },	   { "began", NULL },
					      { "newest", NULL },  { "newest", "-1" } };
	struct star_error err = { 0 };
	struct cluster primary, standby;
	struct fake_plane *from, *to;
	json_t *catalogue;
	uint32_t epoch;

	cluster_init(&primary, 1);
	cluster_init(&standby, 1);
	CHECK(cluster_start(&primary) && cluster_start(&standby));
	from = &primary.nodes[0].plane;
	to = &standby.nodes[0].plane;
	to->own_lineage = (struct control_lineage){ .id = 7 };
	/* Without a directory there is nothing to go on with, and each keeps what it has. */
	catalogue = control_pair_catalogue(primary.nodes[0].control, CONTROL_PAIR_ALL);
	CHECK(!json_object_get(catalogue, "checkpoints"));
	CHECK_INT(control_pair_take(standby.nodes[0].control, catalogue, &epoch, &err), 0);
	CHECK_UINT(to->own_lineage.id, 7);
	json_decref(catalogue);
	from->own_lineage = (struct control_lineage){ .id = INT64_MAX, .began = 41, .newest = 43 };
	catalogue = control_pair_catalogue(primary.nodes[0].control, CONTROL_PAIR_ALL);
	CHECK_INT(control_pair_take(standby.nodes[0].control, catalogue, &epoch, &err), 0);
	CHECK_UINT(to->own_lineage.id, INT64_MAX);
	CHECK_UINT(to->own_lineage.began, 41);
	CHECK_UINT(to->own_lineage.newest, 43);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		json_t *wrong = json_deep_copy(catalogue), *checkpoints = json_object_get(wrong, "checkpoints");

		if (bad[i][1])
			json_object_set_new(checkpoints, bad[i][0], json_loads(bad[i][1], JSON_DECODE_ANY, NULL));
		else
			json_object_del(checkpoints, bad[i][0]);
		CHECK_INT(control_pair_take(standby.nodes[0].control, wrong, &epoch, &err), -EPROTO);
		CHECK_HAS(err.text, "the primary does not report which checkpoints are its own");
		CHECK_UINT(to->own_lineage.id, INT64_MAX);
		json_decref(wrong);
	}
	json_decref(catalogue);
	cluster_fini(&primary);
	cluster_fini(&standby);
}

/* What a standby of another task is given by its primary, and what it says when it takes its place. */
void a_standby_of_a_task_goes_on_where_its_primary_was(void)
{
	struct config_address others[2] = { { "", 0 }, { "127.0.0.1", 0 } };
	struct star_error err = { 0 };
	struct control_layout layout = { .epoch = 99, .cluster_reactors = 3, .first_reactor = 1 }, place = { 0 };
	uint32_t epoch = 0;
	struct cluster cluster, other;
	json_t *catalogue, *bad;

	cluster_init(&cluster, 2);
	cluster_init(&other, 2);
	others[1].port = other.ps[1].port;
	for (unsigned i = 0; i < 2; i++)
		cluster.nodes[i].config.ps_others = other.nodes[i].config.ps_others = others;
	CHECK(cluster_start(&cluster));
	CHECK_INT(create_table(&cluster.nodes[0], "words", 8, &err), 1);
	CHECK(wait_installed(&cluster.nodes[1], 1));
	/* A node of the same task elsewhere, as its standby. */
	CHECK(node_start(&other, 1, 301));
	control_pair_waits(other.nodes[1].control, "a standby");
	catalogue = control_pair_catalogue(cluster.nodes[1].control, CONTROL_PAIR_ALL);
	CHECK(!json_object_get(catalogue, "checkpoints")); /* it is PS task 0 that writes them */
	CHECK_INT(control_pair_take(other.nodes[1].control, catalogue, &epoch, &err), 0);
	control_pair_place(other.nodes[1].control, &place);
	CHECK_UINT(place.cluster_reactors, 3);
	CHECK_UINT(place.first_reactor, 1);
	CHECK(has_installed(&other.nodes[1], 1, "words"));
	/* A node that sends it a layout meanwhile takes it for its primary. */
	CHECK_INT(control_set_layout(other.nodes[1].control, &layout, &err), -EHOSTDOWN);
	for (unsigned i = 0; i < 3; i++) {
		bad = json_deep_copy(catalogue);
		if (i < 2) /* of 3 reactors it has two */
			json_object_set_new(json_object_get(bad, "cluster"), "first", json_integer(2 + (int)i));
		else
			json_object_del(bad, "cluster");
		CHECK_INT(control_pair_take(other.nodes[1].control, bad, &epoch, &err), -EPROTO);
		CHECK_HAS(err.text, "report its place in the cluster");
		json_decref(bad);
	}
	/* It takes the place of the one that PS task 0 knows. */
	other.ps[0] = cluster.ps[0];
	other.nodes[1].plane.incarnation = 101;
	node_stop(&cluster, 1);
	CHECK_INT(control_pair_lead(other.nodes[1].control, 2, 0, false, &err), 0);
	CHECK(wait_joined(&other.nodes[1], true));
	CHECK(wait_epoch(&other.nodes[1], 2));
	CHECK_UINT(other.nodes[1].plane.first_reactor, 1);
	json_decref(catalogue);
	cluster_fini(&other);
	cluster_fini(&cluster);
}
