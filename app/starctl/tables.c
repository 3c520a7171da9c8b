/* SPDX-License-Identifier: BSD-3-Clause */
/* One table or variable: shown, created, swept, emptied, dropped. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/starctl/starctl.h"
#include "base/clock.h"
#include "jsonrpc/jsonrpc.h"
#include "jsonrpc/member.h"
#include "jsonrpc/object_json.h"
#include "tensor/dtype.h"

enum { STARCTL_DROP_US = 60000000, SWEEP_WAIT_US = 600000000, SWEEP_POLL_US = 20000 };

const char *option_text(const char *name)
{
	for (const struct object_option *o = wire_object_options; o->name; o++)
		if (strcmp(o->name, name) == 0)
			return o->text;
	return NULL;
}

/* Adds a page of a node's tables, which begins at *from, to all; then sets *from to the beginning of the next one, or
 * 0. */
static int take_page(struct jsonrpc_client *client, uint32_t *from, json_t *all, struct star_error *err)
{
	json_t *page =
		jsonrpc_call(client, "tables", json_pack("{s:I}", "from", (json_int_t)*from), STARCTL_CALL_US, err);
	uint32_t next = 0;
	int rc = page ? 0 : -1;

	if (page && json_object_get(page, "next"))
		rc = jsonrpc_member_u32(page, "next", *from + 1, UINT32_MAX, &next, err);
	if (rc == 0)
		json_array_extend(all, json_object_get(page, "tables"));
	json_decref(page);
	*from = next;
	return rc;
}

json_t *tables_of_node(struct jsonrpc_client *client, struct star_error *err)
{
	json_t *all = json_array();
	uint32_t from = 1;
	int rc;

	do
		rc = take_page(client, &from, all, err);
	while (rc == 0 && from);
	if (rc == 0)
		return all;
	json_decref(all);
	return NULL;
}

json_t *table_of_node(struct jsonrpc_client *client, const char *name, struct star_error *err)
{
	json_t *params = json_pack("{s:s}", "name", name), *list, *table;

	if (!params) {
		star_error_set(err, -EINVAL, "the name is not UTF-8");
		return NULL;
	}
	list = jsonrpc_call(client, "tables", params, STARCTL_CALL_US, err);
	table = json_incref(json_array_get(list, 0));
	if (list && !table)
		star_error_set(err, -EPROTO, "the node does not report what \"%s\" is", name);
	json_decref(list);
	return table;
}

int run_tables(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	struct jsonrpc_client *client = open_node(invocation, true, &err);
	json_t *tables = client ? tables_of_node(client, &err) : NULL;

	jsonrpc_close(client);
	return tables ? print(invocation, tables, render_tables) : fail(invocation, &err, STARCTL_FAILED);
}

int run_tables_show(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	struct jsonrpc_client *client = open_node(invocation, true, &err);
	json_t *object = client ? table_of_node(client, invocation->argv[0], &err) : NULL;

	jsonrpc_close(client);
	return object ? print(invocation, object, render_table) : fail(invocation, &err, STARCTL_FAILED);
}

static const char *default_text(const struct object_option *option, unsigned optimizer, const struct object_spec *spec,
				char text[static OBJECT_OPTION_TEXT])
{
	return option->of_optimizer && !optimizer ? "the optimizer's" : wire_object_option_text(option, spec, text);
}

int run_tables_options(const struct invocation *invocation)
{
	const char *name = invocation->argc ? invocation->argv[0] : NULL;
	const unsigned optimizer = name ? optim_kind_parse(name) : 0;
	json_t *list = json_array();
	struct object_spec spec = { 0 };
	struct star_error err;

	if (name && !optimizer) {
		json_decref(list);
		star_error_set(&err, -EINVAL, "there is no optimizer \"%s\"; possible values are %s", name,
			       optim_kind_names());
		return fail(invocation, &err, STARCTL_USAGE);
	}
	wire_object_spec_defaults(&spec, optimizer ? optimizer : OPTIM_SGD);
	for (const struct object_option *o = wire_object_options; o->name; o++) {
		char standard[OBJECT_OPTION_TEXT], possible[OBJECT_OPTION_TEXT];

		if (optimizer && !wire_object_option_used(o, optimizer))
			continue;
		default_text(o, optimizer, &spec, standard);
		wire_object_option_possible(o, possible);
		if (invocation->json)
			json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "name", o->name, "default",
							      default_text(o, optimizer, &spec, standard), "possible",
							      possible, "text", o->text));
		else
			fprintf(invocation->out, "%s = %s\n    %s\n    %s\n", o->name,
				default_text(o, optimizer, &spec, standard), possible, o->text);
	}
	if (invocation->json) {
		print_json(list, invocation->out);
		return STARCTL_OK;
	}
	json_decref(list);
	if (!optimizer)
		fprintf(invocation->out, "\ndtype: %s\noptimizer: %s\n", dtype_names(), optim_kind_names());
	return STARCTL_OK;
}

int run_tables_create(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	struct jsonrpc_client *client;
	struct object_spec spec;
	json_t *result;

	if (spec_read(invocation->argv[0], invocation->argc - 1, invocation->argv + 1, &spec, &err) < 0)
		return fail(invocation, &err, STARCTL_USAGE);
	client = open_node(invocation, true, &err);
	result = client ? jsonrpc_call(client, "create", jsonrpc_object_encode(&spec), STARCTL_CALL_US, &err) : NULL;
	jsonrpc_close(client);
	if (!result)
		return fail(invocation, &err, STARCTL_FAILED);
	if (invocation->json) {
		print_json(result, invocation->out);
		return STARCTL_OK;
	}
	fprintf(invocation->out, "%s \"%s\" is object %" JSON_INTEGER_FORMAT "\n", wire_object_kind_name(spec.kind),
		spec.name, json_integer_value(json_object_get(result, "id")));
	json_decref(result);
	return STARCTL_OK;
}

static json_int_t stat_of(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(json_object_get(object, "stats"), name));
}

/* Waits until the node's own reactors have checked all rows. Returns the table at that time, or NULL. */
static json_t *wait_swept(struct jsonrpc_client *client, const char *name, struct star_error *err)
{
	const uint64_t until_us = clock_us() + SWEEP_WAIT_US;
	json_t *object;

	while ((object = table_of_node(client, name, err)) && stat_of(object, "sweep_left")) {
		const json_int_t left = stat_of(object, "sweep_left");

		json_decref(object);
		object = NULL;
		if (clock_us() > until_us) {
			star_error_set(err, -ETIMEDOUT,
				       "%" JSON_INTEGER_FORMAT " rows have not been checked after %d s", left,
				       SWEEP_WAIT_US / 1000000);
			break;
		}
		usleep(SWEEP_POLL_US);
	}
	return object;
}

int run_tables_sweep(const struct invocation *invocation)
{
	const char *name = invocation->argv[0];
	struct star_error err = { 0 };
	struct jsonrpc_client *client = open_node(invocation, true, &err);
	json_t *before = client ? table_of_node(client, name, &err) : NULL, *after = NULL, *swept = NULL;
	int status = STARCTL_OK;

	if (before)
		swept = jsonrpc_call(client, "sweep", json_pack("{s:s}", "name", name), STARCTL_CALL_US, &err);
	if (swept)
		after = wait_swept(client, name, &err);
	jsonrpc_close(client);
	if (!after)
		status = fail(invocation, &err, STARCTL_FAILED);
	else if (invocation->json)
		print_json(json_pack("{s:s, s:I, s:I}", "name", name, "evicted",
				     stat_of(after, "evicted") - stat_of(before, "evicted"), "rows",
				     stat_of(after, "rows")),
			   invocation->out);
	else
		fprintf(invocation->out,
			"%" JSON_INTEGER_FORMAT " rows of this node were evicted, %" JSON_INTEGER_FORMAT " are left\n",
			stat_of(after, "evicted") - stat_of(before, "evicted"), stat_of(after, "rows"));
	json_decref(before);
	json_decref(after);
	json_decref(swept);
	return status;
}

/* Whether the administrator confirms it: by --yes, or when asked. deletes: "all rows of "; asks: "Delete all rows of
 * ". */
static int confirm(const struct invocation *invocation, const char *deletes, const char *asks, struct star_error *err)
{
	char answer[16] = "";

	if (invocation->yes)
		return 0;
	if (!isatty(STDIN_FILENO))
		return star_error_set(
			err, -EINVAL,
			"this deletes %s\"%s\"%s, and standard input is not a terminal to ask on: give --yes", deletes,
			invocation->argv[0], invocation->argc > 1 ? " and others" : "");
	fprintf(invocation->errors, "%s", asks);
	for (int i = 0; i < invocation->argc; i++)
		fprintf(invocation->errors, "%s\"%s\"", i ? ", " : "", invocation->argv[i]);
	fprintf(invocation->errors, " on all nodes? [y/N] ");
	fflush(invocation->errors);
	if (fgets(answer, sizeof(answer), stdin) && (strcmp(answer, "y\n") == 0 || strcmp(answer, "yes\n") == 0))
		return 0;
	return star_error_set(err, -ECANCELED, "\"%s\"%s left as %s", invocation->argv[0],
			      invocation->argc > 1 ? " and the others were" : " was",
			      invocation->argc > 1 ? "they are" : "it is");
}

/* Starts it, then polls until no rows are left. Returns the last answer, or NULL. */
static json_t *empty_table(struct jsonrpc_client *client, const char *name, struct star_error *err)
{
	const uint64_t until_us = clock_us() + SWEEP_WAIT_US;
	json_t *params = json_pack("{s:s}", "name", name), *result;

	if (!params) {
		star_error_set(err, -EINVAL, "the name is not UTF-8");
		return NULL;
	}
	while ((result = jsonrpc_call(client, "empty", json_incref(params), STARCTL_CALL_US, err)) &&
	       json_integer_value(json_object_get(result, "left"))) {
		json_object_set(params, "ticket", json_object_get(result, "ticket"));
		if (clock_us() > until_us) {
			star_error_set(err, -ETIMEDOUT,
				       "%" JSON_INTEGER_FORMAT " rows are left after %d s; the nodes continue",
				       json_integer_value(json_object_get(result, "left")), SWEEP_WAIT_US / 1000000);
			json_decref(result);
			result = NULL;
			break;
		}
		json_decref(result);
		usleep(SWEEP_POLL_US);
	}
	json_decref(params);
	return result;
}

/* If there is a checkpoint directory, the nodes have requested a checkpoint. */
static int check_saved(const struct invocation *invocation, struct jsonrpc_client *client, struct star_error *err)
{
	struct star_error why = { 0 };
	json_t *status = wait_saved(invocation, client, &why);

	json_decref(status);
	return status ? 0
		      : star_error_set(err, why.code,
				       "\"%s\" is empty on all nodes, but a restart may bring its rows back: %.300s. "
				       "`starctl checkpoint save` when that is solved",
				       invocation->argv[0], why.text);
}

int run_tables_empty(const struct invocation *invocation)
{
	const char *name = invocation->argv[0];
	struct star_error err = { 0 };
	struct jsonrpc_client *client;
	json_t *result;

	if (confirm(invocation, "all rows of ", "Delete all rows of ", &err) < 0)
		return fail(invocation, &err, err.code == -EINVAL ? STARCTL_USAGE : STARCTL_FAILED);
	client = open_node(invocation, true, &err);
	result = client ? empty_table(client, name, &err) : NULL;
	if (result && check_saved(invocation, client, &err) < 0) {
		json_decref(result);
		result = NULL;
	}
	jsonrpc_close(client);
	if (!result)
		return fail(invocation, &err, STARCTL_FAILED);
	if (invocation->json) {
		json_object_del(result, "ticket");
		json_object_del(result, "left");
		json_object_set_new(result, "name", json_string(name));
		print_json(result, invocation->out);
		return STARCTL_OK;
	}
	fprintf(invocation->out, "\"%s\" is empty on all nodes\n", name);
	json_decref(result);
	return STARCTL_OK;
}

/* Before anything is dropped: checks that all of them exist, and that none is named twice. */
static int check_all(const struct invocation *invocation, struct jsonrpc_client *client, struct star_error *err)
{
	json_t *named = json_object();
	int rc = 0;

	for (int i = 0; rc == 0 && i < invocation->argc; i++) {
		json_t *found = table_of_node(client, invocation->argv[i], err);

		rc = found ? 0 : err->code;
		if (rc == 0 && json_object_get(named, invocation->argv[i]))
			rc = star_error_set(err, -EINVAL, "\"%s\" is named twice", invocation->argv[i]);
		json_object_set_new(named, invocation->argv[i], json_true());
		json_decref(found);
	}
	json_decref(named);
	return rc;
}

/* Drops one after the other; dropped: the answers. */
static int drop_all(const struct invocation *invocation, struct jsonrpc_client *client, json_t *dropped,
		    struct star_error *err)
{
	for (int i = 0; i < invocation->argc; i++) {
		const char *name = invocation->argv[i];
		struct star_error why = { 0 };
		json_t *result =
			jsonrpc_call(client, "table_drop", json_pack("{s:s}", "name", name), STARCTL_DROP_US, &why);

		if (!result)
			return star_error_set(err, why.code, "%s%s", why.text,
					      i ? "; those named before it were dropped" : "");
		json_object_set_new(result, "name", json_string(name));
		json_array_append_new(dropped, result);
	}
	return 0;
}

static void print_dropped(const json_t *dropped, FILE *out)
{
	const json_t *one, *task;
	size_t i, j;

	json_array_foreach(dropped, i, one)
	{
		const json_t *later = json_object_get(one, "later");

		fprintf(out, "\"%s\" is dropped", json_string_value(json_object_get(one, "name")));
		if (json_array_size(later) == 0)
			fprintf(out, " on all nodes\n");
		else
			fprintf(out, "; later, when they are back, on PS tasks");
		json_array_foreach(later, j, task)
			fprintf(out, "%s%" JSON_INTEGER_FORMAT "%s", j ? ", " : " ", json_integer_value(task),
				j + 1 == json_array_size(later) ? "\n" : "");
	}
}

int run_tables_drop(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	struct jsonrpc_client *client = open_node(invocation, true, &err);
	json_t *dropped = json_array();
	int rc = client ? check_all(invocation, client, &err) : err.code;

	if (rc == 0)
		rc = confirm(invocation, "", "Drop ", &err);
	if (rc == 0)
		rc = drop_all(invocation, client, dropped, &err);
	jsonrpc_close(client);
	if (invocation->json && json_array_size(dropped))
		print_json(json_incref(dropped), invocation->out);
	else
		print_dropped(dropped, invocation->out);
	json_decref(dropped);
	return rc < 0 ? fail(invocation, &err, rc == -EINVAL ? STARCTL_USAGE : STARCTL_FAILED) : STARCTL_OK;
}
