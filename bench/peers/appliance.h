/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One reactor of an appliance in this process, but for its driver: its stack, sessions, service and shard, fed frame by
 * frame by a worker's stack. Frames are copied into the server's mbufs before the clock is read, so they are cold to
 * nobody. One thread. Whatever goes wrong ends the program.
 */
#ifndef BENCH_APPLIANCE_H
#define BENCH_APPLIANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "rpc/datagram.h"
#include "service/service.h"

enum {
	APPLIANCE_PORT = 5555,
	APPLIANCE_TABLE = 1,   /* its only table: float32, Adagrad */
	APPLIANCE_PROGRAM = 2, /* looks up rows of it */
	APPLIANCE_DIM = 16,
	APPLIANCE_PARTITIONS = 16384,
	APPLIANCE_ROWS_MAX = 1 << 20,
	APPLIANCE_KEYS_MAX = 2000, /* of a request */
};
#define APPLIANCE_ADDRESS 0xc6120001u /* host order */
#define APPLIANCE_ARENA_BYTES (UINT64_C(512) << 20)

/* Moments of a turn: before the receive burst, after it, after the requests, and after the transmit burst. */
enum appliance_moment { APPLIANCE_RECEIVE, APPLIANCE_EXECUTE, APPLIANCE_TRANSMIT, APPLIANCE_END, APPLIANCE_MOMENTS };

/* Doors of it, for one worker each: as without keys, and by ticket, where tags guard what comes and goes, or all of it
 * is sealed. */
enum appliance_way { APPLIANCE_OPEN, APPLIANCE_CHECKED, APPLIANCE_SEALED, APPLIANCE_WAYS };

struct appliance {
	struct store *store;
	struct service *service;
	struct object_spec spec; /* of its table */
	uint64_t sequence;	 /* requests that were asked */
	uint64_t answered, bad;	 /* and answered, and how many of them not as they should */
	struct prng prng;
	/* Given before the start: workers whose place there is on both sides, and mbufs of each; 0: few. */
	uint32_t workers, mbufs;
	struct observe *observe; /* what its server is to remember requests in, or NULL: appliance_observe */
	bool keyed;		 /* there are all ways, or the first alone */
	bool alone;		 /* the caller is the workers itself, */
	struct net *worker_net;	 /* by this stack of theirs */
	/* Its port is a memif, where nothing has the Internet's checksum; or its worker comes by TCP. */
	bool memory, stream;
	uint8_t flags; /* enum wire_frame_flags of the requests that are asked */
	unsigned sent; /* how many frames the last turn had for the worker */
	void *ctx;     /* the caller's */
	bool counted;  /* turns with frames are made in counted_turn, which profilers know */
	/* Before each turn, what came in; may be NULL. */
	void (*arrived)(struct appliance *a, struct rte_mbuf *const *frames, unsigned n);
	/* In each turn, before its requests, as reactor_ops.work begins; may be NULL. */
	void (*work)(struct appliance *a, uint64_t now_ns);
	/* After each turn: how many frames came in, and the time stamp counter at its moments; may be NULL. */
	void (*turned)(struct appliance *a, unsigned received, const uint64_t cycles[APPLIANCE_MOMENTS]);
	/* At the end of each turn, as reactor_ops.housekeeping; may be NULL. busy: there were requests in it. */
	void (*housekeeping)(struct appliance *a, uint64_t now_ns, bool busy);
};

/* Whether the moments in between are told: to read the clock is to wait for all that is under way, so every other
 * request is measured as a whole. */
static inline bool appliance_by_stage(const struct appliance *a)
{
	return a->sequence % 2;
}

/* Starts DPDK, without hugepages and devices, and makes both sides. snapshots: NULL, or what store_snapshot_init is
 * given. */
void appliance_start(struct appliance *a, const struct store_snapshot_options *snapshots);

/* A request for rows is sent (WIRE_PULL; WIRE_PUSH: gradients of 0; WIRE_RUN: the program), ... */
void appliance_ask(struct appliance *a, enum wire_op_kind kind, const uint64_t *keys, uint32_t n);
/* ... and turns are made until all have been answered. */
void appliance_await(struct appliance *a);
static inline void appliance_request(struct appliance *a, enum wire_op_kind kind, uint64_t key)
{
	appliance_ask(a, kind, &key, 1);
	appliance_await(a);
}

/* With observe, or without, from now on. */
void appliance_observe(struct appliance *a, struct observe *observe);
/* The door that there is without keys. */
struct rpc_server *appliance_rpc(void);
/* What the server's mbufs come from. */
struct rte_mempool *appliance_pool(void);

/* By which way requests go from now on; nothing is under way. At first: APPLIANCE_OPEN. */
void appliance_use(struct appliance *a, enum appliance_way way);
/* The worker's session there ends, and it opens another one, by the ticket that it has: with its next request. */
void appliance_reopen(struct appliance *a);

/* A turn of each side, without a request. */
void appliance_turn(struct appliance *a);
/* For a caller that is the workers itself: what they have to send comes to the server, which makes one turn with it, in
 * bursts as a reactor has them, and what that brings about goes to them; returns how many frames there were. */
unsigned appliance_round(struct appliance *a);
/* The endpoint of such workers' sessions: as the appliance's own one, but for its handler, and with as much credit for
 * each of them. */
struct dgram *appliance_sessions(struct appliance *a, const struct dgram_handler *handler);
/* A whole request, in memory that the next call uses again; returns its bytes. session, sequence: of the worker. */
uint32_t appliance_fill(uint64_t session, uint64_t sequence, enum wire_op_kind kind, const uint64_t *keys, uint32_t n,
			const uint8_t **message);

_Noreturn void appliance_fail(const char *what);

#endif
