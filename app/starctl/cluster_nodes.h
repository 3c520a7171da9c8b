/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries all nodes of a running cluster, one after the other. Single-threaded. */
#ifndef STARCTL_CLUSTER_NODES_H
#define STARCTL_CLUSTER_NODES_H

#include "app/starctl/starctl.h"
#include "jsonrpc/jsonrpc.h"

enum { CLUSTER_CONTROL = 300 };
struct cluster_one {
	char name[32];		       /* "ps:1" */
	char control[CLUSTER_CONTROL]; /* its address; "": unknown */
	struct jsonrpc_client *client; /* NULL: not connected, ... */
	struct star_error why;	       /* ... and why */
	bool tried;		       /* connecting was tried; PS task 0 is connected from the start */
};

struct cluster {
	unsigned count;
	struct cluster_one *nodes;
};

/* Opens the cluster of the node that the invocation names, or only that node (whole: false). A node is connected when
 * it is first queried; if it cannot be reached, it has no client after that. 0, or a negative errno with a message if
 * no node can be reached. */
int cluster_open(struct cluster *cluster, const struct invocation *invocation, bool whole, struct star_error *err);
void cluster_close(struct cluster *cluster);

/* Calls a method of a node. Returns a new reference, or NULL with a message in its `why`. Takes the reference of
 * params. */
json_t *cluster_ask(struct cluster *cluster, unsigned node, const char *method, json_t *params);

/* The node does not answer any more: closes its connection. And connects to it again, within timeout_us. */
void cluster_lose(struct cluster *cluster, unsigned node);
void cluster_again(struct cluster *cluster, unsigned node, uint64_t timeout_us);

/* Reports on invocation->errors which nodes did not answer, and returns their number. */
unsigned cluster_complain(const struct cluster *cluster, const struct invocation *invocation);

/* nodes.c: the status of PS task 0, which knows all nodes. *client may be replaced by a connection to another node. */
json_t *cluster_ask_leader(struct jsonrpc_client **client, struct star_error *err);

#endif
