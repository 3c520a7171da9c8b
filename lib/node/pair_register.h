/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The third party of a pair: a register in etcd that says which of the two serves, and whether the other one may take
 * its place (lib/pair/entry.h). A thread of its own asks etcd, so that who sends to a standby never waits for it.
 * Without standby.etcd there is none, and whatever is asked here is granted at once.
 */
#ifndef STARSERVER_PAIR_REGISTER_H
#define STARSERVER_PAIR_REGISTER_H

#include "node/pair.h"
#include "pair/entry.h"

struct node_pair_register;

/* Beside node_pair_begin, node_pair_end and node_pair_close: before the pair's thread begins, after it has ended. */
int node_pair_register_begin(struct node_pair *p, struct star_error *err);
void node_pair_register_end(struct node_pair *p);
void node_pair_register_close(struct node_pair *p);

bool node_pair_has_register(const struct node_pair *p);
/* Which register it is, as one number that both nodes tell each other; 0: none. */
uint32_t node_pair_register_mark(const struct config *config);

/*
 * Waits until etcd was asked once, and says how it ended: 0; -EHOSTUNREACH: etcd has not answered, and what was claimed
 * may come true still; -EAGAIN: the register has changed meanwhile, ask again; or why not, as pair_entry_next says.
 * *generation, where it is not NULL: the claimed one. *entry, where it is not NULL: what the register has. Of the
 * pair's thread, and of who promotes.
 */
int node_pair_register_ask(struct node_pair *p, enum pair_claim claim, uint64_t *generation, struct pair_entry *entry,
			   struct star_error *err);
/* The claim is made until etcd has answered, or another one is made in its place. */
void node_pair_register_want(struct node_pair *p, enum pair_claim claim);
/* Whether that has come true: waits for so long at most. 0, or -EINPROGRESS and why not. */
int node_pair_register_wanted(struct node_pair *p, uint32_t ms, struct star_error *err);

/* A claim to serve was sent whose outcome nobody knows: it may come true still, until another one is answered. */
bool node_pair_register_is_unsure(struct node_pair *p);
/* As it was seen last, within the last moments: this node is to be the primary. */
bool node_pair_register_is_mine(struct node_pair *p);
/* Under the pair's lock: for its status. NULL: there is none. */
json_t *node_pair_register_status(const struct node_pair *p);

struct node_pair_register_figures {
	uint64_t requests, failures, reachable;
};
/* False: there is none. From any thread. */
bool node_pair_register_figures(const struct node *node, struct node_pair_register_figures *figures);

#endif
