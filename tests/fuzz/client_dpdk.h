/* SPDX-License-Identifier: BSD-3-Clause */
/* The node behind libstar-dpdk's fuzz target: an endpoint that keeps what it is asked until the input lets it
 * answer. */
#ifndef TESTS_FUZZ_CLIENT_DPDK_H
#define TESTS_FUZZ_CLIENT_DPDK_H

#include "rpc/dgram_internal.h"
#include "tests/fuzz/client_sides.h"

enum node_limits {
	NODE_SESSIONS = 8,
	NODE_REQUESTS = 128, /* of a session */
	NODE_PORT = 7000,
	NODE_INCARNATION = 7, /* the first one */
};

struct node_session {
	struct node *node;
	struct dgram_session *session; /* NULL: none */
	int channel;		       /* -1: its client has given it up already */
	uint64_t sequence;
	bool refuses; /* the requests that are marked as standing behind a refused one */
	struct request requests[NODE_REQUESTS];
	unsigned count;
};

struct node {
	struct net *net;
	struct dgram *dgram;
	uint32_t incarnation;
	uint64_t starts; /* its tokens differ each time */
	/* Whose session that is: a number, 0 for one that nobody lies to; -1: nobody's. */
	int (*channel_of)(const struct dgram_session *session);
	struct node_session sessions[NODE_SESSIONS];
};

/* With what it had forgotten. */
void node_start(struct node *node);
void node_restart(struct node *node, bool other_incarnation);
/* The right answer to a session's oldest request; or a refusal, of it and of those behind it. False: nothing was asked,
 * or mbufs are short. */
bool node_answer(struct node_session *n, bool refuse);
/* An answer that is not right; returns to which channel, or -1. */
int node_spoil(struct node_session *n, struct input *in);
/* Writes an answer, right or not, to one of a channel's requests, as much as there is room for; returns its bytes, 0:
 * none is there. */
uint32_t node_lie(const struct node *node, int channel, struct input *in, uint8_t *to, uint32_t room);
void node_close(struct node_session *n);

#endif
