/* SPDX-License-Identifier: BSD-3-Clause */
/* The EAL for fuzz targets, and mbufs whose memory AddressSanitizer guards while they are free. One thread. */
#ifndef TESTS_FUZZ_POOL_H
#define TESTS_FUZZ_POOL_H

#include <rte_mempool.h>

#include "tests/fuzz/fuzz.h"

/* The EAL without hugepages, devices and files. Once a process. */
void fuzz_eal(void);

/* Mbufs with lib/net's private area. A free one's memory is poisoned, and is given out again as late as possible. */
struct rte_mempool *fuzz_pool(unsigned mbufs);

/* Stops the program unless all mbufs are back. */
void fuzz_pool_whole(const struct rte_mempool *pool);

#endif
