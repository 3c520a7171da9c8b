/* SPDX-License-Identifier: BSD-3-Clause */
/* Replies that wait until what they tell of is durable: streams. sessions.c has the same over sessions. */
#include "tests/rpc/cases.h"

enum { LONG_MS = 100 };

static const struct order echo = { .reply_bytes = 20 };

static void begin(uint64_t seed, unsigned mbufs)
{
	toy_init(seed, mbufs);
	toy.changes = true;
	toy_start();
	rpc_hold(rig.server, true, false);
}

static bool has_finished(void *count)
{
	return toy.finished == *(unsigned *)count;
}

static void await_finished(unsigned count)
{
	CHECK(rig_run(&rig, RIG_S, has_finished, &count));
}

/* For long enough that whatever was to come would have come. */
static void check_silent(struct peer *peer)
{
	CHECK(!rig_run(&rig, LONG_MS * LINK_MS, peer_has_reply, peer));
}

/* A peer's next request waits behind the reply; others go on, and replies leave in the order of what they wait for. */
void replies_wait_until_they_are_durable(void)
{
	struct peer *first, *second, *reader;

	begin(21, 0);
	first = rig_peer(&rig, 0);
	second = rig_peer(&rig, 1);
	reader = rig_peer(&rig, 2);
	toy_send(first, echo, 0);
	toy_send(first, echo, 0);
	await_finished(1);
	toy_send(second, echo, 0);
	await_finished(2);
	check_silent(first);
	check_silent(second);
	CHECK_UINT(toy.finished, 2);
	CHECK_UINT(rpc_held(rig.server), 2);
	CHECK_UINT(rpc_counters(rig.server)->held, 2);
	/* What changes nothing does not wait. */
	toy.changes = false;
	toy_send(reader, echo, 0);
	toy_await(reader, 1, echo, 0);
	toy.changes = true;
	rpc_release(rig.server, 1);
	toy_await(first, 1, echo, 0);
	check_silent(second);
	CHECK_UINT(toy.finished, 4); /* the first one's second request, which waits for 3 */
	check_silent(first);
	rpc_release(rig.server, 2);
	toy_await(second, 1, echo, 0);
	check_silent(first);
	rpc_release(rig.server, 3);
	toy_await(first, 2, echo, 0);
	CHECK_UINT(rpc_held(rig.server), 0);
	CHECK_UINT(toy.outcomes, 3);
	/* What is durable by the time that it ends does not wait. */
	rpc_release(rig.server, 4);
	toy_send(first, echo, 0);
	toy_await(first, 3, echo, 0);
	CHECK_UINT(rpc_counters(rig.server)->held, 3);
	rig_stop(&rig);
}

static struct peer *go_on(unsigned i, const struct peer *from)
{
	struct peer *peer = rig_peer(&rig, i);

	peer->session = from->session;
	return peer;
}

static void resend(struct peer *peer)
{
	struct wire_frame frame = peer_frame(peer, WIRE_EXECUTE);

	frame.flags = WIRE_GOES_ON | WIRE_RESENT;
	peer_send(peer, frame, toy_payload(frame.session, frame.sequence, echo, 0), sizeof(echo));
}

static void check_resent(struct order order)
{
	struct peer *first, *second, *third;
	struct reply reply;

	begin(22, 0);
	first = rig_peer(&rig, 0);
	toy_send(first, order, 0);
	await_finished(1);
	tcp_abort(first->conn);
	second = go_on(1, first);
	resend(second);
	check_silent(second);
	/* And once more, from somewhere else. */
	third = go_on(2, first);
	resend(third);
	check_silent(third);
	CHECK_UINT(toy.finished, 1);
	rpc_release(rig.server, 1);
	CHECK(peer_await(third, &reply));
	CHECK_UINT(reply.frame.status, WIRE_REPEATED);
	CHECK(!second->conn || !peer_has_reply(second));
	CHECK_UINT(toy.finished, 1);
	CHECK_UINT(toy.outcomes, 1);
	/* The session goes on. */
	toy_send(third, echo, 0);
	await_finished(2);
	rpc_release(rig.server, 2);
	toy_await(third, 2, echo, 0);
	rig_stop(&rig);
}

/* Its reply was lost, or its connection: that it was executed is not said before it is durable. */
void what_was_executed_before_waits_as_well(void)
{
	static const struct order sliced = { .slices = 20, .begin_at = 1, .reply_bytes = 20 };

	check_resent(echo);
	check_resent(sliced);
}

/* Their streams are free again when the reply would have left. */
void peers_that_leave_while_they_wait(void)
{
	struct peer *peer;

	begin(23, 0);
	for (unsigned i = 0; i < 3; i++) {
		peer = rig_peer(&rig, i);
		toy_send(peer, echo, 0);
		toy_send(peer, echo, 0);
		await_finished(i + 1);
		if (i != 1)
			tcp_abort(peer->conn);
	}
	rig_wait(&rig, LONG_MS * LINK_MS);
	CHECK_UINT(toy.finished, 3);
	rpc_release(rig.server, 3);
	toy_await(&rig.peers[1], 1, echo, 0);
	check_silent(&rig.peers[1]);
	rpc_release(rig.server, 4);
	toy_await(&rig.peers[1], 2, echo, 0);
	CHECK_UINT(toy.finished, 4); /* what came behind the others is not executed */
	CHECK_UINT(rpc_held(rig.server), 0);
	CHECK_UINT(rpc_counters(rig.server)->abandoned, 2);
	rig_stop(&rig);
}

/* Many at once, more than leave in a turn. */
void replies_leave_when_nothing_holds_them(void)
{
	begin(24, 0);
	for (unsigned i = 0; i < RIG_PEERS_MAX; i++)
		toy_send(rig_peer(&rig, i), echo, 0);
	await_finished(RIG_PEERS_MAX);
	CHECK_UINT(rpc_held(rig.server), RIG_PEERS_MAX);
	check_silent(&rig.peers[0]);
	rpc_hold(rig.server, false, false);
	CHECK_UINT(rpc_held(rig.server), 0);
	for (unsigned i = 0; i < RIG_PEERS_MAX; i++)
		toy_await(&rig.peers[i], 1, echo, 0);
	for (unsigned i = 0; i < RIG_PEERS_MAX; i++)
		toy_send(&rig.peers[i], echo, 0);
	for (unsigned i = 0; i < RIG_PEERS_MAX; i++)
		toy_await(&rig.peers[i], 2, echo, 0);
	/* And held again: what was durable before is not known any more. */
	rpc_hold(rig.server, true, false);
	toy_send(&rig.peers[0], echo, 0);
	check_silent(&rig.peers[0]);
	rig_stop(&rig);
}

/* Each has a request whose payload takes a good part of what requests may hold. */
void large_requests_that_wait_hold_no_buffers(void)
{
	enum { PEERS = 8, BYTES = 200000 };

	begin(25, 1024);
	for (unsigned i = 0; i < PEERS; i++) {
		struct peer *peer = rig_peer(&rig, i);

		toy_send(peer, echo, BYTES);
		await_finished(i + 1);
	}
	CHECK_UINT(rpc_held(rig.server), PEERS);
	rpc_release(rig.server, PEERS);
	for (unsigned i = 0; i < PEERS; i++) {
		toy_await(&rig.peers[i], 1, echo, BYTES);
		toy_send(&rig.peers[i], echo, 100);
	}
	await_finished(2 * PEERS);
	rpc_release(rig.server, 2 * PEERS);
	for (unsigned i = 0; i < PEERS; i++)
		toy_await(&rig.peers[i], 2, echo, 100);
	CHECK_UINT(rpc_counters(rig.server)->no_buffers, 0);
	rig_stop(&rig);
}

/* Sends a request that changes something, with these flags; its reply's status, and what it says to be behind. */
static uint32_t behind_after(struct peer *peer, unsigned flags, unsigned status)
{
	struct wire_frame frame = peer_frame(peer, WIRE_EXECUTE);
	struct reply reply;

	frame.flags = (uint8_t)flags;
	peer_send(peer, frame, toy_payload(frame.session, frame.sequence, echo, 0), sizeof(echo));
	if (!CHECK(peer_await(peer, &reply)) || !CHECK_UINT(reply.frame.status, status) ||
	    !CHECK_UINT(reply.frame.sequence, frame.sequence) || !CHECK_UINT(reply.frame.flags, WIRE_RETAINS))
		return UINT32_MAX;
	return reply.frame.behind;
}

static uint32_t ping_behind(struct peer *peer)
{
	struct reply reply;

	peer_send(peer, peer_frame(peer, WIRE_PING), NULL, 0);
	return CHECK(peer_await(peer, &reply)) && CHECK_UINT(reply.frame.flags, WIRE_RETAINS) ? reply.frame.behind
											      : UINT32_MAX;
}

/* Replies to clients that keep their requests leave at once, and say how far they are durable; others wait. */
void what_is_kept_does_not_wait(void)
{
	struct peer *first, *other, *after;

	toy_init(26, 0);
	toy.changes = true;
	toy_start();
	rpc_hold(rig.server, true, true);
	CHECK(rpc_retains(rig.server));
	first = rig_peer(&rig, 0);
	other = rig_peer(&rig, 1);
	for (uint32_t i = 1; i <= 5; i++)
		CHECK_UINT(behind_after(first, WIRE_KEEPS, WIRE_OK), i);
	toy_send(other, echo, 0); /* 6 */
	await_finished(6);
	check_silent(other);
	CHECK_UINT(rpc_held(rig.server), 1);
	/* Of 2 to 4 it knows no more than that they are before 5. */
	rpc_release(rig.server, 4);
	CHECK_UINT(ping_behind(first), 5);
	rpc_release(rig.server, 5);
	CHECK_UINT(ping_behind(first), 0);
	check_silent(other);
	rpc_release(rig.server, 6);
	toy_await(other, 1, echo, 0);
	/* One that waits says that there is nothing behind it. */
	CHECK_UINT(behind_after(first, WIRE_KEEPS, WIRE_OK), 1); /* 7 */
	toy_send(first, echo, 0);
	await_finished(8);
	check_silent(first);
	rpc_release(rig.server, 8);
	toy_await(first, 9, echo, 0);
	CHECK_UINT(ping_behind(first), 0);
	/* Its connection is lost: the next one is told the same. */
	CHECK_UINT(behind_after(first, WIRE_KEEPS, WIRE_OK), 1); /* 9 */
	tcp_abort(first->conn);
	after = go_on(2, first);
	after->sequence = first->sequence - 1;
	CHECK_UINT(behind_after(after, WIRE_GOES_ON | WIRE_RESENT | WIRE_KEEPS | WIRE_KEPT, WIRE_REPEATED), 1);
	rpc_release(rig.server, 9);
	CHECK_UINT(ping_behind(after), 0);
	CHECK_UINT(behind_after(after, WIRE_KEEPS, WIRE_OK), 1);
	/* Nothing is waited for any more; and again: what was noted before is durable. */
	rpc_hold(rig.server, false, false);
	toy_send(after, echo, 0);
	toy_await(after, after->sequence, echo, 0);
	rpc_hold(rig.server, true, true);
	CHECK_UINT(ping_behind(after), 0);
	CHECK_UINT(behind_after(after, WIRE_KEEPS, WIRE_OK), 1);
	/* Where replies are not retained, whoever keeps something waits. */
	rpc_hold(rig.server, true, false);
	toy_send(after, echo, 0);
	check_silent(after);
	rig_stop(&rig);
}

/* The next request comes as one that was kept, and is answered. */
static void send_kept(struct peer *peer, struct order order, struct reply *reply)
{
	struct wire_frame frame = peer_frame(peer, WIRE_EXECUTE);

	frame.flags = WIRE_GOES_ON | WIRE_RESENT | WIRE_KEEPS | WIRE_KEPT;
	peer_send(peer, frame, toy_payload(frame.session, frame.sequence, order, 0), sizeof(order));
	CHECK(peer_await(peer, reply));
}

/* Another node knows the session up to some request: what was answered before is executed from there on. */
void what_was_kept_is_executed_once(void)
{
	enum { KNOWN = 1000 };
	static const struct order fails = { .reply_bytes = 20, .fail = 3 };
	uint8_t ended[WIRE_IN_FLIGHT_MAX] = { 0 };
	struct rpc_outcome outcome = { .session = 77, .sequence = KNOWN, .ended = ended };
	struct reply reply;
	struct peer *peer;

	ended[(KNOWN - 1) % WIRE_IN_FLIGHT_MAX] = UINT8_MAX; /* a pull, say: nothing is known of it */
	toy_init(27, 0);
	toy.changes = true;
	toy_start();
	rpc_restore_outcome(rig.server, &outcome);
	peer = rig_peer(&rig, 0);
	peer->session = outcome.session;
	/* However long ago it was. */
	for (uint64_t sequence = KNOWN - 600; sequence <= KNOWN; sequence += 100) {
		peer->sequence = sequence - 1;
		send_kept(peer, echo, &reply);
		CHECK_UINT(reply.frame.status, WIRE_REPEATED);
		/* And how many more would be. */
		CHECK_UINT(reply.frame.flags, sequence < KNOWN ? WIRE_AHEAD : 0);
		CHECK_UINT(reply.frame.behind, KNOWN - sequence);
	}
	CHECK_UINT(toy.finished, 0);
	peer->sequence = KNOWN + 3; /* pulls are between */
	send_kept(peer, echo, &reply);
	CHECK_UINT(reply.frame.status, WIRE_OK);
	/* What is refused may come once more, and is tried again. */
	for (unsigned i = 0; i < 3; i++) {
		peer->sequence = KNOWN + 5;
		send_kept(peer, i ? echo : fails, &reply);
		CHECK_UINT(reply.frame.status, i == 0 ? WIRE_NO_KEYS : i == 1 ? WIRE_OK : WIRE_REPEATED);
	}
	CHECK_UINT(toy.finished, 3);
	CHECK_UINT(reply.frame.flags, 0); /* there is nobody to bring it to */
	/* Requests that were refused since then are not among those that would be repeated. */
	peer->sequence = KNOWN + 7;
	toy_send(peer, fails, 0);
	CHECK(peer_await(peer, &reply));
	CHECK_UINT(reply.frame.status, WIRE_NO_KEYS);
	peer->sequence = KNOWN - 301;
	send_kept(peer, echo, &reply);
	CHECK_UINT(reply.frame.status, WIRE_REPEATED);
	CHECK_UINT(reply.frame.behind, 307);
	rig_stop(&rig);
}
