/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pass over a libconfig text before libconfig reads it. libconfig 1.5 cuts an integer without an L to 32 bits in
 * silence (4294967297 reads as 1), ends the process when it cannot read an @include, and leaves out what follows a
 * comment that is not closed. So every integer gets an L, with which libconfig reads 64 bits and saturates, and the
 * others are refused. Lines stay as they are. Pure.
 */
#ifndef CONFIG_LITERALS_H
#define CONFIG_LITERALS_H

/* The text with wide integers, to be freed; NULL without memory, or where *wrong says what is wrong in *line. */
char *config_widen_literals(const char *text, unsigned *line, const char **wrong);

#endif
