/* SPDX-License-Identifier: BSD-3-Clause */
/* The methods, in one table: who may call them, on which thread they run, and what they do. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/nearest.h"
#include "jsonrpc/jsonrpc_message.h"
#include "jsonrpc/member.h"
#include "control/node.h"

struct call;

enum method_flags {
	METHOD_ADMIN = 1 << 0,	   /* on the Unix socket or, with keys, for admins only */
	METHOD_SLOW = 1 << 1,	   /* runs on the executor's thread */
	METHOD_LEADER = 1 << 2,	   /* answered by PS task 0; another node forwards it */
	METHOD_AT_LEADER = 1 << 3, /* sent by nodes to PS task 0; another node refuses it */
	METHOD_AT_OTHERS = 1 << 4, /* sent by PS task 0 to nodes; PS task 0 refuses it */
	METHOD_OF_NODE = 1 << 5,   /* only from the addresses of the task "task" in cluster.ps, or of PS task 0 */
	METHOD_NOTED = 1 << 6,	   /* also logged in the audit log when it succeeds, because it changes something */
	METHOD_MAKES = 1 << 7,	   /* needs some right to the table "name", if there is a file security.rights */
	METHOD_DELETES = 1 << 8,   /* needs the right to delete its rows */
	METHOD_READS = 1 << 9,	   /* needs the right to pull them */
};

/* Sets of roles: enum secure_role. A node forwards requests of others after it has checked their rights. */
enum method_roles {
	NODES = SECURE_BIT(SECURE_NODE),
	ADMINS = SECURE_BIT(SECURE_ADMIN),
	KEEPERS = ADMINS | SECURE_BIT(SECURE_OPERATOR),
	LOOKERS = KEEPERS | SECURE_BIT(SECURE_READER),
	WORKERS = SECURE_BIT(SECURE_WORKER),
};

struct method {
	const char *name;
	unsigned flags;
	unsigned roles; /* roles that may call it, if there are keys */
	/* 0 with *result (which may be left NULL for true), or a code of star_error. */
	int (*run)(const struct call *call, json_t **result, struct star_error *err);
};

/* A request in progress. */
struct call {
	struct executor_job job;
	struct control *control;
	struct line_connection *connection;
	const struct method *method;
	struct jsonrpc_request request;
	size_t bytes;		  /* of the request's line */
	struct audit_event event; /* the caller */
};

static int no_params(const struct call *call, struct star_error *err)
{
	static const char *const none[] = { NULL };

	return jsonrpc_member_only(call->request.params, none, err) < 0 ? control_invalid(err) : 0;
}

static int run_layout(const struct call *call, json_t **result, struct star_error *err)
{
	const int rc = no_params(call, err);

	return rc ? rc : control_leader_layout(call->control, result, err);
}

static int run_create(const struct call *call, json_t **result, struct star_error *err)
{
	return control_leader_create(call->control, call->request.params, result, err);
}

static int take_name(const struct call *call, const char **name, struct star_error *err)
{
	static const char *const members[] = { "name", NULL };

	if (jsonrpc_member_only(call->request.params, members, err) < 0 ||
	    jsonrpc_member_string(call->request.params, "name", WIRE_NAME_MAX, name, err) < 0)
		return control_invalid(err);
	return 0;
}

static int run_lookup(const struct call *call, json_t **result, struct star_error *err)
{
	const char *name;
	const int rc = take_name(call, &name, err);

	return rc ? rc : control_leader_lookup(call->control, name, result, err);
}

static int run_queue_open(const struct call *call, json_t **result, struct star_error *err)
{
	return control_queue_make(call->control, call->request.params, result, err);
}

static int run_queue_work(const struct call *call, json_t **result, struct star_error *err)
{
	return control_queue_ask(call->control, call->request.params, result, err);
}

static int run_queues(const struct call *call, json_t **result, struct star_error *err)
{
	const int rc = no_params(call, err);

	return rc ? rc : control_queue_list(call->control, result, err);
}

static int run_queue_drop(const struct call *call, json_t **result, struct star_error *err)
{
	const char *name;
	const int rc = take_name(call, &name, err);

	return rc ? rc : control_queue_remove(call->control, name, err);
}

static int run_sweep(const struct call *call, json_t **result, struct star_error *err)
{
	const char *name;
	const int rc = take_name(call, &name, err);

	return rc ? rc : control_leader_sweep(call->control, name, result, err);
}

static int run_empty(const struct call *call, json_t **result, struct star_error *err)
{
	return control_leader_empty(call->control, call->request.params, result, err);
}

static int run_drop(const struct call *call, json_t **result, struct star_error *err)
{
	return control_leader_drop(call->control, call->request.params, result, err);
}

static int run_tables(const struct call *call, json_t **result, struct star_error *err)
{
	return control_tables(call->control, call->request.params, result, err);
}

static int run_join(const struct call *call, json_t **result, struct star_error *err)
{
	return control_leader_join(call->control, call->request.params, result, err);
}

static int run_heartbeat(const struct call *call, json_t **result, struct star_error *err)
{
	return control_leader_heartbeat(call->control, call->request.params, result, err);
}

static int run_leave(const struct call *call, json_t **result, struct star_error *err)
{
	return control_leave_take(call->control, call->request.params, result, err);
}

static int run_install(const struct call *call, json_t **result, struct star_error *err)
{
	return control_follower_install(call->control, call->request.params, result, err);
}

static int run_endpoint_map(const struct call *call, json_t **result, struct star_error *err)
{
	const struct config *config = call->control->config;
	const int rc = no_params(call, err);

	if (rc)
		return rc;
	*result = json_array();
	for (uint32_t i = 0; i < config->endpoints_count; i++)
		json_array_append_new(*result, control_endpoint_json(&config->endpoints[i]));
	return 0;
}

static int run_status(const struct call *call, json_t **result, struct star_error *err)
{
	const struct control_data_plane *data_plane = &call->control->data_plane;
	json_t *figures;
	int rc = no_params(call, err);

	if (rc)
		return rc;
	*result = control_node_json(call->control, control_line_server_count(call->connection));
	figures = data_plane->status(data_plane->ctx);
	json_object_update_missing(*result, figures);
	json_decref(figures);
	return 0;
}

static int run_metrics(const struct call *call, json_t **result, struct star_error *err)
{
	return control_metrics_page(call->control, call->request.params, result, err);
}

/* Reports or sets the level. */
static int run_log_level(const struct call *call, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "level", NULL };
	const json_t *params = call->request.params;
	const enum log_level before = log_get_level();
	enum log_level level = before;
	const char *name;

	if (jsonrpc_member_only(params, members, err) < 0)
		return control_invalid(err);
	if (json_object_get(params, "level")) {
		if (jsonrpc_member_string(params, "level", 16, &name, err) < 0)
			return control_invalid(err);
		if (!log_level_from(name, &level))
			return star_error_set(err, JSONRPC_INVALID_PARAMS,
					      "there is no log level \"%s\": debug, info, warning or error", name);
	}
	log_set_level(level < before ? level : before); /* so that the line is logged */
	if (level != before)
		log_write(log_get_level(), "log level: %s, and not %s any more", log_level_name(level),
			  log_level_name(before));
	log_set_level(level);
	*result = json_pack("{s:s}", "level", log_level_name(level));
	return 0;
}

static int run_health(const struct call *call, json_t **result, struct star_error *err)
{
	const int rc = no_params(call, err);

	if (rc == 0)
		*result = control_health_json(call->control);
	return rc;
}

static int run_connections(const struct call *call, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "reactor", "state", "peer", "limit", NULL };
	const struct control_data_plane *data_plane = &call->control->data_plane;
	struct control_connections which = { .reactor = -1, .limit = CONTROL_CONNECTIONS_USUAL };
	const json_t *params = call->request.params;
	uint32_t reactor;

	if (jsonrpc_member_only(params, members, err) < 0)
		return control_invalid(err);
	if (json_object_get(params, "reactor")) {
		if (jsonrpc_member_u32(params, "reactor", 0, WIRE_REACTORS_MAX - 1, &reactor, err) < 0)
			return control_invalid(err);
		which.reactor = (int)reactor;
	}
	if ((json_object_get(params, "state") && jsonrpc_member_string(params, "state", 32, &which.state, err) < 0) ||
	    (json_object_get(params, "peer") && jsonrpc_member_string(params, "peer", 80, &which.peer, err) < 0) ||
	    (json_object_get(params, "limit") &&
	     jsonrpc_member_u32(params, "limit", 1, CONTROL_CONNECTIONS_MAX, &which.limit, err) < 0))
		return control_invalid(err);
	return data_plane->connections(data_plane->ctx, &which, result, err);
}

static int run_latency(const struct call *call, json_t **result, struct star_error *err)
{
	return control_observed(call->control, CONTROL_LATENCY, call->request.params, result, err);
}

static int run_slow(const struct call *call, json_t **result, struct star_error *err)
{
	return control_observed(call->control, CONTROL_SLOW, call->request.params, result, err);
}

static int run_trace(const struct call *call, json_t **result, struct star_error *err)
{
	return control_observed(call->control, CONTROL_TRACE, call->request.params, result, err);
}

static int run_hot(const struct call *call, json_t **result, struct star_error *err)
{
	return control_observed(call->control, CONTROL_HOT, call->request.params, result, err);
}

static int run_history(const struct call *call, json_t **result, struct star_error *err)
{
	return control_observed(call->control, CONTROL_HISTORY, call->request.params, result, err);
}

static int run_events(const struct call *call, json_t **result, struct star_error *err)
{
	return control_events(call->control, call->request.params, result, err);
}

static int run_capture(const struct call *call, json_t **result, struct star_error *err)
{
	const struct control_data_plane *plane = &call->control->data_plane;

	return plane->capture(plane->ctx, call->request.params, result, err);
}

static int run_capture_take(const struct call *call, json_t **result, struct star_error *err)
{
	const struct control_data_plane *plane = &call->control->data_plane;

	return plane->capture_take(plane->ctx, call->request.params, result, err);
}

static int run_row_keys(const struct call *call, json_t **result, struct star_error *err)
{
	return control_rows_keys(call->control, call->request.params, result, err);
}

static int run_rows(const struct call *call, json_t **result, struct star_error *err)
{
	return control_rows_read(call->control, call->request.params, result, err);
}

static int run_ports(const struct call *call, json_t **result, struct star_error *err)
{
	const struct control_data_plane *data_plane = &call->control->data_plane;
	const int rc = no_params(call, err);

	if (rc == 0)
		*result = data_plane->ports(data_plane->ctx);
	return rc;
}

static int run_port_add(const struct call *call, json_t **result, struct star_error *err)
{
	return control_ports_add(call->control, call->request.params, result, err);
}

static int run_port_remove(const struct call *call, json_t **result, struct star_error *err)
{
	return control_ports_remove(call->control, call->request.params, result, err);
}

static int run_checkpoint_save(const struct call *call, json_t **result, struct star_error *err)
{
	return control_checkpointer_save(call->control, call->request.params, result, err);
}

static int run_checkpoint_status(const struct call *call, json_t **result, struct star_error *err)
{
	const int rc = no_params(call, err);

	return rc ? rc : control_checkpointer_status(call->control, result, err);
}

static int run_checkpoint_part(const struct call *call, json_t **result, struct star_error *err)
{
	return control_checkpointer_part(call->control, call->request.params, result, err);
}

static int run_checkpoint_restore(const struct call *call, json_t **result, struct star_error *err)
{
	return control_restore_ask(call->control, call->request.params, result, err);
}

static int run_shutdown(const struct call *call, json_t **result, struct star_error *err)
{
	const struct control_data_plane *data_plane = &call->control->data_plane;
	const int rc = no_params(call, err);

	if (rc == 0)
		data_plane->shutdown(data_plane->ctx);
	return rc;
}

static int run_promote(const struct call *call, json_t **result, struct star_error *err)
{
	const struct control_data_plane *data_plane = &call->control->data_plane;
	const int rc = no_params(call, err);

	if (rc)
		return rc;
	return data_plane->promote ? data_plane->promote(data_plane->ctx, result, err)
				   : star_error_set(err, -ENOTSUP, "the node is in no pair: it has no standby.peer");
}

static int run_acl_check(const struct call *call, json_t **result, struct star_error *err)
{
	return control_security_acl(call->control, call->request.params, control_methods_roles, result, err);
}

static int run_quotas(const struct call *call, json_t **result, struct star_error *err)
{
	return control_security_usage(call->control, call->connection, call->request.params, result, err);
}

static int run_ticket(const struct call *call, json_t **result, struct star_error *err)
{
	const int rc = no_params(call, err);

	return rc ? rc : control_security_ticket(call->control, call->connection, result, err);
}

static int run_key_reload(const struct call *call, json_t **result, struct star_error *err)
{
	return control_security_reload(call->control, call->request.params, result, err);
}

static const struct method methods[] = {
	{ "layout", METHOD_LEADER, LOOKERS | WORKERS | NODES, run_layout },
	{ "create", METHOD_LEADER | METHOD_SLOW | METHOD_NOTED | METHOD_MAKES, ADMINS | WORKERS | NODES, run_create },
	{ "lookup", METHOD_LEADER, LOOKERS | WORKERS | NODES, run_lookup },
	{ "tables", 0, LOOKERS | WORKERS, run_tables },
	{ "sweep", METHOD_LEADER | METHOD_SLOW | METHOD_NOTED, KEEPERS | NODES, run_sweep },
	{ "empty", METHOD_LEADER | METHOD_SLOW | METHOD_NOTED | METHOD_DELETES, ADMINS | WORKERS | NODES, run_empty },
	{ "table_drop", METHOD_LEADER | METHOD_SLOW | METHOD_NOTED | METHOD_DELETES, ADMINS | WORKERS | NODES,
	  run_drop },
	{ "queue_open", METHOD_LEADER, ADMINS | WORKERS | NODES, run_queue_open },
	{ "queue_work", METHOD_LEADER, ADMINS | WORKERS | NODES, run_queue_work },
	{ "queues", METHOD_LEADER, LOOKERS | WORKERS | NODES, run_queues },
	{ "queue_drop", METHOD_LEADER | METHOD_NOTED, KEEPERS | NODES, run_queue_drop },
	{ "row_keys", METHOD_SLOW | METHOD_READS, LOOKERS, run_row_keys },
	{ "rows", METHOD_SLOW | METHOD_READS, LOOKERS, run_rows },
	{ "status", 0, LOOKERS | WORKERS, run_status },
	{ "health", 0, LOOKERS | WORKERS, run_health },
	{ "metrics", METHOD_SLOW, LOOKERS, run_metrics },
	{ "log_level", METHOD_ADMIN | METHOD_NOTED, ADMINS, run_log_level },
	{ "endpoint_map", 0, LOOKERS | WORKERS, run_endpoint_map },
	{ "connections", METHOD_SLOW, KEEPERS, run_connections },
	{ "latency", METHOD_SLOW, LOOKERS, run_latency },
	{ "slow", METHOD_SLOW, KEEPERS, run_slow },
	{ "trace", METHOD_SLOW, KEEPERS, run_trace },
	{ "hot", METHOD_SLOW, LOOKERS, run_hot },
	{ "history", METHOD_SLOW, LOOKERS, run_history },
	{ "events", METHOD_SLOW, KEEPERS, run_events },
	{ "capture", METHOD_ADMIN | METHOD_SLOW | METHOD_NOTED, ADMINS, run_capture },
	{ "capture_take", METHOD_ADMIN | METHOD_SLOW, ADMINS, run_capture_take },
	{ "ports", 0, LOOKERS, run_ports },
	{ "port_add", METHOD_ADMIN | METHOD_SLOW | METHOD_NOTED, ADMINS, run_port_add },
	{ "port_remove", METHOD_ADMIN | METHOD_SLOW | METHOD_NOTED, ADMINS, run_port_remove },
	{ "join", METHOD_AT_LEADER | METHOD_OF_NODE | METHOD_SLOW | METHOD_NOTED, NODES, run_join },
	{ "heartbeat", METHOD_AT_LEADER | METHOD_OF_NODE, NODES, run_heartbeat },
	{ "leave", METHOD_AT_LEADER | METHOD_OF_NODE | METHOD_NOTED, NODES, run_leave },
	{ "install", METHOD_AT_OTHERS | METHOD_OF_NODE | METHOD_SLOW | METHOD_NOTED, NODES, run_install },
	{ "checkpoint_save", METHOD_LEADER | METHOD_NOTED, KEEPERS | WORKERS | NODES, run_checkpoint_save },
	{ "checkpoint_status", METHOD_LEADER, LOOKERS | WORKERS | NODES, run_checkpoint_status },
	{ "checkpoint_restore", METHOD_ADMIN | METHOD_AT_LEADER | METHOD_NOTED, ADMINS, run_checkpoint_restore },
	{ "checkpoint_part", METHOD_AT_OTHERS | METHOD_OF_NODE | METHOD_SLOW, NODES, run_checkpoint_part },
	{ "shutdown", METHOD_ADMIN | METHOD_NOTED, ADMINS, run_shutdown },
	{ "promote", METHOD_ADMIN | METHOD_SLOW | METHOD_NOTED, ADMINS, run_promote },
	{ "ticket", 0, ADMINS | WORKERS | SECURE_BIT(SECURE_READER), run_ticket },
	{ "acl_check", 0, KEEPERS, run_acl_check },
	{ "quotas", 0, KEEPERS, run_quotas },
	{ "key_reload", METHOD_ADMIN | METHOD_NOTED, ADMINS, run_key_reload },
	{ NULL, 0, 0, NULL },
};

static const struct method *find_method(const char *name)
{
	for (const struct method *m = methods; m->name; m++)
		if (strcmp(m->name, name) == 0)
			return m;
	return NULL;
}

int control_methods_roles(const char *name)
{
	const struct method *method = find_method(name);

	return method ? (int)method->roles : -1;
}

unsigned control_methods_count(void)
{
	return sizeof(methods) / sizeof(methods[0]) - 1;
}

/* Whether the caller is the node that it claims to be, or PS task 0 for methods that only PS task 0 calls. */
static int check_origin(const struct call *call, struct star_error *err)
{
	const uint8_t *peer = control_line_connection_peer(call->connection);
	const uint32_t count = call->control->config->ps_count;
	uint32_t task = 0;
	char text[INET6_ADDRSTRLEN], wanted[CONTROL_ADDRESS_MAX];

	if ((call->method->flags & METHOD_AT_LEADER) &&
	    jsonrpc_member_u32(call->request.params, "task", 0, count - 1, &task, err) < 0)
		task = ORIGIN_ANY; /* the method reports what is wrong with it */
	if (!peer || control_origins_has(call->control, peer, task))
		return 0;
	if (!inet_ntop(AF_INET6, peer, text, sizeof(text)))
		text[0] = 0;
	control_ps_address(call->control, task == ORIGIN_ANY ? 0 : task, wanted);
	return star_error_set(err, -EPERM,
			      "\"%s\" is what nodes tell each other: %s is not the address of %s in cluster.ps",
			      call->method->name, strncmp(text, "::ffff:", 7) == 0 ? text + 7 : text,
			      task == ORIGIN_ANY ? "any PS task" : wanted);
}

/* If PS task 0 is a pair, whether the caller is the one that serves. */
static int check_leads(const struct call *call, struct star_error *err)
{
	int rc;

	pthread_mutex_lock(&call->control->lock);
	rc = control_pair_leads(call->control, err);
	pthread_mutex_unlock(&call->control->lock);
	return rc;
}

/* Whether the caller has the rights to the table that this method needs. The method itself reports a missing table. */
static int check_table(const struct call *call, struct star_error *err)
{
	const unsigned flags = call->method->flags;
	const uint8_t one_of = flags & METHOD_MAKES	? SECURE_RIGHTS
			       : flags & METHOD_DELETES ? SECURE_DELETE
			       : flags & METHOD_READS	? SECURE_PULL
							: 0;
	const json_t *name = json_object_get(call->request.params, "name");

	return one_of && json_is_string(name)
		       ? control_security_table(call->control, call->connection, call->method->name, one_of,
						json_string_value(name), err)
		       : 0;
}

/* Whether this node and this socket accept the method. */
static int check_place(const struct call *call, bool admin, struct star_error *err)
{
	const unsigned flags = call->method->flags;
	char address[CONTROL_ADDRESS_MAX];

	if (control_security_check(call->control, call->connection, call->method->name, call->method->roles, err) < 0)
		return err->code;
	if (check_table(call, err) < 0)
		return err->code;
	if ((flags & METHOD_ADMIN) && !admin && !call->control->ring)
		return star_error_set(err, -EPERM, "\"%s\" is for the administrator's socket %s only",
				      call->method->name, call->control->socket_path);
	if ((flags & METHOD_AT_LEADER) && call->control->task != 0) {
		control_ps_address(call->control, 0, address);
		return star_error_set(err, -EPERM, "this is PS task %u: \"%s\" is for PS task 0, at %s",
				      call->control->task, call->method->name, address);
	}
	if ((flags & METHOD_AT_OTHERS) && call->control->task == 0)
		return star_error_set(err, -EPERM, "this is PS task 0: \"%s\" is what it tells the others",
				      call->method->name);
	if ((flags & METHOD_OF_NODE) && check_origin(call, err) < 0)
		return err->code;
	return flags & METHOD_AT_LEADER ? check_leads(call, err) : 0;
}

static bool passed_on(const struct call *call)
{
	return (call->method->flags & METHOD_LEADER) && call->control->task != 0;
}

/* Asks PS task 0, and returns its answer. */
static int forward(const struct call *call, json_t **result, struct star_error *err)
{
	const json_t *params = call->request.params;

	*result = control_leader_call(call->control, CALLER_FORWARDER, call->method->name,
				      params ? json_deep_copy(params) : NULL, CONTROL_FORWARD_US, err);
	return *result ? 0 : err->code;
}

/* Logs the outcome, if it is worth a line. */
static void note_call(const struct call *call, int rc, const struct star_error *err)
{
	struct audit_event event = call->event;

	if (rc < 0 || (call->method && call->method->flags & METHOD_NOTED))
		control_security_note(call->control, &event, call->method ? call->method->name : "", rc,
				      rc < 0 ? err->text : "");
}

/* Runs the method; returns the reply's line, or NULL for a notification. */
static char *perform(const struct call *call)
{
	struct star_error err = { 0 };
	json_t *result = NULL;
	const int rc = passed_on(call) ? forward(call, &result, &err) : call->method->run(call, &result, &err);

	note_call(call, rc, &err);
	if (!call->request.id) {
		json_decref(result);
		return NULL;
	}
	if (rc < 0) {
		err.code = rc;
		return jsonrpc_error_line(call->request.id, &err);
	}
	return jsonrpc_result_line(call->request.id, result ? result : json_true());
}

static void leave_queue(const struct call *call)
{
	struct control *control = call->control;

	pthread_mutex_lock(&control->lock);
	control->queued_bytes -= call->bytes;
	pthread_mutex_unlock(&control->lock);
}

static void perform_job(struct executor_job *job, bool cancelled)
{
	struct call *call = (struct call *)job;
	struct star_error err = { 0 };
	char *reply = NULL;

	if (!cancelled) {
		reply = perform(call);
	} else if (call->request.id) {
		star_error_set(&err, -ECANCELED, "PS task %u is shutting down", call->control->task);
		reply = jsonrpc_error_line(call->request.id, &err);
	}
	json_decref(call->request.root);
	leave_queue(call);
	control_line_server_answer(call->connection, reply);
	free(call);
}

/* Whether a slow call may wait for its thread, beside those that wait already. */
static int join_queue(const struct call *call, struct star_error *err)
{
	struct control *control = call->control;
	bool room;

	pthread_mutex_lock(&control->lock);
	room = control->queued_bytes + call->bytes <= CONTROL_QUEUED_MAX;
	if (room)
		control->queued_bytes += call->bytes;
	pthread_mutex_unlock(&control->lock);
	return room ? 0
		    : star_error_set(err, -EAGAIN, "PS task %u has too many requests in the works: try again",
				     control->task);
}

/* Passes a slow call, and ownership of the request, to its thread. */
static enum line_outcome put_off(const struct call *call)
{
	struct control *control = call->control;
	struct call *later = malloc(sizeof(*later));

	if (!later) {
		leave_queue(call);
		json_decref(call->request.root);
		return LINE_CLOSE;
	}
	*later = *call;
	control_executor_post(passed_on(later) ? control->forwarder : control->executor, &later->job, perform_job);
	return LINE_LATER;
}

enum line_outcome control_methods_serve(void *ctx, struct line_connection *connection, bool admin, const char *line,
					size_t bytes, char **reply)
{
	struct call call = { .control = ctx, .connection = connection, .bytes = bytes };
	struct star_error err = { 0 };
	int rc = jsonrpc_request_parse(line, bytes, &call.request, &err);
	/* A malformed request is answered in any case, as nobody knows whether it was meant as a notification. */
	bool answer = rc < 0 || call.request.id, slow;

	if (call.control->audit)
		control_security_fill(connection, &call.event);
	if (control_security_ask(connection, rc == 0 ? &err : NULL) < 0 && rc == 0)
		rc = err.code;
	if (rc == 0) {
		call.method = find_method(call.request.method);
		if (call.method)
			rc = check_place(&call, admin, &err);
		else
			rc = star_error_set(&err, JSONRPC_UNKNOWN_METHOD,
					    "there is no method \"%.64s\"; did you mean \"%s\"?", call.request.method,
					    nearest_name(call.request.method, methods, sizeof(methods[0])));
	}
	slow = rc == 0 && ((call.method->flags & METHOD_SLOW) || passed_on(&call));
	if (slow)
		rc = join_queue(&call, &err);
	if (slow && rc == 0)
		return put_off(&call);
	if (rc < 0)
		note_call(&call, rc, &err);
	if (rc == 0)
		*reply = perform(&call);
	else if (answer)
		*reply = jsonrpc_error_line(call.request.id, &err);
	json_decref(call.request.root);
	return answer && !*reply ? LINE_CLOSE : LINE_ANSWERED;
}

bool control_methods_is_node(void *ctx, const struct line_connection *connection)
{
	const struct control *control = ctx;
	const struct secure_key *principal = control_line_connection_principal(connection);

	return (!control->ring || (principal && principal->role == SECURE_NODE)) &&
	       control_origins_has(ctx, control_line_connection_peer(connection), ORIGIN_ANY);
}
