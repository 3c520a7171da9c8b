/* SPDX-License-Identifier: BSD-3-Clause */
#include "jsonrpc/summed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"

#define MEMBER "crc32"
#define TAIL ",\n \"" MEMBER "\": \"%08" PRIx32 "\"\n}\n"
enum { TAIL_BYTES = 25 };

char *jsonrpc_summed_text(const json_t *json, size_t flags, size_t *bytes)
{
	char *body = json ? json_dumps(json, flags) : NULL, *text;
	size_t used;

	if (!body)
		return NULL;
	used = strlen(body) - 1; /* without its brace */
	if (used && body[used - 1] == '\n')
		used--;
	text = realloc(body, used + TAIL_BYTES + 1);
	if (!text) {
		free(body);
		return NULL;
	}
	sprintf(text + used, TAIL, base_crc32(text, used));
	*bytes = used + TAIL_BYTES;
	return text;
}

uint32_t jsonrpc_summed_sum(const char *text, size_t bytes)
{
	return base_crc32(text, bytes - TAIL_BYTES);
}

/* The sum over what stands before its own line, and that line as it must be. */
static int check_sum(const char *text, size_t bytes, struct star_error *err)
{
	char tail[TAIL_BYTES + 1];

	if (bytes < TAIL_BYTES)
		return star_error_set(err, -EINVAL, "it has %zu bytes: it is cut off", bytes);
	snprintf(tail, sizeof(tail), TAIL, jsonrpc_summed_sum(text, bytes));
	return memcmp(tail, text + bytes - TAIL_BYTES, TAIL_BYTES) == 0
		       ? 0
		       : star_error_set(err, -EINVAL,
					"its checksum does not match its bytes: it is damaged, cut off, or was "
					"changed by hand");
}

json_t *jsonrpc_summed_parse(const char *text, size_t bytes, struct star_error *err)
{
	json_error_t position;
	json_t *json;

	if (check_sum(text, bytes, err) < 0)
		return NULL;
	json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &position);
	if (!json)
		star_error_set(err, -EINVAL, "line %d: %.160s", position.line, position.text);
	json_object_del(json, MEMBER);
	return json;
}
