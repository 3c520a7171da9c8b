/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A port that does what a NIC with offloads does, and fails the test when it is asked for what it does not have, or in
 * another way than DPDK wants it. Made again here from DPDK's documentation, with none of lib/net's code.
 */
#ifndef TESTS_NET_EMULATE_H
#define TESTS_NET_EMULATE_H

#include "tests/net/link.h"

enum { EMULATED_SEGMENTS = 48 };

/* Takes what a stack sends, and hands out what stands on the wire then: one mbuf a frame, which the callee owns. */
void emulate_send(struct link *link, int side, struct rte_mbuf *m,
		  void (*wire)(struct link *link, int side, struct rte_mbuf *m));
/* What the port says of a frame's checksums. */
void emulate_receive(struct link *link, int side, struct rte_mbuf *m);
/* Frees what the ports keep. */
void emulate_release(struct link *link);

#endif
