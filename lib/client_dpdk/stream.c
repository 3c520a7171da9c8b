/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path to one reactor: a session of datagrams, opened when it is first needed, and again after it was lost. Opening
 * is repeated with exponential backoff and jitter until the connect timeout (control.connect_timeout_ms), as for a TCP
 * connection.
 *
 * Requests that were in flight on a lost session are sent again over the next one, in their order and with their
 * numbers (reply.c), as over TCP: the node, or the one that has taken its place, executes those that were not executed.
 * If the layout has two addresses, they are tried in turn. In that case a node that disappears is not waited for as
 * long as its lease: a session with requests in flight that gets no answer to its heartbeats is abandoned for the other
 * address.
 */
#include "client_dpdk/poller.h"

#include "client/attempt.h"
#include "client/connect.h"
#include "client/reply.h"
#include "client/seal.h"
#include "secure/memory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* The interval at which an open session is checked. It sends a heartbeat after a second of silence (heartbeat_ns); by
 * the third check without an answer it has waited for half a second, even if this process itself was stopped. */
enum { LOOK_MS = 500, SILENT_LOOKS = OTHER_TIMEOUT_MS / LOOK_MS };

#define STREAM_OF(t, of) ((struct stream *)((char *)(t)-offsetof(struct stream, of)))

void dpdk_stream_touch(struct stream *s)
{
	if (s->dirty)
		return;
	s->dirty = true;
	TAILQ_INSERT_TAIL(&s->poller->dirty, s, link);
}

static void fire(struct wheel_timer *timer, uint64_t now_ns)
{
	dpdk_stream_touch(STREAM_OF(timer, timer));
}

static void fire_watch(struct wheel_timer *timer, uint64_t now_ns)
{
	struct stream *s = STREAM_OF(timer, watch);

	s->looks = true;
	dpdk_stream_touch(s);
}

static void watch_from(struct stream *s, uint64_t now_ns)
{
	s->watch.fire = fire_watch;
	wheel_arm(net_wheel(s->poller->net), &s->watch, now_ns + LOOK_MS * UINT64_C(1000000));
}

/* The current address of the channel's node, which the layout may change at any time; and whether there is another
 * one. */
static void channel_address(struct stream *s, struct net_address *address, uint16_t *port)
{
	struct channel *ch = s->ch;
	struct sockaddr_storage at;

	pthread_mutex_lock(&ch->lock);
	at = ch->address;
	s->paired = ch->other_bytes != 0;
	pthread_mutex_unlock(&ch->lock);
	if (at.ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)&at;

		*address = net_address_v4(in->sin_addr.s_addr);
		*port = ntohs(in->sin_port);
	} else {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&at;

		*address = net_address_v6(&in->sin6_addr);
		*port = ntohs(in->sin6_port);
	}
}

/* The next attempt uses the other address, if this one is that of the session. */
static bool turn_elsewhere(struct stream *s)
{
	struct channel *ch = s->ch;
	struct net_address address;
	uint16_t port;

	channel_address(s, &address, &port);
	if (port != s->port || !net_address_equal(&address, &s->address))
		return true; /* the layout has changed it already */
	if (!s->paired)
		return false;
	pthread_mutex_lock(&ch->lock);
	if (ch->other_bytes)
		client_address_swap(ch);
	pthread_mutex_unlock(&ch->lock);
	return true;
}

static void wake_at(struct stream *s, uint64_t when_ns)
{
	s->timer.fire = fire;
	wheel_arm(net_wheel(s->poller->net), &s->timer, when_ns);
}

/* Removes and fails all requests. */
static void fail_all(struct stream *s, const struct star_error *err, bool queued_too)
{
	struct channel *ch = s->ch;
	struct parts taken;
	struct part *part;

	client_reply_take_all(ch, queued_too, &taken);
	ch->first_sequence = ch->next_sequence = ch->resend = 1;
	memset(ch->ring, 0, sizeof(ch->ring));
	while ((part = TAILQ_FIRST(&taken))) {
		TAILQ_REMOVE(&taken, part, link);
		dpdk_part_end(s->poller, part, err);
	}
}

/* Its messages start from the beginning. */
static void begin_messages(struct stream *s)
{
	struct channel *ch = s->ch;

	ch->first_sequence = ch->next_sequence = ch->resend = 1;
	ch->refused = false;
	ch->resumed = false;
	ch->careful = WIRE_OK;
	memset(ch->ring, 0, sizeof(ch->ring));
	if (getrandom(&ch->session, sizeof(ch->session), GRND_NONBLOCK) != (ssize_t)sizeof(ch->session))
		ch->session = prng_next(&ch->prng); /* early in the boot; it need not be a secret */
}

static void close_session(struct stream *s)
{
	if (s->session)
		dgram_close(s->session);
	s->session = NULL;
	s->was_open = false;
	s->doom = 0;
	s->lost = false;
	wheel_cancel(net_wheel(s->poller->net), &s->watch);
}

void dpdk_stream_close(struct stream *s)
{
	close_session(s);
	s->ch->state = CHANNEL_CLOSED;
	s->ch->pause_until_ns = 0;
	wheel_cancel(net_wheel(s->poller->net), &s->timer);
	begin_messages(s);
}

static void die(struct stream *s, int code, const char *why)
{
	struct channel *ch = s->ch;
	const bool answered = ch->answered || ch->state != CHANNEL_OPEN;
	struct star_error err;

	star_error_set(&err, code, "%s %s", ch->label, why);
	if (!answered) /* opening again at once would have the same result */
		ch->not_before_ns = s->poller->now_ns + client_backoff_ns(&ch->prng, ch->attempts - 1);
	/* The session first: a thread that is told of a failure may make the next call at once. */
	if (s->session)
		dgram_close(s->session);
	s->session = NULL;
	fail_all(s, &err, true);
	dpdk_stream_close(s);
}

/* The session is lost. Requests in flight are sent again over another one, first at the other address if there is one;
 * or they fail with this error. */
static void lose(struct stream *s, int code, const char *why)
{
	struct channel *ch = s->ch;
	const bool in_flight = channel_in_flight(ch) > 0;
	bool elsewhere;

	ch->lost++;
	if (ch->live == 0)
		turn_elsewhere(s); /* the next attempt begins there */
	if (ch->live == 0 || (in_flight && !client_reply_resend(ch))) {
		die(s, code, why);
		return;
	}
	close_session(s);
	elsewhere = turn_elsewhere(s);
	ch->state = CHANNEL_WAITING;
	ch->not_before_ns = s->poller->now_ns + (elsewhere ? 0 : client_backoff_ns(&ch->prng, ch->attempts));
	ch->give_up_ns = s->poller->now_ns + ch->cluster->connect_timeout_ns;
	dpdk_stream_touch(s);
}

static void failed(struct stream *s, int error)
{
	struct channel *ch = s->ch;

	s->session = NULL;
	pthread_mutex_lock(&ch->lock);
	client_attempt_failed(ch, error, s->poller->now_ns);
	pthread_mutex_unlock(&ch->lock);
	dpdk_stream_touch(s);
}

static void give_up_session(struct stream *s)
{
	struct channel *ch = s->ch;
	const int error = ch->connect_error ? ch->connect_error : ETIMEDOUT;
	struct star_error err;

	if (error == EDQUOT)
		client_connect_over_quota(ch, &err);
	else if (!s->seal || !client_tickets_why(ch->cluster, ch->task, &err))
		star_error_set(&err, -error,
			       "cannot connect to %s: %s (%u attempts, the last ones within %.1f s); is starserver "
			       "running there, and its data address reachable from this worker's port?",
			       ch->label, strerrordesc_np(error), ch->attempts,
			       (double)ch->cluster->connect_timeout_ns * 1e-9);
	fail_all(s, &err, true);
	dpdk_stream_close(s);
}

static void start_session(struct stream *s)
{
	struct channel *ch = s->ch;
	struct star_error err;

	ch->attempts++;
	pthread_mutex_lock(&ch->lock);
	ch->moved = false;
	pthread_mutex_unlock(&ch->lock);
	channel_address(s, &s->address, &s->port);
	if (ch->cluster->tickets && !s->seal)
		s->seal = secure_alloc(dgram_seal_bytes());
	if (ch->cluster->tickets && !s->seal)
		star_error_set(&err, -ENOMEM, "out of memory for keys");
	else
		s->session = dgram_open(s->poller->dgram, &s->address, s->port, s, s->seal, &err);
	if (!s->session) {
		failed(s, -err.code);
		return;
	}
	if (channel_in_flight(ch) == 0)
		begin_messages(s);
	else
		ch->resend = ch->first_sequence; /* it continues with what was lost */
	s->was_open = false;
	ch->attempt_ns = s->paired ? client_attempt_until_ns(ch, s->poller->now_ns) : UINT64_MAX;
	ch->state = CHANNEL_CONNECTING;
	watch_from(s, s->poller->now_ns);
}

/* There are not enough mbufs at the moment. */
static void starve(struct stream *s)
{
	s->poller->starved = true;
	dpdk_stream_touch(s);
}

/* Requests that have to be sent again come first. */
static void send_queue(struct stream *s)
{
	struct channel *ch = s->ch;
	struct part *part;

	while (channel_resends(ch)) {
		if (dgram_queued(s->session) >= DPDK_QUEUED_MAX)
			return;
		if (!dpdk_message_resend(s)) {
			starve(s);
			return;
		}
	}
	while (channel_may_send(ch) && dgram_queued(s->session) < DPDK_QUEUED_MAX) {
		part = TAILQ_FIRST(&ch->queue);
		TAILQ_REMOVE(&ch->queue, part, link);
		if (dpdk_message_send(s, part))
			continue;
		TAILQ_INSERT_HEAD(&ch->queue, part, link);
		starve(s);
		return;
	}
}

/* An attempt to open a session takes long. */
static void look_at_attempt(struct stream *s, bool elsewhere)
{
	if (elsewhere) {
		dgram_close(s->session);
		failed(s, ECONNRESET);
	} else if (!s->paired && s->ch->live) {
		client_route_want(s->ch->cluster, s->poller->now_ns);
	}
}

/* Checks whether the node is alive, and still the channel's. If no other address is known, the layout may have one now:
 * of a standby that joined while there were no requests. */
static void look(struct stream *s)
{
	struct channel *ch = s->ch;
	const uint64_t now = s->poller->now_ns;
	struct net_address address;
	bool elsewhere;
	uint64_t heard;
	uint16_t port;

	s->looks = false;
	if (!s->session || (ch->state != CHANNEL_OPEN && ch->state != CHANNEL_CONNECTING))
		return;
	watch_from(s, now);
	channel_address(s, &address, &port);
	elsewhere = port != s->port || !net_address_equal(&address, &s->address);
	if (ch->state == CHANNEL_CONNECTING) {
		look_at_attempt(s, elsewhere);
		return;
	}
	if (elsewhere) {
		lose(s, -ECONNRESET, "is not at that address any more");
		return;
	}
	heard = dgram_heard_ns(s->session);
	if (ch->live == 0 || heard != s->looked_heard_ns || now - ch->heard_ns < LOOK_MS * UINT64_C(1000000))
		s->silent_looks = 0;
	else
		s->silent_looks++;
	s->looked_heard_ns = heard;
	if (s->silent_looks < SILENT_LOOKS)
		return;
	s->silent_looks = 0;
	if (s->paired)
		lose(s, -ETIMEDOUT, "has gone silent while this call was in flight");
	else
		client_route_want(ch->cluster, now);
}

void dpdk_stream_pump(struct stream *s)
{
	struct channel *ch = s->ch;
	const uint64_t now = s->poller->now_ns;

	if (s->doom && s->lost)
		lose(s, s->doom, s->why);
	else if (s->doom)
		die(s, s->doom, s->why);
	if (s->looks)
		look(s);
	if (ch->live == 0) {
		if (ch->retired)
			dpdk_stream_close(s);
		return;
	}
	if (ch->state == CHANNEL_CLOSED)
		ch->state = CHANNEL_WAITING;
	if ((ch->state == CHANNEL_WAITING || ch->state == CHANNEL_CONNECTING) &&
	    (now >= ch->give_up_ns || client_tickets_forbidden(ch))) {
		give_up_session(s);
		return;
	}
	if (ch->state == CHANNEL_CONNECTING && now >= ch->attempt_ns) {
		dgram_close(s->session);
		failed(s, ETIMEDOUT);
	}
	if (ch->state == CHANNEL_WAITING && now >= ch->not_before_ns)
		start_session(s);
	if (ch->state == CHANNEL_WAITING && ch->not_before_ns < ch->give_up_ns)
		wake_at(s, ch->not_before_ns);
	else if (ch->state == CHANNEL_CONNECTING && ch->attempt_ns < ch->give_up_ns)
		wake_at(s, ch->attempt_ns);
	else if (ch->state != CHANNEL_OPEN)
		wake_at(s, ch->give_up_ns);
	else if (now < ch->pause_until_ns)
		wake_at(s, ch->pause_until_ns);
	else
		send_queue(s);
}

void dpdk_stream_enqueue(struct stream *s, struct part *part)
{
	struct channel *ch = s->ch;

	part->state = PART_QUEUED;
	TAILQ_INSERT_TAIL(&ch->queue, part, link);
	if (ch->live++ == 0) /* an attempt that continues from an earlier call gets the full time too */
		ch->give_up_ns = s->poller->now_ns + ch->cluster->connect_timeout_ns;
	if (!s->dirty) /* otherwise it waits for mbufs, or has to be closed */
		dpdk_stream_pump(s);
}

bool dpdk_stream_cancel(struct stream *s, struct part *part, int code, struct star_error *err)
{
	struct channel *ch = s->ch;

	if (!client_reply_cancel(ch, part, code, part->call->start_ns, err))
		return false;
	/* A session with only cancelled requests in flight, and no room for others, is not worth keeping. */
	if (ch->live == 0 && ch->state == CHANNEL_OPEN && channel_in_flight(ch) == IN_FLIGHT_MAX)
		dpdk_stream_close(s);
	else if (ch->live == 0 && ch->retired)
		dpdk_stream_touch(s);
	return true;
}

/* ---- events of the session ---- */

/* The node has created another session, and knows nothing of this one's requests. */
static void begin_again(struct stream *s, uint32_t incarnation)
{
	struct channel *ch = s->ch;
	struct star_error err;

	ch->lost++;
	if (incarnation == ch->incarnation && channel_in_flight(ch) && client_reply_resend(ch))
		return;
	if (incarnation != ch->incarnation)
		client_reply_refused(ch, &(struct wire_frame){ .status = WIRE_STALE_INCARNATION }, "", &err);
	else
		star_error_set(&err, -ECONNRESET, "%s has lost the session while this call was in flight; see its log",
			       ch->label);
	fail_all(s, &err, false);
	begin_messages(s);
}

static void connected(void *user, bool resumed, uint32_t incarnation)
{
	struct stream *s = user;
	struct channel *ch = s->ch;

	if (s->was_open && !resumed)
		begin_again(s, incarnation);
	if (!s->was_open) {
		ch->answered = false;
		ch->heard_ns = s->poller->now_ns;
	}
	s->was_open = true;
	s->silent_looks = 0;
	s->looked_heard_ns = 0;
	watch_from(s, s->poller->now_ns);
	ch->tagged = dgram_is_tagged(s->session);
	ch->state = CHANNEL_OPEN;
	ch->connect_error = 0;
	wheel_cancel(net_wheel(s->poller->net), &s->timer);
	dpdk_stream_touch(s);
}

static void received(void *user, struct rte_mbuf *message, uint32_t bytes, enum wire_status status)
{
	dpdk_message_received(user, message, bytes, status);
}

static void acknowledged(void *user)
{
	struct stream *s = user;

	if (!TAILQ_EMPTY(&s->ch->queue))
		dpdk_stream_touch(s);
}

static void closed(void *user, int reason)
{
	struct stream *s = user;

	s->session = NULL;
	if (s->ch->state == CHANNEL_CONNECTING) {
		failed(s, reason ? reason : ECONNREFUSED);
		return;
	}
	s->lost = reason != EPROTO;
	s->doom = reason == ETIMEDOUT ? -ETIMEDOUT : reason == EPROTO ? -EPROTO : -ECONNRESET;
	snprintf(s->why, sizeof(s->why), "%s",
		 reason == ETIMEDOUT ? "has gone silent while this call was in flight"
		 : reason == EPROTO  ? "violates the protocol; its session was closed"
				     : "closed the connection while this call was in flight; see its log");
	dpdk_stream_touch(s);
}

/* A ticket comes soon, if the node's control plane issues one: the session asks until then. */
static bool take_ticket(void *user, struct dgram_ticket *to)
{
	struct stream *s = user;
	struct client_ticket ticket;
	const bool good = client_tickets_take(s->ch->cluster, s->ch->task, &ticket) &&
			  getrandom(to->random, sizeof(to->random), 0) == (ssize_t)sizeof(to->random);

	if (good) {
		to->ticket = ticket.ticket;
		memcpy(to->secret, ticket.secret, sizeof(to->secret));
		s->ticket = ticket.number;
	}
	explicit_bzero(&ticket, sizeof(ticket));
	return good;
}

static void ticket_refused(void *user)
{
	struct stream *s = user;
	struct sockaddr_storage at;

	pthread_mutex_lock(&s->ch->lock);
	at = s->ch->address;
	pthread_mutex_unlock(&s->ch->lock);
	client_tickets_refused(s->ch, &at, s->ticket);
}

const struct dgram_handler dpdk_stream_handler = {
	.connected = connected,
	.received = received,
	.acknowledged = acknowledged,
	.closed = closed,
	.ticket = take_ticket,
	.refused = ticket_refused,
};
