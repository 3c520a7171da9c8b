/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The least that any server must do with the frames of a reactor: looks at their headers once, reads the key, finds its
 * row by the key as an index, and copies it into a reply behind headers that are copied from the request. A push
 * applies its gradient to the row, as Adagrad does. No order, no connection, no checksum, no table that grows. One
 * thread.
 */
#ifndef BENCH_BARE_LOOP_H
#define BENCH_BARE_LOOP_H

#include <rte_mbuf.h>
#include <stdint.h>

/* Rows of dim float32, and as many of Adagrad's sums; replies' mbufs come from the pool. */
void bare_loop_start(struct rte_mempool *pool, uint64_t rows, uint32_t dim);
/* Answers the requests among n frames, which stay as they are, and gives the replies back; returns how many. */
unsigned bare_loop_turn(struct rte_mbuf *const *frames, unsigned n);

#endif
