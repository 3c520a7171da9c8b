/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive-side scaling: a NIC selects a flow's queue by the Toeplitz hash of its addresses and ports, which is an index
 * into a table (Microsoft, "RSS hashing functions"; the same in every NIC). If the NIC supports no flow rules, a node
 * publishes hash key and table with its layout. A client then chooses a source port whose flow reaches the right
 * reactor, so that no frame is handed over. Pure data and pure functions.
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

/* Returns the first source port whose flow reaches the queue, searching [low, high] from flow->from_port on and
 * wrapping around; 0: there is none. */
uint16_t steering_port(const struct steering *s, const struct steering_flow *flow, unsigned queue, uint16_t low,
		       uint16_t high);

#endif
