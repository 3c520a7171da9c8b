/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the name that a mistyped one probably meant, for error messages. Pure functions. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

/* Edit distance with transpositions, which are frequent typing errors (optimal string alignment). Only the first 96
 * bytes of each text count. */
unsigned nearest_distance(const char *a, const char *b);

/*
 * Returns the name with the smallest distance to the text. names: a table with entries of entry_bytes, each of which
 * begins with a `const char *`; NULL ends it. NULL only if the table is empty.
 */
const char *nearest_name(const char *text, const void *names, size_t entry_bytes);

#endif
