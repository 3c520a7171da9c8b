/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections to nodes that want tickets (secure/ticket.h), over TCP. A thread of the cluster asks each node's control
 * plane for one, and for the next before it is too old; a channel that has to connect takes the one at hand, or waits
 * as for a node that is away. What records are stands in secure/seal.h.
 */
#ifndef CLIENT_SEAL_H
#define CLIENT_SEAL_H

#include "client/client.h"
#include "secure/ticket.h"

/* A ticket that was asked for. */
struct client_ticket {
	uint64_t number; /* of those of this cluster */
	struct secure_ticket ticket;
	uint8_t secret[SECURE_HASH_BYTES];
	uint64_t until_ns; /* it is good until then; 0: there is none */
	enum secure_cipher cipher;
};

enum seal_stage {
	SEAL_NONE,     /* no connection */
	SEAL_GREETING, /* the hello is on its way: the node has yet to answer it */
	SEAL_ON,
};

/* A channel's; under its lock, but for from_node, which is its waiter's. */
struct channel_seal {
	enum seal_stage stage;
	struct client_ticket by;
	struct secure_hello hello;
	struct secure_direction to_node, from_node;
};

/* Whether requests may be written. */
static inline bool seal_lets_send(const struct channel *ch)
{
	return !ch->seal || ch->seal->stage == SEAL_ON;
}

/* tickets.c */
/* Begins to ask, where the layout says that nodes want tickets. */
int client_tickets_start(struct star_cluster *cluster, const struct layout *layout, struct star_error *err);
void client_tickets_stop(struct star_cluster *cluster);
/* There is another layout: who serves may have changed. */
void client_tickets_follow(struct star_cluster *cluster, const struct layout *layout);
/* Copies the ticket at hand; false: there is none. */
bool client_tickets_take(struct star_cluster *cluster, uint32_t task, struct client_ticket *ticket);
/* The node did not take it; at: the data address where. Of a pair whoever serves there gives the next one. */
void client_tickets_refused(const struct channel *ch, const struct sockaddr_storage *at, uint64_t number);
/* Why there is no ticket, as a message; false: there is one, or nobody knows. */
bool client_tickets_why(struct star_cluster *cluster, uint32_t task, struct star_error *err);

/* seal.c, with the channel's lock */
/* Before it connects: takes a ticket. 0, or an errno. */
int client_seal_prepare(struct channel *ch);
/* It is connected: the hello stands in the send buffer. 0, or an errno. */
int client_seal_greet(struct channel *ch);
/* Makes a record of the request in the send buffer. */
void client_seal_request(struct channel *ch);
/* Whether this is the node's good answer to the hello. */
bool client_seal_welcome(struct channel *ch, const struct wire_frame *frame, const char *payload);
/* By the waiter, without the lock: opens a record in place. false: it is not as the node has sent it. */
bool client_seal_open(struct channel *ch, const struct wire_frame *frame, char *payload);
void client_seal_close(struct channel *ch);
void client_seal_free(struct channel *ch);

#endif
