/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Monitors NICs and kernel interfaces: logs when a link goes down or comes up (neighbours are then told our addresses),
 * resets a device whose driver requests it, and releases one that was removed from the machine. A node that loses a NIC
 * goes on with its other ports, and reports it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "jsonrpc/thread.h"
#include "node/node.h"

enum {
	LOOK_MS = 500,
	RESET_AGAIN_LOOKS = 20, /* between attempts of a reset that fails */
};

struct nic_watch {
	struct node *node;
	pthread_t thread;
	pthread_mutex_t lock; /* protects over */
	pthread_cond_t wake;
	bool over;
};

static void announce_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;

	(void)message;
	net_announce(shard->net);
}

static void look_at_link(struct node *node, struct node_port *p)
{
	struct reactor_message *message;
	struct star_error err = { 0 };
	const bool up = port_carrier(p->port);
	const bool deleted = !up && !port_is_nic(p->port) && port_state(p->port) == PORT_IS_REMOVED;

	if (p->link_seen && up == p->link && deleted == p->deleted)
		return;
	/* An interface was up before its port was opened: this is no change, and its addresses were announced. */
	if (!p->link_seen && up && !port_is_nic(p->port)) {
		p->link = p->link_seen = true;
		return;
	}
	if (deleted)
		log_error("port %s: its interface %s was deleted: create it again, and remove and add the port, or "
			  "restart the node",
			  p->port->name, p->port->interface);
	else if (up || p->link_seen)
		log_info("port %s: the link is %s", p->port->name, up ? "up" : "down");
	else
		log_warn("port %s: the link is down", p->port->name);
	p->link = up;
	p->link_seen = true;
	p->deleted = deleted;
	message = up ? calloc(1, sizeof(*message)) : NULL;
	if (!message)
		return;
	message->run = announce_on_reactor;
	if (node_ask(&node->shards[0], message, &err) != -ETIMEDOUT)
		free(message);
}

/* The mbufs that its driver held return to the reactors' pools. */
static void give_back(struct node *node, struct port *port, struct port_strays *strays)
{
	struct star_error err = { 0 };
	struct rest *rest = node_rest_begin(node, &err);

	if (rest) {
		port_strays_return(strays);
		node_rest_end(rest);
	} else {
		log_error("port %s was removed from the machine, and %u of its packet buffers are lost: %s", port->name,
			  strays->count, err.text);
		free(strays->all);
	}
}

static void let_go(struct node *node, struct node_port *p)
{
	struct star_error err = { 0 };
	struct port_strays strays;
	unsigned ended = 0;

	pthread_mutex_lock(&node->ports_lock);
	port_gone(p->port);
	pthread_mutex_unlock(&node->ports_lock);
	if (node_port_detach(node, p->port, &ended, &err) < 0) {
		log_error("port %s was removed from the machine, and a reactor did not release it: %s", p->port->name,
			  err.text);
		return;
	}
	log_error("port %s was removed from the machine: %u connections ended, and no peer can be reached through it%s",
		  p->port->name, ended,
		  node_port_has(p, node->config->own.data.host) ? ". It had this node's data address" : "");
	port_shut(p->port, &strays);
	give_back(node, p->port, &strays);
	log_info("port %s: its driver has released it", p->port->name);
}

static void reset(struct node *node, struct node_port *p)
{
	struct rte_mempool *pools[WIRE_REACTORS_MAX];
	struct star_error err = { 0 };
	struct rest *rest;
	int status;

	if (p->reset_looks++ % RESET_AGAIN_LOOKS)
		return;
	for (unsigned i = 0; i < node->shards_count; i++)
		pools[i] = node->shards[i].pool;
	rest = node_rest_begin(node, &err);
	status = rest ? port_reset(p->port, &p->config, pools, &err) : err.code;
	if (rest)
		node_rest_end(rest);
	if (status < 0) {
		log_error("port %s needs a reset: %s", p->port->name, err.text);
		return;
	}
	log_warn("port %s asked for a reset, and was reset", p->port->name);
	p->reset_looks = 0;
	p->link_seen = false;
}

static void look_at_nic(struct node *node, struct node_port *p)
{
	if (!port_has_link(p->port) || p->port->shut)
		return;
	if (!port_is_nic(p->port)) {
		look_at_link(node, p);
		return;
	}
	switch (port_state(p->port)) {
	case PORT_IS_REMOVED:
		let_go(node, p);
		return;
	case PORT_NEEDS_RESET:
		reset(node, p);
		return;
	case PORT_WORKS:
		look_at_link(node, p);
	}
}

static bool pause_is_over(struct nic_watch *watch)
{
	const struct timespec until = clock_timespec(clock_ns() + LOOK_MS * 1000000ull);
	bool over;

	pthread_mutex_lock(&watch->lock);
	while (!watch->over && pthread_cond_timedwait(&watch->wake, &watch->lock, &until) != ETIMEDOUT)
		;
	over = watch->over;
	pthread_mutex_unlock(&watch->lock);
	return !over;
}

static void *nics_loop(void *arg)
{
	struct nic_watch *watch = arg;
	struct node *node = watch->node;

	do {
		pthread_mutex_lock(&node->ports_change);
		for (unsigned i = 0; i < node->ports_count; i++)
			look_at_nic(node, &node->ports[i]);
		pthread_mutex_unlock(&node->ports_change);
	} while (pause_is_over(watch));
	return NULL;
}

int node_nics_begin(struct node *node, struct star_error *err)
{
	struct nic_watch *watch;
	int status;

	/* A node on the kernel's sockets has no ports; any other may get some at any time. */
	if (!node->ports_count)
		return 0;
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return star_error_set(err, -ENOMEM, "no memory to watch the NICs");
	watch->node = node;
	pthread_mutex_init(&watch->lock, NULL);
	clock_condition_init(&watch->wake);
	status = jsonrpc_thread_start(&watch->thread, "watch", nics_loop, watch, err);
	if (status < 0)
		free(watch);
	else
		node->nics = watch;
	return status;
}

void node_nics_end(struct node *node)
{
	struct nic_watch *watch = node->nics;

	if (!watch)
		return;
	pthread_mutex_lock(&watch->lock);
	watch->over = true;
	pthread_cond_signal(&watch->wake);
	pthread_mutex_unlock(&watch->lock);
	pthread_join(watch->thread, NULL);
	pthread_cond_destroy(&watch->wake);
	pthread_mutex_destroy(&watch->lock);
	free(watch);
	node->nics = NULL;
}
