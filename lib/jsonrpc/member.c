/* SPDX-License-Identifier: BSD-3-Clause */
#include "jsonrpc/member.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"

enum { TEXT_MAX = 4096 }; /* of jsonrpc_member_from_text */

/* The value, short enough for a message. */
static const char *shown(const json_t *value, char *text, size_t size)
{
	size_t bytes = json_dumpb(value, text, size - 1, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_COMPACT);

	if (bytes == 0 || bytes > size - 1)
		return json_is_object(value) ? "an object" : json_is_array(value) ? "an array" : "a longer text";
	text[bytes] = 0;
	return text;
}

static int refuse_member(const json_t *json, const char *name, struct star_error *err, const char *wanted)
{
	const json_t *value = json_object_get(json, name);
	char text[80];

	if (!value)
		return star_error_set(err, -EINVAL, "member \"%s\" is missing: it must be %s", name, wanted);
	return star_error_set(err, -EINVAL, "member \"%s\" must be %s, not %s", name, wanted,
			      shown(value, text, sizeof(text)));
}

/* Usually all members are known; this is then found quickly even in an object with many members. */
static bool knows_all(const json_t *json, const char *const *names)
{
	size_t known = 0;

	for (; *names; names++)
		known += json_object_get(json, *names) != NULL;
	return known == json_object_size(json);
}

int jsonrpc_member_only(const json_t *json, const char *const *names, struct star_error *err)
{
	const char *key;
	json_t *value;

	if (!json)
		return 0;
	if (!json_is_object(json))
		return json_is_array(json) && json_array_size(json) == 0 && !names[0]
			       ? 0
			       : star_error_set(err, -EINVAL, "an object with named members is needed");
	if (knows_all(json, names))
		return 0;
	json_object_foreach((json_t *)json, key, value)
	{
		const char *const *name = names;

		while (*name && strcmp(*name, key) != 0)
			name++;
		if (*name)
			continue;
		if (!names[0])
			return star_error_set(err, -EINVAL, "unknown member \"%.64s\": there are no members here", key);
		return star_error_set(err, -EINVAL, "unknown member \"%.64s\"; did you mean \"%s\"?", key,
				      nearest_name(key, names, sizeof(names[0])));
	}
	return 0;
}

int jsonrpc_member_uint(const json_t *json, const char *name, uint64_t min, uint64_t max, uint64_t *value,
			struct star_error *err)
{
	const json_t *given = json_object_get(json, name);
	const json_int_t number = json_integer_value(given);
	char wanted[80];

	if (json_is_integer(given) && number >= 0 && (uint64_t)number >= min && (uint64_t)number <= max) {
		*value = (uint64_t)number;
		return 0;
	}
	snprintf(wanted, sizeof(wanted), "an integer from %" PRIu64 " to %" PRIu64, min, max);
	return refuse_member(json, name, err, wanted);
}

int jsonrpc_member_u32(const json_t *json, const char *name, uint32_t min, uint32_t max, uint32_t *value,
		       struct star_error *err)
{
	uint64_t wide = 0;
	int rc = jsonrpc_member_uint(json, name, min, max, &wide, err);

	if (rc == 0)
		*value = (uint32_t)wide;
	return rc;
}

int jsonrpc_member_float(const json_t *json, const char *name, float *value, struct star_error *err)
{
	const json_t *given = json_object_get(json, name);
	const double number = json_number_value(given);

	if (!json_is_number(given) || !isfinite((float)number))
		return refuse_member(json, name, err, "a number that fits into 32 bits");
	*value = (float)number;
	return 0;
}

int jsonrpc_member_bool(const json_t *json, const char *name, bool *value, struct star_error *err)
{
	const json_t *given = json_object_get(json, name);

	if (!json_is_boolean(given))
		return refuse_member(json, name, err, "true or false");
	*value = json_is_true(given);
	return 0;
}

int jsonrpc_member_string(const json_t *json, const char *name, size_t max, const char **value, struct star_error *err)
{
	const json_t *given = json_object_get(json, name);
	const char *text = json_string_value(given);
	const size_t bytes = json_string_length(given);
	char wanted[80];

	if (text && bytes >= 1 && bytes <= max && !memchr(text, 0, bytes)) {
		*value = text;
		return 0;
	}
	snprintf(wanted, sizeof(wanted), "a string of 1 to %zu bytes", max);
	return refuse_member(json, name, err, wanted);
}

bool jsonrpc_member_to_u64(const json_t *json, uint64_t *value)
{
	const char *text = json_string_value(json);
	char *end = NULL;

	if (json_is_integer(json) && json_integer_value(json) >= 0) {
		*value = (uint64_t)json_integer_value(json);
		return true;
	}
	if (!text || text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &end, 10);
	return errno == 0 && *end == 0;
}

int jsonrpc_member_u64(const json_t *json, const char *name, uint64_t *value, struct star_error *err)
{
	if (jsonrpc_member_to_u64(json_object_get(json, name), value))
		return 0;
	return refuse_member(json, name, err,
			     "an integer from 0 to 18446744073709551615 (above 2^63 - 1: as a string)");
}

json_t *jsonrpc_member_from_u64(uint64_t value)
{
	char text[24];

	if (value <= INT64_MAX)
		return json_integer((json_int_t)value);
	snprintf(text, sizeof(text), "%" PRIu64, value);
	return json_string(text);
}

/* Whether the text ends with an incomplete character. */
static bool is_cut(const char *at, size_t left)
{
	const unsigned char c = (unsigned char)*at;
	const size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;

	if (c >= 0xf5 || left >= whole)
		return false;
	for (size_t i = 1; i < left; i++)
		if ((at[i] & 0xc0) != 0x80)
			return false;
	return true;
}

json_t *jsonrpc_member_from_text(const char *text)
{
	const size_t bytes = strnlen(text, TEXT_MAX);
	json_t *string = json_stringn(text, bytes), *one;
	char copy[TEXT_MAX];
	size_t n = 0, step;

	for (size_t i = 0; !string && i < bytes && !is_cut(text + i, bytes - i); i += step) {
		/* The library knows what a character is: the shortest sequence that it accepts. */
		for (step = 1, one = NULL; step <= 4 && step <= bytes - i && !one; step += one == NULL)
			one = json_stringn(text + i, step);
		if (one)
			memcpy(copy + n, text + i, step);
		else
			copy[n] = '?';
		step = one ? step : 1;
		n += step;
		json_decref(one);
	}
	return string ? string : json_stringn(copy, n);
}
