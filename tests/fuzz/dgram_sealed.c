/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions by ticket, and an attacker between their ends: the program of dgram.c. Nothing that he sends is believed. */
#define SEALED 1
#include "tests/fuzz/dgram.c"
