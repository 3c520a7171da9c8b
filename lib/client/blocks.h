/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A flag of star_op for the project's own programs: the keys of an assign to a variable are numbers of its blocks, and
 * the values are whole blocks of spec.dim elements, the last one filled up with zeros. star.h has no blocks: it has
 * rows of the first dimension, of which a block may have several or only a part. Any thread.
 */
#ifndef CLIENT_BLOCKS_H
#define CLIENT_BLOCKS_H

#include <stdint.h>

#define CLIENT_BLOCKS (UINT32_C(1) << 31)

#endif
