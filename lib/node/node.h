/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node: its ports, and for each reactor a mempool, a stack, a shard and the service between them. Everything here is
 * the control path; what the reactors run is in lib/.
 */
#ifndef STARSERVER_NODE_H
#define STARSERVER_NODE_H

#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>

#include "base/prng.h"
#include "config/config.h"
#include "control/control.h"
#include "journal/ring.h"
#include "ksock/ksock.h"
#include "net/net.h"
#include "port/port.h"
#include "reactor/reactor.h"
#include "rpc/rpc.h"
#include "service/service.h"
#include "store/store.h"

/* One reactor's own; only its thread touches it while it runs, counters apart. */
struct shard {
	struct node *node;
	unsigned index;
	int numa; /* the NUMA node of its memory; -1: any */
	struct rte_mempool *pool;
	void *arena;
	struct store *store;
	struct service *service;
	struct net *net;
	struct ksock *sockets;	 /* network.stack "kernel"; else NULL */
	struct observe *observe; /* NULL: the configuration wants none */
	struct rpc_server *rpc;
	struct reactor *reactor;
	unsigned slices;	      /* of requests in this turn */
	struct journal_ring *journal; /* NULL: none */
	uint32_t sessions_at;	      /* of those that are written to it behind an instant, ... */
	uint64_t sessions_of;	      /* ... that of this checkpoint */
	void *marks, *copies;	      /* of snapshots, or NULL */
	uint64_t gated_at, published; /* gate.c: written before replies waited; what its reader was told of, ... */
	struct node_bell *bell;	      /* ... by this, or NULL */
	bool retains;		      /* replies are: read by the ring's readers, too */
	bool disk_counts;	      /* a restart goes on from what the journal has: replies may wait for that */
	struct {		      /* a reader's; it is the journal's thread, or the pair's */
		struct reactor_message message;
		bool sent;
	} nudges[JOURNAL_READERS];
	unsigned waits_for; /* as in struct journal_gate: read by these */
	struct prng losses; /* which frames are lost on purpose */
};

/* A port, and what it was made from. */
struct node_port {
	struct port *port;
	struct config_port config;
	int claims[CONFIG_ADDRESSES_MAX]; /* sockets that hold its addresses */
	unsigned claims_count;
	bool link, link_seen; /* the watch's: as it was reported last */
	unsigned reset_looks; /* since a reset was asked for */
};

enum { NODE_WATCHED = 3 }; /* watch.c: what is logged when it happens in reactors */

struct node_checkpoint;
struct node_journal;
struct node_pair;
struct secure_tickets;
struct nic_watch;
struct node_capture;
struct node_history;

struct node {
	const struct config *config;
	uint32_t incarnation;
	bool eal_started;
	struct secure_tickets *tickets; /* NULL: the data network is open */
	size_t arena_bytes;		/* of each shard */
	pthread_mutex_t ports_change;	/* held while ports come, go, or are reset; before ports_lock */
	struct nic_watch *nics;		/* NULL: there is no NIC */
	pthread_mutex_t ports_lock;	/* protects ports from ports.c, where other threads look at them */
	struct node_port ports[CONFIG_PORTS_MAX];
	unsigned ports_count, shards_count;
	const struct object_spec
		*specs[WIRE_OBJECTS_MAX + 1];	 /* installed, by id; control threads that hold the plane */
	uint64_t specs_ns[WIRE_OBJECTS_MAX + 1]; /* since when: no reactor has executed a request on it before */
	struct node_checkpoint *checkpoint;	 /* NULL: no directory for them is configured */
	struct node_journal *journal;		 /* the same */
	struct node_pair *pair;			 /* NULL: it is in none */
	bool restored;				 /* or had nothing to restore: it has served a layout */
	uint64_t restored_rows, restored_from;	 /* and of which checkpoint; 0: of none */
	struct control_layout layout;		 /* the last that it served; holders of the plane */
	bool closed;				 /* it serves none at present; the same */
	bool stopping;				 /* main has got a signal */
	uint64_t rolls_back_to;			 /* the checkpoint that the process is to restart with; 0: it ends */
	struct star_error failure;		 /* why it cannot go on; main's once `failed` is set */
	bool failed;
	struct node_watch {
		uint64_t count, logged_us; /* as last logged, and when that was */
	} watch[NODE_WATCHED];
	struct node_capture *capture;	    /* what reactors capture of frames */
	struct node_history *history;	    /* the figures of the last hour */
	int core_claims[WIRE_REACTORS_MAX]; /* sockets that hold its cores */
	unsigned core_claims_count;
	bool nearly_full; /* the watch's: parameter memory, as last logged */
	struct shard shards[WIRE_REACTORS_MAX];
};

/* Starts the EAL, opens the ports, and starts the reactors. 0 or a negative errno; node_stop after both. */
int node_start(struct node *node, const struct config *config, struct star_error *err);
void node_stop(struct node *node);

/* Whether somebody has asked the process to end: what takes long looks from time to time. */
bool node_told_to_stop(const struct node *node);
/* Makes the process end with this message. From any thread. */
void node_fail(struct node *node, const struct star_error *why);

/* claim.c: makes a port's addresses this node's own, or says whose they are. node_disclaim after both. */
int node_claim(struct node_port *port, struct star_error *err);
void node_disclaim(struct node_port *port);

/* The same of the cores that reactors are pinned to; one that another node of this machine has is logged. */
void node_claim_cores(struct node *node);
void node_disclaim_cores(struct node *node);

/* touch.c: all of the shards' parameter memory is there when their reactors start. */
int node_touch(struct node *node, struct star_error *err);

/* touch.c: while a checkpoint is loaded, of ordinary memory what its rows will take in each shard, ahead of the
 * reactors: by a thread of its own until node_touch_end. NULL: there is nothing to do, or no thread for it. */
struct touch_ahead;
struct touch_ahead *node_touch_begin(struct node *node, uint64_t bytes, uint64_t rows);
void node_touch_end(struct touch_ahead *ahead);

/* kernel_stack.c: a shard on the kernel's sockets. The mtu is what its packet buffers are sized for. */
uint32_t node_kernel_mtu(void);
int node_shard_add_sockets(struct shard *shard, struct star_error *err);
/* Why it could not listen, as a message for the operator; err has the code. */
void node_shard_explain_sockets(const struct shard *shard, struct star_error *err);
int node_shard_reserve_port(struct shard *shard, uint16_t port, struct star_error *err);
/* For reactor_ops: poll and transmit. */
unsigned node_shard_poll_sockets(void *ctx, uint64_t now_ns);
unsigned node_shard_transmit_sockets(void *ctx, struct rte_mbuf **frames, unsigned max);

bool node_port_has(const struct node_port *port, const char *host);

/* ports.c: ports that come and go while the node runs. Results are new references. */
int node_port_add(struct node *node, const struct config_port *port, int number, json_t **result,
		  struct star_error *err);
/* For port_on_gone: ends the connections of a port whose client is gone; ctx is the node. */
void node_port_gone(void *ctx, uint16_t id);
int node_port_remove(struct node *node, const char *name, json_t **result, struct star_error *err);

/* Takes a port from all reactors; its connections end. After a failure they may have it still. */
int node_port_detach(struct node *node, struct port *port, unsigned *ended, struct star_error *err);
/* Has the reactors stand still, until node_rest_end. NULL with a message. */
struct rest;
struct rest *node_rest_begin(struct node *node, struct star_error *err);
void node_rest_end(struct rest *rest);

/* nics.c: looks after the NICs of a node that has some: links, resets, removals. */
int node_nics_begin(struct node *node, struct star_error *err);
void node_nics_end(struct node *node);

/* What main waits for beside SIGTERM, SIGINT and SIGHUP: the cluster rolls back to node.rolls_back_to. Or it only
 * begins again, with whatever it would. */
#define ROLL_BACK_SIGNAL SIGUSR1
#define NODE_BEGINS_AGAIN UINT64_MAX
void node_begin_again(struct node *node);

/* data_plane.c: no request is begun from now on, or again. A part of a last checkpoint begins, or was given up. Holders
 * of the plane. */
int node_close(struct node *node, struct star_error *err);
int node_open(struct node *node, struct star_error *err);

/* watch.c: once a second, what an administrator should read in the log. */
void node_watch(void *ctx);

/* What the control plane asks of this node. */
struct control_data_plane node_data_plane(struct node *node);
/* What clients need to choose their source ports for the data address; entries 0: nothing. */
struct steering node_steering(const struct node *node);

/* Gives a reactor a message, and waits until it was run. -ETIMEDOUT: it may still be, and must live on. */
int node_ask(struct shard *shard, struct reactor_message *message, struct star_error *err);
/* The same with a copy of a message of n bytes, which may go when it returns; what the reactor wrote into the copy is
 * there then. */
int node_ask_copy(struct shard *shard, struct reactor_message *message, size_t bytes, struct star_error *err);

/* durable.c: what control_data_plane says of these. */
int node_catalogue_durable(void *ctx, uint64_t version, struct star_error *err);
int node_rows_durable(void *ctx, struct star_error *err);

/* connections.c: what the reactors' stacks know of their connections; a new reference in *result. */
int node_connections(struct node *node, const struct control_connections *which, json_t **result,
		     struct star_error *err);

/* rows.c: rows of a table, as control_data_plane says. */
int node_row_keys(void *ctx, const struct object_spec *spec, struct control_row_keys *which, json_t *keys,
		  struct star_error *err);
int node_rows(void *ctx, const struct object_spec *spec, const uint64_t *keys, uint32_t count, json_t *records,
	      struct star_error *err);

/* status.c: the node's figures, and those of one table or variable; new references. */
json_t *node_status(struct node *node);
json_t *node_ports(struct node *node);
json_t *node_object_status(const struct node *node, const struct object_spec *spec, bool by_reactor);
/* Adds what a principal uses of a node that takes tickets. */
void node_usage(void *ctx, const char *principal, struct secure_usage *usage);

/* metrics.c: writes the family of metrics of that number, over these tables; false: there is none from it on. From any
 * thread. */
bool node_metrics(void *ctx, unsigned number, const struct object_spec *const *tables, uint32_t count,
		  const struct openmetrics_page *page);
/* The family of that number; NULL: there is none from it on. */
const struct openmetrics_family *node_metric(unsigned number);

#endif
