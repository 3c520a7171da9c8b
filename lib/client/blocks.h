/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A flag of star_op for the project's own programs: the keys of an assign to a variable are the numbers of its blocks,
 * and values whole blocks of spec.dim elements, the last one with zeros behind the variable's own elements. Blocks are
 * no part of star.h, which knows rows of the first dimension: these may lie several in a block, or be cut across them.
 * Any thread.
 */
#ifndef CLIENT_BLOCKS_H
#define CLIENT_BLOCKS_H

#include <stdint.h>

#define CLIENT_BLOCKS (UINT32_C(1) << 31)

#endif
