/* SPDX-License-Identifier: BSD-3-Clause */
#include "rpc/dgram_seal.h"

#include <errno.h>

_Static_assert(offsetof(struct wire_packet, tag) == SECURE_PACKET_HEADER_BYTES, "all before the tag is guarded");
_Static_assert((int)DGRAM_SEAL_CHECKED == (int)SECURE_DATA_CHECKED &&
		       (int)DGRAM_SEAL_SEALED == (int)SECURE_DATA_SEALED &&
		       (int)DGRAM_SEAL_SEALED_256 == (int)SECURE_DATA_SEALED_256,
	       "as the node's tickets have it");

size_t dgram_seal_bytes(void)
{
	return sizeof(struct dgram_seal);
}

bool dgram_is_tagged(const struct dgram_session *s)
{
	return s->flags & DGRAM_TAGGED;
}

const struct secure_guest *dgram_guest(const struct dgram_session *s)
{
	return s->flags & DGRAM_ACCEPTED && s->seal ? &s->seal->guest : NULL;
}

void dgram_seal_clear(struct dgram_session *s)
{
	if (s->seal)
		explicit_bzero(s->seal, sizeof(*s->seal));
}

/* ---- opening ---- */

/* Header and body of OPEN or OPENED, without the extensions. */
struct opening {
	uint8_t bytes[sizeof(struct wire_packet) + sizeof(struct wire_packet_opened)];
	size_t count;
};

static struct opening opening_of(const struct wire_packet *header, const void *body, size_t bytes)
{
	struct opening o = { .count = sizeof(*header) + bytes };

	memcpy(o.bytes, header, offsetof(struct wire_packet, tag));
	memcpy(o.bytes + sizeof(*header), body, bytes);
	return o;
}

/* The ticket says which node it is for: the node's root key is drawn at each start. */
static struct secure_place place_of(uint32_t incarnation, uint16_t port)
{
	return (struct secure_place){ .incarnation = incarnation, .port = port };
}

static void make_keys(struct dgram_session *s, const uint8_t secret[SECURE_HASH_BYTES],
		      const struct secure_hello *hello, const struct secure_welcome *welcome, struct secure_place place,
		      enum secure_cipher cipher)
{
	struct dgram_seal *seal = s->seal;
	const bool accepted = s->flags & DGRAM_ACCEPTED;

	secure_connection_keys(secret, place, hello, welcome, cipher, accepted ? &seal->in[0] : &seal->out[0],
			       accepted ? &seal->out[0] : &seal->in[0]);
	seal->window = (struct secure_window){ 0 };
	seal->sent = seal->held_until_ns = 0;
	seal->in_phase = seal->out_phase = seal->seen = seal->ready = 0;
	seal->renewed = s->tx_next;
	seal->renewed_ns = dgram_now(s->dgram);
	s->flags |= DGRAM_TAGGED;
}

bool dgram_seal_greeted(struct dgram *d, const struct dgram_from *from, struct dgram_greeting *g)
{
	const size_t open_bytes = sizeof(struct wire_packet_open);
	const struct opening o = opening_of(from->packet, from->body, open_bytes);
	uint8_t right[SECURE_TAG_BYTES];

	if (from->bytes != open_bytes + sizeof(g->hello))
		goto stranger;
	memcpy(&g->hello, from->body + open_bytes, sizeof(g->hello));
	if (!secure_tickets_open(d->options.tickets, &g->hello.ticket, from->now_ns, &g->guest, g->secret))
		goto stranger;
	secure_hello_tag(g->secret, place_of(0, d->port), o.bytes, o.count, &g->hello, right);
	if (secure_same(right, from->packet->tag, sizeof(right)))
		return true;
stranger:
	d->counters.strangers++;
	return false;
}

static void make_welcome(const struct dgram_session *s, struct secure_welcome *welcome)
{
	secure_welcome_make(s->dgram->options.tickets, s->dgram->port, s->seal->welcome, welcome);
}

void dgram_seal_accept(struct dgram_session *s, const struct dgram_greeting *g)
{
	struct dgram *d = s->dgram;
	struct secure_welcome welcome;

	memcpy(s->seal->random, g->hello.random, sizeof(s->seal->random));
	s->seal->guest = g->guest;
	s->seal->welcome = (uint64_t)1 << 63 | ++d->welcomes; /* counters with the top bit clear are used by streams */
	if (s->flow.path.memory && d->options.memory_in_clear)
		return;
	make_welcome(s, &welcome);
	make_keys(s, g->secret, &g->hello, &welcome, place_of(d->options.incarnation, d->port),
		  secure_data_cipher(secure_tickets_data(d->options.tickets)));
	s->token &= DGRAM_TOKEN_MASK;
	s->peer_token &= DGRAM_TOKEN_MASK;
}

bool dgram_seal_is_stale(const struct dgram_session *s, const struct dgram_greeting *g)
{
	return !(s->flags & DGRAM_HEARD) && memcmp(s->seal->random, g->hello.random, sizeof(s->seal->random)) != 0;
}

static uint32_t mode_of(const struct dgram_session *s)
{
	return !(s->flags & DGRAM_TAGGED) ? DGRAM_SEAL_NONE
	       : s->seal->in[0].wide	  ? DGRAM_SEAL_SEALED_256
	       : s->seal->in[0].sealed	  ? DGRAM_SEAL_SEALED
					  : DGRAM_SEAL_CHECKED;
}

uint16_t dgram_seal_welcome(const struct dgram_session *s, const struct dgram_greeting *g, struct wire_packet *header,
			    uint8_t *body, uint16_t bytes)
{
	const uint32_t mode = mode_of(s);
	struct secure_welcome welcome;
	struct opening o;

	memcpy(body + offsetof(struct wire_packet_opened, seal), &mode, sizeof(mode));
	make_welcome(s, &welcome);
	o = opening_of(header, body, bytes);
	secure_welcome_tag(g->secret, &g->hello, o.bytes, o.count, &welcome, header->tag);
	memcpy(body + bytes, &welcome, sizeof(welcome));
	return sizeof(welcome);
}

/* ---- the client's side of it ---- */

bool dgram_seal_prepare(struct dgram_session *s)
{
	struct dgram_seal *seal = s->seal;

	if (!seal->has_ticket)
		seal->has_ticket = s->dgram->options.handler->ticket(s->user, &seal->by);
	return seal->has_ticket;
}

void dgram_seal_refused(struct dgram_session *s)
{
	explicit_bzero(&s->seal->by, sizeof(s->seal->by));
	s->seal->has_ticket = false;
	s->dgram->options.handler->refused(s->user);
}

static struct secure_hello hello_of(const struct dgram_session *s)
{
	struct secure_hello hello = { .ticket = s->seal->by.ticket };

	memcpy(hello.random, s->seal->by.random, sizeof(hello.random));
	return hello;
}

uint16_t dgram_seal_hello(const struct dgram_session *s, struct wire_packet *header, uint8_t *body, uint16_t bytes)
{
	const struct secure_hello hello = hello_of(s);
	const struct opening o = opening_of(header, body, bytes);

	secure_hello_tag(s->seal->by.secret, place_of(0, s->flow.remote_port), o.bytes, o.count, &hello, header->tag);
	memcpy(body + bytes, &hello, sizeof(hello));
	return sizeof(hello);
}

bool dgram_seal_welcomed(const struct dgram_session *s, const struct dgram_from *from)
{
	const struct opening o = opening_of(from->packet, from->body, sizeof(struct wire_packet_opened));
	const struct secure_hello hello = hello_of(s);
	struct secure_welcome welcome;
	uint8_t right[SECURE_TAG_BYTES];

	if (!s->seal->has_ticket)
		return false;
	memcpy(&welcome, from->body + sizeof(struct wire_packet_opened), sizeof(welcome));
	secure_welcome_tag(s->seal->by.secret, &hello, o.bytes, o.count, &welcome, right);
	return secure_same(right, from->packet->tag, sizeof(right));
}

void dgram_seal_begin(struct dgram_session *s, const struct dgram_from *from, const struct wire_packet_opened *opened)
{
	const struct secure_hello hello = hello_of(s);
	struct secure_welcome welcome;

	s->flags &= (uint16_t)~DGRAM_TAGGED;
	if (opened->seal == DGRAM_SEAL_NONE)
		return;
	memcpy(&welcome, from->body + sizeof(*opened), sizeof(welcome));
	make_keys(s, s->seal->by.secret, &hello, &welcome, place_of(opened->incarnation, s->flow.remote_port),
		  secure_data_cipher((enum secure_data)opened->seal));
}

/* ---- packets that leave ---- */

/*
 * Switches to a new key when the current one is old enough, and only if the peer has seen the current one: otherwise it
 * could not tell the current key from the one after the next. All packets sealed with the previous key must be
 * acknowledged first, because they may be sent again.
 */
static void renew(struct dgram_session *s, uint64_t now_ns)
{
	struct dgram_seal *seal = s->seal;

	if (seal->seen != seal->out_phase || now_ns - seal->renewed_ns < 2 * DGRAM_KEY_HOLD_NS ||
	    number_before(s->tx_una, seal->renewed))
		return;
	secure_direction_next(&seal->out[seal->out_phase], &seal->out[!seal->out_phase]);
	seal->out_phase = !seal->out_phase;
	seal->renewed_ns = now_ns;
	seal->renewed = s->tx_next;
	s->dgram->counters.renewed++;
}

void dgram_seal_packet(struct dgram_session *s, struct wire_packet *header, void *body, uint32_t bytes,
		       struct dgram_priv *p, uint64_t now_ns)
{
	struct dgram_seal *seal = s->seal;

	if (unlikely(secure_direction_spent(&seal->out[seal->out_phase]) ||
		     now_ns - seal->renewed_ns >= DGRAM_KEY_AGE_NS))
		renew(s, now_ns);
	seal->sent++;
	header->token = s->peer_token | (uint32_t)seal->sent;
	header->flags |=
		(uint16_t)((seal->out_phase ? WIRE_PACKET_PHASE : 0) | (seal->in_phase ? WIRE_PACKET_PHASE_SEEN : 0));
	secure_packet_seal(&seal->out[seal->out_phase], seal->sent, header, body, bytes, header->tag);
	if (p && seal->out[seal->out_phase].sealed) {
		p->sealed = seal->sent;
		p->phase = seal->out_phase;
	}
}

void dgram_seal_undo(struct dgram_session *s, const struct dgram_priv *p, void *body)
{
	if (p->sealed)
		secure_packet_unseal(&s->seal->out[p->phase], p->sealed, body, p->body_len);
}

/* ---- packets that have come ---- */

/* The key of that phase; NULL: there is none. The next key is derived once, when a packet claims to use it. */
static struct secure_direction *key_of(struct dgram_seal *seal, uint8_t phase, uint64_t now_ns)
{
	struct secure_direction *other = &seal->in[!seal->in_phase];

	if (unlikely(seal->held_until_ns && now_ns >= seal->held_until_ns)) {
		explicit_bzero(other, sizeof(*other));
		seal->held_until_ns = 0;
	}
	if (likely(phase == seal->in_phase))
		return &seal->in[phase];
	if (!seal->held_until_ns && !seal->ready) {
		secure_direction_next(&seal->in[seal->in_phase], other);
		seal->ready = 1;
	}
	return other;
}

/* The sender has switched to its next key. */
static void take_phase(struct dgram_seal *seal, uint8_t phase, uint64_t now_ns)
{
	if (likely(phase == seal->in_phase) || seal->held_until_ns)
		return;
	seal->in_phase = phase;
	seal->ready = 0;
	seal->held_until_ns = now_ns + DGRAM_KEY_HOLD_NS;
}

/* Closes the session: its principal has no access any more. */
static bool out(struct dgram_session *s)
{
	s->dgram->counters.revoked++;
	dgram_open_send_close(s);
	dgram_session_end(s, EACCES);
	return false;
}

bool dgram_seal_open(struct dgram_session *s, const struct dgram_from *from, uint8_t *packet)
{
	const struct wire_packet *p = from->packet;
	struct dgram *d = s->dgram;
	struct dgram_seal *seal = s->seal;
	const uint64_t number = secure_window_number(&seal->window, (uint32_t)p->token);
	const uint8_t phase = !!(p->flags & WIRE_PACKET_PHASE);

	if (unlikely(!secure_window_may(&seal->window, number))) {
		d->counters.repeated++;
		return false;
	}
	if (unlikely(!secure_packet_open(key_of(seal, phase, from->now_ns), number, packet, packet + sizeof(*p),
					 from->bytes, p->tag))) {
		d->counters.bad_tags++;
		return false;
	}
	secure_window_take(&seal->window, number);
	take_phase(seal, phase, from->now_ns);
	if (likely(number == seal->window.last))
		seal->seen = !!(p->flags & WIRE_PACKET_PHASE_SEEN);
	if (unlikely(s->flags & DGRAM_ACCEPTED && !secure_tickets_hold(d->options.tickets, &seal->guest)))
		return out(s);
	return true;
}

void dgram_review(struct dgram *d, uint32_t *at, uint32_t n)
{
	const uint32_t end = RTE_MIN(*at + n, d->sessions_made);

	for (; *at < end; ++*at) {
		struct dgram_session *s = &d->all[*at];

		if (s->state != DGRAM_FREE && s->flags & DGRAM_ACCEPTED &&
		    !secure_tickets_hold(d->options.tickets, &s->seal->guest))
			out(s);
	}
	if (*at == d->sessions_made)
		*at = 0;
}
