/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What store-end-to-end's own peers (zmq-map.cc, epoll-batch.c) and its client (batches/) say to each other: a head,
 * then the keys, then for a push the gradients; the reply is the head, then for a pull the rows. Over ZeroMQ each is a
 * part of a message, and a pull's reply brings the keys too, as ps-lite's does. Little endian. Rows of BATCH_DIM
 * float32; one that was never pushed to is zero. A push subtracts rate * gradient, which is all that ps-lite's default
 * handler does (it adds).
 */
#ifndef PEERS_BATCH_H
#define PEERS_BATCH_H

#include <stdint.h>

#define BATCH_MAGIC UINT32_C(0x48435442) /* "BTCH" */

enum batch_limits { BATCH_KEYS_MAX = 8192, BATCH_DIM = 16 };
enum batch_kind { BATCH_PULL = 1, BATCH_PUSH = 2 };

struct batch_head {
	uint32_t magic;
	uint32_t kind;
	uint64_t sequence;
	uint32_t count; /* keys, 1 to BATCH_KEYS_MAX */
	float rate;
	uint64_t reserved;
};

struct batch_row {
	float values[BATCH_DIM];
};

#ifdef __cplusplus
static_assert(sizeof(batch_head) == 32 && sizeof(batch_row) == 64, "batch.h");
#else
_Static_assert(sizeof(struct batch_head) == 32 && sizeof(struct batch_row) == 64, "batch.h");
#endif

/* Whether a head can be believed. */
static inline int batch_head_good(const struct batch_head *head)
{
	return head->magic == BATCH_MAGIC && (head->kind == BATCH_PULL || head->kind == BATCH_PUSH) &&
	       head->count >= 1 && head->count <= BATCH_KEYS_MAX;
}

#endif
