/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Offloads: work that a network port does for the stack. The stack uses those that its port has, and does the rest in
 * software; the bytes on the wire are the same. Pure data.
 */
#ifndef BASE_OFFLOAD_H
#define BASE_OFFLOAD_H

/* X(bit, NAME, display name, description) */
#define OFFLOADS(X) \
	X(0, TX_IP4_CHECKSUM, "tx-ip4-checksum", "fills in the checksum of IPv4 headers") \
	X(1, TX_TCP_CHECKSUM, "tx-tcp-checksum", "fills in TCP's checksum") \
	X(2, TX_UDP_CHECKSUM, "tx-udp-checksum", "fills in UDP's checksum") \
	X(3, TX_SEGMENTS, "tx-scatter-gather", "takes a frame as a chain of mbufs, some of them by reference") \
	X(4, TX_TSO, "tx-tcp-segmentation", "cuts a chain of TCP payloads into segments; includes the three for TCP") \
	X(5, TX_VLAN, "tx-vlan-insert", "inserts the tag of mbuf->vlan_tci") \
	X(6, RX_CHECKSUM, "rx-checksum", "reports the result in the mbuf if it has checked a frame's checksums") \
	X(7, RX_VLAN, "rx-vlan-strip", "removes the tag, and reports that in the mbuf") \
	X(8, MEMORY, "shared-memory", \
	  "its medium is memory: no bits are corrupted, and the only queue is the receiver's")

enum offload {
#define X(bit, NAME, name, text) OFFLOAD_##NAME = 1 << (bit),
	OFFLOADS(X)
#undef X
		OFFLOAD_TX_CHECKSUMS = OFFLOAD_TX_IP4_CHECKSUM | OFFLOAD_TX_TCP_CHECKSUM | OFFLOAD_TX_UDP_CHECKSUM,
};

#endif
