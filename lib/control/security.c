/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may connect, what they may request, and what is logged of it (docs/security.rst). */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/nearest.h"
#include "jsonrpc/jsonrpc_message.h"
#include "jsonrpc/member.h"
#include "control/line_quota.h"
#include "control/node.h"

/* Reads the file of rights; NULL if there is none. */
static int load_rights(const struct control *control, struct secure_rights **rights, struct star_error *err)
{
	*rights = NULL;
	if (!control->config->security_rights[0] || !control->tickets)
		return 0;
	*rights = secure_rights_load(control->config->security_rights, err);
	return *rights ? 0 : err->code;
}

int control_security_create(struct control *control, struct star_error *err)
{
	const struct config *config = control->config;
	struct secure_rights *rights;

	if (config->security_control_keys[0]) {
		control->ring =
			secure_ring_create(config->security_control_keys, config->security_control_principal, err);
		if (!control->ring)
			return err->code;
		log_info("the control plane lets in %u principals, with keys of %s; the data network %s",
			 secure_ring_principals(control->ring), config->security_control_keys,
			 control->tickets ? "admits clients with a ticket" : "is open to anyone who reaches it");
	} else {
		log_warn(
			"security.control_keys is not set: anyone who can reach the control address %s gets in without "
			"authentication, and the data network is open, too",
			config_show(config->own.control.host, config->own.control.port).text);
	}
	if (load_rights(control, &rights, err) < 0)
		return err->code;
	if (rights)
		secure_tickets_rights(control->tickets, rights);
	if (!config->security_audit_log[0])
		return 0;
	control->audit = control_audit_open(config->security_audit_log, err);
	return control->audit ? 0 : err->code;
}

void control_security_destroy(struct control *control)
{
	control_audit_close(control->audit);
	secure_ring_destroy(control->ring);
}

int control_security_own(const struct control *control, struct secure_keys **keys, struct star_error *err)
{
	*keys = NULL;
	if (!control->ring)
		return 0;
	*keys = secure_ring_own(control->ring, err);
	return *keys ? 0 : err->code;
}

char *control_security_in_clear(void *ctx)
{
	const struct control *control = ctx;
	struct star_error err;

	star_error_set(&err, -EACCES,
		       "PS task %u takes connections by TLS with a key only: name a key file in STAR_KEY, or with "
		       "`starctl --key FILE`",
		       control->task);
	return jsonrpc_error_line(NULL, &err);
}

/* Hexadecimal digits, two per byte. */
static json_t *hexadecimal(const uint8_t *bytes, size_t count)
{
	char text[2 * SECURE_TICKET_BYTES + 1];
	json_t *json;

	for (size_t i = 0; i < count; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	json = json_stringn(text, 2 * count);
	explicit_bzero(text, sizeof(text));
	return json;
}

int control_security_ticket(struct control *control, const struct line_connection *connection, json_t **result,
			    struct star_error *err)
{
	const struct secure_key *principal = control_line_connection_principal(connection);
	uint8_t secret[SECURE_HASH_BYTES];
	struct secure_ticket ticket;
	int rc;

	if (!control->tickets)
		return star_error_set(err, -ENOTSUP,
				      "the data network of PS task %u is open: it takes no tickets (security.data)",
				      control->task);
	if (!principal || principal->role >= SECURE_ROLES)
		return star_error_set(err, -EPERM,
				      "a ticket is given only to those who present a key, at the control address");
	/* Of a pair only the node that serves accepts it; the caller then tries the other one. */
	pthread_mutex_lock(&control->lock);
	rc = control->pair_waits[0] ? star_error_set(err, -EAGAIN, "PS task %u gives no tickets: %s", control->task,
						     control->pair_waits)
				    : 0;
	pthread_mutex_unlock(&control->lock);
	if (rc < 0)
		return rc;
	if (!secure_tickets_may_have(control->tickets, principal))
		return star_error_set(err, -EPERM, "\"%s\", of role %s, has no rights to any table (security.rights)",
				      principal->principal, secure_role_name(principal->role));
	rc = secure_tickets_issue(control->tickets, principal, clock_ns(), &ticket, secret, err);
	if (rc < 0)
		return rc;
	*result = json_pack("{s:o, s:o, s:s, s:I}", "ticket", hexadecimal(ticket.bytes, sizeof(ticket.bytes)), "secret",
			    hexadecimal(secret, sizeof(secret)), "data",
			    secure_data_name(secure_tickets_data(control->tickets)), "good_for_s",
			    (json_int_t)(SECURE_TICKET_NS / 1000000000));
	explicit_bzero(secret, sizeof(secret));
	return 0;
}

static bool still_let_in(void *ctx, const struct secure_key *key)
{
	return secure_ring_has(ctx, key->principal, key->id, key->role);
}

static void write_origin(const struct line_connection *connection, char *text, size_t bytes)
{
	const uint8_t *peer = control_line_connection_peer(connection);
	char address[INET6_ADDRSTRLEN] = "";

	if (!peer)
		snprintf(text, bytes, "uid %u", control_line_connection_user(connection));
	else if (inet_ntop(AF_INET6, peer, address, sizeof(address)))
		snprintf(text, bytes, "%s", strncmp(address, "::ffff:", 7) == 0 ? address + 7 : address);
}

void control_security_fill(const struct line_connection *connection, struct audit_event *event)
{
	const struct secure_key *principal = control_line_connection_principal(connection);

	*event = (struct audit_event){ .code = 0 };
	write_origin(connection, event->from, sizeof(event->from));
	if (!principal)
		return;
	snprintf(event->principal, sizeof(event->principal), "%s", principal->principal);
	if (principal->role != SECURE_ROLES)
		snprintf(event->role, sizeof(event->role), "%s", secure_role_name(principal->role));
}

void control_security_note(const struct control *control, struct audit_event *event, const char *method, int code,
			   const char *text)
{
	if (!control->audit)
		return;
	event->code = code;
	snprintf(event->method, sizeof(event->method), "%s", method);
	snprintf(event->text, sizeof(event->text), "%s", text);
	control_audit_note(control->audit, event);
}

void control_security_came(void *ctx, const struct line_connection *connection, const char *refused)
{
	const struct control *control = ctx;
	struct audit_event event;

	control_security_fill(connection, &event);
	if (refused)
		log_debug("a control connection from %s was refused: %s", event.from, refused);
	control_security_note(control, &event, "connect", refused ? -EACCES : 0, refused ? refused : "");
}

int control_security_check(const struct control *control, const struct line_connection *connection, const char *method,
			   unsigned roles, struct star_error *err)
{
	const struct secure_key *principal = control_line_connection_principal(connection);
	char text[SECURE_ROLES_TEXT];

	if (!control_line_connection_peer(connection) || !control->ring)
		return 0;
	if (principal && principal->role < SECURE_ROLES && (roles & SECURE_BIT(principal->role)))
		return 0;
	return star_error_set(err, -EPERM, "\"%s\" is for the roles %s, and \"%s\" has the role %s", method,
			      secure_roles_text(roles, text), principal ? principal->principal : "",
			      secure_role_name(principal ? principal->role : SECURE_ROLES));
}

int control_security_table(const struct control *control, const struct line_connection *connection, const char *method,
			   uint8_t one_of, const char *table, struct star_error *err)
{
	const struct secure_key *principal = control_line_connection_principal(connection);

	if (!principal || (principal->role != SECURE_WORKER && principal->role != SECURE_READER) || !control->tickets ||
	    !control->config->security_rights[0] ||
	    secure_tickets_look_up(control->tickets, principal->principal, principal->role, table) & one_of)
		return 0;
	if (one_of == SECURE_RIGHTS)
		return star_error_set(err, -EPERM, "\"%s\": \"%s\" has no right to \"%.128s\" (security.rights)",
				      method, principal->principal, table);
	return star_error_set(err, -EPERM,
			      "\"%s\": \"%s\" does not have the right \"%s\" to \"%.128s\" (security.rights)", method,
			      principal->principal, secure_right_name(one_of), table);
}

void control_security_quotas(void *ctx, const struct secure_key *principal, struct secure_quotas *quotas)
{
	const struct control *control = ctx;

	/* Requests between nodes keep the cluster together, so they have no limit. */
	if (principal->role != SECURE_NODE)
		secure_tickets_quotas(control->tickets, principal->principal, quotas);
}

int control_security_ask(struct line_connection *connection, struct star_error *err)
{
	const struct secure_key *principal = control_line_connection_principal(connection);
	const enum line_quota quota = control_line_connection_ask(connection);

	if (quota == LINE_QUOTA_CONNECTIONS)
		return star_error_set(err, -EDQUOT,
				      "\"%s\" has as many connections to this control address as its quota allows "
				      "(security.rights: limit ... control_connections=): close some, or raise it",
				      principal->principal);
	if (quota == LINE_QUOTA_REQUESTS)
		return star_error_set(err, -EDQUOT,
				      "\"%s\" has sent as many requests a second to this control address as its quota "
				      "allows (security.rights: limit ... control_requests=): ask again later",
				      principal->principal);
	return 0;
}

/* The principal's quotas on this node, by name. */
static json_t *quotas_json(const struct control *control, const char *principal)
{
	struct secure_quotas quotas;
	json_t *json = json_object();

	if (control->tickets && secure_tickets_quotas(control->tickets, principal, &quotas))
		for (unsigned q = 0; q < SECURE_QUOTAS; q++)
			if (quotas.max[q])
				json_object_set_new(json, secure_quota_name((enum secure_quota)q),
						    json_integer((json_int_t)quotas.max[q]));
	return json;
}

static json_t *figures_json(const uint64_t figures[static SECURE_QUOTAS], bool all)
{
	json_t *json = json_object();

	for (unsigned q = 0; q < SECURE_QUOTAS; q++)
		if (all || figures[q])
			json_object_set_new(json, secure_quota_name((enum secure_quota)q),
					    json_integer((json_int_t)figures[q]));
	return json;
}

static json_t *usage_json(const struct control *control, const struct line_guest *guest)
{
	const struct control_data_plane *plane = &control->data_plane;
	struct secure_usage usage = { 0 };

	if (plane->usage)
		plane->usage(plane->ctx, guest->principal, &usage);
	usage.used[SECURE_QUOTA_CONTROL_CONNECTIONS] = guest->connections;
	usage.used[SECURE_QUOTA_CONTROL_REQUESTS] = guest->requests;
	usage.refused[SECURE_QUOTA_CONTROL_CONNECTIONS] = guest->refused_connections;
	usage.refused[SECURE_QUOTA_CONTROL_REQUESTS] = guest->refused_requests;
	return json_pack("{s:s, s:s, s:o, s:o, s:o}", "principal", guest->principal, "role",
			 secure_role_name(guest->role), "used", figures_json(usage.used, true), "refused",
			 figures_json(usage.refused, false), "quotas",
			 guest->role == SECURE_NODE ? json_object() : quotas_json(control, guest->principal));
}

int control_security_usage(const struct control *control, const struct line_connection *connection,
			   const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "principal", NULL };
	const char *only = NULL;

	if (jsonrpc_member_only(params, members, err) < 0 ||
	    (json_object_get(params, "principal") &&
	     jsonrpc_member_string(params, "principal", SECURE_NAME_MAX, &only, err) < 0))
		return control_invalid(err);
	if (!control->ring)
		return star_error_set(err, -ENOTSUP,
				      "this node has no keys, and so no principals (security.control_keys)");
	*result = json_array();
	for (const struct line_guest *g = control_line_server_guests(connection); g; g = g->next)
		if (!only || strcmp(g->principal, only) == 0)
			json_array_append_new(*result, usage_json(control, g));
	if (!only || json_array_size(*result))
		return 0;
	json_decref(*result);
	*result = NULL;
	return star_error_set(err, -ENOENT, "\"%s\" has not come to this node since it began", only);
}

/* Checks an operation on a table of the data network. */
static int check_right(struct control *control, const char *principal, enum secure_role role, const char *verb,
		       const char *table, json_t **result, struct star_error *err)
{
	const uint8_t right = secure_right_from(verb);
	bool allowed = true;

	if (!right)
		return star_error_set(
			err, -EINVAL,
			"with a table the method is pull, create, push, assign, delete or commit, and not \"%s\"",
			verb);
	if (control->tickets)
		allowed = secure_tickets_look_up(control->tickets, principal, role, table) & right;
	*result = json_pack("{s:s, s:s, s:s, s:s, s:b, s:o}", "principal", principal, "role", secure_role_name(role),
			    "method", verb, "table", table, "allowed", allowed, "quotas",
			    quotas_json(control, principal));
	return 0;
}

static int take_acl(const json_t *params, const char **principal, const char **method, const char **table,
		    struct star_error *err)
{
	static const char *const members[] = { "principal", "method", "table", NULL };

	*table = NULL;
	if (jsonrpc_member_only(params, members, err) < 0 ||
	    jsonrpc_member_string(params, "principal", SECURE_NAME_MAX, principal, err) < 0 ||
	    jsonrpc_member_string(params, "method", 64, method, err) < 0 ||
	    (json_object_get(params, "table") && jsonrpc_member_string(params, "table", WIRE_NAME_MAX, table, err) < 0))
		return control_invalid(err);
	return 0;
}

int control_security_acl(struct control *control, const json_t *params, int (*roles_of)(const char *method),
			 json_t **result, struct star_error *err)
{
	enum secure_role role = SECURE_ROLES;
	const char *principal, *method, *table;
	char text[SECURE_ROLES_TEXT];
	bool allowed;
	int roles;

	roles = take_acl(params, &principal, &method, &table, err);
	if (roles < 0)
		return roles;
	roles = table ? 0 : roles_of(method);
	if (roles < 0)
		return star_error_set(err, -ENOENT, "there is no method \"%s\" (docs/control.rst)", method);
	if (!control->ring)
		return star_error_set(
			err, -ENOTSUP,
			"everybody may do everything here: this node has no keys (security.control_keys)");
	role = secure_ring_role(control->ring, principal);
	if (role == SECURE_ROLES)
		return star_error_set(err, -ENOENT, "there is no principal \"%s\" among this node's keys", principal);
	if (table)
		return check_right(control, principal, role, method, table, result, err);
	allowed = (unsigned)roles & SECURE_BIT(role);
	*result = json_pack("{s:s, s:s, s:s, s:b, s:s, s:o}", "principal", principal, "role", secure_role_name(role),
			    "method", method, "allowed", allowed, "roles", secure_roles_text((unsigned)roles, text),
			    "quotas", quotas_json(control, principal));
	return 0;
}

int control_security_reload(struct control *control, const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const none[] = { NULL };
	struct secure_rights *rights;
	unsigned count;
	int rc;

	if (jsonrpc_member_only(params, none, err) < 0)
		return control_invalid(err);
	if (!control->ring)
		return star_error_set(err, -ENOTSUP, "this node was started without keys (security.control_keys)");
	rc = load_rights(control, &rights, err);
	if (rc < 0)
		return rc;
	rc = secure_ring_reload(control->ring, err);
	if (rc < 0) { /* neither changes: rights must not apply to principals that the new keys remove */
		secure_rights_free(rights);
		return rc;
	}
	control_line_server_review(control->server);
	if (control->tickets)
		secure_tickets_review(control->tickets, still_let_in, control->ring);
	if (rights)
		secure_tickets_rights(control->tickets, rights);
	count = secure_ring_principals(control->ring);
	log_info("the keys were read again: %u principals", count);
	*result = json_pack("{s:i}", "principals", (int)count);
	return 0;
}

enum secure_data control_security_data(const struct control *control)
{
	return control->tickets ? secure_tickets_data(control->tickets) : SECURE_DATA_OPEN;
}

json_t *control_security_json(const struct control *control)
{
	json_t *json = json_pack("{s:s, s:s}", "control", control->ring ? "keys" : "open", "data",
				 secure_data_name(control_security_data(control)));
	struct audit_counts counts;

	if (control->ring)
		json_object_set_new(json, "principals", json_integer(secure_ring_principals(control->ring)));
	if (!control->audit)
		return json;
	counts = control_audit_count(control->audit);
	json_object_set_new(json, "audit",
			    json_pack("{s:I, s:I, s:I}", "events", (json_int_t)counts.events, "failures",
				      (json_int_t)counts.failures, "lost", (json_int_t)counts.lost));
	return json;
}
