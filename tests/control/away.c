/* SPDX-License-Identifier: BSD-3-Clause */
/* Which nodes are away, and what is refused then. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/control/cases.h"
#include "tests/control/harness.h"

enum { NAP_US = 10000, WAIT_US = 10000000 };

/* As `status` has it, once it is so or after three times as long as that takes. */
static bool wait_away(const struct cluster *cluster, unsigned task)
{
	const uint64_t until_us = clock_us() + 3 * WAIT_US;
	struct star_error err = { 0 };
	bool away = false;

	while (!away && clock_us() < until_us) {
		json_t *status = call(cluster->nodes[0].address, "status", NULL, &err);

		away = json_is_true(json_object_get(json_array_get(json_object_get(status, "nodes"), task), "away"));
		json_decref(status);
		usleep(NAP_US);
	}
	return away;
}

/* It has joined, and has its share of a checkpoint to load: then it stands still, and the kernel takes connections for
 * it. */
void a_node_that_stands_still_before_its_first_heartbeat_is_away(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct star_error err = { 0 };
	struct cluster cluster;
	json_t *answer;

	cluster_init(&cluster, 2);
	strcpy(cluster.nodes[0].config.checkpoint_directory, "/nowhere");
	cluster.nodes[0].config.checkpoint_restore = CONFIG_RESTORE_LATEST;
	cluster.nodes[0].begins_with = 7;
	CHECK(node_start(&cluster, 0, 100));
	at.sin_port = htons((uint16_t)cluster.ps[1].port);
	CHECK_INT(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	CHECK_INT(listen(fd, 128), 0); /* more than are asked meanwhile */
	answer = call(cluster.nodes[0].address, "join",
		      json_pack("{s:i, s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:[]}", "task", 1, "incarnation", 9,
				"data_host", cluster.endpoints[1].data.host, "data_port",
				(int)cluster.endpoints[1].data.port, "reactors", 2, "partitions",
				(int)cluster.nodes[0].config.partitions, "ps_count", 2, "request_max", 1 << 20, "epoch",
				0, "objects_count", 0, "objects"),
		      &err);
	if (!CHECK(answer != NULL))
		printf("# %s\n", err.text);
	CHECK(json_is_true(json_object_get(answer, "joined")));
	json_decref(answer);
	free(wait_layout(&cluster, 1));
	CHECK(wait_away(&cluster, 1));
	answer = call(cluster.nodes[0].address, "health", NULL, &err);
	CHECK(json_array_size(json_object_get(answer, "problems")) == 1);
	CHECK_HAS(json_string_value(json_array_get(json_object_get(answer, "problems"), 0)),
		  "is away: nothing was heard");
	json_decref(answer);
	/* A create is answered at once: it does not wait for that node, nor keep others waiting. */
	CHECK(!call(cluster.nodes[0].address, "create", table_json("words", 8), &err));
	CHECK_INT(err.code, -EHOSTUNREACH);
	CHECK_HAS(err.text, "\"words\" is not yet on PS task 1: nothing was heard of it for");
	close(fd);
	cluster_fini(&cluster);
}

/* Its heartbeats wait for what it loads, and it answers. */
void a_node_that_loads_for_long_is_not_away(void)
{
	struct star_error err = { 0 };
	struct cluster cluster;
	json_int_t silent_ms = 0;
	bool away = false;

	cluster_init(&cluster, 2);
	for (unsigned i = 0; i < 2; i++) {
		strcpy(cluster.nodes[i].config.checkpoint_directory, "/nowhere");
		cluster.nodes[i].config.checkpoint_restore = CONFIG_RESTORE_LATEST;
	}
	cluster.nodes[0].begins_with = 7;
	cluster.nodes[1].loads_for_long = true;
	cluster_start(&cluster);
	while (silent_ms < 8000 && !away) {
		json_t *status = call(cluster.nodes[0].address, "status", NULL, &err);
		const json_t *node = json_array_get(json_object_get(status, "nodes"), 1);
		const json_int_t now_ms = json_integer_value(json_object_get(node, "silent_ms"));

		if (!CHECK(now_ms >= silent_ms))
			break;
		silent_ms = now_ms;
		away = json_is_true(json_object_get(node, "away"));
		json_decref(status);
		usleep(10 * NAP_US);
	}
	CHECK(!away);
	end_hold_layout(&cluster.nodes[1]);
	CHECK(wait_epoch(&cluster.nodes[1], 1));
	cluster_fini(&cluster);
}

/* Calls that delete are refused by the same rule by which a node is reported as away, before anything is deleted. */
void nothing_is_deleted_while_a_node_is_away(void)
{
	struct star_error err = { 0 };
	struct cluster cluster;

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	json_decref(call(cluster.nodes[0].address, "create", table_json("words", 8), &err));
	node_stop(&cluster, 1);
	CHECK(wait_away(&cluster, 1));
	CHECK(!call(cluster.nodes[0].address, "empty", json_pack("{s:s}", "name", "words"), &err));
	CHECK_INT(err.code, -EHOSTUNREACH);
	CHECK_HAS(err.text, "\"words\" cannot be emptied: nothing was heard of PS task 1 for ");
	CHECK(!call(cluster.nodes[0].address, "table_drop", json_pack("{s:s}", "name", "words"), &err));
	CHECK_INT(err.code, -EHOSTUNREACH);
	CHECK_HAS(err.text, "\"words\" cannot be dropped: nothing was heard of PS task 1 for ");
	CHECK_UINT(cluster.nodes[0].plane.empty_begun, 0);
	CHECK_UINT(cluster.nodes[0].plane.forgotten, 0);
	CHECK_UINT(cluster.nodes[0].plane.dropped_written, 0);
	cluster_fini(&cluster);
}
