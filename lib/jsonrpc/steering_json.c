/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "jsonrpc/member.h"
#include "jsonrpc/object_json.h"

json_t *jsonrpc_steering_encode(const struct steering *steering)
{
	json_t *queues = json_array();
	char key[2 * STEERING_KEY_MAX + 1] = "";

	for (unsigned i = 0; i < steering->key_bytes; i++)
		snprintf(key + (size_t)2 * i, 3, "%02x", steering->key[i]);
	for (unsigned i = 0; i < steering->entries; i++)
		json_array_append_new(queues, json_integer(steering->table[i]));
	return json_pack("{s:s, s:o}", "key", key, "queues", queues);
}

static int read_key(const char *text, struct steering *steering, struct star_error *err)
{
	const size_t digits = strlen(text);

	if (digits % 2 || digits < 80 || strspn(text, "0123456789abcdef") != digits)
		return star_error_set(err, -EINVAL,
				      "member \"key\" of \"steering\" must be 40 to %d bytes in hexadecimal",
				      STEERING_KEY_MAX);
	for (size_t i = 0; i < digits / 2; i++)
		sscanf(text + 2 * i, "%2hhx", &steering->key[i]);
	steering->key_bytes = (uint16_t)(digits / 2);
	return 0;
}

int jsonrpc_steering_decode(const json_t *json, uint32_t queues, struct steering *steering, struct star_error *err)
{
	static const char *const members[] = { "key", "queues", NULL };
	const json_t *table, *queue;
	const char *key;
	size_t entries, i;

	*steering = (struct steering){ 0 };
	if (!json)
		return 0;
	if (!json_is_object(json))
		return star_error_set(err, -EINVAL, "member \"steering\" must be an object");
	if (jsonrpc_member_only(json, members, err) < 0 ||
	    jsonrpc_member_string(json, "key", (size_t)2 * STEERING_KEY_MAX, &key, err) < 0 ||
	    read_key(key, steering, err) < 0)
		return -EINVAL;
	table = json_object_get(json, "queues");
	entries = json_array_size(table);
	if (entries == 0 || entries > STEERING_TABLE_MAX || entries & (entries - 1))
		return star_error_set(
			err, -EINVAL,
			"member \"queues\" of \"steering\" must have a power of two as its number of entries, "
			"at most %d",
			STEERING_TABLE_MAX);
	json_array_foreach(table, i, queue)
	{
		if (!json_is_integer(queue) || json_integer_value(queue) < 0 || json_integer_value(queue) >= queues)
			return star_error_set(err, -EINVAL,
					      "member \"queues\" of \"steering\": entry %zu is not a reactor", i);
		steering->table[i] = (uint8_t)json_integer_value(queue);
	}
	steering->entries = (uint16_t)entries;
	return 0;
}
