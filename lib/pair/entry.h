/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What stands in the register that a pair has in etcd: who is the primary, whether the other node may take its place,
 * and the generation; and which changes of it are allowed to whom. docs/availability-design.rst says why. Pure
 * functions.
 */
#ifndef PAIR_ENTRY_H
#define PAIR_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "star_error.h"

enum { PAIR_NAME_MAX = 512, PAIR_ENTRY_MAX = 1024 };

struct pair_entry {
	bool there;  /* false: the register is empty */
	bool mine;   /* this node is the primary; else the other one of the pair */
	bool paired; /* the other node may take its place; else it serves alone (solo) */
	bool taking; /* or it has claimed that place and never served: the one before it may take it back */
	uint64_t generation;
};

/* Why a node wants to change it. */
enum pair_claim {
	PAIR_CLAIM_NOTHING, /* it only reads */
	PAIR_CLAIM_ALONE,   /* a primary that has lost its standby, which may be about to take over, is to go on */
	PAIR_CLAIM_KEEPS,   /* a primary serves, and the other node can take nothing over */
	PAIR_CLAIM_PAIRED,  /* a primary's standby has all */
	PAIR_CLAIM_VOIDS,   /* nothing is to change, but what was claimed before is to be void */
	PAIR_CLAIM_BEGINS,  /* a node that has begun, and holds what is to be served, is to serve */
	PAIR_CLAIM_BACK,    /* a primary that has closed for the other node is to serve after all */
	PAIR_CLAIM_AGREED,  /* a standby that has all is to serve: the primary has said so itself */
	PAIR_CLAIM_TOLD,    /* the same: the operator has said so */
	PAIR_CLAIM_FOUND,   /* the same: it does not hear of its primary */
	PAIR_CLAIM_SERVES,  /* and after one of these three: it begins to serve, and nobody takes that back */
};

/* Of the two nodes' names, own and peer. 0, or -EBADMSG: it is none, or -EPERM: it is another pair's. */
int pair_entry_read(const char *text, size_t bytes, const char *own, const char *peer, struct pair_entry *entry,
		    struct star_error *err);
/* As the register has it. */
const char *pair_entry_mode(const struct pair_entry *entry);
/* As a text for the register. `write`: no other write has it. 0, or -ENAMETOOLONG. */
int pair_entry_print(const struct pair_entry *entry, const char *own, const char *peer, uint64_t write,
		     char text[static PAIR_ENTRY_MAX]);

/*
 * What the register is to have, for a claim of a node that knows this generation. 0: *next may be swapped for *now.
 * -ESTALE: the other node is the primary, under a later generation: this one is to become its standby. -ENOENT: the
 * register is empty, and nothing says that the other node has not taken over meanwhile. -EPERM: it must not.
 */
int pair_entry_next(const struct pair_entry *now, enum pair_claim claim, uint64_t generation, struct pair_entry *next,
		    struct star_error *err);

#endif
