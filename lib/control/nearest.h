/* SPDX-License-Identifier: BSD-3-Clause */
/* The name that somebody who typed another one may have meant. Pure functions. */
#ifndef CONTROL_NEAREST_H
#define CONTROL_NEAREST_H

#include <stddef.h>

/*
 * The name with the least Levenshtein distance to the text (of which the first 64 bytes count). names is a table whose
 * entries of entry_bytes begin with a `const char *` name, ended by one with NULL. NULL only when the table is empty.
 */
const char *nearest_name(const char *text, const void *names, size_t entry_bytes);

#endif
