/* SPDX-License-Identifier: BSD-3-Clause */
/* Hand-written frames. */
#ifndef TESTS_NET_FRAME_H
#define TESTS_NET_FRAME_H

#include "tests/net/link.h"

struct segment_spec {
	rte_be32_t from;
	uint16_t from_port, to_port;
	uint32_t seq, ack;
	uint8_t flags;
	uint8_t data_off; /* 0: as it should be */
	const uint8_t *options;
	unsigned options_bytes, payload;
	bool bad_checksum;
};

/* Gives the segment to side 0. */
void inject(const struct segment_spec *s);

/* A tap whose context is a segment_spec: the numbers of what side 1 sent last. */
bool last_ack(struct link *l, int from, struct rte_mbuf *m);

#endif
