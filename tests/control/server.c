/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON-RPC on the wire: what is malformed, hostile or too long. */
#include "tests/control/cases.h"
#include "tests/control/harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/prng.h"

enum { PARSE = -32700, REQUEST = -32600, METHOD = -32601, PARAMS = -32602, APPLICATION = -32000, NOTHING = 1 };

void each_malformed_request_gets_its_code(void)
{
	static const struct {
		const char *line;
		int code;
	} cases[] = {
		{ "", PARSE },
		{ " \t\r", PARSE },
		{ "{", PARSE },
		{ "nonsense", PARSE },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\"", PARSE },
		{ STATUS " x", PARSE },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"status\"}", PARSE },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\ud800\"}", PARSE },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\\u0000b\"}", PARSE },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\377\376\"}", PARSE },
		{ "{\"jsonrpc\":\"2.0\",\"id\":99999999999999999999999,\"method\":\"status\"}", PARSE },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1e999,\"method\":\"status\"}", PARSE },
		{ "1", PARSE },
		{ "[]", REQUEST },
		{ "[" STATUS "," STATUS "]", REQUEST },
		{ "{}", REQUEST },
		{ "{\"id\":1,\"method\":\"status\"}", REQUEST },
		{ "{\"jsonrpc\":2.0,\"id\":1,\"method\":\"status\"}", REQUEST },
		{ "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"status\"}", REQUEST },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1}", REQUEST },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", REQUEST },
		{ "{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"status\"}", REQUEST },
		{ "{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"status\"}", REQUEST },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\",\"params\":3}", REQUEST },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\",\"params\":null}", REQUEST },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\"}", METHOD },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"statsu\"}", METHOD },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\",\"params\":{\"x\":1}}", PARAMS },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\",\"params\":[1]}", PARAMS },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"lookup\"}", PARAMS },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"lookup\",\"params\":{\"name\":3}}", PARAMS },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"lookup\",\"params\":{\"name\":\"none\"}}", APPLICATION },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"create\",\"params\":{}}", PARAMS },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"create\"}", PARAMS },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"shutdown\"}", APPLICATION },
		{ STATUS, 0 },
		{ STATUS "\r", 0 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":\"text\",\"method\":\"status\",\"params\":{}}", 0 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"status\",\"params\":[]}", 0 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"tables\",\"more\":1}", 0 },
	};
	struct cluster cluster;
	int fd;

	cluster_init(&cluster, 1);
	if (cluster_start(&cluster)) {
		fd = raw_connect(cluster.nodes[0].address);
		for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
			if (!CHECK_INT(raw_code(fd, cases[i].line), cases[i].code))
				unit_fail(__FILE__, __LINE__, "line %u: %s", i, cases[i].line);
		close(fd);
	}
	cluster_fini(&cluster);
}

/* Sends a line and gives its reply, to be released. */
static json_t *reply_to(int fd, const char *line)
{
	char *text = raw_send(fd, line, strlen(line)) && raw_send(fd, "\n", 1) ? raw_line(fd) : NULL;
	json_t *reply = text ? json_loads(text, 0, NULL) : NULL;

	if (!reply)
		unit_fail(__FILE__, __LINE__, "no reply to %.200s", line);
	free(text);
	return reply;
}

static const char *message(const json_t *reply)
{
	const char *text = json_string_value(json_object_get(json_object_get(reply, "error"), "message"));

	return text ? text : "(no error)";
}

void errors_say_what_is_wrong(void)
{
	struct cluster cluster;
	const json_t *data;
	json_t *reply;
	int fd;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	fd = raw_connect(cluster.nodes[0].address);
	reply = reply_to(fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"statsu\"}");
	CHECK_HAS(message(reply), "no method \"statsu\"; did you mean \"status\"?");
	json_decref(reply);
	reply = reply_to(fd, "[" STATUS "]");
	CHECK_HAS(message(reply), "batches are not supported: send one request object per line");
	CHECK(json_is_null(json_object_get(reply, "id")));
	json_decref(reply);
	reply = reply_to(fd,
			 "{\"jsonrpc\":\"2.0\",\"id\":\"me\",\"method\":\"lookup\",\"params\":{\"name\":\"words\"}}");
	CHECK_HAS(message(reply), "no table or variable \"words\"");
	CHECK_STR(json_string_value(json_object_get(reply, "id")), "me");
	data = json_object_get(json_object_get(reply, "error"), "data");
	CHECK_STR(json_string_value(json_object_get(data, "errno")), "ENOENT");
	CHECK_INT(json_integer_value(json_object_get(data, "number")), ENOENT);
	json_decref(reply);
	reply = reply_to(fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"shutdown\"}");
	CHECK_HAS(message(reply), "ps-0.sock only");
	json_decref(reply);
	/* A sentence that repeats 400 bytes of two-byte letters is cut, and still JSON. */
	{
		char line[1024] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x";

		for (int i = 0; i < 200; i++)
			strcat(line, "\303\274");
		strcat(line, "\"}");
		reply = reply_to(fd, line);
		CHECK_HAS(message(reply), "there is no method");
		json_decref(reply);
	}
	close(fd);
	cluster_fini(&cluster);
}

void notifications_get_no_reply(void)
{
	struct cluster cluster;
	json_t *create =
		json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", "create", "params", table_json("words", 8));
	char *line = json_dumps(create, JSON_COMPACT);
	json_t *reply;
	int fd;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	fd = raw_connect(cluster.nodes[0].address);
	raw_send(fd, line, strlen(line));
	raw_send(fd, "\n", 1);
	for (int i = 0; i < 100; i++) {
		static const char text[] = "{\"jsonrpc\":\"2.0\",\"method\":\"status\"}\n"
					   "{\"jsonrpc\":\"2.0\",\"method\":\"no such\"}\n"
					   "{\"jsonrpc\":\"2.0\",\"method\":\"lookup\"}\n";

		raw_send(fd, text, strlen(text));
	}
	/* The first reply is that to the first request with an id, and what was notified has been done. */
	reply = reply_to(fd, "{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"tables\"}");
	CHECK_INT(json_integer_value(json_object_get(reply, "id")), 77);
	CHECK_UINT(json_array_size(json_object_get(reply, "result")), 1);
	json_decref(reply);
	json_decref(create);
	free(line);
	close(fd);
	cluster_fini(&cluster);
}

void pipelined_requests_are_answered_in_order(void)
{
	enum { COUNT = 500 };
	struct cluster cluster;
	char line[128];
	int fd;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	fd = raw_connect(cluster.nodes[0].address);
	for (int i = 0; i < COUNT; i++) {
		/* Every third one is slow, and refused by the executor's thread. */
		snprintf(line, sizeof(line), "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"%s\"}\n", i,
			 i % 3 ? "tables" : "create");
		raw_send(fd, line, strlen(line));
	}
	for (int i = 0; i < COUNT; i++) {
		char *text = raw_line(fd);
		json_t *reply = text ? json_loads(text, 0, NULL) : NULL;

		if (!CHECK_INT(reply ? json_integer_value(json_object_get(reply, "id")) : -1, i))
			i = COUNT;
		json_decref(reply);
		free(text);
	}
	close(fd);
	cluster_fini(&cluster);
}

void hostile_bytes_harm_nobody(void)
{
	static const char nul[] = "{\"jsonrpc\":\"2.0\",\0\"id\":1,\"method\":\"status\"}\n";
	const size_t deep = 500000;
	struct cluster cluster;
	char *bytes = malloc(deep + 2), *text;
	int fd;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	fd = raw_connect(cluster.nodes[0].address);
	for (const char *c = "[{"; *c; c++) {
		memset(bytes, *c, deep);
		bytes[deep] = 0;
		CHECK_INT(raw_code(fd, bytes), PARSE);
	}
	for (size_t i = 0; i < deep; i += 5)
		memcpy(bytes + i, "{\"a\":", 5);
	CHECK_INT(raw_code(fd, bytes), PARSE);
	memset(bytes, '9', deep);
	CHECK_INT(raw_code(fd, bytes), PARSE);
	CHECK(raw_send(fd, nul, sizeof(nul) - 1));
	text = raw_line(fd);
	CHECK_HAS(text ? text : "", "-32700");
	free(text);
	CHECK_INT(raw_code(fd, STATUS), 0);
	close(fd);
	free(bytes);
	cluster_fini(&cluster);
}

void random_bytes_harm_nobody(void)
{
	static const char alphabet[] = "{}[]\",:\\0123456789eE.-+ntfu \t\n\377\303jsonrpcidmethodparams";
	const uint64_t seed = 20260;
	struct cluster cluster;
	struct prng p;
	int fd;

	prng_seed(&p, seed);
	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	for (int round = 0; round < 200; round++) {
		char bytes[512];
		const size_t count = 1 + prng_below(&p, sizeof(bytes));

		snprintf(bytes, sizeof(bytes), "%s\n", STATUS);
		for (size_t i = 0; i < count; i++)
			if (round % 2)
				bytes[i] = (char)prng_next(&p);
			else if (i >= strlen(STATUS) || prng_below(&p, 20) == 0)
				bytes[i] = alphabet[prng_below(&p, sizeof(alphabet) - 1)];
		fd = raw_connect(cluster.nodes[0].address);
		raw_send(fd, bytes, count);
		if (round % 3 == 0)
			shutdown(fd, SHUT_WR);
		close(fd);
	}
	fd = raw_connect(cluster.nodes[0].address);
	if (!CHECK_INT(raw_code(fd, STATUS), 0))
		unit_fail(__FILE__, __LINE__, "seed %llu", (unsigned long long)seed);
	close(fd);
	cluster_fini(&cluster);
}

void half_lines_wait_and_the_end_of_the_stream_ends_a_line(void)
{
	struct cluster cluster;
	char *text;
	int fd;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	fd = raw_connect(cluster.nodes[0].address);
	for (const char *c = STATUS; *c; c++)
		CHECK(raw_send(fd, c, 1));
	CHECK(raw_send(fd, "\n", 1));
	text = raw_line(fd);
	CHECK_HAS(text ? text : "", "\"result\"");
	free(text);
	CHECK(raw_send(fd, STATUS, strlen(STATUS)));
	shutdown(fd, SHUT_WR);
	text = raw_line(fd);
	CHECK_HAS(text ? text : "", "\"result\"");
	free(text);
	CHECK(raw_line(fd) == NULL);
	close(fd);
	fd = raw_connect(cluster.nodes[0].address);
	CHECK(raw_send(fd, STATUS "\n{\"half", strlen(STATUS) + 7));
	shutdown(fd, SHUT_WR);
	text = raw_line(fd);
	CHECK_HAS(text ? text : "", "\"result\"");
	free(text);
	text = raw_line(fd);
	CHECK_HAS(text ? text : "", "-32700");
	free(text);
	close(fd);
	cluster_fini(&cluster);
}

void a_line_over_the_limit_is_skipped(void)
{
	struct cluster cluster;
	char *line = malloc(3 * JSONRPC_REQUEST_MAX);
	char *text;
	int fd;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	fd = raw_connect(cluster.nodes[0].address);
	/* Blanks before a request: exactly at the limit it is served, a byte more and it is not. */
	memset(line, ' ', 3 * JSONRPC_REQUEST_MAX);
	strcpy(line + JSONRPC_REQUEST_MAX - strlen(STATUS), STATUS);
	CHECK_INT(raw_code(fd, line), 0);
	memset(line, ' ', 3 * JSONRPC_REQUEST_MAX);
	strcpy(line + JSONRPC_REQUEST_MAX + 1 - strlen(STATUS), STATUS);
	CHECK_INT(raw_code(fd, line), REQUEST);
	memset(line, 'x', 3 * JSONRPC_REQUEST_MAX);
	CHECK(raw_send(fd, line, 3 * JSONRPC_REQUEST_MAX));
	CHECK(raw_send(fd, "\n", 1));
	text = raw_line(fd);
	CHECK_HAS(text ? text : "", "2097152 bytes");
	free(text);
	CHECK_INT(raw_code(fd, STATUS), 0);
	close(fd);
	free(line);
	cluster_fini(&cluster);
}

void shutdown_is_for_the_unix_socket(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *result;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	CHECK(call(cluster.nodes[0].address, "shutdown", NULL, &err) == NULL);
	CHECK_INT(err.code, -EPERM);
	CHECK_UINT(cluster.nodes[0].plane.shutdowns, 0);
	result = call(cluster.nodes[0].config.control_socket, "shutdown", NULL, &err);
	CHECK(json_is_true(result));
	json_decref(result);
	CHECK_UINT(cluster.nodes[0].plane.shutdowns, 1);
	cluster_fini(&cluster);
}

void status_tells_node_and_figures(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *status, *nodes;

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	status = call(cluster.nodes[0].address, "status", NULL, &err);
	CHECK_STR(json_string_value(json_object_get(status, "name")), "ps:0");
	CHECK_STR(json_string_value(json_object_get(status, "job")), "ps");
	CHECK_INT(json_integer_value(json_object_get(status, "incarnation")), 100);
	CHECK_INT(json_integer_value(json_object_get(status, "epoch")), 1);
	CHECK_INT(json_integer_value(json_object_get(status, "pid")), getpid());
	CHECK_STR(json_string_value(json_object_get(status, "version")), STAR_VERSION);
	CHECK_STR(json_string_value(json_object_get(status, "data")), "198.18.0.1:5555");
	CHECK(json_is_false(json_object_get(status, "polling")));
	CHECK_UINT(json_array_size(json_object_get(status, "reactors")), 1);
	nodes = json_object_get(status, "nodes");
	CHECK_UINT(json_array_size(nodes), 2);
	CHECK(json_is_true(json_object_get(json_array_get(nodes, 1), "joined")));
	json_decref(status);
	CHECK(wait_epoch(&cluster.nodes[1], 1));
	status = call(cluster.nodes[1].config.control_socket, "status", NULL, &err);
	CHECK_INT(json_integer_value(json_object_get(status, "task")), 1);
	CHECK_STR(json_string_value(json_object_get(json_object_get(status, "leader"), "control")),
		  cluster.nodes[0].address);
	json_decref(status);
	cluster_fini(&cluster);
}

void endpoint_map_is_told(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *map, *entry;

	cluster_init(&cluster, 2);
	node_start(&cluster, 0, 9);
	map = call(cluster.nodes[0].address, "endpoint_map", NULL, &err);
	CHECK_UINT(json_array_size(map), 2);
	entry = json_array_get(map, 1);
	CHECK_STR(json_string_value(json_object_get(entry, "control")), cluster.nodes[1].address);
	CHECK_STR(json_string_value(json_object_get(entry, "data")), "198.18.0.2:5555");
	json_decref(map);
	cluster_fini(&cluster);
}

/* The server looks for connections that have stalled once a second: also right after half a line has come. */
void half_lines_are_no_stall(void)
{
	const uint64_t until_us = clock_us() + 4000000;
	struct cluster cluster;
	int fd;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	fd = raw_connect(cluster.nodes[0].address);
	while (clock_us() < until_us) {
		raw_send(fd, "{", 1);
		usleep(100); /* so that the server takes it by itself */
		if (!CHECK_INT(raw_code(fd, &STATUS[1]), 0))
			break;
	}
	close(fd);
	cluster_fini(&cluster);
}

void status_answers_while_the_executor_is_busy(void)
{
	struct cluster cluster;
	json_t *create = json_pack("{s:s, s:i, s:s, s:o}", "jsonrpc", "2.0", "id", 5, "method", "create", "params",
				   table_json("words", 8));
	char *line = json_dumps(create, JSON_COMPACT), *text;
	int busy, gone, fd;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	set_hold(&cluster.nodes[0], true);
	busy = raw_connect(cluster.nodes[0].address);
	gone = raw_connect(cluster.nodes[0].address);
	raw_send(busy, line, strlen(line));
	raw_send(busy, "\n", 1);
	CHECK(wait_holding(&cluster.nodes[0], 1));
	/* One that goes away while its request waits in the queue. */
	raw_send(gone, line, strlen(line));
	raw_send(gone, "\n", 1);
	close(gone);
	fd = raw_connect(cluster.nodes[0].address);
	for (int i = 0; i < 50; i++)
		CHECK_INT(raw_code(fd, STATUS), 0);
	CHECK_UINT(PLANE(&cluster.nodes[0], installed_count), 0);
	set_hold(&cluster.nodes[0], false);
	text = raw_line(busy);
	CHECK_HAS(text ? text : "", "\"id\":5");
	free(text);
	CHECK_INT(raw_code(fd, STATUS), 0);
	CHECK_UINT(PLANE(&cluster.nodes[0], installed_count), 1);
	close(fd);
	close(busy);
	free(line);
	json_decref(create);
	cluster_fini(&cluster);
}

static void *release_later(void *arg)
{
	usleep(100000);
	set_hold(arg, false);
	return NULL;
}

void a_stop_answers_what_is_queued(void)
{
	struct cluster cluster;
	json_t *create = json_pack("{s:s, s:i, s:s, s:o}", "jsonrpc", "2.0", "id", 5, "method", "create", "params",
				   table_json("words", 8));
	char *line = json_dumps(create, JSON_COMPACT), *text;
	pthread_t thread;
	int fd[3];

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	set_hold(&cluster.nodes[0], true);
	for (int i = 0; i < 3; i++) {
		fd[i] = raw_connect(cluster.nodes[0].address);
		raw_send(fd[i], line, strlen(line));
		raw_send(fd[i], "\n", 1);
		if (i == 0)
			CHECK(wait_holding(&cluster.nodes[0], 1));
	}
	/* A request of each connection has been read once a later one of another connection is answered. */
	{
		int probe = raw_connect(cluster.nodes[0].address);

		CHECK_INT(raw_code(probe, STATUS), 0);
		close(probe);
	}
	pthread_create(&thread, NULL, release_later, &cluster.nodes[0]);
	node_stop(&cluster, 0);
	pthread_join(thread, NULL);
	text = raw_line(fd[0]);
	CHECK_HAS(text ? text : "", "\"result\"");
	free(text);
	for (int i = 1; i < 3; i++) {
		text = raw_line(fd[i]);
		CHECK_HAS(text ? text : "", "shutting down");
		free(text);
	}
	for (int i = 0; i < 3; i++)
		close(fd[i]);
	free(line);
	json_decref(create);
	cluster_fini(&cluster);
}
