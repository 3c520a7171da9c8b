/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How sessions are opened, resumed and refused. Nothing is stored for an unknown address until it has shown, by a
 * cookie, that it receives what is sent to it; and it is never sent more than it has sent itself.
 */
#include <errno.h>

#include "net/siphash.h"
#include "rpc/dgram_seal.h"

#define RETRY_FIRST_NS (2 * DGRAM_MS) /* then doubled, up to RETRY_SHIFT_MAX times */
enum { RETRY_SHIFT_MAX = 7 };

/* ---- packets outside of sessions ---- */

static uint64_t cookie_of(const struct dgram *d, const struct net_udp_address *address, uint64_t client, uint64_t slot)
{
	const uint64_t words[7] = { address->remote.halves[0],
				    address->remote.halves[1],
				    address->local.halves[0],
				    address->local.halves[1],
				    (uint64_t)address->remote_port << 16 | address->local_port,
				    client,
				    slot };
	const uint64_t cookie = siphash(d->options.secret, words, 7);

	return cookie ? cookie : 1; /* 0 means none */
}

/* Sends a packet to an address that has no session. */
static void send_to(struct dgram *d, const struct net_udp_address *address, const struct wire_packet *header,
		    const void *body, uint16_t bytes)
{
	struct net_udp_flow flow;
	struct rte_mbuf *m;

	if (net_room(d->net) == 0 || net_udp_flow_init(d->net, &flow, address) < 0)
		return;
	m = net_alloc(d->net);
	if (!m)
		return;
	m->data_off = DGRAM_BODY_OFF - sizeof(*header);
	memcpy(rte_pktmbuf_append(m, sizeof(*header)), header, sizeof(*header));
	if (bytes)
		memcpy(rte_pktmbuf_append(m, bytes), body, bytes);
	d->counters.packets_out++;
	net_udp_flow_send(d->net, &flow, m, 0);
}

static struct wire_packet header_of(enum wire_packet_kind kind, uint32_t session, uint64_t token)
{
	return (struct wire_packet){ .magic = WIRE_PACKET_MAGIC,
				     .version = WIRE_PACKET_VERSION,
				     .kind = (uint8_t)kind,
				     .session = session,
				     .token = token };
}

/* ---- the client ---- */

/* The ticket is added once there is a cookie: before that the server does not look at it. */
static void send_open(struct dgram_session *s, uint64_t now_ns)
{
	const struct wire_packet_open open = {
		.client = s->client, .token = s->open_token, .cookie = s->cookie, .session = s->number, .edge = 2
	};
	const struct net_udp_address to = dgram_address(s);
	struct wire_packet header = header_of(WIRE_PACKET_OPEN, 0, 0);
	uint8_t body[sizeof(open) + sizeof(struct secure_hello)];
	uint16_t bytes = sizeof(open);

	if (s->seal && !dgram_seal_prepare(s))
		return;
	header.stamp = dgram_stamp(now_ns);
	memcpy(body, &open, sizeof(open));
	if (s->seal && s->cookie)
		bytes += dgram_seal_hello(s, &header, body, bytes);
	send_to(s->dgram, &to, &header, body, bytes);
}

static void try_open(struct dgram_session *s, uint64_t now_ns)
{
	const uint64_t wait = RETRY_FIRST_NS << RTE_MIN(s->backoff, (uint8_t)RETRY_SHIFT_MAX);

	send_open(s, now_ns);
	s->backoff++;
	wheel_arm(net_wheel(s->dgram->net), &s->timer, now_ns + wait);
}

void dgram_open_begin(struct dgram_session *s)
{
	const uint64_t now_ns = dgram_now(s->dgram);

	if (s->state == DGRAM_FREE) {
		s->client = dgram_draw(s->dgram);
		s->open_token = s->token;
		s->state = DGRAM_OPENING;
	} else {
		s->open_token = dgram_draw(s->dgram); /* so that no earlier answer can be taken for an answer to this */
		s->state = DGRAM_REOPENING;
	}
	if (s->seal)
		s->seal->has_ticket = false;
	s->cookie = 0;
	s->backoff = 0;
	s->opening_ns = now_ns;
	wheel_cancel(net_wheel(s->dgram->net), &s->life);
	try_open(s, now_ns);
}

void dgram_open_timer(struct dgram_session *s, uint64_t now_ns)
{
	const uint64_t since_ns = s->state == DGRAM_OPENING ? s->opening_ns : s->heard_ns;

	if (now_ns - since_ns >= s->dgram->options.lease_ns) {
		s->dgram->counters.expired++;
		dgram_session_end(s, ETIMEDOUT);
		return;
	}
	try_open(s, now_ns);
}

void dgram_open_cookie(struct dgram_session *s, const struct dgram_from *from)
{
	struct wire_packet_open body;

	if (from->bytes != sizeof(body)) {
		s->dgram->counters.bad_packets++;
		return;
	}
	memcpy(&body, from->body, sizeof(body));
	if (body.client != s->client || body.cookie == 0 || body.cookie == s->cookie)
		return;
	s->cookie = body.cookie;
	send_open(s, from->now_ns);
}

void dgram_open_opened(struct dgram_session *s, const struct dgram_from *from)
{
	struct dgram *d = s->dgram;
	struct wire_packet_opened body;
	bool same;

	if (from->bytes != sizeof(body) + (s->seal ? sizeof(struct secure_welcome) : 0)) {
		d->counters.bad_packets++;
		return;
	}
	if (s->seal && !dgram_seal_welcomed(s, from)) {
		d->counters.bad_tags++;
		return;
	}
	memcpy(&body, from->body, sizeof(body));
	if (body.client != s->client || body.session == 0)
		return;
	same = s->flags & DGRAM_KNOWN && body.token == s->peer_token && body.session == s->peer_number;
	if (!same) {
		if (s->flags & DGRAM_KNOWN) {
			dgram_session_unhash(s);
			dgram_session_reset(s);
		}
		s->peer_token = body.token;
		s->peer_number = body.session;
		s->tx_edge = s->tx_next;
		dgram_session_hash(s);
	}
	if (number_before(s->tx_edge, from->packet->edge))
		s->tx_edge = from->packet->edge;
	if (s->seal && !same)
		dgram_seal_begin(s, from, &body);
	if (!(s->flags & DGRAM_TAGGED)) /* tokens of a session with tags stay valid when it is resumed */
		s->token = wire_packet_pair(s->open_token, body.token);
	else if (!same)
		s->token = wire_packet_pair(s->open_token, body.token) & DGRAM_TOKEN_MASK;
	s->state = DGRAM_OPEN;
	s->heard_ns = from->now_ns; /* the silence before this must not count any longer */
	s->backoff = 0;
	s->flags = (s->flags & (uint16_t)~DGRAM_HEARD) | DGRAM_KNOWN;
	wheel_cancel(net_wheel(d->net), &s->timer);
	wheel_arm(net_wheel(d->net), &s->life, from->now_ns + d->options.heartbeat_ns);
	*(same ? &d->counters.resumed : &d->counters.opened) += 1;
	if (same)
		output_urgent(s); /* tells the server our receive edge */
	if (s->tx_queued + s->tx_held) {
		dgram_recovery_arm(s, from->now_ns, true);
		list_put(s, DGRAM_DUE);
	}
	d->options.handler->connected(s->user, same, body.incarnation);
}

void dgram_open_unknown(struct dgram *d, const struct dgram_from *from)
{
	const uint64_t token = from->packet->token;
	struct dgram_session *s = dgram_session_find(d, token, false);

	if (!s)
		s = dgram_session_find(d, token & DGRAM_TOKEN_MASK, false);
	if (!s || s->peer_number != from->packet->session || s->state != DGRAM_OPEN) {
		d->counters.unknown++;
		return;
	}
	dgram_open_begin(s);
}

/* ---- ICMP errors ---- */

static bool is_to(const struct dgram_session *s, const struct net_udp_address *address)
{
	return s->flow.remote_port == address->remote_port && net_address_equal(&s->flow.path.remote, &address->remote);
}

/* An ICMP error says that nobody listens at the port. If the session is being opened, this ends the attempt, as an RST
 * would. A session that was open before keeps asking until its lease is over. */
static bool end_attempt(struct dgram *d, const struct net_udp_address *address, const struct wire_packet_open *open)
{
	for (uint32_t i = 0; i < d->sessions_made; i++) {
		struct dgram_session *s = &d->all[i];

		if (s->state == DGRAM_OPENING && is_to(s, address) && s->client == open->client &&
		    s->open_token == open->token) {
			dgram_session_end(s, ECONNREFUSED);
			return true;
		}
	}
	return false;
}

/* Whether a packet is in flight. Each such packet is in a window, and there are only active_max windows. */
static bool is_in_flight(const struct dgram *d, const struct net_udp_address *address, const struct wire_packet *p)
{
	const size_t bytes = sizeof(struct dgram_window) + d->options.window_max * sizeof(struct rte_mbuf *);

	for (uint32_t i = 0; i < d->options.active_max; i++) {
		const struct dgram_window *window =
			(const struct dgram_window *)((const char *)d->windows_memory + i * bytes);
		const struct dgram_session *s = window->session;

		if (s && s->peer_token == (s->flags & DGRAM_TAGGED ? p->token & DGRAM_TOKEN_MASK : p->token) &&
		    s->peer_number == p->session && is_to(s, address))
			return p->number - s->tx_una < s->tx_next - s->tx_una &&
			       window->packets[p->number & d->window_mask];
	}
	return false;
}

/* The quoted packet must carry the peer's secret and be in flight, which only someone who has seen it can know. */
bool dgram_open_quoted(void *ctx, struct net *net, const struct net_udp_address *address, const void *payload,
		       uint32_t bytes, bool refused)
{
	struct dgram *d = ctx;
	struct {
		struct wire_packet packet;
		struct wire_packet_open open;
	} quoted = { 0 };

	memcpy(&quoted, payload, RTE_MIN(bytes, (uint32_t)sizeof(quoted)));
	if (bytes < offsetof(struct wire_packet, ack) || quoted.packet.magic != WIRE_PACKET_MAGIC ||
	    !bucket_take(&d->quotes, net_now_ns(net), DGRAM_QUOTES_PER_SECOND, DGRAM_ANSWERS_BURST))
		return false;
	if (quoted.packet.kind == WIRE_PACKET_DATA)
		return is_in_flight(d, address, &quoted.packet);
	return refused && !d->options.accepts && quoted.packet.kind == WIRE_PACKET_OPEN && bytes >= sizeof(quoted) &&
	       end_attempt(d, address, &quoted.open);
}

/* ---- the server ---- */

static void send_opened(struct dgram_session *s, const struct wire_packet_open *open,
			const struct dgram_greeting *greeting, bool resumed, const struct dgram_from *from)
{
	struct dgram *d = s->dgram;
	const struct wire_packet_opened opened = { .client = open->client,
						   .token = s->token,
						   .session = s->number,
						   .incarnation = d->options.incarnation,
						   .lease_ms = (uint32_t)(d->options.lease_ns / DGRAM_MS),
						   .resumed = resumed,
						   .message_max = d->options.message_max };
	struct wire_packet header = header_of(WIRE_PACKET_OPENED, open->session, open->token);
	uint8_t body[sizeof(opened) + sizeof(struct secure_welcome)];
	uint16_t bytes = sizeof(opened);

	dgram_credit_update(s, from->now_ns);
	header.number = s->tx_next;
	header.ack = s->rx_next;
	header.edge = s->rx_edge;
	header.stamp = dgram_stamp(from->now_ns);
	header.echo = from->packet->stamp;
	memcpy(body, &opened, sizeof(opened));
	if (greeting)
		bytes += dgram_seal_welcome(s, greeting, &header, body, bytes);
	send_to(d, from->address, &header, body, bytes);
}

void dgram_refuse(struct dgram_session *s, uint8_t status)
{
	s->dgram->refusal = status;
}

static void refuse_open(struct dgram *d, const struct wire_packet_open *open, const struct dgram_from *from)
{
	struct wire_packet header = header_of(WIRE_PACKET_CLOSE, open->session, open->token);

	header.number = d->refusal;
	d->refusal = WIRE_OK;
	d->counters.refused++;
	send_to(d, from->address, &header, NULL, 0);
}

static struct dgram_session *accept(struct dgram *d, const struct wire_packet_open *open, uint64_t client,
				    const struct dgram_greeting *greeting, const struct dgram_from *from)
{
	struct dgram_session *s = dgram_session_make(d, from->address);

	if (!s && d->sessions == d->options.sessions_max &&
	    dgram_peer_make_place(d, &from->address->remote, from->now_ns))
		s = dgram_session_make(d, from->address);
	if (!s)
		return NULL;
	s->opening_ns = from->now_ns;
	s->flags |= DGRAM_ACCEPTED;
	s->client = client;
	s->state = DGRAM_OPEN;
	if (greeting)
		dgram_seal_accept(s, greeting);
	s->peer_token = wire_packet_pair(open->token, s->token);
	if (s->flags & DGRAM_TAGGED)
		s->peer_token &= DGRAM_TOKEN_MASK;
	s->peer_number = open->session;
	s->tx_edge = RTE_MIN(open->edge, d->options.window_max);
	dgram_session_hash(s);
	wheel_arm(net_wheel(d->net), &s->life, from->now_ns + d->options.lease_ns);
	if (!d->options.handler->opened(d->options.ctx, s, &s->user)) {
		dgram_session_free(s);
		return NULL;
	}
	d->counters.opened++;
	return s;
}

/* The client asks for a session that exists, after a silence or because our answer was lost. Anyone on the path may
 * repeat an OPEN, so for sessions with tags it is answered, but changes nothing. */
static bool resume(struct dgram_session *s, const struct wire_packet_open *open, const struct dgram_from *from)
{
	const uint64_t token = wire_packet_pair(open->token, s->token);
	struct net_udp_flow flow;

	if (s->flags & DGRAM_TAGGED)
		return true;
	if (net_udp_flow_init(s->dgram->net, &flow, from->address) < 0)
		return false;
	s->flow = flow;
	dgram_peer_move(s);
	s->dgram->counters.resumed += token != s->peer_token;
	s->peer_token = token;
	s->peer_number = open->session;
	s->heard_ns = from->now_ns;
	s->flags &= (uint16_t)~DGRAM_HEARD;
	return true;
}

/* Nothing is stored until the cookie comes back. */
static void send_cookie(struct dgram *d, struct wire_packet_open *open, const struct dgram_from *from)
{
	struct wire_packet header = header_of(WIRE_PACKET_COOKIE, open->session, open->token);

	d->counters.bad_cookies += open->cookie != 0;
	open->cookie = cookie_of(d, from->address, open->client, from->now_ns >> DGRAM_COOKIE_SHIFT);
	header.echo = from->packet->stamp;
	send_to(d, from->address, &header, open, sizeof(*open));
}

/* The cookie is valid: finds the session or creates it; NULL: there is no room. */
static struct dgram_session *find_or_accept(struct dgram *d, const struct wire_packet_open *open,
					    const struct dgram_greeting *greeting, bool *resumed,
					    const struct dgram_from *from)
{
	const uint64_t client = greeting ? secure_guest_number(&greeting->guest, open->client) : open->client;
	struct dgram_session *s = dgram_session_find(d, client, true);

	if (s && greeting && dgram_seal_is_stale(s, greeting)) {
		dgram_session_end(s, 0);
		s = NULL;
	}
	*resumed = s;
	if (!s)
		return accept(d, open, client, greeting, from);
	return resume(s, open, from) ? s : NULL;
}

void dgram_open_asked(struct dgram *d, const struct dgram_from *from)
{
	const struct secure_tickets *tickets = d->options.tickets;
	const uint64_t slot = from->now_ns >> DGRAM_COOKIE_SHIFT;
	struct dgram_greeting greeting;
	struct wire_packet_open open;
	struct dgram_session *s = NULL;
	bool resumed;

	if ((tickets ? from->bytes < sizeof(open) : from->bytes != sizeof(open)) || !d->options.accepts) {
		d->counters.bad_packets++;
		return;
	}
	memcpy(&open, from->body, sizeof(open));
	/* Refused at once, so that the client may try another node. It has proved nothing yet, so the answer is smaller
	 * than its request. */
	if (d->options.closed) {
		if (bucket_take(&d->answers, from->now_ns, DGRAM_ANSWERS_PER_SECOND, DGRAM_ANSWERS_BURST))
			refuse_open(d, &open, from);
		return;
	}
	if (open.cookie == 0 || (open.cookie != cookie_of(d, from->address, open.client, slot) &&
				 open.cookie != cookie_of(d, from->address, open.client, slot - 1))) {
		send_cookie(d, &open, from);
		return;
	}
	if (!tickets || dgram_seal_greeted(d, from, &greeting))
		s = find_or_accept(d, &open, tickets ? &greeting : NULL, &resumed, from);
	if (s)
		send_opened(s, &open, tickets ? &greeting : NULL, resumed, from);
	else
		refuse_open(d, &open, from);
	if (tickets)
		explicit_bzero(&greeting, sizeof(greeting));
}

/* A packet of an unknown session: its sender may be a client of this node from before a restart. */
void dgram_open_stranger(struct dgram *d, const struct dgram_from *from)
{
	const struct wire_packet *p = from->packet;
	const struct wire_packet header = header_of(WIRE_PACKET_UNKNOWN, p->session, p->token);

	if (d->options.accepts && p->kind >= WIRE_PACKET_DATA && p->kind <= WIRE_PACKET_PING &&
	    bucket_take(&d->answers, from->now_ns, DGRAM_ANSWERS_PER_SECOND, DGRAM_ANSWERS_BURST))
		send_to(d, from->address, &header, NULL, 0);
}

/* The client is told at once, in its own protocol version, what it would otherwise learn only when its lease ends. */
void dgram_open_foreign(struct dgram *d, const struct dgram_from *from)
{
	struct wire_packet_open open;
	struct wire_packet header;

	d->counters.bad_versions++;
	if (!d->options.accepts || from->packet->kind != WIRE_PACKET_OPEN || from->bytes < sizeof(open) ||
	    !bucket_take(&d->answers, from->now_ns, DGRAM_ANSWERS_PER_SECOND, DGRAM_ANSWERS_BURST))
		return;
	memcpy(&open, from->body, sizeof(open));
	header = header_of(WIRE_PACKET_CLOSE, open.session, open.token);
	header.version = from->packet->version;
	send_to(d, from->address, &header, NULL, 0);
}

void dgram_open_send_close(struct dgram_session *s)
{
	struct wire_packet header = header_of(WIRE_PACKET_CLOSE, s->peer_number, s->peer_token);
	const struct net_udp_address to = dgram_address(s);

	if (!(s->flags & (DGRAM_ACCEPTED | DGRAM_KNOWN)))
		return;
	if (s->flags & DGRAM_TAGGED)
		dgram_seal_packet(s, &header, &header, 0, NULL, dgram_now(s->dgram));
	send_to(s->dgram, &to, &header, NULL, 0);
}
