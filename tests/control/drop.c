/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables are dropped on all nodes; a node that is not reached does it when it joins again, and no node brings them
 * back. */
#include <errno.h>
#include <stdlib.h>

#include "app/starctl/starctl.h"
#include "tests/control/cases.h"
#include "tests/control/harness.h"
#include "tests/control/starctl.h"

static json_t *ask_drop(struct node *node, const char *name, struct star_error *err)
{
	return call(node->address, "table_drop", json_pack("{s:s}", "name", name), err);
}

static json_int_t create(struct node *node, const char *name, unsigned dim, json_int_t *generation)
{
	struct star_error err = { 0 };
	json_t *json = call(node->address, "create", table_json(name, dim), &err);
	const json_int_t id = json_integer_value(json_object_get(json, "id"));

	if (!CHECK(json != NULL))
		printf("# %s\n", err.text);
	*generation = json_integer_value(json_object_get(json, "generation"));
	json_decref(json);
	return id;
}

void a_table_is_dropped_on_all_nodes(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	json_int_t id, first, second;
	json_t *result;

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	id = create(&cluster.nodes[0], "words", 8, &first);
	CHECK(ask_drop(&cluster.nodes[0], "word", &err) == NULL);
	CHECK_INT(err.code, -ENOENT);
	CHECK_HAS(err.text, "did you mean \"words\"?");
	/* What cannot be remembered is not begun. */
	cluster.nodes[0].plane.fail_dropped = -ENOSPC;
	CHECK(ask_drop(&cluster.nodes[0], "words", &err) == NULL);
	CHECK_INT(err.code, -ENOSPC);
	CHECK_UINT(PLANE(&cluster.nodes[0], installed_count), 1);
	cluster.nodes[0].plane.fail_dropped = 0;
	/* Another node passes it on. */
	result = ask_drop(&cluster.nodes[1], "words", &err);
	CHECK_INT(json_integer_value(json_object_get(result, "nodes")), 2);
	CHECK_UINT(json_array_size(json_object_get(result, "later")), 0);
	json_decref(result);
	for (unsigned i = 0; i < 2; i++) {
		CHECK_UINT(PLANE(&cluster.nodes[i], installed_count), 0);
		CHECK_UINT(cluster.nodes[i].plane.forgotten, 1);
	}
	CHECK_UINT(cluster.nodes[0].plane.dropped[id], first + 1);
	CHECK(ask_drop(&cluster.nodes[0], "words", &err) == NULL);
	CHECK_INT(err.code, -ENOENT);
	/* The name is free at once, also for another shape; the id has its next generation. */
	CHECK_INT(create(&cluster.nodes[0], "words", 3, &second), id);
	CHECK_INT(second, first + 1);
	for (unsigned i = 0; i < 2; i++)
		CHECK_UINT(cluster.nodes[i].plane.installed[0].generation, second);
	/* By a handle of the former table. */
	CHECK(call(cluster.nodes[0].address, "table_drop",
		   json_pack("{s:s, s:I, s:I}", "name", "words", "id", id, "generation", first), &err) == NULL);
	CHECK_INT(err.code, -ENOENT);
	CHECK_HAS(err.text, "\"words\" is another table by now");
	CHECK(call(cluster.nodes[0].address, "table_drop", json_pack("{s:s, s:I}", "name", "words", "id", id), &err) ==
	      NULL);
	CHECK_HAS(err.text, "\"generation\" is missing");
	result = call(cluster.nodes[0].address, "table_drop",
		      json_pack("{s:s, s:I, s:I}", "name", "words", "id", id, "generation", second), &err);
	CHECK(result != NULL);
	json_decref(result);
	CHECK(!cluster.nodes[0].plane.collided && !cluster.nodes[1].plane.collided);
	cluster_fini(&cluster);
}

/* PS task 1 is gone before it is heard to be away: it is dropped elsewhere, and what comes back has nothing of it. */
void a_node_that_is_away_drops_when_it_joins_again(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	json_int_t generation;
	json_t *result;

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	create(&cluster.nodes[0], "words", 8, &generation);
	create(&cluster.nodes[0], "contexts", 8, &generation);
	node_stop(&cluster, 1);
	result = ask_drop(&cluster.nodes[0], "words", &err);
	CHECK_INT(json_integer_value(json_array_get(json_object_get(result, "later"), 0)), 1);
	json_decref(result);
	CHECK(node_start(&cluster, 1, 77));
	free(wait_layout(&cluster, 2));
	CHECK_UINT(PLANE(&cluster.nodes[1], installed_count), 1);
	CHECK_STR(cluster.nodes[1].plane.installed[0].name, "contexts");
	cluster_fini(&cluster);
}

void starctl_drops_tables(void)
{
	struct cluster cluster;
	struct outcome o;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	o = starctl(cluster.folder, "tables create emb dim=16", "");
	release(&o);
	o = starctl(cluster.folder, "tables create dense shape=4x4", "");
	release(&o);
	o = starctl(cluster.folder, "tables drop emb ebm --yes", "");
	CHECK_INT(o.status, STARCTL_FAILED);
	CHECK_HAS(o.errors, "there is no table or variable \"ebm\"; did you mean \"emb\"?");
	release(&o);
	o = starctl(cluster.folder, "tables drop emb emb --yes", "");
	CHECK_INT(o.status, STARCTL_USAGE);
	CHECK_HAS(o.errors, "\"emb\" is named twice");
	release(&o);
	CHECK_UINT(cluster.nodes[0].plane.forgotten, 0);
	o = starctl(cluster.folder, "tables drop emb dense --yes", "");
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_STR(o.out, "\"emb\" is dropped on all nodes\n\"dense\" is dropped on all nodes\n");
	CHECK_UINT(cluster.nodes[0].plane.forgotten, 2);
	release(&o);
	cluster_fini(&cluster);
}

/* Where nobody knows whether a change outlives the node, its answer says so, and what to do. */
void changes_are_told_when_they_are_durable(void)
{
	struct cluster cluster;
	struct node *node = cluster.nodes;
	struct star_error err = { 0 };
	json_int_t generation;
	json_t *begun, *result;
	uint64_t version;

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	create(node, "words", 8, &generation);
	version = control_pair_version(node->control);
	CHECK_UINT(PLANE(node, durable), version);
	node->plane.fail_durable = -ETIMEDOUT;
	CHECK(call(node->address, "create", table_json("ids", 4), &err) == NULL);
	CHECK_INT(err.code, -ETIMEDOUT);
	CHECK_HAS(err.text, "\"ids\" is created here, and nobody knows whether that is durable (its standby does not "
			    "answer): if this node dies before its standby has it, it may be gone. Create it again");
	CHECK_UINT(PLANE(node, durable), version + 1);
	CHECK(ask_drop(node, "words", &err) == NULL);
	CHECK_INT(err.code, -ETIMEDOUT);
	CHECK_HAS(err.text, "\"words\" is dropped here, and nobody knows whether that is durable (its standby does "
			    "not answer): if this node dies before its standby has it, the table may be there again");
	CHECK_UINT(PLANE(node, durable), version + 2);
	/* What is made once more waits once more; what was dropped is not there. */
	CHECK(call(node->address, "create", table_json("ids", 4), &err) == NULL);
	CHECK_INT(err.code, -ETIMEDOUT);
	node->plane.fail_durable = 0;
	json_decref(call(node->address, "create", table_json("ids", 4), &err));
	CHECK_UINT(PLANE(node, durable), version + 2);
	CHECK(ask_drop(node, "words", &err) == NULL);
	CHECK_INT(err.code, -ENOENT);
	/* Of rows each node has its own. */
	begun = call(node->address, "empty", json_pack("{s:s}", "name", "ids"), &err);
	CHECK_UINT(PLANE(node, rows_durable), 0);
	cluster.nodes[1].plane.fail_durable = -ETIMEDOUT;
	for (unsigned looks = 0; looks < 2; looks++)
		json_decref(call(node->address, "empty",
				 json_pack("{s:s, s:O}", "name", "ids", "ticket", json_object_get(begun, "ticket")),
				 &err));
	CHECK_UINT(PLANE(node, rows_durable) + PLANE(&cluster.nodes[1], rows_durable), 0);
	err = (struct star_error){ 0 };
	result = call(node->address, "empty",
		      json_pack("{s:s, s:O}", "name", "ids", "ticket", json_object_get(begun, "ticket")), &err);
	CHECK(result == NULL);
	CHECK_INT(err.code, -ETIMEDOUT);
	CHECK_HAS(err.text, "\"ids\" is empty on PS task 1, and nobody knows whether that is durable");
	cluster.nodes[1].plane.fail_durable = 0;
	result = call(node->address, "empty",
		      json_pack("{s:s, s:O}", "name", "ids", "ticket", json_object_get(begun, "ticket")), &err);
	CHECK_INT(json_integer_value(json_object_get(result, "left")), 0);
	CHECK_UINT(PLANE(node, rows_durable), 2);
	CHECK_UINT(PLANE(&cluster.nodes[1], rows_durable), 2);
	json_decref(result);
	json_decref(begun);
	cluster_fini(&cluster);
}
