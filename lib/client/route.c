/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts: turns what the control plane has published into the channels among which calls are split. */
#include "client/connect.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "client/attempt.h"
#include "client/seal.h"

/* The control plane is trusted as little as a reactor: no value may lead beyond an array. */
static int check_shards(const struct layout *layout, struct star_error *err)
{
	uint64_t reactors = 0;

	for (uint32_t i = 0; i < layout->nodes_count; i++) {
		const struct layout_node *node = &layout->nodes[i];

		if (node->reactors < 1 || node->reactors > WIRE_REACTORS_MAX || node->data_port < 1 ||
		    node->data_port + node->reactors - 1 > UINT16_MAX)
			return star_error_set(err, -EPROTO,
					      "the layout gives PS task %u %u reactors from data port %u on", i,
					      node->reactors, node->data_port);
		reactors += node->reactors;
	}
	if (layout->nodes_count < 1 || layout->nodes_count > WIRE_NODES_MAX || reactors != layout->reactors)
		return star_error_set(err, -EPROTO, "the layout has %u nodes and %u reactors, which do not agree",
				      layout->nodes_count, layout->reactors);
	if (layout->partitions < 1 || layout->partitions > WIRE_PARTITIONS_MAX ||
	    layout->partitions & (layout->partitions - 1) || layout->partitions < reactors)
		return star_error_set(err, -EPROTO, "the layout has %u partitions for %u reactors", layout->partitions,
				      layout->reactors);
	return 0;
}

/* A node that restarted has lost what the handle's tables refer to, and that must never go unnoticed. */
static int check_restarts(const struct route *old, const struct layout *layout, struct star_error *err)
{
	for (uint32_t i = 0; old && i < old->reactors; i++) {
		const struct channel *ch = old->channels[i];

		if (ch->task < layout->nodes_count && layout->nodes[ch->task].incarnation != ch->incarnation)
			return star_error_set(
				err, -ESTALE,
				"PS task %u (%s) was restarted since this cluster was opened, and what it held "
				"then is lost: open the cluster again, and restore or create its tables again",
				ch->task,
				config_show(layout->nodes[ch->task].data_host, layout->nodes[ch->task].data_port).text);
	}
	if (old && old->partitions != layout->partitions)
		return star_error_set(
			err, -ESTALE,
			"the cluster has %u partitions now, it had %u when it was opened: it is another one; "
			"open it again",
			layout->partitions, old->partitions);
	return 0;
}

/* A numeric address; false: it is not one. */
static bool read_address(const char *host, uint16_t port, struct sockaddr_storage *address, socklen_t *bytes)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	struct addrinfo *list;
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(host, service, &hints, &list) != 0)
		return false;
	*bytes = list->ai_addrlen;
	memcpy(address, list->ai_addr, list->ai_addrlen);
	freeaddrinfo(list);
	return true;
}

static int no_address(const char *host, uint32_t task, struct star_error *err)
{
	return star_error_set(err, -EPROTO,
			      "the layout names \"%.64s\" as the data address of PS task %u: not an IP address", host,
			      task);
}

struct channel *client_channel_create(struct star_cluster *cluster, uint32_t task, uint32_t reactor,
				      uint32_t incarnation, const char *host, uint16_t port, struct waiter *io,
				      struct star_error *err)
{
	struct channel *ch = calloc(1, sizeof(*ch));

	if (!ch) {
		star_error_set(err, -ENOMEM, "out of memory for a connection");
		return NULL;
	}
	if (!read_address(host, port, &ch->address, &ch->address_bytes)) {
		no_address(host, task, err);
		free(ch);
		return NULL;
	}
	ch->cluster = cluster;
	ch->io = io;
	ch->fd = -1;
	ch->task = task;
	ch->reactor = reactor;
	ch->incarnation = incarnation;
	ch->first_sequence = ch->next_sequence = ch->resend = 1;
	snprintf(ch->label, sizeof(ch->label), "PS task %u, reactor %u (%s)", task, reactor,
		 config_show(host, port).text);
	prng_seed(&ch->prng, clock_ns() ^ (uintptr_t)ch);
	TAILQ_INIT(&ch->queue);
	pthread_mutex_init(&ch->lock, NULL);
	if (cluster->transport->open(ch, err) == 0)
		return ch;
	pthread_mutex_destroy(&ch->lock);
	free(ch);
	return NULL;
}

void client_channel_destroy(struct channel *ch)
{
	ch->cluster->transport->close(ch);
	pthread_mutex_destroy(&ch->lock);
	free(ch->steering);
	free(ch->seen);
	free(ch);
}

static struct channel *add_channel(struct star_cluster *cluster, const struct layout_node *node, uint32_t task,
				   uint32_t reactor, struct star_error *err)
{
	struct waiter *io = &cluster->io[cluster->channels_count % cluster->io_count].waiter;
	struct channel *ch = client_channel_create(cluster, task, reactor, node->incarnation, node->data_host,
						   (uint16_t)(node->data_port + reactor), io, err);

	if (!ch)
		return NULL;
	if (node->steering.entries) {
		ch->steering = malloc(sizeof(*ch->steering));
		if (ch->steering) /* without it the node hands frames over */
			*ch->steering = node->steering;
	}
	ch->next_all = cluster->channels;
	cluster->channels = ch;
	cluster->channels_count++;
	return ch;
}

/* Both lists are in the order of tasks and reactors; *at advances in the old one. NULL: there is none. */
static struct channel *find_channel(const struct route *old, uint32_t *at, uint32_t task, uint32_t reactor)
{
	for (; old && *at < old->reactors; ++*at) {
		struct channel *ch = old->channels[*at];

		if (ch->task == task && ch->reactor == reactor)
			return old->channels[(*at)++];
		if (ch->task > task || (ch->task == task && ch->reactor > reactor))
			break;
	}
	return NULL;
}

/* A node of the same incarnation, wherever it is now (check_restarts): what is kept or in flight continues there. Both
 * addresses are set at once: an attempt that fails in between would swap them, and the one that serves would be
 * forgotten. False: it is not an address. */
static bool place(struct channel *ch, const struct layout_node *node, uint32_t reactor)
{
	const uint16_t port = (uint16_t)(node->data_port + reactor);
	struct sockaddr_storage address, other;
	socklen_t bytes, other_bytes = 0;

	if (!read_address(node->data_host, port, &address, &bytes))
		return false;
	if (node->standby.data_host[0] &&
	    !read_address(node->standby.data_host, (uint16_t)(node->standby.data_port + reactor), &other, &other_bytes))
		other_bytes = 0;
	pthread_mutex_lock(&ch->lock);
	if (!client_address_is(&ch->address, node->data_host, port)) {
		ch->address = address;
		ch->address_bytes = bytes;
		ch->moved = true;
		/* The channel's waiter connects again at once; a datagram session notices when it is checked next. */
		if (ch->fd >= 0)
			shutdown(ch->fd, SHUT_RDWR);
		if (ch->waiter) {
			ch->not_before_ns = 0;
			waiter_wake(ch->waiter);
		}
	}
	if (other_bytes)
		ch->other = other;
	if (ch->other_bytes != other_bytes) {
		ch->other_bytes = other_bytes;
		client_connect_watch(ch);
	}
	pthread_mutex_unlock(&ch->lock);
	return true;
}

/* Remembers another address at which the control plane may answer. */
static void note_standby(struct star_cluster *cluster, const struct layout *layout)
{
	const char *control = "";

	/* The standby of PS task 0, if it has one: the others ask PS task 0. */
	for (uint32_t task = 0; task < layout->nodes_count && !*control; task++)
		control = layout->nodes[task].standby.control;
	if (!*control)
		return; /* the former standby may serve now, and the layout lacks its address */
	pthread_mutex_lock(&cluster->lock);
	strcpy(cluster->standby, control);
	pthread_mutex_unlock(&cluster->lock);
}

static void retire_others(const struct route *old, const struct route *route)
{
	uint32_t at = 0;

	for (uint32_t i = 0; old && i < old->reactors; i++) {
		struct channel *ch = old->channels[i];

		if (find_channel(route, &at, ch->task, ch->reactor) != ch)
			ch->cluster->transport->retire(ch);
	}
}

int client_route_install(struct star_cluster *cluster, const struct layout *layout, struct star_error *err)
{
	struct route *old = atomic_load(&cluster->route), *route;
	uint32_t at = 0, n = 0;

	if (check_shards(layout, err) < 0 || check_restarts(old, layout, err) < 0)
		return err->code;
	if (old && layout->epoch <= old->epoch)
		return 0;
	route = calloc(1, sizeof(*route) + layout->reactors * sizeof(*route->channels));
	if (!route)
		return star_error_set(err, -ENOMEM, "out of memory for the layout");
	route->epoch = layout->epoch;
	route->partitions = layout->partitions;
	route->reactors = layout->reactors;
	route->payload_max = cluster->payload_max;
	for (uint32_t task = 0; task < layout->nodes_count; task++) {
		const struct layout_node *node = &layout->nodes[task];

		if (node->request_max < route->payload_max)
			route->payload_max = node->request_max;
		for (uint32_t r = 0; r < node->reactors; r++) {
			struct channel *ch = find_channel(old, &at, task, r);

			if (!ch)
				ch = add_channel(cluster, node, task, r, err);
			if (!ch || !place(ch, node, r)) {
				free(route);
				return ch ? no_address(node->data_host, task, err) : err->code;
			}
			route->channels[n++] = ch;
		}
	}
	note_standby(cluster, layout);
	client_tickets_follow(cluster, layout);
	route->next = cluster->routes;
	cluster->routes = route;
	atomic_store(&cluster->route, route);
	retire_others(old, route);
	return 0;
}

int client_route_refresh(struct star_cluster *cluster, uint32_t epoch, uint64_t deadline_ns, struct star_error *err)
{
	const struct timespec until = clock_timespec(deadline_ns);
	struct layout *layout;
	int rc = 0;

	pthread_mutex_lock(&cluster->lock);
	if (cluster->refreshing && atomic_load(&cluster->route)->epoch == epoch)
		client_catalogue_hurry(cluster);
	while (cluster->refreshing && rc == 0)
		rc = pthread_cond_timedwait(&cluster->changed, &cluster->lock, &until);
	if (rc || atomic_load(&cluster->route)->epoch != epoch) {
		pthread_mutex_unlock(&cluster->lock);
		return rc ? star_error_set(err, -ETIMEDOUT, "the layout has changed, and fetching it took too long")
			  : 0;
	}
	cluster->refreshing = true; /* one thread at a time fetches and installs */
	pthread_mutex_unlock(&cluster->lock);
	layout = client_catalogue_layout(cluster, deadline_ns, err);
	rc = layout ? client_route_install(cluster, layout, err) : err->code;
	free(layout);
	pthread_mutex_lock(&cluster->lock);
	cluster->refreshing = false;
	pthread_cond_broadcast(&cluster->changed);
	pthread_mutex_unlock(&cluster->lock);
	return rc;
}
