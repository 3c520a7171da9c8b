/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/rpc/dgram_rig.h"

#include <stdlib.h>

#include "secure/memory.h"

struct dg_rig dg;

static uint8_t content(uint64_t number, uint32_t i)
{
	return (uint8_t)(number * 131 + i * 7 + (i >> 8));
}

static bool fail(const struct dg_end *end, const char *what, uint64_t number)
{
	return unit_fail(__FILE__, __LINE__, "seed %llu, %s %u: %s, number %llu after %llu",
			 (unsigned long long)dg.seed,
			 end >= dg.clients && end < dg.clients + DG_ENDS_MAX ? "client" : "server",
			 (unsigned)(end >= dg.clients && end < dg.clients + DG_ENDS_MAX ? end - dg.clients
											: end - dg.servers),
			 what, (unsigned long long)number, (unsigned long long)end->received);
}

/* Behind others in a packet that waits. */
static bool send_in_bundle(struct dg_end *end, const struct wire_frame *frame)
{
	const uint32_t whole = (uint32_t)sizeof(*frame) + frame->payload_bytes;
	struct rte_mbuf *m = dg.apart ? NULL : dgram_room(end->session, whole);
	uint8_t *to;

	if (!m)
		return false;
	to = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)whole);
	memcpy(to, frame, sizeof(*frame));
	for (uint32_t i = sizeof(*frame); i < whole; i++)
		to[i] = content(frame->sequence, i);
	CHECK(dgram_append(end->session, m));
	return true;
}

static bool send_frame(struct dg_end *end, struct wire_frame frame)
{
	const uint32_t whole = (uint32_t)sizeof(frame) + frame.payload_bytes, most = dgram_payload(end->session);
	struct rte_mbuf *first = NULL, **link = &first;

	if (send_in_bundle(end, &frame))
		return true;
	for (uint32_t at = 0, n; at < whole; at += n) {
		struct rte_mbuf *m = dgram_alloc(end->session);
		uint8_t *to;

		n = RTE_MIN(most, whole - at);
		if (!m) {
			rte_pktmbuf_free(first);
			return false;
		}
		to = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)n);
		if (at == 0)
			memcpy(to, &frame, sizeof(frame));
		for (uint32_t i = at ? 0 : sizeof(frame); i < n && !dg.unchecked; i++)
			to[i] = content(frame.sequence, at + i);
		*link = m;
		link = &m->next;
	}
	dgram_send(end->session, first);
	return true;
}

bool dg_send(struct dg_end *end, uint32_t bytes, uint32_t reply)
{
	struct wire_frame frame = { .magic = WIRE_MAGIC,
				    .version = WIRE_VERSION,
				    .opcode = WIRE_EXECUTE,
				    .sequence = end->sent + 1,
				    .deadline_us = reply,
				    .payload_bytes = bytes };

	if (!send_frame(end, frame))
		return false;
	end->sent++;
	return true;
}

static bool check_bytes(const struct rte_mbuf *m, uint32_t from, const struct wire_frame *frame)
{
	const uint32_t whole = (uint32_t)sizeof(*frame) + frame->payload_bytes;
	uint32_t at = 0;

	for (; m; m = m->next, from = 0)
		for (uint32_t i = from; i < m->data_len && at < whole; i++, at++)
			if (at >= sizeof(*frame) &&
			    rte_pktmbuf_mtod(m, const uint8_t *)[i] != content(frame->sequence, at))
				return false;
	return at == whole;
}

static void keep(struct dg_end *end, struct rte_mbuf *m)
{
	memcpy(rte_mbuf_to_priv(m), &end->held, sizeof(end->held));
	end->held = m;
}

void dg_take(struct dg_end *end)
{
	while (end->held) {
		struct rte_mbuf *m = end->held;
		uint32_t mbufs = 0;

		memcpy(&end->held, rte_mbuf_to_priv(m), sizeof(end->held));
		for (const struct rte_mbuf *i = m; i; i = i->next)
			mbufs++;
		rte_pktmbuf_free(m);
		dgram_taken(end->session, mbufs);
	}
}

static void answer(struct dg_end *end, struct wire_frame frame)
{
	if (end >= dg.clients && end < dg.clients + DG_ENDS_MAX) {
		if (dg.on_reply)
			dg.on_reply(end);
	} else if (frame.deadline_us && !end->quiet) {
		frame.payload_bytes = frame.deadline_us - 1;
		frame.opcode = WIRE_REPLY;
		if (send_frame(end, frame))
			end->sent = frame.sequence;
		else
			fail(end, "no mbufs to reply", frame.sequence);
	}
}

/* The message at `at`, of a packet of several or of mbufs of its own. */
static void look_at(struct dg_end *end, const struct rte_mbuf *m, uint32_t at, enum wire_status status)
{
	struct wire_frame frame;

	memcpy(&frame, rte_pktmbuf_mtod_offset(m, const void *, at), sizeof(frame));
	if (!end->any_number && frame.sequence != end->received + 1)
		fail(end, "out of order", frame.sequence);
	if (status == WIRE_OK && !dg.unchecked && !check_bytes(m, at, &frame))
		fail(end, "other bytes", frame.sequence);
	end->any_number = false;
	end->received = frame.sequence;
	end->bytes += sizeof(frame) + (status == WIRE_OK ? frame.payload_bytes : 0);
	if (status != WIRE_OK) {
		end->refused++;
		end->status = status;
	}
	if (!end->shut)
		answer(end, frame);
}

static void on_received(void *user, struct rte_mbuf *m, uint32_t bytes, enum wire_status status)
{
	struct dg_end *end = user;
	uint32_t have = 0, at = 0;

	for (const struct rte_mbuf *i = m; i; i = i->next)
		have += i->data_len;
	CHECK_UINT(have, bytes);
	if (end->liar) {
		keep(end, m);
		dg_take(end);
		return;
	}
	do
		look_at(end, m, at, status);
	while ((at = dgram_next(m, at)));
	keep(end, m);
	if (!end->hold)
		dg_take(end);
	if (end->shut) {
		dgram_close(end->session);
		end->session = NULL;
	}
}

static bool on_opened(void *ctx, struct dgram_session *session, void **user)
{
	struct dg_end *end = NULL;

	CHECK(ctx == &dg);
	for (unsigned i = 0; i < dg.servers_count && !end; i++)
		if (!dg.servers[i].session)
			end = &dg.servers[i];
	if (!end && dg.servers_count < DG_ENDS_MAX)
		end = &dg.servers[dg.servers_count++];
	if (!end || dg.refuse)
		return false;
	*end = (struct dg_end){ .rig = &dg, .session = session, .any_number = true, .hold = end->hold };
	for (unsigned i = 0; i < DG_ENDS_MAX; i++)
		end->liar |=
			dg.clients[i].liar && dg.clients[i].session && dg.clients[i].session->client == session->client;
	*user = end;
	return true;
}

static void on_connected(void *user, bool resumed, uint32_t incarnation)
{
	struct dg_end *end = user;

	end->connects++;
	end->resumes += resumed;
	end->incarnation = incarnation;
	if (dg.resend && !resumed && end->connects > 1)
		end->sent = end->received;
}

static void on_acknowledged(void *user)
{
	struct dg_end *end = user;

	end->acknowledged++;
}

static void on_closed(void *user, int reason)
{
	struct dg_end *end = user;

	end->closes++;
	end->reason = reason;
	dg_take(end);
	end->session = NULL;
}

static bool make_ticket(struct secure_tickets *tickets, struct dgram_ticket *ticket)
{
	static uint64_t random;

	random++;
	memset(ticket->random, 7, sizeof(ticket->random));
	memcpy(ticket->random, &random, sizeof(random));
	return secure_tickets_issue(tickets, &dg.principal, dg.link.now_ns - dg.ticket_age_ns, &ticket->ticket,
				    ticket->secret, NULL) == 0;
}

void dg_keep_ticket(void)
{
	make_ticket(dg.tickets, &dg.kept_ticket);
}

static bool on_ticket(void *user, struct dgram_ticket *ticket)
{
	struct secure_tickets *others;
	bool good;

	if (dg.no_ticket)
		return false;
	dg.tickets_taken++;
	if (dg.old_ticket) {
		dg.old_ticket = false;
		*ticket = dg.kept_ticket;
		return true;
	}
	if (!dg.foreign)
		return make_ticket(dg.tickets, ticket);
	others = secure_tickets_create(dg.data, NULL);
	good = make_ticket(others, ticket);
	secure_tickets_destroy(others);
	return good;
}

static void on_refused(void *user)
{
	dg.tickets_refused++;
}

static const struct dgram_handler handler = { on_opened, on_connected, on_received, on_acknowledged,
					      on_closed, on_ticket,    on_refused };

static bool on_turn(struct link *link, int side)
{
	return dg.dgram[side] && !dg.down[side] && dgram_turn(dg.dgram[side], link->now_ns);
}

static uint64_t on_next(const struct link *link)
{
	uint64_t next = UINT64_MAX;

	for (int side = 0; side < 2; side++)
		if (dg.dgram[side] && !dg.down[side])
			next = RTE_MIN(next, dgram_next_ns(dg.dgram[side]));
	return next;
}

void dg_init(uint64_t seed)
{
	memset(&dg, 0, sizeof(dg));
	link_init(&dg.link, seed);
	dg.seed = seed;
	dg.principal = (struct secure_key){ .principal = "job1", .role = SECURE_WORKER, .id = "0123abcd" };
	dg.link.delay_ns = 5000;
	dg.link.turn = on_turn;
	dg.link.next_ns = on_next;
	for (int side = 0; side < 2; side++) {
		dg.net_options[side] = link_options(&dg.link, side);
		dg.options[side] = (struct dgram_options){
			.port = side ? 0 : DG_PORT,
			.accepts = !side,
			.incarnation = DG_INCARNATION,
			.sessions_max = DG_ENDS_MAX,
			.active_max = DG_ENDS_MAX,
			.window_max = 256,
			.credits = 4096,
			.held_mbufs_max = 8192,
			.message_max = 4 << 20,
			.rto_min_ns = 50000,
			.rto_max_ns = DG_S,
			.lease_ns = 10 * DG_S,
			.heartbeat_ns = DG_S,
			.ack_delay_ns = 100000,
			.target_delay_ns = 50000,
			.secret = { seed, 77 + (uint64_t)side },
			.handler = &handler,
			.ctx = &dg,
		};
	}
}

void dg_create(int side)
{
	struct star_error err = { 0 };

	dg.options[side].net = dg.link.net[side];
	dg.dgram[side] = dgram_create(&dg.options[side], &err);
	if (!dg.dgram[side]) {
		unit_fail(__FILE__, __LINE__, "no endpoint: %s", err.text);
		exit(EXIT_FAILURE);
	}
}

void dg_destroy(int side)
{
	struct dg_end *ends = side ? dg.clients : dg.servers;

	for (unsigned i = 0; i < DG_ENDS_MAX; i++) {
		if (ends[i].session)
			dg_take(&ends[i]);
		ends[i].session = NULL;
	}
	dgram_destroy(dg.dgram[side]);
	dg.dgram[side] = NULL;
}

void dg_renew_tickets(void)
{
	struct star_error err = { 0 };

	secure_tickets_destroy(dg.tickets);
	dg.options[0].tickets = dg.tickets = secure_tickets_create(dg.data, &err);
	if (!dg.tickets) {
		unit_fail(__FILE__, __LINE__, "no tickets: %s", err.text);
		exit(EXIT_FAILURE);
	}
}

void dg_up(void)
{
	link_up_with(&dg.link, &dg.net_options[0], &dg.net_options[1]);
	if (dg.data != SECURE_DATA_OPEN) {
		dg_renew_tickets();
		dg.seals = secure_alloc(DG_ENDS_MAX * dgram_seal_bytes());
	}
	dg_create(0);
	dg_create(1);
}

void dg_down(void)
{
	for (int side = 0; side < 2; side++)
		if (dg.dgram[side])
			dg_destroy(side);
	link_down(&dg.link);
	secure_tickets_destroy(dg.tickets);
	secure_free(dg.seals);
}

bool dg_run(uint64_t for_ns, bool (*until)(void *ctx), void *ctx)
{
	return link_run(&dg.link, for_ns, until, ctx);
}

struct dg_end *dg_client(unsigned i)
{
	struct star_error err = { 0 };
	struct dg_end *end = &dg.clients[i];

	*end = (struct dg_end){ .rig = &dg };
	net_turn(dg.link.net[1], dg.link.now_ns);
	end->session = dgram_open(dg.dgram[1], dg.v6 ? link_ip6(0) : link_ip(0), DG_PORT, end,
				  dg.seals ? &dg.seals[i] : NULL, &err);
	if (!end->session)
		unit_fail(__FILE__, __LINE__, "no session: %s", err.text);
	return end;
}

static bool is_connected(void *ctx)
{
	const struct dg_end *end = ctx;

	return end->connects || end->closes;
}

struct dg_end *dg_open(unsigned i)
{
	struct dg_end *end = dg_client(i);

	if (!dg_run(DG_S, is_connected, end))
		unit_fail(__FILE__, __LINE__, "seed %llu: client %u is not connected", (unsigned long long)dg.seed, i);
	return end;
}

bool dg_answered(void *client)
{
	const struct dg_end *end = client;

	return end->closes || (end->received == end->sent && (!end->session || dgram_queued(end->session) == 0));
}

/* What a client's session is called at the server. */
static uint64_t dg_name(const struct dgram_session *server, const struct dgram_session *client)
{
	const struct secure_guest *guest = dgram_guest(server);

	return guest ? secure_guest_number(guest, client->client) : client->client;
}

struct dg_end *dg_server_of(const struct dg_end *client)
{
	for (unsigned i = 0; i < dg.servers_count; i++)
		if (dg.servers[i].session && client->session &&
		    dg.servers[i].session->client == dg_name(dg.servers[i].session, client->session))
			return &dg.servers[i];
	return NULL;
}

void dg_check_quiet(void)
{
	dg_wait(LINK_MS); /* the last acknowledgements */
	for (int side = 0; side < 2; side++) {
		const struct dgram *d = dg.dgram[side];
		uint32_t windows = 0, reorders = 0;

		for (const struct dgram_window *w = d->windows; w; w = w->next)
			windows++;
		for (const struct dgram_reorder *r = d->reorders; r; r = r->next)
			reorders++;
		if (windows != d->options.active_max || reorders != d->options.active_max || d->held)
			unit_fail(__FILE__, __LINE__, "seed %llu, side %d: %u windows, %u reorder rings, %u mbufs held",
				  (unsigned long long)dg.seed, side, windows, reorders, d->held);
	}
}

const struct dgram_counters *dg_counters(int side)
{
	return dgram_counters(dg.dgram[side]);
}
