/* SPDX-License-Identifier: BSD-3-Clause */
/* The name that somebody who typed another one may have meant. Pure functions. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

/* Edit distance with swaps of neighbours, the commonest slip in typing (optimal string alignment); of each text the
 * first 96 bytes count. */
unsigned nearest_distance(const char *a, const char *b);

/*
 * The name with the least distance to the text. names is a table whose entries of entry_bytes begin with a `const char
 * *` name, ended by one with NULL. NULL only when the table is empty.
 */
const char *nearest_name(const char *text, const void *names, size_t entry_bytes);

#endif
