/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A primary that has closed for its standby: it was asked to, or etcd says that it is being replaced. It serves nobody,
 * changes nothing, and keeps its whole state until the other node says that it serves. Only then do those rows exist in
 * more than one process. If the takeover fails, this node serves again, under a generation that the other one cannot
 * have claimed: by itself if the other one says that it has nothing, or if etcd allows it; otherwise at an operator's
 * order.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/checkpoint.h"
#include "node/pair.h"
#include "node/pair_register.h"

enum {
	ASK_MS = 300,
	SOON_MS = 20, /* between two requests at first, ... */
	LATER_MS = 200,
	SOON_US = 2000000,	/* ... for this long */
	PATIENCE_US = 20000000, /* for a standby that is there and makes no progress, if etcd decides */
	TELL_US = 10000000,
};

/* The state of the node for which this one has closed. */
enum heir {
	HEIR_SERVES,
	HEIR_MAY,    /* can take over: it has everything */
	HEIR_CANNOT, /* it has restarted as a standby, and has nothing */
	HEIR_WAITS,  /* it has recorded that it serves, and has restarted since */
	HEIR_SILENT,
};

struct hold {
	uint64_t since_us, answered_us, told_us;
	uint64_t deposed_by; /* the generation for which it was asked to close */
	uint64_t heard;	     /* its generation, as it has reported; 0: it has not */
	bool refused;	     /* there is no process */
	char why[160];
};

static enum heir take_answer(const struct hold *h, const struct pair_answer *a, uint64_t generation)
{
	if (a->role == PAIR_PRIMARY)
		return h->heard > generation ? HEIR_SERVES : HEIR_MAY;
	if (a->role == PAIR_WAITING || h->heard > generation)
		return a->role == PAIR_PROMOTING ? HEIR_MAY : HEIR_WAITS;
	/* A node that gives up its state, because this one has all of it, says so when it restarts. */
	if (a->role == PAIR_DEPOSED || (a->role == PAIR_STANDBY && !a->whole))
		return HEIR_CANNOT;
	return HEIR_MAY;
}

static enum heir ask_heir(struct node_pair *p, struct hold *h)
{
	const struct pair_hello hello = node_pair_hello(p, PAIR_ASK);
	struct star_error err = { 0 };
	struct pair_answer answer;
	int rc;

	h->deposed_by = node_pair_deposed_by(p);
	rc = node_pair_ask(p, &hello, ASK_MS, &answer, NULL, &err);
	h->refused = rc == -ECONNREFUSED;
	if (rc < 0) {
		snprintf(h->why, sizeof(h->why), "it cannot be asked: %.130s", err.text);
		return HEIR_SILENT;
	}
	h->answered_us = clock_us();
	h->heard = answer.generation;
	switch (take_answer(h, &answer, hello.generation)) {
	case HEIR_SERVES:
		return HEIR_SERVES;
	case HEIR_CANNOT:
		snprintf(h->why, sizeof(h->why), "it has restarted, and has nothing");
		return HEIR_CANNOT;
	case HEIR_WAITS:
		snprintf(h->why, sizeof(h->why),
			 "it has restarted and lost its state: nobody knows whether it had served");
		return HEIR_WAITS;
	default:
		snprintf(h->why, sizeof(h->why), "it does not serve yet");
		return HEIR_MAY;
	}
}

/* Whether it tries by itself. With etcd a change of the register decides, whatever the other node is about to do. */
static bool may_try(struct node_pair *p, const struct hold *h, enum heir heir)
{
	const uint64_t now_us = clock_us();

	if (!node_pair_has_register(p))
		return heir == HEIR_CANNOT;
	if (heir == HEIR_SILENT)
		return h->refused || now_us - h->answered_us > 2000 * (uint64_t)p->node->config->standby_lease_ms;
	return heir != HEIR_MAY || now_us - h->since_us > PATIENCE_US;
}

/* From here on nobody is told that it has stopped. False: somebody was told since the other node was asked. */
static bool keep_others_off(struct node_pair *p, const struct hold *h)
{
	bool off;

	pthread_mutex_lock(&p->lock);
	off = p->deposed_by == h->deposed_by && !p->again && !p->stopping;
	p->takes_back = off;
	pthread_mutex_unlock(&p->lock);
	return off;
}

/* The generation under which it serves again: recorded on disk and, with etcd, in the register. *sure: the other node
 * has not served meanwhile. */
static int claim_back(struct node_pair *p, const struct hold *h, bool told, uint64_t *generation, bool *sure,
		      struct star_error *err)
{
	uint64_t last = p->generation;
	int rc;

	last = h->deposed_by > last ? h->deposed_by : last;
	last = h->heard > last ? h->heard : last;
	*generation = last + 1;
	rc = node_pair_register_ask(p, PAIR_CLAIM_BACK, generation, NULL, err);
	*sure = rc == 0 && node_pair_has_register(p);
	if (rc == -ENOENT && told)
		rc = node_pair_register_ask(p, PAIR_CLAIM_BEGINS, generation, NULL, err);
	if (rc == 0 && !node_pair_has_register(p))
		rc = node_pair_remember(p, PAIR_PRIMARY, *generation, err);
	return rc;
}

/* Workers must not take it for the incarnation that the other node continued, if that has served. */
static void be_another(struct node_pair *p)
{
	uint32_t random;

	if (getrandom(&random, sizeof(random), 0) == sizeof(random))
		p->node->incarnation = random | 1;
}

static void open_again(struct node_pair *p, const struct hold *h, uint64_t generation)
{
	struct star_error err = { 0 };
	char why[sizeof(h->why)];
	bool said = false;

	log_warn("the other node has not taken this one's place (%s): this one serves again, generation %" PRIu64,
		 h->why, generation);
	pthread_mutex_lock(&p->lock);
	p->role = PAIR_PRIMARY;
	p->state = NODE_PAIR_SOLO;
	p->generation = generation;
	p->deposed_by = 0;
	p->closed = p->closed_whole = p->takes_back = false;
	pthread_mutex_unlock(&p->lock);
	snprintf(why, sizeof(why), "it has taken its place back: %.120s", h->why);
	node_pair_go_alone(p, why);
	while (!node_pair_stops(p) && control_pair_lead_again(p->control, generation, &err) < 0) {
		if (!said)
			log_warn("the node does not serve again yet: %s", err.text);
		said = true;
		node_pair_pause(p, LATER_MS);
	}
}

/* 0: it serves again. */
static int take_back(struct node_pair *p, const struct hold *h, enum heir heir, bool told, struct star_error *err)
{
	uint64_t generation;
	bool sure;
	int rc;

	if (!keep_others_off(p, h))
		return star_error_set(err, -EAGAIN,
				      "the other node has asked for this one's place again: run the command once more");
	rc = claim_back(p, h, told, &generation, &sure, err);
	if (rc < 0) {
		pthread_mutex_lock(&p->lock);
		p->takes_back = false;
		pthread_mutex_unlock(&p->lock);
		return rc;
	}
	if (heir != HEIR_CANNOT && !sure)
		be_another(p);
	open_again(p, h, generation);
	return 0;
}

/* An operator orders this node to serve. True: it does. */
static bool obey(struct node_pair *p, const struct hold *h, enum heir heir)
{
	struct star_error err = { 0 };
	int rc;

	if (heir == HEIR_SERVES)
		rc = star_error_set(&err, -EALREADY, "the other node serves: this one becomes its standby");
	else if (heir == HEIR_MAY)
		rc = star_error_set(
			&err, -EAGAIN,
			"the other node has everything, and may be about to serve: promote that one, or stop it first");
	else
		rc = take_back(p, h, heir, true, &err);
	pthread_mutex_lock(&p->lock);
	p->promotion.back = rc == 0;
	p->promotion.whole = rc == 0;
	pthread_mutex_unlock(&p->lock);
	node_pair_end_promotion(p, rc, &err);
	return rc == 0;
}

static const char *next_of(const struct node_pair *p, int rc)
{
	if (!node_pair_has_register(p))
		return "starctl promote on it makes it serve";
	/* Nobody knows what changes that node has since. */
	return rc == -ESTALE ? "if that is lost for good, delete its key in etcd, and promote this one"
			     : "asks etcd for its place";
}

static void tell_held(struct node_pair *p, struct hold *h, int rc, const char *trouble)
{
	const char *next = next_of(p, rc);
	char text[160];

	snprintf(text, sizeof(text), "closed for the other node, and keeps all (%s): %.*s", next,
		 rc == -ESTALE ? 40 : 75, trouble[0] ? trouble : h->why);
	node_pair_is(p, PAIR_DEPOSED, NODE_PAIR_LOST, text);
	control_pair_waits(p->control, text);
	if (clock_us() - h->told_us < TELL_US)
		return;
	h->told_us = clock_us();
	log_warn("this node has closed for the other one, which has not reported that it serves (%s); it keeps all "
		 "that it had, and %s%s%s",
		 h->why, next, trouble[0] ? ": " : "", trouble);
}

void node_pair_hold(struct node_pair *p)
{
	struct hold h = { .since_us = clock_us(), .answered_us = clock_us(), .told_us = clock_us() };

	node_pair_hang_up(p);
	while (!node_pair_stops(p)) {
		const bool asked = node_pair_is_promoted(p);
		const enum heir heir = ask_heir(p, &h);
		struct star_error err = { 0 };
		int rc = 0;

		/*
		 * The node that serves may be reachable for everybody but this one, and writes its checkpoints there.
		 */
		node_checkpoint_leave(p->node->checkpoint);
		if (asked && obey(p, &h, heir))
			return;
		if (heir == HEIR_SERVES) {
			node_pair_yield(p, h.heard);
			return;
		}
		if (may_try(p, &h, heir)) {
			rc = take_back(p, &h, heir, false, &err);
			if (rc == 0)
				return;
		}
		/* The other node had completed its claim, and has died since. It may have served, and continues with
		 * what its disks have. */
		if (rc == -ESTALE && heir == HEIR_WAITS) {
			node_pair_yield(p, h.heard);
			return;
		}
		if (clock_us() - h.since_us > SOON_US || rc < 0)
			tell_held(p, &h, rc, err.text);
		node_pair_pause(p, clock_us() - h.since_us > SOON_US ? LATER_MS : SOON_MS);
	}
}
