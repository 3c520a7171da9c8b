/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXAMPLE "write control address = data address, as in 198.18.1.1:3333=198.18.0.1:5555"

struct config_origin config_map_origin(const struct config_map *map, uint32_t entry)
{
	struct config_origin origin = map->origin;

	origin.line = map->lines[entry];
	return origin;
}

static int grow_map(struct config_map *map, struct star_error *err)
{
	uint32_t room = map->count ? map->count * 2 : 16;
	struct config_endpoint *entries;
	unsigned *lines;

	/* The capacity is 16, then the next power of two, so it is used up when the count equals one of these. */
	if (map->count && (map->count < 16 || (map->count & (map->count - 1))))
		return 0;
	entries = realloc(map->entries, room * sizeof(*entries));
	if (!entries)
		goto no_memory;
	map->entries = entries;
	lines = realloc(map->lines, room * sizeof(*lines));
	if (!lines)
		goto no_memory;
	map->lines = lines;
	return 0;
no_memory:
	return star_error_set(err, -ENOMEM, "no memory for the endpoint map");
}

static int fail_duplicate(const struct config_map *map, uint32_t first, unsigned line, struct star_error *err)
{
	const struct config_endpoint *e = &map->entries[first];
	struct config_origin origin = map->origin;
	char where[32] = "";

	origin.line = line;
	if (map->lines[first]) /* 0 for an entry of the command line */
		snprintf(where, sizeof(where), " in line %u", map->lines[first]);
	return config_fail(&origin, err, "the control address %s already has an entry%s, %s; keep one of them",
			   config_show(e->control.host, e->control.port).text, where,
			   config_show(e->data.host, e->data.port).text);
}

int config_map_add(struct config_map *map, const struct config_endpoint *entry, unsigned line, struct star_error *err)
{
	struct config_origin origin = map->origin;
	int rc;

	origin.line = line;
	for (uint32_t i = 0; i < map->count; i++)
		if (config_address_equal(&map->entries[i].control, &entry->control))
			return fail_duplicate(map, i, line, err);
	if (map->count == CONFIG_ENDPOINTS_MAX)
		return config_fail(&origin, err, "the endpoint map has more than %d entries", CONFIG_ENDPOINTS_MAX);
	rc = grow_map(map, err);
	if (rc)
		return rc;
	map->entries[map->count] = *entry;
	map->lines[map->count++] = line;
	return 0;
}

static char *trim(char *text)
{
	static const char spaces[] = " \t\r\v\f";
	size_t length;

	text += strspn(text, spaces);
	length = strlen(text);
	while (length && strchr(spaces, text[length - 1]))
		length--;
	text[length] = 0;
	return text;
}

int config_map_parse(struct config_map *map, char *text, unsigned line, struct star_error *err)
{
	struct config_origin origin = map->origin;
	struct config_endpoint entry;
	struct star_error why = { 0 };
	char *equals = strchr(text, '=');

	origin.line = line;
	if (!equals)
		return config_fail(&origin, err, "\"%.80s\" has no '='; " EXAMPLE, trim(text));
	if (strchr(equals + 1, '='))
		return config_fail(&origin, err, "\"%.120s\" has a second '='; " EXAMPLE ", one entry per line",
				   trim(text));
	*equals = 0;
	if (config_parse_address(trim(text), &entry.control, &why))
		return config_fail(&origin, err, "control address: %s", why.text);
	if (config_parse_address(trim(equals + 1), &entry.data, &why))
		return config_fail(&origin, err, "data address: %s", why.text);
	return config_map_add(map, &entry, line, err);
}

int config_map_read(struct config_map *map, const char *path, struct star_error *err)
{
	char *text = config_read_text(path, err), *rest = text, *line;
	unsigned number = 0;
	int rc = 0;

	map->origin = (struct config_origin){ .source = SOURCE_FILE, .name = path, .line = 1 };
	if (!text)
		return -EINVAL;
	while (!rc && (line = strsep(&rest, "\n"))) {
		number++;
		line[strcspn(line, "#")] = 0;
		if (!*trim(line))
			continue;
		map->origin.line = number;
		rc = config_map_parse(map, line, number, err);
	}
	free(text);
	return rc;
}

void config_map_fini(struct config_map *map)
{
	free(map->entries);
	free(map->lines);
	map->entries = NULL;
	map->lines = NULL;
	map->count = 0;
}

int config_read_endpoint_map(const char *path, struct config_endpoint **endpoints, uint32_t *count,
			     struct star_error *err)
{
	struct config_map map = { 0 };
	int rc = config_map_read(&map, path, err);

	if (!rc) {
		*endpoints = map.entries;
		*count = map.count;
		map.entries = NULL;
	}
	config_map_fini(&map);
	return rc;
}
