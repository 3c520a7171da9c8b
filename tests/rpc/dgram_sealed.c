/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions by ticket, and somebody between their ends who sees all packets and sends what he likes: nothing of his
 * changes anything, and what he spoils is sent again. */
#include <errno.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "tests/rpc/cases.h"
#include "tests/rpc/dgram_rig.h"

enum {
	IP_AT = sizeof(struct rte_ether_hdr),
	UDP_AT = IP_AT + sizeof(struct rte_ipv4_hdr),
	HEADERS = UDP_AT + sizeof(struct rte_udp_hdr),
	KEPT_MAX = 512,
	NUMBERS = 1 << 16,
};

/* A frame as somebody has seen it. */
struct seen_frame {
	_Alignas(8) int from;
	uint16_t bytes;
	uint8_t at[1600];
};
_Static_assert((offsetof(struct seen_frame, at) + HEADERS) % 8 == 0, "packet_of is aligned");

static struct {
	struct prng prng;
	struct seen_frame kept[KEPT_MAX];
	unsigned count;
	bool keep, meddle, injecting;
	enum wire_packet_kind only; /* keeps these alone; 0: all */
	unsigned readable, numbers_twice;
	uint64_t numbers[2][NUMBERS / 64]; /* of packets with tags, by side */
	bool stop_opened;		   /* no OPENED arrives */
} mitm;

static bool packet_in(const struct rte_mbuf *m, struct wire_packet *p)
{
	if (net_flow(m).kind != NET_FLOW_UDP || m->data_len < HEADERS + sizeof(*p))
		return false;
	memcpy(p, rte_pktmbuf_mtod_offset(m, const uint8_t *, HEADERS), sizeof(*p));
	return p->magic == WIRE_PACKET_MAGIC;
}

static bool has_tag(const struct wire_packet *p)
{
	static const uint8_t none[sizeof(p->tag)];

	return p->kind >= WIRE_PACKET_DATA && memcmp(p->tag, none, sizeof(none)) != 0;
}

/* A frame whose UDP payload was changed, with lengths and sums that are right. */
static void inject(struct seen_frame *f, int to)
{
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(f->at + IP_AT);
	struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(f->at + UDP_AT);

	ip->total_length = rte_cpu_to_be_16((uint16_t)(f->bytes - IP_AT));
	ip->hdr_checksum = 0;
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	udp->dgram_len = rte_cpu_to_be_16((uint16_t)(f->bytes - UDP_AT));
	udp->dgram_cksum = 0;
	udp->dgram_cksum = rte_ipv4_udptcp_cksum(ip, udp);
	mitm.injecting = true;
	link_inject(&dg.link, to, f->at, f->bytes);
	mitm.injecting = false;
}

static struct wire_packet *packet_of(struct seen_frame *f)
{
	return (struct wire_packet *)(f->at + HEADERS);
}

/* Sends it back to its sender, as if it were from the other side. */
static void reflect(struct seen_frame *f)
{
	struct rte_ether_hdr *ether = (struct rte_ether_hdr *)f->at;
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(f->at + IP_AT);
	struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(f->at + UDP_AT);
	const struct rte_ether_addr mac = ether->src_addr;
	const rte_be32_t address = ip->src_addr;
	const rte_be16_t port = udp->src_port;

	ether->src_addr = ether->dst_addr;
	ether->dst_addr = mac;
	ip->src_addr = ip->dst_addr;
	ip->dst_addr = address;
	udp->src_port = udp->dst_port;
	udp->dst_port = port;
}

/* One of the things that can be done to a packet of a session, so that it is another one. */
static void touch(struct seen_frame *f, const struct seen_frame *other)
{
	struct wire_packet *p = packet_of(f);
	const uint32_t bytes = f->bytes - HEADERS;
	const struct seen_frame was = *f;

	do {
		switch (prng_below(&mitm.prng, 6)) {
		case 0: /* a bit, anywhere */
			f->at[HEADERS + prng_below(&mitm.prng, bytes)] ^= (uint8_t)(1 << prng_below(&mitm.prng, 8));
			break;
		case 1: /* one of the header, but for whose it is */
			f->at[HEADERS + 12 + prng_below(&mitm.prng, sizeof(*p) - 12)] ^= 1;
			break;
		case 2: /* cut short */
			if (bytes > sizeof(*p))
				f->bytes -= 1 + prng_below(&mitm.prng, bytes - (uint32_t)sizeof(*p));
			break;
		case 3: /* longer */
			f->at[f->bytes++] = (uint8_t)prng_next(&mitm.prng);
			break;
		case 4: /* another packet's bytes under this one's number */
			memcpy(p + 1, other->at + HEADERS + sizeof(*p),
			       RTE_MIN(f->bytes, other->bytes) - HEADERS - sizeof(*p));
			memcpy(p->tag, ((const struct wire_packet *)(other->at + HEADERS))->tag, sizeof(p->tag));
			break;
		default: /* another packet, as one of this session */
			p->flags ^= (uint16_t)(1 << prng_below(&mitm.prng, 8));
			p->ack += prng_below(&mitm.prng, 5);
			p->edge += prng_below(&mitm.prng, 100);
			p->stamp += prng_below(&mitm.prng, 100);
		}
	} while (f->bytes == was.bytes && memcmp(f->at, was.at, was.bytes) == 0);
}

static bool tap(struct link *link, int from, struct rte_mbuf *m)
{
	struct seen_frame *f = &mitm.kept[mitm.count % KEPT_MAX];
	const uint8_t *bytes = rte_pktmbuf_mtod(m, const uint8_t *);
	struct wire_packet p;
	uint16_t number;

	if (!packet_in(m, &p) || mitm.injecting)
		return false;
	for (unsigned i = HEADERS; i + 8 <= m->data_len && p.kind == WIRE_PACKET_DATA; i++)
		mitm.readable += memcmp(bytes + i, "readable", 8) == 0;
	if (mitm.stop_opened && p.kind == WIRE_PACKET_OPENED)
		return true;
	if (has_tag(&p)) {
		number = (uint16_t)p.token;
		mitm.numbers_twice += mitm.numbers[from][number / 64] >> number % 64 & 1;
		mitm.numbers[from][number / 64] |= UINT64_C(1) << number % 64;
	}
	if (!mitm.keep || (mitm.only && p.kind != mitm.only) || m->data_len > sizeof(f->at) - 8)
		return false;
	f->bytes = m->data_len;
	f->from = from;
	memcpy(f->at, bytes, m->data_len);
	mitm.count++;
	if (mitm.meddle && has_tag(&p)) {
		struct seen_frame changed = *f;

		touch(&changed, &mitm.kept[prng_below(&mitm.prng, RTE_MIN(mitm.count, (unsigned)KEPT_MAX))]);
		inject(&changed, !from);
		changed = mitm.kept[prng_below(&mitm.prng, RTE_MIN(mitm.count, (unsigned)KEPT_MAX))];
		if (prng_below(&mitm.prng, 2))
			reflect(&changed);
		if (packet_of(&changed)->kind >= WIRE_PACKET_DATA)
			inject(&changed, (int)prng_below(&mitm.prng, 2));
		return prng_below(&mitm.prng, 8) == 0; /* is lost */
	}
	return false;
}

static void begin_with(uint64_t seed, enum secure_data data)
{
	dg_init(seed);
	dg.data = data;
	memset(&mitm, 0, sizeof(mitm));
	prng_seed(&mitm.prng, seed);
	dg.link.tap = tap;
}

static struct dg_end *begin(uint64_t seed, enum secure_data data)
{
	begin_with(seed, data);
	dg_up();
	return dg_open(0);
}

static void asks(struct dg_end *client, uint32_t bytes)
{
	dg_send(client, bytes, 1 + bytes);
	CHECK(dg_run(20 * DG_S, dg_answered, client));
	CHECK_UINT(client->closes, 0);
}

static void check_good(void)
{
	for (int side = 0; side < 2; side++) {
		CHECK_UINT(dg_counters(side)->bad_tags, 0);
		CHECK_UINT(dg_counters(side)->broken, 0);
	}
}

void dgram_sealed_messages_of_all_sizes_arrive(void)
{
	static const uint32_t sizes[] = { 0, 1, 13, 64, 1000, 1344, 1345, 5000, 100000 };

	for (unsigned i = 0; i < 4; i++) {
		const enum secure_data data = (enum secure_data)(SECURE_DATA_CHECKED + i % 3);
		struct dg_end *client;

		begin_with(300 + i, data);
		dg.v6 = i >= 2;
		dg_up();
		client = dg_open(0);
		CHECK(dgram_is_tagged(client->session));
		CHECK_HAS(dgram_guest(dg_server_of(client)->session)->principal, "job1");
		for (unsigned j = 0; j < RTE_DIM(sizes); j++)
			asks(client, sizes[j]);
		for (unsigned j = 0; j < 200; j++)
			dg_send(client, j, 1 + j);
		CHECK(dg_run(DG_S, dg_answered, client));
		check_good();
		dg_check_quiet();
		dg_down();
	}
}

/* A message of which a part is text; the rig does not look at its bytes. */
static void send_text(struct dg_end *client)
{
	struct wire_frame frame = { .magic = WIRE_MAGIC,
				    .version = WIRE_VERSION,
				    .opcode = WIRE_EXECUTE,
				    .sequence = ++client->sent,
				    .deadline_us = 1,
				    .payload_bytes = 48 };
	struct rte_mbuf *m = dgram_alloc(client->session);

	memcpy(rte_pktmbuf_append(m, sizeof(frame)), &frame, sizeof(frame));
	memcpy(rte_pktmbuf_append(m, 48), "this is readable by whoever stands between us...", 48);
	dgram_send(client->session, m);
	CHECK(dg_run(20 * DG_S, dg_answered, client));
}

void dgram_sealed_messages_are_not_readable(void)
{
	static const struct {
		enum secure_data data;
		bool readable;
	} cases[] = { { SECURE_DATA_OPEN, true },
		      { SECURE_DATA_CHECKED, true },
		      { SECURE_DATA_SEALED, false },
		      { SECURE_DATA_SEALED_256, false } };

	for (unsigned i = 0; i < RTE_DIM(cases); i++) {
		begin_with(310 + i, cases[i].data);
		dg.unchecked = true;
		dg.link.loss = 200; /* also when they are sent again */
		dg_up();
		dg_open(0);
		for (unsigned j = 0; j < 50; j++)
			send_text(&dg.clients[0]);
		CHECK(dg_counters(1)->retransmitted > 0);
		CHECK((mitm.readable > 0) == cases[i].readable);
		CHECK_UINT(mitm.numbers_twice, 0);
		dg_down();
	}
}

/* What is sent again has another number; so has what a port keeps for a while, and is sent again as a copy. */
void dgram_no_number_is_used_twice(void)
{
	for (uint64_t seed = 320; seed < 330; seed++) {
		struct dg_end *client;

		client = begin(seed, SECURE_DATA_SEALED);
		dg.link.loss = 250;
		dg.link.reorder = 100;
		for (unsigned i = 0; i < 20; i++)
			asks(client, 1 + i * 700);
		CHECK(dg_counters(0)->retransmitted + dg_counters(1)->retransmitted > 0);
		CHECK_UINT(mitm.numbers_twice, 0);
		check_good();
		dg_down();
	}
}

/* All the time, to all packets, both ways: nothing passes, and what is asked for comes. */
void dgram_nothing_touched_passes_and_service_goes_on(void)
{
	for (uint64_t seed = 330; seed < 345; seed++) {
		const enum secure_data data = seed % 2 ? SECURE_DATA_SEALED : SECURE_DATA_CHECKED;
		uint64_t tags = 0, repeated = 0;
		struct dg_end *client = begin(seed, data);

		dg_open(1); /* packets of two sessions are mixed up */
		mitm.keep = mitm.meddle = true;
		for (unsigned i = 0; i < 12; i++) {
			dg_send(&dg.clients[1], 100 * i, 1 + 50 * i);
			asks(client, i % 3 ? 50 * i : 4000 * i);
		}
		CHECK(dg_run(20 * DG_S, dg_answered, &dg.clients[1]));
		for (int side = 0; side < 2; side++) {
			CHECK_UINT(dg_counters(side)->broken, 0);
			CHECK_UINT(dg_counters(side)->opened, 2);
			tags += dg_counters(side)->bad_tags;
			repeated += dg_counters(side)->repeated;
		}
		CHECK(tags > 50 && repeated > 10);
		mitm.keep = mitm.meddle = false;
		dg_check_quiet();
		dg_down();
	}
}

/* Packet by packet: a session is after it as it was before, bit for bit. */
void dgram_what_is_touched_changes_nothing(void)
{
	struct dg_end *client = begin(350, SECURE_DATA_SEALED), *server = dg_server_of(client);
	unsigned count;

	dg_open(1);
	mitm.keep = true;
	for (unsigned i = 0; i < 30; i++) {
		asks(client, 100 + 60 * i);
		asks(&dg.clients[1], 100 + 60 * i);
	}
	dg_wait(100 * LINK_MS); /* credit has lapsed */
	mitm.keep = false;
	count = RTE_MIN(mitm.count, (unsigned)KEPT_MAX);
	inject(&mitm.kept[0], !mitm.kept[0].from);
	dg_wait(LINK_MS);
	for (unsigned i = 0; i < 4000; i++) {
		struct seen_frame f = mitm.kept[i % count];
		const struct dgram_session sessions[] = { *server->session, *client->session };
		const uint64_t messages = dg_counters(0)->messages_in + dg_counters(1)->messages_in;

		if (i >= count) /* and at first as it was */
			touch(&f, &mitm.kept[prng_below(&mitm.prng, count)]);
		if (i % 5 == 4)
			reflect(&f);
		inject(&f, i % 5 == 4 ? f.from : !f.from);
		dg_wait(20000);
		CHECK_MEM(server->session, &sessions[0], sizeof(sessions[0]));
		CHECK_MEM(client->session, &sessions[1], sizeof(sessions[1]));
		CHECK_UINT(dg_counters(0)->messages_in + dg_counters(1)->messages_in, messages);
	}
	asks(client, 5000);
	asks(&dg.clients[1], 5000);
	dg_down();
}

void dgram_clients_without_a_valid_ticket_are_refused(void)
{
	struct dgram_seal *seals;
	struct dg_end *client;

	begin_with(360, SECURE_DATA_SEALED);
	dg_up();
	seals = dg.seals;
	dg.seals = NULL; /* comes as to a node without tickets */
	client = dg_open(0);
	dg.seals = seals;
	CHECK_UINT(client->closes, 1);
	CHECK_INT(client->reason, ECONNREFUSED);
	CHECK_UINT(dg_counters(0)->strangers, 1);

	dg.ticket_age_ns = SECURE_TICKET_NS; /* too old */
	client = dg_open(1);
	CHECK_UINT(client->closes, 1);
	CHECK_UINT(dg.tickets_refused, 1);
	dg.ticket_age_ns = 0;

	dg.foreign = true; /* of another node */
	client = dg_open(2);
	CHECK_UINT(client->closes, 1);
	CHECK_UINT(dg.tickets_refused, 2);
	CHECK_UINT(dg_counters(0)->strangers, 3);
	dg.foreign = false;

	CHECK_UINT(dgram_sessions(dg.dgram[0]), 0);
	asks(dg_open(3), 1000);
	dg_down();
}

/* An OPEN with a good cookie and ticket, of which one byte is another. */
void dgram_touched_openings_open_nothing(void)
{
	struct seen_frame open;
	struct dg_end *client;

	begin_with(361, SECURE_DATA_SEALED);
	dg_up();
	mitm.keep = mitm.stop_opened = true;
	mitm.only = WIRE_PACKET_OPEN;
	client = dg_client(0);
	dg_wait(LINK_MS);
	mitm.keep = false;
	open = mitm.kept[1]; /* the second one: with the cookie */
	CHECK_UINT(open.bytes, HEADERS + sizeof(struct wire_packet) + sizeof(struct wire_packet_open) +
				       sizeof(struct secure_hello));
	dg_destroy(0); /* and all that it has opened */
	dg_create(0);
	for (int at = 0; at < open.bytes - HEADERS; at++) {
		struct seen_frame f = open;

		f.at[HEADERS + at] ^= (uint8_t)(1 << at % 8);
		inject(&f, 0);
		dg_wait(10000);
		CHECK_UINT(dgram_sessions(dg.dgram[0]), 0);
	}
	for (int cut = 1; cut < open.bytes - HEADERS; cut++) {
		struct seen_frame f = open;

		f.bytes = (uint16_t)(f.bytes - cut);
		inject(&f, 0);
		dg_wait(10000);
		CHECK_UINT(dgram_sessions(dg.dgram[0]), 0);
	}
	mitm.stop_opened = false;
	CHECK(dg_run(10 * DG_S, dg_answered, client));
	dg_down();
}

/* Somebody sends the OPEN of a session again, while it lives and when it has ended. */
void dgram_repeated_openings_change_nothing(void)
{
	struct dg_end *client, *server;
	struct dgram_session before;
	struct seen_frame open;

	begin_with(362, SECURE_DATA_SEALED);
	mitm.keep = true;
	mitm.only = WIRE_PACKET_OPEN;
	dg_up();
	client = dg_open(0);
	mitm.keep = false;
	open = mitm.kept[1];
	asks(client, 3000);
	server = dg_server_of(client);
	dg_wait(LINK_MS);
	before = *server->session;
	for (unsigned i = 0; i < 100; i++) {
		inject(&open, 0);
		dg_wait(10000);
		CHECK_MEM(server->session, &before, sizeof(before));
	}
	asks(client, 3000);
	dgram_close(client->session);
	client->session = NULL;
	dg_wait(LINK_MS);
	inject(&open, 0);
	dg_wait(LINK_MS);
	CHECK_UINT(dgram_sessions(dg.dgram[0]), 1); /* nobody has its keys */
	dg_wait(12 * DG_S);
	CHECK_UINT(dgram_sessions(dg.dgram[0]), 0);
	dg_down();
}

static bool is_reconnected(void *ctx)
{
	const struct dg_end *end = ctx;

	return end->connects == 2 || end->closes;
}

static bool nothing_passes(struct link *link, int from, struct rte_mbuf *m)
{
	return true;
}

void dgram_sealed_sessions_resume_after_a_silence(void)
{
	struct dg_end *client = begin(363, SECURE_DATA_SEALED);
	const uint64_t token = client->session->token;

	asks(client, 3000);
	dg.link.tap = nothing_passes;
	dg_send(client, 2000, 1 + 2000);
	dg_wait(6 * DG_S);
	CHECK_UINT(client->session->state, DGRAM_REOPENING);
	dg.link.tap = tap;
	CHECK(dg_run(10 * DG_S, is_reconnected, client));
	CHECK_UINT(client->resumes, 1);
	CHECK_UINT(client->session->token, token);
	CHECK(dg_run(10 * DG_S, dg_answered, client));
	asks(client, 3000);
	check_good();
	CHECK_UINT(mitm.numbers_twice, 0);
	dg_down();
}

/* A restarted node accepts no earlier ticket: its clients find out, and come with another one. */
void dgram_sealed_sessions_outlive_a_restart(void)
{
	struct dg_end *client = begin(364, SECURE_DATA_SEALED);

	asks(client, 3000);
	dg.link.tap = nothing_passes; /* it does not close its sessions */
	dg_destroy(0);
	dg_wait(LINK_MS);
	dg.link.tap = tap;
	dg.old_ticket = true; /* libstar still has an earlier one */
	dg_keep_ticket();
	dg_renew_tickets();
	dg.options[0].incarnation++;
	dg.options[0].secret[0] ^= 0x5555;
	dg_create(0);
	dg_send(client, 2000, 0);
	CHECK(dg_run(20 * DG_S, is_reconnected, client));
	if (!CHECK_UINT(client->closes, 0))
		return;
	CHECK_UINT(client->resumes, 0);
	CHECK_UINT(client->incarnation, DG_INCARNATION + 1);
	CHECK(dg.tickets_refused > 0);
	client->sent = client->received;
	asks(client, 3000);
	dg_down();
}

/* Words in clear that end sessions without tickets, and those that make a client ask. */
void dgram_words_without_a_tag_end_nothing(void)
{
	struct dg_end *client, *server;
	struct seen_frame f;

	begin_with(365, SECURE_DATA_SEALED);
	mitm.keep = true;
	dg_up();
	client = dg_open(0);
	asks(client, 1000);
	server = dg_server_of(client);
	mitm.keep = false;
	for (unsigned i = 0; i < RTE_MIN(mitm.count, (unsigned)KEPT_MAX); i++) {
		f = mitm.kept[i];
		f.bytes = HEADERS + sizeof(struct wire_packet);
		packet_of(&f)->kind = WIRE_PACKET_CLOSE;
		packet_of(&f)->session = f.from ? server->session->number : client->session->number;
		packet_of(&f)->token = (f.from ? server : client)->session->token | (1000 + i);
		memset(packet_of(&f)->tag, 0, sizeof(packet_of(&f)->tag));
		inject(&f, !f.from);
		dg_wait(LINK_MS);
		CHECK(server->session && client->session);
	}
	/* It asks whether the session is there, and is told so under a tag. */
	f = mitm.kept[1];
	packet_of(&f)->kind = WIRE_PACKET_UNKNOWN;
	packet_of(&f)->session = client->session->peer_number;
	packet_of(&f)->token = client->session->peer_token | 7;
	f.bytes = HEADERS + sizeof(struct wire_packet);
	if (f.from)
		reflect(&f);
	inject(&f, 1);
	CHECK(dg_run(10 * DG_S, is_reconnected, client));
	CHECK_UINT(client->resumes, 1);
	/* A refusal by nobody, while it asks again: it goes on asking. */
	dg.link.tap = nothing_passes;
	dg_wait(6 * DG_S);
	CHECK_UINT(client->session->state, DGRAM_REOPENING);
	packet_of(&f)->kind = WIRE_PACKET_CLOSE;
	packet_of(&f)->session = client->session->number;
	packet_of(&f)->token = client->session->open_token;
	inject(&f, 1);
	dg_wait(LINK_MS);
	dg.link.tap = tap;
	CHECK_UINT(client->closes, 0);
	dg_wait(DG_S);
	asks(client, 1000);
	CHECK_UINT(client->resumes, 2);
	dg_down();
}

/* Each direction by itself, while packets overtake each other. */
void dgram_keys_are_renewed_without_a_pause(void)
{
	for (unsigned i = 0; i < 3; i++) {
		struct dg_end *client = begin(366 + i, (enum secure_data)(SECURE_DATA_CHECKED + i));

		dg.link.reorder = 300;
		dg.link.loss = 50;
		client->session->seal->out[0].records_max = 100;
		dg_server_of(client)->session->seal->out[0].records_max = 70;
		for (unsigned j = 0; j < 4000; j++) {
			dg_wait(10 * LINK_MS);
			dg_send(client, j % 7 ? 100 : 3000, 1 + j % 3000);
		}
		CHECK(dg_run(DG_S, dg_answered, client));
		CHECK_UINT(client->received, client->sent);
		CHECK(dg_counters(0)->renewed >= 8 && dg_counters(1)->renewed >= 8);
		CHECK_UINT(client->connects, 1);
		check_good();
		dg_down();
	}
}

static bool nobody_stays(void *ctx, const struct secure_key *key)
{
	return false;
}

void dgram_revoked_clients_are_closed_at_once(void)
{
	struct dg_end *client = begin(370, SECURE_DATA_SEALED);
	uint32_t at = 0;

	dg_open(1);
	asks(client, 1000);
	CHECK_UINT(secure_tickets_review(dg.tickets, nobody_stays, NULL), 1);
	dg_send(client, 100, 1 + 100);
	dg_wait(LINK_MS);
	CHECK_UINT(client->closes, 1); /* it is told under a tag */
	CHECK_UINT(client->received, 1);
	CHECK_UINT(dg_counters(0)->revoked, 1);
	CHECK_UINT(dg.clients[1].closes, 0); /* has said nothing */
	net_turn(dg.link.net[0], dg.link.now_ns);
	dgram_review(dg.dgram[0], &at, 1000);
	dg_wait(LINK_MS);
	CHECK_UINT(at, 0);
	CHECK_UINT(dg.clients[1].closes, 1);
	CHECK_UINT(dgram_sessions(dg.dgram[0]), 0);
	dg_down();
}

/* Two principals that choose the same number for their sessions do not meet. */
void dgram_sessions_are_each_principals_own(void)
{
	struct dg_end *client = begin(371, SECURE_DATA_SEALED), *other;

	asks(client, 1000);
	strcpy(dg.principal.principal, "job2");
	other = dg_client(1);
	other->session->client = client->session->client;
	CHECK(dg_run(DG_S, dg_answered, other));
	dg_wait(10 * LINK_MS);
	CHECK_UINT(other->connects, 1);
	CHECK_UINT(dgram_sessions(dg.dgram[0]), 2);
	asks(other, 1000);
	asks(client, 1000);
	dg_down();
}

void dgram_tickets_may_come_late(void)
{
	struct dg_end *client;

	begin_with(372, SECURE_DATA_SEALED);
	dg_up();
	dg.no_ticket = true;
	client = dg_client(0);
	dg_wait(100 * LINK_MS);
	CHECK_UINT(dg_counters(1)->packets_out, 0);
	dg.no_ticket = false;
	dg_wait(DG_S);
	CHECK_UINT(client->connects, 1);
	asks(client, 1000);
	dg_down();
}

/* Through shared memory a ticket alone may do. */
void dgram_memory_may_be_in_clear(void)
{
	for (unsigned i = 0; i < 2; i++) {
		struct dg_end *client;

		begin_with(373 + i, SECURE_DATA_SEALED);
		for (int side = 0; side < 2; side++)
			dg.net_options[side].interfaces[0].offloads = OFFLOAD_MEMORY;
		dg.options[0].memory_in_clear = i;
		dg_up();
		client = dg_open(0);
		asks(client, 3000);
		CHECK(dgram_is_tagged(client->session) != (bool)i);
		CHECK(dgram_guest(dg_server_of(client)->session));
		CHECK_UINT(secure_tickets_review(dg.tickets, nobody_stays, NULL), 1);
		net_turn(dg.link.net[0], dg.link.now_ns);
		dgram_review(dg.dgram[0], &(uint32_t){ 0 }, 1000);
		dg_wait(LINK_MS);
		CHECK_UINT(client->closes, 1);
		dg_down();
	}
}

/* A server sends no stranger more than he has sent himself. */
void dgram_cookies_are_no_longer_than_openings(void)
{
	begin_with(375, SECURE_DATA_SEALED);
	mitm.keep = true;
	dg_up();
	dg_open(0);
	for (unsigned i = 1; i < mitm.count; i++)
		if (packet_of(&mitm.kept[i])->kind == WIRE_PACKET_COOKIE ||
		    packet_of(&mitm.kept[i])->kind == WIRE_PACKET_OPENED)
			CHECK(mitm.kept[i].bytes <= mitm.kept[i - 1].bytes);
	CHECK_UINT(mitm.count >= 4, 1);
	dg_down();
}
