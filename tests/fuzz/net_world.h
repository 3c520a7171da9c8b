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
	QUOTED_MAX = 48, /* an IPv6 header, and 8 bytes */
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
	uint32_t taken;		    /* an honest peer's: what it has got in order */
	uint8_t quoted[QUOTED_MAX]; /* as errors quote it: the head of the last segment that it was sent */
	uint16_t quoted_bytes;
	bool stamped;	/* its connection has timestamps, */
	uint32_t stamp; /* and this was the stack's last */
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
	bool v6;       /* the peers speak IPv6 */
	unsigned hold; /* of the next frames sent, this many stay with the driver */
	struct rte_mbuf *held[HELD_MAX], *taken[MBUFS];
	unsigned held_count, taken_count;
	struct rte_mempool *pool;
};

extern struct world w;

#define OWN_ADDRESS RTE_BE32(0xc6120001)
#define PEER_ADDRESS RTE_BE32(0xc6120002)
extern const struct net_address own_address6, peer_address6;
extern const struct rte_ether_addr own_mac, peer_mac;

/* Both streams have this byte at a sequence number, so that a byte out of place is seen. */
static inline uint8_t content(uint32_t seq)
{
	return (uint8_t)(seq * 0x9e3779b1u >> 24);
}

/* net_frames.c: frames in. A raw one: its bytes, or its bytes behind right headers. */
void inject_raw(struct input *in);
/* ARP, neighbour discovery, fragments, ICMP's errors. */
void inject_neighbour(struct input *in);
/* The peers ask for us, in both families. */
void introduce_peer(void);

struct made_segment {
	unsigned peer;
	uint8_t flags;
	uint32_t seq, ack;
	uint16_t window, bytes;
	uint8_t tos;
	const uint8_t *options; /* NULL: an honest peer's */
	uint8_t options_bytes;	/* a multiple of 4 */
};

void inject_segment(const struct made_segment *s);
/* A segment of a peer that the input describes. */
void step_segment(struct input *in, unsigned peer);

/* Frames out: what is sent is well-formed and carries the right bytes; peers learn from it, and answer when they are
 * honest. */
void check_frame(struct rte_mbuf *m);

/* net_check.c: what holds at any time. */
void check_stack(void);

/* net_options.c: TCP options, written to `to`, which has room for 40 bytes; they return how many */
enum made_options {
	MADE_SACKS = 1 << 3,
	MADE_UNSTAMPED = 1 << 4,
	MADE_STAMP = 1 << 5,
	MADE_TOS = 1 << 6,
	MADE_ECN = 1 << 7
};
/* Of a SYN; how: window scale in the low bits, then what else it asks for. */
uint8_t syn_options(uint8_t mss, uint8_t how, uint8_t *to, uint8_t *flags);
/* Of an honest peer's segment. */
uint8_t usual_options(unsigned peer, uint8_t *to);
/* Of a segment that is made by how, of enum made_options. */
uint8_t made_options(struct input *in, unsigned peer, uint8_t how, uint8_t *to);
/* Looks at those of a segment that the stack has sent. */
void note_options(struct peer *p, const uint8_t *at, const uint8_t *end);

#endif
