/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests over sessions of datagrams: the server of rpc.h at side 0, one client's endpoint at side 1. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "secure/memory.h"
#include "secure/ticket.h"
#include "tests/rpc/cases.h"

enum { PORT = 5555, HELD_MAX = 64, TWO_PACKETS = 2000 };

static struct {
	struct link link;
	struct rpc_server *server;
	struct dgram *client;
	struct dgram_session *session;
	struct secure_tickets *tickets; /* NULL: none are wanted */
	struct dgram_seal *seal;
	uint64_t chosen, seen; /* the session's number, by the client and by the service */
	bool stuck;	       /* the service does not come to an end */
	uint64_t slow;	       /* this request has half of its reply written, and waits */
	uint64_t failing;      /* this one fails when it has half of its reply */
	uint64_t growing;      /* this one finds that its reply is longer than it thought */
	uint64_t executed, sequence, answered;
	uint8_t statuses[64]; /* of the answers, by sequence */
	bool disordered;
	int reason;		    /* why the session was closed */
	bool stale;		    /* requests are refused: there is no layout */
	bool changes;		    /* requests do, and their replies wait for as much as were before them */
	uint64_t position;	    /* of these */
	char sentence[TWO_PACKETS]; /* of the last error */
} w;

static enum rpc_progress execute(void *ctx, struct rpc_request *request, uint64_t now_ns)
{
	const uint64_t sequence = request->frame.sequence;

	w.seen = request->frame.session;
	if (w.stuck)
		return RPC_MORE;
	if (w.stale)
		return rpc_reply_fail(request, WIRE_STALE_LAYOUT, "there is none");
	if (!request->begun) {
		if (!rpc_reply_room(request, sizeof(sequence)))
			return RPC_MORE;
		request->begun = true;
		w.executed++;
		rpc_reply_put(request, &sequence, sizeof(sequence) / 2);
	}
	if (sequence == w.slow)
		return RPC_MORE;
	if (sequence == w.failing)
		return rpc_reply_fail(request, WIRE_NO_MEMORY, "no");
	rpc_reply_put(request, (const char *)&sequence + sizeof(sequence) / 2, sizeof(sequence) / 2);
	if (sequence == w.growing) {
		static const char more[TWO_PACKETS];

		if (!rpc_reply_room(request, sizeof(more)))
			return RPC_MORE;
		rpc_reply_put(request, more, sizeof(more));
	}
	request->changed = w.changes;
	return RPC_DONE;
}

static void ended(void *ctx, const struct rpc_outcome *outcome)
{
}

static uint64_t held_until(void *ctx, const struct rpc_request *request)
{
	return request ? ++w.position : w.position;
}

static void connected(void *user, bool resumed, uint32_t incarnation)
{
}

/* Its checksum, and that it is the one to its request. */
static void check_reply(const struct rte_mbuf *m, uint32_t at, struct wire_frame frame)
{
	uint8_t payload[TWO_PACKETS + sizeof(uint64_t)];
	uint32_t n = 0;

	for (at += (uint32_t)sizeof(frame); m && n < frame.payload_bytes; m = m->next, at = 0) {
		const uint32_t left = m->data_len - at, part = RTE_MIN(left, frame.payload_bytes - n);

		memcpy(payload + n, rte_pktmbuf_mtod_offset(m, const void *, at), part);
		n += part;
	}
	CHECK_UINT(n, frame.payload_bytes);
	CHECK_UINT(frame.checksum, w.tickets ? 0 : wire_checksum(&frame, payload, n));
	CHECK_UINT(frame.session, w.chosen);
	if (frame.status == WIRE_OK)
		CHECK_MEM(payload, &frame.sequence, sizeof(frame.sequence));
	else
		snprintf(w.sentence, sizeof(w.sentence), "%.*s", (int)n, (const char *)payload);
}

static void received(void *user, struct rte_mbuf *m, uint32_t bytes, enum wire_status status)
{
	uint32_t at = 0;

	do {
		struct wire_frame frame; /* in the mbuf it may lie anywhere */

		memcpy(&frame, rte_pktmbuf_mtod_offset(m, const void *, at), sizeof(frame));
		w.disordered |= frame.sequence != ++w.answered;
		w.statuses[frame.sequence % sizeof(w.statuses)] = frame.status;
		check_reply(m, at, frame);
	} while ((at = dgram_next(m, at)));
	dgram_taken(w.session, m->next ? 2 : 1); /* no answer is longer */
	rte_pktmbuf_free(m->next);
	m->next = NULL;
	rte_pktmbuf_free(m);
}

static void acknowledged(void *user)
{
}

static void closed(void *user, int reason)
{
	w.session = NULL;
	w.reason = reason;
}

static const struct secure_key principal = { .principal = "job1", .role = SECURE_WORKER, .id = "0123abcd" };

static bool ticket(void *user, struct dgram_ticket *to)
{
	return secure_tickets_issue(w.tickets, &principal, w.link.now_ns, &to->ticket, to->secret, NULL) == 0;
}

static void refused(void *user)
{
}

static const struct dgram_handler handler = { .connected = connected,
					      .received = received,
					      .acknowledged = acknowledged,
					      .closed = closed,
					      .ticket = ticket,
					      .refused = refused };

static struct dgram_options datagrams(void)
{
	return (struct dgram_options){
		.incarnation = 7,
		.sessions_max = 8,
		.active_max = 8,
		.window_max = 64,
		.credits = 64,
		.held_mbufs_max = 1024,
		.message_max = 1 << 20,
		.rto_min_ns = 1000000,
		.rto_max_ns = 1000 * LINK_MS,
		.lease_ns = 2000 * LINK_MS,
		.heartbeat_ns = 200 * LINK_MS,
		.ack_delay_ns = 100000,
		.target_delay_ns = 10 * LINK_MS,
		.secret = { 1, 2 },
	};
}

static bool on_turn(struct link *link, int side)
{
	if (side == 0) {
		rpc_run(w.server, 8, link->now_ns);
		rpc_transmit(w.server, link->now_ns);
	} else if (w.client) {
		return dgram_turn(w.client, link->now_ns);
	}
	return false;
}

static void open_client(void)
{
	struct dgram_options o = datagrams();
	struct star_error err = { 0 };

	o.net = w.link.net[1];
	o.handler = &handler;
	net_turn(w.link.net[1], w.link.now_ns);
	w.client = dgram_create(&o, &err);
	w.session = w.client ? dgram_open(w.client, link_ip(0), PORT, &w, w.seal, &err) : NULL;
	if (!w.session) {
		unit_fail(__FILE__, __LINE__, "no session: %s", err.text);
		exit(EXIT_FAILURE);
	}
	w.sequence = w.answered = 0;
}

static void begin_by(uint32_t payload_max, struct secure_tickets *tickets)
{
	struct rpc_server_options o = { .port = PORT,
					.streams_max = 4,
					.datagrams = datagrams(),
					.payload_max = payload_max,
					.send_queue_bytes = 1 << 20,
					.held_mbufs_max = HELD_MAX,
					.stall_ns = 30000 * LINK_MS,
					.service = { .execute = execute, .ended = ended, .held_until = held_until } };
	struct star_error err = { 0 };

	memset(&w, 0, sizeof(w));
	link_init(&w.link, 1);
	link_up(&w.link);
	w.tickets = tickets;
	if (tickets)
		w.seal = secure_alloc(dgram_seal_bytes());
	o.tickets = tickets;
	o.net = w.link.net[0];
	w.server = rpc_server_create(&o, &err);
	if (!w.server) {
		unit_fail(__FILE__, __LINE__, "no server: %s", err.text);
		exit(EXIT_FAILURE);
	}
	w.link.turn = on_turn;
	open_client();
}

static void begin_with(uint32_t payload_max)
{
	begin_by(payload_max, NULL);
}

static void begin(void)
{
	begin_with(WIRE_PAYLOAD_DEFAULT);
}

static void end(void)
{
	dgram_destroy(w.client);
	rpc_server_destroy(w.server);
	link_down(&w.link);
	secure_tickets_destroy(w.tickets);
	secure_free(w.seal);
}

static bool all_answered(void *ctx)
{
	return w.answered == w.sequence;
}

static void ask(uint32_t bytes, bool damaged)
{
	struct wire_frame frame = { .magic = WIRE_MAGIC,
				    .version = WIRE_VERSION,
				    .opcode = WIRE_EXECUTE,
				    .session = w.chosen,
				    .sequence = ++w.sequence,
				    .payload_bytes = bytes };
	static uint8_t payload[TWO_PACKETS];
	const uint32_t room = dgram_payload(w.session), first = RTE_MIN(bytes, room - (uint32_t)sizeof(frame));
	struct rte_mbuf *shared = dgram_room(w.session, (uint32_t)sizeof(frame) + bytes);
	struct rte_mbuf *m = shared ? shared : dgram_alloc(w.session);

	frame.checksum = w.tickets ? 0 : wire_checksum(&frame, payload, bytes) ^ damaged;
	memcpy(rte_pktmbuf_append(m, sizeof(frame)), &frame, sizeof(frame));
	memset(rte_pktmbuf_append(m, (uint16_t)first), 0, first);
	if (shared) {
		CHECK(dgram_append(w.session, shared));
		return;
	}
	if (bytes > first) {
		m->next = dgram_alloc(w.session);
		memset(rte_pktmbuf_append(m->next, (uint16_t)(bytes - first)), 0, bytes - first);
	}
	dgram_send(w.session, m);
}

void requests_over_a_session_keep_their_order(void)
{
	begin();
	for (unsigned i = 0; i < 40; i++)
		ask(i % 3 ? 16 : TWO_PACKETS, false);
	link_run(&w.link, 10000 * LINK_MS, all_answered, NULL);
	CHECK_UINT(w.answered, 40);
	CHECK_UINT(w.executed, 40);
	CHECK(!w.disordered);
	CHECK_UINT(rpc_counters(w.server)->requests, 40);
	end();
}

static bool nobody_stays(void *ctx, const struct secure_key *key)
{
	return false;
}

/* No checksums, and a number of the session that is the principal's; a client that is thrown out, leaves. */
void requests_over_a_sealed_session_are_their_principals(void)
{
	struct secure_guest guest = { .principal = "job1" };
	struct star_error err;

	begin_by(WIRE_PAYLOAD_DEFAULT, secure_tickets_create(SECURE_DATA_SEALED, &err));
	w.chosen = 12345;
	for (unsigned i = 0; i < 40; i++)
		ask(i % 3 ? 16 : TWO_PACKETS, false);
	link_run(&w.link, 10000 * LINK_MS, all_answered, NULL);
	CHECK_UINT(w.answered, 40);
	CHECK_UINT(w.executed, 40);
	CHECK_UINT(w.seen, secure_guest_number(&guest, 12345));
	CHECK_UINT(secure_tickets_review(w.tickets, nobody_stays, NULL), 1);
	link_run(&w.link, 1100 * LINK_MS, NULL, NULL);
	CHECK(!w.session);
	CHECK_UINT(dgram_sessions(rpc_datagrams(w.server)), 0);
	end();
}

static void limit(const char *text)
{
	secure_tickets_rights(w.tickets, secure_rights_parse("rights", text, strlen(text), NULL));
}

/* Beside the session that there is: its client is told why it gets none. */
void sessions_of_a_principal_have_a_quota(void)
{
	struct dgram *first;
	struct star_error err;
	void *seal;

	begin_by(WIRE_PAYLOAD_DEFAULT, secure_tickets_create(SECURE_DATA_SEALED, &err));
	ask(16, false);
	link_run(&w.link, 10000 * LINK_MS, all_answered, NULL);
	limit("limit job1 sessions=1");
	first = w.client;
	seal = w.seal;
	w.seal = secure_alloc(dgram_seal_bytes());
	open_client();
	ask(16, false);
	w.reason = 0;
	link_run(&w.link, 1000 * LINK_MS, NULL, NULL);
	CHECK(!w.session);
	CHECK_UINT(w.reason, EDQUOT);
	CHECK_UINT(w.answered, 0);
	CHECK_UINT(rpc_counters(w.server)->quota_sessions, 1);
	CHECK_UINT(dgram_sessions(rpc_datagrams(w.server)), 1);
	dgram_destroy(w.client);
	/* When the first is gone there is room. */
	w.client = first;
	net_turn(w.link.net[1], w.link.now_ns);
	dgram_destroy(w.client);
	w.client = NULL;
	link_run(&w.link, 3000 * LINK_MS, NULL, NULL);
	open_client();
	ask(16, false);
	link_run(&w.link, 10000 * LINK_MS, all_answered, NULL);
	CHECK_UINT(w.answered, 1);
	CHECK_UINT(w.statuses[1], WIRE_OK);
	end();
	secure_free(seal);
}

void requests_of_a_sealed_session_have_quotas(void)
{
	unsigned good = 0, refused = 0;
	struct star_error err;

	begin_by(WIRE_PAYLOAD_DEFAULT, secure_tickets_create(SECURE_DATA_SEALED, &err));
	limit("limit job1 requests=5");
	for (unsigned i = 0; i < 20; i++)
		ask(16, false);
	link_run(&w.link, 10000 * LINK_MS, all_answered, NULL);
	for (unsigned i = 1; i <= 20; i++) {
		good += w.statuses[i] == WIRE_OK;
		refused += w.statuses[i] == WIRE_QUOTA_REQUESTS;
	}
	CHECK(good >= 5 && good <= 6);
	CHECK_UINT(good + refused, 20);
	CHECK_UINT(w.executed, good);
	/* What lies in one session, more than the quota: the first goes, whatever its size, and others as there is
	 * room. */
	limit("limit job1 in_flight=1");
	for (unsigned i = 0; i < 10; i++)
		ask(TWO_PACKETS, false);
	link_run(&w.link, 10000 * LINK_MS, all_answered, NULL);
	CHECK_UINT(w.answered, 30);
	CHECK_UINT(w.statuses[21], WIRE_OK);
	CHECK(rpc_counters(w.server)->quota_in_flight > 0);
	ask(TWO_PACKETS, false); /* nothing of it is left behind */
	link_run(&w.link, 10000 * LINK_MS, all_answered, NULL);
	CHECK_UINT(w.statuses[31], WIRE_OK);
	end();
}

void damaged_requests_of_a_session_are_refused_alone(void)
{
	begin();
	ask(16, false);
	ask(TWO_PACKETS, true);
	ask(16, false);
	link_run(&w.link, 10000 * LINK_MS, all_answered, NULL);
	CHECK_UINT(w.answered, 3);
	CHECK_UINT(w.statuses[1], WIRE_OK);
	CHECK_UINT(w.statuses[2], WIRE_BAD_CHECKSUM);
	CHECK_UINT(w.statuses[3], WIRE_OK);
	CHECK_UINT(w.executed, 2);
	CHECK_UINT(rpc_counters(w.server)->bad_checksums, 1);
	end();
}

void requests_of_a_session_have_the_nodes_limit(void)
{
	begin_with(TWO_PACKETS - 8);
	ask(TWO_PACKETS - 8, false);
	ask(TWO_PACKETS, false);
	ask(16, false);
	link_run(&w.link, 10000 * LINK_MS, all_answered, NULL);
	CHECK_UINT(w.answered, 3);
	CHECK_UINT(w.statuses[1], WIRE_OK);
	CHECK_UINT(w.statuses[2], WIRE_OVER_LIMIT);
	CHECK_HAS(w.sentence, "of this node (limits.request_mib)");
	CHECK_UINT(w.statuses[3], WIRE_OK);
	CHECK_UINT(w.executed, 2);
	end();
}

/* Workers that die while their requests wait: the budget of mbufs, of which each had nearly a quarter, is whole
 * again. */
void what_dead_sessions_brought_is_given_back(void)
{
	begin();
	for (unsigned round = 0; round < 20; round++) {
		w.stuck = true;
		for (unsigned i = 0; i < 6; i++)
			ask(TWO_PACKETS, false);
		link_run(&w.link, 50 * LINK_MS, NULL, NULL);
		CHECK_UINT(w.answered, 0);
		dgram_destroy(w.client); /* it says goodbye, or the lease ends */
		w.client = NULL;
		link_run(&w.link, 3000 * LINK_MS, NULL, NULL);
		w.stuck = false;
		open_client();
	}
	ask(TWO_PACKETS, false);
	link_run(&w.link, 1000 * LINK_MS, all_answered, NULL);
	CHECK_UINT(w.answered, 1);
	CHECK_UINT(w.statuses[1], WIRE_OK);
	end();
}

static bool has_come(void *ctx)
{
	return rpc_datagrams(w.server) && dgram_counters(rpc_datagrams(w.server))->messages_in == 1;
}

/* Its delay is shorter than a tick of the wheel, which alone would wake a reactor that sleeps. */
void a_server_that_owes_an_acknowledgement_stays_awake(void)
{
	begin();
	w.stuck = true; /* no reply that it could ride on */
	ask(16, false);
	CHECK(link_run(&w.link, 1000 * LINK_MS, has_come, NULL));
	CHECK(rpc_datagrams_due(w.server));
	link_run(&w.link, 100 * LINK_MS, NULL, NULL);
	CHECK(!rpc_datagrams_due(w.server));
	w.stuck = false;
	link_run(&w.link, 1000 * LINK_MS, all_answered, NULL);
	CHECK_UINT(w.answered, 1);
	end();
}

static bool first_is_answered(void *ctx)
{
	return w.answered == 1;
}

void replies_that_take_longer_hold_back_no_others(void)
{
	begin();
	w.slow = 2;
	for (unsigned i = 0; i < 4; i++)
		ask(16, false);
	CHECK(link_run(&w.link, LINK_MS, first_is_answered, NULL));
	CHECK_UINT(w.executed, 2);
	w.slow = 0;
	link_run(&w.link, 1000 * LINK_MS, all_answered, NULL);
	CHECK_UINT(w.answered, 4);
	CHECK(!w.disordered);
	/* Its peer goes while it is written. */
	w.slow = 6;
	ask(16, false);
	ask(16, false);
	link_run(&w.link, LINK_MS, NULL, NULL);
	CHECK_UINT(w.answered, 5);
	CHECK_UINT(w.executed, 6);
	dgram_destroy(w.client);
	w.client = NULL;
	link_run(&w.link, 50 * LINK_MS, NULL, NULL);
	w.slow = 0;
	link_run(&w.link, 50 * LINK_MS, NULL, NULL);
	CHECK_UINT(rpc_counters(w.server)->abandoned, 1);
	end();
}

void replies_that_share_a_packet_may_grow_or_fail(void)
{
	begin();
	w.failing = 2;
	w.growing = 4;
	for (unsigned i = 0; i < 6; i++)
		ask(16, false);
	link_run(&w.link, 1000 * LINK_MS, all_answered, NULL);
	CHECK_UINT(w.answered, 6);
	CHECK(!w.disordered);
	for (unsigned i = 1; i <= 6; i++)
		CHECK_UINT(w.statuses[i], i == 2 ? WIRE_NO_MEMORY : WIRE_OK);
	CHECK_UINT(rpc_counters(w.server)->replies, 6);
	CHECK_UINT(dgram_counters(rpc_datagrams(w.server))->messages_out, 6);
	end();
}

/* Also those that would share a packet with earlier ones, which leaves without them; its peer goes while one waits. */
void replies_of_sessions_wait_as_well(void)
{
	begin();
	w.changes = true;
	for (unsigned i = 0; i < 3; i++)
		ask(16, false);
	link_run(&w.link, 1000 * LINK_MS, all_answered, NULL);
	CHECK_UINT(w.answered, 3);
	rpc_hold(w.server, true, false);
	w.changes = false;
	ask(16, false);
	w.changes = true;
	for (unsigned i = 0; i < 3; i++)
		ask(i ? 16 : TWO_PACKETS, false);
	CHECK(!link_run(&w.link, 100 * LINK_MS, all_answered, NULL));
	CHECK_UINT(rpc_held(w.server), 1);
	for (unsigned i = 1; i <= 4; i++) {
		CHECK_UINT(w.answered, 2 + i);
		CHECK_UINT(w.executed, 3 + i);
		rpc_release(w.server, i);
		link_run(&w.link, 100 * LINK_MS, NULL, NULL);
	}
	CHECK_UINT(w.answered, 7);
	CHECK(!w.disordered);
	ask(16, false);
	link_run(&w.link, 10 * LINK_MS, NULL, NULL);
	dgram_destroy(w.client);
	w.client = NULL;
	link_run(&w.link, 50 * LINK_MS, NULL, NULL);
	CHECK_UINT(rpc_held(w.server), 1);
	rpc_hold(w.server, false, false);
	CHECK_UINT(rpc_held(w.server), 0);
	CHECK_UINT(rpc_counters(w.server)->abandoned, 1);
	end();
}

static bool session_is_gone(void *ctx)
{
	return !w.session;
}

/* How many have yet to be answered. */
static uint32_t hang_up_sessions(bool waits)
{
	uint32_t at = 0, left = 0;

	while (rpc_server_hang_up(w.server, &at, 1, waits ? &left : NULL))
		;
	return left;
}

/* A reply that waits for what is durable is waited for, and so is one that has not come to its peer; not for ever. */
void who_leaves_waits_for_replies_of_sessions(void)
{
	for (unsigned patient = 0; patient < 2; patient++) {
		begin();
		w.changes = true;
		rpc_hold(w.server, true, false);
		ask(16, false);
		CHECK(!link_run(&w.link, 100 * LINK_MS, all_answered, NULL));
		CHECK_UINT(rpc_held(w.server), 1);
		rpc_server_leave(w.server);
		CHECK_UINT(hang_up_sessions(true), 1);
		if (patient) {
			rpc_release(w.server, 1);
			CHECK_UINT(rpc_held(w.server), 0);
			CHECK_UINT(hang_up_sessions(true), 1);
			CHECK(link_run(&w.link, 1000 * LINK_MS, all_answered, NULL));
			link_run(&w.link, 100 * LINK_MS, NULL, NULL);
		}
		CHECK(w.session);
		CHECK_UINT(hang_up_sessions(patient), 0);
		link_run(&w.link, 100 * LINK_MS, session_is_gone, NULL);
		CHECK(!w.session);
		CHECK_UINT(w.answered, patient);
		rpc_hold(w.server, false, false);
		end();
	}
}

/* What was not begun has no reply, and nobody is taken. */
void who_leaves_hangs_up_on_sessions_as_well(void)
{
	uint32_t at = 0, left = 0;

	begin();
	ask(16, false);
	link_run(&w.link, 10000 * LINK_MS, all_answered, NULL);
	rpc_server_leave(w.server);
	w.stale = true;
	ask(16, false);
	ask(16, false);
	link_run(&w.link, 100 * LINK_MS, session_is_gone, NULL);
	CHECK(w.session && w.answered == 1);
	while (rpc_server_hang_up(w.server, &at, 1, &left))
		;
	CHECK_UINT(left, 0);
	link_run(&w.link, 100 * LINK_MS, session_is_gone, NULL);
	CHECK(!w.session);
	CHECK_UINT(w.answered, 1);
	CHECK_UINT(w.executed, 1);
	CHECK_UINT(dgram_sessions(rpc_datagrams(w.server)), 0);
	dgram_destroy(w.client);
	open_client();
	link_run(&w.link, 100 * LINK_MS, session_is_gone, NULL);
	CHECK(!w.session);
	end();
}
