/* SPDX-License-Identifier: BSD-3-Clause */
/* A server of requests under the fuzzer, and the streams to it: what the files of the target rpc share. */
#ifndef TESTS_FUZZ_RPC_WORLD_H
#define TESTS_FUZZ_RPC_WORLD_H

#include <rte_mbuf.h>
#include <stdbool.h>

#include "base/wheel.h"
#include "net/tcp.h"
#include "rpc/internal.h"
#include "service/internal.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/pool.h"

enum {
	CONNS = 5,
	MBUFS = 2048,
	SENT_MAX = 4096,
	WINDOW = 64 << 10,
	OUT_MAX = 3 << 20,
	REPLY_MAX = sizeof(struct wire_frame) + WIRE_PAYLOAD_DEFAULT,
	OPS_MAX = 4,
	OUTSTANDING_MAX = 16,
	TABLES = 3,
	WILD = TABLES + 1, /* the table with all policies */
	WILD_DIM = 8,
	PROGRAM = WILD + 1, /* one that does everything, on it and on table 1 */
	KEEPER,		    /* and those that keep, and take what was kept */
	TAKER,
	KEPT_BYTES = 64 << 10,
	KEYS = 256,
	EPOCH = 3,
	INCARNATION = 77,
	ARENA_BYTES = 4 << 20,
};

struct push {
	uint32_t table, key, mask, count;
	float gradient;
};

/* A request on its way, and what it does if it is executed. */
struct sent {
	uint64_t sequence;
	unsigned pushes;
	struct push push[OPS_MAX];
};

/* Both ends of a stream. */
struct tcp_conn {
	bool open, closing, finished;
	void *user;
	uint32_t mss, unread;
	uint64_t moved_ns;
	/* server to peer: segments not read yet */
	struct rte_mbuf *queue[SENT_MAX];
	uint32_t queue_head, queue_tail, queued;
	/* peer to server: bytes not delivered yet */
	uint8_t *out;
	uint32_t out_from, out_to;
	/* the peer's: the reply that is being read, and the requests that it may answer */
	uint8_t *in;
	uint32_t in_bytes;
	uint64_t sequence;
	struct sent sent[OUTSTANDING_MAX];
	unsigned sent_count;
	bool refused; /* an error ended the stream: nothing behind it is executed */
};

struct world {
	struct tcp_conn conns[CONNS];
	const struct tcp_handler *handler;
	void *ctx;
	struct rpc_server *server;
	struct service *service;
	struct store *store;
	struct store_table *tables[TABLES];
	struct wheel wheel;
	uint64_t now_ns;
	struct rte_mbuf *taken[MBUFS];
	unsigned taken_count;
	/* what the pushes that were answered have added up to */
	float sum[TABLES][KEYS];
	bool unknown[TABLES][KEYS];
	struct rte_mempool *pool;
};

extern struct world w;

/* rpc_run.c: a run, mostly of the right length; its feeds, segments and gradients included, are small numbers, or any
 * bytes. Returns how many. */
extern const struct program rpc_program, rpc_keeper, rpc_taker;
uint32_t rpc_run_write(uint8_t *to, struct input *in);

/* rpc_tcp.c: the stream ends, from whichever side, and the server hears of it. */
void conn_end(struct tcp_conn *c, int reason);

#endif
