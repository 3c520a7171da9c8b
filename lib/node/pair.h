/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node of a pair, that is, one of two nodes that form one PS task. docs/availability.rst says what is promised, and
 * has the states; docs/availability-design.rst says how two primaries are excluded. One thread executes the node's
 * role: it finds out which node serves, sends changes to a standby, or receives and applies them. Another thread
 * answers requests of the other node; those of the control plane request promotions.
 */
#ifndef NODE_PAIR_H
#define NODE_PAIR_H

#include "journal/ring.h"
#include "node/gate.h"
#include "node/node.h"
#include "node/snapshot.h"
#include "pair/link.h"
#include "pair/receiver.h"

/* The state of a primary or a standby, within its role. */
enum node_pair_state {
	NODE_PAIR_BEGINS,
	NODE_PAIR_SOLO,	   /* primary without a standby */
	NODE_PAIR_SYNCING, /* the standby receives the primary's state */
	NODE_PAIR_PAIRED,  /* the standby has everything, and follows */
	NODE_PAIR_LOST,	   /* the connection is lost: a node that has everything may have to continue alone */
};

/* A primary's orders to its reactors. */
enum node_pair_word {
	NODE_PAIR_ATTACH,  /* each reactor has a stream from now on */
	NODE_PAIR_DETACH,  /* it has none, and replies wait for nothing */
	NODE_PAIR_SETTLE,  /* write a mark after everything so far; true: it is there */
	NODE_PAIR_GATE,	   /* replies wait for the standby */
	NODE_PAIR_COVERED, /* true: the standby has everything that replies have reported before that */
	NODE_PAIR_LEAVE,   /* accept no connections, and do not answer requests that have not begun: rpc_server_leave */
};

/* The result of a promotion. */
struct node_pair_promotion {
	bool asked, done;
	bool found;   /* not requested by anyone: the standby does not hear from its primary */
	bool deposed; /* the other node has answered that it no longer serves */
	bool whole;   /* and everything that it had was received */
	bool back;    /* this node had closed for the other one, and serves again with everything that it had */
	uint64_t waited_ms;
	int status;
	struct star_error err;
};

struct node_pair {
	struct node *node;
	struct control *control;
	struct secure_context *context; /* NULL: in clear */
	int listen_fd;
	int folder; /* standby.directory, locked */
	pthread_t thread, listener;
	bool threaded, listening;
	struct journal_ring *rings[WIRE_REACTORS_MAX];
	bool shares_rings; /* the rings are those of the journal */
	struct node_snapshot snapshots[WIRE_REACTORS_MAX];
	uint32_t own_incarnation;
	bool was_standby; /* before the process started */
	/* pair.json: several threads write it, and a thread with older information must not overwrite newer
	 * information. */
	struct {
		pthread_mutex_t lock;
		enum pair_role role;
		uint64_t generation;
		/* the other node serves: the role in the file does not become "primary" again until the process
		 * restarts */
		bool yielded;
	} file;
	/* Whether the journal is that of this node as the primary, and the node has not been a standby since; recorded
	 * in the file. */
	bool owns_journal;
	bool inherits;			/* it begins to serve, and the other node has not served since this one did */
	struct node_pair_register *reg; /* in etcd; NULL: there is none */
	struct node_bell bell;		/* the primary's thread waits for it */

	pthread_mutex_t lock; /* protects what follows */
	pthread_cond_t changed;
	bool stopping, again;
	enum pair_role role;
	enum node_pair_state state;
	uint64_t generation;
	char peer_control[PAIR_ADDRESS_MAX]; /* as the other node has reported */
	char why[PAIR_TEXT_MAX + 64];	     /* why there is no standby, or this one is not healthy; "": all is well */
	/* for a primary */
	struct pair_link *joined; /* a standby that waits for its state */
	struct pair_hello joins;
	char cannot[PAIR_TEXT_MAX]; /* why a standby could not follow, and has not since; "": none */
	uint64_t cannot_us;	    /* when it said so */
	uint64_t deposed_by;	    /* the generation that takes over; 0: none */
	bool closed, closed_whole;
	bool takes_back;	  /* its own place, because the other node has failed to take it */
	bool waits;		  /* replies wait for the standby; written by the primary's thread */
	uint64_t catalogue_there; /* version of the catalogue that the standby has */
	/* for a standby */
	bool promotable;
	uint64_t heard_us; /* when the last ping arrived; 0: never */
	uint32_t primary_incarnation, primary_epoch, primary_lease_ms;
	bool primary_sums, primary_same; /* sums were opened on the primary; it has the same number of reactors */
	struct node_pair_promotion promotion;
	bool promotion_read; /* the operator's request, if there was one, has been answered */
	bool deposing;	     /* the primary is being asked to stop for the operator */
	/* figures */
	uint64_t lag_bytes, lag_us, bytes, rows, syncs, resumed_us;
};

/* Before the reactors run: reads the recorded state, and creates the rings. Afterwards call node_pair_close, when the
 * reactors have ended. */
int node_pair_open(struct node *node, struct star_error *err);
void node_pair_close(struct node *node);
/* Starts the threads, with the control plane running; and ends them, before it ends. */
int node_pair_begin(struct node *node, struct control *control, struct star_error *err);
void node_pair_end(struct node *node);

/* An operator's request; *result says what was done. */
int node_pair_promote(struct node *node, json_t **result, struct star_error *err);

/* Whether the standby cannot have taken this node's place: there is none that has everything, or it has answered within
 * the lease. For a primary, from any thread. */
bool node_pair_leads(const struct node *node);

/* pair_file.c. For a node that is not in a pair both are true: whether the node may start from its journal; and whether
 * workers may continue with it as if nothing had happened. */
bool node_pair_owned_journal(const struct node *node);
bool node_pair_inherits(const struct node *node);
/* A life of the journal has begun that covers everything that the node has: records that. */
int node_pair_owns_journal(struct node *node, struct star_error *err);

/* pair_status.c. NULL: the node is not in a pair. */
json_t *node_pair_status(const struct node *node);
/* Whether the node has closed, or is about to, for the other node of the pair. Not under the pair's lock. */
bool node_pair_is_closed(const struct node *node);
/* The generation that takes over from this node; 0: none does. */
uint64_t node_pair_deposed_by(struct node_pair *p);

/* ---- shared by the files pair*.c ---- */

/* pair_file.c: records this node's role across restarts; generation 0: nothing is known. */
int node_pair_remember(struct node_pair *p, enum pair_role role, uint64_t generation, struct star_error *err);
/* The other node serves, with this generation: from now on this node cannot be recorded as the primary. */
int node_pair_remember_yielded(struct node_pair *p, uint64_t generation, struct star_error *err);
int node_pair_recall(struct node_pair *p, enum pair_role *role, uint64_t *generation, struct star_error *err);

/* pair_listen.c: the thread that answers the other node. */
void *node_pair_listen(void *arg);

/* pair.c */
bool node_pair_stops(struct node_pair *p);
bool node_pair_has_joined(struct node_pair *p); /* a standby waits to be served */
/* Until when reactors may change something (0: without a lease); and whether replies wait for the standby. */
void node_pair_set_lease(struct node_pair *p, uint64_t until_ns);
void node_pair_set_waits(struct node_pair *p, bool waits);
void node_pair_is(struct node_pair *p, enum pair_role role, enum node_pair_state state, const char *why);
/* Of a primary that serves alone: why, as it is known now. */
void node_pair_is_alone_because(struct node_pair *p, const char *why);
/* Why there is no standby: as one has said since then that it cannot follow; else `why`, behind how it begins. */
void node_pair_say_why(struct node_pair *p, uint64_t since_us, const char *begins, const char *why, char *text,
		       size_t bytes);
/* What came could not be applied: the primary says so too, where there may be nobody who looks at this node. */
void node_pair_tell_cannot(struct node_pair *p, const char *why);
/* Waits for ms, or until something has changed. */
void node_pair_pause(struct node_pair *p, uint32_t ms);
/* A checksum of cluster.ps; 0: there is one PS task. */
uint32_t node_pair_cluster_mark(const struct config *config);
struct pair_hello node_pair_hello(struct node_pair *p, enum pair_intent intent);
/* Connects to the other node and sends a hello. *link is left open, unless link is NULL; the result is the status in
 * the answer. -ECONNREFUSED: no process is listening there. */
int node_pair_ask(struct node_pair *p, const struct pair_hello *hello, uint32_t ms, struct pair_answer *answer,
		  struct pair_link **link, struct star_error *err);
/* The other node serves, with this generation: restarts the process, as its standby. */
void node_pair_yield(struct node_pair *p, uint64_t generation);
/* Takes the directory of checkpoints for this node, if it is to see to them. Waits for its disk. */
void node_pair_own_checkpoints(struct node_pair *p);
/* Makes this node the primary, as node_pair_remember has already recorded. */
int node_pair_lead(struct node_pair *p, uint64_t generation, bool begins, struct star_error *err);
/* Whether an operator, or the other node, has requested a promotion; and ends it, with its status. */
bool node_pair_is_promoted(struct node_pair *p);
void node_pair_end_promotion(struct node_pair *p, int status, const struct star_error *err);

/* pair_tell.c: gives an order to all reactors, one after the other; true: it is so on all of them. */
bool node_pair_tell(struct node_pair *p, enum node_pair_word word);
/* Closes the connections of the workers of a node that gives up its place, as soon as what it has for them is sent,
 * after a short wait at most. */
void node_pair_hang_up(struct node_pair *p);

/* pair_primary.c: serves until it stops or is deposed. */
void node_pair_primary(struct node_pair *p);
/* pair_alone.c: serves without a standby from now on, unless it is deposed. */
void node_pair_go_alone(struct node_pair *p, const char *why);
/* The same, but of a standby that had everything: as soon as that one certainly does not take over. */
void node_pair_lose_standby(struct node_pair *p, bool had_all, const char *why);
/* pair_hold.c: this node has closed for the other one, and keeps its state until that one says that it serves, or
 * serves again itself. Returns then, or when it stops. */
void node_pair_hold(struct node_pair *p);
/* pair_standby.c: follows until it stops, is promoted, or has to restart. */
void node_pair_standby(struct node_pair *p);

#endif
