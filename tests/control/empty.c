/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables are emptied on all nodes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "app/starctl/starctl.h"
#include "tests/control/cases.h"
#include "tests/control/harness.h"
#include "tests/control/starctl.h"

enum { NAP_US = 200000, WAIT_US = 10000000 };

static json_t *ask_empty(struct node *node, const char *name, json_t *ticket, struct star_error *err)
{
	json_t *params = json_pack("{s:s}", "name", name);

	if (ticket)
		json_object_set(params, "ticket", ticket);
	return call(node->address, "empty", params, err);
}

void tables_are_emptied_on_every_node(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *begun, *result;
	unsigned looks = 0;

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	json_decref(call(cluster.nodes[0].address, "create", table_json("words", 8), &err));
	CHECK(ask_empty(&cluster.nodes[0], "word", NULL, &err) == NULL);
	CHECK_INT(err.code, -ENOENT);
	CHECK_HAS(err.text, "there is no table or variable \"word\"; did you mean \"words\"?");
	CHECK(call(cluster.nodes[0].address, "empty", NULL, &err) == NULL);
	CHECK_HAS(err.text, "\"name\" is missing");
	result = json_integer(0);
	CHECK(ask_empty(&cluster.nodes[0], "words", result, &err) == NULL);
	json_decref(result);
	CHECK_HAS(err.text, "\"ticket\" is 0");
	/* Whichever node is asked: it is passed on to PS task 0. */
	begun = ask_empty(&cluster.nodes[1], "words", NULL, &err);
	CHECK_INT(json_integer_value(json_object_get(begun, "nodes")), 2);
	CHECK_INT(json_integer_value(json_object_get(begun, "left")), 6);
	for (json_int_t left = 6; left && looks < 10; looks++) {
		result = ask_empty(&cluster.nodes[looks % 2], "words", json_object_get(begun, "ticket"), &err);
		if (!CHECK(result != NULL))
			break;
		left = json_integer_value(json_object_get(result, "left"));
		json_decref(result);
	}
	CHECK_UINT(looks, 3);
	for (unsigned i = 0; i < 2; i++) {
		CHECK_UINT(cluster.nodes[i].plane.emptied, 1);
		CHECK_UINT(cluster.nodes[i].plane.empty_begun, 1);
	}
	set_fail(&cluster.nodes[1], -ETIMEDOUT);
	CHECK(ask_empty(&cluster.nodes[0], "words", NULL, &err) == NULL);
	CHECK_INT(err.code, -ETIMEDOUT);
	CHECK_HAS(err.text,
		  "\"words\" is being emptied on PS task 0, and not on PS task 1 and those after it: reactor 0 "
		  "does not answer");
	set_fail(&cluster.nodes[1], 0);
	/* A node that was restarted meanwhile may have loaded old rows. */
	node_stop(&cluster, 1);
	CHECK(node_start(&cluster, 1, 77));
	free(wait_layout(&cluster, 2));
	CHECK(ask_empty(&cluster.nodes[0], "words", json_object_get(begun, "ticket"), &err) == NULL);
	CHECK_INT(err.code, -ESTALE);
	CHECK_HAS(err.text, "a PS task was restarted while it was being emptied");
	json_decref(begun);
	CHECK(!cluster.nodes[0].plane.collided && !cluster.nodes[1].plane.collided);
	cluster_fini(&cluster);
}

/* It was restarted, and cannot reach PS task 0, which has not noticed: it has no tables, and no client may believe
 * that they are gone. */
void a_node_without_its_tables_is_told(void)
{
	struct config_address ps[2];
	struct cluster cluster;
	struct star_error err = { 0 };

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	json_decref(call(cluster.nodes[0].address, "create", table_json("words", 8), &err));
	node_stop(&cluster, 1);
	memcpy(ps, cluster.ps, sizeof(ps));
	ps[0].port = free_port();
	cluster.nodes[1].config.ps = ps;
	CHECK(node_start(&cluster, 1, 77));
	CHECK(ask_empty(&cluster.nodes[0], "words", NULL, &err) == NULL);
	CHECK_INT(err.code, -ESTALE);
	CHECK_HAS(err.text, "not on PS task 1 and those after it: there is no table or variable \"words\"");
	cluster_fini(&cluster);
}

static json_t *by_handle(json_int_t generation)
{
	return json_pack("{s:s, s:i, s:I}", "name", "words", "id", 1, "generation", generation);
}

/* Otherwise a client with a handle of a dropped table would delete the rows of another, and read them as its own. */
void a_later_table_of_a_name_is_not_meant(void)
{
	static const char another[] = "\"words\" is another table by now: the one that is meant was dropped before";
	struct cluster cluster;
	struct star_error err = { 0 };
	struct node *node;
	json_t *begun, *params;

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	node = &cluster.nodes[0];
	json_decref(call(node->address, "create", table_json("words", 8), &err));
	begun = call(node->address, "empty", by_handle(0), &err);
	CHECK_INT(json_integer_value(json_object_get(begun, "left")), 6);
	json_decref(call(node->address, "table_drop", json_pack("{s:s}", "name", "words"), &err));
	json_decref(call(node->address, "create", table_json("words", 8), &err));
	CHECK(call(node->address, "empty", by_handle(0), &err) == NULL);
	CHECK_INT(err.code, -ENOENT);
	CHECK_HAS(err.text, another);
	CHECK_UINT(node->plane.empty_begun, 1);
	/* What was begun by the name alone does not go on with the other table. */
	CHECK(ask_empty(node, "words", json_object_get(begun, "ticket"), &err) == NULL);
	CHECK_INT(err.code, -ESTALE);
	CHECK_HAS(err.text, "or it was dropped, and made again. Empty it again");
	json_decref(begun);
	for (unsigned i = 0; i < 2; i++) {
		params = by_handle(0);
		json_object_set_new(params, "reactor", json_integer(0));
		CHECK(call(cluster.nodes[i].address, "row_keys", params, &err) == NULL);
		CHECK_INT(err.code, -ENOENT);
		CHECK_HAS(err.text, another);
		params = by_handle(0);
		json_object_set_new(params, "keys", json_pack("[i]", 7));
		CHECK(call(cluster.nodes[i].address, "rows", params, &err) == NULL);
		CHECK_INT(err.code, -ENOENT);
		CHECK_HAS(err.text, another);
	}
	CHECK(call(node->address, "empty", json_pack("{s:s, s:i}", "name", "words", "id", 1), &err) == NULL);
	CHECK_HAS(err.text, "\"generation\" is missing");
	begun = call(node->address, "empty", by_handle(1), &err);
	CHECK_INT(json_integer_value(json_object_get(begun, "left")), 6);
	CHECK_UINT(node->plane.empty_begun, 2);
	json_decref(begun);
	cluster_fini(&cluster);
}

/* It is refused before any node begins: otherwise the caller would wait for the silent node, and other nodes' rows
 * would be gone meanwhile. */
void a_silent_node_keeps_tables_as_they_are(void)
{
	const uint64_t until_us = clock_us() + 3 * WAIT_US;
	struct cluster cluster;
	struct star_error err = { 0 };
	bool refused = false;
	unsigned before = 0;

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	json_decref(call(cluster.nodes[0].address, "create", table_json("words", 8), &err));
	node_stop(&cluster, 1);
	while (!refused && CHECK(clock_us() < until_us)) {
		usleep(NAP_US);
		before = cluster.nodes[0].plane.empty_begun;
		CHECK(ask_empty(&cluster.nodes[0], "words", NULL, &err) == NULL);
		refused = err.code == -EHOSTUNREACH && strstr(err.text, "nothing was heard of PS task 1 for");
	}
	CHECK_HAS(err.text, "\"words\" cannot be emptied");
	CHECK_HAS(err.text, "Try again when that is back");
	CHECK_UINT(cluster.nodes[0].plane.empty_begun, before);
	CHECK(node_start(&cluster, 1, 77));
	free(wait_layout(&cluster, 2));
	json_decref(ask_empty(&cluster.nodes[0], "words", NULL, &err));
	CHECK_UINT(cluster.nodes[1].plane.empty_begun, 1);
	cluster_fini(&cluster);
}

static void set_fail_commit(struct node *node, int fail)
{
	pthread_mutex_lock(&node->plane.lock);
	node->plane.fail_commit = fail;
	pthread_mutex_unlock(&node->plane.lock);
}

/* Older ones have its rows. */
void a_table_that_is_empty_in_no_checkpoint_is_told(void)
{
	struct cluster cluster;
	struct outcome o;

	cluster_init(&cluster, 1);
	strcpy(cluster.nodes[0].config.checkpoint_directory, "/nowhere");
	cluster_start(&cluster);
	o = starctl(cluster.folder, "tables create emb dim=16", "");
	CHECK_INT(o.status, STARCTL_OK);
	release(&o);
	set_fail_commit(&cluster.nodes[0], -ENOSPC);
	o = starctl(cluster.folder, "tables empty emb --yes", "");
	CHECK_INT(o.status, STARCTL_FAILED);
	CHECK_STR(o.out, "");
	CHECK_HAS(o.errors, "\"emb\" is empty on all nodes, but a restart may bring its rows back: there is no new "
			    "checkpoint: the disk is full");
	CHECK_UINT(cluster.nodes[0].plane.emptied, 1);
	release(&o);
	set_fail_commit(&cluster.nodes[0], 0);
	o = starctl(cluster.folder, "tables empty emb --yes", "");
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_STR(o.out, "\"emb\" is empty on all nodes\n");
	CHECK_UINT(PLANE(&cluster.nodes[0], committed), 1); /* it was waited for, too */
	release(&o);
	cluster_fini(&cluster);
}

void starctl_empties_tables(void)
{
	struct cluster cluster;
	struct outcome o;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	o = starctl(cluster.folder, "tables create emb dim=16", "");
	CHECK_INT(o.status, STARCTL_OK);
	release(&o);
	o = starctl(cluster.folder, "tables empty emb --yes", "");
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_STR(o.out, "\"emb\" is empty on all nodes\n");
	CHECK_UINT(cluster.nodes[0].plane.emptied, 1);
	CHECK_UINT(cluster.nodes[0].plane.empty_left, 0); /* it was waited for */
	release(&o);
	o = starctl(cluster.folder, "tables empty ebm --yes", "");
	CHECK_INT(o.status, STARCTL_FAILED);
	CHECK_HAS(o.errors, "there is no table or variable \"ebm\"; did you mean \"emb\"?");
	release(&o);
	o = starctl(cluster.folder, "tables show emb --yes", "");
	CHECK_INT(o.status, STARCTL_USAGE);
	CHECK_HAS(o.errors, "\"tables show\" does not take --yes");
	release(&o);
	cluster_fini(&cluster);
}
