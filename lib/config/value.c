/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

enum { TAKES_MAX = 200 };

int config_fail(const struct config_origin *origin, struct star_error *err, const char *format, ...)
{
	char sentence[sizeof(err->text)];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	switch (origin->source) {
	case SOURCE_FILE:
		return star_error_set(err, -EINVAL, "%s:%u: %s", origin->name, origin->line, sentence);
	case SOURCE_ENVIRONMENT:
		return star_error_set(err, -EINVAL, "environment variable %s: %s", origin->name, sentence);
	case SOURCE_COMMAND_LINE:
		return star_error_set(err, -EINVAL, "--set: %s", sentence);
	default:
		return star_error_set(err, -EINVAL, "%s", sentence);
	}
}

/* The value as it was written, for messages. */
static const char *show_value(const struct config_value *v, char *text, size_t bytes)
{
	switch (v->kind) {
	case VALUE_NUMBER:
		snprintf(text, bytes, "%lld", v->number);
		break;
	case VALUE_BOOL:
		snprintf(text, bytes, "%s", v->number ? "true" : "false");
		break;
	case VALUE_TEXT:
		snprintf(text, bytes, "\"%.80s\"", v->text);
		break;
	case VALUE_OTHER:
		snprintf(text, bytes, "%s", v->text);
		break;
	}
	return text;
}

static int fail_type(const struct config_target *t, const struct config_value *v, struct star_error *err)
{
	char takes[TAKES_MAX], shown[100];

	return config_fail(&t->origin, err, "%s cannot be %s; it takes %s", t->option->name,
			   show_value(v, shown, sizeof(shown)), config_option_takes(t->option, takes, sizeof(takes)));
}

static int fail_range(const struct config_target *t, const struct config_value *v, struct star_error *err)
{
	const struct config_option *o = t->option;

	return config_fail(&t->origin, err, "%s = %lld is out of range; allowed: %u to %u%s%s", o->name, v->number,
			   o->min, o->max, o->unit ? " " : "", o->unit ? o->unit : "");
}

static int store_text(const struct config_target *t, const struct config_value *v, struct star_error *err)
{
	const struct config_option *o = t->option;
	size_t length = strlen(v->text);

	for (const char *c = v->text; *c; c++)
		if (base_is_control(*c))
			return config_fail(&t->origin, err, "%s has a control character (code %d); remove it", o->name,
					   *c);
	if (length < o->min || length > o->max)
		return config_fail(&t->origin, err, "%s = \"%.80s\" is %zu bytes long; allowed: %u to %u bytes",
				   o->name, v->text, length, o->min, o->max);
	memcpy((char *)t->base + o->offset, v->text, length + 1);
	return 0;
}

static int store_choice(const struct config_target *t, const struct config_value *v, struct star_error *err)
{
	char *field = (char *)t->base + t->option->offset;
	const char *choice = t->option->choices;
	size_t length = strlen(v->text);

	for (uint32_t index = 0; choice; index++) {
		size_t n = strcspn(choice, "|");

		if (n == length && !memcmp(choice, v->text, n)) {
			if (t->option->type == OPTION_WORD)
				memcpy(field, v->text, n + 1);
			else
				*(uint32_t *)field = index;
			return 0;
		}
		choice = choice[n] ? choice + n + 1 : NULL;
	}
	return fail_type(t, v, err);
}

static int parse_address(const struct config_target *t, const char *text, struct config_address *address,
			 struct star_error *err)
{
	struct star_error why = { 0 };

	return config_parse_address(text, address, &why)
		       ? config_fail(&t->origin, err, "%s: %s", t->option->name, why.text)
		       : 0;
}

/* Writes an address in canonical form, so that equal addresses are equal texts; returns the longest prefix of its
 * family, 0 if it is not an address. */
static unsigned long canonical(const char *text, char *host)
{
	struct in6_addr literal6;
	struct in_addr literal;

	if (inet_pton(AF_INET, text, &literal) == 1)
		return inet_ntop(AF_INET, &literal, host, INET6_ADDRSTRLEN) ? 32 : 0;
	if (inet_pton(AF_INET6, text, &literal6) == 1)
		return inet_ntop(AF_INET6, &literal6, host, INET6_ADDRSTRLEN) ? 128 : 0;
	return 0;
}

static int append_network(const struct config_target *t, const struct config_value *v, struct star_error *err)
{
	struct config_network *networks = (struct config_network *)((char *)t->base + t->option->offset);
	uint32_t *count = (uint32_t *)((char *)t->base + t->option->offset2);
	const char *slash = strchr(v->text, '/');
	char text[INET6_ADDRSTRLEN] = "";
	struct config_network network = { .host = "" };
	unsigned long longest, prefix;
	size_t digits;

	if (slash && slash - v->text < (long)sizeof(text))
		memcpy(text, v->text, (size_t)(slash - v->text));
	longest = canonical(text, network.host);
	if (!longest)
		return fail_type(t, v, err);
	digits = strspn(slash + 1, "0123456789");
	if (!digits || slash[1 + digits])
		return fail_type(t, v, err);
	prefix = digits > 3 ? 999 : strtoul(slash + 1, NULL, 10);
	if (prefix < 1 || prefix > longest)
		return config_fail(&t->origin, err, "%s = \"%s\": the prefix length is out of range; allowed: 1 to %lu",
				   t->option->name, v->text, longest);
	if (*count == t->option->max)
		return config_fail(&t->origin, err, "%s has more than %u entries", t->option->name, t->option->max);
	network.prefix = (uint32_t)prefix;
	networks[(*count)++] = network;
	return 0;
}

static int append_number(const struct config_target *t, const struct config_value *v, struct star_error *err)
{
	uint32_t *numbers = (uint32_t *)((char *)t->base + t->option->offset);
	uint32_t *count = (uint32_t *)((char *)t->base + t->option->offset2);

	if (v->number < t->option->min || v->number > t->option->max)
		return fail_range(t, v, err);
	if (*count == CONFIG_CORES_MAX)
		return config_fail(&t->origin, err, "%s has more than %u entries", t->option->name, CONFIG_CORES_MAX);
	numbers[(*count)++] = (uint32_t)v->number;
	return 0;
}

/* "address", or "address|address". */
static int parse_two(const struct config_target *t, const char *text, struct config_address *addresses, uint32_t at,
		     struct star_error *err)
{
	struct config_address **others = (struct config_address **)((char *)t->base + t->option->others);
	const char *bar = strchr(text, '|');
	char *first;
	int rc;

	if (*others)
		(*others)[at] = (struct config_address){ .port = 0 };
	if (!bar)
		return parse_address(t, text, &addresses[at], err);
	if (!*others)
		*others = calloc(t->option->max, sizeof(**others));
	first = strndup(text, (size_t)(bar - text));
	if (!*others || !first)
		rc = star_error_set(err, -ENOMEM, "no memory for the addresses of %s", t->option->name);
	else if (strchr(bar + 1, '|'))
		rc = config_fail(&t->origin, err,
				 "%s: \"%.80s\" has more than two addresses; a task is one node or a pair",
				 t->option->name, text);
	else
		rc = parse_address(t, first, &addresses[at], err);
	if (rc == 0)
		rc = parse_address(t, bar + 1, &(*others)[at], err);
	free(first);
	return rc;
}

static int append_address(const struct config_target *t, const struct config_value *v, struct star_error *err)
{
	struct config_address **addresses = (struct config_address **)((char *)t->base + t->option->offset);
	uint32_t *count = (uint32_t *)((char *)t->base + t->option->offset2);
	int rc;

	if (*count == t->option->max)
		return config_fail(&t->origin, err, "%s has more than %u entries", t->option->name, t->option->max);
	if (!*addresses) {
		*addresses = calloc(t->option->max, sizeof(**addresses));
		if (!*addresses)
			return star_error_set(err, -ENOMEM, "no memory for the addresses of %s", t->option->name);
	}
	rc = t->option->others ? parse_two(t, v->text, *addresses, *count, err)
			       : parse_address(t, v->text, &(*addresses)[*count], err);
	*count += rc == 0;
	return rc;
}

int config_value_store(const struct config_target *t, const struct config_value *v, struct star_error *err)
{
	static const enum config_value_kind kinds[] = {
		[OPTION_NUMBER] = VALUE_NUMBER, [OPTION_BOOL] = VALUE_BOOL,	 [OPTION_TEXT] = VALUE_TEXT,
		[OPTION_WORD] = VALUE_TEXT,	[OPTION_CHOICE] = VALUE_TEXT,	 [OPTION_ADDRESS] = VALUE_TEXT,
		[OPTION_NETWORKS] = VALUE_TEXT, [OPTION_NUMBERS] = VALUE_NUMBER, [OPTION_ADDRESSES] = VALUE_TEXT,
	};
	char *field = (char *)t->base + t->option->offset;

	if (v->kind != kinds[t->option->type])
		return fail_type(t, v, err);
	switch (t->option->type) {
	case OPTION_NUMBER:
		if (v->number < t->option->min || v->number > t->option->max)
			return fail_range(t, v, err);
		*(uint32_t *)field = (uint32_t)v->number;
		return 0;
	case OPTION_BOOL:
		*(bool *)field = v->number;
		return 0;
	case OPTION_TEXT:
		return store_text(t, v, err);
	case OPTION_WORD:
	case OPTION_CHOICE:
		return store_choice(t, v, err);
	case OPTION_ADDRESS:
		return parse_address(t, v->text, (struct config_address *)field, err);
	case OPTION_NETWORKS:
		return append_network(t, v, err);
	case OPTION_NUMBERS:
		return append_number(t, v, err);
	case OPTION_ADDRESSES:
		return append_address(t, v, err);
	}
	return -EINVAL;
}

void config_value_clear(const struct config_target *t)
{
	*(uint32_t *)((char *)t->base + t->option->offset2) = 0;
}

int config_value_bool(const char *text, bool *value, const struct config_origin *origin, struct star_error *err)
{
	static const char *const words[] = { "false", "true", "0", "1", "no", "yes" };

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcasecmp(text, words[i])) {
			*value = i & 1;
			return 0;
		}
	return config_fail(origin, err, "\"%.80s\" is neither true nor false; allowed: True, False, 1, 0, yes, no",
			   text);
}

static int store_scalar_text(const struct config_target *t, const char *text, struct star_error *err)
{
	struct config_value v = { .kind = VALUE_TEXT, .text = text };
	bool flag = false;
	char *end;

	if (t->option->type == OPTION_BOOL) {
		if (config_value_bool(text, &flag, &t->origin, err))
			return -EINVAL;
		v = (struct config_value){ .kind = VALUE_BOOL, .number = flag };
	} else if (t->option->type == OPTION_NUMBER || t->option->type == OPTION_NUMBERS) {
		/* strtoll skips spaces and saturates: the first is refused here, and a saturated value is out of every
		 * range */
		long long number = strtoll(text, &end, 10);

		if (end != text && !*end && (strchr("0123456789-", *text)))
			v = (struct config_value){ .kind = VALUE_NUMBER, .number = number };
	}
	return config_value_store(t, &v, err);
}

int config_value_store_text(const struct config_target *t, const char *text, struct star_error *err)
{
	char *copy, *rest, *part;
	int rc = 0;

	if (!config_option_is_list(t->option))
		return store_scalar_text(t, text, err);
	config_value_clear(t);
	if (!*text)
		return 0;
	rest = copy = strdup(text);
	if (!copy)
		return star_error_set(err, -ENOMEM, "no memory for the value of %s", t->option->name);
	while (!rc && (part = strsep(&rest, ",")))
		rc = store_scalar_text(t, part, err);
	free(copy);
	return rc;
}
