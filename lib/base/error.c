/* SPDX-License-Identifier: BSD-3-Clause */
#include "star_error.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"

/* The text is printed on terminals, and may contain words of a file or a peer. A tab is harmless. */
static void without_controls(char *text)
{
	for (; *text; text++)
		if (*text != '\t')
			*text = base_printable(*text);
}

int star_error_set(struct star_error *err, int code, const char *format, ...)
{
	va_list args;

	if (!err)
		return code;
	err->code = code;
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	without_controls(err->text);
	return code;
}
