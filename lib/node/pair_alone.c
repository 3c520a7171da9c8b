/* SPDX-License-Identifier: BSD-3-Clause */
/* A primary that has no standby any more: whether it may go on without, and how it does. */
#include "base/clock.h"
#include "base/log.h"
#include "node/pair.h"
#include "node/pair_register.h"

enum {
	ASK_MS = 300, /* for the answer of a standby that is gone */
	IDLE_MS = 200,
};

/* Either this node goes on alone, or the standby replaces it: whatever comes first. */
static bool is_alone(struct node_pair *p)
{
	bool alone;

	pthread_mutex_lock(&p->lock);
	alone = !p->deposed_by && !p->stopping && !p->again;
	if (alone)
		p->state = NODE_PAIR_SOLO;
	pthread_mutex_unlock(&p->lock);
	return alone;
}

void node_pair_go_alone(struct node_pair *p, const char *why)
{
	if (!is_alone(p))
		return;
	node_pair_set_lease(p, 0);
	node_pair_set_waits(p, false);
	node_pair_tell(p, NODE_PAIR_DETACH);
	node_pair_is(p, PAIR_PRIMARY, NODE_PAIR_SOLO, why);
	/* It may have gone on by the standby's own word; etcd is told when possible. */
	node_pair_register_want(p, PAIR_CLAIM_KEEPS);
	log_warn("the primary serves without a standby: %s", why);
}

/* Whether the standby certainly cannot take over, and has not: it answers that it lacks something; or no process is
 * there, and the lease has not ended, so that none can have been promoted that has died since. What looks like a
 * missing process may be a network problem: with etcd, only the standby's own word counts. */
static bool is_harmless(struct node_pair *p, struct star_error *err)
{
	struct pair_hello hello = node_pair_hello(p, PAIR_ASK);
	struct pair_answer answer;
	const int rc = node_pair_ask(p, &hello, ASK_MS, &answer, NULL, err);

	if (rc == 0 && answer.role == PAIR_PRIMARY && answer.generation > hello.generation)
		node_pair_yield(p, answer.generation);
	if (rc == 0)
		return answer.role == PAIR_STANDBY && !answer.whole;
	return rc == -ECONNREFUSED && !node_pair_has_register(p) &&
	       clock_ns() < __atomic_load_n(&p->rings[0]->lease_ns, __ATOMIC_RELAXED);
}

/*
 * Whether the primary may go on without having reached its standby: etcd allows it in time, or the configuration does.
 */
static bool may_be_alone(struct node_pair *p, uint64_t lost_us)
{
	const uint64_t alone_us = p->node->config->standby_alone_s * UINT64_C(1000000);

	if (node_pair_has_register(p))
		return node_pair_register_wanted(p, IDLE_MS, NULL) == 0;
	return alone_us && clock_us() - lost_us > alone_us;
}

void node_pair_lose_standby(struct node_pair *p, bool had_all, const char *why)
{
	const uint64_t lost_us = clock_us();
	struct star_error err = { 0 };

	node_pair_is(p, PAIR_PRIMARY, NODE_PAIR_LOST, why);
	if (had_all)
		node_pair_register_want(p, PAIR_CLAIM_ALONE);
	while (had_all && !node_pair_stops(p) && !node_pair_deposed_by(p)) {
		if (may_be_alone(p, lost_us) || node_pair_has_joined(p) || is_harmless(p, &err))
			break;
		node_pair_pause(p, IDLE_MS);
	}
	node_pair_go_alone(p, why);
}
