/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tickets for the data network. A principal requests one from a node's control plane, over TLS, and gets with it a
 * secret that only this node can derive from the ticket. A connection begins with a hello, which carries the ticket and
 * proves that its sender has the secret; the node answers with a welcome, which proves that it has the secret too. The
 * keys of that one connection are derived from the secret and both ends' random numbers (seal.h).
 *
 * A node's root secret is generated when it starts, and exists only in its memory: tickets, and what was recorded of
 * connections with them, become useless with it. Thread rule: tickets are issued and reviewed on control threads;
 * everything else may be called by any thread at any time, even during these: it changes nothing, waits for nothing and
 * allocates nothing.
 */
#ifndef SECURE_TICKET_H
#define SECURE_TICKET_H

#include "secure/keys.h"
#include "secure/rights.h"
#include "secure/seal.h"

enum secure_data {
	SECURE_DATA_OPEN,	/* everyone who reaches the data network has access */
	SECURE_DATA_CHECKED,	/* by ticket; nothing can be changed on the way */
	SECURE_DATA_SEALED,	/* and nobody can read the payload */
	SECURE_DATA_SEALED_256, /* the same, with keys of 256 bits */
	SECURE_DATA_KINDS
};

enum { SECURE_RANDOM_BYTES = 32, SECURE_TICKET_BYTES = 112, SECURE_TABLES = 16385 /* ids, from 0 */ };
#define SECURE_TICKET_NS (UINT64_C(600) * 1000000000)

/* A ticket, as the worker sees it. */
struct secure_ticket {
	uint8_t bytes[SECURE_TICKET_BYTES];
};

/* The payload of a connection's first frame, and of the node's reply. */
struct secure_hello {
	struct secure_ticket ticket;
	uint8_t random[SECURE_RANDOM_BYTES];
};
struct secure_welcome {
	uint8_t random[SECURE_RANDOM_BYTES];
};

/* A client that connected with a ticket, and its place among those who have tickets. */
struct secure_guest {
	uint32_t place, generation;
	uint32_t account; /* its principal's, with whichever key it connected: quota.h */
	char principal[SECURE_NAME_MAX + 1];
};

struct secure_tickets;

/* "open", "checked", "sealed", "sealed-256". And from a name; SECURE_DATA_KINDS: unknown. */
const char *secure_data_name(enum secure_data data);
enum secure_data secure_data_from(const char *name);
/* For data that is not open. */
enum secure_cipher secure_data_cipher(enum secure_data data);

struct secure_tickets *secure_tickets_create(enum secure_data data, struct star_error *err);
void secure_tickets_destroy(struct secure_tickets *tickets); /* may be NULL */
enum secure_data secure_tickets_data(const struct secure_tickets *tickets);

/* Issues a ticket for a principal, valid for SECURE_TICKET_NS from now on, by clock_ns; and its secret. */
int secure_tickets_issue(struct secure_tickets *tickets, const struct secure_key *principal, uint64_t now_ns,
			 struct secure_ticket *ticket, uint8_t secret[SECURE_HASH_BYTES], struct star_error *err);
/* Removes the tickets of principals for which `stays` returns false; returns their number. The keys passed to it have
 * no secrets. */
unsigned secure_tickets_review(struct secure_tickets *tickets, bool (*stays)(void *ctx, const struct secure_key *key),
			       void *ctx);

/*
 * The rights of guests to tables (rights.h), by the table's id: a byte for each guest and id, which reactors look up. A
 * table gets its name when it is created (NULL: it was removed), before anyone can use it: nobody has rights to one
 * without a name. The rights are then evaluated again.
 */
void secure_tickets_table(struct secure_tickets *tickets, uint32_t id, const char *name);
/* Takes ownership. NULL: everyone with a ticket has all rights. */
void secure_tickets_rights(struct secure_tickets *tickets, struct secure_rights *rights);
/* A guest's bytes, of SECURE_TABLES: sets of enum secure_right. */
const _Atomic(uint8_t) *secure_tickets_rights_of(const struct secure_tickets *tickets,
						 const struct secure_guest *guest);
/* The quotas of guests by their accounts; constant, and valid as long as the tickets. */
const struct secure_limits *secure_tickets_limits(const struct secure_tickets *tickets);
/* Those of a principal, which need not have a ticket. True: it has one. */
bool secure_tickets_quotas(struct secure_tickets *tickets, const char *principal, struct secure_quotas *quotas);
/* The account of a principal that has had a ticket; false: it has had none. secure_tickets_makes: the tables in which
 * it may create rows, by id. */
bool secure_tickets_account(struct secure_tickets *tickets, const char *principal, uint32_t *account);
void secure_tickets_makes(struct secure_tickets *tickets, uint32_t account, bool makes[static SECURE_TABLES]);
/* For principals that have no ticket yet. */
bool secure_tickets_may_have(struct secure_tickets *tickets, const struct secure_key *principal);
uint8_t secure_tickets_look_up(struct secure_tickets *tickets, const char *principal, enum secure_role role,
			       const char *table);

/* Whether the ticket is one of this node's, and valid; then sets the guest and the secret. */
bool secure_tickets_open(const struct secure_tickets *tickets, const struct secure_ticket *ticket, uint64_t now_ns,
			 struct secure_guest *guest, uint8_t secret[SECURE_HASH_BYTES]);
/* Number of revocations so far. */
uint32_t secure_tickets_reviews(const struct secure_tickets *tickets);
/* Whether a guest may stay. */
bool secure_tickets_hold(const struct secure_tickets *tickets, const struct secure_guest *guest);
/* Converts a number that a guest has chosen to one of its own: another principal that chooses the same gets another
 * one. The same on all nodes, and after a restart. */
uint64_t secure_guest_number(const struct secure_guest *guest, uint64_t chosen);

/* Creates a unique welcome: number differs from one to the next at a port. */
void secure_welcome_make(const struct secure_tickets *tickets, uint32_t port, uint64_t number,
			 struct secure_welcome *welcome);

/* What distinguishes a connection, besides the random numbers. */
struct secure_place {
	uint32_t incarnation; /* of the node */
	uint32_t port;	      /* of the reactor */
};

/* The tag of a hello with this frame header, and of the welcome that answers it. */
void secure_hello_tag(const uint8_t secret[SECURE_HASH_BYTES], struct secure_place place, const void *header,
		      size_t header_bytes, const struct secure_hello *hello, uint8_t tag[SECURE_TAG_BYTES]);
void secure_welcome_tag(const uint8_t secret[SECURE_HASH_BYTES], const struct secure_hello *hello, const void *header,
			size_t header_bytes, const struct secure_welcome *welcome, uint8_t tag[SECURE_TAG_BYTES]);
/* The keys of a connection: to the node, and from it. */
void secure_connection_keys(const uint8_t secret[SECURE_HASH_BYTES], struct secure_place place,
			    const struct secure_hello *hello, const struct secure_welcome *welcome,
			    enum secure_cipher cipher, struct secure_direction *to_node,
			    struct secure_direction *from_node);

#endif
