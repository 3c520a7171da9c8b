/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that are sent a second time, on another connection: each is executed once. */
#include <stdio.h>

#include "rpc/internal.h"
#include "tests/rpc/cases.h"

static const struct order echo = { .reply_bytes = 20 };
static const struct order refused = { .reply_bytes = 20, .fail = 7 };

/* A connection that goes on with another one's session, at this sequence. */
static struct peer *go_on(unsigned i, const struct peer *from, uint64_t sequence)
{
	struct peer *peer = rig_peer(&rig, i);

	peer->session = from->session;
	peer->sequence = sequence;
	return peer;
}

static void resend(struct peer *peer, struct order order)
{
	struct wire_frame frame = peer_frame(peer, WIRE_EXECUTE);

	frame.flags = WIRE_GOES_ON | WIRE_RESENT;
	peer_send(peer, frame, toy_payload(frame.session, frame.sequence, order, 0), sizeof(order));
}

/* Its time is over when its turn comes: one that takes longer is before it, on a stream of its own. */
static void send_late(struct peer *peer, unsigned flags)
{
	static const struct order slow = { .slices = 100, .reply_bytes = 20 };
	struct peer *other = rig_peer(&rig, 5);
	struct wire_frame frame = peer_frame(peer, WIRE_EXECUTE);

	rig.slices_per_turn = 1;
	toy_send(other, slow, 0);
	frame.flags = (uint8_t)flags;
	frame.deadline_us = 1;
	peer_send(peer, frame, toy_payload(frame.session, frame.sequence, echo, 0), sizeof(echo));
	toy_await(other, 1, slow, 0);
	toy.finished--;
	toy.started--;
}

static void await_status(struct peer *peer, uint64_t sequence, unsigned status)
{
	struct reply reply;

	CHECK(peer_await(peer, &reply));
	CHECK_UINT(reply.frame.sequence, sequence);
	CHECK_UINT(reply.frame.status, status);
}

void resent_requests_are_executed_once(void)
{
	struct peer *first, *second;

	toy_init(1, 0);
	toy_start();
	first = rig_peer(&rig, 0);
	for (unsigned i = 1; i <= 3; i++)
		toy_send(first, i == 2 ? refused : echo, 0);
	for (unsigned i = 1; i <= 3; i++)
		toy_await(first, i, i == 2 ? refused : echo, 0);
	CHECK_UINT(toy.finished, 3);
	/* 1 to 3 were answered, for all that the peer knows they were not; 4 and 5 never came. */
	second = go_on(1, first, 0);
	for (unsigned i = 1; i <= 5; i++)
		resend(second, echo);
	/* What was refused was not executed, and is not executed behind what came later. */
	for (unsigned i = 1; i <= 3; i++)
		await_status(second, i, i == 2 ? WIRE_NO_KEYS : WIRE_REPEATED);
	for (unsigned i = 4; i <= 5; i++)
		toy_await(second, i, echo, 0);
	CHECK_UINT(toy.finished, 5);
	CHECK_UINT(rpc_counters(rig.server)->repeated, 3);
	/* Its former owner is gone, and what it still says is not executed. */
	CHECK(rig_run(&rig, RIG_S, peer_is_closed, first));
	toy_send(second, echo, 0);
	toy_await(second, 6, echo, 0);
	rig_stop(&rig);
}

/* Each of them is refused for another reason, and executed requests are between them. */
void refused_requests_are_answered_as_they_were(void)
{
	static const struct order hopeless = { .reply_bytes = 10 << 20 };
	struct peer *first, *second;
	struct reply reply;

	toy_init(2, 1024);
	toy_start();
	first = rig_peer(&rig, 0);
	toy_send(first, echo, 0);
	toy_send(first, refused, 0);
	toy_send(first, echo, 0);
	send_late(first, 0);
	toy_send(first, echo, 0);
	toy_send(first, hopeless, 0);
	toy_send(first, echo, 0);
	for (unsigned i = 1; i <= 7; i++)
		CHECK(peer_await(first, &reply));
	CHECK_UINT(toy.finished, 5);
	second = go_on(1, first, 0);
	for (unsigned i = 1; i <= 8; i++)
		resend(second, echo);
	for (unsigned i = 1; i <= 8; i++) {
		static const unsigned statuses[] = {
			[2] = WIRE_NO_KEYS, [4] = WIRE_DEADLINE, [6] = WIRE_OVER_LIMIT, [8] = WIRE_OK
		};

		if (i == 8)
			toy_await(second, i, echo, 0);
		else
			await_status(second, i, i % 2 ? WIRE_REPEATED : statuses[i]);
	}
	CHECK_UINT(toy.finished, 6);
	rig_stop(&rig);
}

/* The first request of a session, which nothing has been executed of: the node remembers the refusal. */
void a_late_first_request_is_remembered(void)
{
	struct peer *first, *second;

	toy_init(8, 0);
	toy_start();
	first = rig_peer(&rig, 0);
	send_late(first, 0);
	toy_send(first, echo, 0);
	await_status(first, 1, WIRE_DEADLINE);
	toy_await(first, 2, echo, 0);
	second = go_on(1, first, 0);
	resend(second, echo);
	resend(second, echo);
	await_status(second, 1, WIRE_DEADLINE);
	await_status(second, 2, WIRE_REPEATED);
	CHECK_UINT(toy.finished, 1);
	rig_stop(&rig);
}

/* It was executed, and is too late when it comes again: it was executed all the same. */
void what_was_executed_is_not_refused_as_late(void)
{
	struct peer *first, *second;

	toy_init(9, 0);
	toy_start();
	first = rig_peer(&rig, 0);
	toy_send(first, echo, 0);
	toy_await(first, 1, echo, 0);
	second = go_on(1, first, 0);
	send_late(second, WIRE_GOES_ON | WIRE_RESENT);
	await_status(second, 1, WIRE_REPEATED);
	rig_stop(&rig);
}

/* Beyond as many as a client has in flight. */
void old_outcomes_are_forgotten(void)
{
	enum { MANY = 3 * WIRE_IN_FLIGHT_MAX };
	struct peer *first, *second;

	toy_init(10, 0);
	toy_start();
	first = rig_peer(&rig, 0);
	for (unsigned i = 1; i <= MANY; i++) {
		toy_send(first, i % 7 == 3 ? refused : echo, 0);
		toy_await(first, i, i % 7 == 3 ? refused : echo, 0);
	}
	second = go_on(1, first, MANY - WIRE_IN_FLIGHT_MAX - 1);
	resend(second, echo);
	await_status(second, MANY - WIRE_IN_FLIGHT_MAX, WIRE_FORGOTTEN);
	for (unsigned i = MANY - WIRE_IN_FLIGHT_MAX + 1; i <= MANY; i++) {
		resend(second, echo);
		await_status(second, i, i % 7 == 3 ? WIRE_NO_KEYS : WIRE_REPEATED);
	}
	rig_stop(&rig);
}

void what_a_former_owner_began_is_waited_for(void)
{
	static const struct order slow = { .slices = 200, .begin_at = 1, .reply_bytes = 20 };
	struct peer *first, *second;

	toy_init(3, 0);
	toy_start();
	first = rig_peer(&rig, 0);
	toy_send(first, slow, 0);
	toy_send(first, echo, 0); /* waits behind it, and is not executed for this owner */
	rig_wait(&rig, 20 * SLICE_NS);
	CHECK_UINT(toy.started, 1);
	second = go_on(1, first, 0);
	resend(second, slow);
	resend(second, echo);
	await_status(second, 1, WIRE_REPEATED);
	toy_await(second, 2, echo, 0);
	CHECK_UINT(toy.started, 2);
	CHECK_UINT(toy.finished, 2);
	CHECK_UINT(rpc_counters(rig.server)->abandoned, 1);
	rig_stop(&rig);
}

/* The node has heard of the break: the former owner is without a connection, and still executes. */
void what_a_closed_owner_began_is_waited_for(void)
{
	static const struct order slow = { .slices = 2000, .begin_at = 1, .reply_bytes = 20 };
	struct peer *first, *second;

	toy_init(7, 0);
	toy_start();
	first = rig_peer(&rig, 0);
	toy_send(first, slow, 0);
	rig_wait(&rig, 20 * SLICE_NS);
	CHECK_UINT(toy.started, 1);
	tcp_abort(first->conn);
	second = go_on(1, first, 0);
	CHECK_UINT(toy.finished, 0);
	resend(second, slow);
	resend(second, echo);
	await_status(second, 1, WIRE_REPEATED);
	toy_await(second, 2, echo, 0);
	CHECK_UINT(toy.started, 2);
	CHECK_UINT(rpc_counters(rig.server)->abandoned, 1);
	rig_stop(&rig);
}

/* Two connections in a row are lost while the first one's request is executed. */
void what_an_owner_before_the_last_began_is_waited_for(void)
{
	static const struct order slow = { .slices = 20000, .begin_at = 1, .reply_bytes = 20 };
	struct peer *first, *second, *third;

	toy_init(11, 0);
	toy_start();
	first = rig_peer(&rig, 0);
	toy_send(first, slow, 0);
	rig_wait(&rig, 20 * SLICE_NS);
	second = go_on(1, first, 0);
	resend(second, slow);
	rig_wait(&rig, 20 * SLICE_NS);
	third = go_on(2, first, 0);
	resend(third, slow);
	await_status(third, 1, WIRE_REPEATED);
	CHECK_UINT(toy.started, 1);
	CHECK_UINT(toy.finished, 1);
	rig_stop(&rig);
}

/* The connection broke before the node had its first request. */
void what_never_came_is_executed_when_it_is_sent_again(void)
{
	struct peer *peer;

	toy_init(4, 0);
	toy_start();
	peer = rig_peer(&rig, 0);
	resend(peer, echo);
	resend(peer, echo);
	toy_send(peer, echo, 0);
	for (unsigned i = 1; i <= 3; i++)
		toy_await(peer, i, echo, 0);
	CHECK_UINT(toy.finished, 3);
	rig_stop(&rig);
}

/* Earlier sessions fill the server's table, except for this many places. */
static void fill(unsigned free)
{
	const unsigned places = rig.options.streams_max + rig.options.datagrams.sessions_max + REPLAY_LEFT;

	for (unsigned i = 0; i < places - free; i++)
		rpc_restore_outcome(rig.server, &(struct rpc_outcome){ .session = 1 + i, .sequence = 3 });
}

static void await_no_session(struct peer *peer)
{
	struct reply reply;

	CHECK(peer_await(peer, &reply));
	CHECK_UINT(reply.frame.status, WIRE_BUSY);
	CHECK_HAS(reply.text, "may forget none yet");
	CHECK_HAS(reply.text, "ask again later, or raise limits.connections");
}

void a_session_without_a_place_has_nothing_executed(void)
{
	struct peer *peer;

	toy_init(12, 0);
	toy_start();
	fill(0);
	peer = rig_peer(&rig, 0);
	toy_send(peer, echo, 0);
	await_no_session(peer);
	resend(peer, echo); /* nothing was forgotten so far: it never came */
	await_no_session(peer);
	CHECK_UINT(toy.started, 0);
	CHECK_UINT(rpc_counters(rig.server)->no_session, 2);
	/* There is room, and it comes as libstar sends what was refused so: as a new one. */
	rpc_restore_outcome(rig.server, &(struct rpc_outcome){ .session = 1, .sequence = REPLAY_GONE });
	toy_send(peer, echo, 0);
	toy_await(peer, 3, echo, 0);
	CHECK_UINT(toy.finished, 1);
	peer = go_on(1, peer, 2);
	resend(peer, echo);
	await_status(peer, 3, WIRE_REPEATED);
	CHECK_UINT(toy.finished, 1);
	rig_stop(&rig);
}

/* With room for one only. */
void who_leaves_in_order_makes_room(void)
{
	struct peer *first, *second;
	uint64_t session;

	toy_init(13, 0);
	toy_start();
	fill(1);
	first = rig_peer(&rig, 0);
	toy_send(first, echo, 0);
	toy_await(first, 1, echo, 0);
	session = first->session;
	tcp_abort(first->conn);
	second = rig_peer(&rig, 1);
	toy_send(second, echo, 0);
	await_no_session(second);
	/* It may send again, and does. */
	first = rig_peer(&rig, 2);
	first->session = session;
	first->sequence = 0;
	resend(first, echo);
	await_status(first, 1, WIRE_REPEATED);
	tcp_close(first->conn);
	CHECK(rig_run(&rig, RIG_S, peer_is_closed, first));
	toy_send(second, echo, 0);
	toy_await(second, 2, echo, 0);
	first = rig_peer(&rig, 3);
	first->session = session;
	first->sequence = 0;
	resend(first, echo);
	await_status(first, 1, WIRE_FORGOTTEN);
	CHECK_UINT(toy.finished, 2);
	rig_stop(&rig);
}

/* Frames of one stream with ever other sessions: none but its first is remembered, and no other peer's is lost. */
void a_stream_has_one_session(void)
{
	struct peer *honest, *liar, *again;
	uint64_t session;

	toy_init(6, 0);
	rig.options.streams_max = 4;
	toy_start();
	honest = rig_peer(&rig, 0);
	toy_send(honest, echo, 0);
	toy_await(honest, 1, echo, 0);
	liar = rig_peer(&rig, 1);
	session = liar->session;
	for (unsigned i = 1; i <= 50; i++) {
		liar->session = session + i;
		toy_send(liar, echo, 0);
		toy_await(liar, i, echo, 0);
	}
	resend(liar, echo);
	await_status(liar, 51, WIRE_FORGOTTEN);
	again = go_on(2, honest, 0);
	resend(again, echo);
	await_status(again, 1, WIRE_REPEATED);
	rig_stop(&rig);
}

static struct kept_outcome {
	struct rpc_outcome outcome;
	uint8_t ended[WIRE_IN_FLIGHT_MAX];
} kept[4];
static unsigned kept_count;

static void keep(void *ctx, const struct rpc_outcome *outcome)
{
	struct kept_outcome *to = &kept[kept_count++ % 4];

	(void)ctx;
	to->outcome = *outcome;
	if (!outcome->ended)
		return;
	memcpy(to->ended, outcome->ended, sizeof(to->ended));
	to->outcome.ended = to->ended;
}

/* Another server is told how a session's requests have ended: it answers as the first one would have. */
void sessions_are_as_they_were(void)
{
	uint64_t session[2];
	uint32_t at = 0;

	toy_init(4, 0);
	toy_start();
	for (unsigned s = 0; s < 2; s++) {
		struct peer *peer = rig_peer(&rig, s);

		for (unsigned i = 1; i <= 3; i++) {
			toy_send(peer, s == 0 && i == 2 ? refused : echo, 0);
			toy_await(peer, i, s == 0 && i == 2 ? refused : echo, 0);
		}
		session[s] = peer->session;
	}
	kept_count = 0;
	CHECK(!rpc_outcomes(rig.server, &at, 10, keep, NULL));
	CHECK_UINT(kept_count, 2);
	rig_stop(&rig);
	toy_init(4, 0);
	toy_start();
	for (unsigned i = 0; i < 2; i++)
		rpc_restore_outcome(rig.server, &kept[i].outcome);
	for (unsigned s = 0; s < 2; s++) {
		struct peer *peer = rig_peer(&rig, s);

		peer->session = session[s];
		peer->sequence = 0;
		for (unsigned i = 1; i <= 4; i++)
			resend(peer, echo);
		for (unsigned i = 1; i <= 3; i++)
			await_status(peer, i, s == 0 && i == 2 ? WIRE_NO_KEYS : WIRE_REPEATED);
		toy_await(peer, 4, echo, 0);
	}
	CHECK_UINT(rpc_counters(rig.server)->repeated, 6);
	rig_stop(&rig);
}
