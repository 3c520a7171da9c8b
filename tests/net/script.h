/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One stack against a peer that is written by hand, segment by segment, in virtual time. Sequence numbers are relative:
 * seq to the sender's initial one, ack to the other's; so are those of SACK blocks.
 */
#ifndef TESTS_NET_SCRIPT_H
#define TESTS_NET_SCRIPT_H

#include <rte_tcp.h>

#include "net/net.h"
#include "net/tcp.h"
#include "tests/unit.h"

enum {
	SCRIPT_PORT = 5555, /* the stack listens there */
	SCRIPT_PEER_PORT = 40000,
	SCRIPT_FRAMES_MAX = 4096,
	SCRIPT_MBUFS = 4096,
	S = RTE_TCP_SYN_FLAG,
	A = RTE_TCP_ACK_FLAG,
	P = RTE_TCP_PSH_FLAG,
	F = RTE_TCP_FIN_FLAG,
	R = RTE_TCP_RST_FLAG,
	U = RTE_TCP_URG_FLAG,
	E = RTE_TCP_ECE_FLAG,
	W = RTE_TCP_CWR_FLAG,
};

struct script_block {
	uint32_t begin, end;
};

/* A segment, in or out. */
struct script_segment {
	uint8_t flags;
	uint32_t seq, ack, bytes;
	/* from here on 0 is what is usual */
	uint16_t port;	 /* the peer's; SCRIPT_PEER_PORT */
	uint16_t window; /* as in the header; 65535 */
	bool closed;	 /* a window of 0 */
	uint8_t tos;
	/* options */
	uint16_t mss;
	int scale; /* one more than it is; 0: no such option */
	bool sack_permitted;
	/* has timestamps: of an injected one ts_value, and, if ts_echo is 0, the last that the stack sent */
	bool stamped;
	uint32_t ts_value, ts_echo;
	unsigned sacks_count;
	struct script_block sacks[4];
	const uint8_t *options; /* instead of those: as they are */
	unsigned options_bytes;
};

struct script {
	struct net *net;
	struct rte_mempool *pool;
	uint64_t now_ns;
	/* what the connection's user heard */
	struct tcp_conn *conn; /* NULL before and after */
	unsigned opens, ends;
	uint64_t received;
	bool finished, wrong;
	int reason;
	bool hold;			   /* does not give the window back */
	bool refuse;			   /* opened returns false */
	bool closes;			   /* tcp_close in received */
	void (*twist)(struct rte_mbuf *m); /* changes what the peer sends before the stack sees it; may be NULL */
	uint32_t held;
	/* numbers */
	uint32_t stack_iss, peer_iss, last_stamp;
	/* what the stack has sent, and script_out has not taken */
	struct script_segment out[SCRIPT_FRAMES_MAX];
	unsigned out_head, out_tail;
};

extern struct script script;

/* Options that script_begin takes when it is given none. */
struct net_options script_options(void);
void script_begin(const struct net_options *options);
/* Ends the stack; checks that every mbuf came back, and that all that was received was right. */
void script_end(void);

/* The peer sends it; what the stack answers in that turn is in the list. */
void script_in(const struct script_segment *s);
/* The same without the end of the turn. */
void script_put(const struct script_segment *s);
void script_turn(void);
/* The next segment that the stack has sent, whose flags, seq, ack and bytes must be these; never NULL. */
const struct script_segment *script_out_at(const char *file, int line, uint8_t flags, uint32_t seq, uint32_t ack,
					   uint32_t bytes);
#define script_out(flags, seq, ack, bytes) script_out_at(__FILE__, __LINE__, flags, seq, ack, bytes)
/* Nothing was sent that was not taken. */
#define script_quiet() CHECK_UINT(script.out_tail - script.out_head, 0)
void script_drop(void); /* takes all that was sent */
void script_wait(uint64_t ms);
void script_wait_us(uint64_t us);

/* The peer connects with these options (an SYN's; only they count), and the stack's answers are taken. */
void script_connect(const struct script_segment *options);
/* The stack connects, up to its SYN. */
void script_open(void);
void script_write(uint32_t bytes);

const struct net_counters *script_counters(void);

#endif
