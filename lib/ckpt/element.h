/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An element as JSON that reads back bit for bit: integers as they are; reals with as many digits as their type needs;
 * "inf", "-inf", and a NaN by its bits, "nan:7fc00000". Pure functions.
 */
#ifndef CKPT_ELEMENT_H
#define CKPT_ELEMENT_H

#include <jansson.h>
#include <stdbool.h>

enum { ELEMENT_TEXT = 40 };

/* Of all types but scaled rows. Returns the number of characters. */
int ckpt_element_print(unsigned dtype, const void *element, char text[static ELEMENT_TEXT]);

/* False for what is no such element. A real that the type has not is rounded to the nearest that it has. */
bool ckpt_element_parse(unsigned dtype, const json_t *json, void *element);

#endif
