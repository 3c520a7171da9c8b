/* SPDX-License-Identifier: BSD-3-Clause */
/* Provides tickets for connections of every transport, including libstar-dpdk.so. */
#include "client/tickets.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "client/attempt.h"

#define AGAIN_NS UINT64_C(50000000) /* minimum time between two requests to a node */

/* With the lock. */
static void ask_soon(struct tickets *t, struct node_ticket *node)
{
	const uint64_t now = clock_ns(), soonest = node->asked_ns + AGAIN_NS;

	if (node->failures) /* it is already asked, with its own backoff */
		return;
	node->ask_ns = soonest > now ? soonest : now;
	pthread_cond_signal(&t->changed);
}

bool client_tickets_take(struct star_cluster *cluster, uint32_t task, struct client_ticket *ticket)
{
	struct tickets *t = cluster->tickets;
	bool good = false;

	pthread_mutex_lock(&t->lock);
	if (task < t->count && t->nodes[task].at_hand.until_ns > clock_ns()) {
		*ticket = t->nodes[task].at_hand;
		good = true;
	}
	pthread_mutex_unlock(&t->lock);
	return good;
}

void client_tickets_refused(const struct channel *ch, const struct sockaddr_storage *at, uint64_t number)
{
	struct tickets *t = ch->cluster->tickets;
	struct node_ticket *node = &t->nodes[ch->task];
	uint16_t port;

	pthread_mutex_lock(&t->lock);
	if (ch->task < t->count && node->at_hand.number == number && node->at_hand.until_ns) {
		explicit_bzero(&node->at_hand, sizeof(node->at_hand));
		port = (uint16_t)(node->other_port + ch->reactor);
		/* The machine of the former node may have died silently, and a request to it would wait. */
		node->ask_other = node->other[0] && client_address_is(at, node->other_host, port);
		ask_soon(t, node);
	}
	pthread_mutex_unlock(&t->lock);
}

bool client_tickets_forbidden(const struct channel *ch)
{
	struct tickets *t = ch->cluster->tickets;
	const uint64_t since_ns = ch->give_up_ns - ch->cluster->connect_timeout_ns;
	bool forbidden;

	if (!t || (ch->connect_error != ENOKEY && ch->connect_error != EKEYREJECTED))
		return false;
	pthread_mutex_lock(&t->lock);
	forbidden =
		ch->task < t->count && t->nodes[ch->task].why.code == -EPERM && t->nodes[ch->task].asked_ns >= since_ns;
	pthread_mutex_unlock(&t->lock);
	return forbidden;
}

bool client_tickets_why(struct star_cluster *cluster, uint32_t task, struct star_error *err)
{
	struct tickets *t = cluster->tickets;
	bool known = false;

	if (!t)
		return false;
	pthread_mutex_lock(&t->lock);
	if (task < t->count && t->nodes[task].why.code) {
		star_error_set(err, t->nodes[task].why.code, "no ticket for PS task %u: %s", task,
			       t->nodes[task].why.text);
		known = true;
	}
	pthread_mutex_unlock(&t->lock);
	return known;
}
