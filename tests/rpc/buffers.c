/* SPDX-License-Identifier: BSD-3-Clause */
/* Mbufs: bounded in what waits, shared in what is written, and all of them back at the end. */
#include "tests/rpc/cases.h"

#include <errno.h>
#include <stdio.h>

static const struct order echo = { .reply_bytes = 20 };

static void await_all(struct peer *peer, unsigned requests, struct order order, uint32_t data_bytes)
{
	for (unsigned i = 0; i < requests; i++)
		if (!toy_await(peer, i + 1, order, data_bytes)) {
			printf("# reply %u\n", i);
			return;
		}
}

void peer_that_never_reads_is_not_served(void)
{
	enum { REQUESTS = 300 };
	static const struct order order = { .reply_bytes = 10000 };
	struct peer *peer, *other;
	unsigned finished;

	toy_init(1, 0);
	toy_start();
	peer = rig_peer(&rig, 0);
	peer->hold = true;
	for (unsigned i = 0; i < REQUESTS; i++)
		toy_send(peer, order, 100);
	rig_wait(&rig, 30 * RIG_S);
	/* What the peer's window takes, the send queue, and one reply over. */
	finished = toy.finished;
	CHECK(finished * 10080u <= 2 * 256 * 1024 + 2 * 10080);
	CHECK(finished * 10080u >= 256 * 1024);
	CHECK(rte_mempool_in_use_count(rig.link.pool[0]) < 1000);
	rig_wait(&rig, 300 * RIG_S);
	CHECK_UINT(toy.finished, finished);
	other = rig_peer(&rig, 1);
	toy_send(other, echo, 0);
	toy_await(other, 1, echo, 0);
	peer_resume(peer);
	await_all(peer, REQUESTS, order, 100);
	CHECK_UINT(toy.finished, REQUESTS + 1);
	rig_stop(&rig);
}

void blocked_streams_that_die_are_freed(void)
{
	static const struct order order = { .reply_bytes = 100000 };

	toy_init(2, 0);
	rig.options.streams_max = 1;
	toy_start();
	for (unsigned kind = 0; kind < 3; kind++) {
		struct peer *peer = rig_peer(&rig, 0);

		peer->hold = true;
		for (unsigned i = 0; i < 20; i++)
			toy_send(peer, order, 2000);
		rig_wait(&rig, RIG_S);
		CHECK(rte_mempool_in_use_count(rig.link.pool[0]) > 100);
		if (kind == 0) {
			tcp_abort(peer->conn);
		} else if (kind == 1) {
			tcp_close(peer->conn); /* the next byte is answered by a RST */
		} else {
			rig.link.loss = 1000; /* gone without a word */
			rig_wait(&rig, 1000 * RIG_S);
			rig.link.loss = 0;
		}
		rig_wait(&rig, 500 * RIG_S);
		CHECK_INT(peer->closed, kind < 2); /* one that has nothing to send does not notice */
		/* A frame may wait for the address of a neighbour that is gone. */
		if (!CHECK_UINT(net_connections(rig.link.net[0]), 0) ||
		    !CHECK(rte_mempool_in_use_count(rig.link.pool[0]) <= (kind == 2)))
			printf("# kind %u\n", kind);
	}
	rig_stop(&rig);
}

/* Sends n bytes of a request of the given size. */
static void send_part(struct peer *peer, uint32_t data_bytes, uint32_t part)
{
	struct wire_frame frame = peer_frame(peer, WIRE_EXECUTE);
	const uint8_t *payload = toy_payload(frame.session, frame.sequence, echo, data_bytes);

	frame.payload_bytes = (uint32_t)sizeof(echo) + data_bytes;
	frame.checksum = wire_checksum(&frame, payload, frame.payload_bytes);
	peer_write(peer, &frame, sizeof(frame));
	peer_write(peer, payload, part);
}

/* While mbufs are short one request is helped to become whole; another one is refused when it takes more. */
void greedy_requests_are_refused(void)
{
	enum { BIG = 27000 };
	struct peer *first, *second;
	struct reply reply;

	toy_init(3, 0);
	rig.options.held_mbufs_max = 20;
	toy_start();
	first = rig_peer(&rig, 0);
	second = rig_peer(&rig, 1);
	toy_send(second, echo, 0);
	toy_await(second, 1, echo, 0);
	send_part(first, BIG, 18000);
	rig_wait(&rig, 100 * LINK_MS);
	toy_send(second, echo, BIG);
	peer_await(second, &reply);
	CHECK_STATUS(reply, WIRE_BUSY, "no buffers left for requests: retry, with smaller ones");
	CHECK_UINT(reply.frame.session, second->session);
	CHECK_UINT(reply.frame.sequence, 2);
	CHECK_UINT(rpc_counters(rig.server)->no_buffers, 1);
	/* The stream has read all of it, and goes on. */
	CHECK(!rig_run(&rig, 5 * RIG_S, peer_is_closed, second));
	toy_send(second, echo, 0);
	toy_await(second, 3, echo, 0);
	peer_write(first, (const uint8_t *)toy_payload(first->session, 1, echo, BIG) + 18000,
		   BIG + sizeof(echo) - 18000);
	toy_await(first, 1, echo, BIG);
	CHECK_UINT(toy.started, 3);
	/* What was refused is not held any more, and may be sent again. */
	toy_send(second, echo, BIG);
	toy_await(second, 4, echo, BIG);
	rig_stop(&rig);
}

/* Requests that are whole take no more mbufs: refusing them would only hurt streams that hold few. */
void whole_requests_pass_over_the_limit(void)
{
	enum { BIG = 60000 };
	struct peer *big, *small;
	struct wire_frame ping;
	struct reply reply;

	toy_init(4, 0);
	rig.options.held_mbufs_max = 20;
	rig.net_options[0].receive_window_bytes = 16 * 1024;
	toy_start();
	big = rig_peer(&rig, 0);
	small = rig_peer(&rig, 1);
	send_part(big, BIG, BIG - 10);
	rig_wait(&rig, 100 * LINK_MS);
	for (unsigned i = 0; i < 40; i++) { /* more than a window of them */
		toy_send(small, echo, 1000);
		toy_await(small, 2 * i + 1, echo, 1000);
		ping = peer_frame(small, WIRE_PING);
		peer_send(small, ping, NULL, 0);
		peer_await(small, &reply);
		CHECK_UINT(reply.frame.status, WIRE_OK);
	}
	peer_write(big, (const uint8_t *)toy_payload(big->session, 1, echo, BIG) + BIG - 10, sizeof(echo) + 10);
	toy_await(big, 1, echo, BIG);
	CHECK_UINT(rpc_counters(rig.server)->no_buffers, 0);
	rig_stop(&rig);
}

/* Appends the peer's next request. Returns its bytes. */
static size_t append_request(struct peer *peer, uint8_t *at, uint32_t data_bytes)
{
	struct wire_frame frame = peer_frame(peer, WIRE_EXECUTE);
	const uint8_t *payload = toy_payload(frame.session, frame.sequence, echo, data_bytes);

	frame.payload_bytes = (uint32_t)sizeof(echo) + data_bytes;
	frame.checksum = wire_checksum(&frame, payload, frame.payload_bytes);
	memcpy(at, &frame, sizeof(frame));
	memcpy(at + sizeof(frame), payload, frame.payload_bytes);
	return sizeof(frame) + frame.payload_bytes;
}

/* Many peers send a few bytes of a request, some of them behind a whole one, and stop: each would hold an mbuf. Then
 * they go on. */
void beginnings_of_requests_hold_no_more_than_the_limit(void)
{
	enum { PEERS = 60, LIMIT = 20, BIG = 1000 };
	static const uint32_t parts[] = { 1, 63, 40, sizeof(struct wire_frame) + 5 };
	static uint8_t bytes[PEERS][2 * BIG];
	size_t sent[PEERS], all[PEERS];
	struct peer *worker;
	struct reply reply;

	toy_init(15, 0);
	rig.options.held_mbufs_max = LIMIT;
	toy_start();
	worker = rig_peer(&rig, PEERS);
	for (unsigned i = 0; i < PEERS; i++) {
		struct peer *peer = rig_peer(&rig, i);
		const size_t first = i % 8 < 4 ? 0 : append_request(peer, bytes[i], 0);

		all[i] = first + append_request(peer, bytes[i] + first, BIG);
		sent[i] = first + parts[i % 4];
		peer_write(peer, bytes[i], sent[i]);
		if (first)
			toy_await(peer, 1, echo, 0);
	}
	rig_wait(&rig, 100 * LINK_MS);
	CHECK(rte_mempool_in_use_count(rig.link.pool[0]) <= LIMIT);
	toy_send(worker, echo, 0);
	toy_await(worker, 1, echo, 0);
	for (unsigned i = 0; i < PEERS; i++) {
		for (; sent[i] < all[i] - BIG; sent[i]++)
			peer_write(&rig.peers[i], bytes[i] + sent[i], 1);
		peer_write(&rig.peers[i], bytes[i] + sent[i], all[i] - sent[i]);
		peer_await(&rig.peers[i], &reply);
		CHECK_UINT(reply.frame.sequence, rig.peers[i].sequence);
		/* A beginning with a payload was given up. */
		CHECK(reply.frame.status == WIRE_OK || (reply.frame.status == WIRE_BUSY && i % 4 == 3));
	}
	CHECK_UINT(rpc_counters(rig.server)->bad_frames + rpc_counters(rig.server)->bad_checksums, 0);
	CHECK_UINT(rpc_counters(rig.server)->stalled, 0);
	rig_stop(&rig);
}

/* Many large requests at once, with few mbufs: windows are opened to one after the other, and all are executed. */
void large_requests_take_turns_when_short(void)
{
	enum { PEERS = 12, BIG = 1 << 20 };
	struct peer *peers[PEERS];

	toy_init(9, 4095);
	rig.options.held_mbufs_max = 2000;
	rig.net_options[0].receive_window_bytes = 64 * 1024;
	rig.link.loss = 5;
	toy_start();
	for (unsigned i = 0; i < PEERS; i++)
		peers[i] = rig_peer(&rig, i);
	for (unsigned i = 0; i < PEERS; i++)
		toy_send(peers[i], echo, BIG);
	for (unsigned i = 0; i < PEERS; i++)
		toy_await(peers[i], 1, echo, BIG);
	CHECK_UINT(rpc_counters(rig.server)->no_buffers, 0);
	CHECK_UINT(rpc_counters(rig.server)->stalled, 0);
	rig_stop(&rig);
}

/* Swallows replies to the first peer: it does not read. (Its window stays open, so that it can still send.) */
static bool swallow(struct link *link, int from, struct rte_mbuf *m)
{
	return from == 0 && m->data_len > 200 && net_flow(m).port == *(const uint16_t *)link->tap_ctx;
}

/* A request that has its turn, and then does not go on, does not keep the others waiting until it is given up. */
static void check_turn_that_ends(unsigned kind)
{
	enum { BIG = 120000, PART = 100000 };
	struct peer *first, *second;
	uint64_t since;
	uint16_t port;

	toy_init(10 + kind, 0);
	rig.options.held_mbufs_max = 100;
	rig.options.stall_ns = 5 * RIG_S;
	rig.options.send_queue_bytes = 4096;
	rig.net_options[0].receive_window_bytes = 16 * 1024;
	toy_start();
	first = rig_peer(&rig, 0);
	second = rig_peer(&rig, 1);
	if (kind == 2) { /* becomes whole, but its peer does not read what it asked for before */
		port = tcp_address(first->conn).local_port;
		rig.link.tap = swallow;
		rig.link.tap_ctx = &port;
		toy_send(first, (struct order){ .reply_bytes = 50000 }, 0);
		rig_wait(&rig, 100 * LINK_MS);
	}
	send_part(first, BIG, PART);
	rig_wait(&rig, 100 * LINK_MS);
	toy_send(second, echo, BIG);
	rig_wait(&rig, 50 * LINK_MS);
	CHECK(tcp_queued(second->conn) > BIG / 2); /* it waits */
	if (kind == 1)				   /* dies; in kind 0 it stops in the middle */
		tcp_abort(first->conn);
	if (kind == 2)
		peer_write(first, (const uint8_t *)toy_payload(first->session, 2, echo, BIG) + PART,
			   BIG + sizeof(echo) - PART);
	since = rig.link.now_ns;
	if (!toy_await(second, 1, echo, BIG) || !CHECK(rig.link.now_ns - since < 2 * RIG_S))
		printf("# kind %u\n", kind);
	CHECK_UINT(rpc_counters(rig.server)->no_buffers, 0);
	CHECK_UINT(rpc_counters(rig.server)->stalled, 0); /* long before the first is given up */
	rig_stop(&rig);
}

void turns_to_receive_end_with_their_streams(void)
{
	for (unsigned kind = 0; kind < 3; kind++)
		check_turn_that_ends(kind);
}

static bool watch_pool(void *ctx)
{
	unsigned *most = ctx;

	*most = RTE_MAX(*most, rte_mempool_in_use_count(rig.link.pool[0]));
	return false;
}

/* A whole request of a peer that does not read waits with all it holds, but not over the limit. */
void blocked_requests_hold_no_more_than_the_limit(void)
{
	enum { HOGS = 12, BIG = 60000, BIG_MBUFS = 42, LIMIT = 200, WINDOW_MBUFS = 12 };
	struct peer *hogs[HOGS], *other;
	unsigned before, most = 0;

	toy_init(14, 0);
	rig.options.held_mbufs_max = LIMIT;
	rig.options.send_queue_bytes = 4096;
	rig.net_options[0].receive_window_bytes = 16 * 1024;
	toy_start();
	for (unsigned i = 0; i < HOGS; i++) {
		hogs[i] = rig_peer(&rig, i);
		hogs[i]->hold = true;
		toy_send(hogs[i], (struct order){ .reply_bytes = 270000 }, 0);
	}
	rig_wait(&rig, RIG_S);
	before = rte_mempool_in_use_count(rig.link.pool[0]);
	for (unsigned i = 0; i < HOGS; i++)
		toy_send(hogs[i], echo, BIG);
	rig_run(&rig, 60 * RIG_S, watch_pool, &most);
	/* The limit, the one that has its turn, and what others' windows held open. */
	CHECK(most - before <= LIMIT + BIG_MBUFS + WINDOW_MBUFS);
	CHECK(most - before > LIMIT / 2);
	CHECK(rpc_counters(rig.server)->no_buffers > 0);
	CHECK_UINT(rpc_counters(rig.server)->requests, HOGS);
	other = rig_peer(&rig, HOGS);
	toy_send(other, echo, 1000);
	toy_await(other, 1, echo, 1000);
	rig_stop(&rig);
}

/* Each of them fits, any three do not: none may wait for what another one holds. */
void large_replies_share_a_small_pool(void)
{
	enum { PEERS = 8, REQUESTS = 3 };
	static const struct order order = { .slices = 5, .reply_bytes = 500000 };
	struct peer *peers[PEERS];

	toy_init(5, 1023);
	rig.link.loss = 5;
	toy_start();
	for (unsigned i = 0; i < PEERS; i++)
		peers[i] = rig_peer(&rig, i);
	for (unsigned i = 0; i < PEERS; i++)
		for (unsigned r = 0; r < REQUESTS; r++)
			toy_send(peers[i], order, 100);
	for (unsigned i = 0; i < PEERS; i++)
		await_all(peers[i], REQUESTS, order, 100);
	CHECK_UINT(toy.finished, PEERS * REQUESTS);
	rig_stop(&rig);
}

void replies_larger_than_the_pool_are_refused(void)
{
	static const struct order order = { .reply_bytes = 1000000 };
	struct peer *peer;
	struct reply reply;
	uint64_t since;

	toy_init(6, 511);
	toy_start();
	peer = rig_peer(&rig, 0);
	since = rig.link.now_ns;
	toy_send(peer, order, 100);
	toy_send(peer, echo, 100);
	peer_await(peer, &reply);
	CHECK_STATUS(reply, WIRE_OVER_LIMIT,
		     "the reply needs more packet buffers than the node has: ask for fewer rows");
	CHECK_UINT(reply.frame.sequence, 1);
	CHECK(rig.link.now_ns - since < 10 * LINK_MS);
	toy_await(peer, 2, echo, 100);
	/* A peer that can only take tiny segments makes tiny mbufs of its replies. */
	rig_stop(&rig);
	toy_init(6, 1023);
	rig.net_options[1].interfaces[0].mtu = 576;
	toy_start();
	peer = rig_peer(&rig, 0);
	toy_send(peer, (struct order){ .reply_bytes = 500000 }, 100);
	peer_await(peer, &reply);
	CHECK_STATUS(reply, WIRE_OVER_LIMIT, "ask for fewer rows at once");
	toy_send(peer, (struct order){ .reply_bytes = 400000 }, 100);
	toy_await(peer, 2, (struct order){ .reply_bytes = 400000 }, 100);
	CHECK_UINT(rpc_counters(rig.server)->starved, 1);
	rig_stop(&rig);
}

/* Peers that do not read have the mbufs: the request is answered in the end, and the stream goes on. */
void replies_without_room_wait_and_give_up(void)
{
	enum { GREEDY = 4 };
	static const struct order order = { .reply_bytes = 500000 };
	struct peer *peer, *greedy[GREEDY];
	struct reply reply;
	uint64_t since;

	toy_init(6, 1023);
	rig.options.stall_ns = 1 * RIG_S;
	toy_start();
	peer = rig_peer(&rig, GREEDY);
	for (unsigned i = 0; i < GREEDY; i++) {
		greedy[i] = rig_peer(&rig, i);
		greedy[i]->hold = true;
		toy_send(greedy[i], order, 100);
	}
	rig_wait(&rig, 500 * LINK_MS);
	since = rig.link.now_ns;
	toy_send(peer, order, 100);
	toy_send(peer, echo, 100);
	peer_await(peer, &reply);
	CHECK_STATUS(reply, WIRE_BUSY, "no buffers left for the reply: retry later");
	CHECK_NEAR((double)(rig.link.now_ns - since), RIG_S, 20 * LINK_MS);
	toy_await(peer, 2, echo, 100);
	/* A connection that does not read for two seconds while others need the mbufs is closed. */
	toy_send(peer, order, 100);
	toy_await(peer, 3, order, 100);
	CHECK(rpc_counters(rig.server)->unread > 0);
	CHECK(rpc_counters(rig.server)->starved > 0);
	rig_stop(&rig);
}

/* Peers that ask much and read nothing take what the pool can spare; others are served all the same. */
void receiving_keeps_a_share_of_the_pool(void)
{
	enum { GREEDY = 10 };
	static const struct order order = { .reply_bytes = 300000 };
	static const struct order small = { .reply_bytes = 3000 };
	struct peer *greedy[GREEDY], *other;
	unsigned served = 0;

	toy_init(7, 1023);
	toy_start();
	for (unsigned i = 0; i < GREEDY; i++) {
		greedy[i] = rig_peer(&rig, i);
		greedy[i]->hold = true;
	}
	other = rig_peer_at(&rig, GREEDY, link_ip6(0)); /* of another address */
	for (unsigned i = 0; i < GREEDY; i++)
		for (unsigned r = 0; r < 3; r++)
			toy_send(greedy[i], order, 100);
	for (unsigned i = 0; i < 50; i++) {
		rig_wait(&rig, 10 * LINK_MS);
		toy_send(other, small, 3000);
		if (!toy_await(other, i + 1, small, 3000))
			break;
		served++;
	}
	CHECK_UINT(served, 50);
	for (unsigned i = 0; i < GREEDY; i++)
		peer_resume(greedy[i]);
	for (unsigned i = 0; i < GREEDY; i++)
		await_all(greedy[i], 3, order, 100);
	rig_stop(&rig);
}

void empty_pool_delays_replies_only(void)
{
	static const struct order large = { .reply_bytes = 50000 }, fail = { .fail = 7 };
	struct wire_frame ping;
	struct reply reply;
	struct peer *peer;

	toy_init(8, 1023);
	toy_start();
	peer = rig_peer(&rig, 0);
	/* The error's header is sent when there is an mbuf again; its sentence is lost. */
	toy.drain = true;
	toy_send(peer, fail, 0);
	rig_wait(&rig, RIG_S);
	CHECK_UINT(toy.finished, 1);
	CHECK(toy.drained_count > 900);
	CHECK(!peer_has_reply(peer));
	toy.drain = false;
	toy_refill();
	peer_await(peer, &reply);
	CHECK_UINT(reply.frame.status, WIRE_NO_KEYS);
	CHECK_UINT(reply.frame.sequence, 1);
	CHECK_UINT(reply.frame.payload_bytes, 0);
	/* A reply waits whole, and so does what was pipelined behind it. */
	toy.drain = true;
	toy_send(peer, large, 0);
	toy_send(peer, echo, 0);
	ping = peer_frame(peer, WIRE_PING);
	peer_send(peer, ping, NULL, 0);
	rig_wait(&rig, RIG_S);
	CHECK_UINT(toy.finished, 1);
	CHECK(!peer_has_reply(peer));
	toy.drain = false;
	toy_refill();
	toy_await(peer, 2, large, 0);
	toy_await(peer, 3, echo, 0);
	peer_await(peer, &reply);
	CHECK_UINT(reply.frame.sequence, 4);
	/* What waits holds nothing of what it would need: a reply of 14 mbufs, and 10 there. */
	toy.drain = true;
	toy.leave = 10;
	toy_send(peer, (struct order){ .reply_bytes = 20000 }, 0);
	rig_wait(&rig, 100 * LINK_MS);
	CHECK(toy.refused_room > 0);
	CHECK_UINT(rte_mempool_avail_count(rig.link.pool[0]), toy.leave);
	toy_refill();
	toy.drain = false;
	toy_await(peer, 5, (struct order){ .reply_bytes = 20000 }, 0);
	toy.leave = 0;
	/* A stream may die while it waits. */
	toy.drain = true;
	toy_send(peer, fail, 0);
	rig_wait(&rig, 100 * LINK_MS);
	tcp_abort(peer->conn);
	rig_wait(&rig, 100 * LINK_MS);
	toy_refill();
	rig_stop(&rig);
}

/* One address has taken all connections: idle ones, parts of requests, unread replies. Another one's worker is served
 * throughout. */
void connections_of_one_address_leave_room_for_others(void)
{
	enum { CONNECTIONS = 24 };
	struct peer *worker;
	struct wire_frame frame;

	toy_init(30, 0);
	rig.net_options[0].connections_max = CONNECTIONS;
	toy_start();
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		struct peer *peer = rig_peer(&rig, i);

		frame = peer_frame(peer, WIRE_EXECUTE);
		peer->hold = i % 3 == 2;
		if (i % 3 == 1)
			peer_write(peer, &frame, sizeof(frame) / 2);
		if (peer->hold)
			toy_send(peer, (struct order){ .reply_bytes = 270000 }, 0);
	}
	rig_wait(&rig, RIG_S);
	CHECK_UINT(net_connections(rig.link.net[0]), CONNECTIONS);
	worker = rig_peer_at(&rig, CONNECTIONS, link_ip6(0));
	for (unsigned i = 1; i <= 20; i++) {
		toy_send(worker, echo, 0);
		toy_await(worker, i, echo, 0);
		rig_peer(&rig, CONNECTIONS + 1 + i); /* the crowd comes again, and finds nothing free but its own */
	}
	CHECK(!worker->closed);
	CHECK_UINT(net_counters(rig.link.net[0])->tcp_idle_closed, 1);
	rig_stop(&rig);
}
