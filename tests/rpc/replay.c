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

static const uint64_t lease_ns = REPLAY_LEASE_S * UINT64_C(1000000000);
static struct rpc_server nobody; /* which a table asks what is durable */

static enum replay_verdict look(struct replay *replay, struct rpc_work *work, uint64_t now_ns)
{
	enum wire_status status;

	work->server = &nobody;
	return rpc_replay_look(replay, work, now_ns, &status);
}

static struct rpc_work *of_session(struct rpc_work *work, uint64_t session, uint64_t sequence, unsigned flags)
{
	*work = (struct rpc_work){ .request.frame = {
					   .session = session, .sequence = sequence, .flags = (uint8_t)flags } };
	return work;
}

/* It comes, has a request executed, and stays. */
static void do_one(struct replay *replay, struct rpc_work *work, uint64_t session, uint64_t now_ns)
{
	CHECK_UINT(look(replay, of_session(work, session, 5, 0), now_ns), REPLAY_RUN);
	CHECK(work->replay != 0);
	rpc_replay_done(replay, work, WIRE_OK);
}

/* What is said of a session's request when it is sent again by somebody who then leaves. */
static enum replay_verdict ask_again(struct replay *replay, uint64_t session, uint64_t now_ns)
{
	struct rpc_work work;
	const enum replay_verdict verdict =
		look(replay, of_session(&work, session, 5, WIRE_GOES_ON | WIRE_RESENT), now_ns);

	rpc_replay_leave(replay, &work, REPLAY_ANYBODY, now_ns, false);
	return verdict;
}

/* The table by itself: places for four. */
void sessions_that_may_send_again_stay(void)
{
	enum { PLACES = 4 };
	struct replay *replay = rpc_replay_create(PLACES, 1);
	struct rpc_work works[PLACES], other;

	for (unsigned i = 0; i < PLACES; i++)
		do_one(replay, &works[i], 100 + i, 0);
	/* All have owners: however long ago they were heard. Nothing was forgotten: what is sent again never came. */
	CHECK_UINT(look(replay, of_session(&other, 999, 1, 0), 9 * lease_ns), REPLAY_FULL);
	CHECK_UINT(look(replay, of_session(&other, 999, 1, WIRE_GOES_ON | WIRE_RESENT), 9 * lease_ns), REPLAY_FULL);
	CHECK_UINT(other.replay, 0);
	/* One is lost at 10, the next a second later; each may come back for a lease. */
	rpc_replay_leave(replay, &works[1], REPLAY_ANYBODY, 10 * lease_ns, false);
	rpc_replay_leave(replay, &works[0], REPLAY_ANYBODY, 10 * lease_ns + 1000000000, false);
	CHECK_UINT(look(replay, of_session(&other, 999, 1, 0), 11 * lease_ns - 1), REPLAY_FULL);
	CHECK_UINT(rpc_replay_count(replay), PLACES);
	CHECK_UINT(ask_again(replay, 101, 11 * lease_ns - 1), REPLAY_REPEATED); /* and its lease begins again */
	CHECK_UINT(look(replay, of_session(&other, 999, 1, 0), 11 * lease_ns), REPLAY_FULL);
	/* The other one has stayed away: its place is given to a new one, and nobody knows it any more. */
	do_one(replay, &other, 999, 11 * lease_ns + 1000000000);
	CHECK_UINT(ask_again(replay, 100, 11 * lease_ns + 1000000000), REPLAY_FORGOTTEN);
	for (unsigned i = 1; i < PLACES; i++)
		CHECK_UINT(ask_again(replay, 100 + i, 11 * lease_ns + 1000000000), REPLAY_REPEATED);
	rpc_replay_destroy(replay);
}

/* One address that comes and goes leaves places to others, and those of others stay. */
void one_address_does_not_take_all_places(void)
{
	enum { SHARE = REPLAY_LEFT / REPLAY_SHARES, PLACES = SHARE + 2, OTHER = 8 };
	struct replay *replay = rpc_replay_create(PLACES, 1);
	struct rpc_work work, other;

	do_one(replay, &other, 1, 0);
	rpc_replay_leave(replay, &other, OTHER, 0, false);
	for (unsigned i = 0; i < 3 * SHARE; i++) {
		do_one(replay, &work, 100 + i, 0);
		rpc_replay_leave(replay, &work, 7, 0, false);
	}
	CHECK_UINT(rpc_replay_count(replay), PLACES);
	do_one(replay, &other, 2, 0);
	rpc_replay_leave(replay, &other, OTHER, 0, true);
	CHECK_UINT(ask_again(replay, 1, 0), REPLAY_REPEATED);
	CHECK_UINT(ask_again(replay, 100 + SHARE - 1, 0), REPLAY_REPEATED);
	CHECK_UINT(ask_again(replay, 100 + 3 * SHARE - 1, 0), REPLAY_FORGOTTEN);
	rpc_replay_destroy(replay);
}

/* Those that have had all answers go first, before any lease is over, the oldest first. */
void sessions_that_have_ended_go_first(void)
{
	enum { PLACES = 4 };
	struct replay *replay = rpc_replay_create(PLACES, 1);
	struct rpc_work works[PLACES], others[PLACES];

	for (unsigned i = 0; i < PLACES; i++)
		do_one(replay, &works[i], 100 + i, 0);
	rpc_replay_leave(replay, &works[3], REPLAY_ANYBODY, 1000, false);
	rpc_replay_leave(replay, &works[2], REPLAY_ANYBODY, 2000, true);
	rpc_replay_leave(replay, &works[1], REPLAY_ANYBODY, 3000, true);
	/* One of them comes back, and does not end in order this time. */
	CHECK_UINT(ask_again(replay, 102, 4000), REPLAY_REPEATED);
	do_one(replay, &others[0], 200, 5000);
	CHECK_UINT(look(replay, of_session(&others[1], 201, 1, 0), 5000), REPLAY_FULL);
	CHECK_UINT(ask_again(replay, 101, 5000), REPLAY_FORGOTTEN);
	CHECK_UINT(ask_again(replay, 102, 5000), REPLAY_REPEATED);
	CHECK_UINT(ask_again(replay, 103, 5000), REPLAY_REPEATED);
	rpc_replay_destroy(replay);
}

/* Its peer keeps what is not, and sends it again when it comes back, however late. */
void sessions_with_what_is_not_durable_stay(void)
{
	struct replay *replay = rpc_replay_create(2, 1);
	struct rpc_work works[2], other;

	nobody = (struct rpc_server){ .life = 3, .durable = 50 };
	for (unsigned i = 0; i < 2; i++)
		do_one(replay, &works[i], 100 + i, 0);
	CHECK(rpc_replay_note(replay, &works[0], nobody.life, 60));
	rpc_replay_leave(replay, &works[0], REPLAY_ANYBODY, 0, true);
	rpc_replay_leave(replay, &works[1], REPLAY_ANYBODY, 0, false);
	do_one(replay, &other, 999, 2 * lease_ns); /* in the place of the second, which has nothing */
	CHECK_UINT(look(replay, of_session(&works[1], 998, 1, 0), 9 * lease_ns), REPLAY_FULL);
	CHECK_UINT(ask_again(replay, 100, 9 * lease_ns), REPLAY_REPEATED);
	nobody.durable = 60;
	CHECK_UINT(look(replay, of_session(&works[1], 998, 1, 0), 10 * lease_ns), REPLAY_RUN);
	CHECK_UINT(ask_again(replay, 100, 10 * lease_ns), REPLAY_FORGOTTEN);
	nobody = (struct rpc_server){ 0 };
	rpc_replay_destroy(replay);
}

/* What goes from one table into the other, as by a journal or to a standby: a request's outcome at its end. */
static void tell_other(struct replay *from, struct rpc_work *work, struct replay *to)
{
	const struct rpc_outcome outcome = rpc_replay_outcome(from, work);

	if (outcome.replaces)
		rpc_replay_restore(to,
				   &(struct rpc_outcome){
					   .session = outcome.replaces, .sequence = REPLAY_GONE, .forgot = true },
				   0);
	rpc_replay_restore(to, &outcome, 0);
}

/* Many sessions come and go, with and without changes, in places for few: whoever goes on from what it was told answers
 * as the first one would. */
void both_tables_forget_the_same_sessions(void)
{
	enum { PLACES = 16, SESSIONS = 400 };
	struct replay *replay = rpc_replay_create(PLACES, 1), *other = rpc_replay_create(PLACES, 2);
	bool changed[SESSIONS];
	struct prng prng;
	uint64_t now_ns = 0;
	struct rpc_outcome outcome;
	uint32_t at = 0;
	unsigned known = 0;

	prng_seed(&prng, 5);
	for (unsigned i = 0; i < SESSIONS; i++) {
		struct rpc_work work;

		now_ns += lease_ns / 10;
		/* Somebody comes back now and then, and changes nothing: its lease is another one then. */
		if (prng_below(&prng, 4) == 0)
			ask_again(replay, 1000 + prng_below(&prng, i + 1), now_ns);
		if (look(replay, of_session(&work, 1000 + i, 5, 0), now_ns) == REPLAY_FULL) {
			changed[i] = false;
			continue;
		}
		rpc_replay_done(replay, &work, WIRE_OK);
		changed[i] = prng_below(&prng, 3) != 0;
		if (changed[i])
			tell_other(replay, &work, other);
		rpc_replay_leave(replay, &work, REPLAY_ANYBODY, now_ns, prng_below(&prng, 2));
	}
	while (rpc_replay_next(replay, &at, &outcome)) {
		if (outcome.sequence != 5 || !changed[outcome.session - 1000])
			continue; /* a pull's, say, of which is not told */
		CHECK_UINT(ask_again(other, outcome.session, now_ns), REPLAY_REPEATED);
		known++;
	}
	CHECK(known >= 3);
	printf("# %u of %u are known to both\n", known, rpc_replay_count(replay));
	rpc_replay_destroy(replay);
	rpc_replay_destroy(other);
}

/* Who was forgotten comes back, and what was done for it is told before what is in its former place is at its end: that
 * it was forgotten is not told behind it. */
void who_comes_back_is_not_forgotten_behind_it(void)
{
	struct replay *replay = rpc_replay_create(2, 1), *other = rpc_replay_create(2, 2);
	struct rpc_work works[2], large, back;

	for (unsigned i = 0; i < 2; i++) {
		do_one(replay, &works[i], 100 + i, 0);
		tell_other(replay, &works[i], other);
		rpc_replay_leave(replay, &works[i], REPLAY_ANYBODY, i, true);
	}
	CHECK_UINT(look(replay, of_session(&large, 200, 1, 0), 2), REPLAY_RUN);
	CHECK_UINT(look(replay, of_session(&back, 100, 6, WIRE_GOES_ON), 3), REPLAY_RUN);
	rpc_replay_done(replay, &back, WIRE_OK);
	tell_other(replay, &back, other);
	rpc_replay_done(replay, &large, WIRE_OK);
	tell_other(replay, &large, other);
	CHECK_UINT(look(other, of_session(&works[0], 100, 6, WIRE_GOES_ON | WIRE_RESENT), 3), REPLAY_REPEATED);
	CHECK_UINT(look(other, of_session(&works[1], 200, 1, WIRE_GOES_ON | WIRE_RESENT), 3), REPLAY_REPEATED);
	CHECK_UINT(rpc_replay_count(other), 2);
	rpc_replay_destroy(replay);
	rpc_replay_destroy(other);
}

/* Of an address those count that were last there: who comes back, and leaves from elsewhere, takes no place of it. */
void who_moves_counts_at_the_new_address(void)
{
	enum { SHARE = REPLAY_LEFT / REPLAY_SHARES };
	struct replay *replay = rpc_replay_create(SHARE + 2, 1);
	struct rpc_work work, stays;

	for (unsigned crowd = 7; crowd <= 8; crowd++)
		for (unsigned i = 0; i < SHARE; i++) {
			CHECK_UINT(look(replay, of_session(&work, 100 + i, 5, WIRE_GOES_ON), 0), REPLAY_RUN);
			rpc_replay_done(replay, &work, WIRE_OK);
			rpc_replay_leave(replay, &work, crowd, 0, false);
		}
	do_one(replay, &work, 1, 0);
	rpc_replay_leave(replay, &work, 7, 0, false);
	do_one(replay, &stays, 2, 0);
	CHECK_UINT(look(replay, of_session(&work, 3, 1, 0), 0), REPLAY_FULL);
	CHECK_UINT(ask_again(replay, 1, 0), REPLAY_REPEATED);
	rpc_replay_destroy(replay);
}

/* Also who was told of no session but that it is forgotten, or that one may have been, does not take it for a new one.
 */
void what_may_be_forgotten_stays_unknown_elsewhere(void)
{
	struct replay *replay = rpc_replay_create(2, 1);
	struct rpc_work work;

	rpc_replay_restore(replay, &(struct rpc_outcome){ .session = 300, .sequence = 5, .unknown = true }, 0);
	CHECK_UINT(look(replay, of_session(&work, 300, 6, WIRE_GOES_ON | WIRE_RESENT), 0), REPLAY_FORGOTTEN);
	rpc_replay_restore(replay, &(struct rpc_outcome){ .session = 200, .sequence = REPLAY_GONE }, 0);
	CHECK_UINT(look(replay, of_session(&work, 200, 5, WIRE_GOES_ON | WIRE_RESENT), 0), REPLAY_FORGOTTEN);
	rpc_replay_destroy(replay);
}

/* Whoever owned them on the node before could not come back while this one did not serve. */
void leases_begin_when_the_node_does(void)
{
	struct replay *replay = rpc_replay_create(1, 1);
	struct rpc_work work;

	rpc_replay_restore(replay, &(struct rpc_outcome){ .session = 100, .sequence = 5 }, 0);
	rpc_replay_begin(replay, 7 * lease_ns);
	CHECK_UINT(look(replay, of_session(&work, 200, 1, 0), 8 * lease_ns - 1), REPLAY_FULL);
	CHECK_UINT(ask_again(replay, 100, 8 * lease_ns - 1), REPLAY_REPEATED);
	CHECK_UINT(look(replay, of_session(&work, 200, 1, 0), 9 * lease_ns), REPLAY_RUN);
	rpc_replay_destroy(replay);
}

/* Sessions of before fill the server's table, but for so many places. */
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
