/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node of a pair: one of two that are one PS task. docs/availability.rst says what is promised, and has the states.
 * One thread does what a node's role asks for: it finds out who serves, sends what changes to a standby, or takes and
 * applies it. Another one answers the other node's questions; the control plane's asks for a promotion.
 */
#ifndef STARSERVER_PAIR_H
#define STARSERVER_PAIR_H

#include "journal/ring.h"
#include "node/gate.h"
#include "node/node.h"
#include "node/snapshot.h"
#include "pair/link.h"
#include "pair/receiver.h"

/* What a primary or a standby is doing, within its role. */
enum node_pair_state {
	NODE_PAIR_BEGINS,
	NODE_PAIR_SOLO,	   /* primary: there is no standby */
	NODE_PAIR_SYNCING, /* the standby gets what the primary has */
	NODE_PAIR_PAIRED,  /* it has it, and follows */
	NODE_PAIR_LOST,	   /* the connection is gone: whoever has all may have to go on alone */
};

/* What a primary tells its reactors. */
enum node_pair_word {
	NODE_PAIR_ATTACH,  /* each has a stream from now on */
	NODE_PAIR_DETACH,  /* it has none, and replies wait for nothing */
	NODE_PAIR_SETTLE,  /* a mark behind all that there is; so: there is one */
	NODE_PAIR_GATE,	   /* replies wait for the standby */
	NODE_PAIR_COVERED, /* so: it has all that replies have told of before that */
	NODE_PAIR_LEAVE,   /* nobody is taken, and what is not begun is not answered: rpc_server_leave */
};

/* What a promotion did. */
struct node_pair_promotion {
	bool asked, done;
	bool found;   /* nobody has asked: the standby does not hear of its primary */
	bool deposed; /* the other node has answered that it serves no more */
	bool whole;   /* and all that it had has come */
	bool back;    /* it had closed for the other one, and serves again with all that it had */
	uint64_t waited_ms;
	int status;
	struct star_error err;
};

struct node_pair {
	struct node *node;
	struct control *control;
	struct secure_context *context; /* NULL: in clear */
	int listen_fd;
	pthread_t thread, listener;
	bool threaded, listening;
	struct journal_ring *rings[WIRE_REACTORS_MAX];
	bool shares_rings; /* they are the journal's, too, and its */
	struct node_snapshot snapshots[WIRE_REACTORS_MAX];
	uint32_t own_incarnation;
	bool was_standby; /* before the process began */
	/* pair.json: several threads write it, and what one has written is not undone by another one that knew less. */
	struct {
		pthread_mutex_t lock;
		enum pair_role role;
		uint64_t generation;
		bool yielded; /* the other node serves: it says "primary" no more before the process begins again */
	} file;
	/* What its journal has is of this node as the primary, and it has been no standby since: remembered. */
	bool owns_journal;
	bool inherits;			/* it begins to serve, and the other one has not served since it did */
	struct node_pair_register *reg; /* in etcd; NULL: none */
	struct node_bell bell;		/* the primary's thread sleeps by it */

	pthread_mutex_t lock; /* protects what follows */
	pthread_cond_t changed;
	bool stopping, again;
	enum pair_role role;
	enum node_pair_state state;
	uint64_t generation;
	char peer_control[PAIR_ADDRESS_MAX]; /* as it has said */
	char why[160];			     /* there is no standby, or this one is not well; "": all is */
	/* of a primary */
	struct pair_link *joined; /* a standby that waits to be served */
	struct pair_hello joins;
	uint64_t deposed_by; /* the generation that is to take over; 0: none */
	bool closed, closed_whole;
	bool takes_back;	  /* its own place, for which the other one has come to nothing */
	bool waits;		  /* replies do, for the standby; written by the primary's thread */
	uint64_t catalogue_there; /* the version of the catalogue that the standby has */
	/* of a standby */
	bool promotable;
	uint64_t heard_us; /* when the last ping came; 0: never */
	uint32_t primary_incarnation, primary_epoch, primary_lease_ms;
	bool primary_sums, primary_same; /* sums were opened there; it has the same reactors */
	struct node_pair_promotion promotion;
	bool promotion_read; /* by the operator who has asked, if one has */
	bool deposing;	     /* the primary is being asked to stop for him */
	/* figures */
	uint64_t lag_bytes, lag_us, bytes, rows, syncs, resumed_us;
};

/* Before the reactors run: what is remembered, and the rings. After both node_pair_close, when they have ended. */
int node_pair_open(struct node *node, struct star_error *err);
void node_pair_close(struct node *node);
/* With the control plane: the threads begin; and end, before it does. */
int node_pair_begin(struct node *node, struct control *control, struct star_error *err);
void node_pair_end(struct node *node);

/* The administrator's word; *result says what was done. */
int node_pair_promote(struct node *node, json_t **result, struct star_error *err);

/* Whether the standby cannot have taken its place: there is none that has all, or it has said something within the
 * lease. Of a primary, from any thread. */
bool node_pair_leads(const struct node *node);

/* pair_file.c. Of a node that is in no pair both are so. Whether its journal is what it, or nobody, goes on from; and
 * whether workers may go on with it as if nothing had happened. */
bool node_pair_owned_journal(const struct node *node);
bool node_pair_inherits(const struct node *node);
/* A life of the journal has begun, with all that the node has: remembers that. */
int node_pair_owns_journal(struct node *node, struct star_error *err);

/* pair_status.c. NULL: it is in none. */
json_t *node_pair_status(const struct node *node);
/* The generation that takes over from it; 0: none does. */
uint64_t node_pair_deposed_by(struct node_pair *p);

/* ---- of the files pair*.c ---- */

/* pair_file.c: what this node was, beyond a restart: generation 0: nothing is known. */
int node_pair_remember(struct node_pair *p, enum pair_role role, uint64_t generation, struct star_error *err);
/* Another one serves, under that generation: from now on it cannot be remembered as the primary any more. */
int node_pair_remember_yielded(struct node_pair *p, uint64_t generation, struct star_error *err);
int node_pair_recall(struct node_pair *p, enum pair_role *role, uint64_t *generation, struct star_error *err);

/* pair_listen.c: the thread that answers. */
void *node_pair_listen(void *arg);

/* pair.c */
bool node_pair_stops(struct node_pair *p);
void node_pair_is(struct node_pair *p, enum pair_role role, enum node_pair_state state, const char *why);
/* Waits for so long, or until something has changed. */
void node_pair_pause(struct node_pair *p, uint32_t ms);
/* Of cluster.ps; 0: there is one PS task. */
uint32_t node_pair_cluster_mark(const struct config *config);
struct pair_hello node_pair_hello(struct node_pair *p, enum pair_intent intent);
/* Connects to the other node and says a hello. *link, where it is not NULL, is left open; the answer's status is the
 * result. -ECONNREFUSED: no process is there. */
int node_pair_ask(struct node_pair *p, const struct pair_hello *hello, uint32_t ms, struct pair_answer *answer,
		  struct pair_link **link, struct star_error *err);
/* Another one serves, under that generation, or has all: the process begins again, as its standby. */
void node_pair_yield(struct node_pair *p, uint64_t generation);
/* It is the primary from now on, as node_pair_remember has it already. */
int node_pair_lead(struct node_pair *p, uint64_t generation, bool begins, struct star_error *err);
/* What node_pair_promote waits for is over. */
bool node_pair_is_promoted(struct node_pair *p);
void node_pair_end_promotion(struct node_pair *p, int status, const struct star_error *err);

/* pair_tell.c: all reactors, one after the other; true: of all of them it is so. */
bool node_pair_tell(struct node_pair *p, enum node_pair_word word);
/* The workers of a node that leaves its place are hung up on, as soon as what it has for them is sent, and that is not
 * waited for for long. */
void node_pair_hang_up(struct node_pair *p);

/* pair_primary.c: serves, until it stops or is deposed. */
void node_pair_primary(struct node_pair *p);
/* It serves without a standby from now on, unless it is deposed. */
void node_pair_go_alone(struct node_pair *p, const char *why);
/* pair_hold.c: it has closed for the other node, and holds what it has until that one says that it serves; or it serves
 * again. Returns then, or when it stops. */
void node_pair_hold(struct node_pair *p);
/* pair_standby.c: follows, until it stops, is promoted, or has to begin again. */
void node_pair_standby(struct node_pair *p);

#endif
