/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/literals.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The length of the comment or string that starts here, or 0. An unclosed string extends to the end. */
static size_t opaque(const char *text)
{
	const char *end;

	if (*text == '#' || !strncmp(text, "//", 2))
		return strcspn(text, "\n");
	if (!strncmp(text, "/*", 2))
		return (size_t)(strstr(text + 2, "*/") + 2 - text); /* flaw() has made sure that it is closed */
	if (*text != '"')
		return 0;
	for (end = text + 1; *end && *end != '"'; end++)
		if (*end == '\\' && end[1])
			end++;
	return (size_t)(end - text) + (*end == '"');
}

/* The length of a word or number: what libconfig reads as one name or one literal. */
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

/* What libconfig must not see at this position, as an error message; NULL: nothing. */
static const char *flaw(const char *text)
{
	if (!strncmp(text, "@include", 8))
		return "@include is not supported; put everything into one file";
	if (!strncmp(text, "/*", 2) && !strstr(text + 2, "*/"))
		return "the comment that begins here is not closed, so all that follows would be ignored; write */ at "
		       "its end";
	return NULL;
}

char *config_widen_literals(const char *text, unsigned *line, const char **wrong)
{
	/* An integer of one digit and its separator become three bytes, so twice the text is enough. */
	char *wide = malloc(2 * strlen(text) + 1), *out = wide;
	size_t n;

	*line = 1;
	*wrong = NULL;
	if (!wide)
		return NULL;
	while (*text) {
		bool integer = false;

		*wrong = flaw(text);
		if (*wrong) {
			free(wide);
			return NULL;
		}
		n = opaque(text);
		if (!n) {
			n = token(text);
			integer = is_integer(text, n);
		}
		n = n ? n : 1;
		*line += lines_in(text, n);
		memcpy(out, text, n);
		out += n;
		text += n;
		if (integer)
			*out++ = 'L';
	}
	*out = 0;
	return wide;
}
