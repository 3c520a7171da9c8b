/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/keep.h"
#include "client/attempt.h"
#include "client/connect.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/crc32.h"
#include "client/codec.h"
#include "client/reply.h"

int client_keep_init(struct star_cluster *cluster, struct star_error *err)
{
	const char *text = getenv("STAR_KEEP_MIB");
	unsigned long mib = KEEP_MIB_DEFAULT;
	char *end;

	if (text && *text) {
		mib = strtoul(text, &end, 10);
		if (*text < '0' || *text > '9' || *end || mib > KEEP_MIB_MAX)
			return star_error_set(err, -EINVAL, "STAR_KEEP_MIB is \"%.40s\": it is a number up to %d", text,
					      KEEP_MIB_MAX);
	}
	cluster->keep_max = (uint64_t)mib << 20;
	return 0;
}

/* ---- memory ---- */

static struct kept *take_spare(struct channel *ch, size_t bytes)
{
	struct kept *e = ch->keep_spare;

	if (!e || e->room < bytes || e->room > 2 * bytes + 4096)
		return NULL;
	ch->keep_spare = e->next;
	ch->keep_spare_bytes -= e->room;
	return e;
}

static void give_back(struct channel *ch, struct kept *e)
{
	/* Only if a node answers a request before it has read all of it. */
	if (ch->out_kept == e && ch->out_sent < ch->out_bytes)
		memcpy(ch->out, e->frame, e->bytes);
	if (ch->out_kept == e)
		ch->out_kept = NULL;
	atomic_fetch_sub_explicit(&ch->cluster->kept_bytes, e->room, memory_order_relaxed);
	ch->keep_count--;
	if (ch->keep_spare_bytes + e->room <= KEEP_SPARE_BYTES) {
		e->next = ch->keep_spare;
		ch->keep_spare = e;
		ch->keep_spare_bytes += e->room;
	} else {
		free(e);
	}
}

static bool is_durable_elsewhere(const struct part *part)
{
	for (const struct slice *s = part->slices; s; s = s->next) {
		const struct call_op *op = &part->call->ops[s->op];

		/* The standby may not know a table that was just created. */
		if (op->run || op->tag || !atomic_load_explicit(&op->table->durable, memory_order_relaxed))
			return false;
	}
	return true;
}

struct kept *client_keep_make(struct channel *ch, const struct part *part, size_t frame_bytes)
{
	struct star_cluster *cluster = ch->cluster;
	const size_t least = (frame_bytes + 511) & ~(size_t)511;
	struct kept *e;

	/* Nobody would handle what a retired channel keeps. */
	if (!ch->retains || ch->retired || ch->seal || !part->pushes || part->deletes || part->apart ||
	    ch->keep_count >= KEEP_COUNT_MAX || !is_durable_elsewhere(part))
		return NULL;
	e = take_spare(ch, frame_bytes);
	if (!e) {
		e = least < UINT32_MAX ? aligned_alloc(_Alignof(struct kept), sizeof(*e) + least) : NULL;
		if (!e)
			return NULL;
		e->room = (uint32_t)least;
	}
	ch->keep_count++;
	e->bytes = 0;
	if (atomic_fetch_add_explicit(&cluster->kept_bytes, e->room, memory_order_relaxed) + e->room <=
	    cluster->keep_max) {
		e->bytes = (uint32_t)frame_bytes;
		return e;
	}
	give_back(ch, e);
	return NULL;
}

void client_keep_add(struct channel *ch, struct kept *e)
{
	struct unaligned_frame *at = (struct unaligned_frame *)e->frame;

	at->frame.flags |= WIRE_KEEPS;
	e->sequence = at->frame.sequence;
	e->next = NULL;
	if (ch->keep_first) {
		ch->keep_last->next = e;
		ch->keep_last = e;
		return;
	}
	ch->keep_first = ch->keep_last = e;
	if (!atomic_exchange_explicit(&ch->io->keeps, true, memory_order_relaxed))
		waiter_wake(ch->io);
}

/* ---- what becomes of it ---- */

static void remove_first(struct channel *ch)
{
	struct kept *e = ch->keep_first;

	ch->keep_first = e->next;
	if (ch->keep_again == e)
		ch->keep_again = e->next;
	give_back(ch, e);
}

static void remove_one(struct channel *ch, uint64_t sequence)
{
	struct kept *e, *before = NULL;

	for (e = ch->keep_first; e && e->sequence != sequence; e = e->next)
		before = e;
	if (!e)
		return;
	if (!before) {
		remove_first(ch);
		return;
	}
	before->next = e->next;
	if (ch->keep_last == e)
		ch->keep_last = before;
	if (ch->keep_again == e)
		ch->keep_again = e->next;
	give_back(ch, e);
}

/* The node has executed this request, and frame->behind more after it, which would be sent again next: releases those.
 * By now every request that is kept comes after this one. */
static void release_ahead(struct channel *ch, const struct wire_frame *frame)
{
	if (frame->status != WIRE_REPEATED || (frame->flags & (WIRE_AHEAD | WIRE_RETAINS)) != WIRE_AHEAD)
		return;
	while (ch->keep_first && ch->keep_first->sequence - frame->sequence <= frame->behind)
		remove_first(ch);
}

/* Releases what was answered up to that reply, and is durable. */
static void release(struct channel *ch, const struct wire_frame *frame)
{
	uint64_t durable = frame->sequence;

	ch->retains = frame->flags & WIRE_RETAINS;
	if (ch->retains)
		durable = frame->behind < durable ? durable - frame->behind : 0;
	while (ch->keep_first && ch->keep_first->sequence <= durable)
		remove_first(ch);
}

void client_keep_heard(struct channel *ch, const struct wire_frame *frame)
{
	if (ch->keep_first && frame->status != WIRE_OK && frame->status != WIRE_REPEATED)
		remove_one(ch, frame->sequence); /* it was not executed, and its caller is told */
	release(ch, frame);
}

void client_keep_resend(struct channel *ch)
{
	struct kept *e = ch->keep_again;
	struct unaligned_frame *at = (struct unaligned_frame *)e->frame;

	at->frame.flags = WIRE_GOES_ON | WIRE_RESENT | WIRE_KEEPS | WIRE_KEPT;
	at->frame.deadline_us = 0;
	at->frame.checksum = 0;
	at->frame.checksum = base_crc32(e->frame, e->bytes);
	ch->out_kept = e;
	ch->out_bytes = e->bytes;
	ch->out_sent = 0;
	ch->keep_asked = true;
}

/* Nobody waits for its outcome any more, so star_settle reports it. */
static void note_lost(struct channel *ch, uint64_t count, const char *why)
{
	struct star_cluster *cluster = ch->cluster;

	pthread_mutex_lock(&cluster->keep_lock);
	cluster->keep_lost += count;
	star_error_set(&cluster->keep_error, -EREMOTEIO,
		       "%llu requests that %s had answered are lost with the node that has executed them: %.300s",
		       (unsigned long long)cluster->keep_lost, ch->label, why);
	pthread_mutex_unlock(&cluster->keep_lock);
}

void client_keep_resent(struct channel *ch, const struct wire_frame *frame, const char *text, uint64_t now_ns)
{
	struct kept *e = ch->keep_again;
	struct star_error err;

	ch->keep_asked = false;
	ch->keep_deaths = 0;
	ch->heard_ns = now_ns;
	ch->answered = true;
	if (frame->status == WIRE_OK || frame->status == WIRE_REPEATED) {
		ch->attempts = ch->lost = 0;
		ch->keep_tries = 0;
		ch->keep_again = e->next;
		release(ch, frame);
		release_ahead(ch, frame);
	} else if (wire_status_is_busy(frame->status) || frame->status == WIRE_SHUTTING_DOWN ||
		   frame->status == WIRE_STALE_LAYOUT /* the node serves none at the moment */) {
		ch->pause_until_ns = now_ns + client_backoff_ns(&ch->prng, ch->keep_tries++);
	} else {
		client_reply_refused(ch, frame, text, &err);
		note_lost(ch, 1, err.text);
		ch->keep_tries = 0;
		remove_one(ch, e->sequence);
	}
}

void client_keep_lost(struct channel *ch)
{
	struct kept *e, *next, **link = &ch->keep_first;

	if (ch->keep_asked && ++ch->keep_deaths >= KEEP_DEATHS_MAX) {
		note_lost(ch, 1, "its connection ends whenever it is sent again");
		remove_one(ch, keep_awaited(ch));
		ch->keep_deaths = 0;
	}
	ch->retains = ch->keep_asked = false;
	ch->keep_last = NULL;
	for (e = ch->keep_first; e; e = next) {
		next = e->next;
		if (e->sequence < ch->first_sequence) {
			ch->keep_last = e;
			link = &e->next;
		} else {
			/* Its call sends it again, or is told. */
			*link = next;
			give_back(ch, e);
		}
	}
	ch->keep_again = ch->keep_first;
	ch->keep_tries = 0;
	if (ch->keep_first)
		ch->resumed = true;
}

void client_keep_drop(struct channel *ch, const char *why)
{
	/* Its reply is on its way, and must find it. */
	struct kept *asked = ch->keep_asked ? ch->keep_again : NULL;
	uint64_t count = 0;

	for (; ch->keep_first != asked; count++)
		remove_first(ch);
	for (; asked && asked->next; count++)
		remove_one(ch, asked->next->sequence);
	count += asked != NULL;
	if (count)
		note_lost(ch, count, why);
}

void client_keep_free(struct channel *ch)
{
	struct kept *e;

	ch->keep_again = NULL;
	while (ch->keep_first)
		remove_first(ch);
	while ((e = ch->keep_spare)) {
		ch->keep_spare = e->next;
		free(e);
	}
}

void client_keep_settled(const struct part *part, const struct wire_frame *frame)
{
	if (!part->pushes || !(frame->flags & WIRE_RETAINS) || frame->behind)
		return;
	for (const struct slice *s = part->slices; s; s = s->next)
		atomic_store_explicit(&part->call->ops[s->op].table->durable, true, memory_order_relaxed);
}

/* ---- without a call ---- */

/* Asks how much is durable. Nobody waits for the reply, which is evaluated when it comes. */
static void ping(struct channel *ch, uint64_t now_ns)
{
	const uint64_t sequence = ch->next_sequence++;
	struct unaligned_frame *at = (struct unaligned_frame *)ch->out;

	client_request_ping(ch, sequence, ch->out);
	at->frame.checksum = base_crc32(ch->out, sizeof(*at));
	ch->out_kept = NULL;
	ch->out_bytes = sizeof(*at);
	ch->out_sent = 0;
	ch->resend = ch->next_sequence;
	ch->heard_ns = now_ns;
	*channel_slot(ch, sequence) = NULL;
	client_channel_pump(ch, now_ns);
}

/* True: something is kept. */
static bool look_after(struct channel *ch, struct waiter *k, uint64_t quiet_ns, uint64_t now_ns)
{
	bool kept;

	pthread_mutex_lock(&ch->lock);
	kept = ch->keep_first;
	if (kept && !ch->waiter && !ch->retired) {
		client_channel_check_idle(ch, now_ns);
		if (ch->state == CHANNEL_CLOSED) {
			ch->state = CHANNEL_WAITING;
			ch->give_up_ns = now_ns + ch->cluster->connect_timeout_ns;
			if (now_ns >= ch->not_before_ns)
				client_connect_start(ch, now_ns);
		} else if (ch->state == CHANNEL_OPEN && !keep_tends(ch) && now_ns - ch->heard_ns >= quiet_ns &&
			   ch->out_sent == ch->out_bytes && !ch->broken) {
			ping(ch, now_ns);
		}
		if (keep_tends(ch))
			client_waiter_give(k, ch, k);
	}
	pthread_mutex_unlock(&ch->lock);
	return kept;
}

uint64_t client_keep_look(struct io *io, uint64_t now_ns)
{
	struct star_cluster *cluster = io->waiter.cluster;
	const uint64_t every_ns =
		(atomic_load_explicit(&cluster->settling, memory_order_relaxed) ? KEEP_SETTLE_MS : KEEP_LOOK_MS) *
		UINT64_C(1000000);
	const struct route *route;

	if (!atomic_load_explicit(&io->waiter.keeps, memory_order_relaxed))
		return UINT64_MAX;
	if (now_ns < io->look_ns && io->look_ns - now_ns <= every_ns)
		return io->look_ns;
	io->look_ns = now_ns + every_ns;
	/* A channel that keeps something from now on sets it again. */
	atomic_store_explicit(&io->waiter.keeps, false, memory_order_relaxed);
	route = atomic_load_explicit(&cluster->route, memory_order_acquire);
	for (uint32_t i = 0; i < route->reactors; i++)
		if (route->channels[i]->io == &io->waiter &&
		    look_after(route->channels[i], &io->waiter, every_ns / 2, now_ns))
			atomic_store_explicit(&io->waiter.keeps, true, memory_order_relaxed);
	return io->look_ns;
}

static uint64_t count_kept(struct star_cluster *cluster)
{
	const struct route *route = atomic_load_explicit(&cluster->route, memory_order_acquire);
	uint64_t count = 0;

	for (uint32_t i = 0; route && i < route->reactors; i++) {
		pthread_mutex_lock(&route->channels[i]->lock);
		/* What is in flight belongs to its caller. */
		for (const struct kept *e = route->channels[i]->keep_first;
		     e && e->sequence < route->channels[i]->first_sequence; e = e->next)
			count++;
		pthread_mutex_unlock(&route->channels[i]->lock);
	}
	return count;
}

int client_keep_settle(struct star_cluster *cluster, uint64_t deadline_ns, struct star_error *err)
{
	const struct timespec pause = { .tv_nsec = KEEP_SETTLE_MS * 500000L };
	uint64_t count = count_kept(cluster);
	int rc = 0;

	atomic_fetch_add(&cluster->settling, 1);
	for (uint32_t i = 0; count && i < cluster->io_count; i++)
		waiter_wake(&cluster->io[i].waiter);
	for (; count && clock_ns() < deadline_ns && !atomic_load(&cluster->closing); count = count_kept(cluster))
		nanosleep(&pause, NULL);
	atomic_fetch_sub(&cluster->settling, 1);
	if (count && atomic_load(&cluster->closing))
		rc = star_error_set(err, -ECANCELED,
				    "the cluster is being closed, and %llu requests are not known to be durable yet",
				    (unsigned long long)count);
	else if (count)
		rc = star_error_set(
			err, -ETIMEDOUT,
			"%llu requests were answered, and are not known to be durable yet: they are lost if "
			"their node is",
			(unsigned long long)count);
	pthread_mutex_lock(&cluster->keep_lock);
	if (cluster->keep_lost) {
		*err = cluster->keep_error;
		cluster->keep_lost = 0;
		rc = err->code;
	}
	pthread_mutex_unlock(&cluster->keep_lock);
	return rc;
}
