/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads members of a JSON object, with checks. Each function returns 0, or -EINVAL with err, which names the member,
 * what is allowed, and what was there. Pure functions.
 */
#ifndef JSONRPC_MEMBER_H
#define JSONRPC_MEMBER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "star_error.h"

/* Checks that json is an object which has only these members (a list that ends with NULL). json may be NULL, which
 * means {}. */
int jsonrpc_member_only(const json_t *json, const char *const *names, struct star_error *err);

int jsonrpc_member_uint(const json_t *json, const char *name, uint64_t min, uint64_t max, uint64_t *value,
			struct star_error *err);
int jsonrpc_member_u32(const json_t *json, const char *name, uint32_t min, uint32_t max, uint32_t *value,
		       struct star_error *err);
int jsonrpc_member_float(const json_t *json, const char *name, float *value, struct star_error *err);
int jsonrpc_member_bool(const json_t *json, const char *name, bool *value, struct star_error *err);

/* A borrowed string of 1 to max bytes without NUL. */
int jsonrpc_member_string(const json_t *json, const char *name, size_t max, const char **value, struct star_error *err);

/* Any 64-bit number. JSON libraries have signed ones, so a number above 2^63 - 1 is sent as a string of digits. */
int jsonrpc_member_u64(const json_t *json, const char *name, uint64_t *value, struct star_error *err);
json_t *jsonrpc_member_from_u64(uint64_t value);
bool jsonrpc_member_to_u64(const json_t *json, uint64_t *value); /* for values that are not members */

/*
 * A JSON string from text that may not be UTF-8, such as a truncated message or a path. At most 4096 bytes are used; an
 * incomplete character at the end is omitted, and bytes that belong to no character become '?'.
 */
json_t *jsonrpc_member_from_text(const char *text);

#endif
