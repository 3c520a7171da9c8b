/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes that come back with another incarnation. */
#include "tests/control/cases.h"
#include "tests/control/harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "jsonrpc/object_json.h"

void a_restarted_node_gets_the_catalogue_and_all_a_new_layout(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	struct layout *layout;

	cluster_init(&cluster, 3);
	cluster_start(&cluster);
	CHECK_INT(create_table(&cluster.nodes[0], "words", 8, &err), 1);
	CHECK_INT(create_table(&cluster.nodes[0], "contexts", 8, &err), 2);
	for (uint32_t round = 2; round < 5; round++) {
		node_stop(&cluster, 1);
		node_start(&cluster, 1, 1000 + round);
		layout = wait_layout(&cluster, round);
		if (!layout)
			break;
		CHECK_UINT(layout->epoch, round);
		CHECK_UINT(layout->nodes[1].incarnation, 1000 + round);
		CHECK_UINT(layout->nodes[2].incarnation, 102);
		free(layout);
		/* Workers see the layout only when the node has the catalogue again. */
		CHECK(has_installed(&cluster.nodes[1], 1, "words"));
		CHECK(has_installed(&cluster.nodes[1], 2, "contexts"));
		for (unsigned i = 0; i < 3; i++)
			CHECK(wait_epoch(&cluster.nodes[i], round));
	}
	CHECK_UINT(PLANE(&cluster.nodes[0], installed_count), 2);
	CHECK_UINT(PLANE(&cluster.nodes[2], installed_count), 2);
	cluster_fini(&cluster);
}

/* Until there is no layout for this reason. */
static void wait_refused(const struct cluster *cluster, const char *why)
{
	const uint64_t until_us = clock_us() + 10000000;
	struct star_error err = { 0 };

	do {
		json_decref(call(cluster->nodes[0].address, "layout", NULL, &err));
		usleep(10000);
	} while (!strstr(err.text, why) && clock_us() < until_us);
	CHECK_HAS(err.text, why);
}

/* The others hold their rows by the place that they had, and load none: it is refused, and says what to do. */
void a_node_that_comes_back_with_other_reactors_is_refused(void)
{
	struct cluster cluster;
	struct layout *layout;

	cluster_init(&cluster, 3);
	cluster_start(&cluster);
	CHECK(wait_epoch(&cluster.nodes[2], 1));
	CHECK_UINT(cluster.nodes[2].plane.first_reactor, 3);
	node_stop(&cluster, 1);
	cluster.nodes[1].config.reactors = 16;
	node_start(&cluster, 1, 55);
	wait_refused(&cluster, "PS task 1 has 16 reactors and had 2");
	wait_refused(&cluster, "cores.number = 2");
	CHECK_UINT(cluster.nodes[2].plane.layouts, 1);
	/* As many as before are all right; and so are others, when nobody holds rows any more. */
	node_stop(&cluster, 1);
	cluster.nodes[1].config.reactors = 2;
	node_start(&cluster, 1, 56);
	free(wait_layout(&cluster, 2));
	for (unsigned i = 0; i < 3; i++)
		node_stop(&cluster, i);
	cluster.nodes[1].config.reactors = 16;
	for (unsigned i = 0; i < 3; i++)
		node_start(&cluster, i, 60 + i);
	layout = wait_layout(&cluster, 1);
	CHECK_UINT(layout ? layout->reactors : 0, 20);
	free(layout);
	cluster_fini(&cluster);
}

/* What PS task 0 has had is known to the others. */
void a_task_0_that_comes_back_with_other_reactors_is_refused(void)
{
	struct cluster cluster;

	cluster_init(&cluster, 3);
	cluster_start(&cluster);
	CHECK(wait_epoch(&cluster.nodes[1], 1) && wait_epoch(&cluster.nodes[2], 1));
	node_stop(&cluster, 0);
	cluster.nodes[0].config.reactors = 2;
	node_start(&cluster, 0, 55);
	wait_refused(
		&cluster,
		"the cluster has 7 reactors, 2 of them before those of PS task 1, which holds its rows as one of 6");
	CHECK_UINT(cluster.nodes[1].plane.layouts, 1);
	node_stop(&cluster, 0);
	cluster.nodes[0].config.reactors = 1;
	node_start(&cluster, 0, 56);
	free(wait_layout(&cluster, 2));
	cluster_fini(&cluster);
}

/* Where two nodes exchange reactors, nobody else's place changes. */
void restarted_nodes_may_exchange_reactors(void)
{
	struct cluster cluster;
	struct layout *layout;

	cluster_init(&cluster, 3);
	cluster_start(&cluster);
	CHECK(wait_epoch(&cluster.nodes[1], 1) && wait_epoch(&cluster.nodes[2], 1));
	node_stop(&cluster, 1);
	node_stop(&cluster, 2);
	cluster.nodes[1].config.reactors = 3;
	cluster.nodes[2].config.reactors = 2;
	node_start(&cluster, 1, 55);
	node_start(&cluster, 2, 56);
	layout = wait_layout(&cluster, 2);
	CHECK_UINT(layout ? layout->reactors : 0, 6);
	free(layout);
	cluster_fini(&cluster);
}

/* The others restore the catalogue of a PS task 0 that was restarted: ids and definitions outlive it. */
void a_restarted_task_0_gets_its_catalogue_from_the_others(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	struct layout *layout;
	json_t *tables;

	cluster_init(&cluster, 3);
	cluster_start(&cluster);
	CHECK_INT(create_table(&cluster.nodes[0], "words", 8, &err), 1);
	CHECK_INT(create_table(&cluster.nodes[0], "contexts", 8, &err), 2);
	node_stop(&cluster, 0);
	node_start(&cluster, 0, 4711);
	layout = wait_layout(&cluster, 2);
	if (layout) {
		/* Epochs go on where the others have been: no two layouts of a cluster share one. */
		CHECK_UINT(layout->epoch, 2);
		CHECK_UINT(layout->nodes[0].incarnation, 4711);
		CHECK_UINT(layout->nodes[1].incarnation, 101);
	}
	free(layout);
	CHECK(has_installed(&cluster.nodes[0], 1, "words"));
	CHECK(has_installed(&cluster.nodes[0], 2, "contexts"));
	CHECK_INT(create_table(&cluster.nodes[0], "more", 8, &err), 3);
	CHECK_INT(create_table(&cluster.nodes[0], "words", 9, &err), -EEXIST);
	CHECK_INT(create_table(&cluster.nodes[0], "words", 8, &err), 1);
	for (unsigned i = 0; i < 3; i++) {
		tables = call(cluster.nodes[i].address, "tables", NULL, &err);
		CHECK_UINT(json_array_size(tables), 3);
		json_decref(tables);
		CHECK(wait_epoch(&cluster.nodes[i], 2));
		CHECK_UINT(PLANE(&cluster.nodes[i], installed_count), 3);
	}
	cluster_fini(&cluster);
}

/* The one that was restarted joins first, with nothing; then another one brings the catalogue. */
void who_keeps_the_catalogue_shares_it(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };

	cluster_init(&cluster, 3);
	cluster_start(&cluster);
	CHECK_INT(create_table(&cluster.nodes[0], "words", 8, &err), 1);
	CHECK_INT(create_table(&cluster.nodes[0], "contexts", 8, &err), 2);
	CHECK(wait_epoch(&cluster.nodes[2], 1));
	node_stop(&cluster, 0);
	node_stop(&cluster, 1);
	node_start(&cluster, 0, 200);
	node_start(&cluster, 1, 201);
	free(wait_layout(&cluster, 2));
	for (unsigned i = 0; i < 3; i++) {
		CHECK(has_installed(&cluster.nodes[i], 1, "words"));
		CHECK(has_installed(&cluster.nodes[i], 2, "contexts"));
		CHECK_UINT(PLANE(&cluster.nodes[i], installed_count), 2);
	}
	cluster_fini(&cluster);
}

void heartbeats_are_answered_while_the_executor_is_busy(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *request = json_pack("{s:s, s:i, s:s, s:o}", "jsonrpc", "2.0", "id", 1, "method", "create", "params",
				    table_json("words", 8));
	char *line = json_dumps(request, JSON_COMPACT);
	json_t *reply;
	int fd;

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	set_hold(&cluster.nodes[0], true);
	fd = raw_connect(cluster.nodes[0].address);
	raw_send(fd, line, strlen(line));
	raw_send(fd, "\n", 1);
	CHECK(wait_holding(&cluster.nodes[0], 1));
	reply = call(cluster.nodes[0].address, "heartbeat",
		     json_pack("{s:i, s:i, s:i}", "task", 1, "incarnation", 101, "objects_count", 0), &err);
	CHECK(json_is_true(json_object_get(reply, "joined")));
	json_decref(reply);
	reply = call(cluster.nodes[0].address, "heartbeat",
		     json_pack("{s:i, s:i, s:i}", "task", 1, "incarnation", 999, "objects_count", 0), &err);
	CHECK(json_is_false(json_object_get(reply, "joined")));
	json_decref(reply);
	CHECK(call(cluster.nodes[0].address, "heartbeat",
		   json_pack("{s:i, s:i, s:i}", "task", 7, "incarnation", 1, "objects_count", 0), &err) == NULL);
	CHECK_INT(err.code, -ENOENT);
	set_hold(&cluster.nodes[0], false);
	free(raw_line(fd));
	close(fd);
	free(line);
	json_decref(request);
	cluster_fini(&cluster);
}

void all_restarted_start_afresh(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *tables;

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	CHECK_INT(create_table(&cluster.nodes[0], "words", 8, &err), 1);
	node_stop(&cluster, 0);
	node_stop(&cluster, 1);
	node_start(&cluster, 1, 201);
	node_start(&cluster, 0, 200);
	free(wait_layout(&cluster, 1));
	tables = call(cluster.nodes[0].address, "tables", NULL, &err);
	CHECK_UINT(json_array_size(tables), 0);
	json_decref(tables);
	CHECK_INT(create_table(&cluster.nodes[0], "others", 8, &err), 1);
	cluster_fini(&cluster);
}

/* Reactors that do not take the layout: nobody is told of it, and it is tried again. */
void a_layout_that_is_refused_is_tried_again(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	struct fake_plane *plane = &cluster.nodes[0].plane;

	cluster_init(&cluster, 2);
	node_start(&cluster, 0, 1);
	pthread_mutex_lock(&plane->lock);
	plane->fail_layout = -EIO;
	pthread_mutex_unlock(&plane->lock);
	node_start(&cluster, 1, 2);
	for (int i = 0; i < 20; i++) {
		CHECK(call(cluster.nodes[0].address, "layout", NULL, &err) == NULL);
		CHECK_INT(err.code, -EAGAIN);
		usleep(10000);
	}
	pthread_mutex_lock(&plane->lock);
	plane->fail_layout = 0;
	pthread_mutex_unlock(&plane->lock);
	free(wait_layout(&cluster, 1));
	CHECK(wait_epoch(&cluster.nodes[1], 1));
	CHECK_UINT(cluster.nodes[1].plane.layouts, 1);
	cluster_fini(&cluster);
}

/* A node that waits for a reply of PS task 0 ends without waiting on. */
void a_node_stops_quickly_while_task_0_is_mute(void)
{
	struct cluster cluster;
	uint64_t started_us;

	cluster_init(&cluster, 2);
	node_start(&cluster, 0, 1);
	set_hold(&cluster.nodes[0], true);
	node_start(&cluster, 1, 2);
	free(wait_layout(&cluster, 1));
	{
		json_t *create_words = json_pack("{s:s, s:i, s:s, s:o}", "jsonrpc", "2.0", "id", 1, "method", "create",
						 "params", table_json("words", 8));
		char *line = json_dumps(create_words, JSON_COMPACT);
		int fd = raw_connect(cluster.nodes[1].address);

		/* Passed on to PS task 0, whose executor is held up in its data plane. */
		raw_send(fd, line, strlen(line));
		raw_send(fd, "\n", 1);
		CHECK(wait_holding(&cluster.nodes[0], 1));
		started_us = clock_us();
		node_stop(&cluster, 1);
		CHECK(clock_us() - started_us < 5000000);
		close(fd);
		free(line);
		json_decref(create_words);
	}
	set_hold(&cluster.nodes[0], false);
	cluster_fini(&cluster);
}

static int push_layout(const struct node *node, uint32_t epoch, uint32_t incarnation)
{
	struct star_error err = { 0 };
	json_t *layout = json_pack("{s:i, s:i, s:i, s:i}", "epoch", (int)epoch, "cluster_reactors", 3, "first_reactor",
				   1, "incarnation", (int)incarnation);
	json_t *result = call(node->address, "install", json_pack("{s:o}", "layout", layout), &err);
	const int rc = result ? 0 : err.code;

	json_decref(result);
	return rc;
}

/* PS task 0 may push a layout while the node is starting again: without the catalogue its checkpoint could not be
 * loaded, and the node would end. (Seen in chaos, seed 11.) */
void layouts_come_after_the_catalogue_and_to_whom_they_are_for(void)
{
	struct cluster cluster;
	struct node *node = &cluster.nodes[1];

	cluster_init(&cluster, 2);
	CHECK(node_start(&cluster, 1, 7));
	CHECK_INT(push_layout(node, 3, 7), -EAGAIN);
	CHECK_UINT(node->plane.layouts, 0);
	CHECK(node_start(&cluster, 0, 8));
	CHECK(wait_epoch(node, 1));
	free(wait_layout(&cluster, 1));
	CHECK_INT(push_layout(node, 3, 6), -ESTALE);
	CHECK_UINT(node->plane.epoch, 1);
	CHECK_INT(push_layout(node, 3, 7), 0);
	CHECK_UINT(node->plane.epoch, 3);
	cluster_fini(&cluster);
}
