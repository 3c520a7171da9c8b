/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node: its ports, and for each reactor a mempool, a stack, a shard and the service that connects them. Everything
 * here is the control path; reactors run the code of the other libraries.
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

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

/* The state of one reactor; while it runs, only its thread touches it, except for counters. */
struct shard {
	struct node *node;
	unsigned index;
	int numa; /* the NUMA node of its memory; -1: any */
	struct rte_mempool *pool;
	void *arena;
	struct store *store;
	struct service *service;
	struct net *net;
	struct ksock *sockets;	 /* network.stack "kernel"; otherwise NULL */
	struct observe *observe; /* NULL: not configured */
	struct rpc_server *rpc;
	struct reactor *reactor;
	unsigned slices;	      /* slices of requests executed in this turn */
	struct journal_ring *journal; /* NULL: none */
	uint32_t sessions_at;	      /* position among the sessions that are written to it after an instant, ... */
	uint64_t sessions_of;	      /* ... which is that of this checkpoint */
	void *marks, *copies;	      /* for snapshots, or NULL */
	/* gate.c: what was written before replies waited; what its reader was notified of, ... */
	uint64_t gated_at, published;
	struct node_bell *bell; /* ... through this, or NULL */
	bool retains;		/* replies are retained: also read by the ring's readers */
	bool disk_counts;	/* a restart would use the journal: replies may wait for it */
	bool disk_lacks; /* it does not have everything yet that replies reported before; read by other threads */
	struct {	 /* a reader's, that is, of the thread of the journal or of the pair */
		struct reactor_message message;
		bool sent;
	} nudges[JOURNAL_READERS];
	unsigned waits_for; /* as in struct journal_gate; read by these threads */
	struct prng losses; /* decides which frames are dropped on purpose */
};

/* A port, and what it was created from. */
struct node_port {
	struct port *port;
	struct config_port config;
	int claims[CONFIG_ADDRESSES_MAX]; /* sockets that hold its addresses */
	unsigned claims_count;
	bool link, link_seen, deleted; /* the watch's: as last reported */
	unsigned reset_looks;	       /* number of checks since a reset was requested */
};

enum { NODE_WATCHED = 3 }; /* watch.c: events in reactors that are logged */

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
	size_t arena_bytes;		/* per shard */
	pthread_mutex_t ports_change;	/* held while ports are added, removed or reset; taken before ports_lock */
	struct nic_watch *nics;		/* NULL: there is no NIC */
	pthread_mutex_t ports_lock;	/* protects ports when other threads than ports.c read them */
	struct node_port ports[CONFIG_PORTS_MAX];
	unsigned ports_count, shards_count;
	const struct object_spec
		*specs[WIRE_OBJECTS_MAX + 1]; /* installed ones, by id; for control threads that hold the plane */
	/* since when each is installed: no reactor has executed a request on it before */
	uint64_t specs_ns[WIRE_OBJECTS_MAX + 1];
	struct node_checkpoint *checkpoint;    /* NULL: no directory is configured */
	struct node_journal *journal;	       /* the same */
	struct node_pair *pair;		       /* NULL: the node is not in a pair */
	bool restored;			       /* restored, or there was nothing to restore: it has served a layout */
	uint64_t restored_rows, restored_from; /* and from which checkpoint; 0: none */
	struct control_layout layout;	       /* the last that it served; for holders of the plane */
	bool closed;			       /* it serves none at present; for holders of the plane */
	bool stopping;			       /* main has received a signal */
	uint64_t rolls_back_to;		       /* the checkpoint with which the process is to restart; 0: it ends */
	struct star_error failure;	       /* why it cannot continue; main's once `failed` is set */
	bool failed;
	struct node_watch {
		uint64_t count, logged_us; /* as last logged, and when */
	} watch[NODE_WATCHED];
	struct node_capture *capture;	    /* frames that reactors capture */
	struct node_history *history;	    /* the figures of the last hour */
	int core_claims[WIRE_REACTORS_MAX]; /* sockets that claim its cores */
	unsigned core_claims_count;
	bool nearly_full; /* the watch's: parameter memory was, when last logged */
	struct shard shards[WIRE_REACTORS_MAX];
};

/* Starts the EAL, opens the ports, and starts the reactors. 0 or a negative errno; call node_stop in both cases. */
int node_start(struct node *node, const struct config *config, struct star_error *err);
void node_stop(struct node *node);

/* Whether the process was asked to end: long operations check this from time to time. */
bool node_told_to_stop(const struct node *node);
/* Makes the process end with this message. From any thread. */
void node_fail(struct node *node, const struct star_error *why);

/* claim.c: claims a port's addresses for this node, or reports who has them. node_disclaim in both cases. */
int node_claim(struct node_port *port, struct star_error *err);
void node_disclaim(struct node_port *port);

/* The same for the cores that reactors are pinned to; if another node of this machine has one, that is logged. */
void node_claim_cores(struct node *node);
void node_disclaim_cores(struct node *node);

/* touch.c: touches all of the shards' parameter memory before their reactors start. */
int node_touch(struct node *node, struct star_error *err);

/* touch.c: while a checkpoint is loaded into ordinary memory, a thread touches what its rows will take in each shard,
 * ahead of the reactors, until node_touch_end. NULL: there is nothing to do, or no thread for it. */
struct touch_ahead;
struct touch_ahead *node_touch_begin(struct node *node, uint64_t bytes, uint64_t rows);
void node_touch_end(struct touch_ahead *ahead);

/* kernel_stack.c: a shard on the kernel's sockets. Its packet buffers are sized for this mtu. */
uint32_t node_kernel_mtu(void);
int node_shard_add_sockets(struct shard *shard, struct star_error *err);
/* Packet buffers in use, about: their number changes meanwhile, and so do the pool's caches. Those that only wait for
 * data from the kernel are not counted. Any thread. */
unsigned node_mbufs_used(const struct shard *shard);
/* Logs how a reactor's sockets are used. */
void node_tell_sockets(const struct shard *shard);
/* Explains to the operator why it could not listen; err has the code. */
void node_shard_explain_sockets(const struct shard *shard, struct star_error *err);
int node_shard_reserve_port(struct shard *shard, uint16_t port, struct star_error *err);
/* For reactor_ops: poll and transmit. */
unsigned node_shard_poll_sockets(void *ctx, uint64_t now_ns);
void node_shard_sleep(void *ctx, int wake_fd, uint64_t ns);
unsigned node_shard_transmit_sockets(void *ctx, struct rte_mbuf **frames, unsigned max);

bool node_port_has(const struct node_port *port, const char *host);

/* ports.c: adds and removes ports while the node runs. Results are new references. */
int node_port_add(struct node *node, const struct config_port *port, int number, json_t **result,
		  struct star_error *err);
/* For port_on_gone: ends the connections of a port whose client is gone; ctx is the node. */
void node_port_gone(void *ctx, uint16_t id);
int node_port_remove(struct node *node, const char *name, json_t **result, struct star_error *err);

/* Removes a port from all reactors, and ends its connections. After a failure they may still have it. */
int node_port_detach(struct node *node, struct port *port, unsigned *ended, struct star_error *err);
/* Pauses the reactors until node_rest_end. NULL with a message. */
struct rest;
struct rest *node_rest_begin(struct node *node, struct star_error *err);
void node_rest_end(struct rest *rest);

/* nics.c: monitors the NICs of a node, if it has some: links, resets, removals. */
int node_nics_begin(struct node *node, struct star_error *err);
void node_nics_end(struct node *node);

/* The signal for main, besides SIGTERM, SIGINT and SIGHUP, when the cluster rolls back to node.rolls_back_to; or when
 * the process only restarts (NODE_BEGINS_AGAIN). */
#define ROLL_BACK_SIGNAL SIGUSR1
#define NODE_BEGINS_AGAIN UINT64_MAX
void node_begin_again(struct node *node);

/* data_plane.c: starts no more requests, or starts them again: the part of a last checkpoint begins, or was abandoned.
 * The caller holds the plane. */
int node_close(struct node *node, struct star_error *err);
int node_open(struct node *node, struct star_error *err);

/* watch.c: logs once a second what an administrator should know. */
void node_watch(void *ctx);

/* The control plane's access to this node. */
struct control_data_plane node_data_plane(struct node *node);
/* What clients need to choose their source ports for the data address; entries 0: nothing. */
struct steering node_steering(const struct node *node);

/* Sends a message to a reactor, and waits until it was run. -ETIMEDOUT: it may still be run, and must stay valid. */
int node_ask(struct shard *shard, struct reactor_message *message, struct star_error *err);
/* The same with a copy of a message of n bytes, which need not outlive the call; what the reactor wrote into the copy
 * is copied back. */
int node_ask_copy(struct shard *shard, struct reactor_message *message, size_t bytes, struct star_error *err);

/* durable.c: as in control_data_plane. */
int node_catalogue_durable(void *ctx, uint64_t version, struct star_error *err);
int node_rows_durable(void *ctx, struct star_error *err);

/* connections.c: the connections of the reactors' stacks; a new reference in *result. */
int node_connections(struct node *node, const struct control_connections *which, json_t **result,
		     struct star_error *err);

/* rows.c: rows of a table, as in control_data_plane. */
int node_row_keys(void *ctx, const struct object_spec *spec, struct control_row_keys *which, json_t *keys,
		  struct star_error *err);
int node_rows(void *ctx, const struct object_spec *spec, const uint64_t *keys, uint32_t count, json_t *records,
	      struct star_error *err);

/* status.c: the node's figures, and those of one table or variable; new references. */
json_t *node_status(struct node *node);
json_t *node_ports(struct node *node);
json_t *node_object_status(const struct node *node, const struct object_spec *spec, bool by_reactor);
/* Adds a principal's use of a node that accepts tickets. */
void node_usage(void *ctx, const char *principal, struct secure_usage *usage);

/* metrics.c: writes the family of metrics with that number, over these tables; false: there are no more. From any
 * thread. */
bool node_metrics(void *ctx, unsigned number, const struct object_spec *const *tables, uint32_t count,
		  const struct openmetrics_page *page);
/* The family with that number; NULL: there are no more. */
const struct openmetrics_family *node_metric(unsigned number);

#endif
