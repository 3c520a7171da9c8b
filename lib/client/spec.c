/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/spec.h"

#include <errno.h>
#include <string.h>

#include "tensor/dtype.h"

int client_spec_name(struct object_spec *spec, const char *name, struct star_error *err)
{
	if (!name || strnlen(name, WIRE_NAME_MAX + 1) > WIRE_NAME_MAX)
		return star_error_set(err, -EINVAL, "a table's or variable's name must have 1 to %d bytes",
				      WIRE_NAME_MAX);
	strcpy(spec->name, name);
	return 0;
}

/* A name among those of a list; NULL is the default. */
static int parse_name(const struct object_spec *spec, const char *what, const char *name, unsigned standard,
		      unsigned (*parse)(const char *), const char *possible, unsigned *number, struct star_error *err)
{
	*number = name ? parse(name) : standard;
	return *number ? 0
		       : star_error_set(err, -EINVAL, "\"%s\": there is no %s \"%.40s\"; possible values are %s",
					spec->name, what, name, possible);
}

static int fill_shape(struct object_spec *spec, const struct star_spec *from, struct star_error *err)
{
	if (spec->kind == OBJECT_TABLE) {
		spec->dim = from->dim;
		return 0;
	}
	spec->ndim = from->ndim;
	if (from->ndim && !from->shape)
		return star_error_set(err, -EINVAL, "variable \"%s\" has %u dimensions, but its shape is NULL",
				      spec->name, from->ndim);
	for (uint32_t i = 0; i < from->ndim && i < OBJECT_NDIM_MAX; i++)
		spec->shape[i] = from->shape[i];
	return 0;
}

static int fill_names(struct object_spec *spec, const struct star_spec *from, struct star_error *err)
{
	char possible[OBJECT_OPTION_TEXT];
	unsigned dtype, initializer, optimizer;

	/* The first option is the initializer. */
	if (parse_name(spec, "element type", from->dtype, STAR_FLOAT32, dtype_parse, dtype_names(), &dtype, err) < 0 ||
	    parse_name(spec, "optimizer", from->optimizer, dtype_is_real(dtype) ? OPTIM_SGD : OPTIM_NONE,
		       optim_kind_parse, optim_kind_names(), &optimizer, err) < 0 ||
	    parse_name(spec, "initializer", from->initializer, OBJECT_ZEROS, wire_object_initializer_parse,
		       wire_object_option_possible(&wire_object_options[0], possible), &initializer, err) < 0)
		return -EINVAL;
	wire_object_spec_defaults(spec, optimizer);
	spec->dtype = (uint8_t)dtype;
	spec->initializer = (uint8_t)initializer;
	return 0;
}

int client_spec_of(struct object_spec *spec, const struct star_spec *from, unsigned kind, struct star_error *err)
{
	struct star_error why;

	if (!from)
		return star_error_set(err, -EINVAL, "the definition (struct star_spec) is NULL");
	*spec = (struct object_spec){ .kind = (uint8_t)kind };
	if (client_spec_name(spec, from->name, err) < 0 || fill_names(spec, from, err) < 0 ||
	    fill_shape(spec, from, err) < 0)
		return -EINVAL;
	spec->seed = from->seed;
	spec->scale = from->scale;
	if (from->rate != 0)
		spec->optim.rate = from->rate;
	if (wire_object_spec_options(spec, from->options, &why) < 0)
		return star_error_set(err, -EINVAL, "\"%s\": %s", spec->name, why.text);
	return wire_object_spec_check(spec, err);
}
