/* SPDX-License-Identifier: BSD-3-Clause */
#include "jsonrpc/object_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jsonrpc/member.h"
#include "tensor/dtype.h"

/* The members that the catalogue assigns. */
static void put_id(json_t *json, const struct object_spec *spec)
{
	if (spec->id)
		json_object_set_new(json, "id", json_integer(spec->id));
	if (spec->generation)
		json_object_set_new(json, "generation", json_integer(spec->generation));
}

static int read_id(const json_t *json, struct object_spec *spec, struct star_error *err)
{
	if ((json_object_get(json, "id") && jsonrpc_member_u32(json, "id", 1, WIRE_OBJECTS_MAX, &spec->id, err) < 0) ||
	    (json_object_get(json, "generation") &&
	     jsonrpc_member_u32(json, "generation", 0, OBJECT_GENERATION_MAX, &spec->generation, err) < 0))
		return -EINVAL;
	return 0;
}

/* A program's members; its nodes, as they are sent, in hexadecimal digits. */
static json_t *program_to_json(const struct object_spec *spec)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *bytes = (const uint8_t *)&spec->program;
	char text[2 * PROGRAM_BYTES_MAX + 1];
	uint32_t n = program_bytes(&spec->program);
	json_t *json;

	for (uint32_t i = 0; i < n; i++) {
		text[2 * i] = digits[bytes[i] >> 4];
		text[2 * i + 1] = digits[bytes[i] & 15];
	}
	text[2 * n] = 0;
	json = json_pack("{s:s, s:s, s:s}", "name", spec->name, "kind", "program", "program", text);
	put_id(json, spec);
	return json;
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int program_from_json(const json_t *json, struct object_spec *spec, struct star_error *err)
{
	static const char *const members[] = { "name", "kind", "id", "generation", "program", NULL };
	uint8_t bytes[PROGRAM_BYTES_MAX];
	struct program_shape shape;
	const char *text, *why;
	unsigned node;
	size_t n;

	if (jsonrpc_member_only(json, members, err) < 0 || read_id(json, spec, err) < 0 ||
	    jsonrpc_member_string(json, "program", 2 * PROGRAM_BYTES_MAX, &text, err) < 0)
		return -EINVAL;
	for (n = 0; text[2 * n]; n++) {
		const int high = digit(text[2 * n]), low = digit(text[2 * n + 1]);

		if (high < 0 || low < 0)
			return star_error_set(err, -EINVAL, "member \"program\" must be hexadecimal digits");
		bytes[n] = (uint8_t)(high << 4 | low);
	}
	why = wire_program_read(bytes, n, &spec->program, &shape, &node);
	if (why && node == PROGRAM_NONE)
		return star_error_set(err, -EINVAL, "member \"program\" is invalid: %s", why);
	return wire_object_spec_check(spec, err);
}

/* The members that are in no table: those with which a definition begins. */
static const char *const first_members[] = { "name", "kind", "id", "generation", "dtype", "dim", "shape", "optimizer" };
enum { FIRST_MEMBERS = sizeof(first_members) / sizeof(first_members[0]), OPTIONS_MAX = 64 };

/* The float's shortest decimal number: 0.1, not the value of 0.1f as a double. */
static json_t *from_float(float number)
{
	char text[OBJECT_OPTION_TEXT];

	return json_loads(wire_object_float_text(number, text), JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
}

static json_t *option_to_json(const struct object_option *option, const struct object_spec *spec)
{
	const uint64_t whole = wire_object_option_whole(option, spec);

	switch (option->type) {
	case OPTION_FLOAT:
		return from_float(wire_object_option_float(option, spec));
	case OPTION_SWITCH:
		return json_boolean(whole);
	case OPTION_NAME:
		return json_string(option->name_of((unsigned)whole));
	default:
		return jsonrpc_member_from_u64(whole);
	}
}

json_t *jsonrpc_object_handle(const struct object_spec *spec)
{
	return json_pack("{s:s, s:I, s:I}", "name", spec->name, "id", (json_int_t)spec->id, "generation",
			 (json_int_t)spec->generation);
}

json_t *jsonrpc_object_encode(const struct object_spec *spec)
{
	json_t *json, *shape;

	if (spec->kind == OBJECT_PROGRAM)
		return program_to_json(spec);
	json = json_pack("{s:s, s:s, s:s, s:i}", "name", spec->name, "kind", wire_object_kind_name(spec->kind), "dtype",
			 dtype_name(spec->dtype), "dim", spec->dim);
	if (!json)
		return NULL;
	put_id(json, spec);
	if (spec->kind == OBJECT_VARIABLE) {
		shape = json_array();
		for (unsigned i = 0; i < spec->ndim && i < OBJECT_NDIM_MAX; i++)
			json_array_append_new(shape, jsonrpc_member_from_u64(spec->shape[i]));
		json_object_set_new(json, "shape", shape);
	}
	json_object_set_new(json, "optimizer", json_string(optim_kind_name(spec->optim.kind)));
	for (const struct object_option *o = wire_object_options; o->name; o++)
		if (wire_object_option_used(o, spec->optim.kind))
			json_object_set_new(json, o->name, option_to_json(o, spec));
	return json;
}

static unsigned kind_parse(const char *name)
{
	for (unsigned kind = OBJECT_TABLE; wire_object_kind_name(kind); kind++)
		if (strcmp(wire_object_kind_name(kind), name) == 0)
			return kind;
	return 0;
}

/* Reads a member that is a name: parse returns its number, or 0. */
static int read_name(const json_t *json, const char *member, unsigned (*parse)(const char *name), const char *possible,
		     uint8_t *number, struct star_error *err)
{
	const char *name;
	int rc = jsonrpc_member_string(json, member, WIRE_NAME_MAX, &name, err);

	if (rc < 0)
		return rc;
	*number = (uint8_t)parse(name);
	return *number ? 0
		       : star_error_set(err, -EINVAL, "member \"%s\" is \"%.40s\"; possible: %s", member, name,
					possible);
}

static int read_shape(const json_t *json, struct object_spec *spec, struct star_error *err)
{
	const json_t *shape = json_object_get(json, "shape"), *size;
	size_t i;

	if (spec->kind != OBJECT_VARIABLE)
		return shape ? star_error_set(err, -EINVAL,
					      "member \"shape\" belongs to variables; a table has \"dim\"")
			     : 0;
	if (!json_is_array(shape) || json_array_size(shape) < 1 || json_array_size(shape) > OBJECT_NDIM_MAX)
		return star_error_set(err, -EINVAL, "member \"shape\" of a variable must be an array of 1 to %d sizes",
				      OBJECT_NDIM_MAX);
	spec->ndim = (uint32_t)json_array_size(shape);
	json_array_foreach(shape, i, size)
	{
		if (!json_is_integer(size) || json_integer_value(size) < 1)
			return star_error_set(err, -EINVAL, "member \"shape\": size %zu must be a positive integer", i);
		spec->shape[i] = (uint64_t)json_integer_value(size);
	}
	return 0;
}

static int read_option_name(const json_t *json, const struct object_option *option, uint64_t *number,
			    struct star_error *err)
{
	char possible[OBJECT_OPTION_TEXT];
	const char *name;
	int rc = jsonrpc_member_string(json, option->name, WIRE_NAME_MAX, &name, err);

	if (rc < 0)
		return rc;
	*number = wire_object_option_parse(option, name);
	return *number ? 0
		       : star_error_set(err, -EINVAL, "member \"%s\" is \"%.40s\"; possible: %s", option->name, name,
					wire_object_option_possible(option, possible));
}

/* Reads an option that is present. Only whether it fits is checked here; wire_object_spec_check knows its bounds. */
static int read_option(const json_t *json, const struct object_option *option, struct object_spec *spec,
		       struct star_error *err)
{
	uint64_t whole = 0;
	float number = 0;
	bool on = false;
	int rc;

	switch (option->type) {
	case OPTION_FLOAT:
		rc = jsonrpc_member_float(json, option->name, &number, err);
		break;
	case OPTION_SWITCH:
		rc = jsonrpc_member_bool(json, option->name, &on, err);
		whole = on;
		break;
	case OPTION_NAME:
		rc = read_option_name(json, option, &whole, err);
		break;
	case OPTION_U32:
		rc = jsonrpc_member_uint(json, option->name, 0, UINT32_MAX, &whole, err);
		break;
	default:
		rc = jsonrpc_member_u64(json, option->name, &whole, err);
	}
	if (rc == 0)
		wire_object_option_set(option, spec, whole, number);
	return rc;
}

static int read_options(const json_t *json, struct object_spec *spec, struct star_error *err)
{
	for (const struct object_option *o = wire_object_options; o->name; o++)
		if (json_object_get(json, o->name) && read_option(json, o, spec, err) < 0)
			return -EINVAL;
	if (read_id(json, spec, err) < 0)
		return -EINVAL;
	if ((spec->kind == OBJECT_TABLE || json_object_get(json, "dim")) &&
	    jsonrpc_member_u32(json, "dim", 1, WIRE_DIM_MAX, &spec->dim, err) < 0)
		return -EINVAL;
	return 0;
}

static int check_members(const json_t *json, struct star_error *err)
{
	const char *members[FIRST_MEMBERS + OPTIONS_MAX + 1];
	unsigned count = 0;

	for (; count < FIRST_MEMBERS; count++)
		members[count] = first_members[count];
	for (const struct object_option *o = wire_object_options; o->name && count < FIRST_MEMBERS + OPTIONS_MAX; o++)
		members[count++] = o->name;
	members[count] = NULL;
	return jsonrpc_member_only(json, members, err);
}

int jsonrpc_object_decode(const json_t *json, struct object_spec *spec, struct star_error *err)
{
	uint8_t optimizer = OPTIM_SGD;
	const char *name;
	uint32_t dim;

	*spec = (struct object_spec){ .dtype = STAR_FLOAT32 };
	if (!json_is_object(json))
		return star_error_set(err, -EINVAL, "a table or variable must be a JSON object");
	if (jsonrpc_member_string(json, "name", WIRE_NAME_MAX, &name, err) < 0)
		return -EINVAL;
	strcpy(spec->name, name);
	if (json_object_get(json, "program")) {
		if (read_name(json, "kind", kind_parse, "program", &spec->kind, err) < 0)
			return -EINVAL;
		return spec->kind == OBJECT_PROGRAM
			       ? program_from_json(json, spec, err)
			       : star_error_set(err, -EINVAL, "member \"program\" is for programs only");
	}
	if (check_members(json, err) < 0 ||
	    read_name(json, "kind", kind_parse, "table, variable", &spec->kind, err) < 0)
		return -EINVAL;
	if (json_object_get(json, "dtype") &&
	    read_name(json, "dtype", dtype_parse, dtype_names(), &spec->dtype, err) < 0)
		return -EINVAL;
	if (json_object_get(json, "optimizer") &&
	    read_name(json, "optimizer", optim_kind_parse, optim_kind_names(), &optimizer, err) < 0)
		return -EINVAL;
	wire_object_spec_defaults(spec, optimizer);
	if (read_options(json, spec, err) < 0 || read_shape(json, spec, err) < 0)
		return -EINVAL;
	dim = spec->dim;
	if (wire_object_spec_check(spec, err) < 0)
		return -EINVAL;
	if (dim && dim != spec->dim)
		return star_error_set(
			err, -EINVAL,
			"member \"dim\" is %u, but blocks of variable \"%s\" have %u elements; leave it out", dim,
			spec->name, spec->dim);
	return 0;
}
