/* SPDX-License-Identifier: BSD-3-Clause */
/* A client that is not a node of the cluster, and knows only the control address: what it cannot ask for, and whom it
 * cannot keep out. */
#include "tests/control/cases.h"
#include "tests/control/harness.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/line_server.h"
#include "control/node.h"

#define STRANGER "127.0.0.2"
#define WORKER "127.0.0.3"

static int code_from(const char *source, const char *address, const char *method, const char *params)
{
	char line[2048];
	int fd = raw_connect_from(source, address), code;

	snprintf(line, sizeof(line), "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":%s}", method, params);
	code = raw_code(fd, line);
	close(fd);
	return code;
}

/* The whole answer; to be freed. */
static char *answer_from(const char *source, const char *address, const char *method, const char *params)
{
	char line[2048];
	int fd = raw_connect_from(source, address);
	char *text = NULL;

	snprintf(line, sizeof(line), "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":%s}\n", method,
		 params);
	if (CHECK(raw_send(fd, line, strlen(line))))
		text = raw_line(fd);
	close(fd);
	return text;
}

/* An ordinary worker's and an administrator's questions. */
static void all_are_served(const struct cluster *cluster)
{
	const struct node *node = &cluster->nodes[0];
	struct star_error err = { 0 };
	json_t *json;

	CHECK_INT(code_from(WORKER, node->address, "layout", "{}"), 0);
	CHECK_INT(code_from(WORKER, node->address, "create", "{\"name\":\"t\",\"kind\":\"table\",\"dim\":4}"), 0);
	json = call(node->config.control_socket, "tables", NULL, &err);
	CHECK(json_array_size(json) == 1);
	json_decref(json);
}

void strangers_cannot_call_methods_of_nodes(void)
{
	struct cluster cluster;
	static const char join[] = "{\"task\":1,\"incarnation\":77,\"data_host\":\"198.18.9.9\",\"data_port\":5555,"
				   "\"reactors\":2,\"partitions\":16384,\"ps_count\":2,\"epoch\":2147483647,"
				   "\"objects_count\":0,\"cluster_reactors\":3,\"first_reactor\":1}";
	/* All that lib/control/methods.c has from nodes only. */
	static const struct {
		const char *method, *params;
		unsigned at;
	} of_nodes[] = {
		{ "join", join, 0 },
		{ "heartbeat", "{\"task\":1,\"incarnation\":101,\"objects_count\":0}", 0 },
		{ "leave", "{\"task\":1,\"incarnation\":101}", 0 },
		{ "install", "{\"layout\":{\"epoch\":2147483647,\"cluster_reactors\":3,\"first_reactor\":1}}", 1 },
		{ "checkpoint_part", "{\"restart\":{\"id\":1}}", 1 },
	};
	struct layout *layout;

	cluster_init(&cluster, 2);
	for (unsigned i = 0; i < 2; i++) { /* a leave counts where a last checkpoint is to be written */
		strcpy(cluster.nodes[i].config.checkpoint_directory, "/nowhere");
		cluster.nodes[i].config.checkpoint_on_stop = true;
	}
	if (!cluster_start(&cluster))
		return;
	for (unsigned i = 0; i < sizeof(of_nodes) / sizeof(of_nodes[0]); i++) {
		char *said = answer_from(STRANGER, cluster.nodes[of_nodes[i].at].address, of_nodes[i].method,
					 of_nodes[i].params);

		if (!CHECK_HAS(said, "is what nodes tell each other"))
			printf("# %s: %s\n", of_nodes[i].method, said ? said : "no answer");
		free(said);
	}
	/* From a node's address, but with a data address that the endpoint map does not have. */
	CHECK_INT(code_from("127.0.0.1", cluster.nodes[0].address, "join", join), -32000);
	layout = wait_layout(&cluster, 1);
	if (CHECK(layout != NULL)) {
		CHECK_UINT(layout->epoch, 1);
		CHECK_STR(layout->nodes[1].data_host, "198.18.0.2");
		free(layout);
	}
	CHECK_UINT(cluster.nodes[1].plane.rolls_back, 0);
	CHECK_UINT(PLANE(&cluster.nodes[1], epoch), 1);
	CHECK_UINT(PLANE(&cluster.nodes[0], begun), 0);
	cluster_fini(&cluster);
}

/* A node speaks for itself alone. */
void nodes_cannot_speak_for_others(void)
{
	static const char *const methods[] = { "heartbeat", "leave" };
	struct cluster cluster;

	cluster_init(&cluster, 3);
	strcpy(cluster.ps[2].host, "127.0.0.4");
	cluster.endpoints[2].control = cluster.ps[2];
	CHECK(node_start(&cluster, 0, 100));
	for (unsigned i = 0; i < 2; i++)
		for (unsigned task = 1; task < 3; task++)
			for (unsigned from = 1; from < 3; from++) {
				const char *source = cluster.ps[from].host;
				char params[64], *said;

				snprintf(params, sizeof(params), "{\"task\":%u,\"incarnation\":101}", task);
				said = answer_from(source, cluster.nodes[0].address, methods[i], params);
				if (CHECK(said) &&
				    !CHECK_INT(!strstr(said, "is what nodes tell each other"), task == from))
					printf("# %s of %u by %u: %s\n", methods[i], task, from, said);
				free(said);
			}
	cluster_fini(&cluster);
}

void a_node_may_be_known_by_name(void)
{
	struct cluster cluster;

	cluster_init(&cluster, 2);
	for (unsigned i = 0; i < 2; i++) {
		strcpy(cluster.ps[i].host, "localhost");
		cluster.endpoints[i].control = cluster.ps[i];
	}
	CHECK(cluster_start(&cluster));
	CHECK_INT(code_from(STRANGER, cluster.nodes[1].address, "install",
			    "{\"layout\":{\"epoch\":9,\"cluster_reactors\":3,\"first_reactor\":1}}"),
		  -32000);
	cluster_fini(&cluster);
}

void epochs_have_one_bound(void)
{
	struct cluster cluster;

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	free(wait_layout(&cluster, 1)); /* a node takes layouts when it has joined */
	CHECK_INT(code_from("127.0.0.1", cluster.nodes[1].address, "install",
			    "{\"layout\":{\"epoch\":4294967295,\"cluster_reactors\":3,\"first_reactor\":1}}"),
		  -32602);
	CHECK_INT(code_from("127.0.0.1", cluster.nodes[1].address, "install",
			    "{\"layout\":{\"epoch\":2147483648,\"cluster_reactors\":3,\"first_reactor\":1}}"),
		  -32602);
	cluster_fini(&cluster);
}

/* The last id of all is taken by a node that came back with it: the ids before it are still there. */
void a_gap_of_ids_does_not_fill_the_catalogue(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *table = table_json("last", 4), *object;

	json_object_set_new(table, "id", json_integer(WIRE_OBJECTS_MAX));
	cluster_init(&cluster, 2);
	CHECK(node_start(&cluster, 1, 7));
	object = call(cluster.nodes[1].address, "install", json_pack("{s:o}", "object", table), &err);
	CHECK(object != NULL);
	json_decref(object);
	CHECK(node_start(&cluster, 0, 8));
	free(wait_layout(&cluster, 1));
	for (int id = 1; id <= 2; id++) {
		char name[16];

		snprintf(name, sizeof(name), "t%d", id);
		object = call(cluster.nodes[0].address, "create", table_json(name, 4), &err);
		if (!CHECK(object != NULL))
			printf("# %s\n", err.text);
		CHECK_INT(json_integer_value(json_object_get(object, "id")), id);
		json_decref(object);
	}
	cluster_fini(&cluster);
}

/* What a browser sends for a page that any web site may have. */
void a_web_page_cannot_ask(void)
{
	static const char create[] =
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"create\",\"params\":{\"name\":\"evil\","
		"\"kind\":\"table\",\"dim\":4}}\n";
	static const char *const starts[] = { "POST / HTTP/1.1\r\n", "POST /%s HTTP/1.1\r\n", "get x\n" };
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *tables;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		int fd = raw_connect_from(STRANGER, cluster.nodes[0].address);
		/* The second has an address that is longer than any line may be. */
		const size_t bytes = i == 1 ? JSONRPC_REQUEST_MAX + 100000 : 0;
		char *path = malloc(bytes + 1), *line;

		memset(path, 'a', bytes);
		path[bytes] = 0;
		line = malloc(bytes + 100);
		snprintf(line, bytes + 100, i == 1 ? "POST /%s HTTP/1.1\r\n" : "%s%s", i == 1 ? path : starts[i], path);
		if (raw_send(fd, line, strlen(line)) && raw_send(fd, "Host: x\r\n\r\n", 11))
			(void)raw_send(fd, create, strlen(create));
		free(raw_line(fd));
		free(line);
		free(path);
		close(fd);
	}
	tables = call(cluster.nodes[0].config.control_socket, "tables", NULL, &err);
	CHECK_UINT(json_array_size(tables), 0);
	json_decref(tables);
	cluster_fini(&cluster);
}

enum { MANY = LINE_SERVER_PEERS_MAX + 100 };

static bool many_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < 3 * MANY)
		return unit_fail(__FILE__, __LINE__, "this needs %d descriptors, and may have %lu", 3 * MANY,
				 (unsigned long)limit.rlim_max);
	limit.rlim_cur = limit.rlim_max;
	return CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

void idle_connections_keep_nobody_out(void)
{
	struct cluster cluster;
	static int fds[MANY];

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	if (many_descriptors())
		for (int i = 0; i < MANY; i++) {
			fds[i] = raw_connect_from(STRANGER, cluster.nodes[0].address);
			/* Connections on which something was sent are no better. */
			if (i % 8 == 0)
				(void)raw_send(fds[i], STATUS "\n", sizeof(STATUS));
		}
	all_are_served(&cluster);
	/* Somebody at the very address, too: what has just come is not idle for longest. */
	CHECK_INT(code_from(STRANGER, cluster.nodes[0].address, "layout", "{}"), 0);
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
	cluster_fini(&cluster);
}

/* From a node's own address, whose lines may be long: they are bounded all the same. */
void long_lines_keep_nobody_out(void)
{
	enum { LINES = 150, LINE_BYTES = JSONRPC_REQUEST_MAX - 1000 };
	struct cluster cluster;
	int fds[LINES];
	char *text = malloc(LINE_BYTES);

	memset(text, ' ', LINE_BYTES);
	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	for (int i = 0; i < LINES; i++) {
		fds[i] = raw_connect(cluster.nodes[0].address);
		(void)raw_send(fds[i], text, LINE_BYTES);
	}
	all_are_served(&cluster);
	for (int i = 0; i < LINES; i++)
		close(fds[i]);
	free(text);
	cluster_fini(&cluster);
}

void a_long_line_of_a_stranger_is_not_parsed(void)
{
	enum { LINE_BYTES = JSONRPC_REQUEST_MAX - 1000 };
	struct cluster cluster;
	char *text = malloc(LINE_BYTES + 2), *answer;
	int fd;

	memset(text, '[', LINE_BYTES);
	strcpy(text + LINE_BYTES, "\n");
	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	fd = raw_connect_from(STRANGER, cluster.nodes[0].address);
	CHECK(raw_send(fd, text, LINE_BYTES + 1));
	answer = raw_line(fd);
	CHECK_HAS(answer ? answer : "", "a request may have 65536 bytes");
	free(answer);
	CHECK_INT(raw_code(fd, STATUS), 0);
	close(fd);
	free(text);
	cluster_fini(&cluster);
}
