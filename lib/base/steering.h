/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which queue a NIC gives a flow to by receive-side scaling: the Toeplitz hash of its addresses and ports looks the
 * queue up in a table (Microsoft, "RSS hashing functions"; the same in every NIC). A node publishes key and table with
 * its layout where the NIC takes no flow rules; a client then chooses a source port whose flow reaches the reactor that
 * it talks to, so that nothing needs handing over. Pure data and pure functions.
 */
#ifndef BASE_STEERING_H
#define BASE_STEERING_H

#include <stdint.h>

enum { STEERING_KEY_MAX = 52, STEERING_TABLE_MAX = 512, STEERING_QUEUE_MAX = 64 };

struct steering {
	uint16_t entries;   /* of the table, a power of two; 0: source ports do not matter */
	uint16_t key_bytes; /* 40 at least: IPv6 addresses and ports */
	uint8_t key[STEERING_KEY_MAX];
	uint8_t table[STEERING_TABLE_MAX]; /* queues, below STEERING_QUEUE_MAX */
};

/* A flow as the node receives it; network byte order. */
struct steering_flow {
	unsigned address_bytes; /* 4 or 16 */
	uint8_t from[16], to[16];
	uint16_t from_port, to_port; /* host order */
};

uint32_t steering_hash(const struct steering *s, const struct steering_flow *flow);

/* The first port, from flow->from_port on and round through [low, high], whose flow reaches the queue; 0: none of
 * them. */
uint16_t steering_port(const struct steering *s, const struct steering_flow *flow, unsigned queue, uint16_t low,
		       uint16_t high);

#endif
