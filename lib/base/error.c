/* SPDX-License-Identifier: BSD-3-Clause */
#include "star_error.h"

#include <stdarg.h>
#include <stdio.h>

int star_error_set(struct star_error *err, int code, const char *format, ...)
{
	va_list args;

	if (!err)
		return code;
	err->code = code;
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	return code;
}
