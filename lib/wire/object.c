/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/object.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tensor/dtype.h"

const char *wire_object_kind_name(unsigned kind)
{
	return kind == OBJECT_TABLE	 ? "table"
	       : kind == OBJECT_VARIABLE ? "variable"
	       : kind == OBJECT_PROGRAM	 ? "program"
					 : NULL;
}

const char *wire_object_initializer_name(unsigned initializer)
{
	switch (initializer) {
#define X(NAME, number, name, text) \
	case number: \
		return name;
		OBJECT_INITIALIZERS(X)
#undef X
	}
	return NULL;
}

unsigned wire_object_initializer_parse(const char *name)
{
	const char *known;

	for (unsigned i = 1; (known = wire_object_initializer_name(i)); i++)
		if (strcmp(known, name) == 0)
			return i;
	return 0;
}

uint64_t wire_object_elements(const struct object_spec *spec)
{
	uint64_t elements = 1;

	for (unsigned i = 0; i < spec->ndim; i++)
		elements *= spec->shape[i];
	return elements;
}

uint64_t wire_object_blocks(const struct object_spec *spec)
{
	return (wire_object_elements(spec) + spec->dim - 1) / spec->dim;
}

/* "10 x 20" */
static const char *shape_text(const struct object_spec *spec, char text[static 200])
{
	size_t used = 0;

	for (unsigned i = 0; i < spec->ndim && i < OBJECT_NDIM_MAX; i++)
		used += (size_t)snprintf(text + used, 200 - used, "%s%" PRIu64, i ? " x " : "", spec->shape[i]);
	return text;
}

static int differs(struct star_error *err, const char *name, const char *what, const char *have, const char *want)
{
	return star_error_set(err, -EEXIST,
			      "\"%s\" exists with another %s: %s there, %s requested; use that definition, or drop it "
			      "to start again (starctl tables drop)",
			      name, what, have, want);
}

static int compare_shapes(const struct object_spec *have, const struct object_spec *want, struct star_error *err)
{
	char there[200], here[200];
	bool same = have->ndim == want->ndim;

	if (have->kind == OBJECT_TABLE) {
		if (have->dim == want->dim)
			return 0;
		snprintf(there, sizeof(there), "%u", have->dim);
		snprintf(here, sizeof(here), "%u", want->dim);
		return differs(err, want->name, "dim", there, here);
	}
	for (unsigned i = 0; same && i < have->ndim; i++)
		same = have->shape[i] == want->shape[i];
	return same ? 0 : differs(err, want->name, "shape", shape_text(have, there), shape_text(want, here));
}

static int compare_option(const struct object_option *option, const struct object_spec *have,
			  const struct object_spec *want, struct star_error *err)
{
	char there[OBJECT_OPTION_TEXT], here[OBJECT_OPTION_TEXT];
	const bool same = option->type == OPTION_FLOAT
				  ? wire_object_option_float(option, have) == wire_object_option_float(option, want)
				  : wire_object_option_whole(option, have) == wire_object_option_whole(option, want);

	return same ? 0
		    : differs(err, want->name, option->name, wire_object_option_text(option, have, there),
			      wire_object_option_text(option, want, here));
}

int wire_object_spec_same(const struct object_spec *have, const struct object_spec *want, struct star_error *err)
{
	int rc = 0;

	if (have->kind != want->kind)
		return star_error_set(err, -EEXIST, "\"%s\" exists as a %s, but a %s was requested", want->name,
				      wire_object_kind_name(have->kind), wire_object_kind_name(want->kind));
	if (have->kind == OBJECT_PROGRAM)
		return memcmp(&have->program, &want->program, program_bytes(&have->program)) == 0
			       ? 0
			       : star_error_set(err, -EEXIST, "\"%s\" exists as another program", want->name);
	if (have->dtype != want->dtype)
		return differs(err, want->name, "element type", dtype_name(have->dtype), dtype_name(want->dtype));
	rc = compare_shapes(have, want, err);
	if (rc == 0 && have->optim.kind != want->optim.kind)
		rc = differs(err, want->name, "optimizer", optim_kind_name(have->optim.kind),
			     optim_kind_name(want->optim.kind));
	for (const struct object_option *o = wire_object_options; o->name && rc == 0; o++)
		rc = compare_option(o, have, want, err);
	return rc;
}
