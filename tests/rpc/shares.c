/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many streams from one address, which does its worst, by IPv4 and by IPv6; and an ordinary worker that speaks the
 * other one, which is served throughout. Half-open connections: tests/net/cookies.c.
 */
#include "rpc/internal.h"
#include "tests/rpc/cases.h"

enum { CROWD = 40, WORKER = CROWD };

static const struct order echo = { .reply_bytes = 100 };

static const struct net_address *address_of(bool v6)
{
	return v6 ? link_ip6(0) : link_ip(0);
}

static void is_served(struct peer *worker)
{
	const uint64_t since = rig.link.now_ns;

	toy_send(worker, echo, 100);
	CHECK(toy_await(worker, worker->sequence, echo, 100));
	CHECK(rig.link.now_ns - since < 100 * LINK_MS);
}

static unsigned closed_of(unsigned n)
{
	unsigned closed = 0;

	for (unsigned i = 0; i < n; i++)
		closed += rig.peers[i].closed;
	return closed;
}

/* Though there are places for more of them. */
static void check_mute(bool v6)
{
	struct peer *worker;

	toy_init(60 + v6, 0);
	toy_start();
	for (unsigned i = 0; i < CROWD; i++)
		rig_peer_at(&rig, i, address_of(v6));
	worker = rig_peer_at(&rig, WORKER, address_of(!v6));
	toy_send(&rig.peers[0], echo, 100);
	toy_await(&rig.peers[0], 1, echo, 100);
	is_served(worker);
	for (unsigned s = 0; s < 5; s++) {
		rig_wait(&rig, 11 * RIG_S);
		CHECK_UINT(closed_of(CROWD), 0);
		is_served(worker);
	}
	rig_wait(&rig, 10 * RIG_S);
	CHECK_UINT(closed_of(CROWD), CROWD - 1);
	CHECK_UINT(rpc_counters(rig.server)->stalled, CROWD - 1);
	rig_wait(&rig, 120 * RIG_S); /* a connection on which something was sent may be silent for long */
	CHECK(!rig.peers[0].closed);
	is_served(worker);
	rig_stop(&rig);
}

void streams_that_never_speak_end(void)
{
	check_mute(false);
	check_mute(true);
}

/* They ask for small replies, of which each gets its mbufs, and read none. Their requests wait for their address's
 * share, and are refused in the end; then all of them are given up at once. */
static void check_unread(bool v6)
{
	enum { POOL = 1023, REQUESTS = 8 };
	static const struct order order = { .reply_bytes = 30000 };
	struct peer *worker;
	unsigned before, most = 0;

	toy_init(62 + v6, POOL);
	rig.options.stall_ns = RIG_S;
	rig.net_options[1].receive_window_bytes = 16 * 1024;
	toy_start();
	worker = rig_peer_at(&rig, WORKER, address_of(!v6));
	for (unsigned i = 0; i < CROWD; i++)
		rig_peer_at(&rig, i, address_of(v6))->hold = true;
	before = rte_mempool_in_use_count(rig.link.pool[0]);
	for (unsigned i = 0; i < CROWD; i++)
		for (unsigned r = 0; r < REQUESTS; r++)
			toy_send(&rig.peers[i], order, 100);
	for (unsigned i = 0; i < 180; i++) {
		const unsigned used = rte_mempool_in_use_count(rig.link.pool[0]) - before;

		most = RTE_MAX(most, used);
		is_served(worker);
		rig_wait(&rig, 10 * LINK_MS);
	}
	CHECK(most > POOL / 4);
	CHECK(most < POOL * 3 / 4);
	CHECK_UINT(closed_of(CROWD), 0);
	CHECK(rpc_counters(rig.server)->starved > 0);
	for (unsigned i = 0; i < 100; i++) {
		is_served(worker);
		rig_wait(&rig, 10 * LINK_MS);
	}
	CHECK(closed_of(CROWD) > CROWD / 4);
	CHECK(!worker->closed);
	rig_stop(&rig);
}

void unread_replies_of_one_address_are_shared(void)
{
	check_unread(false);
	check_unread(true);
}

/* The books: what is counted by address is what streams have, and nothing when all have read. */
void unread_replies_are_counted(void)
{
	static const struct order order = { .reply_bytes = 200000 };
	uint32_t sum = 0, streams = 0;

	toy_init(64, 0);
	rig.net_options[1].receive_window_bytes = 16 * 1024;
	toy_start();
	for (unsigned i = 0; i < 8; i++) {
		rig_peer_at(&rig, i, address_of(i & 1))->hold = true;
		toy_send(&rig.peers[i], order, 100);
	}
	rig_wait(&rig, RIG_S);
	for (unsigned i = 0; i < CROWDS; i++)
		sum += rig.server->unread[i];
	for (unsigned i = 0; i < rig.options.streams_max; i++)
		streams += rig.server->streams[i].unread;
	CHECK_UINT(sum, streams);
	CHECK(sum > 8 * 100 && sum < 8 * 150); /* 144 mbufs, less what the window has let through */
	tcp_abort(rig.peers[0].conn);
	for (unsigned i = 1; i < 8; i++) {
		peer_resume(&rig.peers[i]);
		toy_await(&rig.peers[i], 1, order, 100);
	}
	rig_wait(&rig, RIG_S);
	for (unsigned i = 0; i < CROWDS; i++)
		CHECK_UINT(rig.server->unread[i], 0);
	rig_stop(&rig);
}
