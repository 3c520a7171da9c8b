/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Credit: how far a peer may send. Two resources are scarce compared with what all peers together would send:
 *
 * - The places of the receive ring. Each session has credit for one packet. A session whose peer wants more is active,
 *   and its edges move ahead by up to a share of the endpoint's credits. A share is what each session would have if
 *   there was one more, so there is something left for the next one that becomes active. A session that has received no
 *   data for a while is no longer active, and its credit has lapsed on both sides (wire/packet.h).
 *
 *   If many sessions are active, a share is less than a message. Then what a session wants, up to the packets of a
 *   short message, is granted at once and in turn: first come, first served, each when there is credit for all of it.
 *
 * - The mbufs that messages hold until they are complete and taken. From half of held_mbufs_max on, the edge moves for
 *   one favoured session only, until its message is complete, or nothing of it has arrived for a while. The others wait
 *   in the order in which they came, and all of them wait while a quarter is held by messages that are complete and not
 *   taken. The favoured session always finds room for its message; beyond held_mbufs_max there is room for nothing
 *   else: no message is begun that needs more than half, and no session becomes the favoured one while one and a half
 *   times held_mbufs_max is held. So at most twice held_mbufs_max is ever held.
 */
#include <errno.h>

#include "rpc/dgram_internal.h"

#define FAVOUR_NS (200 * DGRAM_MS)
#define LAPSE_NS (3 * WIRE_CREDIT_LAPSE_MS * DGRAM_MS)
#define LOOK_NS (100 * DGRAM_US) /* between two searches for lapsed credit */
enum {
	LOOKS = 8,
	WAKES = 64,
	SHORT = 16,	  /* packets of a message, */
	SHORT_SHARE = 32, /* and at most this fraction of all credits */
};

static void share_credit(struct dgram *d)
{
	d->share = d->options.credits / (d->actives + 1);
}

/* The number of packets of the longest short message. */
static uint32_t short_most(const struct dgram *d)
{
	const uint32_t part = RTE_MAX(d->options.credits / SHORT_SHARE, 1u);

	return RTE_MIN(part, (uint32_t)SHORT);
}

static bool has_credits(const struct dgram *d)
{
	return d->credits_out + short_most(d) <= d->options.credits;
}

/* Whether it is this session's turn: no other session that waits came before it. */
static bool is_in_turn(const struct dgram_session *s)
{
	const struct dgram *d = s->dgram;

	return d->favoured == s || (!d->lists[DGRAM_WANTS].first && has_credits(d));
}

/* The circumstances in which a session gets credit. */
struct moment {
	uint64_t now_ns;
	bool in_turn;
	bool has_come; /* the next packet has arrived, but is not counted yet */
};

/* How much credit the session gets. One packet is always free: every session has credit for one. */
static uint32_t due_credit(const struct dgram_session *s, const struct moment *at)
{
	const struct dgram *d = s->dgram;
	const uint32_t most = short_most(d), wanted = RTE_MIN(s->peer_wants, most) + at->has_come;
	uint32_t due = RTE_MAX(d->share, 1u);

	if (unlikely(s->peer_wants && at->in_turn))
		due = RTE_MAX(due, wanted);
	return RTE_MIN(due, d->options.window_max);
}

/* What the session's credit costs: all packets but the first. */
static void charge(struct dgram_session *s, uint32_t credit)
{
	s->dgram->credits_out -= s->rx_charge;
	s->rx_charge = s->flags & DGRAM_ACTIVE && credit > 1 ? credit - 1 : 0;
	s->dgram->credits_out += s->rx_charge;
}

static void watch_favoured(struct dgram *d, uint64_t now_ns)
{
	if (!wheel_armed(&d->favour_timer))
		wheel_arm(net_wheel(d->net), &d->favour_timer, now_ns + FAVOUR_NS);
}

static void favour(struct dgram_session *s, uint64_t now_ns)
{
	s->dgram->favoured = s;
	s->dgram->favoured_ns = now_ns;
	s->dgram->favoured_sends = false;
	watch_favoured(s->dgram, now_ns);
}

/* The rest of its message is dropped. */
static bool is_refused(const struct dgram_session *s)
{
	return s->message_need && s->message_status != WIRE_OK;
}

/* False: other sessions wait before it. */
static bool may_grow(struct dgram_session *s, uint64_t now_ns)
{
	struct dgram *d = s->dgram;

	if (likely(!credit_tight(d)) || is_refused(s))
		return true;
	if (credit_may_favour(d) && (s->message_need || s->peer_wants))
		favour(s, now_ns);
	if (d->favoured == s)
		return true;
	list_put(s, DGRAM_WAITS);
	watch_favoured(d, now_ns);
	return false;
}

/* How many packets of the current message are still missing; 1 if there is none, or if the rest of it is dropped. */
static uint32_t packets_due(const struct dgram_session *s)
{
	if (!s->message_need || is_refused(s))
		return 1;
	return (s->message_need - s->message_have + s->message_packet - 1) / s->message_packet;
}

bool dgram_credit_admit(struct dgram_session *s, const struct wire_packet *p, uint64_t now_ns)
{
	struct dgram *d = s->dgram;
	const uint32_t ahead = p->number - s->rx_next;

	if (d->favoured == s)
		return ahead < packets_due(s);
	if (ahead)
		return false;
	if (is_refused(s))
		return true;
	/* A session that has only asked gives way to one that sends. Otherwise a peer that asks again and again could
	 * shut out all others. */
	if (d->favoured && !d->favoured_sends)
		d->favoured = NULL;
	if (!credit_may_favour(d))
		return false;
	favour(s, now_ns);
	return true;
}

void dgram_credit_favoured_sends(struct dgram *d, uint64_t now_ns)
{
	d->favoured_ns = now_ns;
	d->favoured_sends = true;
}

static void update(struct dgram_session *s, const struct moment *at)
{
	const struct dgram *d = s->dgram;
	const uint32_t credit = s->rx_edge - s->rx_next;
	uint32_t more, left;

	if (likely(!(s->flags & DGRAM_ACTIVE))) {
		if (credit == 0 && may_grow(s, at->now_ns))
			s->rx_edge = s->rx_next + 1;
	} else {
		charge(s, credit);
		more = due_credit(s, at);
		if (credit < more && may_grow(s, at->now_ns)) {
			left = d->options.credits > d->credits_out ? d->options.credits - d->credits_out : 0;
			more = RTE_MIN(more, credit + left);
			more = RTE_MAX(more, 1u); /* which is free */
			more = RTE_MAX(more, credit);
			s->rx_edge = s->rx_next + more;
			charge(s, s->rx_edge - s->rx_next);
		}
	}
	if (number_before(s->rx_limit, s->rx_edge))
		s->rx_limit = s->rx_edge;
}

void dgram_credit_update(struct dgram_session *s, uint64_t now_ns)
{
	update(s, &(struct moment){ .now_ns = now_ns, .in_turn = is_in_turn(s) });
}

void dgram_credit_wanted(struct dgram_session *s, const struct wire_packet *p, uint64_t now_ns)
{
	struct dgram *d = s->dgram;
	const uint32_t edge = s->rx_edge;
	const bool one = edge - s->rx_next <= 1;
	struct moment at = { .now_ns = now_ns, .has_come = p->kind == WIRE_PACKET_DATA && p->number == s->rx_next };

	s->peer_wants = p->wants;
	if (p->wants == 0)
		return;
	if (!(s->flags & DGRAM_ACTIVE)) {
		s->flags |= DGRAM_ACTIVE;
		s->data_ns = now_ns;
		d->actives++;
		share_credit(d);
		list_put(s, DGRAM_ACTIVES);
	}
	at.in_turn = is_in_turn(s);
	update(s, &at);
	at.in_turn = true;
	if (s->rx_edge - s->rx_next < due_credit(s, &at))
		list_put(s, DGRAM_WANTS);
	if (one && s->rx_edge != edge)
		output_urgent(s); /* otherwise it will say so itself when it has no credit left */
}

static void deactivate(struct dgram_session *s)
{
	s->flags &= (uint16_t)~DGRAM_ACTIVE;
	charge(s, 0);
	s->dgram->actives--;
	share_credit(s->dgram);
}

void dgram_credit_leave(struct dgram_session *s)
{
	if (s->flags & DGRAM_ACTIVE)
		deactivate(s);
	if (s->dgram->favoured == s)
		s->dgram->favoured = NULL;
}

/* Looks for sessions that have received no data for a long time, a few at a time. */
static void look_for_lapsed(struct dgram *d, uint64_t now_ns)
{
	d->lapse_ns = now_ns + LOOK_NS;
	for (unsigned i = 0; i < LOOKS; i++) {
		struct dgram_session *s = list_take(d, DGRAM_ACTIVES);

		if (!s)
			break;
		if (!(s->flags & DGRAM_ACTIVE))
			continue;
		if (now_ns - s->data_ns < LAPSE_NS || s->message_need || s->reorder) {
			list_put(s, DGRAM_ACTIVES);
			continue;
		}
		deactivate(s);
		if (number_before(s->rx_next + 1, s->rx_edge))
			s->rx_edge = s->rx_next + 1;
	}
}

/* Moves the edges of sessions that had to wait for credit. */
static void serve_list(struct dgram *d, enum dgram_list list, uint64_t now_ns)
{
	struct dgram_session *s = list_take(d, list);
	uint32_t edge;

	if (s->state == DGRAM_FREE)
		return;
	edge = s->rx_edge;
	update(s, &(struct moment){ .now_ns = now_ns, .in_turn = true });
	if (s->rx_edge != edge)
		output_urgent(s);
}

static bool waits_end(const struct dgram *d)
{
	return d->lists[DGRAM_WAITS].first && (!credit_tight(d) || credit_may_favour(d));
}

void dgram_credit_turn(struct dgram *d, uint64_t now_ns)
{
	if (d->actives && now_ns >= d->lapse_ns)
		look_for_lapsed(d, now_ns);
	for (unsigned i = 0; i < WAKES && waits_end(d); i++)
		serve_list(d, DGRAM_WAITS, now_ns);
	for (unsigned i = 0; i < WAKES && d->lists[DGRAM_WANTS].first && has_credits(d); i++)
		serve_list(d, DGRAM_WANTS, now_ns);
}

/* Checks whether the favoured session makes progress. If it does not, and such sessions already hold too much, it is
 * ended: otherwise peers that begin messages and never end them would take all mbufs, one after the other. */
void dgram_credit_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct dgram *d = (struct dgram *)((char *)timer - offsetof(struct dgram, favour_timer));
	struct dgram_session *s = d->favoured;

	net_turn(d->net, now_ns);
	if (s && now_ns - d->favoured_ns >= FAVOUR_NS) {
		d->favoured = NULL;
		if (credit_strained(d)) {
			d->counters.expired++;
			dgram_open_send_close(s);
			dgram_session_end(s, ETIMEDOUT);
		}
	}
	dgram_credit_turn(d, now_ns);
	if (d->favoured || d->lists[DGRAM_WAITS].first)
		watch_favoured(d, now_ns);
}
