/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/object_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/member.h"
#include "tensor/dtype.h"

json_t *object_to_json(const struct object_spec *spec)
{
	json_t *json = json_pack("{s:s, s:s, s:s, s:i}", "name", spec->name, "kind", object_kind_name(spec->kind),
				 "dtype", dtype_name(spec->dtype), "dim", spec->dim);
	json_t *shape;

	if (!json)
		return NULL;
	if (spec->id)
		json_object_set_new(json, "id", json_integer(spec->id));
	if (spec->kind == OBJECT_VARIABLE) {
		shape = json_array();
		for (unsigned i = 0; i < spec->ndim && i < OBJECT_NDIM_MAX; i++)
			json_array_append_new(shape, member_from_u64(spec->shape[i]));
		json_object_set_new(json, "shape", shape);
	}
	json_object_set_new(json, "initializer", json_string(object_initializer_name(spec->initializer)));
	json_object_set_new(json, "scale", json_real(spec->scale));
	json_object_set_new(json, "seed", member_from_u64(spec->seed));
	json_object_set_new(json, "optimizer", json_string(object_optimizer_name(spec->optimizer)));
	json_object_set_new(json, "rate", json_real(spec->rate));
	json_object_set_new(json, "epsilon", json_real(spec->epsilon));
	json_object_set_new(json, "initial_accumulator", json_real(spec->initial_accumulator));
	return json;
}

static unsigned kind_parse(const char *name)
{
	for (unsigned kind = OBJECT_TABLE; object_kind_name(kind); kind++)
		if (strcmp(object_kind_name(kind), name) == 0)
			return kind;
	return 0;
}

/* A member that names something: parse gives its number, or 0. */
static int read_name(const json_t *json, const char *member, unsigned (*parse)(const char *name), const char *possible,
		     uint8_t *number, struct star_error *err)
{
	const char *name;
	int rc = member_string(json, member, WIRE_NAME_MAX, &name, err);

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

static int read_numbers(const json_t *json, struct object_spec *spec, struct star_error *err)
{
	if (member_u64(json, "seed", &spec->seed, err) < 0 || member_float(json, "scale", &spec->scale, err) < 0 ||
	    member_float(json, "rate", &spec->rate, err) < 0 ||
	    member_float(json, "epsilon", &spec->epsilon, err) < 0 ||
	    member_float(json, "initial_accumulator", &spec->initial_accumulator, err) < 0)
		return -EINVAL;
	if (json_object_get(json, "id") && member_u32(json, "id", 1, WIRE_OBJECTS_MAX, &spec->id, err) < 0)
		return -EINVAL;
	if ((spec->kind == OBJECT_TABLE || json_object_get(json, "dim")) &&
	    member_u32(json, "dim", 1, WIRE_DIM_MAX, &spec->dim, err) < 0)
		return -EINVAL;
	return 0;
}

int object_from_json(const json_t *json, struct object_spec *spec, struct star_error *err)
{
	static const char *const members[] = { "name",
					       "kind",
					       "id",
					       "dtype",
					       "dim",
					       "shape",
					       "initializer",
					       "scale",
					       "seed",
					       "optimizer",
					       "rate",
					       "epsilon",
					       "initial_accumulator",
					       NULL };
	const char *name;
	uint32_t dim;

	*spec = (struct object_spec){ 0 };
	if (!json_is_object(json))
		return star_error_set(err, -EINVAL, "a table or variable must be a JSON object");
	if (member_only(json, members, err) < 0 || member_string(json, "name", WIRE_NAME_MAX, &name, err) < 0)
		return -EINVAL;
	strcpy(spec->name, name);
	if (read_name(json, "kind", kind_parse, "table, variable", &spec->kind, err) < 0 ||
	    read_name(json, "dtype", dtype_parse, "float32", &spec->dtype, err) < 0 ||
	    read_name(json, "initializer", object_initializer_parse, "zeros, constant, uniform, normal",
		      &spec->initializer, err) < 0 ||
	    read_name(json, "optimizer", object_optimizer_parse, "sgd, adagrad", &spec->optimizer, err) < 0 ||
	    read_numbers(json, spec, err) < 0 || read_shape(json, spec, err) < 0)
		return -EINVAL;
	dim = spec->dim;
	if (object_spec_check(spec, err) < 0)
		return -EINVAL;
	if (dim && dim != spec->dim)
		return star_error_set(
			err, -EINVAL,
			"member \"dim\" is %u, but blocks of variable \"%s\" have %u elements; leave it out", dim,
			spec->name, spec->dim);
	return 0;
}
