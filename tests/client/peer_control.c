/* SPDX-License-Identifier: BSD-3-Clause */
/* The double's control plane: layout, create, lookup; one connection at a time. */
#include "tests/client/peer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jsonrpc/jsonrpc_message.h"
#include "secure/ticket.h"
#include "base/clock.h"

static json_t *layout(struct peer *p, struct star_error *err)
{
	if (p->layout_again) {
		p->layout_again--;
		star_error_set(err, -EAGAIN, "PS task 1 has not joined yet");
		return NULL;
	}
	p->layout->epoch = p->published_epoch;
	p->layout->partitions = p->partitions;
	p->layout->nodes_count = p->active_nodes;
	p->layout->reactors = p->active_nodes * p->reactors_per_node;
	for (uint32_t n = 0; n < p->active_nodes; n++) {
		p->layout->nodes[n].reactors = p->reactors_per_node;
		p->layout->nodes[n].incarnation = p->incarnation[n];
		p->layout->nodes[n].request_max = p->request_max[n];
		snprintf(p->layout->nodes[n].control, sizeof(p->layout->nodes[n].control), "%s",
			 !p->tickets	   ? ""
			 : p->ticket_place ? p->ticket_place
					   : p->address + strlen("tcp:"));
		strcpy(p->layout->nodes[n].data_host, p->datagrams ? PEER_DATA_HOST : "127.0.0.1");
	}
	return jsonrpc_layout_encode(p->layout);
}

static const struct object_spec *find(const struct peer *p, const char *name)
{
	for (uint32_t i = 0; i < p->objects_count; i++)
		if (strcmp(p->objects[i].name, name) == 0)
			return &p->objects[i];
	return NULL;
}

static json_t *create(struct peer *p, const json_t *params, struct star_error *err)
{
	const struct object_spec *have;
	struct object_spec spec = { 0 };

	if (jsonrpc_object_decode(params, &spec, err) < 0)
		return NULL;
	have = find(p, spec.name);
	if (have && wire_object_spec_same(have, &spec, err) < 0)
		return NULL;
	if (!have) {
		spec.id = p->objects_count + 1;
		p->objects[p->objects_count++] = spec;
		have = &p->objects[p->objects_count - 1];
	}
	return jsonrpc_object_encode(have);
}

static json_t *lookup(struct peer *p, const json_t *params, struct star_error *err)
{
	const char *name = json_string_value(json_object_get(params, "name"));
	const struct object_spec *have = name ? find(p, name) : NULL;

	if (have)
		return jsonrpc_object_encode(have);
	star_error_set(err, -ENOENT, "there is no table or variable \"%s\"", name ? name : "?");
	return NULL;
}

/* By a handle: its id and generation must be those of the name. */
static bool is_meant(const struct object_spec *have, const json_t *params)
{
	return have && json_integer_value(json_object_get(params, "id")) == have->id &&
	       json_integer_value(json_object_get(params, "generation")) == have->generation;
}

/* A begin has no ticket, all other questions have that of the begin. */
static json_t *empty(struct peer *p, const json_t *params, struct star_error *err)
{
	const char *name = json_string_value(json_object_get(params, "name"));
	const json_t *ticket = json_object_get(params, "ticket");

	if (!name || !is_meant(find(p, name), params) || (ticket && json_integer_value(ticket) != 4711)) {
		star_error_set(err, -ENOENT, "there is no table \"%s\", or another ticket", name ? name : "?");
		return NULL;
	}
	if (++p->empty_asked == p->empty_restart) {
		star_error_set(err, -ESTALE, "a PS task was restarted");
		return NULL;
	}
	if (ticket && p->empty_left)
		p->empty_left--;
	return json_pack("{s:i, s:I, s:i}", "nodes", (int)p->active_nodes, "left", (json_int_t)p->empty_left, "ticket",
			 4711);
}

static json_t *drop(struct peer *p, const json_t *params, struct star_error *err)
{
	const char *name = json_string_value(json_object_get(params, "name"));
	const struct object_spec *have = name ? find(p, name) : NULL;

	if (is_meant(have, params)) {
		p->dropped++;
		return json_pack("{s:i, s:[]}", "nodes", (int)p->active_nodes, "later");
	}
	star_error_set(err, -ENOENT, "\"%s\" is another table by now", name ? name : "?");
	return NULL;
}

/* Of a queue with two slices: a worker that reports its slices waits for the gate, and hears that another one has the
 * second slice by then. */
static json_t *work(struct peer *p, const json_t *params)
{
	if (json_is_true(json_object_get(params, "wants")))
		return p->queue_given < 2 ? json_pack("{s:i}", "slice", (int)p->queue_given++)
					  : json_pack("{s:b}", "over", true);
	p->held++;
	pthread_cond_broadcast(&p->changed);
	while (!p->gate)
		pthread_cond_wait(&p->changed, &p->lock);
	return json_pack("{s:[i]}", "lost", 1);
}

static json_t *hexadecimal(const uint8_t *bytes, size_t count)
{
	char text[512];

	for (size_t i = 0; i < count; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	return json_string(text);
}

static json_t *ticket(struct peer *p, struct star_error *err)
{
	static const struct secure_key worker = { .principal = "worker", .role = SECURE_WORKER, .id = "01234567" };
	uint8_t secret[SECURE_HASH_BYTES];
	struct secure_ticket t;

	p->tickets_asked++;
	if (p->tickets_refused) {
		p->tickets_refused--;
		star_error_set(err, -EPERM, "no ticket for you");
		return NULL;
	}
	if (!p->tickets || secure_tickets_issue(p->tickets, &worker, clock_ns(), &t, secret, err) < 0)
		return NULL;
	return json_pack("{s:o, s:o, s:s, s:i}", "ticket", hexadecimal(t.bytes, sizeof(t.bytes)), "secret",
			 hexadecimal(secret, sizeof(secret)), "data", secure_data_name(secure_tickets_data(p->tickets)),
			 "good_for_s", 600);
}

/* NULL: it is not answered. */
static char *answer(struct peer *p, const char *line, size_t bytes)
{
	struct jsonrpc_request request;
	struct star_error err = { 0 };
	json_t *result = NULL;
	bool hushed = false;
	char *reply;

	if (jsonrpc_request_parse(line, bytes, &request, &err) == 0) {
		pthread_mutex_lock(&p->lock);
		hushed = p->hushed && strcmp(request.method, "layout") == 0;
		p->hushed_count += hushed;
		if (hushed)
			pthread_cond_broadcast(&p->changed);
		else if (strcmp(request.method, "layout") == 0)
			result = layout(p, &err);
		else if (strcmp(request.method, "create") == 0)
			result = create(p, request.params, &err);
		else if (strcmp(request.method, "lookup") == 0)
			result = lookup(p, request.params, &err);
		else if (strcmp(request.method, "ticket") == 0)
			result = ticket(p, &err);
		else if (strcmp(request.method, "empty") == 0)
			result = empty(p, request.params, &err);
		else if (strcmp(request.method, "queue_open") == 0)
			result = json_pack("{s:i}", "incarnation", 1);
		else if (strcmp(request.method, "queue_work") == 0)
			result = work(p, request.params);
		else if (strcmp(request.method, "table_drop") == 0)
			result = drop(p, request.params, &err);
		else
			star_error_set(&err, JSONRPC_UNKNOWN_METHOD, "no method \"%s\"", request.method);
		pthread_mutex_unlock(&p->lock);
	}
	reply = hushed ? NULL : result ? jsonrpc_result_line(request.id, result) : jsonrpc_error_line(request.id, &err);
	json_decref(request.root);
	return reply;
}

static void serve(struct peer *p, int fd)
{
	struct pollfd poller = { .fd = fd, .events = POLLIN };
	char line[16384];
	size_t bytes = 0;

	while (bytes < sizeof(line) && poll(&poller, 1, 60000) > 0) {
		ssize_t n = recv(fd, line + bytes, sizeof(line) - bytes, 0);
		char *reply;

		if (n <= 0)
			return;
		bytes += (size_t)n;
		if (line[bytes - 1] != '\n')
			continue;
		reply = answer(p, line, bytes - 1);
		bytes = 0;
		if (!reply)
			continue;
		n = send(fd, reply, strlen(reply), MSG_NOSIGNAL);
		free(reply);
		if (n < 0)
			return;
	}
}

void *peer_control_main(void *arg)
{
	struct peer *p = arg;

	for (;;) {
		int fd = accept4(p->control_listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			return NULL;
		serve(p, fd);
		close(fd);
	}
}
