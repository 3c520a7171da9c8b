/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses answers of etcd's JSON gateway. There 64-bit numbers are strings of digits, bytes are base64, and members that
 * are false, zero or empty are omitted. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "etcd/etcd.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void etcd_base64_encode(const void *from, size_t bytes, char *to)
{
	const uint8_t *in = from;

	for (size_t i = 0; i < bytes; i += 3) {
		const size_t left = bytes - i;
		const uint32_t three = (uint32_t)in[i] << 16 | (left > 1 ? (uint32_t)in[i + 1] << 8 : 0) |
				       (left > 2 ? (uint32_t)in[i + 2] : 0);

		*to++ = digits[three >> 18];
		*to++ = digits[three >> 12 & 63];
		*to++ = left > 1 ? digits[three >> 6 & 63] : '=';
		*to++ = left > 2 ? digits[three & 63] : '=';
	}
	*to = 0;
}

int etcd_base64_decode(const char *from, size_t bytes, void *to, size_t *room)
{
	uint8_t *out = to;
	size_t length = bytes, made = 0;
	uint32_t held = 0;
	unsigned bits = 0;

	if (bytes % 4)
		return -EBADMSG;
	for (unsigned i = 0; i < 2 && length && from[length - 1] == '='; i++)
		length--;
	for (size_t i = 0; i < length; i++) {
		const char *digit = from[i] ? strchr(digits, from[i]) : NULL;

		if (!digit)
			return -EBADMSG;
		held = held << 6 | (uint32_t)(digit - digits);
		bits += 6;
		if (bits < 8)
			continue;
		bits -= 8;
		if (made == *room)
			return -EBADMSG;
		out[made++] = (uint8_t)(held >> bits);
	}
	*room = made;
	return held & ((1u << bits) - 1) ? -EBADMSG : 0;
}

/* Parses an int64 that must be above 0. */
static int positive_of(const json_t *json, const char *name, uint64_t *value, struct star_error *err)
{
	const json_t *member = json_object_get(json, name);
	const char *text = json_string_value(member);
	const size_t length = json_string_length(member);

	*value = 0;
	for (size_t i = 0; text && i < length && i < 19; i++) {
		if (text[i] < '0' || text[i] > '9')
			return star_error_set(err, -EBADMSG, "its \"%s\" is not a number", name);
		*value = *value * 10 + (uint64_t)(text[i] - '0');
	}
	if (!text || length > 19 || *value == 0 || *value > INT64_MAX)
		return star_error_set(err, -EBADMSG, "its \"%s\" is not a valid etcd revision", name);
	return 0;
}

static int bytes_of(const json_t *json, const char *name, void *to, size_t *room, struct star_error *err)
{
	const json_t *member = json_object_get(json, name);

	if (!member) { /* empty */
		*room = 0;
		return 0;
	}
	if (!json_is_string(member) ||
	    etcd_base64_decode(json_string_value(member), json_string_length(member), to, room) < 0)
		return star_error_set(err, -EBADMSG, "its \"%s\" is not base64 of at most %zu bytes", name, *room);
	return 0;
}

/* The result of a range: the requested key, or nothing. */
static int key_value_of(const json_t *range, const char *key, struct etcd_value *value, struct star_error *err)
{
	const json_t *list = json_object_get(range, "kvs"), *entry = json_array_get(list, 0);
	char found[ETCD_KEY_MAX];
	size_t bytes = sizeof(found);

	*value = (struct etcd_value){ 0 };
	if (!json_is_object(range) || (list && !json_is_array(list)))
		return star_error_set(err, -EBADMSG, "it has a key that was not requested");
	if (json_array_size(list) == 0)
		return 0;
	if (json_array_size(list) > 1 || !json_is_object(entry))
		return star_error_set(err, -EBADMSG, "it has several values for one key");
	if (bytes_of(entry, "key", found, &bytes, err) < 0)
		return err->code;
	if (bytes != strlen(key) || memcmp(found, key, bytes) != 0)
		return star_error_set(err, -EBADMSG, "it answers for another key");
	value->bytes = ETCD_VALUE_MAX;
	if (positive_of(entry, "mod_revision", &value->revision, err) < 0 ||
	    bytes_of(entry, "value", value->text, &value->bytes, err) < 0)
		return err->code;
	value->text[value->bytes] = 0;
	value->there = true;
	return 0;
}

static json_t *object_of(const char *text, size_t bytes, struct star_error *err)
{
	json_error_t why = { 0 };
	json_t *json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);

	if (json_is_object(json))
		return json;
	json_decref(json);
	star_error_set(err, -EBADMSG, "its answer is not a JSON object%s%.100s", why.text[0] ? ": " : "", why.text);
	return NULL;
}

int etcd_reply_range(const char *text, size_t bytes, const char *key, struct etcd_value *value, struct star_error *err)
{
	json_t *json = object_of(text, bytes, err);
	uint64_t revision;
	int rc;

	if (!json)
		return err->code;
	/* Every answer of etcd has it; otherwise some other HTTP server has answered. */
	rc = positive_of(json_object_get(json, "header"), "revision", &revision, err);
	if (rc == 0)
		rc = key_value_of(json, key, value, err);
	if (rc == 0 && value->revision > revision)
		rc = star_error_set(err, -EBADMSG, "its value has a revision above that of its header");
	json_decref(json);
	return rc;
}

int etcd_reply_txn(const char *text, size_t bytes, const char *key, bool *swapped, struct etcd_value *value,
		   struct star_error *err)
{
	json_t *json = object_of(text, bytes, err);
	const json_t *succeeded, *list, *range;
	uint64_t revision;
	int rc;

	if (!json)
		return err->code;
	*value = (struct etcd_value){ 0 };
	succeeded = json_object_get(json, "succeeded");
	list = json_object_get(json, "responses");
	*swapped = json_is_true(succeeded);
	rc = positive_of(json_object_get(json, "header"), "revision", &revision, err);
	if (rc == 0 && succeeded && !json_is_boolean(succeeded))
		rc = star_error_set(err, -EBADMSG, "it does not say whether the transaction succeeded");
	if (rc == 0 && json_array_size(list) != 1)
		rc = star_error_set(err, -EBADMSG, "it does not say what the transaction did");
	range = json_object_get(json_array_get(list, 0), *swapped ? "response_put" : "response_range");
	if (rc == 0 && !json_is_object(range))
		rc = star_error_set(err, -EBADMSG, "it says that the transaction did something else");
	if (rc == 0 && *swapped)
		value->revision = revision;
	else if (rc == 0)
		rc = key_value_of(range, key, value, err);
	json_decref(json);
	return rc;
}
