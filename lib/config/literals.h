/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pass over a libconfig text before libconfig reads it. libconfig 1.5 cuts an integer without an L to 32 bits in
 * silence (4294967297 reads as 1), and ends the process when it cannot read an @include. So every integer gets an L,
 * with which libconfig reads 64 bits and saturates, and @include is refused. Lines stay as they are. Pure.
 */
#ifndef CONFIG_LITERALS_H
#define CONFIG_LITERALS_H

/* The text with wide integers, to be freed; NULL without memory, or at an @include, with its line in *include_line. */
char *config_widen_literals(const char *text, unsigned *include_line);

#endif
