/* SPDX-License-Identifier: BSD-3-Clause */
/* The stack under the fuzzer, its users and its peers: what the files of the target net share. */
#ifndef TESTS_FUZZ_NET_WORLD_H
#define TESTS_FUZZ_NET_WORLD_H

#include <stdbool.h>

#include "net/tcp_internal.h"
#include "tests/fuzz/pool.h"

enum {
	MBUFS = 1024,
	PEERS = 4,
	USERS = 64,
	HELD_MAX = 64,
	MTU = 1500,
	PORT = 5555,
	PEER_PORT = 40000,
};

/* The user of a connection. */
struct user {
	struct tcp_conn *conn; /* NULL before and after */
	struct rte_mbuf *held;
	uint32_t held_bytes, next_seq;
	bool synced, closing, closed;
};

/* What the other side of a port knows of the stack. */
struct peer {
	uint16_t port; /* the stack's */
	uint32_t seq;  /* what the stack expects next: its last ACK */
	uint32_t ack;  /* the highest number that it has used */
	bool known;
	uint32_t taken; /* an honest peer's: what it has got in order */
};

struct world {
	struct net *net;
	struct user users[USERS];
	unsigned users_count;
	struct peer peers[PEERS];
	uint64_t now_ns, in_frames;
	uint8_t habits;
	bool tainted; /* frames with other bytes than those of content() were injected */
	bool honest;
	unsigned hold; /* of the next frames sent, so many stay with the driver */
	struct rte_mbuf *held[HELD_MAX], *taken[MBUFS];
	unsigned held_count, taken_count;
	struct rte_mempool *pool;
};

extern struct world w;

#define OWN_ADDRESS RTE_BE32(0xc6120001)
#define PEER_ADDRESS RTE_BE32(0xc6120002)
extern const struct rte_ether_addr own_mac, peer_mac;

/* Both streams have this byte at a sequence number, so that a byte out of place is seen. */
static inline uint8_t content(uint32_t seq)
{
	return (uint8_t)(seq * 0x9e3779b1u >> 24);
}

/* net_frames.c: frames in. A raw one: its bytes, or its bytes behind right headers. */
void inject_raw(struct input *in);
void inject_arp(struct input *in);

struct made_segment {
	unsigned peer;
	uint8_t flags;
	uint32_t seq, ack;
	uint16_t window, bytes;
	const uint8_t *options;
	uint8_t options_bytes; /* a multiple of 4 */
};

void inject_segment(const struct made_segment *s);
/* A segment of a peer that the input describes. */
void step_segment(struct input *in, unsigned peer);

/* Frames out: what is sent is well-formed and carries the right bytes; peers learn from it, and answer when they are honest. */
void check_frame(struct rte_mbuf *m);

/* net_check.c: what holds at any time. */
void check_stack(void);

#endif
