/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How requests and replies travel: the operations of a transport, and their version. There are two transports: TCP
 * (tcp.c), and datagrams by DPDK (lib/client_dpdk), a library of its own that backend.c loads; it shares the structs of
 * client.h, too.
 */
#ifndef CLIENT_TRANSPORT_H
#define CLIENT_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "star_error.h"

struct call;
struct channel;
struct config;
struct star_cluster;
struct waiter;

/* The version of all that a transport and libstar share: another one for each change of struct transport, or of a
 * struct of client.h that transports read, whose sizes backend.c has. */
enum { TRANSPORT_VERSION = 7 };
/* What the library of datagrams exports: its struct transport. */
#define TRANSPORT_SYMBOL "star_transport_dpdk"

/* A transport. What it is told to do, it does for channels and calls of clusters that are attached to it. */
struct transport {
	uint32_t version; /* TRANSPORT_VERSION, of the library that it is in */
	const char *release;
	/* Who waits for a call without a callback ends it by itself; no waiter has to. */
	bool unattended;
	/* Makes it ready for a cluster: transport_state, polling and io's cores. 0 or a negative errno. */
	int (*attach)(struct star_cluster *cluster, const struct config *config, struct star_error *err);
	/* No thread uses the cluster any more. */
	void (*detach)(struct star_cluster *cluster);
	/* A new channel, whose constant fields are set. */
	int (*open)(struct channel *ch, struct star_error *err);
	void (*close)(struct channel *ch);
	/* The layout no longer names it. */
	void (*retire)(struct channel *ch);
	/* Sends all parts of a call. self: the calling thread's waiter, or NULL. A call that does not wait may be gone
	 * when it returns. */
	void (*submit)(struct call *call, struct waiter *self);
	/* As submit and wait, of a small call (small.h), from its own thread. */
	void (*small)(struct call *call, struct waiter *self);
	/* Takes off what is not finished, and fails it. The call's owner only. */
	void (*cancel)(struct call *call, int code, struct waiter *self);
	/* Waits until the call is finished, or fails it when its time has come. Of unattended transports k is NULL. */
	void (*wait)(struct waiter *k, struct call *call);
	/* A turn of an I/O thread: works, or waits for something to do, at most until then. */
	void (*turn)(struct waiter *k, uint64_t until_ns);
};

#endif
