/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elements as JSON that reads back bit for bit: integers as numbers; reals with as many digits as their type needs;
 * infinities as "inf" and "-inf"; a NaN by its bits, "nan:7fc00000". Pure functions.
 */
#ifndef CKPT_ELEMENT_H
#define CKPT_ELEMENT_H

#include <jansson.h>
#include <stdbool.h>

enum { ELEMENT_TEXT = 40 };

/* dtype: any but STAR_SCALED_INT8. Returns the number of characters. */
int ckpt_element_print(unsigned dtype, const void *element, char text[static ELEMENT_TEXT]);

/* False: not an element of that type. A real number is rounded to the nearest that the type can represent. */
bool ckpt_element_parse(unsigned dtype, const json_t *json, void *element);

#endif
