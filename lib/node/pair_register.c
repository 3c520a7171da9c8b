/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/pair_register.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/crc32.h"
#include "base/log.h"
#include "etcd/etcd.h"
#include "jsonrpc/member.h"
#include "jsonrpc/thread.h"

enum {
	TIMEOUT_MS = 1000, /* per member of etcd, ... */
	HURRY_MS = 150,	   /* ... and this long at first, as one may have died with the other node's machine */
	LOOK_MS = 1000,	   /* between reads of the register */
	AGAIN_MS = 100,	   /* between attempts to make a wanted change */
	PATIENCE_MS = 100, /* for a read in progress while a caller waits */
};
_Static_assert((int)CONFIG_ETCD_MAX <= (int)ETCD_ENDPOINTS_MAX, "what a configuration has, the client takes");

/* A claim, and its outcome. */
struct claim_slot {
	enum pair_claim claim;
	uint64_t made, answered; /* numbers of claims */
	int status;
	struct star_error err;
	struct pair_entry entry; /* claimed, or found in the register */
};

struct node_pair_register {
	struct etcd *etcd;
	pthread_t thread;
	bool threaded, stopping;
	/* under the pair's lock */
	struct claim_slot ask;	/* its outcome is reported after one attempt */
	bool asking;		/* a caller waits for that, and reads it before the next one may ask */
	struct claim_slot want; /* repeated until it succeeds */
	uint64_t look_us;	/* when an unrequested read began; 0: none is in progress */
	bool given_up;		/* that read was given up */
	struct star_error err;	/* why etcd, or the register, does not do what is wanted; code 0: no problem */
	struct pair_entry entry;
	bool seen, reachable;
	bool unsure; /* a claim to serve may succeed although its answer was lost */
	uint64_t requests, failures;
	const char *endpoint; /* the endpoint that has answered */
};

/* ---- one try ---- */

static int read_register(struct node_pair *p, struct etcd_value *value, struct pair_entry *entry,
			 struct star_error *err)
{
	const struct config *config = p->node->config;
	int rc = etcd_read(p->reg->etcd, value, err);

	*entry = (struct pair_entry){ 0 };
	if (rc < 0 || !value->there)
		return rc;
	return pair_entry_read(value->text, value->bytes, config->standby_listen, config->standby_peer, entry, err);
}

static bool is_of_new_life(enum pair_claim claim)
{
	return claim == PAIR_CLAIM_BEGINS || claim == PAIR_CLAIM_BACK || claim == PAIR_CLAIM_AGREED ||
	       claim == PAIR_CLAIM_TOLD || claim == PAIR_CLAIM_FOUND;
}

/*
 * A claim is recorded on disk first: a node that may have succeeded, and has died before it knew, must not restart as
 * the standby of the other one.
 */
static int swap_register(struct node_pair *p, enum pair_claim claim, uint64_t known, const struct etcd_value *value,
			 struct pair_entry *entry, struct star_error *err)
{
	const struct config *config = p->node->config;
	const bool leads = is_of_new_life(claim);
	/* The second of two claims completes what was recorded with the first. */
	const bool may_serve = leads || claim == PAIR_CLAIM_SERVES;
	struct pair_entry next;
	struct etcd_value now;
	char text[PAIR_ENTRY_MAX];
	uint64_t write;
	int rc = pair_entry_next(entry, claim, known, &next, err);

	pthread_mutex_lock(&p->lock);
	/* An earlier claim was allowed. The register has changed since, so that claim has failed. */
	if (rc < 0 && may_serve)
		p->reg->unsure = false;
	pthread_mutex_unlock(&p->lock);
	if (rc == 0 && (getrandom(&write, sizeof(write), 0) != sizeof(write) ||
			pair_entry_print(&next, config->standby_listen, config->standby_peer, write, text) < 0))
		rc = star_error_set(err, -EIO, "no text for etcd can be made");
	if (rc == 0 && leads)
		rc = node_pair_remember(p, PAIR_PRIMARY, next.generation, err);
	if (rc < 0)
		return rc;
	rc = etcd_swap(p->reg->etcd, value->revision, text, &now, err);
	pthread_mutex_lock(&p->lock);
	p->reg->unsure = rc == -EHOSTUNREACH && (may_serve || p->reg->unsure);
	pthread_mutex_unlock(&p->lock);
	/* A standby's recorded claim has failed. */
	if (rc == -ESTALE && leads && claim != PAIR_CLAIM_BEGINS && claim != PAIR_CLAIM_BACK &&
	    node_pair_remember(p, PAIR_STANDBY, known, err) < 0)
		return err->code;
	if (rc == -ESTALE)
		rc = star_error_set(err, -EAGAIN, "the register in etcd has changed meanwhile");
	if (rc == 0)
		*entry = next;
	return rc;
}

/* What a node that serves does by itself if the register does not say what the node is. */
static enum pair_claim repair_of(const struct node_pair *p, const struct pair_entry *entry)
{
	if (p->role != PAIR_PRIMARY || (entry->there && !entry->mine))
		return PAIR_CLAIM_NOTHING;
	if (p->state == NODE_PAIR_PAIRED)
		return entry->there && entry->paired ? PAIR_CLAIM_NOTHING : PAIR_CLAIM_PAIRED;
	if (p->state == NODE_PAIR_SYNCING)
		return entry->there ? PAIR_CLAIM_NOTHING : PAIR_CLAIM_KEEPS;
	if (p->state == NODE_PAIR_SOLO)
		return entry->there && !entry->paired ? PAIR_CLAIM_NOTHING : PAIR_CLAIM_KEEPS;
	return PAIR_CLAIM_NOTHING;
}

static int try_claim(struct node_pair *p, enum pair_claim claim, struct pair_entry *entry, struct star_error *err)
{
	struct etcd_value value;
	uint64_t known;
	int rc = read_register(p, &value, entry, err);

	pthread_mutex_lock(&p->lock);
	known = p->generation;
	if (claim == PAIR_CLAIM_NOTHING && rc == 0)
		claim = repair_of(p, entry);
	pthread_mutex_unlock(&p->lock);
	if (rc == 0 && claim != PAIR_CLAIM_NOTHING)
		rc = swap_register(p, claim, known, &value, entry, err);
	return rc;
}

/* ---- the thread ---- */

/* Under the pair's lock. */
static void note_try(struct node_pair *p, struct claim_slot *slot, uint64_t number, int rc,
		     const struct pair_entry *entry, const struct star_error *err)
{
	struct node_pair_register *r = p->reg;
	const bool reachable = rc != -EHOSTUNREACH;

	r->requests++;
	r->failures += !reachable;
	if (reachable != r->reachable || !r->seen) {
		if (reachable)
			log_info("etcd answers at %s", etcd_endpoint(r->etcd));
		else
			log_warn("etcd cannot be reached: %s", err->text);
	}
	r->seen = true;
	r->reachable = reachable;
	if (reachable)
		r->entry = *entry;
	r->endpoint = etcd_endpoint(r->etcd);
	r->err = rc < 0 ? *err : (struct star_error){ 0 };
	if (number == slot->made && slot->answered < number && (rc == 0 || slot == &r->ask)) {
		slot->answered = number;
		slot->status = rc;
		slot->err = r->err;
		slot->entry = *entry;
	}
	pthread_cond_broadcast(&p->changed);
}

/* Etcd says that the other node is replacing this one, or has, which this one did not know. The takeover may fail
 * there; this node gives up its state only when the other one itself says that it serves (node_pair_hold). Under
 * lock. */
static void look_deposed(struct node_pair *p, const struct pair_entry *entry)
{
	if (p->role != PAIR_PRIMARY || !entry->there || entry->mine || entry->generation <= p->generation ||
	    p->deposed_by >= entry->generation)
		return;
	log_warn("etcd says that the other node takes this one's place, under generation %" PRIu64, entry->generation);
	p->deposed_by = entry->generation;
	pthread_cond_broadcast(&p->changed);
}

static bool is_pending(const struct claim_slot *slot)
{
	return slot->answered < slot->made;
}

/* Waits until there is something to do. Under the pair's lock. */
static void register_waits(struct node_pair *p)
{
	const struct node_pair_register *r = p->reg;
	const uint64_t asks = r->ask.made, wants = r->want.made;
	const struct timespec until =
		clock_timespec(clock_ns() + (is_pending(&r->want) ? AGAIN_MS : LOOK_MS) * UINT64_C(1000000));

	while (!r->stopping && !is_pending(&r->ask) && r->ask.made == asks && r->want.made == wants &&
	       pthread_cond_timedwait(&p->changed, &p->lock, &until) == 0)
		;
}

static void *run_register(void *arg)
{
	struct node_pair *p = arg;
	struct node_pair_register *r = p->reg;

	pthread_mutex_lock(&p->lock);
	while (!r->stopping) {
		/* A caller waits for `ask`, so it comes first. */
		struct claim_slot *slot = is_pending(&r->ask) ? &r->ask : &r->want;
		const uint64_t number = slot->made;
		const enum pair_claim claim = is_pending(slot) ? slot->claim : PAIR_CLAIM_NOTHING;
		struct star_error err = { 0 };
		struct pair_entry entry;
		int rc;

		r->look_us = is_pending(slot) ? 0 : clock_us();
		r->given_up = false;
		pthread_mutex_unlock(&p->lock);
		rc = try_claim(p, claim, &entry, &err);
		pthread_mutex_lock(&p->lock);
		if (rc == -EHOSTUNREACH && r->given_up)
			continue;
		note_try(p, slot, number, rc, &entry, &err);
		if (rc != -EHOSTUNREACH)
			look_deposed(p, &entry);
		if (slot == &r->want || !is_pending(&r->want))
			register_waits(p);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* ---- what others ask ---- */

/* Under the pair's lock. */
static uint64_t put_claim(struct node_pair *p, struct claim_slot *slot, enum pair_claim claim)
{
	slot->claim = claim;
	slot->made++;
	pthread_cond_broadcast(&p->changed);
	return slot->made;
}

/* Also under that lock: whether nobody gets an answer any more. */
static bool is_ending(const struct node_pair *p)
{
	return p->stopping || p->again;
}

/*
 * The outcome belongs to the caller until it has read it. A standby that has lost its primary asks again after some
 * milliseconds; an operator's thread that is late would otherwise read that outcome instead of its own.
 */
int node_pair_register_ask(struct node_pair *p, enum pair_claim claim, uint64_t *generation, struct pair_entry *entry,
			   struct star_error *err)
{
	struct node_pair_register *r = p->reg;
	struct claim_slot *slot = r ? &r->ask : NULL;
	int rc = -ECANCELED;

	if (entry)
		*entry = (struct pair_entry){ 0 };
	if (!r)
		return 0;
	pthread_mutex_lock(&p->lock);
	while (r->asking && !is_ending(p)) /* another caller does */
		pthread_cond_wait(&p->changed, &p->lock);
	if (!is_ending(p)) {
		const uint64_t number = put_claim(p, slot, claim);

		r->asking = true;
		/* Each member of etcd has its timeout; then the thread has answered. */
		while (slot->answered < number && !is_ending(p))
			pthread_cond_wait(&p->changed, &p->lock);
		if (slot->answered == number)
			rc = slot->status;
		r->asking = false;
		pthread_cond_broadcast(&p->changed);
	}
	if (rc == 0 && generation)
		*generation = slot->entry.generation;
	if (rc == 0 && entry)
		*entry = slot->entry;
	if (rc == -ECANCELED)
		star_error_set(err, rc, "the node stops or restarts: etcd is not asked any more");
	else if (rc < 0)
		*err = slot->err;
	pthread_mutex_unlock(&p->lock);
	return rc;
}

void node_pair_register_want(struct node_pair *p, enum pair_claim claim)
{
	if (!p->reg)
		return;
	pthread_mutex_lock(&p->lock);
	put_claim(p, &p->reg->want, claim);
	pthread_mutex_unlock(&p->lock);
}

int node_pair_register_wanted(struct node_pair *p, uint32_t ms, struct star_error *err)
{
	const struct timespec until = clock_timespec(clock_ns() + ms * UINT64_C(1000000));
	struct node_pair_register *r = p->reg;
	int rc;

	if (!r)
		return 0;
	pthread_mutex_lock(&p->lock);
	while (ms && is_pending(&r->want) && !is_ending(p) &&
	       pthread_cond_timedwait(&p->changed, &p->lock, &until) == 0)
		;
	rc = is_pending(&r->want) ? -EINPROGRESS : 0;
	if (rc < 0 && err)
		star_error_set(err, rc, "%s", r->err.text);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

bool node_pair_register_is_unsure(struct node_pair *p)
{
	bool unsure;

	pthread_mutex_lock(&p->lock);
	unsure = p->reg && p->reg->unsure;
	pthread_mutex_unlock(&p->lock);
	return unsure;
}

bool node_pair_register_is_mine(struct node_pair *p)
{
	bool mine;

	if (!p->reg)
		return false;
	pthread_mutex_lock(&p->lock);
	while (!p->reg->seen && !p->stopping && !p->again)
		pthread_cond_wait(&p->changed, &p->lock);
	mine = p->reg->reachable && p->reg->entry.there && p->reg->entry.mine;
	pthread_mutex_unlock(&p->lock);
	return mine;
}

bool node_pair_has_register(const struct node_pair *p)
{
	return p->reg != NULL;
}

uint32_t node_pair_register_mark(const struct config *config)
{
	const char *key = config->standby_etcd_key;

	return config->standby_etcd_count ? base_crc32(key, strlen(key)) | 1 : 0;
}

json_t *node_pair_register_status(const struct node_pair *p)
{
	const struct node_pair_register *r = p->reg;
	const struct config *config = p->node->config;
	json_t *json;

	if (!r)
		return NULL;
	json = json_pack("{s:b, s:s, s:s, s:I, s:I}", "reachable", r->reachable, "key", config->standby_etcd_key,
			 "endpoint", r->endpoint ? r->endpoint : "", "requests", (json_int_t)r->requests, "failures",
			 (json_int_t)r->failures);
	if (r->entry.there) {
		json_object_set_new(json, "primary",
				    json_string(r->entry.mine ? config->standby_listen : config->standby_peer));
		json_object_set_new(json, "mode", json_string(pair_entry_mode(&r->entry)));
		json_object_set_new(json, "generation", jsonrpc_member_from_u64(r->entry.generation));
	}
	if (r->err.code && r->err.code != -EAGAIN)
		json_object_set_new(json, "error", jsonrpc_member_from_text(r->err.text));
	return json;
}

bool node_pair_register_figures(const struct node *node, struct node_pair_register_figures *figures)
{
	struct node_pair *p = node->pair;

	if (!p || !p->reg) /* it lives as long as the node */
		return false;
	pthread_mutex_lock(&p->lock);
	figures->requests = p->reg->requests;
	figures->failures = p->reg->failures;
	figures->reachable = p->reg->reachable;
	pthread_mutex_unlock(&p->lock);
	return true;
}

/* ---- begin and end ---- */

/* A read without an answer, because the network was cut a moment ago or a member's machine is gone, must not delay a
 * caller that has lost the other node: its request uses a connection of its own, at once. */
static bool register_goes_on(void *ctx)
{
	struct node_pair *p = ctx;
	struct node_pair_register *r = p->reg;
	bool on;

	pthread_mutex_lock(&p->lock);
	if (r->look_us && (is_pending(&r->ask) || is_pending(&r->want)) &&
	    clock_us() > r->look_us + PATIENCE_MS * UINT64_C(1000))
		r->given_up = true;
	on = !r->stopping && !r->given_up;
	pthread_mutex_unlock(&p->lock);
	return on;
}

int node_pair_register_begin(struct node_pair *p, struct star_error *err)
{
	const struct config *config = p->node->config;
	char endpoints[CONFIG_ETCD_MAX][ETCD_ENDPOINT_MAX];
	const char *list[CONFIG_ETCD_MAX];
	const struct etcd_options options = { .endpoints = list,
					      .endpoints_count = config->standby_etcd_count,
					      .key = config->standby_etcd_key,
					      .ca = config->standby_etcd_ca,
					      .certificate = config->standby_etcd_certificate,
					      .private_key = config->standby_etcd_private_key,
					      .timeout_ms = TIMEOUT_MS,
					      .hurry_ms = HURRY_MS,
					      .goes_on = register_goes_on,
					      .ctx = p };
	struct node_pair_register *r;
	int rc;

	if (!config->standby_etcd_count)
		return 0;
	for (uint32_t i = 0; i < config->standby_etcd_count; i++) {
		const struct config_address *at = &config->standby_etcd[i];

		snprintf(endpoints[i], sizeof(endpoints[i]), "%s", config_show(at->host, at->port).text);
		list[i] = endpoints[i];
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return star_error_set(err, -ENOMEM, "out of memory");
	r->etcd = etcd_create(&options, err);
	if (!r->etcd) {
		free(r);
		return err->code;
	}
	pthread_mutex_lock(&p->lock); /* somebody may request the status */
	p->reg = r;
	pthread_mutex_unlock(&p->lock);
	rc = jsonrpc_thread_start(&r->thread, "pair-etcd", run_register, p, err);
	r->threaded = rc == 0;
	return rc;
}

void node_pair_register_end(struct node_pair *p)
{
	struct node_pair_register *r = p->reg;

	if (!r)
		return;
	pthread_mutex_lock(&p->lock);
	r->stopping = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	if (r->threaded)
		pthread_join(r->thread, NULL);
	r->threaded = false;
}

void node_pair_register_close(struct node_pair *p)
{
	if (!p->reg)
		return;
	etcd_destroy(p->reg->etcd);
	free(p->reg);
	p->reg = NULL;
}

int node_pair_register_make_good(struct node_pair *p, uint64_t *generation, struct star_error *err)
{
	int rc = -EAGAIN;

	for (unsigned i = 0; i < NODE_PAIR_CLAIM_TRIES && rc == -EAGAIN; i++)
		rc = node_pair_register_ask(p, PAIR_CLAIM_SERVES, generation, NULL, err);
	return rc;
}
