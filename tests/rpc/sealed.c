/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams by ticket: what is served, and what somebody between a client and a node gets done, which is nothing. */
#include "tests/rpc/cases.h"

#include <stdio.h>

#include "secure/ticket.h"

static const struct order echo = { .reply_bytes = 20 };
static const struct secure_key job1 = { .principal = "job1", .role = SECURE_WORKER, .id = "0123abcd" };
static const struct secure_key job2 = { .principal = "job2", .role = SECURE_WORKER, .id = "4567cdef" };

static struct secure_tickets *tickets;
static struct secure_guest guests[RIG_PEERS_MAX];
static struct secure_direction to_node[RIG_PEERS_MAX], from_node[RIG_PEERS_MAX];

static void start(enum secure_data data, uint64_t seed)
{
	struct star_error err = { 0 };

	tickets = secure_tickets_create(data, &err);
	toy_init(seed, 0);
	rig.options.tickets = tickets;
	toy_start();
}

static void stop(void)
{
	rig_stop(&rig);
	secure_tickets_destroy(tickets);
}

static const struct rpc_counters *counters(void)
{
	return rpc_counters(rig.server);
}

/* A hello as bytes, by a ticket that was issued so long ago. */
struct hello {
	struct wire_frame frame;
	struct secure_hello body;
	uint8_t secret[SECURE_HASH_BYTES];
};
enum { HELLO_BYTES = offsetof(struct hello, secret) };

static uint32_t known_incarnation = RIG_INCARNATION; /* the node's, as workers know it */

static struct hello make_hello(struct secure_tickets *of, const struct secure_key *who, struct peer *peer,
			       uint64_t age_ns)
{
	const struct secure_place place = { known_incarnation, RIG_PORT };
	struct hello h = { .frame = { .magic = WIRE_MAGIC,
				      .version = WIRE_VERSION,
				      .opcode = WIRE_HELLO,
				      .session = peer->session,
				      .incarnation = known_incarnation,
				      .payload_bytes = sizeof(h.body) } };

	CHECK_INT(secure_tickets_issue(of, who, net_now_ns(rig.link.net[0]) - age_ns, &h.body.ticket, h.secret, NULL),
		  0);
	memset(h.body.random, (int)peer->session, sizeof(h.body.random));
	secure_hello_tag(h.secret, place, &h.frame, sizeof(h.frame), &h.body, h.frame.auth_tag);
	return h;
}

/* Awaits the welcome, and makes the keys. */
static bool greeted(struct peer *peer, unsigned i, const struct hello *h)
{
	const struct secure_place place = { known_incarnation, RIG_PORT };
	struct secure_welcome welcome;
	struct wire_frame frame;
	uint8_t tag[SECURE_TAG_BYTES], right[SECURE_TAG_BYTES], secret[SECURE_HASH_BYTES];

	rig_run(&rig, 10 * RIG_S, peer_has_reply, peer);
	if (!CHECK_UINT(peer->in_bytes, sizeof(frame) + sizeof(welcome)))
		return false;
	memcpy(&frame, peer->in, sizeof(frame));
	memcpy(&welcome, peer->in + sizeof(frame), sizeof(welcome));
	peer->in_taken = peer->in_bytes;
	CHECK_UINT(frame.status, WIRE_OK);
	memcpy(tag, frame.auth_tag, sizeof(tag));
	memset(frame.auth_tag, 0, sizeof(frame.auth_tag));
	secure_welcome_tag(h->secret, &h->body, &frame, sizeof(frame), &welcome, right);
	CHECK_MEM(tag, right, sizeof(tag));
	secure_connection_keys(h->secret, place, &h->body, &welcome, secure_data_cipher(secure_tickets_data(tickets)),
			       &to_node[i], &from_node[i]);
	peer->to_node = &to_node[i];
	peer->from_node = &from_node[i];
	CHECK(secure_tickets_open(tickets, &h->body.ticket, net_now_ns(rig.link.net[0]), &guests[i], secret));
	peer->guest = &guests[i];
	return true;
}

static struct peer *guest(unsigned i, const struct secure_key *who)
{
	struct peer *peer = rig_peer(&rig, i);
	const struct hello h = make_hello(tickets, who, peer, 0);

	peer_write(peer, &h, HELLO_BYTES);
	greeted(peer, i, &h);
	return peer;
}

/* A record as bytes, which is not sent. */
static size_t record(struct peer *peer, uint8_t *bytes, uint32_t data_bytes)
{
	struct wire_frame frame = peer_frame(peer, WIRE_EXECUTE);
	const uint32_t n = (uint32_t)sizeof(echo) + data_bytes;

	frame.payload_bytes = n;
	memcpy(bytes + sizeof(frame), toy_payload(frame.session, frame.sequence, echo, data_bytes), n);
	peer_seal(peer, &frame, bytes + sizeof(frame));
	memcpy(bytes, &frame, sizeof(frame));
	return sizeof(frame) + n;
}

void records_are_served_in_any_pieces(void)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		enum { REQUESTS = 60 };
		uint32_t data[REQUESTS];
		struct peer *peer;
		bool good = true;

		start((enum secure_data)(SECURE_DATA_CHECKED + seed % 3), seed);
		peer = guest(0, &job1);
		peer->segment_max = 1 + prng_below(&rig.link.prng, seed % 2 ? 60 : 1460);
		for (int i = 0; i < REQUESTS; i++) {
			data[i] = prng_below(&rig.link.prng, 1u << prng_below(&rig.link.prng, 13));
			toy_send(peer, (struct order){ .reply_bytes = 4 + data[i], .slices = i % 3 }, data[i]);
		}
		for (unsigned i = 0; i < REQUESTS && good; i++)
			good = toy_await(peer, i + 1, (struct order){ .reply_bytes = 4 + data[i], .slices = i % 3 },
					 data[i]);
		if (!good)
			printf("# seed %llu\n", (unsigned long long)seed);
		CHECK_UINT(counters()->requests, REQUESTS);
		stop();
	}
}

void records_are_served_byte_by_byte(void)
{
	uint8_t bytes[600];
	struct peer *peer;

	start(SECURE_DATA_SEALED, 2);
	peer = rig_peer(&rig, 0);
	{
		const struct hello h = make_hello(tickets, &job1, peer, 0);

		for (size_t i = 0; i < HELLO_BYTES; i++)
			peer_write(peer, (const uint8_t *)&h + i, 1);
		greeted(peer, 0, &h);
	}
	for (int round = 0; round < 3; round++) {
		size_t n = record(peer, bytes, 37);

		n += record(peer, bytes + n, 300);
		for (size_t i = 0; i < n; i++) {
			peer_write(peer, bytes + i, 1);
			if (round == 1)
				rig_wait(&rig, LINK_MS / 2);
		}
		toy_await(peer, peer->sequence - 1, echo, 37);
		toy_await(peer, peer->sequence, echo, 300);
	}
	CHECK_UINT(counters()->requests, 6);
	stop();
}

void nothing_of_a_sealed_request_is_readable(void)
{
	uint8_t bytes[300];
	struct peer *peer;
	const void *plain;

	for (int sealed = 0; sealed < 2; sealed++) {
		start(sealed ? SECURE_DATA_SEALED : SECURE_DATA_CHECKED, 3);
		peer = guest(0, &job1);
		record(peer, bytes, 100);
		plain = toy_payload(peer->session, peer->sequence, echo, 100);
		for (size_t at = 0; at + 8 <= 100; at += 8)
			CHECK_UINT(memcmp(bytes + sizeof(struct wire_frame) + at, (const char *)plain + at, 8) != 0,
				   sealed);
		peer_write(peer, bytes, sizeof(struct wire_frame) + sizeof(echo) + 100);
		rig_run(&rig, 10 * RIG_S, peer_has_reply, peer);
		CHECK_UINT(counters()->requests, 1);
		stop();
	}
}

/* It is answered with a refusal in clear, and closed; nothing was executed. */
static void is_a_stranger(struct peer *peer, uint64_t strangers)
{
	struct reply reply;

	if (peer_await(peer, &reply))
		CHECK_UINT(reply.frame.status, WIRE_NO_TICKET);
	CHECK(rig_run(&rig, 10 * RIG_S, peer_is_closed, peer));
	CHECK_UINT(counters()->strangers, strangers);
	CHECK_UINT(toy.started, 0);
}

void clients_without_a_valid_ticket_are_refused(void)
{
	struct secure_tickets *elsewhere;
	struct star_error err;
	uint64_t strangers = 0;
	struct peer *peer;
	struct hello h;

	start(SECURE_DATA_SEALED, 4);
	elsewhere = secure_tickets_create(SECURE_DATA_SEALED, &err);
	/* In clear. */
	peer = rig_peer(&rig, 0);
	toy_send(peer, echo, 10);
	is_a_stranger(peer, ++strangers);
	/* A ticket of another node; one that is too old; of the future; not his own; another node's place. */
	for (int which = 0; which < 5; which++) {
		peer = rig_peer(&rig, 0);
		rig_wait(&rig, which == 1 ? 700 * RIG_S : 1);
		if (peer->closed)
			peer = rig_peer(&rig, 0);
		h = make_hello(which == 0 ? elsewhere : tickets, &job1, peer,
			       which == 1   ? SECURE_TICKET_NS
			       : which == 2 ? UINT64_C(0) - 60 * RIG_S
					    : 0);
		if (which == 3)
			memset(h.secret, 0, sizeof(h.secret));
		if (which >= 3)
			secure_hello_tag(h.secret, (struct secure_place){ RIG_INCARNATION, RIG_PORT + (which == 4) },
					 &(struct wire_frame){ .magic = WIRE_MAGIC }, sizeof(h.frame), &h.body,
					 h.frame.auth_tag);
		peer_write(peer, &h, HELLO_BYTES);
		is_a_stranger(peer, ++strangers);
	}
	/* Any bit of a hello. */
	for (size_t bit = 0; bit < 8 * HELLO_BYTES; bit += 3) {
		peer = rig_peer(&rig, 0);
		h = make_hello(tickets, &job1, peer, 0);
		((uint8_t *)&h)[bit / 8] ^= (uint8_t)(1 << bit % 8);
		peer_write(peer, &h, HELLO_BYTES);
		is_a_stranger(peer, ++strangers);
	}
	peer = guest(1, &job1);
	toy_send(peer, echo, 10);
	toy_await(peer, 1, echo, 10);
	secure_tickets_destroy(elsewhere);
	stop();
}

/* A worker from before the node's last start has a ticket of the new one. A reply tells it that the node was restarted,
 * as without keys: so it has to be let in. */
void who_knew_the_node_before_its_start_is_greeted(void)
{
	struct peer *peer;

	start(SECURE_DATA_SEALED, 4);
	known_incarnation = RIG_INCARNATION - 1;
	peer = guest(0, &job1);
	toy_send(peer, echo, 10);
	toy_await(peer, 1, echo, 10);
	known_incarnation = RIG_INCARNATION;
	stop();
}

/* After two requests, the third comes as it does here: nothing of it is done, and others go on. */
static void attempt(unsigned what, struct peer *other)
{
	enum { DATA = 120 };
	static uint8_t first[400], second[400], sent[1200];
	struct peer *peer;
	size_t n, bytes;
	unsigned before;

	peer = guest(0, &job1);
	toy_send(peer, echo, 5);
	toy_await(peer, 1, echo, 5);
	before = toy.started;
	n = record(peer, first, DATA);
	record(peer, second, DATA);
	memcpy(sent, first, bytes = n);
	if (what < 8 * n) {
		sent[what / 8] ^= (uint8_t)(1 << what % 8);
	} else if (what == 8 * n) { /* one is left out */
		memcpy(sent, second, n);
	} else if (what == 8 * n + 1) { /* another connection's */
		record(other, sent, DATA);
		other->to_node->number--; /* which is not sent there */
		other->sequence--;
	} else if (what == 8 * n + 2) { /* in clear */
		struct wire_frame frame = peer_frame(peer, WIRE_EXECUTE);

		frame.payload_bytes = (uint32_t)(sizeof(echo) + DATA);
		frame.sequence = 2;
		memcpy(sent + sizeof(frame), toy_payload(frame.session, 2, echo, DATA), frame.payload_bytes);
		frame.checksum = wire_checksum(&frame, sent + sizeof(frame), frame.payload_bytes);
		memcpy(sent, &frame, sizeof(frame));
	} else if (what == 8 * n + 3) { /* with the beginning of the next in place of its own end */
		bytes = n - 20 + 60;
		memcpy(sent + n - 20, second, 60);
	} else { /* as if it came from the node */
		secure_direction_init(&to_node[2], from_node[0].secret, true);
		to_node[2].number = 1;
		peer->to_node = &to_node[2];
		peer->sequence = 1;
		record(peer, sent, DATA);
	}
	peer_write(peer, sent, bytes);
	rig_run(&rig, 40 * RIG_S, peer_is_closed, peer);
	if (!CHECK(peer->closed) | !CHECK_UINT(toy.started, before))
		printf("# attempt %u\n", what);
	toy_send(other, echo, 7);
	toy_await(other, other->sequence, echo, 7);
}

void what_is_touched_on_the_way_is_not_executed(void)
{
	const unsigned bits = 8 * (unsigned)(sizeof(struct wire_frame) + sizeof(echo) + 120);

	for (int data = SECURE_DATA_CHECKED; data <= SECURE_DATA_SEALED; data++) {
		struct peer *other;

		start((enum secure_data)data, 5);
		other = guest(1, &job2);
		for (unsigned what = 0; what < bits; what += data == SECURE_DATA_SEALED ? 5 : 23)
			attempt(what, other);
		for (unsigned what = bits; what < bits + 5; what++)
			if (data == SECURE_DATA_SEALED || what < bits + 4)
				attempt(what, other);
		CHECK(counters()->bad_tags > 50);
		stop();
	}
}

/* A whole conversation again, and a record twice. */
void what_is_repeated_is_not_executed(void)
{
	static uint8_t bytes[2][400];
	struct peer *peer;
	struct hello h;
	size_t n;

	start(SECURE_DATA_SEALED, 6);
	peer = rig_peer(&rig, 0);
	h = make_hello(tickets, &job1, peer, 0);
	peer_write(peer, &h, HELLO_BYTES);
	greeted(peer, 0, &h);
	n = record(peer, bytes[0], 100);
	peer_write(peer, bytes[0], n);
	toy_await(peer, 1, echo, 100);
	CHECK_UINT(toy.started, 1);
	peer_write(peer, bytes[0], n);
	CHECK(rig_run(&rig, 40 * RIG_S, peer_is_closed, peer));
	CHECK_UINT(toy.started, 1);
	peer = rig_peer(&rig, 1);
	peer_write(peer, &h, HELLO_BYTES);
	peer_write(peer, bytes[0], n);
	CHECK(rig_run(&rig, 40 * RIG_S, peer_is_closed, peer));
	CHECK_UINT(toy.started, 1);
	CHECK_UINT(counters()->bad_tags, 2);
	stop();
}

static bool stays(void *ctx, const struct secure_key *key)
{
	return strcmp(key->principal, "job1") != 0;
}

void revoked_clients_are_closed_at_once(void)
{
	struct peer *quiet, *loud, *other;
	unsigned before;

	start(SECURE_DATA_SEALED, 7);
	quiet = guest(0, &job1);
	loud = guest(1, &job1);
	other = guest(2, &job2);
	toy_send(loud, echo, 5);
	toy_await(loud, 1, echo, 5);
	before = toy.started;
	CHECK_UINT(secure_tickets_review(tickets, stays, NULL), 1);
	toy_send(loud, echo, 5);
	CHECK(rig_run(&rig, 5 * RIG_S, peer_is_closed, loud));
	CHECK_UINT(toy.started, before);
	/* A silent connection is closed by itself. */
	CHECK(rig_run(&rig, RIG_S, peer_is_closed, quiet));
	CHECK(counters()->revoked >= 2);
	rig_wait(&rig, 5 * RIG_S);
	toy_send(other, echo, 5);
	toy_await(other, 1, echo, 5);
	CHECK(!other->closed);
	stop();
}

void sessions_are_each_principals_own(void)
{
	struct peer *victim, *thief, *heir;

	start(SECURE_DATA_SEALED, 8);
	victim = guest(0, &job1);
	toy_send(victim, echo, 5);
	toy_await(victim, 1, echo, 5);
	/* Somebody else with the same number takes nothing over. */
	thief = guest(1, &job2);
	thief->session = victim->session;
	toy_send(thief, echo, 5);
	toy_await(thief, 1, echo, 5);
	toy_send(victim, echo, 6);
	toy_await(victim, 2, echo, 6);
	CHECK(!victim->closed && !thief->closed);
	/* The principal himself does. */
	heir = guest(2, &job1);
	heir->session = victim->session;
	toy_send(heir, echo, 5);
	toy_await(heir, 1, echo, 5);
	CHECK(rig_run(&rig, 5 * RIG_S, peer_is_closed, victim));
	stop();
}

/* Counters are those of everybody, and so are the bounds: a hello without end, and one that never comes. */
void a_hello_that_is_torn_ends(void)
{
	struct peer *peer;
	struct hello h;

	start(SECURE_DATA_SEALED, 9);
	for (size_t bytes = 1; bytes < HELLO_BYTES; bytes += 37) {
		peer = rig_peer(&rig, 0);
		h = make_hello(tickets, &job1, peer, 0);
		peer_write(peer, &h, bytes);
		CHECK(rig_run(&rig, 60 * RIG_S, peer_is_closed, peer));
	}
	CHECK(counters()->stalled > 3);
	peer = guest(0, &job1);
	toy_send(peer, echo, 5);
	toy_await(peer, 1, echo, 5);
	stop();
}

static void limit(const char *text)
{
	struct star_error err;
	struct secure_rights *rights = secure_rights_parse("rights", text, strlen(text), &err);

	CHECK(rights);
	secure_tickets_rights(tickets, rights);
}

/* A connection too many is told so, in clear as all before the keys is, and others are not hurt. */
static void has_no_place(unsigned i)
{
	struct peer *peer = rig_peer(&rig, i);
	const struct hello h = make_hello(tickets, &job1, peer, 0);
	struct reply reply;

	peer_write(peer, &h, HELLO_BYTES);
	if (peer_await(peer, &reply))
		CHECK_STATUS(reply, WIRE_QUOTA_CONNECTIONS, "limit ... connections=");
	CHECK(rig_run(&rig, 10 * RIG_S, peer_is_closed, peer));
}

void streams_of_a_principal_have_a_quota(void)
{
	struct peer *other, *first;

	start(SECURE_DATA_SEALED, 20);
	first = guest(0, &job1); /* counts, though there is no quota yet */
	limit("limit job1 connections=2");
	guest(1, &job1);
	has_no_place(2);
	has_no_place(3);
	other = guest(4, &job2);
	CHECK_UINT(counters()->quota_connections, 2);
	CHECK_UINT(counters()->strangers, 0);
	/* One that ends makes place for one. */
	tcp_close(first->conn);
	rig_wait(&rig, 5 * RIG_S);
	toy_send(guest(5, &job1), echo, 5);
	has_no_place(6);
	limit("limit job1 connections=4");
	guest(7, &job1);
	guest(8, &job1);
	has_no_place(9);
	toy_send(other, echo, 5);
	toy_await(other, 1, echo, 5);
	/* All that was counted is taken back. */
	stop();
}

/* They count for its principal, as nobody can tell them from its own, until they have said nothing for a minute, or not
 * gone on with what they began. */
void recorded_hellos_end(void)
{
	struct peer *worker, *again[2];
	struct hello h;

	start(SECURE_DATA_SEALED, 23);
	limit("limit job1 connections=3");
	worker = rig_peer(&rig, 0);
	h = make_hello(tickets, &job1, worker, 0);
	peer_write(worker, &h, HELLO_BYTES);
	greeted(worker, 0, &h);
	toy_send(worker, echo, 5);
	toy_await(worker, 1, echo, 5);
	for (unsigned i = 0; i < 2; i++) {
		again[i] = rig_peer(&rig, 1 + i);
		peer_write(again[i], &h, HELLO_BYTES);
		CHECK(rig_run(&rig, 10 * RIG_S, peer_has_reply, again[i]));
	}
	peer_write(again[1], "S", 1);
	has_no_place(3);
	CHECK(!again[0]->closed && !again[1]->closed);
	rig_wait(&rig, 50 * RIG_S);
	CHECK(!again[0]->closed && again[1]->closed);
	rig_wait(&rig, 12 * RIG_S);
	CHECK(again[0]->closed);
	CHECK_UINT(counters()->stalled, 2);
	rig_wait(&rig, 120 * RIG_S); /* a connection on which something was sent may be silent for long */
	toy_send(worker, echo, 5);
	toy_await(worker, 2, echo, 5);
	toy_send(guest(4, &job1), echo, 5);
	toy_send(guest(5, &job1), echo, 5);
	stop();
}

void requests_of_a_principal_have_a_quota(void)
{
	struct peer *greedy[2], *other;
	unsigned refused = 0;
	struct reply reply;

	start(SECURE_DATA_SEALED, 21);
	limit("limit job1 requests=10");
	greedy[0] = guest(0, &job1);
	greedy[1] = guest(1, &job1);
	other = guest(2, &job2);
	/* Both streams have one quota: of 40 requests within a moment ten are executed, and as many a second. */
	for (unsigned round = 0; round < 4; round++) {
		const unsigned before = toy.started;

		for (unsigned i = 0; i < 40; i++)
			toy_send(greedy[i % 2], echo, 5);
		for (unsigned i = 0; i < 40; i++) {
			toy_send(other, echo, 9);
			toy_await(other, other->sequence, echo, 9);
			if (!peer_await(greedy[i % 2], &reply))
				continue;
			if (reply.frame.status == WIRE_OK)
				continue;
			refused++;
			CHECK_UINT(reply.frame.status, WIRE_QUOTA_REQUESTS);
			CHECK_HAS(reply.text, round || i > 20 ? "requests a second" : "10 is this reactor's share");
		}
		CHECK(toy.started - before - 40 >= 10 && toy.started - before - 40 <= 12);
		rig_wait(&rig, RIG_S);
	}
	CHECK(refused >= 100);
	CHECK(counters()->quota_requests > 0);
	limit("");
	toy_send(greedy[0], echo, 5);
	CHECK(peer_await(greedy[0], &reply));
	CHECK_UINT(reply.frame.status, WIRE_OK);
	stop();
}

void bytes_in_flight_of_a_principal_have_a_quota(void)
{
	static const struct order slow = { .slices = 2000, .reply_bytes = 20 };
	struct peer *a, *b, *other;
	struct reply reply;

	start(SECURE_DATA_SEALED, 22);
	limit("limit job1 in_flight=10KiB");
	a = guest(0, &job1);
	b = guest(1, &job1);
	other = guest(2, &job2);
	/* One may be larger than the quota, or it could never be sent. */
	toy_send(a, slow, 12000);
	rig_wait(&rig, 2 * LINK_MS);
	toy_send(b, echo, 8000);
	toy_send(other, echo, 8000);
	toy_await(other, 1, echo, 8000);
	if (peer_await(b, &reply))
		CHECK_STATUS(reply, WIRE_QUOTA_IN_FLIGHT,
			     "10240 is this reactor's share (security.rights: limit ... in_flight=)");
	CHECK_UINT(toy.finished, 1);
	toy_await(a, 1, slow, 12000);
	toy_send(b, echo, 8000); /* the stream is in step, and there is room */
	toy_await(b, 2, echo, 8000);
	CHECK_UINT(counters()->quota_in_flight, 1);
	/* A client that leaves during a request takes its quota along. */
	toy_send(a, slow, 12000);
	rig_wait(&rig, 2 * LINK_MS);
	tcp_abort(a->conn);
	rig_wait(&rig, 5 * RIG_S);
	toy_send(b, echo, 8000);
	toy_await(b, 3, echo, 8000);
	stop();
}
