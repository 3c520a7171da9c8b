/* SPDX-License-Identifier: BSD-3-Clause */
/* What a definition may be: the range of each field, and which may be combined. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "tensor/dtype.h"
#include "tensor/sums.h"
#include "wire/object.h"

enum { ELEMENTS_LOG2_MAX = 38 };

/* Returns the length of the UTF-8 sequence (RFC 3629) at s, or 0 if it is invalid. Does not read beyond a zero byte. */
static unsigned utf8_bytes(const unsigned char *s)
{
	unsigned n = 0;

	if (s[0] < 0x80)
		n = 1;
	else if (s[0] >= 0xc2 && s[0] < 0xe0)
		n = 2;
	else if (s[0] >= 0xe0 && s[0] < 0xf0)
		n = 3;
	else if (s[0] >= 0xf0 && s[0] < 0xf5)
		n = 4;
	for (unsigned i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
	    (s[0] == 0xf4 && s[1] > 0x8f))
		return 0; /* overlong, a surrogate, or beyond U+10FFFF */
	return n;
}

static int check_name(const char *name, struct star_error *err)
{
	const size_t length = strnlen(name, WIRE_NAME_MAX + 1);

	if (length == 0 || length > WIRE_NAME_MAX)
		return star_error_set(err, -EINVAL, "a name must have 1 to %d bytes", WIRE_NAME_MAX);
	for (size_t i = 0; i < length; i += utf8_bytes((const unsigned char *)name + i))
		if (utf8_bytes((const unsigned char *)name + i) == 0)
			return star_error_set(err, -EINVAL, "the name is not UTF-8 from its byte %zu on", i);
		else if (base_is_control(name[i]) ||
			 ((unsigned char)name[i] == 0xc2 && (unsigned char)name[i + 1] < 0xa0)) /* U+0080 to U+009F */
			return star_error_set(err, -EINVAL, "the name has a control character (byte %zu, %#x)", i,
					      (unsigned char)name[i]);
	return 0;
}

/* Blocks are whole rows of the tensor if they fit, so that no row is split; otherwise plain blocks. */
static int check_shape(struct object_spec *spec, struct star_error *err)
{
	double elements = 1;
	uint64_t row = 1, total;

	if (spec->ndim < 1 || spec->ndim > OBJECT_NDIM_MAX)
		return star_error_set(err, -EINVAL, "variable \"%s\" has %u dimensions: 1 to %d are possible",
				      spec->name, spec->ndim, OBJECT_NDIM_MAX);
	for (unsigned i = 0; i < spec->ndim; i++) {
		if (spec->shape[i] == 0)
			return star_error_set(err, -EINVAL, "dimension %u of variable \"%s\" is 0", i, spec->name);
		elements *= (double)spec->shape[i];
	}
	if (elements > ldexp(1, ELEMENTS_LOG2_MAX))
		return star_error_set(err, -EINVAL, "variable \"%s\" has %.0f elements: at most 2^%d are possible",
				      spec->name, elements, ELEMENTS_LOG2_MAX);
	for (unsigned i = 1; i < spec->ndim; i++)
		row *= spec->shape[i];
	total = wire_object_elements(spec);
	spec->dim = sums_block(row, total);
	return 0;
}

static bool is_table(const struct object_spec *spec)
{
	return spec->kind == OBJECT_TABLE;
}

static bool is_variable(const struct object_spec *spec)
{
	return spec->kind == OBJECT_VARIABLE;
}

static bool is_whole_object(const struct object_spec *spec)
{
	return spec->whole;
}

static bool learns(const struct object_spec *spec)
{
	return spec->optim.kind != OPTIM_NONE;
}

static bool is_narrow(const struct object_spec *spec)
{
	return spec->dtype == STAR_FLOAT16 || spec->dtype == STAR_BFLOAT16 || spec->dtype == STAR_SCALED_INT8;
}

static bool is_real_table(const struct object_spec *spec)
{
	return is_table(spec) && dtype_is_real(spec->dtype);
}

static bool takes_mean(const struct object_spec *spec)
{
	return spec->initializer == OBJECT_UNIFORM || spec->initializer == OBJECT_NORMAL ||
	       spec->initializer == OBJECT_TRUNCATED_NORMAL;
}

static bool takes_scale(const struct object_spec *spec)
{
	return takes_mean(spec) || spec->initializer == OBJECT_CONSTANT;
}

static bool is_scheduled(const struct object_spec *spec)
{
	return spec->schedule != SCHEDULE_CONSTANT;
}

static bool is_filtered(const struct object_spec *spec)
{
	return spec->filter != FILTER_NONE;
}

static bool is_bloom(const struct object_spec *spec)
{
	return spec->filter == FILTER_BLOOM;
}

/* Options that are only allowed where `holds` is true; elsewhere they must have their defaults. The first violation is
 * reported, so a rule that others presume comes before them. */
static const struct {
	const char *option;
	bool (*holds)(const struct object_spec *spec);
	const char *needs;
} needs[] = {
	{ "scale", takes_scale, "initializer constant, uniform, normal or truncated_normal" },
	{ "mean", takes_mean, "initializer uniform, normal or truncated_normal" },
	{ "schedule", learns, "an optimizer" },
	{ "schedule_steps", is_scheduled, "a schedule" },
	{ "schedule_rate", is_scheduled, "a schedule" },
	{ "warmup_steps", learns, "an optimizer" },
	{ "staleness", learns, "an optimizer" },
	{ "nonfinite", learns, "an optimizer" },
	{ "whole", is_variable, "a variable: the rows of a table are spread over the shards" },
	{ "clip_global_norm", learns, "an optimizer" },
	{ "clip_global_norm", is_whole_object,
	  "whole=1, so that one shard has the whole gradient; use star_clip_global_norm for the others" },
	{ "master", is_narrow, "element type float16, bfloat16 or scaled_int8" },
	{ "master", learns, "an optimizer" },
	{ "stochastic", is_narrow, "element type float16, bfloat16 or scaled_int8" },
	{ "stochastic", learns, "an optimizer" },
	{ "filter", is_table, "a table: a variable has all its elements" },
	{ "filter_frequency", is_filtered, "filter=counter or filter=bloom" },
	{ "filter_value", is_filtered, "filter=counter or filter=bloom" },
	{ "filter_keys", is_bloom, "filter=bloom" },
	{ "filter_error", is_bloom, "filter=bloom" },
	{ "steps_to_live", is_table, "a table: a variable has all its elements" },
	{ "l2_threshold", is_table, "a table: a variable has all its elements" },
	{ "l2_threshold", is_real_table, "a real element type" },
	{ "rows_max", is_table, "a table: a variable has all its elements" },
	{ "full", is_table, "a table: a variable has all its elements" },
};

static bool at_default(const struct object_option *option, const struct object_spec *spec)
{
	if (option->type == OPTION_FLOAT)
		return wire_object_option_float(option, spec) == (float)option->standard;
	return (double)wire_object_option_whole(option, spec) == option->standard;
}

static int check_needs(const struct object_option *option, const struct object_spec *spec, struct star_error *err)
{
	char text[OBJECT_OPTION_TEXT];

	for (unsigned i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
		if (strcmp(needs[i].option, option->name) == 0 && !needs[i].holds(spec))
			return star_error_set(err, -EINVAL, "\"%s\": %s=%s needs %s", spec->name, option->name,
					      wire_object_option_text(option, spec, text), needs[i].needs);
	return 0;
}

static int check_bounds(const struct object_option *option, const struct object_spec *spec, struct star_error *err)
{
	char text[OBJECT_OPTION_TEXT], possible[OBJECT_OPTION_TEXT];
	bool good;

	if (option->type == OPTION_FLOAT) {
		const double value = (double)wire_object_option_float(option, spec);

		good = isfinite(value) && value >= (double)(float)option->least && value <= (double)(float)option->most;
	} else if (option->type == OPTION_NAME) {
		good = option->name_of((unsigned)wire_object_option_whole(option, spec)) != NULL;
	} else {
		good = (double)wire_object_option_whole(option, spec) <= option->most;
	}
	return good ? 0
		    : star_error_set(err, -EINVAL, "\"%s\": %s is %s; possible: %s", spec->name, option->name,
				     wire_object_option_text(option, spec, text),
				     wire_object_option_possible(option, possible));
}

static int check_options(const struct object_spec *spec, struct star_error *err)
{
	struct star_error why;

	if (optim_options_check(&spec->optim, &why) < 0)
		return star_error_set(err, -EINVAL, "\"%s\": %s", spec->name, why.text);
	for (const struct object_option *o = wire_object_options; o->name; o++) {
		if (o->of_optimizer)
			continue;
		if (check_bounds(o, spec, err) < 0 || (!at_default(o, spec) && check_needs(o, spec, err) < 0))
			return -EINVAL;
	}
	return 0;
}

/* Whether a gradient of 0 would divide 0 by 0. */
static bool divides_by_zero(const struct optim_options *o)
{
	return optim_uses(o->kind, "epsilon") && o->epsilon == 0 &&
	       !(optim_uses(o->kind, "initial_accumulator") && o->initial_accumulator > 0);
}

/* Checks for options that another option requires. */
static int check_missing(const struct object_spec *spec, struct star_error *err)
{
	const struct {
		bool missing;
		const char *what;
	} cases[] = {
		{ is_scheduled(spec) && !spec->schedule_steps, "a schedule needs schedule_steps, 1 or more" },
		{ spec->schedule == SCHEDULE_EXPONENTIAL && !(spec->schedule_rate > 0),
		  "schedule=exponential needs a schedule_rate above 0, such as 0.96" },
		{ is_filtered(spec) && !spec->filter_frequency, "a filter needs filter_frequency, 1 or more" },
		{ is_bloom(spec) && !spec->filter_keys,
		  "filter=bloom needs filter_keys, the number of distinct keys to expect" },
		{ divides_by_zero(&spec->optim), "an epsilon of 0 needs an initial_accumulator above 0: otherwise "
						 "a gradient of 0 would divide 0 by 0" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (cases[i].missing)
			return star_error_set(err, -EINVAL, "\"%s\": %s", spec->name, cases[i].what);
	return 0;
}

/* Whether the type can hold a number: an integer in its range, or, as float16, not infinite. */
static bool holds(unsigned dtype, float number)
{
	static const double limits[] = { [STAR_INT8] = 0x1p7, [STAR_INT32] = 0x1p31, [STAR_INT64] = 0x1p63 };
	const double value = (double)number;

	if (dtype == STAR_FLOAT16)
		return fabs(value) < 65520;
	return dtype_is_real(dtype) || (value == trunc(value) && value >= -limits[dtype] && value < limits[dtype]);
}

/* Checks the options that an element type does not support. */
static int check_type(const struct object_spec *spec, struct star_error *err)
{
	const char *type = dtype_name(spec->dtype);
	const bool constant = spec->initializer == OBJECT_CONSTANT;

	if (!dtype_is_real(spec->dtype) && learns(spec))
		return star_error_set(err, -EINVAL,
				      "\"%s\": optimizer %s does not support element type %s; use optimizer none",
				      spec->name, optim_kind_name(spec->optim.kind), type);
	if (!dtype_is_real(spec->dtype) && !constant && spec->initializer != OBJECT_ZEROS &&
	    spec->initializer != OBJECT_ONES)
		return star_error_set(
			err, -EINVAL,
			"\"%s\": initializer %s does not support element type %s; zeros, ones and constant do",
			spec->name, wire_object_initializer_name(spec->initializer), type);
	if ((constant && !holds(spec->dtype, spec->scale)) || !holds(spec->dtype, spec->filter_value))
		return star_error_set(err, -EINVAL, "\"%s\": %s is %.9g, which element type %s cannot hold", spec->name,
				      holds(spec->dtype, spec->filter_value) ? "scale" : "filter_value",
				      (double)(holds(spec->dtype, spec->filter_value) ? spec->scale
										      : spec->filter_value),
				      type);
	return 0;
}

int wire_object_check_whole(const struct object_spec *spec, uint32_t payload_max, struct star_error *err)
{
	const char *what = spec->optim.kind == OPTIM_LAMB ? "optimizer lamb" : "clip_global_norm";
	uint64_t bytes;

	if (spec->optim.kind == OPTIM_LAMB && !spec->whole)
		return star_error_set(err, -EINVAL,
				      "\"%s\": optimizer lamb needs a variable with whole=1: its trust ratio is that "
				      "of the whole tensor",
				      spec->name);
	if (spec->optim.kind != OPTIM_LAMB && spec->clip_global_norm == 0)
		return 0;
	bytes = wire_object_blocks(spec) * (sizeof(uint64_t) + dtype_row_bytes(STAR_SCALED_INT8, spec->dim));
	if (wire_object_blocks(spec) <= WIRE_KEYS_MAX && bytes + sizeof(struct wire_op) <= payload_max)
		return 0;
	return star_error_set(err, -EINVAL,
			      "\"%s\" has %" PRIu64
			      " elements: %s needs the gradient in one request, whose %u MiB (limits.request_mib) hold "
			      "%u million elements of float32, or %u million of scaled_int8",
			      spec->name, wire_object_elements(spec), what, payload_max >> 20, payload_max >> 22,
			      payload_max >> 20);
}

static int check_program(const struct object_spec *spec, struct star_error *err)
{
	char name[PROGRAM_NAME_BYTES];
	struct program_shape shape;
	unsigned node;
	const char *why = wire_program_check(&spec->program, &shape, &node);

	if (why && node != PROGRAM_NONE)
		return star_error_set(err, -EINVAL, "node %u of the program, a %s: %s", node,
				      wire_program_op(spec->program.nodes[node].op)->name
					      ? wire_program_op(spec->program.nodes[node].op)->name
					      : "thing unknown",
				      why);
	if (why)
		return star_error_set(err, -EINVAL, "the program is invalid: %s", why);
	wire_program_name(&spec->program, name);
	return strcmp(name, spec->name) == 0
		       ? 0
		       : star_error_set(err, -EINVAL, "the program's name is \"%s\", not \"%s\"", name, spec->name);
}

int wire_object_spec_check(struct object_spec *spec, struct star_error *err)
{
	if (spec->kind == OBJECT_PROGRAM)
		return check_program(spec, err);
	if (check_name(spec->name, err) < 0)
		return -EINVAL;
	if (!wire_object_kind_name(spec->kind))
		return star_error_set(err, -EINVAL, "\"%s\" is neither a table nor a variable", spec->name);
	if (dtype_bytes(spec->dtype) == 0)
		return star_error_set(err, -EINVAL, "\"%s\": unknown element type %u; possible values are %s",
				      spec->name, spec->dtype, dtype_names());
	if (is_table(spec) && (spec->dim < 1 || spec->dim > WIRE_DIM_MAX))
		return star_error_set(err, -EINVAL, "table \"%s\": dim is %u; 1 to %d are possible", spec->name,
				      spec->dim, WIRE_DIM_MAX);
	if (is_variable(spec)) {
		if (check_shape(spec, err) < 0)
			return -EINVAL;
		spec->versions = 1;
	}
	if (check_options(spec, err) < 0 || check_type(spec, err) < 0 || check_missing(spec, err) < 0)
		return -EINVAL;
	return wire_object_check_whole(spec, WIRE_PAYLOAD_MAX, err);
}
