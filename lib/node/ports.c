/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports at run time. The control path opens and closes them. Each reactor is told by messages, and pauses in one while
 * the driver accesses its mempool. A port is added to one reactor after the other, its interface first. It is removed
 * from all in three steps: its interface is removed, so that nothing is received or sent any more except by existing
 * connections; its connections are ended, some in each message; and when every reactor has sent what it had to (or its
 * ring has accepted nothing for a while), the port is removed from it and closed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/node.h"
#include "port/net_interface.h"

enum { ARRIVE_PAUSE_US = 20, ARRIVE_LOOKS = 500000, DRAIN_US = 1000000 };

struct port_message {
	struct reactor_message message;
	struct port *port;
	struct net_interface *interface; /* to be added; or the one that was removed */
	uint32_t cursor;
	unsigned ended;
	int status;
	uint16_t id; /* of a port that may be gone meanwhile */
	bool done;
};

static void add_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct port_message *m = (struct port_message *)message;

	m->status = reactor_add_port(shard->reactor, m->port);
	if (m->status == 0)
		net_interface_add(shard->net, m->interface);
}

static void detach_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct port_message *m = (struct port_message *)message;

	m->interface = net_interface_remove(shard->net, m->port->id);
}

static void end_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct port_message *m = (struct port_message *)message;

	m->done = !m->interface || net_interface_end(shard->net, m->interface, &m->cursor, &m->ended);
}

static void drain_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct port_message *m = (struct port_message *)message;

	m->done = reactor_drain_port(shard->reactor, m->port);
}

static void remove_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	const struct port_message *m = (const struct port_message *)message;

	reactor_remove_port(shard->reactor, m->port);
}

static void end_gone_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct port_message *m = (struct port_message *)message;
	struct net_interface *interface = net_interface_find(shard->net, m->id);

	m->done = !interface || net_interface_end(shard->net, interface, &m->cursor, &m->ended);
}

/* A message may outlive a wait that has timed out: then neither the message nor what it refers to is freed. */
static int ask_reactor(struct shard *shard, struct port_message *m, void (*run)(void *, struct reactor_message *),
		       struct star_error *err)
{
	m->message = (struct reactor_message){ .run = run };
	return node_ask(shard, &m->message, err);
}

/* Removes a port from one reactor; *ended: connections. If it fails, the port must stay open, as the reactor may still
 * have it. */
static int remove_from(struct shard *shard, struct port *port, unsigned *ended, struct star_error *err)
{
	struct port_message *m = calloc(1, sizeof(*m));
	uint64_t begin_us;
	int status;

	if (!m)
		return star_error_set(err, -ENOMEM, "no memory for a message to reactor %u", shard->index);
	m->port = port;
	status = ask_reactor(shard, m, detach_on_reactor, err);
	while (status == 0 && !m->done)
		status = ask_reactor(shard, m, end_on_reactor, err);
	m->done = false;
	begin_us = clock_us();
	while (status == 0 && !m->done && clock_us() - begin_us < DRAIN_US)
		status = ask_reactor(shard, m, drain_on_reactor, err);
	if (status == 0)
		status = ask_reactor(shard, m, remove_on_reactor, err);
	if (status == 0)
		net_interface_free(m->interface);
	*ended += m->ended;
	if (status != -ETIMEDOUT)
		free(m);
	return status;
}

void node_port_gone(void *ctx, uint16_t id)
{
	struct node *node = ctx;

	for (unsigned i = 0; i < node->shards_count; i++) {
		struct port_message *m = calloc(1, sizeof(*m));
		struct star_error err;
		int status = 0;

		if (!m)
			return; /* keepalive ends them */
		m->id = id;
		while (status == 0 && !m->done)
			status = ask_reactor(&node->shards[i], m, end_gone_on_reactor, &err);
		if (status != -ETIMEDOUT)
			free(m);
	}
}

static int add_to(struct shard *shard, const struct node_port *p, struct star_error *err)
{
	const struct net_interface_options options = port_net_interface(p->port, &p->config);
	struct port_message *m = calloc(1, sizeof(*m));
	int status;

	if (!m)
		return star_error_set(err, -ENOMEM, "no memory for a message to reactor %u", shard->index);
	m->port = p->port;
	/* What it checks is the same for all stacks, and only this thread changes their interfaces. */
	m->interface = net_interface_create(shard->net, &options, err);
	status = m->interface ? ask_reactor(shard, m, add_on_reactor, err) : err->code;
	if (status == 0 && m->status < 0)
		status = star_error_set(err, m->status, "reactor %u has no room for another port", shard->index);
	if (status == -ETIMEDOUT)
		return status;
	if (status < 0)
		net_interface_free(m->interface);
	free(m);
	return status;
}

/* A reactor pauses in a message until all are released. */
struct stop {
	struct reactor_message message;
	uint32_t arrived;
	uint32_t *released;
};

struct rest {
	uint32_t released;
	unsigned count;
	struct stop stops[WIRE_REACTORS_MAX];
};

static void stand(void *ctx, struct reactor_message *message)
{
	struct stop *stop = (struct stop *)message;

	__atomic_store_n(&stop->arrived, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(stop->released, __ATOMIC_ACQUIRE))
		rte_pause();
}

static bool arrives(const struct stop *stop)
{
	for (unsigned i = 0; i < ARRIVE_LOOKS; i++) {
		if (__atomic_load_n(&stop->arrived, __ATOMIC_ACQUIRE))
			return true;
		usleep(ARRIVE_PAUSE_US);
	}
	return false;
}

void node_rest_end(struct rest *rest)
{
	bool over = true;

	__atomic_store_n(&rest->released, 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < rest->count; i++)
		over = reactor_wait(&rest->stops[i].message, ARRIVE_LOOKS * ARRIVE_PAUSE_US) == 0 && over;
	if (over)
		free(rest); /* otherwise a reactor may still access it */
}

/* Makes all reactors pause; NULL with a message. */
struct rest *node_rest_begin(struct node *node, struct star_error *err)
{
	struct rest *rest = calloc(1, sizeof(*rest));
	int status = rest ? 0 : -ENOMEM;

	for (; status == 0 && rest->count < node->shards_count; rest->count++) {
		rest->stops[rest->count] = (struct stop){ .message.run = stand, .released = &rest->released };
		status = reactor_post(node->shards[rest->count].reactor, &rest->stops[rest->count].message);
		if (status < 0)
			break;
	}
	for (unsigned i = 0; status == 0 && i < rest->count; i++)
		status = arrives(&rest->stops[i]) ? 0 : -ETIMEDOUT;
	if (status == 0)
		return rest;
	if (rest)
		node_rest_end(rest);
	star_error_set(err, status, "the reactors cannot be paused: %s", strerror(-status));
	return NULL;
}

/* Opens p->port, or closes it: while the reactors pause, if the driver accesses their mempools. */
static int open_or_close(struct node *node, struct node_port *p, int number, struct star_error *err)
{
	const bool still = port_needs_rest(&p->config);
	struct rest *rest = still ? node_rest_begin(node, err) : NULL;
	struct rte_mempool *pools[WIRE_REACTORS_MAX];
	int status = 0;

	if (still && !rest)
		return err->code;
	for (unsigned i = 0; i < node->shards_count; i++)
		pools[i] = node->shards[i].pool;
	if (number >= 0) {
		p->port = port_open(&p->config, (unsigned)number, pools, (uint16_t)node->shards_count,
				    node->config->own.data.port, err);
		status = p->port ? 0 : err->code;
	} else {
		port_close(p->port);
	}
	if (rest)
		node_rest_end(rest);
	return status;
}

/* Removes the port from the first reactors of the node. */
static int detach_from_shards(struct node *node, struct port *port, unsigned shards, unsigned *ended,
			      struct star_error *err)
{
	int status = 0;

	for (unsigned i = 0; i < shards; i++) {
		const int rc = remove_from(&node->shards[i], port, ended, err);

		if (rc < 0)
			status = rc;
	}
	return status;
}

int node_port_detach(struct node *node, struct port *port, unsigned *ended, struct star_error *err)
{
	return detach_from_shards(node, port, node->shards_count, ended, err);
}

/* Removes the port from the first reactors of the node. It is closed when none of them has it. */
static int remove_and_close(struct node *node, struct node_port *p, unsigned shards, unsigned *ended,
			    struct star_error *err)
{
	int status = detach_from_shards(node, p->port, shards, ended, err);

	if (status < 0)
		return status;
	status = open_or_close(node, p, -1, err);
	if (status == 0)
		node_disclaim(p);
	return status;
}

static int open_port(struct node *node, struct node_port *p, int number, struct star_error *err)
{
	int status = node_claim(p, err);

	if (status == 0)
		status = open_or_close(node, p, number, err);
	if (status < 0)
		node_disclaim(p);
	return status;
}

static bool is_taken(const struct node *node, const char *device, unsigned number)
{
	char name[RTE_ETH_NAME_MAX_LEN];

	snprintf(name, sizeof(name), "%s%u", device, number);
	for (unsigned i = 0; i < node->ports_count; i++)
		if (strcmp(node->ports[i].port->name, name) == 0)
			return true;
	return false;
}

/* The number in its name: the requested one, or the lowest that is free. */
static int choose_number(const struct node *node, const struct config_port *port, int number, struct star_error *err)
{
	if (number >= 0 && is_taken(node, port->device, (unsigned)number))
		return star_error_set(err, -EEXIST,
				      "there is a port %s%d already: leave the number out, or remove that port first",
				      port->device, number);
	for (number = number >= 0 ? number : 0; is_taken(node, port->device, (unsigned)number);)
		number++;
	return number;
}

static int check_new_port(const struct node *node, const struct config_port *port, struct star_error *err)
{
	int status = 0;

	if (strcmp(port->device, "pci") == 0)
		return star_error_set(err, -ENOTSUP,
				      "NICs are found only when the node starts: add it to the configuration's ports, "
				      "and restart the node");
	if (node->ports_count == CONFIG_PORTS_MAX)
		return star_error_set(err, -ENOSPC,
				      "this node has %u ports, and more are not possible: remove one first",
				      node->ports_count);
	for (unsigned i = 0; i < node->ports_count && status == 0; i++) {
		status = config_port_check_pair(port, "the new one", &node->ports[i].config, node->ports[i].port->name,
						err);
		if (status < 0)
			err->code = -EADDRINUSE;
	}
	return status < 0 ? err->code : 0;
}

static int add_new_port(struct node *node, const struct config_port *port, int number, json_t **result,
			struct star_error *err)
{
	struct node_port *p = &node->ports[node->ports_count < CONFIG_PORTS_MAX ? node->ports_count : 0];
	struct star_error ignored;
	unsigned shards, ended = 0;
	int status = check_new_port(node, port, err);

	if (status < 0)
		return status;
	number = choose_number(node, port, number, err);
	if (number < 0)
		return number;
	*p = (struct node_port){ .config = *port };
	status = open_port(node, p, number, err);
	if (status < 0)
		return status;
	for (shards = 0; shards < node->shards_count; shards++) {
		status = add_to(&node->shards[shards], p, err);
		if (status < 0)
			break;
	}
	if (status < 0 && status != -ETIMEDOUT) {
		remove_and_close(node, p, shards, &ended, &ignored);
		return status;
	}
	/* A reactor that did not answer may still take the port: it is kept where it can be removed. */
	if (status < 0) {
		const struct star_error why = *err;

		star_error_set(err, why.code, "%.300s; the port stays as %s: remove it when the node answers again",
			       why.text, p->port->name);
	}
	port_on_gone(p->port, node_port_gone, node);
	pthread_mutex_lock(&node->ports_lock);
	node->ports_count++;
	pthread_mutex_unlock(&node->ports_lock);
	if (status < 0)
		return status;
	log_info("port %s was added", p->port->name);
	*result = json_pack("{s:s}", "name", p->port->name);
	return 0;
}

static struct node_port *find_named_port(struct node *node, const char *name, struct star_error *err)
{
	char names[CONFIG_PORTS_MAX * (RTE_ETH_NAME_MAX_LEN + 2)] = "";

	for (unsigned i = 0; i < node->ports_count; i++) {
		if (strcmp(node->ports[i].port->name, name) == 0)
			return &node->ports[i];
		strcat(names, i ? ", " : "");
		strcat(names, node->ports[i].port->name);
	}
	star_error_set(err, -ENOENT, "there is no port \"%.64s\"; this node has %.400s", name, names);
	return NULL;
}

/* Nobody would listen at a port of a node on the kernel's sockets. */
static int may_change(const struct node *node, struct star_error *err)
{
	if (node->config->stack != CONFIG_STACK_KERNEL)
		return 0;
	return star_error_set(
		err, -ENOTSUP,
		"this node uses the kernel's sockets (network.stack = \"kernel\") and has no ports of its own");
}

int node_port_add(struct node *node, const struct config_port *port, int number, json_t **result,
		  struct star_error *err)
{
	int status = may_change(node, err);

	if (status < 0)
		return status;
	pthread_mutex_lock(&node->ports_change);
	status = add_new_port(node, port, number, result, err);
	pthread_mutex_unlock(&node->ports_change);
	return status;
}

static int remove_named(struct node *node, const char *name, json_t **result, struct star_error *err)
{
	struct node_port *p = find_named_port(node, name, err), removed;
	unsigned ended = 0;
	int status;

	if (!p)
		return err->code;
	if (node->ports_count == 1)
		return star_error_set(
			err, -EBUSY,
			"%s is the node's last port: add another one first, or stop the node by `starctl shutdown`",
			name);
	if (!port_can_close(&p->config))
		return star_error_set(
			err, -ENOTSUP,
			"%s cannot be removed while the node runs: its driver would keep the packet buffers "
			"of its rings; start the node without it",
			name);
	/* Nobody looks at it from now on. */
	pthread_mutex_lock(&node->ports_lock);
	removed = *p;
	node->ports_count--;
	memmove(p, p + 1, (size_t)(&node->ports[node->ports_count] - p) * sizeof(*p));
	node->ports[node->ports_count] = (struct node_port){ .port = NULL };
	pthread_mutex_unlock(&node->ports_lock);
	*result = json_pack("{s:s}", "name", name);
	if (node_port_has(&removed, node->config->own.data.host)) {
		log_warn("the port with this node's data address %s is being removed: workers cannot reach the node",
			 node->config->own.data.host);
		json_object_set_new(*result, "data_address_lost", json_true());
	}
	status = remove_and_close(node, &removed, node->shards_count, &ended, err);
	if (status < 0) {
		json_decref(*result);
		*result = NULL;
		return status;
	}
	log_info("port %s was removed, and %u connections with it", name, ended);
	json_object_set_new(*result, "connections", json_integer(ended));
	return 0;
}

int node_port_remove(struct node *node, const char *name, json_t **result, struct star_error *err)
{
	int status = may_change(node, err);

	if (status < 0)
		return status;
	pthread_mutex_lock(&node->ports_change);
	status = remove_named(node, name, result, err);
	pthread_mutex_unlock(&node->ports_change);
	return status;
}
