/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of options, and what is derived from it: defaults, texts, and the parser of star_spec.options. */
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "wire/object.h"

#define NAME_OF(function, LIST) \
	static const char *function(unsigned number) \
	{ \
		switch (number) { \
			LIST(X) \
		} \
		return NULL; \
	}
#define X(NAME, number, name, text) \
	case number: \
		return name;
NAME_OF(schedule_name, OBJECT_SCHEDULES)
NAME_OF(filter_name, OBJECT_FILTERS)
NAME_OF(full_name, OBJECT_FULLS)
NAME_OF(nonfinite_name, OBJECT_NONFINITES)
#undef X

#define AT(member) .name = #member, .offset = offsetof(struct object_spec, member)
#define FLOAT(member, from, to, value, help) \
	{ \
		AT(member), .type = OPTION_FLOAT, .least = from, .most = to, .standard = value, .text = help \
	}
#define U32(member, to, help) \
	{ \
		AT(member), .type = OPTION_U32, .most = to, .text = help \
	}
#define U64(member, to, help) \
	{ \
		AT(member), .type = OPTION_U64, .most = to, .text = help \
	}
#define SWITCH(member, help) \
	{ \
		AT(member), .type = OPTION_SWITCH, .most = 1, .text = help \
	}
#define NAMED(member, names, value, help) \
	{ \
		AT(member), .type = OPTION_NAME, .standard = value, .name_of = names, .text = help \
	}

static const double any = 3.4028234663852886e38; /* the largest float32 */

const struct object_option wire_object_options[] = {
	NAMED(initializer, wire_object_initializer_name, OBJECT_ZEROS, "first values of a row"),
	FLOAT(scale, -any, any, 0, "the constant; half the width (uniform); the standard deviation (normal)"),
	FLOAT(mean, -any, any, 0, "mean of uniform, normal and truncated_normal"),
	U64(seed, 18446744073709551615.0, "of first values and of stochastic rounding"),
#define X(member, from, to, help) \
	{ .name = #member, \
	  .type = OPTION_FLOAT, \
	  .of_optimizer = 1, \
	  .offset = offsetof(struct object_spec, optim.member), \
	  .least = from, \
	  .most = to, \
	  .text = help },
	OPTIM_NUMBERS(X)
#undef X
#define X(member, help) \
	{ .name = #member, \
	  .type = OPTION_SWITCH, \
	  .of_optimizer = 1, \
	  .offset = offsetof(struct object_spec, optim.member), \
	  .most = 1, \
	  .text = help },
		OPTIM_SWITCHES(X)
#undef X
			NAMED(schedule, schedule_name, SCHEDULE_CONSTANT,
			      "schedule of the learning rate, by the pushes' step"),
	U64(schedule_steps, 1e15, "steps of the schedule"),
	FLOAT(schedule_rate, 0, 1, 0, "exponential: factor of each schedule_steps; cosine: factor at the end"),
	U64(warmup_steps, 1e15, "the learning rate rises linearly over this many steps; then the schedule begins"),
	SWITCH(staleness, "learning rate / pushes to the shard's table since the worker last pulled: ElasticDL's"),
	FLOAT(clip_global_norm, 0, 1e30, 0,
	      "whole variables: a push's gradient is scaled down to this L2 norm; 0: not"),
	NAMED(nonfinite, nonfinite_name, NONFINITE_REFUSE, "what to do with gradients that have NaN or infinities"),
	SWITCH(whole, "variables: all blocks in one home partition"),
	SWITCH(versions, "rows count their pushes, for pulls of changed rows only; variables always do"),
	SWITCH(master, "float16, bfloat16, scaled_int8: float32 values beside them, which the optimizer works on"),
	SWITCH(stochastic, "float16, bfloat16, scaled_int8: stochastic rounding instead of to nearest"),
	NAMED(filter, filter_name, FILTER_NONE, "which keys get a row"),
	U32(filter_frequency, 4294967295.0, "a key gets its row with this many pulls and pushes"),
	FLOAT(filter_value, -any, any, 0, "the value that a key reads until then"),
	U64(filter_keys, 1e12, "bloom: distinct keys for which it is sized, over all shards"),
	FLOAT(filter_error, 1e-6, 0.5, 0.01, "bloom: share of keys that get their row too early, at this many keys"),
	U64(steps_to_live, 1e15, "rows that were not used for this many training steps are evicted; 0: none"),
	FLOAT(l2_threshold, 0, 1e30, 0, "rows with half a sum of squares below it are evicted; 0: none"),
	U64(rows_max, 1e15, "rows of the table, over all shards; 0: what the memory holds"),
	NAMED(full, full_name, FULL_REFUSE, "what to do if there is no room for a new row"),
	{ .name = NULL },
};
const unsigned wire_object_options_count = sizeof(wire_object_options) / sizeof(wire_object_options[0]) - 1;

static const void *option_at(const struct object_option *option, const struct object_spec *spec)
{
	return (const char *)spec + option->offset;
}

uint64_t wire_object_option_whole(const struct object_option *option, const struct object_spec *spec)
{
	switch (option->type) {
	case OPTION_U32:
		return *(const uint32_t *)option_at(option, spec);
	case OPTION_U64:
		return *(const uint64_t *)option_at(option, spec);
	default:
		return *(const uint8_t *)option_at(option, spec);
	}
}

float wire_object_option_float(const struct object_option *option, const struct object_spec *spec)
{
	return *(const float *)option_at(option, spec);
}

void wire_object_option_set(const struct object_option *option, struct object_spec *spec, uint64_t whole, float number)
{
	void *to = (char *)spec + option->offset;

	switch (option->type) {
	case OPTION_FLOAT:
		*(float *)to = number;
		break;
	case OPTION_U32:
		*(uint32_t *)to = (uint32_t)whole;
		break;
	case OPTION_U64:
		*(uint64_t *)to = whole;
		break;
	default:
		*(uint8_t *)to = (uint8_t)whole;
	}
}

bool wire_object_option_used(const struct object_option *option, unsigned optimizer)
{
	return !option->of_optimizer || optim_uses(optimizer, option->name);
}

unsigned wire_object_option_parse(const struct object_option *option, const char *name)
{
	const char *known;

	for (unsigned i = 1; (known = option->name_of(i)); i++)
		if (strcmp(known, name) == 0)
			return i;
	return 0;
}

const char *wire_object_float_text(float number, char text[static OBJECT_OPTION_TEXT])
{
	/* In the C locale, whatever locale the process uses. */
	const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(plain);

	for (int digits = 1; digits <= 9; digits++) {
		snprintf(text, OBJECT_OPTION_TEXT, "%.*g", digits, (double)number);
		if (strtof(text, NULL) == number)
			break;
	}
	uselocale(before);
	if (plain)
		freelocale(plain);
	return text;
}

const char *wire_object_option_text(const struct object_option *option, const struct object_spec *spec,
				    char text[static OBJECT_OPTION_TEXT])
{
	const char *name;

	if (option->type == OPTION_FLOAT)
		return wire_object_float_text(wire_object_option_float(option, spec), text);
	if (option->type == OPTION_NAME) {
		name = option->name_of((unsigned)wire_object_option_whole(option, spec));
		snprintf(text, OBJECT_OPTION_TEXT, "%s", name ? name : "unknown");
	} else {
		snprintf(text, OBJECT_OPTION_TEXT, "%" PRIu64, wire_object_option_whole(option, spec));
	}
	return text;
}

const char *wire_object_option_possible(const struct object_option *option, char text[static OBJECT_OPTION_TEXT])
{
	char least[OBJECT_OPTION_TEXT], most[OBJECT_OPTION_TEXT];
	size_t used = 0;
	const char *name;

	switch (option->type) {
	case OPTION_NAME:
		for (unsigned i = 1; (name = option->name_of(i)) && used < OBJECT_OPTION_TEXT; i++)
			used += (size_t)snprintf(text + used, OBJECT_OPTION_TEXT - used, "%s%s", i > 1 ? ", " : "",
						 name);
		return text;
	case OPTION_SWITCH:
		return strcpy(text, "0 or 1");
	case OPTION_FLOAT:
		if (option->most == any)
			return strcpy(text, "any number");
		snprintf(text, OBJECT_OPTION_TEXT, "%.40s to %.40s",
			 wire_object_float_text((float)option->least, least),
			 wire_object_float_text((float)option->most, most));
		return text;
	default:
		if (option->most >= 0x1p64)
			snprintf(text, OBJECT_OPTION_TEXT, "0 to 2^64 - 1");
		else
			snprintf(text, OBJECT_OPTION_TEXT, "0 to %.0f", option->most);
		return text;
	}
}

void wire_object_spec_defaults(struct object_spec *spec, unsigned optimizer)
{
	for (const struct object_option *o = wire_object_options; o->name; o++)
		wire_object_option_set(o, spec, (uint64_t)o->standard, (float)o->standard);
	if (optim_defaults(&spec->optim, optimizer) < 0)
		spec->optim = (struct optim_options){ 0 };
	spec->optim.kind = (uint8_t)optimizer;
}

/* By the C locale, whatever locale the process uses. */
static int read_option_number(const char *text, double *number)
{
	locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	char *end;

	if (!plain)
		return -ENOMEM;
	*number = strtod_l(text, &end, plain);
	freelocale(plain);
	return end > text && *end == 0 ? 0 : -EINVAL;
}

static int read_whole(const char *text, uint64_t *whole)
{
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	*whole = strtoull(text, &end, 10);
	return errno || *end ? -EINVAL : 0;
}

/* Sets an option from text. Values that do not fit into the member are refused here; the other bounds are checked by
 * wire_object_spec_check. */
static int set_text(const struct object_option *option, struct object_spec *spec, const char *text,
		    struct star_error *err)
{
	char possible[OBJECT_OPTION_TEXT];
	uint64_t whole = 0;
	double number = 0;
	int rc;

	switch (option->type) {
	case OPTION_FLOAT:
		rc = read_option_number(text, &number);
		break;
	case OPTION_NAME:
		whole = wire_object_option_parse(option, text);
		rc = whole ? 0 : -EINVAL;
		break;
	default:
		rc = read_whole(text, &whole);
	}
	if (rc == 0 && option->type != OPTION_NAME)
		rc = option->type == OPTION_FLOAT ? (isfinite((float)number) ? 0 : -EINVAL)
						  : ((double)whole <= option->most ? 0 : -EINVAL);
	if (rc < 0)
		return star_error_set(err, -EINVAL, "option %s is \"%.40s\"; possible: %s", option->name, text,
				      wire_object_option_possible(option, possible));
	wire_object_option_set(option, spec, whole, (float)number);
	return 0;
}

static const struct object_option *find_option(const char *name)
{
	for (const struct object_option *o = wire_object_options; o->name; o++)
		if (strcmp(o->name, name) == 0)
			return o;
	return NULL;
}

static int unknown(const char *name, struct star_error *err)
{
	static const char *const others[] = { "name", "kind", "dtype", "dim", "shape", "optimizer", NULL };
	const char *other = nearest_name(name, others, sizeof(others[0]));
	const char *option = nearest_name(name, wire_object_options, sizeof(wire_object_options[0]));
	const unsigned distance = nearest_distance(name, other);

	if (distance == 0)
		return star_error_set(err, -EINVAL, "\"%s\" is not an option: it is given separately", name);
	return star_error_set(err, -EINVAL, "there is no option \"%.40s\"; did you mean \"%s\"?", name,
			      distance < nearest_distance(name, option) ? other : option);
}

static char *trim(char *text)
{
	size_t n;

	text += strspn(text, " \t\n");
	n = strlen(text);
	while (n && strchr(" \t\n", text[n - 1]))
		text[--n] = 0;
	return text;
}

/* "name=value" */
static int read_item(struct object_spec *spec, char *item, uint64_t *seen, struct star_error *err)
{
	char *equals = strchr(item, '='), *name, *value;
	const struct object_option *option;
	uint64_t bit;

	if (equals)
		*equals = 0;
	name = trim(item);
	value = equals ? trim(equals + 1) : NULL;
	option = find_option(name);
	if (!option)
		return unknown(name, err);
	if (!value || !*value)
		return star_error_set(err, -EINVAL, "option %s needs a value, as in \"%s=...\"", name, name);
	bit = UINT64_C(1) << (option - wire_object_options);
	if (*seen & bit)
		return star_error_set(err, -EINVAL, "option %s is given twice", name);
	*seen |= bit;
	return set_text(option, spec, value, err);
}

_Static_assert(sizeof(wire_object_options) / sizeof(wire_object_options[0]) <= 64, "read_item has a bit for each");

int wire_object_spec_options(struct object_spec *spec, const char *text, struct star_error *err)
{
	uint64_t seen = 0;
	int rc = 0;

	while (text && *text && rc == 0) {
		const size_t bytes = strcspn(text, ",");
		char item[160];

		if (bytes >= sizeof(item))
			return star_error_set(err, -EINVAL,
					      "the options have no comma for %zu bytes, starting at \"%.40s\"", bytes,
					      text);
		memcpy(item, text, bytes);
		item[bytes] = 0;
		text += bytes + (text[bytes] == ',');
		if (*trim(item))
			rc = read_item(spec, item, &seen, err);
	}
	return rc;
}
