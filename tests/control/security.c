/* SPDX-License-Identifier: BSD-3-Clause */
/* A control plane with keys: who gets in, and what each role may ask for. */
#include "tests/control/cases.h"
#include "tests/control/harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/line_quota.h"
#include "control/node.h"
#include "secure/keys.h"
#include "secure/memory.h"

enum { PATH_BYTES = 128, WAIT_MS = 10000 };

static void path_of(const struct cluster *cluster, const char *name, char path[static PATH_BYTES])
{
	snprintf(path, PATH_BYTES, "%s/%s", cluster->folder, name);
}

/* Principals that are called as their roles are, in one file for the nodes, and each in one of its own. */
static void keyed_init(struct cluster *cluster, unsigned count)
{
	struct secure_keys *keys = secure_alloc(sizeof(*keys)), *more, *own;
	struct star_error err = { 0 };
	char path[PATH_BYTES];

	cluster_init(cluster, count);
	for (unsigned role = 0; role < SECURE_ROLES; role++) {
		more = secure_keys_add(keys, secure_role_name(role), role, false, &err);
		own = secure_keys_select(more, secure_role_name(role), &err);
		path_of(cluster, secure_role_name(role), path);
		CHECK_INT(secure_keys_write(path, own, true, &err), 0);
		secure_keys_free(own);
		secure_keys_free(keys);
		keys = more;
	}
	path_of(cluster, "ring", path);
	CHECK_INT(secure_keys_write(path, keys, true, &err), 0);
	secure_keys_free(keys);
	for (unsigned i = 0; i < count; i++)
		strcpy(cluster->nodes[i].config.security_control_keys, path);
}

static void keyed_fini(struct cluster *cluster)
{
	char path[PATH_BYTES];

	for (unsigned role = 0; role < SECURE_ROLES; role++) {
		path_of(cluster, secure_role_name(role), path);
		unlink(path);
	}
	path_of(cluster, "ring", path);
	unlink(path);
	cluster_fini(cluster);
}

static bool keyed_start(struct cluster *cluster)
{
	bool laid_out = false;

	for (unsigned i = 0; i < cluster->count; i++)
		if (!node_start(cluster, i, 100 + i))
			return false;
	for (unsigned ms = 0; ms < WAIT_MS && !laid_out; ms += 10) {
		json_t *layout = call(cluster->nodes[0].config.control_socket, "layout", NULL, NULL);

		laid_out = layout;
		json_decref(layout);
		if (!laid_out)
			usleep(10000);
	}
	return CHECK(laid_out);
}

static struct jsonrpc_client *come_as(const struct cluster *cluster, unsigned task, const char *principal,
				      struct star_error *err)
{
	char path[PATH_BYTES];

	path_of(cluster, principal, path);
	return jsonrpc_connect_by(path, cluster->nodes[task].address, CALL_US, err);
}

static json_t *call_as(const struct cluster *cluster, unsigned task, const char *principal, const char *method,
		       json_t *params, struct star_error *err)
{
	struct jsonrpc_client *client = come_as(cluster, task, principal, err);
	json_t *result = NULL;

	if (client)
		result = jsonrpc_call(client, method, params, CALL_US, err);
	else
		json_decref(params);
	jsonrpc_close(client);
	return result;
}

/* Who may call what: docs/security.rst has the same table. n, w, r, o, a: node, worker, reader, operator, admin. */
static const struct {
	const char *method, *roles;
} rights[] = {
	{ "layout", "nwroa" },
	{ "create", "nwa" },
	{ "lookup", "nwroa" },
	{ "tables", "wroa" },
	{ "sweep", "noa" },
	{ "empty", "nwa" },
	{ "table_drop", "nwa" },
	{ "queue_open", "nwa" },
	{ "queue_work", "nwa" },
	{ "queues", "nwroa" },
	{ "queue_drop", "noa" },
	{ "row_keys", "roa" },
	{ "rows", "roa" },
	{ "status", "wroa" },
	{ "health", "wroa" },
	{ "metrics", "roa" },
	{ "log_level", "a" },
	{ "endpoint_map", "wroa" },
	{ "connections", "oa" },
	{ "latency", "roa" },
	{ "slow", "oa" },
	{ "trace", "oa" },
	{ "hot", "roa" },
	{ "history", "roa" },
	{ "events", "oa" },
	{ "capture", "a" },
	{ "capture_take", "a" },
	{ "ports", "roa" },
	{ "port_add", "a" },
	{ "port_remove", "a" },
	{ "join", "n" },
	{ "heartbeat", "n" },
	{ "leave", "n" },
	{ "install", "n" },
	{ "checkpoint_save", "nwoa" },
	{ "checkpoint_status", "nwroa" },
	{ "checkpoint_restore", "a" },
	{ "checkpoint_part", "n" },
	{ "shutdown", "a" },
	{ "ticket", "wra" },
	{ "acl_check", "oa" },
	{ "quotas", "oa" },
	{ "key_reload", "a" },
	{ "promote", "a" },
};

enum { RIGHTS = sizeof(rights) / sizeof(rights[0]) };

void each_role_may_call_its_methods(void)
{
	struct cluster cluster;

	keyed_init(&cluster, 1);
	if (keyed_start(&cluster))
		for (unsigned i = 0; i < RIGHTS * SECURE_ROLES; i++) {
			const char *method = rights[i % RIGHTS].method, *role = secure_role_name(i / RIGHTS);
			const bool allowed = strchr(rights[i % RIGHTS].roles, role[0]);
			struct star_error err = { 0 };
			json_t *result = call_as(&cluster, 0, role, method, NULL, &err);
			const bool refused = err.code == -EPERM && strstr(err.text, "is for the roles");

			if (refused == allowed || (!allowed && result))
				unit_fail(__FILE__, __LINE__, "%s: %s: %s", role, method, result ? "done" : err.text);
			json_decref(result);
		}
	/* One shutdown, and it came from the admin. */
	CHECK_UINT(cluster.nodes[0].plane.shutdowns, 1);
	keyed_fini(&cluster);
}

void the_table_of_rights_is_whole(void)
{
	char text[SECURE_ROLES_TEXT];

	for (unsigned i = 0; i < RIGHTS; i++) {
		const int roles = control_methods_roles(rights[i].method);

		CHECK(roles > 0);
		for (unsigned role = 0; role < SECURE_ROLES; role++)
			if (!!((unsigned)roles & SECURE_BIT(role)) !=
			    !!strchr(rights[i].roles, secure_role_name(role)[0]))
				unit_fail(__FILE__, __LINE__, "%s is for %s", rights[i].method,
					  secure_roles_text((unsigned)roles, text));
	}
	CHECK_INT(control_methods_roles("no such method"), -1);
	CHECK_UINT(control_methods_count(), RIGHTS);
}

static bool is_reader(void *ctx, const struct line_guest *guest)
{
	return guest->role == SECURE_READER;
}

/* A client that opens a connection for each request does not get a new second's quota with each. */
void what_a_principal_has_asked_outlives_its_connections(void)
{
	const struct secure_key principals[] = { { .principal = "job1", .role = SECURE_WORKER },
						 { .principal = "job2", .role = SECURE_READER } };
	struct secure_quotas quotas = { 0 };
	struct line_guest *guests = NULL, *job1, *job2;
	const uint64_t now_us = 5000000;

	quotas.max[SECURE_QUOTA_CONTROL_CONNECTIONS] = 1;
	quotas.max[SECURE_QUOTA_CONTROL_REQUESTS] = 3;
	for (unsigned i = 0; i < 8; i++) {
		job1 = control_line_guest_find(&guests, &principals[0], &quotas);
		CHECK(control_line_guest_enter(job1));
		CHECK(!control_line_guest_enter(job1));
		CHECK_INT(control_line_guest_ask(job1, now_us + i), i < 3);
		job1->connections--;
	}
	CHECK_UINT(job1->requests, 3);
	CHECK_UINT(job1->refused_requests, 5);
	CHECK_UINT(job1->refused_connections, 8);
	CHECK(control_line_guest_ask(job1, now_us + 400000)); /* a third of a second is one */
	CHECK(!control_line_guest_ask(job1, now_us + 400000));
	/* Another one has its own; and a quota that is gone limits nobody. */
	job2 = control_line_guest_find(&guests, &principals[1], &(struct secure_quotas){ 0 });
	CHECK(job2 != job1 && control_line_guest_enter(job2) && control_line_guest_enter(job2));
	control_line_guest_limit(job1, &(struct secure_quotas){ 0 });
	for (unsigned i = 0; i < 100; i++)
		CHECK(control_line_guest_ask(job1, now_us + 400000) && control_line_guest_ask(job2, now_us));
	/* A principal without connections is forgotten, but not one that has some. */
	CHECK(control_line_guest_enter(job1));
	control_line_guests_free(&guests, is_reader, NULL);
	CHECK(guests == job2 && job2->next == job1);
	job1->connections--;
	control_line_guests_free(&guests, is_reader, NULL);
	CHECK(guests == job2 && !job2->next);
	control_line_guests_free(&guests, NULL, NULL);
	CHECK(!guests);
}

void nodes_with_keys_make_a_cluster(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *result;

	keyed_init(&cluster, 3);
	if (keyed_start(&cluster)) {
		/* Asked of a node that passes it on, as a node. */
		result = call_as(&cluster, 1, "worker", "create", table_json("words", 4), &err);
		CHECK(result != NULL);
		CHECK_STR(err.text, "");
		json_decref(result);
		for (unsigned i = 0; i < 3; i++)
			CHECK(wait_installed(&cluster.nodes[i], 1));
		result = call_as(&cluster, 2, "reader", "checkpoint_status", NULL, &err);
		CHECK(result != NULL);
		json_decref(result);
		CHECK(call_as(&cluster, 2, "reader", "create", table_json("other", 4), &err) == NULL);
		CHECK_HAS(err.text,
			  "\"create\" is for the roles node, worker, admin, and \"reader\" has the role reader");
	}
	keyed_fini(&cluster);
}

void unencrypted_clients_are_told_what_to_do(void)
{
	static const char *const lines[] = { STATUS "\n", "{\n", "GET / HTTP/1.1\r\n\r\n", "\n", "\x15\x03\x03", "[" };
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *status;

	keyed_init(&cluster, 1);
	if (keyed_start(&cluster)) {
		for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
			int fd = raw_connect(cluster.nodes[0].address);
			char *line;

			CHECK(raw_send(fd, lines[i], strlen(lines[i])));
			line = raw_line(fd);
			CHECK_HAS(line ? line : "", "STAR_KEY");
			free(line);
			CHECK(raw_line(fd) == NULL);
			close(fd);
		}
		CHECK(call(cluster.nodes[0].address, "status", NULL, &err) == NULL);
		CHECK_INT(err.code, -EACCES);
		status = call(cluster.nodes[0].config.control_socket, "status", NULL, &err);
		CHECK_INT(json_integer_value(json_object_get(json_object_get(status, "control_plane"), "strangers")),
			  7);
		CHECK_STR(json_string_value(json_object_get(json_object_get(status, "security"), "control")), "keys");
		CHECK_STR(json_string_value(json_object_get(json_object_get(status, "security"), "data")), "open");
		json_decref(status);
	}
	keyed_fini(&cluster);
}

void a_file_of_several_is_nobodys(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };

	keyed_init(&cluster, 1);
	if (keyed_start(&cluster)) {
		CHECK(call_as(&cluster, 0, "ring", "status", NULL, &err) == NULL);
		CHECK_HAS(err.text, "has the keys of 5 principals");
		CHECK(call_as(&cluster, 0, "nothing", "status", NULL, &err) == NULL);
		CHECK_INT(err.code, -ENOENT);
		/* On the administrator's socket there are no keys. */
		json_decref(call(cluster.nodes[0].config.control_socket, "status", NULL, &err));
	}
	keyed_fini(&cluster);
}

/* The ring without that principal, which the node then reads. */
static void take_out(struct cluster *cluster, const char *principal)
{
	struct star_error err = { 0 };
	struct secure_keys *keys, *left;
	char path[PATH_BYTES];
	json_t *result;

	path_of(cluster, "ring", path);
	keys = secure_keys_load(path, &err);
	left = secure_keys_without(keys, principal, NULL, &err);
	CHECK_INT(secure_keys_write(path, left, false, &err), 0);
	secure_keys_free(left);
	secure_keys_free(keys);
	result = call(cluster->nodes[0].config.control_socket, "key_reload", NULL, &err);
	CHECK_INT(json_integer_value(json_object_get(result, "principals")), 4);
	json_decref(result);
}

void a_revoked_key_ends_its_connections(void)
{
	struct jsonrpc_client *theirs, *other;
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *result;

	keyed_init(&cluster, 1);
	if (keyed_start(&cluster)) {
		theirs = come_as(&cluster, 0, "operator", &err);
		other = come_as(&cluster, 0, "reader", &err);
		result = jsonrpc_call(theirs, "status", NULL, CALL_US, &err);
		CHECK(result != NULL);
		json_decref(result);
		take_out(&cluster, "operator");
		CHECK(jsonrpc_call(theirs, "status", NULL, CALL_US, &err) == NULL);
		CHECK_HAS(err.text, "was lost");
		CHECK(come_as(&cluster, 0, "operator", &err) == NULL);
		CHECK_INT(err.code, -EACCES);
		result = jsonrpc_call(other, "status", NULL, CALL_US, &err);
		CHECK_INT(json_integer_value(json_object_get(json_object_get(result, "control_plane"), "revoked")), 1);
		json_decref(result);
		jsonrpc_close(theirs);
		jsonrpc_close(other);
	}
	keyed_fini(&cluster);
}

void acl_check_says_what_the_node_would(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	const char *socket;
	json_t *result;

	keyed_init(&cluster, 1);
	socket = cluster.nodes[0].config.control_socket;
	if (keyed_start(&cluster)) {
		for (unsigned i = 0; i < RIGHTS * SECURE_ROLES; i++) {
			const char *role = secure_role_name(i / RIGHTS);

			result = call(socket, "acl_check",
				      json_pack("{s:s, s:s}", "principal", role, "method", rights[i % RIGHTS].method),
				      &err);
			CHECK_INT(json_is_true(json_object_get(result, "allowed")),
				  strchr(rights[i % RIGHTS].roles, role[0]) != NULL);
			json_decref(result);
		}
		CHECK(call(socket, "acl_check", json_pack("{s:s, s:s}", "principal", "x", "method", "status"), &err) ==
		      NULL);
		CHECK_HAS(err.text, "there is no principal \"x\"");
		CHECK(call(socket, "acl_check", json_pack("{s:s, s:s}", "principal", "x", "method", "y"), &err) ==
		      NULL);
		CHECK_HAS(err.text, "there is no method \"y\"");
		CHECK(call(socket, "acl_check", NULL, &err) == NULL);
	}
	keyed_fini(&cluster);
}

void without_keys_everybody_gets_in_and_it_is_said(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *result, *notes;
	char *text;

	cluster_init(&cluster, 1);
	if (cluster_start(&cluster)) {
		result = call(cluster.nodes[0].address, "health", NULL, &err);
		notes = json_object_get(result, "notes");
		text = json_dumps(notes, 0);
		CHECK_HAS(text, "anyone who can reach the control address gets in");
		free(text);
		json_decref(result);
		CHECK(call(cluster.nodes[0].config.control_socket, "key_reload", NULL, &err) == NULL);
		CHECK_INT(err.code, -ENOTSUP);
		CHECK(call(cluster.nodes[0].config.control_socket, "acl_check",
			   json_pack("{s:s, s:s}", "principal", "x", "method", "status"), &err) == NULL);
		CHECK_INT(err.code, -ENOTSUP);
		/* As before, what is the administrator's is for his socket only. */
		CHECK(call(cluster.nodes[0].address, "key_reload", NULL, &err) == NULL);
		CHECK_INT(err.code, -EPERM);
	}
	cluster_fini(&cluster);
}

/* As the reader, from an address of the loopback. */
static struct jsonrpc_client *come_from(const struct cluster *cluster, const char *source, uint64_t deadline_us,
					struct star_error *err)
{
	char path[PATH_BYTES], from[32];
	struct jsonrpc_client *client;
	struct secure_keys *keys;

	path_of(cluster, "reader", path);
	snprintf(from, sizeof(from), "%s:1", source);
	keys = secure_keys_load(path, err);
	client = jsonrpc_connect_from(from, keys, cluster->nodes[0].address, deadline_us, err);
	secure_keys_free(keys);
	return client;
}

/* A handshake that is begun, and not gone on with. */
static int begin_handshake(const struct cluster *cluster, const char *source)
{
	static const char record[] = "\x16\x03\x01\x02\x00\x01";
	const int fd = raw_connect_from(source, cluster->nodes[0].address);

	CHECK(raw_send(fd, record, sizeof(record) - 1));
	return fd;
}

static json_int_t count_of(const struct cluster *cluster, const char *name)
{
	json_t *status = call(cluster->nodes[0].config.control_socket, "status", NULL, NULL);
	const json_int_t count = json_integer_value(json_object_get(json_object_get(status, "control_plane"), name));

	json_decref(status);
	return count;
}

void handshakes_of_one_address_wait_for_each_other(void)
{
	int fds[LINE_SERVER_SHARE_HANDSHAKES_MAX];
	struct jsonrpc_client *client;
	struct star_error err = { 0 };
	struct cluster cluster;

	keyed_init(&cluster, 1);
	if (keyed_start(&cluster)) {
		for (unsigned i = 0; i < LINE_SERVER_SHARE_HANDSHAKES_MAX; i++)
			fds[i] = begin_handshake(&cluster, "127.0.0.2");
		CHECK(come_from(&cluster, "127.0.0.2", 300000, &err) == NULL);
		CHECK_INT(err.code, -ETIMEDOUT);
		client = come_from(&cluster, "127.0.0.1", CALL_US, &err);
		CHECK(client != NULL);
		jsonrpc_close(client);
		/* One place is enough for those who finish. */
		close(fds[0]);
		for (unsigned i = 0; i < 3; i++) {
			client = come_from(&cluster, "127.0.0.2", CALL_US / 4, &err);
			CHECK(client != NULL);
			jsonrpc_close(client);
		}
		for (unsigned i = 1; i < LINE_SERVER_SHARE_HANDSHAKES_MAX; i++)
			close(fds[i]);
	}
	keyed_fini(&cluster);
}

void strangers_handshakes_keep_nobody_out(void)
{
	int fds[LINE_SERVER_HANDSHAKES_MAX];
	struct jsonrpc_client *client;
	struct star_error err = { 0 };
	struct cluster cluster;
	char source[32];

	keyed_init(&cluster, 1);
	if (keyed_start(&cluster)) {
		for (unsigned i = 0; i < LINE_SERVER_HANDSHAKES_MAX; i++) {
			snprintf(source, sizeof(source), "127.0.1.%u", 1 + i / LINE_SERVER_SHARE_HANDSHAKES_MAX);
			fds[i] = begin_handshake(&cluster, source);
		}
		client = come_from(&cluster, "127.0.0.1", CALL_US / 4, &err);
		CHECK(client != NULL);
		jsonrpc_close(client);
		CHECK_INT(count_of(&cluster, "strangers"), 1);
		for (unsigned i = 0; i < LINE_SERVER_HANDSHAKES_MAX; i++)
			close(fds[i]);
	}
	keyed_fini(&cluster);
}

void a_node_with_a_bad_ring_does_not_start(void)
{
	const struct control_options options = { .incarnation = 1 };
	struct control_options own = options;
	struct star_error err = { 0 };
	struct cluster cluster;
	char path[PATH_BYTES];

	keyed_init(&cluster, 1);
	own.config = &cluster.nodes[0].config;
	path_of(&cluster, "ring", path);
	CHECK_INT(chmod(path, 0644), 0);
	CHECK(control_create(&own, &err) == NULL);
	CHECK_HAS(err.text, "chmod 0400");
	CHECK_INT(chmod(path, 0400), 0);
	strcpy(cluster.nodes[0].config.security_control_principal, "nobody");
	CHECK(control_create(&own, &err) == NULL);
	CHECK_HAS(err.text, "security.control_principal");
	CHECK(control_create(&own, NULL) == NULL);
	cluster.nodes[0].config.security_control_principal[0] = 0;
	strcpy(cluster.nodes[0].config.security_audit_log, cluster.folder);
	CHECK(control_create(&own, &err) == NULL);
	CHECK_HAS(err.text, "audit log");
	keyed_fini(&cluster);
}
