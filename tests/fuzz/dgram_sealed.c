/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions by ticket, and whoever stands between their ends: the program of dgram.c. Nothing that he sends is believed
 * by anybody. */
#define SEALED 1
#include "tests/fuzz/dgram.c"
