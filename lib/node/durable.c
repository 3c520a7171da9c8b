/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * If replies wait until a change is on the standby or on disk, answers of the control plane do, too: a table that was
 * dropped must not come back with the node that replaces this one. A journal has the catalogue on disk before anybody
 * is told (node_journal_installed); a standby receives it.
 */
#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/gate.h"
#include "node/node.h"
#include "node/pair.h"

enum {
	/* Shorter than starctl waits for the answer of a pair, and longer than it takes until a lost standby is given
	 * up. */
	PAIR_US = 8000000,
	/* If PS task 0 asks other tasks, one after the other. */
	TASKS_US = CONTROL_DURABLE_US,
	LOOK_US = 500,
};

/* Waits if replies wait for a standby. */
static int pair_has_catalogue(struct node_pair *p, uint64_t version, struct star_error *err)
{
	const struct timespec until = clock_timespec(clock_ns() + PAIR_US * UINT64_C(1000));
	int rc = 0;

	pthread_mutex_lock(&p->lock);
	while (rc == 0 && p->waits && p->catalogue_there < version) {
		if (p->stopping || p->again || p->role != PAIR_PRIMARY)
			rc = star_error_set(err, -ECANCELED, "the node stops, or its standby replaces it");
		else if (pthread_cond_timedwait(&p->changed, &p->lock, &until) == ETIMEDOUT)
			rc = star_error_set(err, -ETIMEDOUT, "its standby does not answer%s%.100s",
					    p->why[0] ? ": " : "", p->why);
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

int node_catalogue_durable(void *ctx, uint64_t version, struct star_error *err)
{
	struct node *node = ctx;

	return node->pair ? pair_has_catalogue(node->pair, version, err) : 0;
}

struct written {
	struct reactor_message message;
	uint64_t at; /* a position in the stream */
	bool is_so;
};

static void look_how_far(void *ctx, struct reactor_message *message)
{
	const struct shard *shard = ctx;

	((struct written *)message)->at = shard->journal ? journal_durable_at(shard->journal) : 0;
}

static void look_whether_durable(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct written *w = (struct written *)message;

	w->is_so = !shard->journal || journal_durable(shard->journal) >= w->at;
}

static int shard_durable(struct shard *shard, uint64_t until_us, struct star_error *err)
{
	struct written w = { .message.run = look_how_far };
	int rc = node_ask_copy(shard, &w.message, sizeof(w), err);

	while (rc == 0) {
		w.message = (struct reactor_message){ .run = look_whether_durable };
		rc = node_ask_copy(shard, &w.message, sizeof(w), err);
		if (rc < 0 || w.is_so)
			break;
		if (clock_us() > until_us)
			return star_error_set(err, -ETIMEDOUT, "what reactor %u has changed is not yet %s",
					      shard->index, shard->node->pair ? "on its standby" : "on disk");
		usleep(LOOK_US);
	}
	return rc;
}

int node_rows_durable(void *ctx, struct star_error *err)
{
	struct node *node = ctx;
	const uint64_t until_us = clock_us() + (node->pair && node->config->ps_count == 1 ? PAIR_US : TASKS_US);
	int rc = 0;

	if (!node->pair && node->config->journal_durability == CONFIG_DURABILITY_ASYNC)
		return 0;
	for (unsigned i = 0; rc == 0 && i < node->shards_count; i++)
		rc = shard_durable(&node->shards[i], until_us, err);
	return rc;
}
