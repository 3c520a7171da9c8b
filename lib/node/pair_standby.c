/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The standby's side: receives the primary's snapshot and streams, applies them, and takes over when it is told to. It
 * has one primary in its life: when the connection ends, it keeps its state as long as that may be needed, and
 * restarts, empty, when a primary is there again.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/apply.h"
#include "node/checkpoint.h"
#include "node/journal.h"
#include "node/pair.h"
#include "node/pair_register.h"

enum {
	JOIN_MS = 3000,
	AGAIN_MS = 200,
	LOST_MS = 20, /* between checks whether the lease has ended */
	WAIT_US = 10000,
	END_MS = 3000, /* for what a deposed primary has sent to arrive */
	ASK_MS = 300,
	DEPOSE_MS = 12000,
	PROMOTE_US = 60000000,
	READS_MAX = 64, /* before it acknowledges */
	ANSWER_US = 1000000,
};

struct follower {
	struct node_pair *p;
	struct pair_link *link; /* NULL: it has ended */
	struct pair_receiver *receiver;
	struct node_apply *apply;
	uint64_t acked[WIRE_REACTORS_MAX];
	uint32_t reactors; /* the primary's */
	bool whole_said, leased;
	bool cannot;	  /* what came could not be applied: the primary is told why */
	bool mute;	  /* it is about to take over, so it does not renew the primary's lease any more */
	uint64_t came_us; /* when it last received anything */
	char told[160];	  /* why it does not take over, as last logged */
};

/* ---- what comes, into the node ---- */

static int take_catalogue(void *ctx, const char *text, size_t bytes, struct star_error *err)
{
	struct follower *f = ctx;
	json_error_t why = { 0 };
	json_t *json = json_loadb(text, bytes, 0, &why);
	uint32_t epoch = 0;
	int rc;

	if (!json)
		return star_error_set(err, -EBADMSG, "the primary's catalogue cannot be read: %.100s", why.text);
	/* Rows of objects that may be dropped now are loaded before. */
	rc = node_apply_flush(f->apply, err);
	if (rc == 0)
		rc = control_pair_take(f->p->control, json, &epoch, err);
	json_decref(json);
	if (rc == 0 && f->p->node->config->ps_count > 1)
		control_pair_place(f->p->control, &f->p->node->layout);
	pthread_mutex_lock(&f->p->lock);
	f->p->primary_epoch = epoch;
	pthread_mutex_unlock(&f->p->lock);
	return rc;
}

static int load_block(void *ctx, uint32_t reactor, const void *runs, uint32_t bytes, struct star_error *err)
{
	struct follower *f = ctx;
	const uint8_t *at = runs, *end = at + bytes;
	int rc = 0;

	while (rc == 0 && at < end) {
		const struct checkpoint_run *run = (const struct checkpoint_run *)at;
		const uint64_t left = (uint64_t)(end - at);
		uint64_t all;

		if (left < sizeof(*run) || run->row_bytes < sizeof(uint64_t) || run->row_bytes % sizeof(uint64_t) ||
		    run->row_bytes > JOURNAL_RECORD_MAX || run->count == 0)
			return star_error_set(err, -EBADMSG, "the primary's snapshot has a run of %u rows of %u bytes",
					      left < sizeof(*run) ? 0 : run->count,
					      left < sizeof(*run) ? 0 : run->row_bytes);
		all = sizeof(*run) + (uint64_t)run->count * run->row_bytes;
		if (all > left)
			return star_error_set(err, -EBADMSG, "the primary's snapshot has a run that is cut short");
		rc = node_apply_run(f->apply, reactor, run, run + 1, err);
		at += all;
	}
	return rc;
}

static int take_records(void *ctx, uint32_t reactor, void *records, size_t bytes, struct star_error *err)
{
	struct follower *f = ctx;
	int rc = 0;

	for (size_t at = 0; rc == 0 && at < bytes;) {
		struct journal_record *record = (struct journal_record *)((uint8_t *)records + at);

		at += record->bytes;
		rc = node_apply_record(f->apply, reactor, record, 0, false, err);
	}
	return rc;
}

/* ---- the connection ---- */

static int say_frame(struct follower *f, unsigned kind, unsigned reactor, uint64_t position)
{
	struct pair_frame frame = {
		.magic = PAIR_FRAME_MAGIC, .kind = (uint16_t)kind, .reactor = (uint16_t)reactor, .position = position
	};

	frame.checksum = pair_frame_checksum(&frame, NULL);
	return pair_link_write_all(f->link, &frame, sizeof(frame), clock_us() + ANSWER_US);
}

/* Tells the primary how much it has received. */
static int acknowledge(struct follower *f)
{
	const uint64_t ping = pair_receiver_ping(f->receiver);
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < f->reactors; i++) {
		const struct pair_stream *s = pair_receiver_stream(f->receiver, i);

		if (!s->begun || s->position == f->acked[i])
			continue;
		f->acked[i] = s->position;
		rc = say_frame(f, PAIR_ACK, i, s->position);
	}
	if (rc == 0 && ping && !f->mute) {
		pthread_mutex_lock(&f->p->lock);
		f->p->heard_us = clock_us();
		pthread_mutex_unlock(&f->p->lock);
		rc = say_frame(f, PAIR_PONG, 0, ping);
	}
	return rc;
}

static void note_figures(struct follower *f)
{
	uint64_t held = 0, bytes = 0;
	bool sums = false;

	for (uint32_t i = 0; i < f->reactors; i++) {
		const struct pair_stream *s = pair_receiver_stream(f->receiver, i);

		held += s->used;
		bytes += s->position;
		sums |= s->sums;
	}
	pthread_mutex_lock(&f->p->lock);
	f->p->lag_bytes = held;
	f->p->bytes = bytes;
	f->p->rows = node_apply_rows(f->apply);
	f->p->primary_sums = sums;
	pthread_mutex_unlock(&f->p->lock);
}

static int note_whole(struct follower *f, struct star_error *err)
{
	int rc = 0;

	if (!f->whole_said && pair_receiver_whole(f->receiver)) {
		rc = node_apply_flush(f->apply, err);
		f->whole_said = rc == 0;
		if (rc == 0 && say_frame(f, PAIR_WHOLE, 0, 0) < 0)
			rc = star_error_set(err, -ECONNRESET, "the connection has broken");
	}
	return rc;
}

/* It has everything, and may take over, as the primary makes changes only under a lease. */
static void note_leased(struct follower *f)
{
	if (f->leased || !f->whole_said || !pair_receiver_leased(f->receiver))
		return;
	f->leased = true;
	pthread_mutex_lock(&f->p->lock);
	f->p->promotable = true;
	pthread_mutex_unlock(&f->p->lock);
	node_pair_is(f->p, PAIR_STANDBY, NODE_PAIR_PAIRED, "");
	control_pair_waits(f->p->control, "a standby, up to date with its primary");
	log_info("the standby is up to date: %" PRIu64 " rows were received", node_apply_rows(f->apply));
}

/* Reads some of what has arrived. 0, or a negative errno: the connection is useless. */
static int receive(struct follower *f, struct star_error *err)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < READS_MAX; i++) {
		size_t room;
		void *to = pair_receiver_room(f->receiver, &room);
		const ssize_t n = pair_link_read(f->link, to, room);

		if (n == -EAGAIN || n == -EINTR) {
			if (i == 0)
				pair_link_wait(f->link, 0, WAIT_US, -1);
			break;
		}
		f->came_us = clock_us();
		rc = n > 0 ? pair_receiver_came(f->receiver, (size_t)n, err)
			   : star_error_set(err, n ? (int)n : -ECONNRESET, "the primary's connection has ended");
		f->cannot |= n > 0 && rc < 0;
	}
	if (rc == 0) {
		rc = node_apply_send(f->apply, err);
		f->cannot |= rc < 0;
	}
	if (rc == 0)
		note_leased(f); /* before the primary hears so: from then on it says that the two are a pair */
	if (rc == 0 && acknowledge(f) < 0)
		rc = star_error_set(err, -ECONNRESET, "the connection has broken");
	note_figures(f);
	return rc == 0 ? note_whole(f, err) : rc;
}

static int join(struct follower *f, struct star_error *err)
{
	struct node_pair *p = f->p;
	const struct config *config = p->node->config;
	const struct pair_receiver_ops ops = {
		.ctx = f, .catalogue = take_catalogue, .block = load_block, .records = take_records
	};
	struct pair_hello hello = node_pair_hello(p, PAIR_JOIN);
	struct pair_answer answer;
	int rc = node_pair_ask(p, &hello, JOIN_MS, &answer, &f->link, err);

	if (rc < 0)
		return rc;
	if (answer.partitions != config->partitions || answer.reactors < 1 || answer.reactors > WIRE_REACTORS_MAX ||
	    answer.role != PAIR_PRIMARY || answer.generation < p->generation)
		return star_error_set(err, -EPROTO,
				      "what answered is not a primary that this node can follow: starctl status, on "
				      "both nodes, shows what they are");
	rc = node_pair_remember(p, PAIR_STANDBY, answer.generation, err);
	if (rc < 0)
		return rc;
	f->reactors = answer.reactors;
	f->apply = node_apply_create(p->node, 0, p->node->shards_count, "what the primary sent", err);
	f->receiver = f->apply ? pair_receiver_create(config->standby_directory, answer.reactors,
						      (uint64_t)config->standby_hold_mib << 20, &ops, err)
			       : NULL;
	if (!f->receiver)
		return err->code;
	pthread_mutex_lock(&p->lock);
	p->generation = answer.generation;
	p->primary_incarnation = answer.incarnation;
	p->primary_lease_ms = answer.lease_ms;
	p->primary_same = node_apply_from(f->apply, answer.reactors, answer.partitions, 0, answer.reactors);
	p->heard_us = clock_us();
	p->syncs++;
	pthread_mutex_unlock(&p->lock);
	log_info("following the primary at %s, generation %" PRIu64, answer.control, answer.generation);
	node_pair_is(p, PAIR_STANDBY, NODE_PAIR_SYNCING, "it is not up to date yet");
	return 0;
}

/* ---- promotion ---- */

static bool is_asked(struct node_pair *p, struct node_pair_promotion *promotion)
{
	pthread_mutex_lock(&p->lock);
	*promotion = p->promotion;
	pthread_mutex_unlock(&p->lock);
	return promotion->asked;
}

/* When the primary's lease has certainly ended. A tenth is added, because the two clocks may differ in speed. */
static uint64_t lease_over_us(const struct node_pair *p)
{
	return p->heard_us + p->primary_lease_ms * UINT64_C(1100) + 10000;
}

/* Receives the rest of what the primary sends; if it could not be asked to stop, until its lease has ended. */
static void hear_out(struct follower *f, const struct node_pair_promotion *promotion)
{
	struct node_pair *p = f->p;
	const uint64_t begun_us = clock_us();
	struct star_error err = { 0 };

	f->mute = true;
	for (;;) {
		const uint64_t now_us = clock_us();
		uint64_t until_us = begun_us + END_MS * UINT64_C(1000);

		if (!promotion->deposed)
			until_us = lease_over_us(p);
		if (now_us >= until_us || (f->receiver && pair_receiver_ended(f->receiver)) || node_pair_stops(p))
			break;
		if (promotion->deposed && !f->link)
			break;
		if (!f->link) {
			node_pair_pause(p, 1);
		} else if (receive(f, &err) < 0) {
			pair_link_close(f->link);
			f->link = NULL;
		}
	}
	pthread_mutex_lock(&p->lock);
	p->promotion.waited_ms = (clock_us() - begun_us) / 1000;
	p->promotion.whole = pair_receiver_ended(f->receiver);
	pthread_mutex_unlock(&p->lock);
}

static int take_place(struct follower *f, const struct node_pair_promotion *promotion, struct star_error *err)
{
	struct node_pair *p = f->p;
	struct node *node = p->node;
	uint64_t generation = p->generation + 1, began, passed_over;
	bool ended;
	int rc = -EAGAIN;

	hear_out(f, promotion);
	/* What the primary had requested before it stopped may be written meanwhile. */
	for (unsigned i = 0; i < NODE_PAIR_CLAIM_TRIES && (i == 0 || (rc == -EAGAIN && promotion->deposed)); i++)
		rc = node_pair_register_ask(p,
					    promotion->deposed ? PAIR_CLAIM_AGREED
					    : promotion->found ? PAIR_CLAIM_FOUND
							       : PAIR_CLAIM_TOLD,
					    &generation, NULL, err);
	/* The state is nowhere else now: if the new role cannot be recorded, it stays a standby. With etcd it was
	 * recorded before etcd was asked. */
	if (rc == 0 && !node_pair_has_register(p))
		rc = node_pair_remember(p, PAIR_PRIMARY, generation, err);
	if (rc < 0)
		return rc;
	ended = pair_receiver_ended(f->receiver);
	note_figures(f);
	rc = ended ? 0 : node_apply_life_end(f->apply, 1, err);
	if (rc == 0)
		rc = node_apply_flush(f->apply, err);
	if (rc == 0 && !p->primary_same)
		rc = node_trim_tables(node, err);
	if (rc < 0)
		return rc;
	/* A disk may be slow. */
	node_pair_own_checkpoints(p);
	if (config_shares_history(node->config)) {
		node_journal_inherits(node, p->primary_epoch);
		began = control_pair_look(p->control, &passed_over);
		node_journal_passes_over(node, began, passed_over);
	}
	rc = node_pair_register_make_good(p, &generation, err);
	if (rc < 0)
		return rc;
	node_pair_is(p, PAIR_PROMOTING, NODE_PAIR_BEGINS, "it is about to serve");
	if (p->primary_same && !p->primary_sums)
		node->incarnation = p->primary_incarnation;
	else
		log_info("workers have to open the cluster again: %s",
			 p->primary_sums ? "sums of gradients were opened, which a standby does not have"
					 : "the node has another number of reactors than its primary had");
	__atomic_store_n(&node->restored, true, __ATOMIC_RELEASE);
	return node_pair_lead(p, generation, false, err);
}

static void stay_standby(struct follower *f, const struct star_error *err)
{
	char why[sizeof(f->told)];

	snprintf(why, sizeof(why), "it does not take over: %.130s", err->text);
	if (strcmp(f->told, why) != 0)
		log_error("the standby does not take over: %s", err->text);
	strcpy(f->told, why);
	if (!f->link)
		node_pair_is(f->p, PAIR_STANDBY, NODE_PAIR_LOST, why);
}

/* True: it is the primary now. */
static bool promote_follower(struct follower *f, const struct node_pair_promotion *promotion)
{
	struct node_pair *p = f->p;
	struct star_error err = { 0 };
	const int rc = take_place(f, promotion, &err);

	if (rc == 0) {
		/* On its own thread, as a disk may be slow; and before a standby may join, which checks the journal. */
		node_journal_take_over(p->node, p->control);
		node_pair_is(p, PAIR_PRIMARY, NODE_PAIR_SOLO, "it has taken its primary's place, and has no standby");
	} else if (p->role == PAIR_PROMOTING) {
		node_fail(p->node, &err);
	} else {
		stay_standby(f, &err);
	}
	pthread_mutex_lock(&p->lock);
	/* An operator's order that has come meanwhile is another one, unless this promotion has fulfilled it. */
	if (rc == 0 || p->promotion.found == promotion->found) {
		p->promotion.asked = false;
		p->promotion.done = true;
		p->promotion.status = rc;
		p->promotion.err = err;
	}
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	return rc == 0;
}

/* 0; or an error if the primary answers that it must not be replaced. */
static int depose(struct node_pair *p, struct node_pair_promotion *promotion, struct star_error *err)
{
	struct pair_hello hello = node_pair_hello(p, PAIR_DEPOSE);
	struct pair_answer answer = { 0 };

	hello.generation++;
	pair_hello_seal(&hello);
	pthread_mutex_lock(&p->lock);
	p->deposing = true;
	pthread_mutex_unlock(&p->lock);
	promotion->deposed = node_pair_ask(p, &hello, DEPOSE_MS, &answer, NULL, err) == 0;
	return answer.status == -EAGAIN || answer.status == -ESTALE ? answer.status : 0;
}

/* Under lock: it had closed for the other node, and still has its whole state. */
static bool is_holding(const struct node_pair *p)
{
	return p->role == PAIR_DEPOSED && p->closed && !p->again;
}

static int check_promotable(struct node_pair *p, struct star_error *err)
{
	if (p->role == PAIR_PRIMARY)
		return star_error_set(err, -EALREADY, "the node is the primary");
	if (!is_holding(p) && p->role != PAIR_WAITING && (p->role != PAIR_STANDBY || !p->promotable))
		return star_error_set(err, -EAGAIN, "the node does not have all that its primary has: %s", p->why);
	/* A standby without its primary tries again and again by itself; an operator need not wait for that. */
	return p->promotion.asked && !p->promotion.found ? star_error_set(err, -EBUSY, "it is being promoted already")
							 : 0;
}

int node_pair_promote(struct node *node, json_t **result, struct star_error *err)
{
	struct node_pair *p = node->pair;
	const struct timespec end = clock_timespec(clock_ns() + PROMOTE_US * UINT64_C(1000));
	struct node_pair_promotion promotion = { .asked = true };
	const uint32_t before = node->incarnation;
	struct star_error why = { 0 };
	uint64_t silent_ms;
	bool again;
	int rc;

	pthread_mutex_lock(&p->lock);
	rc = check_promotable(p, err);
	promotion.back = is_holding(p);
	silent_ms = p->heard_us ? (clock_us() - p->heard_us) / 1000 : 0;
	pthread_mutex_unlock(&p->lock);
	/* Before the primary is asked to stop. */
	if (rc == 0)
		rc = node_pair_register_ask(p, PAIR_CLAIM_NOTHING, NULL, NULL, err);
	if (rc < 0)
		return rc;
	if (!promotion.back) /* otherwise its own thread asks the other node for its state */
		rc = depose(p, &promotion, &why);
	if (rc < 0) {
		pthread_mutex_lock(&p->lock);
		p->deposing = false;
		pthread_cond_broadcast(&p->changed);
		pthread_mutex_unlock(&p->lock);
		return star_error_set(err, rc, "%s", why.text);
	}
	if (!promotion.deposed && !promotion.back)
		log_warn("the other node could not be asked to stop, and must be dead, or without its lease: %s",
			 why.text);
	pthread_mutex_lock(&p->lock);
	p->deposing = false;
	/* Meanwhile it may have taken over by itself, or given up, and would not see an order any more. */
	if (p->role != PAIR_PRIMARY && (p->role != PAIR_STANDBY || p->promotable)) {
		p->promotion = promotion;
		p->promotion_read = false;
	}
	pthread_cond_broadcast(&p->changed);
	while (!p->promotion.done && (p->role != PAIR_PRIMARY || promotion.back) && !p->stopping && !p->again &&
	       pthread_cond_timedwait(&p->changed, &p->lock, &end) != ETIMEDOUT)
		;
	if (p->role == PAIR_PRIMARY && !promotion.back) {
		p->promotion.asked = false;
		p->promotion.done = true;
	}
	promotion = p->promotion;
	p->promotion_read = true;
	again = p->again && p->role != PAIR_PRIMARY;
	pthread_mutex_unlock(&p->lock);
	if (again)
		return star_error_set(err, -EAGAIN, "the node restarts as the other one's standby");
	if (!promotion.done)
		return star_error_set(err, -ETIMEDOUT, "the promotion takes longer than expected: see the node's log");
	if (promotion.status < 0)
		return star_error_set(err, promotion.status, "%s", promotion.err.text);
	*result = json_pack("{s:I, s:b, s:b, s:I, s:I, s:b}", "generation", (json_int_t)p->generation, "deposed",
			    promotion.deposed, "whole", promotion.whole, "waited_ms", (json_int_t)promotion.waited_ms,
			    "silent_ms", (json_int_t)silent_ms, "inherits",
			    promotion.back ? node->incarnation == before : node->incarnation != p->own_incarnation);
	if (promotion.back)
		json_object_set_new(*result, "took_back", json_true());
	else if (!promotion.deposed)
		json_object_set_new(*result, "not_deposed", json_string(why.text));
	return 0;
}

/* ---- a standby's life ---- */

/* It does not hear from its primary, which changes nothing any more unless etcd has allowed it: so it asks etcd. */
static bool replace_lost(struct follower *f)
{
	struct node_pair *p = f->p;
	struct node_pair_promotion promotion = { .asked = true, .found = true };
	bool over;

	if (!node_pair_has_register(p))
		return false;
	pthread_mutex_lock(&p->lock);
	over = p->promotable && !p->promotion.asked && p->promotion_read && clock_us() >= lease_over_us(p);
	if (over)
		p->promotion = promotion;
	pthread_mutex_unlock(&p->lock);
	return over && promote_follower(f, &promotion);
}

/* Whether the primary is being asked to stop. Its stream and connection end before its answer arrives. It is not asked
 * for its role then, because it would not answer any more. */
static bool is_deposing(struct node_pair *p)
{
	bool deposing;

	pthread_mutex_lock(&p->lock);
	deposing = p->deposing;
	pthread_mutex_unlock(&p->lock);
	return deposing;
}

/* How long the primary is asked for its role: if it may have died silently, no longer than its lease. */
static uint32_t ask_ms(struct node_pair *p)
{
	const uint64_t now_us = clock_us();
	uint64_t over_us;

	if (!node_pair_has_register(p))
		return ASK_MS;
	pthread_mutex_lock(&p->lock);
	over_us = lease_over_us(p);
	pthread_mutex_unlock(&p->lock);
	if (over_us <= now_us + LOST_MS * UINT64_C(1000))
		return LOST_MS;
	return RTE_MIN((uint32_t)((over_us - now_us) / 1000), (uint32_t)ASK_MS);
}

/* Waits for an order to take over, or for this long. */
static void await_order(struct node_pair *p, uint32_t ms)
{
	const struct timespec until = clock_timespec(clock_ns() + ms * UINT64_C(1000000));

	pthread_mutex_lock(&p->lock);
	while (!p->stopping && !p->again && !p->promotion.asked &&
	       pthread_cond_timedwait(&p->changed, &p->lock, &until) == 0)
		;
	pthread_mutex_unlock(&p->lock);
}

/* It was to take over, and could not, for example because of a full disk. The primary, which has closed for it, still
 * has everything, and serves again when it hears that this node does not take over any more. */
static bool gives_up(struct node_pair *p, const struct pair_answer *answer)
{
	struct star_error why;
	bool gives;

	if (answer->role != PAIR_DEPOSED || !answer->whole)
		return false;
	pthread_mutex_lock(&p->lock);
	gives = p->promotion.done && p->promotion.status < 0 && !p->promotion.asked && !p->deposing;
	if (gives)
		p->promotable = false;
	why = p->promotion.err;
	pthread_mutex_unlock(&p->lock);
	if (gives)
		log_warn("this node does not take the place of its primary, which still has everything and is to serve "
			 "again: %s",
			 why.text);
	return gives;
}

/* Its state may be needed until a primary is there again, which it then follows from the beginning. False: it has begun
 * to serve, or stops. */
static void wait_alone(struct follower *f)
{
	struct node_pair *p = f->p;

	while (!node_pair_stops(p)) {
		struct pair_hello hello = node_pair_hello(p, PAIR_ASK);
		struct node_pair_promotion promotion;
		struct pair_answer answer;
		struct star_error err = { 0 };

		if (is_asked(p, &promotion)) {
			if (promote_follower(f, &promotion))
				return;
			continue;
		}
		/* A claim whose outcome is unknown must not be given away: it asks etcd again first. */
		if (!is_deposing(p) && !node_pair_register_is_unsure(p) &&
		    node_pair_ask(p, &hello, ask_ms(p), &answer, NULL, &err) == 0 &&
		    (answer.role == PAIR_PRIMARY || gives_up(p, &answer))) {
			node_pair_yield(p, answer.generation);
			return;
		}
		if (replace_lost(f))
			return;
		await_order(p, node_pair_has_register(p) ? LOST_MS : AGAIN_MS);
	}
}

/* The connection was ended silently by the primary's machine or by the network. If an operator decides who serves, the
 * operator knows. */
static bool is_silent(const struct follower *f, struct star_error *err)
{
	const uint64_t silent_us = clock_us() - f->came_us;

	if (!node_pair_has_register(f->p) || !f->leased || silent_us < 2 * f->p->primary_lease_ms * UINT64_C(1000))
		return false;
	star_error_set(err, -ETIMEDOUT, "the primary was silent for %.1f s", (double)silent_us / 1e6);
	return true;
}

static void follow(struct follower *f)
{
	struct node_pair *p = f->p;
	struct node_pair_promotion promotion;
	struct star_error err = { 0 };

	while (!node_pair_stops(p)) {
		if (is_asked(p, &promotion)) {
			if (promote_follower(f, &promotion))
				return;
			continue;
		}
		if (f->link && (receive(f, &err) < 0 || is_silent(f, &err))) {
			log_warn("the standby has lost its primary: %s", err.text);
			if (f->cannot)
				node_pair_tell_cannot(p, err.text);
			pair_link_close(f->link);
			f->link = NULL;
			node_pair_is(p, PAIR_STANDBY, NODE_PAIR_LOST, err.text);
		}
		if (!f->link) {
			wait_alone(f);
			return;
		}
	}
	if (f->link)
		say_frame(f, PAIR_BYE, 0, 0);
}

void node_pair_standby(struct node_pair *p)
{
	struct follower f = { .p = p };
	struct star_error err = { 0 };
	char told[sizeof(err.text)] = "";
	int rc = -1;

	control_pair_waits(p->control, "a standby that is not up to date yet");
	if (p->node->config->checkpoint_id)
		log_warn("checkpoint.restore_id has no effect on this node, a standby, which has what its primary has");
	while (rc < 0 && !node_pair_stops(p)) {
		if (node_pair_register_is_mine(p)) {
			node_pair_is(p, PAIR_WAITING, NODE_PAIR_BEGINS, "etcd says that it is the primary");
			return;
		}
		rc = join(&f, &err);
		if (rc == 0)
			break;
		if (f.receiver || f.apply)
			node_fail(p->node, &err);
		pair_link_close(f.link);
		f.link = NULL;
		if (strcmp(told, err.text) != 0)
			log_warn("the standby has no primary yet: %s", err.text);
		strcpy(told, err.text);
		node_pair_is(p, PAIR_STANDBY, NODE_PAIR_BEGINS, err.text);
		node_pair_pause(p, AGAIN_MS);
	}
	if (rc == 0)
		follow(&f);
	pair_link_close(f.link);
	pair_receiver_destroy(f.receiver);
	if (f.apply)
		node_apply_destroy(f.apply, &err);
}
