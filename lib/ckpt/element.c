/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/element.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/convert.h"
#include "tensor/dtype.h"

enum { FLOAT_DIGITS = 9, DOUBLE_DIGITS = 17 };

/* As a double, which can represent all values of the real types. */
static double real_of(unsigned dtype, const void *element)
{
	double wide;
	float single;

	if (dtype == STAR_FLOAT64) {
		memcpy(&wide, element, sizeof(wide));
		return wide;
	}
	if (dtype == STAR_FLOAT32)
		memcpy(&single, element, sizeof(single));
	else
		tensor_convert_find(dtype, CONVERT_SCALAR)->to_float(&single, element, 1);
	return (double)single;
}

static int64_t integer_of(unsigned dtype, const void *element)
{
	int64_t wide;
	int32_t medium;
	int8_t narrow;

	switch (dtype) {
	case STAR_INT8:
		memcpy(&narrow, element, sizeof(narrow));
		return narrow;
	case STAR_INT32:
		memcpy(&medium, element, sizeof(medium));
		return medium;
	default:
		memcpy(&wide, element, sizeof(wide));
		return wide;
	}
}

static int print_nan(unsigned dtype, const void *element, char text[static ELEMENT_TEXT])
{
	uint64_t bits = 0;

	memcpy(&bits, element, dtype_bytes(dtype));
	return snprintf(text, ELEMENT_TEXT, "\"nan:%0*" PRIx64 "\"", (int)(2 * dtype_bytes(dtype)), bits);
}

int ckpt_element_print(unsigned dtype, const void *element, char text[static ELEMENT_TEXT])
{
	double number;
	int bytes;

	if (!dtype_is_real(dtype))
		return snprintf(text, ELEMENT_TEXT, "%" PRId64, integer_of(dtype, element));
	number = real_of(dtype, element);
	if (isnan(number))
		return print_nan(dtype, element, text);
	if (isinf(number))
		return snprintf(text, ELEMENT_TEXT, number < 0 ? "\"-inf\"" : "\"inf\"");
	bytes = snprintf(text, ELEMENT_TEXT, "%.*g", dtype == STAR_FLOAT64 ? DOUBLE_DIGITS : FLOAT_DIGITS, number);
	/* Writes it so that JSON parsers read a real number: an integer would lose its type, and the sign of -0. */
	if (!strpbrk(text, ".e"))
		bytes += snprintf(text + bytes, ELEMENT_TEXT - (size_t)bytes, ".0");
	return bytes;
}

static bool parse_bits(unsigned dtype, const char *digits, void *element)
{
	const unsigned bytes = dtype_bytes(dtype);
	uint64_t bits;

	if (strlen(digits) != 2 * bytes || strspn(digits, "0123456789abcdef") != 2 * bytes)
		return false;
	bits = strtoull(digits, NULL, 16);
	memcpy(element, &bits, bytes);
	return isnan(real_of(dtype, element));
}

static bool parse_real(unsigned dtype, const json_t *json, void *element)
{
	const char *text = json_string_value(json);
	double number = json_number_value(json);
	float scratch;

	if (text && strncmp(text, "nan:", 4) == 0)
		return parse_bits(dtype, text + 4, element);
	if (text && strcmp(text, "inf") != 0 && strcmp(text, "-inf") != 0)
		return false;
	if (text)
		number = text[0] == '-' ? -HUGE_VAL : HUGE_VAL;
	else if (!json_is_number(json))
		return false;
	tensor_convert_row(element, dtype, &number, STAR_FLOAT64, 1, &scratch);
	return text || isfinite(real_of(dtype, element));
}

bool ckpt_element_parse(unsigned dtype, const json_t *json, void *element)
{
	const json_int_t number = json_integer_value(json);
	const unsigned bytes = dtype_bytes(dtype);
	const int64_t most = bytes == 8 ? INT64_MAX : (INT64_C(1) << (8 * bytes - 1)) - 1;

	if (dtype_is_real(dtype))
		return parse_real(dtype, json, element);
	if (!json_is_integer(json) || number > most || number < -most - 1)
		return false;
	memcpy(element, &number, bytes); /* little endian: the low bytes */
	return true;
}
