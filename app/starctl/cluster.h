/* SPDX-License-Identifier: BSD-3-Clause */
/* All nodes of a running cluster, asked one after the other. Single-threaded. */
#ifndef STARCTL_CLUSTER_H
#define STARCTL_CLUSTER_H

#include "app/starctl/starctl.h"
#include "jsonrpc/jsonrpc.h"

enum { CLUSTER_CONTROL = 300 };
struct cluster_one {
	char name[32];		       /* "ps:1" */
	char control[CLUSTER_CONTROL]; /* its address; "": it is not known */
	struct jsonrpc_client *client; /* NULL: it is not there, */
	struct star_error why;	       /* and why */
	bool tried;		       /* to connect to it; PS task 0 is there from the beginning */
};

struct cluster {
	unsigned count;
	struct cluster_one *nodes;
};

/* The nodes of the cluster of the node that the invocation names, or that one alone (whole: false). A node is
 * connected to when it is asked first, and one that cannot be reached is without a client then. 0 or a negative errno
 * with a message: none can. */
int cluster_open(struct cluster *cluster, const struct invocation *invocation, bool whole, struct star_error *err);
void cluster_close(struct cluster *cluster);

/* Asks a node; a new reference, or NULL with a message in its `why`. Takes params. */
json_t *cluster_ask(struct cluster *cluster, unsigned node, const char *method, json_t *params);

/* A node has gone: its connection is closed. And is looked for again, for so long. */
void cluster_lose(struct cluster *cluster, unsigned node);
void cluster_again(struct cluster *cluster, unsigned node, uint64_t timeout_us);

/* Says on errors which nodes did not answer; how many. */
unsigned cluster_complain(const struct cluster *cluster, const struct invocation *invocation);

/* nodes.c: PS task 0 knows all nodes: its status. Takes *client, which is another one afterwards, perhaps. */
json_t *cluster_ask_leader(struct jsonrpc_client **client, struct star_error *err);

#endif
