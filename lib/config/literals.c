/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/literals.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of the comment or string that starts here; 0 when none does. One that is not closed goes to the end. */
static size_t opaque(const char *text)
{
	const char *end;

	if (*text == '#' || !strncmp(text, "//", 2))
		return strcspn(text, "\n");
	if (!strncmp(text, "/*", 2)) {
		end = strstr(text + 2, "*/");
		return end ? (size_t)(end + 2 - text) : strlen(text);
	}
	if (*text != '"')
		return 0;
	for (end = text + 1; *end && *end != '"'; end++)
		if (*end == '\\' && end[1])
			end++;
	return (size_t)(end - text) + (*end == '"');
}

/* The bytes of a word or number: what libconfig takes as one name or one literal. */
static size_t token(const char *text)
{
	size_t n = 0;

	while (isalnum((unsigned char)text[n]) || (text[n] && strchr("_.*", text[n])) ||
	       (text[n] == '-' && n && !isdigit((unsigned char)*text)))
		n++;
	return n;
}

static bool is_integer(const char *text, size_t bytes)
{
	if (bytes > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		return strspn(text + 2, "0123456789abcdefABCDEF") >= bytes - 2;
	return bytes && strspn(text, "0123456789") >= bytes;
}

static unsigned lines_in(const char *text, size_t bytes)
{
	unsigned lines = 0;

	for (size_t i = 0; i < bytes; i++)
		lines += text[i] == '\n';
	return lines;
}

char *config_widen_literals(const char *text, unsigned *include_line)
{
	/* An integer of one digit, and what parts it from the next, become three bytes: twice the text is enough. */
	char *wide = malloc(2 * strlen(text) + 1), *out = wide;
	unsigned line = 1;
	size_t n;

	*include_line = 0;
	if (!wide)
		return NULL;
	while (*text) {
		bool integer = false;

		n = opaque(text);
		if (!n) {
			n = token(text);
			integer = is_integer(text, n);
		}
		if (!n && !strncmp(text, "@include", 8)) {
			*include_line = line;
			free(wide);
			return NULL;
		}
		n = n ? n : 1;
		line += lines_in(text, n);
		memcpy(out, text, n);
		out += n;
		text += n;
		if (integer)
			*out++ = 'L';
	}
	*out = 0;
	return wide;
}
