/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two endpoints over the simulated link of tests/net/link.h: side 0 is a server, side 1 the clients. Messages carry
 * their number and bytes that follow from it; each side checks that they come whole, once, and in their order. A
 * request says how long its reply is to be. One rig at a time.
 */
#ifndef TESTS_RPC_DGRAM_RIG_H
#define TESTS_RPC_DGRAM_RIG_H

#include "rpc/dgram_seal.h"
#include "tests/net/link.h"
#include "tests/unit.h"

enum { DG_ENDS_MAX = 640, DG_PORT = 7000, DG_INCARNATION = 5 };

#define DG_S (1000 * LINK_MS)

/* A session's user. */
struct dg_end {
	struct dg_rig *rig;
	struct dgram_session *session; /* NULL: none */
	uint64_t sent, received;       /* the last number */
	uint64_t bytes;		       /* received */
	uint64_t refused;	       /* messages that came with a status */
	enum wire_status status;       /* of the last one of those */
	struct rte_mbuf *held;	       /* messages that were not taken, by the private area of their first mbuf */
	unsigned connects, resumes, closes, acknowledged;
	int reason;
	uint32_t incarnation;
	bool any_number; /* the next one may begin anywhere */
	bool hold;	 /* keeps what it receives */
	bool shut;	 /* closes its session when it receives */
	bool quiet;	 /* does not answer */
	bool liar;	 /* of a session whose packets are forged with all that its peer knows: what comes is any */
};

struct dg_rig {
	struct link link; /* first */
	uint64_t seed;
	struct net_options net_options[2];
	struct dgram_options options[2];
	struct dgram *dgram[2];
	bool down[2]; /* the side does nothing */
	bool refuse;
	bool resend;	/* what a session has lost is sent again, in numbers that begin behind what was answered */
	bool unchecked; /* messages' bytes: where time counts */
	bool apart;	/* no message shares a packet with others */
	bool v6;	/* sessions are opened over IPv6 */
	/* sessions come by ticket; before dg_up. Not SECURE_DATA_OPEN: of packets with tags. In memory: opened by
	 * ticket, and without tags */
	enum secure_data data;
	struct secure_tickets *tickets;
	struct secure_key principal; /* whose tickets the clients have from now on */
	bool no_ticket;		     /* none is at hand */
	bool foreign;		     /* they are another node's */
	uint64_t ticket_age_ns;
	/* the first to be used is this one, from before the node's root key was drawn again */
	bool old_ticket;
	struct dgram_ticket kept_ticket;
	unsigned tickets_taken, tickets_refused;
	struct dgram_seal *seals; /* of the clients */
	struct dg_end servers[DG_ENDS_MAX], clients[DG_ENDS_MAX];
	unsigned servers_count;
	void (*on_reply)(struct dg_end *client);
};

extern struct dg_rig dg;

void dg_init(uint64_t seed);
void dg_up(void);
/* Ends everything, in whatever state it is; checks that no mbuf is missing. */
void dg_down(void);
/* The node has drawn another root key: no earlier ticket is accepted. Before the server is created again. */
void dg_renew_tickets(void);
void dg_keep_ticket(void);
void dg_create(int side);
/* An endpoint ends, and its users forget their sessions. */
void dg_destroy(int side);
bool dg_run(uint64_t for_ns, bool (*until)(void *ctx), void *ctx);
static inline void dg_wait(uint64_t for_ns)
{
	dg_run(for_ns, NULL, NULL);
}

/* Opens client i; and waits until it is open. */
struct dg_end *dg_open(unsigned i);
struct dg_end *dg_client(unsigned i);
/* Sends a message of n bytes of payload; of a client: that asks for a reply of this many, and one (0: for none). False:
 * mbufs were short. */
bool dg_send(struct dg_end *end, uint32_t bytes, uint32_t reply);
/* Takes what was held. */
void dg_take(struct dg_end *end);
/* Whether all that was sent has been received and answered. */
bool dg_answered(void *client);
/* The server's end of a client's session; NULL: none. */
struct dg_end *dg_server_of(const struct dg_end *client);
/* Checks that nothing is left of what sessions take for a while. */
void dg_check_quiet(void);
const struct dgram_counters *dg_counters(int side);

#endif
