/* SPDX-License-Identifier: BSD-3-Clause */
/* The tickets of a cluster's nodes: tickets.c asks for them on its thread, tickets_hand.c hands them out to whoever
 * connects. */
#ifndef CLIENT_TICKETS_H
#define CLIENT_TICKETS_H

#include "client/seal.h"
#include "jsonrpc/jsonrpc.h"

struct node_ticket {
	char control[sizeof(((struct layout_node *)0)->control)];
	char other[sizeof(((struct layout_node *)0)->standby.control)];	       /* who may take its place; "": nobody */
	char other_host[sizeof(((struct layout_node *)0)->standby.data_host)]; /* where its reactors are */
	uint16_t other_port;						       /* of the first of them */
	bool ask_other;							       /* it is asked next */
	struct client_ticket at_hand;
	uint64_t ask_ns; /* when the next is asked for */
	uint64_t asked_ns;
	uint32_t failures;
	struct star_error why; /* of the last question; code 0: it was answered */
};

struct tickets {
	struct star_cluster *cluster;
	pthread_t thread;
	pthread_mutex_t lock; /* protects what follows; after a channel's */
	pthread_cond_t changed;
	bool stop;
	struct jsonrpc_client *asking;
	uint64_t number;
	struct prng prng;
	uint32_t count;
	struct node_ticket nodes[];
};

#endif
