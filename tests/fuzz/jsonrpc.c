/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control plane's messages, without its sockets and threads, for which this file stands in. The first byte says
 * whose ear it is: PS task 0 alone, PS task 0 of three, PS task 1, or a client and a follower that read replies; the
 * rest are lines. Every request gets one line that is a JSON-RPC reply with its id.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/log.h"
#include "control/control.h"
#include "control/follower.c"
#include "jsonrpc/jsonrpc_message.h"
#include "control/node.h"
#include "jsonrpc/summed.h"

enum { LINES_MAX = 64, PS_MAX = 3 };

enum ways {
	WAY_ROLE = 3,
	WAY_ADMIN = 4,
	WAY_INSTALL_FAILS = 8,
	WAY_PEERS_FAIL = 16,
};

enum roles { ROLE_ALONE, ROLE_LEADER, ROLE_FOLLOWER, ROLE_READER };

static uint8_t way;
static char *answered; /* what was put off and has come */
static bool was_answered;
static uint32_t wants; /* a follower, of the catalogue: the page that begins there */

/* ---- what stands in for sockets and threads ---- */

void control_executor_post(struct executor *executor, struct executor_job *job,
			   void (*run)(struct executor_job *job, bool cancelled))
{
	run(job, false);
}

void control_line_server_answer(struct line_connection *connection, char *reply)
{
	FUZZ_CHECK(!was_answered, "answered twice");
	was_answered = true;
	answered = reply;
}

struct line_server_counts control_line_server_count(const struct line_connection *connection)
{
	return (struct line_server_counts){ 1, 2, 3, 4, 5, 6, 7 };
}

struct jsonrpc_client *jsonrpc_connect(const char *address, uint64_t deadline_us, struct star_error *err)
{
	if (!(way & WAY_PEERS_FAIL))
		return (struct jsonrpc_client *)&way; /* never looked into */
	star_error_set(err, -ECONNREFUSED, "cannot reach %s", address);
	return NULL;
}

struct jsonrpc_client *jsonrpc_connect_from(const char *source, const struct secure_keys *keys, const char *address,
					    uint64_t deadline_us, struct star_error *err)
{
	return jsonrpc_connect(address, deadline_us, err);
}

const uint8_t *control_line_connection_peer(const struct line_connection *connection)
{
	return NULL; /* nodes and administrators: strangers get no further than check_origin */
}

const struct secure_key *control_line_connection_principal(const struct line_connection *connection)
{
	return NULL;
}

uint32_t control_line_connection_user(const struct line_connection *connection)
{
	return 0;
}

enum line_quota control_line_connection_ask(struct line_connection *connection)
{
	return LINE_QUOTA_NONE;
}

const struct line_guest *control_line_server_guests(const struct line_connection *connection)
{
	return NULL;
}

void control_line_server_review(struct line_server *server)
{
}

int control_begin_with(struct control *control, struct star_error *err)
{
	return 0; /* there is nothing that a cluster could begin with */
}

void jsonrpc_close(struct jsonrpc_client *client)
{
}

void jsonrpc_interrupt(struct jsonrpc_client *client)
{
}

json_t *jsonrpc_call(struct jsonrpc_client *client, const char *method, json_t *params, uint64_t deadline_us,
		     struct star_error *err)
{
	size_t bytes;
	char *line = jsonrpc_request_line(1, method, params, &bytes);

	FUZZ_CHECK(line && bytes == strlen(line) && line[bytes - 1] == '\n', "a request that cannot be written");
	free(line);
	return json_true();
}

/* ---- a data plane ---- */

static int install(void *ctx, const struct object_spec *spec, struct star_error *err)
{
	struct object_spec copy = *spec;

	FUZZ_CHECK(spec->id >= 1 && spec->id <= WIRE_OBJECTS_MAX && wire_object_spec_check(&copy, err) == 0,
		   "a bad object is installed: %s", err->text);
	return way & WAY_INSTALL_FAILS ? star_error_set(err, -ENOSPC, "no room") : 0;
}

static int set_layout(void *ctx, const struct control_layout *layout, struct star_error *err)
{
	FUZZ_CHECK(layout->epoch && layout->first_reactor < layout->cluster_reactors, "layout %u: %u of %u",
		   layout->epoch, layout->first_reactor, layout->cluster_reactors);
	return 0;
}

static json_t *status(void *ctx)
{
	return json_pack("{s:i}", "reactors", 2);
}

static int connections(void *ctx, const struct control_connections *which, json_t **result, struct star_error *err)
{
	FUZZ_CHECK(which->reactor >= -1 && which->reactor < WIRE_REACTORS_MAX && which->limit >= 1 &&
			   which->limit <= CONTROL_CONNECTIONS_MAX,
		   "%u connections of reactor %d", which->limit, which->reactor);
	*result = json_pack("{s:b, s:[]}", "more", false, "connections");
	return 0;
}

static void stop(void *ctx)
{
}

static int sweep(void *ctx, const struct object_spec *spec, struct star_error *err)
{
	FUZZ_CHECK(spec->steps_to_live || spec->l2_threshold > 0, "a sweep of \"%s\", which has nothing to evict by",
		   spec->name);
	return way & WAY_INSTALL_FAILS ? star_error_set(err, -ETIMEDOUT, "no answer") : 0;
}

static int row_keys(void *ctx, const struct object_spec *spec, struct control_row_keys *which, json_t *keys,
		    struct star_error *err)
{
	FUZZ_CHECK(spec->kind != OBJECT_PROGRAM && which->reactor < WIRE_REACTORS_MAX, "keys of \"%s\"", spec->name);
	json_array_append_new(keys, json_integer(7));
	which->at = way & WAY_INSTALL_FAILS ? UINT64_MAX : 0;
	return 0;
}

static int rows(void *ctx, const struct object_spec *spec, const uint64_t *keys, uint32_t count, json_t *records,
		struct star_error *err)
{
	FUZZ_CHECK(spec->kind != OBJECT_PROGRAM && count && count <= CONTROL_ROWS_KEYS, "%u keys", count);
	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(records, keys[i] ? json_null() : json_string("00"));
	return way & WAY_INSTALL_FAILS ? star_error_set(err, -ETIMEDOUT, "reactor 0 does not answer") : 0;
}

static int empty(void *ctx, const struct object_spec *spec, bool begin, uint64_t *left, struct star_error *err)
{
	(void)begin;
	FUZZ_CHECK(spec->kind != OBJECT_PROGRAM, "the program \"%s\" is to be emptied", spec->name);
	*left += 1;
	return way & WAY_INSTALL_FAILS ? star_error_set(err, -ETIMEDOUT, "no answer") : 0;
}

static json_t *object_status(void *ctx, const struct object_spec *spec, bool by_reactor)
{
	return json_pack("{s:i}", "rows", (int)spec->id);
}

static int port_add(void *ctx, const struct config_port *port, int number, json_t **result, struct star_error *err)
{
	struct config_memif memif;

	FUZZ_CHECK(number >= -1 && number < 1000 && port->addresses_count >= 1 &&
			   port->addresses_count <= CONFIG_ADDRESSES_MAX && port->mtu >= 576 && port->mtu <= 9000,
		   "a bad port is added");
	FUZZ_CHECK(strcmp(port->device, "net_memif") != 0 || config_memif_read(port, &memif, err) == 0, "%s",
		   err->text);
	*result = json_pack("{s:s}", "name", port->device);
	return 0;
}

static int port_remove(void *ctx, const char *name, json_t **result, struct star_error *err)
{
	return star_error_set(err, -ENOENT, "there is no port %s", name);
}

static json_t *list_ports(void *ctx)
{
	return json_array();
}

static const struct control_data_plane data_plane = { .install = install,
						      .set_layout = set_layout,
						      .sweep = sweep,
						      .empty = empty,
						      .row_keys = row_keys,
						      .rows = rows,
						      .object_status = object_status,
						      .status = status,
						      .connections = connections,
						      .port_add = port_add,
						      .port_remove = port_remove,
						      .ports = list_ports,
						      .shutdown = stop };

/* ---- a node ---- */

static struct config_address ps[PS_MAX] = { { "198.18.1.1", 3333 }, { "198.18.1.2", 3333 }, { "198.18.1.3", 3333 } };
static struct config_address ps_others[PS_MAX] = { [1] = { "198.18.1.9", 3333 } }; /* PS task 1 is a pair */
static struct config_endpoint endpoints[PS_MAX] = {
	{ { "198.18.1.1", 3333 }, { "198.18.0.1", 5555 } },
	{ { "198.18.1.2", 3333 }, { "198.18.0.2", 5555 } },
	{ { "198.18.1.3", 3333 }, { "198.18.0.3", 5555 } },
};

static void control_begin(struct control *control, struct config *config)
{
	const unsigned role = way & WAY_ROLE;
	struct star_error err = { 0 };

	*config = (struct config){ .job_name = "ps",
				   .task_index = role == ROLE_FOLLOWER || role == ROLE_READER,
				   .ps = ps,
				   .ps_others = ps_others,
				   .ps_count = role == ROLE_ALONE ? 1 : PS_MAX,
				   .endpoints = endpoints,
				   .endpoints_count = PS_MAX,
				   .reactors = 2,
				   .partitions = 16384,
				   .request_mib = 4,
				   .connect_timeout_ms = 1 };
	config->own = endpoints[config->task_index];
	*control = (struct control){ .config = config,
				     .data_plane = data_plane,
				     .incarnation = 7,
				     .inherited = 7,
				     .task = config->task_index,
				     .socket_path = "/run/starserver/ps.sock" };
	pthread_mutex_init(&control->lock, NULL);
	pthread_mutex_init(&control->plane, NULL);
	if (control->task)
		return;
	control->nodes = calloc(config->ps_count, sizeof(control->nodes[0]));
	FUZZ_CHECK(control->nodes, "no memory");
	control->nodes[0].layout = (struct layout_node){ .incarnation = 7,
							 .data_host = "198.18.0.1",
							 .data_port = 5555,
							 .reactors = 2,
							 .request_max = WIRE_PAYLOAD_DEFAULT };
	control->nodes[0].incarnation = 7;
	control->nodes[0].joined = true;
	control->layout_due = true;
	FUZZ_CHECK(control_leader_lay_out(control, 0, &err) == 0, "no layout: %s", err.text);
}

static void control_end(struct control *control)
{
	control_queues_fini(&control->queues);
	for (uint32_t id = 1; id <= control->objects_last; id++)
		free(control->objects[id]);
	for (unsigned i = 0; i < control->retired_count; i++)
		free(control->retired[i]);
	free(control->retired);
	free(control->nodes);
}

/* ---- lines ---- */

/* One line, JSON, with the id of the request as far as it has one. */
static void check_reply(const char *reply, const json_t *request)
{
	const size_t bytes = strlen(reply);
	const json_t *id = json_object_get(request, "id"), *got;
	json_t *json = json_loadb(reply, bytes, JSON_REJECT_DUPLICATES, NULL);

	FUZZ_CHECK(bytes && strchr(reply, '\n') == reply + bytes - 1, "a reply that is not one line: %s", reply);
	FUZZ_CHECK(json_is_object(json), "a reply that is not a JSON object: %s", reply);
	FUZZ_CHECK(!json_object_get(json, "result") != !json_object_get(json, "error"), "a reply like %s", reply);
	got = json_object_get(json, "id");
	FUZZ_CHECK(got && (json_is_null(got) || json_equal(got, id)), "a reply to another request: %s", reply);
	json_decref(json);
}

static void serve(struct control *control, const char *line, size_t bytes)
{
	struct line_connection *connection = (struct line_connection *)&way; /* never looked into */
	json_t *request = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL);
	char *reply = NULL;
	enum line_outcome outcome;

	was_answered = false;
	answered = NULL;
	outcome = control_methods_serve(control, connection, way & WAY_ADMIN, line, bytes, &reply);
	FUZZ_CHECK(was_answered == (outcome == LINE_LATER), "put off and not answered, or the other way round");
	FUZZ_CHECK(outcome != LINE_CLOSE, "a connection closed without a reason");
	reply = was_answered ? answered : reply;
	if (reply)
		check_reply(reply, request);
	else
		FUZZ_CHECK(json_is_object(request) && !json_object_get(request, "id"), "no reply to %.*s", (int)bytes,
			   line);
	free(reply);
	json_decref(request);
}

/* A journal's catalogue: any other line is refused, but what was written is read back. */
static void add_lines(const char *line, size_t bytes)
{
	json_t *json = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL), *back;
	size_t at = 0, n = 0;
	struct star_error err;
	char *written, *whole = malloc(bytes + 1);

	memcpy(whole, line, bytes);
	whole[bytes] = '\n';
	back = jsonrpc_summed_next(whole, bytes + 1, &at, &err);
	FUZZ_CHECK(at == bytes + 1 && !back == !!err.code, "a line to byte %zu of %zu", at, bytes);
	FUZZ_CHECK(jsonrpc_summed_end(line, bytes) <= bytes, "an end beyond the text");
	json_decref(back);
	free(whole);
	written = jsonrpc_summed_line(json, &n);
	if (written) {
		at = 0;
		back = jsonrpc_summed_next(written, n, &at, &err);
		FUZZ_CHECK(back && at == n && json_equal(json, back), "what was written is another: %s", written);
		json_decref(back);
	}
	free(written);
	json_decref(json);
}

/* What a client, a worker and a follower make of a server's line. */
static void read_reply(struct control *control, const char *line, size_t bytes)
{
	struct star_error err = { 0 };
	json_t *result = jsonrpc_reply_parse(line, bytes, 1, "198.18.1.1:3333", &err);
	struct object_spec spec;
	struct layout *layout;

	FUZZ_CHECK(!result == !!err.code && !result == !!err.text[0], "an outcome of %d, \"%s\"", err.code, err.text);
	if (!result)
		return;
	layout = jsonrpc_layout_decode(result, &err);
	if (layout)
		json_decref(jsonrpc_layout_encode(layout));
	free(layout);
	if (jsonrpc_object_decode(result, &spec, &err) == 0)
		json_decref(jsonrpc_object_encode(&spec));
	take_reply(control, result, &wants, clock_us(), &err);
	FUZZ_CHECK(wants >= 1 && wants <= WIRE_OBJECTS_MAX, "a page from id %u on", wants);
	json_decref(result);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	log_set_level(LOG_ERROR + 1);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, data + bytes };
	struct control control;
	struct config config;

	way = take8(&in);
	wants = 1;
	control_begin(&control, &config);
	for (unsigned i = 0; i < LINES_MAX && input_left(&in); i++) {
		const uint8_t *newline = memchr(in.at, '\n', input_left(&in));
		const size_t n = newline ? (size_t)(newline - in.at) : input_left(&in);
		/* A copy of its own, so that what is read behind its end is seen. */
		char *line = memcpy(malloc(n ? n : 1), in.at, n);

		add_lines(line, n);
		if ((way & WAY_ROLE) == ROLE_READER)
			read_reply(&control, line, n);
		else
			serve(&control, line, n);
		free(line);
		in.at += n + !!newline;
	}
	control_end(&control);
	return 0;
}
