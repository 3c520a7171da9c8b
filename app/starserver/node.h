/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node: its ports, and for each reactor a mempool, a stack, a shard and the service between them. Everything here is the
 * control path; what the reactors run is in lib/.
 */
#ifndef STARSERVER_NODE_H
#define STARSERVER_NODE_H

#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>

#include "base/prng.h"
#include "config/config.h"
#include "control/control.h"
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
	struct rte_mempool *pool;
	void *arena;
	struct store *store;
	struct service *service;
	struct net *net;
	struct rpc_server *rpc;
	struct reactor *reactor;
	unsigned slices;      /* of requests in this turn */
	void *marks, *copies; /* of snapshots, or NULL */
	struct prng losses;   /* which frames are lost on purpose */
};

/* A port, and what it was made from. */
struct node_port {
	struct port *port;
	struct config_port config;
	int claims[CONFIG_ADDRESSES_MAX]; /* sockets that hold its addresses */
	unsigned claims_count;
};

struct node_checkpoint;

struct node {
	const struct config *config;
	uint32_t incarnation;
	bool eal_started;
	size_t arena_bytes;	    /* of each shard */
	pthread_mutex_t ports_lock; /* protects ports from ports.c, where other threads look at them */
	struct node_port ports[CONFIG_PORTS_MAX];
	unsigned ports_count, shards_count;
	const struct object_spec
		*specs[WIRE_OBJECTS_MAX + 1]; /* installed, by id; control threads that hold the plane */
	struct node_checkpoint *checkpoint;   /* NULL: no directory for them is configured */
	bool restored;			      /* or had nothing to restore: it has served a layout */
	bool stopping;			      /* main has got a signal */
	uint64_t goes_back_to;		      /* the checkpoint that the process is to begin anew with; 0: it ends */
	struct star_error failure;	      /* why it cannot go on; main's once `failed` is set */
	bool failed;
	struct shard shards[WIRE_REACTORS_MAX];
};

/* Starts the EAL, opens the ports, and starts the reactors. 0 or a negative errno; node_stop after both. */
int node_start(struct node *node, const struct config *config, struct star_error *err);
void node_stop(struct node *node);

/* Whether somebody has asked the process to end: what takes long looks from time to time. */
bool node_told_to_stop(const struct node *node);
/* Makes the process end with this sentence. From any thread. */
void node_fail(struct node *node, const struct star_error *why);

/* claim.c: makes a port's addresses this node's own, or says whose they are. node_disclaim after both. */
int node_claim(struct node_port *port, struct star_error *err);
void node_disclaim(struct node_port *port);

/* touch.c: all of the shards' parameter memory is there when their reactors start. */
int node_touch(struct node *node, struct star_error *err);

/* touch.c: while a checkpoint is loaded, of ordinary memory what its rows will take in each shard, ahead of the reactors: by a thread
 * of its own until node_touch_end. NULL: there is nothing to do, or no thread for it. */
struct touch_ahead;
struct touch_ahead *node_touch_begin(struct node *node, uint64_t bytes, uint64_t rows);
void node_touch_end(struct touch_ahead *ahead);

/* What a stack is told of a port. */
struct net_interface_options node_interface(const struct node_port *port);
bool node_port_has(const struct node_port *port, const char *host);

/* ports.c: ports that come and go while the node runs. Results are new references. */
int node_port_add(struct node *node, const struct config_port *port, int number, json_t **result,
		  struct star_error *err);
/* For port_on_gone: ends the connections of a port whose client is gone; ctx is the node. */
void node_port_gone(void *ctx, uint16_t id);
int node_port_remove(struct node *node, const char *name, json_t **result, struct star_error *err);

/* What main waits for beside SIGTERM and SIGINT: the cluster goes back to node.goes_back_to. */
#define GO_BACK_SIGNAL SIGUSR1

/* What the control plane asks of this node. */
struct control_data_plane node_data_plane(struct node *node);
/* What clients need to choose their source ports for the data address; entries 0: nothing. */
struct steering node_steering(const struct node *node);

/* Gives a reactor a message, and waits until it was run. -ETIMEDOUT: it may still be, and must live on. */
int node_ask(struct shard *shard, struct reactor_message *message, struct star_error *err);
/* The same with a copy of a message of so many bytes, which may go when it returns; what the reactor wrote into the copy is there then. */
int node_ask_copy(struct shard *shard, struct reactor_message *message, size_t bytes, struct star_error *err);

/* connections.c: what the reactors' stacks know of their connections; a new reference in *result. */
int node_connections(struct node *node, const struct control_connections *which, json_t **result,
		     struct star_error *err);

/* status.c: the node's figures, and those of one table or variable; new references. */
json_t *node_status(struct node *node);
json_t *node_ports(struct node *node);
json_t *node_object_status(const struct node *node, const struct object_spec *spec);

#endif
