/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pass over a libconfig text before libconfig reads it. libconfig 1.5 silently truncates an integer without an L to
 * 32 bits (4294967297 reads as 1), ends the process if it cannot read an @include, and ignores what follows an unclosed
 * comment. So every integer gets an L, with which libconfig reads 64 bits and saturates, and the other two are refused.
 * Line numbers stay the same. Pure functions.
 */
#ifndef CONFIG_LITERALS_H
#define CONFIG_LITERALS_H

/* Returns the text with an L after each integer, to be freed. NULL: *wrong says what is wrong in line *line; or *wrong
 * is NULL, and it is out of memory. */
char *config_widen_literals(const char *text, unsigned *line, const char **wrong);

#endif
