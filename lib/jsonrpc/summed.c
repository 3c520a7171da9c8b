/* SPDX-License-Identifier: BSD-3-Clause */
#include "jsonrpc/summed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
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
	used = strlen(body) - 1; /* without its closing brace */
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

/* Computes the sum of what precedes its line, and compares that line with the expected one. */
static int check_sum(const char *text, size_t bytes, struct star_error *err)
{
	char tail[TAIL_BYTES + 1];

	if (bytes < TAIL_BYTES)
		return star_error_set(err, -EINVAL, "it has only %zu bytes: it is incomplete", bytes);
	snprintf(tail, sizeof(tail), TAIL, jsonrpc_summed_sum(text, bytes));
	return memcmp(tail, text + bytes - TAIL_BYTES, TAIL_BYTES) == 0
		       ? 0
		       : star_error_set(err, -EINVAL,
					"its checksum does not match its bytes: it is damaged, incomplete, or was "
					"changed by hand");
}

/* "crc32 bytes " in hexadecimal digits, the JSON, and a newline. The sum is over the number and the JSON. */
enum { SUM_BYTES = 9, HEAD_BYTES = 18 };

char *jsonrpc_summed_line(const json_t *json, size_t *bytes)
{
	char *body = json ? json_dumps(json, JSON_COMPACT) : NULL, *line;
	const size_t used = body ? strlen(body) : 0;

	line = body && used <= UINT32_MAX ? malloc(HEAD_BYTES + used + 2) : NULL;
	if (line) {
		sprintf(line + SUM_BYTES, "%08" PRIx32 " %s\n", (uint32_t)used, body);
		sprintf(line, "%08" PRIx32, base_crc32(line + SUM_BYTES, HEAD_BYTES - SUM_BYTES + used));
		line[SUM_BYTES - 1] = ' ';
		*bytes = HEAD_BYTES + used + 1;
	}
	free(body);
	return line;
}

/* Whether what is left, without a newline, is the beginning of a line: shorter than its length says. A file system may
 * have extended the file before it wrote the data, so after a loss of power it may end in zeros. A line of which only
 * the newline is missing, with a zero in its place, was changed. */
static bool is_begin(const char *line, size_t left)
{
	char digits[SUM_BYTES] = "";
	size_t has = left, whole;

	while (has && !line[has - 1])
		has--;
	if (has < HEAD_BYTES)
		return true;
	memcpy(digits, line + SUM_BYTES, SUM_BYTES - 1);
	whole = HEAD_BYTES + strtoul(digits, NULL, 16);
	return has < whole || (has == whole && has == left);
}

json_t *jsonrpc_summed_next(const char *text, size_t bytes, size_t *at, struct star_error *err)
{
	const char *line = text + *at, *end = memchr(line, '\n', bytes - *at);
	const size_t has = end ? (size_t)(end - line) : bytes - *at;
	char head[HEAD_BYTES + 1];
	json_t *json = NULL;

	*err = (struct star_error){ 0 };
	if (!end && is_begin(line, has))
		return NULL;
	if (end && has >= HEAD_BYTES) {
		snprintf(head, sizeof(head), "%08" PRIx32 " %08" PRIx32 " ",
			 base_crc32(line + SUM_BYTES, has - SUM_BYTES), (uint32_t)(has - HEAD_BYTES));
		if (memcmp(head, line, HEAD_BYTES) == 0)
			json = json_loadb(line + HEAD_BYTES, has - HEAD_BYTES, JSON_REJECT_DUPLICATES, NULL);
	}
	if (!json)
		star_error_set(
			err, -EINVAL,
			"its checksum does not match its bytes, starting at byte %zu: it is damaged, or was changed "
			"by hand",
			*at);
	*at += has + (end != NULL);
	return json;
}

size_t jsonrpc_summed_end(const char *text, size_t bytes)
{
	static const char tail[] = ",\n \"" MEMBER "\": \"";
	const char *at = memmem(text, bytes, tail, sizeof(tail) - 1);

	return at && bytes - (size_t)(at - text) >= TAIL_BYTES ? (size_t)(at - text) + TAIL_BYTES : bytes;
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
