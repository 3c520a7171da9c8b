/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of transports, which carry requests and replies, and its version. There are two: TCP (tcp.c), and
 * datagrams over DPDK (lib/client_dpdk). The latter is a library of its own that backend.c loads; it also shares the
 * structs of client.h.
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

/* The version of what a transport and libstar share. Increment it with each change of struct transport, or of a struct
 * of client.h that transports use; backend.c has their sizes. */
enum { TRANSPORT_VERSION = 7 };
/* The symbol that the library for datagrams exports: its struct transport. */
#define TRANSPORT_SYMBOL "star_transport_dpdk"

/* A transport. All channels and calls that are passed to it belong to clusters that are attached to it. */
struct transport {
	uint32_t version; /* TRANSPORT_VERSION when its library was compiled */
	const char *release;
	/* A thread that waits for a call without a callback ends it by itself, without a waiter. */
	bool unattended;
	/* Prepares a cluster: its transport_state, polling and the cores of I/O threads. 0 or a negative errno with
	 * err. */
	int (*attach)(struct star_cluster *cluster, const struct config *config, struct star_error *err);
	/* No thread may use the cluster any more. */
	void (*detach)(struct star_cluster *cluster);
	/* Opens a new channel, whose constant fields are set. */
	int (*open)(struct channel *ch, struct star_error *err);
	void (*close)(struct channel *ch);
	/* The layout no longer has the channel's reactor. */
	void (*retire)(struct channel *ch);
	/* Sends all parts of a call. self: the calling thread's waiter, or NULL. A call that does not wait may be gone
	 * when it returns. */
	void (*submit)(struct call *call, struct waiter *self);
	/* As submit and wait, for a small call (small.h), from the calling thread. */
	void (*small)(struct call *call, struct waiter *self);
	/* Fails what is not finished of a call. Only for the call's owner. */
	void (*cancel)(struct call *call, int code, struct waiter *self);
	/* Waits until the call is finished, or fails it when its deadline has passed. With unattended transports k is
	 * NULL. */
	void (*wait)(struct waiter *k, struct call *call);
	/* A turn of an I/O thread: works, or waits for work, at most until until_ns. */
	void (*turn)(struct waiter *k, uint64_t until_ns);
};

#endif
