/* SPDX-License-Identifier: BSD-3-Clause */
/* Clusters of one to three nodes: joining, the catalogue, agreement, and peers that are down. */
#include "tests/control/cases.h"
#include "tests/control/harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "jsonrpc/object_json.h"

static json_int_t id_of(const json_t *object)
{
	return json_integer_value(json_object_get(object, "id"));
}

void a_cluster_of_one_node_has_its_layout_at_once(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	struct layout *layout;
	json_t *json;

	cluster_init(&cluster, 1);
	node_start(&cluster, 0, UINT32_MAX);
	json = call(cluster.nodes[0].address, "layout", NULL, &err);
	layout = jsonrpc_layout_decode(json, &err);
	if (CHECK(layout != NULL)) {
		CHECK_UINT(layout->epoch, 1);
		CHECK_UINT(layout->partitions, 16384);
		CHECK_UINT(layout->reactors, 1);
		CHECK_UINT(layout->nodes_count, 1);
		CHECK_UINT(layout->nodes[0].incarnation, UINT32_MAX);
		CHECK_STR(layout->nodes[0].data_host, "198.18.0.1");
		CHECK_UINT(layout->nodes[0].data_port, 5555);
	}
	CHECK_UINT(PLANE(&cluster.nodes[0], epoch), 1);
	CHECK_UINT(cluster.nodes[0].plane.cluster_reactors, 1);
	free(layout);
	json_decref(json);
	cluster_fini(&cluster);
}

void create_and_lookup(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *object, *params;
	struct node *node = &cluster.nodes[0];

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	CHECK_INT(create_table(node, "words", 64, &err), 1);
	CHECK_INT(create_table(node, "contexts", 64, &err), 2);
	CHECK_INT(create_table(node, "words", 64, &err), 1);
	CHECK_INT(create_table(node, "words", 65, &err), -EEXIST);
	CHECK_HAS(err.text, "another dim: 64 there, 65 requested");
	CHECK_INT(create_table(node, "wide", 4097, &err), -EINVAL);
	CHECK_HAS(err.text, "4097");
	params = table_json("given", 8);
	json_object_set_new(params, "id", json_integer(7));
	CHECK(call(node->address, "create", params, &err) == NULL);
	CHECK_INT(err.code, -EINVAL);
	CHECK_HAS(err.text, "\"id\" is given by the catalogue");
	object = call(node->address, "lookup", json_pack("{s:s}", "name", "contexts"), &err);
	CHECK_INT(id_of(object), 2);
	CHECK_INT(json_integer_value(json_object_get(object, "dim")), 64);
	json_decref(object);
	CHECK(call(node->address, "lookup", json_pack("{s:s}", "name", "context"), &err) == NULL);
	CHECK_INT(err.code, -ENOENT);
	object = call(node->address, "tables", NULL, &err);
	CHECK_UINT(json_array_size(object), 2);
	CHECK_STR(json_string_value(json_object_get(json_array_get(object, 1), "name")), "contexts");
	json_decref(object);
	CHECK_UINT(PLANE(node, installed_count), 2);
	cluster_fini(&cluster);
}

void a_failed_install_leaves_nothing_behind(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	struct node *node = &cluster.nodes[0];
	json_t *tables;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	set_fail(node, -ENOMEM);
	CHECK_INT(create_table(node, "words", 4096, &err), -ENOMEM);
	CHECK_HAS(err.text, "parameter memory is full");
	set_fail(node, 0);
	tables = call(node->address, "tables", NULL, &err);
	CHECK_UINT(json_array_size(tables), 0);
	json_decref(tables);
	CHECK_INT(create_table(node, "words", 64, &err), 1);
	cluster_fini(&cluster);
}

void the_catalogue_has_an_end(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	struct jsonrpc_client *client;
	char name[32];
	json_t *result;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	client = jsonrpc_connect(cluster.nodes[0].address, CALL_US, &err);
	for (int i = 1; i <= WIRE_OBJECTS_MAX; i++) {
		snprintf(name, sizeof(name), "table %d", i);
		result = jsonrpc_call(client, "create", table_json(name, 1), CALL_US, &err);
		if (!CHECK_INT(id_of(result), i))
			i = WIRE_OBJECTS_MAX;
		json_decref(result);
	}
	CHECK(jsonrpc_call(client, "create", table_json("one more", 1), CALL_US, &err) == NULL);
	CHECK_INT(err.code, -ENOSPC);
	CHECK_HAS(err.text, "16384 tables, variables and programs are possible. Drop some");
	result = jsonrpc_call(client, "create", table_json("table 1000", 1), CALL_US, &err);
	CHECK_INT(id_of(result), 1000);
	json_decref(result);
	jsonrpc_close(client);
	cluster_fini(&cluster);
}

void three_nodes_join_in_any_order(void)
{
	static const unsigned orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
					       { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
	struct star_error err;

	for (int o = 0; o < 6; o++) {
		struct cluster cluster;
		struct layout *layout;

		cluster_init(&cluster, 3);
		for (int i = 0; i < 3; i++) {
			err = (struct star_error){ 0 };
			if (i == 2 && orders[o][2] != 0) {
				/* Two of three are there, PS task 0 among them: it waits for the third. */
				char says[64];

				CHECK(call(cluster.nodes[0].address, "layout", NULL, &err) == NULL);
				CHECK_INT(err.code, -EAGAIN);
				snprintf(says, sizeof(says), "%u", orders[o][2]);
				CHECK_HAS(err.text, "waiting for PS task");
				CHECK_HAS(err.text, says);
				CHECK_INT(create_table(&cluster.nodes[0], "early", 8, &err), -EAGAIN);
			}
			node_start(&cluster, orders[o][i], 10 + orders[o][i]);
		}
		layout = wait_layout(&cluster, 1);
		if (layout) {
			CHECK_UINT(layout->epoch, 1);
			CHECK_UINT(layout->reactors, 6);
			for (unsigned i = 0; i < 3; i++) {
				const uint32_t firsts[] = { 0, 1, 3 };

				CHECK_UINT(layout->nodes[i].incarnation, 10 + i);
				CHECK_UINT(layout->nodes[i].reactors, 1 + i);
				CHECK(wait_epoch(&cluster.nodes[i], 1));
				CHECK_UINT(cluster.nodes[i].plane.cluster_reactors, 6);
				CHECK_UINT(cluster.nodes[i].plane.first_reactor, firsts[i]);
			}
		}
		free(layout);
		cluster_fini(&cluster);
	}
}

void waiting_names_the_tasks_that_are_missing(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };

	cluster_init(&cluster, 3);
	node_start(&cluster, 0, 1);
	CHECK(call(cluster.nodes[0].address, "layout", NULL, &err) == NULL);
	CHECK_INT(err.code, -EAGAIN);
	CHECK_STR(err.text, "waiting for PS tasks 1, 2 to join");
	cluster_fini(&cluster);
}

struct creator {
	struct node *node;
	unsigned ids[8];
	uint32_t dim;
	unsigned clashes;
};

static void *create_all(void *arg)
{
	struct creator *creator = arg;

	for (unsigned i = 0; i < 8; i++) {
		struct star_error err = { 0 };
		char name[16];
		int id;

		snprintf(name, sizeof(name), "t%u", i);
		id = create_table(creator->node, name, i == 7 ? creator->dim : 16, &err);
		if (id > 0)
			creator->ids[i] = (unsigned)id;
		else if (i == 7 && id == -EEXIST)
			creator->clashes++;
		else
			unit_fail(__FILE__, __LINE__, "%s: %s", name, err.text);
	}
	return NULL;
}

/* Eight threads create the same eight tables at both nodes; half of them want another definition of the last one. */
void creators_at_the_same_moment_agree(void)
{
	struct creator creators[8] = { 0 };
	pthread_t threads[8];
	struct cluster cluster;
	unsigned clashes = 0;

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	for (int i = 0; i < 8; i++) {
		creators[i].node = &cluster.nodes[i % 2];
		creators[i].dim = i < 4 ? 32 : 48;
		pthread_create(&threads[i], NULL, create_all, &creators[i]);
	}
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 8; i++) {
		for (int t = 0; t < 7; t++) {
			char name[16];

			snprintf(name, sizeof(name), "t%d", t);
			CHECK_UINT(creators[i].ids[t], creators[0].ids[t]);
			CHECK(has_installed(&cluster.nodes[0], creators[i].ids[t], name));
			CHECK(has_installed(&cluster.nodes[1], creators[i].ids[t], name));
		}
		clashes += creators[i].clashes;
	}
	CHECK_UINT(clashes, 4);
	CHECK_UINT(PLANE(&cluster.nodes[0], installed_count), 8);
	CHECK_UINT(PLANE(&cluster.nodes[1], installed_count), 8);
	cluster_fini(&cluster);
}

void what_belongs_to_task_0_is_passed_on(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *layout, *object;
	const char *other = cluster.nodes[1].address;

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	CHECK(wait_epoch(&cluster.nodes[1], 1));
	CHECK_INT(create_table(&cluster.nodes[1], "words", 8, &err), 1);
	CHECK_INT(create_table(&cluster.nodes[1], "words", 9, &err), -EEXIST);
	CHECK_HAS(err.text, "8 there, 9 requested");
	layout = call(other, "layout", NULL, &err);
	CHECK_UINT(json_array_size(json_object_get(layout, "nodes")), 2);
	json_decref(layout);
	object = call(other, "lookup", json_pack("{s:s}", "name", "words"), &err);
	CHECK_INT(id_of(object), 1);
	json_decref(object);
	CHECK(call(other, "lookup", json_pack("{s:s}", "name", "none"), &err) == NULL);
	CHECK_INT(err.code, -ENOENT);
	CHECK(call(other, "join", json_object(), &err) == NULL);
	CHECK_INT(err.code, -EPERM);
	CHECK_HAS(err.text, cluster.nodes[0].address);
	CHECK(call(cluster.nodes[0].address, "install", json_object(), &err) == NULL);
	CHECK_INT(err.code, -EPERM);
	node_stop(&cluster, 0);
	CHECK(call(other, "layout", NULL, &err) == NULL);
	CHECK_INT(err.code, -ECONNREFUSED);
	CHECK_HAS(err.text, cluster.nodes[0].address);
	cluster_fini(&cluster);
}

void a_peer_that_is_down_is_named_and_a_retry_completes(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	struct layout *layout;
	json_t *object;

	cluster_init(&cluster, 3);
	cluster_start(&cluster);
	CHECK(wait_epoch(&cluster.nodes[1], 1));
	node_stop(&cluster, 2);
	CHECK_INT(create_table(&cluster.nodes[0], "words", 8, &err), -ECONNREFUSED);
	CHECK_HAS(err.text, "\"words\" is not yet on PS task 2");
	CHECK_HAS(err.text, cluster.nodes[2].address);
	CHECK_HAS(err.text, "reate it again");
	CHECK(call(cluster.nodes[0].address, "lookup", json_pack("{s:s}", "name", "words"), &err) == NULL);
	CHECK_INT(err.code, -ENOENT);
	/* Nothing of it is left: it may become something else. */
	CHECK_INT(create_table(&cluster.nodes[0], "words", 9, &err), -ECONNREFUSED);
	node_start(&cluster, 2, 777);
	layout = wait_layout(&cluster, 2);
	free(layout);
	CHECK_INT(create_table(&cluster.nodes[0], "words", 8, &err), 1);
	CHECK(has_installed(&cluster.nodes[1], 1, "words"));
	CHECK(has_installed(&cluster.nodes[2], 1, "words"));
	object = call(cluster.nodes[0].address, "lookup", json_pack("{s:s}", "name", "words"), &err);
	CHECK_INT(id_of(object), 1);
	json_decref(object);
	cluster_fini(&cluster);
}

void a_peer_that_cannot_install_is_named_and_mended(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	CHECK(wait_epoch(&cluster.nodes[1], 1));
	set_fail(&cluster.nodes[1], -ENOMEM);
	CHECK_INT(create_table(&cluster.nodes[0], "words", 8, &err), -ENOMEM);
	CHECK_HAS(err.text, "PS task 1: the parameter memory is full");
	/* It was not created anywhere: neither its name is taken nor its id, and the node is still a member. */
	CHECK_INT(create_table(&cluster.nodes[0], "contexts", 8, &err), -ENOMEM);
	free(wait_layout(&cluster, 1));
	set_fail(&cluster.nodes[1], 0);
	CHECK_INT(create_table(&cluster.nodes[0], "contexts", 8, &err), 1);
	CHECK_INT(create_table(&cluster.nodes[0], "words", 4, &err), 2);
	CHECK_UINT(PLANE(&cluster.nodes[1], installed_count), 2);
	cluster_fini(&cluster);
}

void a_failed_create_is_undone_on_the_others(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };

	cluster_init(&cluster, 3);
	cluster_start(&cluster);
	CHECK(wait_epoch(&cluster.nodes[2], 1));
	set_fail(&cluster.nodes[2], -ENOMEM);
	CHECK_INT(create_table(&cluster.nodes[0], "large", 8, &err), -ENOMEM);
	CHECK_HAS(err.text, "PS task 2: the parameter memory is full");
	CHECK(!has_installed(&cluster.nodes[1], 1, "large"));
	CHECK_UINT(cluster.nodes[1].plane.forgotten, 1);
	set_fail(&cluster.nodes[2], 0);
	/* The same id for something else: a node that still had the first one would refuse it. */
	CHECK_INT(create_table(&cluster.nodes[0], "small", 4, &err), 1);
	CHECK_INT(create_table(&cluster.nodes[0], "large", 4, &err), 2);
	CHECK(has_installed(&cluster.nodes[1], 1, "small"));
	free(wait_layout(&cluster, 1));
	cluster_fini(&cluster);
}

void an_object_without_room_does_not_keep_a_node_out(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	CHECK(wait_epoch(&cluster.nodes[1], 1));
	CHECK_INT(create_table(&cluster.nodes[0], "words", 8, &err), 1);
	node_stop(&cluster, 1);
	cluster.nodes[1].fail_from_start = -ENOMEM;
	node_start(&cluster, 1, 777);
	free(wait_layout(&cluster, 2));
	CHECK(call(cluster.nodes[0].address, "lookup", json_pack("{s:s}", "name", "words"), &err) == NULL);
	CHECK_INT(err.code, -ENOSPC);
	CHECK_HAS(err.text, "PS task 1 has no room for it");
	set_fail(&cluster.nodes[1], 0);
	CHECK_INT(create_table(&cluster.nodes[0], "contexts", 8, &err), 2);
	cluster_fini(&cluster);
}

/* Waits until a node says why it has not joined. */
static void expect_reason(const struct node *node, const char *says)
{
	const uint64_t until_us = clock_us() + 10000000;
	char last[512] = "(none)";

	while (clock_us() < until_us) {
		struct star_error err = { 0 };
		json_t *status = call(node->address, "status", NULL, &err);
		const json_t *leader = json_object_get(status, "leader");
		const char *error = json_string_value(json_object_get(leader, "error"));

		if (error)
			snprintf(last, sizeof(last), "%s", error);
		json_decref(status);
		if (strstr(last, says))
			return;
		usleep(5000);
	}
	unit_fail(__FILE__, __LINE__, "the reason is \"%s\", without \"%s\"", last, says);
}

void a_node_that_does_not_fit_is_refused_with_the_reason(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	struct config *config = &cluster.nodes[1].config;

	cluster_init(&cluster, 2);
	node_start(&cluster, 1, 5);
	expect_reason(&cluster.nodes[1], "connection refused; is starserver running there?");
	node_stop(&cluster, 1);
	node_start(&cluster, 0, 1);
	config->partitions = 8192;
	node_start(&cluster, 1, 5);
	expect_reason(&cluster.nodes[1], "PS task 1 has 8192 partitions, PS task 0 has 16384");
	node_stop(&cluster, 1);
	config->partitions = 16384;
	config->own.data = cluster.nodes[0].config.own.data;
	node_start(&cluster, 1, 5);
	expect_reason(&cluster.nodes[1], "the data ports 5555 to 5556 of PS task 1 on 198.18.0.1 overlap");
	CHECK(call(cluster.nodes[0].address, "layout", NULL, &err) == NULL);
	CHECK_INT(err.code, -EAGAIN);
	node_stop(&cluster, 1);
	config->own.data.port = 5556; /* beside the one reactor of PS task 0 */
	CHECK(node_start(&cluster, 1, 5));
	expect_reason(&cluster.nodes[1], "and the endpoint map of PS task 0 has 198.18.0.2:5555");
	node_stop(&cluster, 1);
	cluster.endpoints[1].data = config->own.data;
	CHECK(node_start(&cluster, 1, 5));
	free(wait_layout(&cluster, 1));
	cluster_fini(&cluster);
}

/* Each node looks at its own reactors when it starts, and only PS task 0 sees all. */
void reactors_have_partitions_or_are_refused(void)
{
	struct cluster cluster;
	struct layout *layout;

	cluster_init(&cluster, 3);
	for (uint32_t i = 0; i < 3; i++)
		cluster.nodes[i].config.partitions = 4;
	cluster.nodes[0].config.reactors = cluster.nodes[1].config.reactors = 2;
	node_start(&cluster, 0, 1);
	node_start(&cluster, 1, 5);
	/* The third one has a reactor at least. */
	expect_reason(&cluster.nodes[1], "with the 2 reactors of PS task 1 the cluster has at least 5, more than its 4 "
					 "partitions: give it fewer");
	node_stop(&cluster, 1);
	cluster.nodes[1].config.reactors = 1;
	CHECK(node_start(&cluster, 1, 5));
	cluster.nodes[2].config.reactors = 2;
	node_start(&cluster, 2, 5);
	expect_reason(&cluster.nodes[2], "with the 2 reactors of PS task 2 the cluster has at least 5");
	node_stop(&cluster, 2);
	cluster.nodes[2].config.reactors = 1;
	CHECK(node_start(&cluster, 2, 5));
	layout = wait_layout(&cluster, 1);
	CHECK_UINT(layout ? layout->reactors : 0, 4);
	free(layout);
	cluster_fini(&cluster);
}

void malformed_joins_are_refused(void)
{
	static const struct {
		const char *member, *json, *says;
	} bad[] = {
		{ "task", "0", "1 to 1" },
		{ "task", "2", "1 to 1" },
		{ "task", NULL, "missing" },
		{ "incarnation", "0", "\"incarnation\"" },
		{ "data_host", "\"\"", "\"data_host\"" },
		{ "data_port", "65536", "\"data_port\"" },
		{ "reactors", "65", "\"reactors\"" },
		{ "partitions", "1", "has 1 partitions" },
		{ "ps_count", "3", "knows 3 PS tasks" },
		{ "data", "\"sealed\"", "another security.data than PS task 0, whose data network is open" },
		{ "data", "\"surprise\"", "another security.data than PS task 0" },
		{ "data", "1", "\"data\"" },
		{ "epoch", "4294967295", "\"epoch\"" },
		{ "objects_count", "16385", "\"objects_count\"" },
		{ "objects", "{}", "array of at most 1024 objects" },
		{ "objects_more", "1", "\"objects_more\" must be true or false" },
		{ "objects_from", "0", "1 to 16384, not 0" },
		{ "objects_from", "16385", "1 to 16384, not 16385" },
		{ "objects", "[{}]", "\"name\" is missing" },
		{ "surprise", "1", "unknown member \"surprise\"" },
	};
	struct cluster cluster;
	struct star_error err = { 0 };

	cluster_init(&cluster, 2);
	node_start(&cluster, 0, 1);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		json_t *join = json_pack("{s:i, s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:i}", "task", 1, "incarnation", 9,
					 "data_host", "198.18.0.2", "data_port", 5555, "reactors", 2, "partitions",
					 16384, "ps_count", 2, "epoch", 0, "objects_count", 1);

		if (bad[i].json)
			json_object_set_new(join, bad[i].member, json_loads(bad[i].json, JSON_DECODE_ANY, NULL));
		else
			json_object_del(join, bad[i].member);
		CHECK(call(cluster.nodes[0].address, "join", join, &err) == NULL);
		CHECK_INT(err.code, -EINVAL);
		CHECK_HAS(err.text, bad[i].says);
	}
	cluster_fini(&cluster);
}

void malformed_installs_are_refused(void)
{
	static const struct {
		const char *params, *says;
	} bad[] = {
		{ "{}", "one of" },
		{ "{\"object\": 1, \"layout\": 1}", "one of" },
		{ "{\"object\": 1}", "JSON object" },
		{ "{\"layout\": 1}", "an object with named members" },
		{ "{\"layout\": {}}", "\"epoch\" is missing" },
		{ "{\"layout\": {\"epoch\": 1, \"cluster_reactors\": 2, \"first_reactor\": 2}}", "0 to 1, not 2" },
		{ "{\"tables\": 1}", "unknown member" },
		{ "{\"sweep\": 1}", "\"sweep\" must be a string" },
		{ "{\"sweep\": \"words\"}", "\"words\" has nothing to evict by" },
		{ "{\"empty\": \"words\"}", "an object with named members is needed" },
		{ "{\"empty\": {\"name\": \"words\"}}", "\"begin\" must be true or false" },
	};
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *params;

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	CHECK_INT(create_table(&cluster.nodes[0], "words", 8, &err), 1);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		params = json_loads(bad[i].params, 0, NULL);
		CHECK(call(cluster.nodes[1].address, "install", params, &err) == NULL);
		CHECK_INT(err.code, -EINVAL);
		CHECK_HAS(err.text, bad[i].says);
	}
	params = table_json("words", 8);
	json_object_set_new(params, "id", json_integer(2));
	CHECK(call(cluster.nodes[1].address, "install", json_pack("{s:o}", "object", params), &err) == NULL);
	CHECK_INT(err.code, -EEXIST);
	CHECK_HAS(err.text, "\"words\" is object 1 on PS task 1, not 2");
	params = table_json("others", 8);
	json_object_set_new(params, "id", json_integer(1));
	CHECK(call(cluster.nodes[1].address, "install", json_pack("{s:o}", "object", params), &err) == NULL);
	CHECK_HAS(err.text, "object 1 is \"words\" on PS task 1, not \"others\"");
	cluster_fini(&cluster);
}

static void refuses(const char *address, const char *method, json_t *params, int code, const char *part)
{
	struct star_error err = { 0 };

	CHECK(call(address, method, params, &err) == NULL);
	CHECK_INT(err.code, code);
	CHECK_HAS(err.text, part);
}

void rows_are_asked_for_by_their_keys(void)
{
	struct cluster cluster;
	const char *address;
	struct star_error err = { 0 };
	json_t *result, *many = json_array();

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	address = cluster.nodes[0].address;
	json_decref(call(address, "create", table_json("words", 8), &err));
	result = call(address, "row_keys", json_pack("{s:s, s:i}", "name", "words", "reactor", 0), &err);
	CHECK_INT(json_integer_value(json_array_get(json_object_get(result, "keys"), 0)), 1);
	CHECK_STR(json_string_value(json_object_get(result, "at")), "18446744073709551615");
	json_decref(result);
	result = call(address, "row_keys",
		      json_pack("{s:s, s:i, s:s}", "name", "words", "reactor", 0, "at", "18446744073709551615"), &err);
	CHECK_INT(json_integer_value(json_array_get(json_object_get(result, "keys"), 0)), 3);
	CHECK_INT(json_integer_value(json_object_get(result, "at")), 0);
	json_decref(result);
	result = call(address, "rows", json_pack("{s:s, s:[i, s, i]}", "name", "words", "keys", 3, "4", 5), &err);
	CHECK_UINT(json_array_size(json_object_get(result, "rows")), 2);
	CHECK_STR(json_string_value(json_array_get(json_object_get(result, "rows"), 0)), "0123");
	CHECK(json_is_null(json_array_get(json_object_get(result, "rows"), 1)));
	json_decref(result);
	refuses(address, "rows", json_pack("{s:s, s:[i]}", "name", "word", "keys", 1), -ENOENT,
		"did you mean \"words\"?");
	refuses(address, "rows", json_pack("{s:s, s:[]}", "name", "words", "keys"), -EINVAL,
		"must be an array of 1 to 2048 keys");
	refuses(address, "rows", json_pack("{s:s, s:[i, i]}", "name", "words", "keys", 1, -1), -EINVAL,
		"element 1 is not a key (a number from 0 to 2^64 - 1)");
	for (int i = 0; i <= 2048; i++)
		json_array_append_new(many, json_integer(i));
	refuses(address, "rows", json_pack("{s:s, s:o}", "name", "words", "keys", many), -EINVAL,
		"must be an array of 1 to 2048 keys");
	refuses(address, "row_keys", json_pack("{s:s, s:i}", "name", "words", "reactor", 1), -EINVAL,
		"there is no reactor 1");
	refuses(address, "row_keys", json_pack("{s:s}", "name", "words"), -EINVAL, "\"reactor\"");
	cluster_fini(&cluster);
}

void sweeps_go_to_every_node(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *params = table_json("words", 8), *result;

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	json_object_set_new(params, "l2_threshold", json_real(0.5));
	json_decref(call(cluster.nodes[0].address, "create", params, &err));
	CHECK(call(cluster.nodes[0].address, "sweep", json_pack("{s:s}", "name", "word"), &err) == NULL);
	CHECK_INT(err.code, -ENOENT);
	CHECK_HAS(err.text, "there is no table or variable \"word\"; did you mean \"words\"?");
	/* Whichever node is asked: it is passed on to PS task 0. */
	result = call(cluster.nodes[1].address, "sweep", json_pack("{s:s}", "name", "words"), &err);
	CHECK_INT(json_integer_value(json_object_get(result, "nodes")), 2);
	json_decref(result);
	CHECK_UINT(cluster.nodes[0].plane.swept, 1);
	CHECK_UINT(cluster.nodes[1].plane.swept, 1);
	set_fail(&cluster.nodes[1], -ETIMEDOUT);
	CHECK(call(cluster.nodes[0].address, "sweep", json_pack("{s:s}", "name", "words"), &err) == NULL);
	CHECK_INT(err.code, -ETIMEDOUT);
	CHECK_HAS(err.text, "\"words\" is not swept on PS task 1 and those after it: reactor 0 does not answer");
	CHECK(call(cluster.nodes[0].address, "sweep", NULL, &err) == NULL);
	CHECK_HAS(err.text, "\"name\" is missing");
	CHECK(!cluster.nodes[0].plane.collided && !cluster.nodes[1].plane.collided);
	cluster_fini(&cluster);
}
