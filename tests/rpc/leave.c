/* SPDX-License-Identifier: BSD-3-Clause */
/* A server that leaves its place: whom it answers still, and when it hangs up. sessions.c has the same of sessions. */
#include "tests/rpc/cases.h"

enum { LONG_MS = 100 };

static const struct order echo = { .reply_bytes = 20 };

/* How many have yet to be answered; left NULL: nobody waits for that. By small steps, as reactors take them. */
static uint32_t hang_up(bool waits)
{
	uint32_t at = 0, left = 0;

	while (rpc_server_hang_up(rig.server, &at, 7, waits ? &left : NULL))
		;
	return left;
}

static bool is_over(void *ctx)
{
	const struct peer *peer = ctx;

	return peer->finished || peer->closed;
}

static bool has_started(void *ctx)
{
	return toy.started == 1;
}

/* Requests that were begun are answered; others get no reply, so that their sender does not ask for another layout; and
 * no connection is accepted. */
void who_leaves_hangs_up_when_all_is_answered(void)
{
	static const struct order long_one = { .slices = 20000, .begin_at = 1, .reply_bytes = 20 };
	struct peer *begun, *late, *idle, *next;

	toy_init(41, 0);
	toy_start();
	rig.slices_per_turn = 1;
	begun = rig_peer(&rig, 0);
	late = rig_peer(&rig, 1);
	idle = rig_peer(&rig, 2);
	toy_send(begun, long_one, 0);
	CHECK(rig_run(&rig, RIG_S, has_started, NULL));
	rpc_server_leave(rig.server);
	rpc_server_leave(rig.server); /* once more changes nothing */
	toy.stale = true;
	toy_send(late, echo, 0);
	toy_send(late, echo, 0);
	CHECK(!rig_run(&rig, LONG_MS * LINK_MS, peer_has_reply, late));
	CHECK(!is_over(late) && !is_over(idle));
	next = rig_peer(&rig, 3);
	CHECK(!next->opened && next->closed);
	CHECK_UINT(hang_up(true), 1);
	CHECK(rig_run(&rig, RIG_S, is_over, late));
	CHECK(rig_run(&rig, RIG_S, is_over, idle));
	CHECK(!peer_has_reply(late));
	CHECK(!is_over(begun));
	toy_await(begun, 1, long_one, 0);
	CHECK_UINT(hang_up(true), 0);
	CHECK(rig_run(&rig, RIG_S, is_over, begun));
	CHECK_UINT(toy.finished, 1);
	rig_stop(&rig);
}

/* It takes its place back: connections that come then are accepted and answered, also with a refusal. */
void who_has_left_may_come_back(void)
{
	struct star_error err = { 0 };
	struct peer *before, *refused, *after;

	toy_init(43, 0);
	toy_start();
	before = rig_peer(&rig, 0);
	CHECK_INT(rpc_server_listen(rig.server, &err), 0); /* it does already: nothing */
	toy_send(before, echo, 0);
	toy_await(before, 1, echo, 0);
	rpc_server_leave(rig.server);
	CHECK_UINT(hang_up(true), 0);
	CHECK(rig_run(&rig, RIG_S, is_over, before));
	refused = rig_peer(&rig, 1);
	CHECK(!refused->opened && refused->closed);
	CHECK_INT(rpc_server_listen(rig.server, &err), 0);
	after = rig_peer(&rig, 2);
	CHECK(after->opened && !after->closed);
	toy_send(after, echo, 0);
	toy_await(after, 1, echo, 0);
	toy.stale = true;
	toy_send(after, echo, 0);
	CHECK(rig_run(&rig, RIG_S, peer_has_reply, after));
	/* And leaves once more. */
	rpc_server_leave(rig.server);
	CHECK_UINT(hang_up(true), 0);
	CHECK(rig_run(&rig, RIG_S, is_over, after));
	rig_stop(&rig);
}

/* A request in slices that is refused in the middle of its preparation has no reply, either; one whose reply waits for
 * what is durable is waited for, until it takes too long. */
void who_leaves_waits_for_replies_and_not_for_ever(void)
{
	static const struct order prepared = { .slices = 2000, .reply_bytes = 20 };
	struct peer *waits, *slow;

	toy_init(42, 0);
	toy.changes = true;
	toy_start();
	rpc_hold(rig.server, true, false);
	waits = rig_peer(&rig, 0);
	slow = rig_peer(&rig, 1);
	toy_send(waits, echo, 0);
	CHECK(!rig_run(&rig, LONG_MS * LINK_MS, peer_has_reply, waits));
	CHECK_UINT(rpc_held(rig.server), 1);
	toy_send(slow, prepared, 0);
	rig.slices_per_turn = 1;
	rig_wait(&rig, 5 * LINK_MS);
	CHECK_UINT(toy.finished, 1);
	rpc_server_leave(rig.server);
	toy.stale = true;
	CHECK(!rig_run(&rig, LONG_MS * LINK_MS, peer_has_reply, slow));
	CHECK_UINT(hang_up(true), 1);
	CHECK(rig_run(&rig, RIG_S, is_over, slow));
	CHECK(!peer_has_reply(slow) && !is_over(waits));
	hang_up(false);
	CHECK(rig_run(&rig, RIG_S, is_over, waits));
	rpc_release(rig.server, 1);
	CHECK_UINT(rpc_counters(rig.server)->replies, 0);
	CHECK_UINT(rpc_held(rig.server), 0);
	rig_stop(&rig);
}
