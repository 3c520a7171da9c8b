/* SPDX-License-Identifier: BSD-3-Clause */
/* What PS task 0 has the nodes do about checkpoints. */
#include "tests/control/cases.h"
#include "tests/control/harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
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

static uint64_t figure(struct node *node, const uint64_t *at)
{
	uint64_t value;

	pthread_mutex_lock(&node->plane.lock);
	value = *at;
	pthread_mutex_unlock(&node->plane.lock);
	return value;
}

static unsigned begun(struct node *node)
{
	unsigned value;

	pthread_mutex_lock(&node->plane.lock);
	value = node->plane.begun;
	pthread_mutex_unlock(&node->plane.lock);
	return value;
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
	CHECK_UINT(begun(&cluster.nodes[0]) + begun(&cluster.nodes[1]), 0);
	/* Nor does it wait for ever when it is to end. */
	node_stop(&cluster, 0);
	node_start(&cluster, 0, 200);
	set_loading(&cluster.nodes[1], false);
	free(wait_layout(&cluster, 2));
	json_decref(call(cluster.nodes[1].address, "checkpoint_save", NULL, &err));
	status = settled(&cluster);
	CHECK_UINT(json_integer_value(json_object_get(status, "saved")), 1);
	json_decref(status);
	CHECK_UINT(begun(&cluster.nodes[0]), 1);
	CHECK_UINT(begun(&cluster.nodes[1]), 1);
	CHECK_UINT(cluster.nodes[0].plane.committed, 1);
	CHECK_UINT(cluster.nodes[0].plane.abandoned, 0);
	cluster_fini(&cluster);
}

/* Asks for it, and waits for what comes of it. */
static void refuse_to_go_back(const struct cluster *cluster, const char *why)
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
		CHECK_UINT(figure(&cluster->nodes[i], &cluster->nodes[i].plane.goes_back), id);
}

static void is_refused(const char *address, json_t *params, const char *why)
{
	struct star_error err = { 0 };
	json_t *result = call(address, "checkpoint_restore", params, &err);

	CHECK(!result);
	CHECK_HAS(err.text, why);
	json_decref(result);
}

void all_nodes_go_back_or_none(void)
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
	refuse_to_go_back(&cluster, "block 5 is damaged");
	set_fail_check(&cluster.nodes[0], 0);
	node_stop(&cluster, 2);
	refuse_to_go_back(&cluster, "PS task 2");
	check_gone_back(&cluster, 0);
	node_start(&cluster, 2, 300);
	free(wait_layout(&cluster, 2));
	asked = call(cluster.nodes[0].config.control_socket, "checkpoint_restore", json_pack("{s:i}", "id", 5), &err);
	CHECK(asked);
	json_decref(asked);
	for (until_us = clock_us() + WAIT_US; !figure(&cluster.nodes[0], &cluster.nodes[0].plane.goes_back);)
		if (!CHECK(clock_us() < until_us))
			break;
		else
			usleep(NAP_US);
	check_gone_back(&cluster, 5);
	/* From now on nobody is let in until PS task 0 has begun anew as well. */
	CHECK(!call(cluster.nodes[0].address, "layout", NULL, &err));
	CHECK_HAS(err.text, "waiting for all nodes to go back to checkpoint 5");
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
