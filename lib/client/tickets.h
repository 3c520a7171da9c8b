/* SPDX-License-Identifier: BSD-3-Clause */
/* The tickets of a cluster's nodes: tickets.c requests them on its thread, tickets_hand.c gives them to channels that
 * connect. */
#ifndef CLIENT_TICKETS_H
#define CLIENT_TICKETS_H

#include "client/seal.h"
#include "jsonrpc/jsonrpc.h"

struct node_ticket {
	char control[sizeof(((struct layout_node *)0)->control)];
	char other[sizeof(((struct layout_node *)0)->standby.control)]; /* control address of its standby; "": none */
	char other_host[sizeof(((struct layout_node *)0)->standby.data_host)]; /* host of that one's reactors */
	uint16_t other_port;						       /* port of the first of these */
	bool ask_other;							       /* the standby is asked next */
	struct client_ticket at_hand;
	uint64_t ask_ns; /* when the next ticket is requested */
	uint64_t asked_ns;
	uint32_t failures;
	struct star_error why; /* error of the last request; code 0: it was answered */
};

struct tickets {
	struct star_cluster *cluster;
	pthread_t thread;
	pthread_mutex_t lock; /* protects what follows; taken after a channel's */
	pthread_cond_t changed;
	bool stop;
	struct jsonrpc_client *asking;
	uint64_t number;
	struct prng prng;
	uint32_t count;
	struct node_ticket nodes[];
};

#endif
