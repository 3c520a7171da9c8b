/* SPDX-License-Identifier: BSD-3-Clause */
/* Scripts (script.h) about what the stack sends: segments of 1000 bytes, to a peer with the options asked for. */
#ifndef TESTS_NET_SENDER_H
#define TESTS_NET_SENDER_H

#include "net/tcp_sender.h"
#include "tests/net/script.h"

enum sender_features {
	PEER_SACK = 1 << 0,
	PEER_STAMPS = 1 << 1,
	PEER_ECN = 1 << 2,
};

enum { MSS = 1000 };

/* Options of a stack for scripts about sending. */
struct net_options sender_options(void);
/* A connection whose handshake took so long; nothing is in the list. */
void sender_begin(const struct net_options *options, unsigned features, uint64_t rtt_ms);

/* The peer acknowledges up to ack, and SACKs count blocks, pairs of begin and end. */
void sender_ack(uint32_t ack);
void sender_sack(uint32_t ack, unsigned count, ...);
/* The same with timestamps, echo: how many ms before now what it answers was sent. */
void sender_stamped_ack(uint32_t ack, uint32_t ms_ago, unsigned count, ...);

/* The next segment sent has these bytes; returns it. */
const struct script_segment *sender_sent_at(const char *file, int line, uint32_t seq, uint32_t bytes);
#define sender_sent(seq, bytes) sender_sent_at(__FILE__, __LINE__, seq, bytes)
/* The next ones are count full segments from seq on. */
#define sender_sent_run(seq, count) \
	for (uint32_t run_ = 0; run_ < (uint32_t)(count); run_++) \
	sender_sent((seq) + run_ * MSS, MSS)
/* Nothing more was sent. */
#define sender_quiet() CHECK_UINT(script.out_tail - script.out_head, 0)
/* Bytes that are in what was sent and not taken, and takes it. */
uint32_t sender_sent_bytes(void);
/* Ends the script; the sender's books must hold. */
void sender_end(void);
/* They hold now. */
void sender_check_at(const char *file, int line);
#define sender_check() sender_check_at(__FILE__, __LINE__)

#endif
