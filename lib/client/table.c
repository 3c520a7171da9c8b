/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables and variables: creates them, looks them up, and remembers them in the cluster handle. */
#include "client/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "client/small.h"
#include "client/spec.h"
#include "jsonrpc/member.h"

enum { EMPTY_LOOK_NS = 20000000 };

/* Finds the handle of that object, or creates it. */
static struct star_table *remember_table(struct star_cluster *cluster, const struct object_spec *spec,
					 struct star_error *err)
{
	struct star_table *table, *made = calloc(1, sizeof(*made));

	if (!made) {
		star_error_set(err, -ENOMEM, "out of memory for table \"%s\"", spec->name);
		return NULL;
	}
	made->cluster = cluster;
	made->spec = *spec;
	made->name_hash = hash_name(spec->name);
	made->elements = spec->kind == OBJECT_VARIABLE ? wire_object_elements(spec) : spec->dim;
	made->blocks = spec->kind == OBJECT_VARIABLE ? wire_object_blocks(spec) : 0;
	made->row_bytes = (uint32_t)dtype_row_bytes(spec->dtype, spec->dim);
	made->small = spec->kind == OBJECT_TABLE && !spec->staleness && made->row_bytes <= SMALL_ROW_BYTES &&
		      made->row_bytes % 8 == 0;
	made->small_pushes = made->small && spec->optim.kind != OPTIM_NONE && spec->optim.kind != OPTIM_LAMB &&
			     spec->clip_global_norm == 0;
	pthread_mutex_lock(&cluster->lock);
	for (table = cluster->tables; table; table = table->next)
		if (object_wire_id(&table->spec) == object_wire_id(spec) &&
		    wire_object_spec_same(&table->spec, spec, NULL) == 0 && strcmp(table->spec.name, spec->name) == 0)
			break;
	if (!table) {
		made->next = cluster->tables;
		cluster->tables = table = made;
		made = NULL;
	}
	pthread_mutex_unlock(&cluster->lock);
	free(made);
	return table;
}

struct star_table *client_table_ask(struct star_cluster *cluster, const char *method, json_t *params,
				    const struct object_spec *wanted, uint64_t deadline_us, struct star_error *err)
{
	const uint64_t deadline_ns = client_deadline_from(clock_ns(), deadline_us);
	struct star_table *table = NULL;
	struct object_spec spec = { 0 };
	json_t *json;

	if (!params) {
		star_error_set(err, -EINVAL, "the name \"%s\" is not UTF-8", wanted->name);
		return NULL;
	}
	json = client_catalogue_call(cluster, method, params, deadline_ns, err);
	json_decref(params);
	if (!json)
		return NULL;
	if (jsonrpc_object_decode(json, &spec, err) == 0) {
		if (strcmp(spec.name, wanted->name) != 0 || spec.id == 0)
			star_error_set(err, -EPROTO, "the control plane answered \"%s\" of \"%s\" with another object",
				       method, wanted->name);
		else if (!wanted->kind || wire_object_spec_same(&spec, wanted, err) == 0)
			table = remember_table(cluster, &spec, err);
	}
	json_decref(json);
	return table;
}

static struct star_table *create_table(struct star_cluster *cluster, const struct star_spec *from, unsigned kind,
				       uint64_t deadline_us, struct star_error *err)
{
	struct star_table *table = NULL;
	struct star_error ignored;
	struct object_spec spec;

	if (!err)
		err = &ignored;
	if (client_cluster_enter(cluster, true, err) < 0)
		return NULL;
	if (client_spec_of(&spec, from, kind, err) == 0)
		table = client_table_ask(cluster, "create", jsonrpc_object_encode(&spec), &spec, deadline_us, err);
	client_cluster_leave(cluster);
	return table;
}

struct star_table *star_table_create(struct star_cluster *cluster, const struct star_spec *spec, uint64_t deadline_us,
				     struct star_error *err)
{
	return create_table(cluster, spec, OBJECT_TABLE, deadline_us, err);
}

struct star_table *star_variable_create(struct star_cluster *cluster, const struct star_spec *spec,
					uint64_t deadline_us, struct star_error *err)
{
	return create_table(cluster, spec, OBJECT_VARIABLE, deadline_us, err);
}

struct star_table *star_lookup(struct star_cluster *cluster, const char *name, uint64_t deadline_us,
			       struct star_error *err)
{
	struct object_spec wanted = { 0 };
	struct star_table *table = NULL;
	struct star_error ignored;

	if (!err)
		err = &ignored;
	if (client_cluster_enter(cluster, true, err) < 0)
		return NULL;
	if (client_spec_name(&wanted, name, err) == 0)
		table = client_table_ask(cluster, "lookup", json_pack("{s:s}", "name", name), &wanted, deadline_us,
					 err);
	client_cluster_leave(cluster);
	return table;
}

/* For exactly this table, not for a later one of the same name. */
static json_t *handle_params(const struct star_table *table, struct star_error *err)
{
	json_t *params = jsonrpc_object_handle(&table->spec);

	if (!params)
		star_error_set(err, -ENOMEM, "no memory for a question");
	return params;
}

/* Begins emptying, and asks until no rows are left. */
static int empty_object(struct star_table *table, uint64_t deadline_ns, struct star_error *err)
{
	struct star_cluster *cluster = table->cluster;
	json_t *params = handle_params(table, err);
	uint64_t left = 1;
	int rc = params ? 0 : err->code;

	while (rc == 0 && left) {
		json_t *result = client_catalogue_call(cluster, "empty", params, deadline_ns, err);

		rc = result ? jsonrpc_member_u64(result, "left", &left, err) : err->code;
		if (rc == 0 && left && json_object_get(result, "ticket"))
			json_object_set(params, "ticket", json_object_get(result, "ticket"));
		json_decref(result);
		if (rc == -ETIMEDOUT ? json_object_get(params, "ticket") != NULL
				     : rc == 0 && left && clock_ns() >= deadline_ns)
			rc = star_error_set(err, -ETIMEDOUT, "\"%s\" is not empty yet: the nodes continue",
					    table->spec.name);
		if (rc == 0 && left)
			rc = client_cluster_pause(cluster, clock_ns() + EMPTY_LOOK_NS, err);
	}
	json_decref(params);
	return rc;
}

static int drop_object(struct star_table *table, uint64_t deadline_ns, struct star_error *err)
{
	json_t *params = handle_params(table, err), *result;
	int rc;

	if (!params)
		return err->code;
	result = client_catalogue_call(table->cluster, "table_drop", params, deadline_ns, err);
	rc = result ? 0 : err->code;
	json_decref(result);
	json_decref(params);
	return rc;
}

typedef int table_change(struct star_table *, uint64_t deadline_ns, struct star_error *);

static int change_whole(struct star_table *table, table_change *change, uint64_t deadline_us, struct star_error *err)
{
	struct star_error ignored;
	int rc;

	err = err ? err : &ignored;
	if (!table)
		return star_error_set(err, -EINVAL, "no table was given");
	rc = client_cluster_enter(table->cluster, true, err);
	if (rc < 0)
		return rc;
	rc = change(table, client_deadline_from(clock_ns(), deadline_us), err);
	client_cluster_leave(table->cluster);
	return rc;
}

int star_table_empty(struct star_table *table, uint64_t deadline_us, struct star_error *err)
{
	return change_whole(table, empty_object, deadline_us, err);
}

int star_table_drop(struct star_table *table, uint64_t deadline_us, struct star_error *err)
{
	return change_whole(table, drop_object, deadline_us, err);
}

uint64_t star_elements(const struct star_table *table)
{
	return table ? table->elements : 0;
}

uint64_t star_blocks(const struct star_table *table)
{
	return table ? table->blocks : 0;
}

uint64_t star_bytes(const struct star_table *table, const char *dtype)
{
	unsigned type;

	if (!table)
		return 0;
	type = dtype ? dtype_parse(dtype) : table->spec.dtype;
	if (!type)
		return 0;
	if (!table->blocks)
		return dtype_row_bytes(type, table->elements);
	return (table->blocks - 1) * dtype_row_bytes(type, table->spec.dim) +
	       dtype_row_bytes(type, table->elements - (table->blocks - 1) * table->spec.dim);
}
