/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts from outside (names of tables, files and peers), which are printed on terminals and in logs. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>

/* Terminals interpret control characters. */
static inline bool base_is_control(char c)
{
	return (unsigned char)c < ' ' || c == 0x7f;
}

/* The character itself, or a question mark. */
static inline char base_printable(char c)
{
	return base_is_control(c) ? '?' : c;
}

#endif
