/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The third party of a pair: a register in etcd that says which of the two nodes serves, and whether the other one may
 * take its place (lib/pair/entry.h). A separate thread talks to etcd, so the thread that sends to a standby never waits
 * for it. Without standby.etcd there is no register, and every claim is granted at once.
 */
#ifndef NODE_PAIR_REGISTER_H
#define NODE_PAIR_REGISTER_H

#include "node/pair.h"
#include "pair/entry.h"

struct node_pair_register;

enum { NODE_PAIR_CLAIM_TRIES = 3 }; /* if the register changes meanwhile */

/* Called by node_pair_begin before the pair's thread starts, and by node_pair_end and node_pair_close after it has
 * ended. */
int node_pair_register_begin(struct node_pair *p, struct star_error *err);
void node_pair_register_end(struct node_pair *p);
void node_pair_register_close(struct node_pair *p);

bool node_pair_has_register(const struct node_pair *p);
/* Identifies the register by a number, which the two nodes compare; 0: none. */
uint32_t node_pair_register_mark(const struct config *config);

/*
 * Makes a claim and waits for one answer. 0: granted. -EHOSTUNREACH: etcd has not answered, so the claim may still take
 * effect. -EAGAIN: the register has changed meanwhile, try again. Other errors: why not, as pair_entry_next says.
 * *generation gets the claimed generation, and *entry the contents of the register; both may be NULL. For the pair's
 * thread and the thread that promotes.
 */
int node_pair_register_ask(struct node_pair *p, enum pair_claim claim, uint64_t *generation, struct pair_entry *entry,
			   struct star_error *err);
/* Completes a claim, as the last step before this node serves. Until here the primary, if it still lives, may serve
 * again: it has everything, too. */
int node_pair_register_make_good(struct node_pair *p, uint64_t *generation, struct star_error *err);
/* Repeats the claim in the background until etcd has answered, or another claim replaces it. */
void node_pair_register_want(struct node_pair *p, enum pair_claim claim);
/* Whether that claim was granted; waits for at most `ms`. 0, or -EINPROGRESS with the reason. */
int node_pair_register_wanted(struct node_pair *p, uint32_t ms, struct star_error *err);

/* Whether a claim to serve was sent whose outcome is unknown: it may still take effect, until another claim is
 * answered. */
bool node_pair_register_is_unsure(struct node_pair *p);
/* Whether the register, as it was read in the last moments, names this node as the primary. */
bool node_pair_register_is_mine(struct node_pair *p);
/* With the pair's lock held: the register's part of the status. NULL: there is no register. */
json_t *node_pair_register_status(const struct node_pair *p);

struct node_pair_register_figures {
	uint64_t requests, failures, reachable;
};
/* False: there is no register. From any thread. */
bool node_pair_register_figures(const struct node *node, struct node_pair_register_figures *figures);

#endif
