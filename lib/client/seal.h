/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections over TCP to nodes that require tickets (secure/ticket.h). A thread of the cluster requests a ticket from
 * each node's control plane, and the next one before it expires. A channel that has to connect uses the current one, or
 * waits as for a node that is away. secure/seal.h describes records.
 */
#ifndef CLIENT_SEAL_H
#define CLIENT_SEAL_H

#include "client/client.h"
#include "secure/ticket.h"

/* A ticket that was requested. */
struct client_ticket {
	uint64_t number; /* counts the tickets of this cluster */
	struct secure_ticket ticket;
	uint8_t secret[SECURE_HASH_BYTES];
	uint64_t until_ns; /* valid until then; 0: there is none */
	enum secure_cipher cipher;
};

enum seal_stage {
	SEAL_NONE,     /* no connection */
	SEAL_GREETING, /* the hello was sent, and the node has not answered it yet */
	SEAL_ON,
};

/* The state of a channel. Protected by its lock, except for from_node, which belongs to its waiter. */
struct channel_seal {
	enum seal_stage stage;
	struct client_ticket by;
	struct secure_hello hello;
	struct secure_direction to_node, from_node;
};

/* Whether requests may be sent. */
static inline bool seal_lets_send(const struct channel *ch)
{
	return !ch->seal || ch->seal->stage == SEAL_ON;
}

/* tickets.c */
/* Starts requesting tickets, if the layout says that nodes require them. */
int client_tickets_start(struct star_cluster *cluster, const struct layout *layout, struct star_error *err);
void client_tickets_stop(struct star_cluster *cluster);
/* The layout has changed: other nodes may serve. */
void client_tickets_follow(struct star_cluster *cluster, const struct layout *layout);
/* Copies the current ticket. false: there is none. */
bool client_tickets_take(struct star_cluster *cluster, uint32_t task, struct client_ticket *ticket);
/* A node has refused the ticket; at: its data address. For a pair the next ticket is requested from the node that
 * serves there. */
void client_tickets_refused(const struct channel *ch, const struct sockaddr_storage *at, uint64_t number);
/* Sets err to why there is no ticket. false: there is one, or the reason is unknown. */
bool client_tickets_why(struct star_cluster *cluster, uint32_t task, struct star_error *err);
/* Whether a node has answered, since the channel began to connect, that this key gets no ticket (-EPERM): further
 * attempts are useless. */
bool client_tickets_forbidden(const struct channel *ch);

/* seal.c, with the channel's lock */
/* Before connecting: gets a ticket. 0, or an errno. */
int client_seal_prepare(struct channel *ch);
/* After connecting: writes the hello to the send buffer. 0, or an errno. */
int client_seal_greet(struct channel *ch);
/* Turns the request in the send buffer into a record. */
void client_seal_request(struct channel *ch);
/* Whether this is a valid answer of the node to the hello. */
bool client_seal_welcome(struct channel *ch, const struct wire_frame *frame, const char *payload);
/* By the waiter, without the lock: decrypts a record in place. false: it is not authentic. */
bool client_seal_open(struct channel *ch, const struct wire_frame *frame, char *payload);
void client_seal_close(struct channel *ch);
void client_seal_free(struct channel *ch);

#endif
