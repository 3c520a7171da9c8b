/* SPDX-License-Identifier: BSD-3-Clause */
/* Tickets for the data network: a thread gets one from each node, and the next one when half of its time is over. */
#include "client/tickets.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/signals.h"
#include "client/attempt.h"
#include "jsonrpc/jsonrpc.h"
#include "jsonrpc/member.h"
#include "secure/memory.h"

enum { ASK_US = 2000000, GOOD_FOR_MAX_S = 86400 };
/* Reads hexadecimal digits, two per byte. */
static bool read_bytes(const char *text, uint8_t *bytes, size_t count)
{
	if (strlen(text) != 2 * count || strspn(text, "0123456789abcdef") != 2 * count)
		return false;
	for (size_t i = 0; i < count; i++)
		bytes[i] = (uint8_t)((text[2 * i] <= '9' ? text[2 * i] - '0' : text[2 * i] - 'a' + 10) << 4 |
				     (text[2 * i + 1] <= '9' ? text[2 * i + 1] - '0' : text[2 * i + 1] - 'a' + 10));
	return true;
}

/* Reads a node's answer. */
static int read_answer(const json_t *json, uint64_t asked_ns, struct client_ticket *ticket, struct star_error *err)
{
	const char *text, *secret, *data;
	enum secure_data kind;
	uint32_t good_for_s;

	if (jsonrpc_member_string(json, "ticket", 2 * SECURE_TICKET_BYTES, &text, err) < 0 ||
	    jsonrpc_member_string(json, "secret", 2 * SECURE_HASH_BYTES, &secret, err) < 0 ||
	    jsonrpc_member_string(json, "data", 16, &data, err) < 0 ||
	    jsonrpc_member_u32(json, "good_for_s", 1, GOOD_FOR_MAX_S, &good_for_s, err) < 0)
		return -EPROTO;
	kind = secure_data_from(data);
	ticket->cipher = secure_data_cipher(kind);
	if (kind == SECURE_DATA_OPEN || kind == SECURE_DATA_KINDS ||
	    !read_bytes(text, ticket->ticket.bytes, SECURE_TICKET_BYTES) ||
	    !read_bytes(secret, ticket->secret, SECURE_HASH_BYTES))
		return star_error_set(err, -EPROTO, "the node's answer is not a ticket");
	ticket->until_ns = asked_ns + good_for_s * UINT64_C(1000000000);
	return 0;
}

/* Without the lock, except for the call, which a stop must be able to interrupt. */
static int ask_node(struct tickets *t, const char *control, struct client_ticket *ticket, struct star_error *err)
{
	struct jsonrpc_client *client = jsonrpc_connect_by(t->cluster->key_file, control, ASK_US, err);
	const uint64_t now = clock_ns();
	json_t *json = NULL;
	int rc;

	if (!client)
		return err->code;
	pthread_mutex_lock(&t->lock);
	t->asking = client;
	if (t->stop)
		jsonrpc_interrupt(client);
	pthread_mutex_unlock(&t->lock);
	json = jsonrpc_call(client, "ticket", NULL, ASK_US, err);
	pthread_mutex_lock(&t->lock);
	t->asking = NULL;
	pthread_mutex_unlock(&t->lock);
	jsonrpc_close(client);
	rc = json ? read_answer(json, now, ticket, err) : err->code;
	json_decref(json);
	return rc;
}

/* With the lock, which is released meanwhile. */
static void renew(struct tickets *t, struct node_ticket *node)
{
	struct client_ticket ticket = { .until_ns = 0 };
	char control[sizeof(node->control)];
	struct star_error err = { 0 };
	const bool asks_other = node->ask_other;
	uint64_t now;
	int rc;

	snprintf(control, sizeof(control), "%s", asks_other ? node->other : node->control);
	pthread_mutex_unlock(&t->lock);
	rc = ask_node(t, control, &ticket, &err);
	pthread_mutex_lock(&t->lock);
	now = clock_ns();
	node->asked_ns = now;
	if (rc == 0) {
		ticket.number = ++t->number;
		node->at_hand = ticket;
		node->failures = 0;
		node->why.code = 0;
		node->ask_ns = now + (ticket.until_ns - now) / 2;
	} else {
		node->why = err;
		/* The other node of a pair may serve by now: it is asked at once. */
		node->ask_other = node->other[0] && !asks_other;
		node->ask_ns = node->ask_other ? now : now + client_backoff_ns(&t->prng, node->failures);
		node->failures++;
	}
	explicit_bzero(&ticket, sizeof(ticket));
}

static struct node_ticket *next_of(struct tickets *t)
{
	struct node_ticket *next = &t->nodes[0];

	for (uint32_t i = 1; i < t->count; i++)
		if (t->nodes[i].ask_ns < next->ask_ns)
			next = &t->nodes[i];
	return next;
}

static void *run_tickets(void *arg)
{
	struct tickets *t = arg;

	pthread_mutex_lock(&t->lock);
	while (!t->stop) {
		struct node_ticket *next = next_of(t);

		if (next->ask_ns <= clock_ns()) {
			renew(t, next);
		} else {
			const struct timespec until = clock_timespec(next->ask_ns);

			pthread_cond_timedwait(&t->changed, &t->lock, &until);
		}
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

static int start_thread(struct tickets *t, struct star_error *err)
{
	sigset_t all, before;
	int rc;

	base_signals_of_others(&all); /* signals are left to the program's own threads */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&t->thread, NULL, run_tickets, t);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc ? star_error_set(err, -rc, "cannot start a thread: %s; see ulimit -u", strerrordesc_np(rc)) : 0;
}

static void free_tickets(struct tickets *t)
{
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
	secure_free(t);
}

static void ask_now(struct tickets *t, struct node_ticket *node)
{
	node->failures = 0;
	node->ask_ns = clock_ns();
	pthread_cond_signal(&t->changed);
}

/* Sets the addresses at which the nodes are asked. With the lock, or before another thread knows of it. */
static void take_places(struct tickets *t, const struct layout *layout)
{
	for (uint32_t i = 0; i < t->count && i < layout->nodes_count; i++) {
		struct node_ticket *node = &t->nodes[i];

		if (!layout->nodes[i].control[0])
			continue; /* this layout does not have its address */
		/* Another node serves: it is asked at once, not when the former one would have been asked again. */
		if (!node->at_hand.until_ns && strcmp(node->control, layout->nodes[i].control) != 0)
			ask_now(t, node);
		memcpy(node->control, layout->nodes[i].control, sizeof(node->control));
		memcpy(node->other, layout->nodes[i].standby.control, sizeof(node->other));
		memcpy(node->other_host, layout->nodes[i].standby.data_host, sizeof(node->other_host));
		node->other_port = layout->nodes[i].standby.data_port;
		node->ask_other = false;
	}
}

void client_tickets_follow(struct star_cluster *cluster, const struct layout *layout)
{
	struct tickets *t = cluster->tickets;

	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	take_places(t, layout);
	pthread_mutex_unlock(&t->lock);
}

int client_tickets_start(struct star_cluster *cluster, const struct layout *layout, struct star_error *err)
{
	struct tickets *t;
	int rc;

	if (!layout->nodes[0].control[0])
		return 0;
	t = secure_alloc(sizeof(*t) + layout->nodes_count * sizeof(t->nodes[0]));
	if (!t)
		return star_error_set(err, -ENOMEM, "out of memory for tickets");
	t->cluster = cluster;
	t->count = layout->nodes_count;
	take_places(t, layout);
	prng_seed(&t->prng, clock_ns() ^ (uintptr_t)t);
	pthread_mutex_init(&t->lock, NULL);
	clock_condition_init(&t->changed);
	rc = start_thread(t, err);
	if (rc < 0)
		free_tickets(t);
	else
		cluster->tickets = t;
	return rc;
}

void client_tickets_stop(struct star_cluster *cluster)
{
	struct tickets *t = cluster->tickets;

	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->stop = true;
	if (t->asking)
		jsonrpc_interrupt(t->asking);
	pthread_cond_signal(&t->changed);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	free_tickets(t);
	cluster->tickets = NULL;
}
