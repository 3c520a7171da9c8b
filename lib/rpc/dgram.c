/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints and their sessions: where they are stored, how they begin and end. */
#include <errno.h>
#include <stdlib.h>

#include "net/siphash.h"
#include "rpc/dgram_seal.h"
#include "secure/memory.h"

enum { FIRST_PORT = 49152, PORTS = 16384, PORT_TRIES = 64, WINDOW_TRIES = 64 };

uint64_t dgram_draw(struct dgram *d)
{
	const uint64_t words[2] = { ++d->random, 0x647261772f6e756d };

	return siphash(d->options.secret, words, 2);
}

/* ---- the table by client or token ---- */

static uint32_t *bucket(struct dgram *d, uint64_t key)
{
	return &d->hash[siphash(d->options.secret, &key, 1) & d->hash_mask];
}

static uint64_t key_of(const struct dgram_session *s)
{
	return s->flags & DGRAM_ACCEPTED ? s->client : s->peer_token;
}

void dgram_session_hash(struct dgram_session *s)
{
	uint32_t *b = bucket(s->dgram, key_of(s));

	s->hash_next = *b;
	*b = (uint32_t)(s - s->dgram->all) + 1;
}

void dgram_session_unhash(struct dgram_session *s)
{
	const uint32_t own = (uint32_t)(s - s->dgram->all) + 1;
	uint32_t *at = bucket(s->dgram, key_of(s));

	while (*at && *at != own)
		at = &s->dgram->all[*at - 1].hash_next;
	if (*at)
		*at = s->hash_next;
}

struct dgram_session *dgram_session_find(struct dgram *d, uint64_t key, bool accepted)
{
	for (uint32_t at = *bucket(d, key); at; at = d->all[at - 1].hash_next) {
		struct dgram_session *s = &d->all[at - 1];

		if (!(s->flags & DGRAM_ACCEPTED) == !accepted && key_of(s) == key)
			return s;
	}
	return NULL;
}

/* ---- sessions ---- */

void dgram_window_release(struct dgram_session *s)
{
	struct dgram_session *next;

	if (!s->window)
		return;
	s->window->session = NULL;
	s->peer->windows--;
	s->dgram->windows_free++;
	s->window->next = s->dgram->windows;
	s->dgram->windows = s->window;
	s->window = NULL;
	/* The first session that still needs the window and may have it. The others ask again by themselves, though
	 * rarely (ask_ns). */
	for (unsigned i = 0; i < WINDOW_TRIES && (next = list_take(s->dgram, DGRAM_WINDOWS)); i++) {
		if (next->state != DGRAM_OPEN || !next->tx_queued)
			continue;
		if (peer_may_take_window(next)) {
			list_put(next, DGRAM_DUE);
			break;
		}
		list_put(next, DGRAM_WINDOWS);
	}
}

void dgram_reorder_release(struct dgram_session *s)
{
	struct dgram *d = s->dgram;
	struct dgram_reorder *r = s->reorder;

	if (!r)
		return;
	for (uint32_t n = s->rx_next; r->count && !number_before(r->highest, n); n++)
		if (r->present[(n & d->window_mask) / 64] >> (n & d->window_mask) % 64 & 1) {
			rte_pktmbuf_free(r->packets[n & d->window_mask]);
			r->count--;
			d->held--;
		}
	memset(r->present, 0, sizeof(r->present));
	r->next = d->reorders;
	d->reorders = r;
	s->reorder = NULL;
}

static void drop_sent(struct dgram_session *s)
{
	for (uint32_t n = s->tx_una; s->window && n != s->tx_next; n++) {
		struct rte_mbuf **place = &s->window->packets[n & s->dgram->window_mask];

		rte_pktmbuf_free(*place);
		*place = NULL; /* otherwise the next session that gets this window would free it again */
	}
	while (s->queue.first) {
		struct rte_mbuf *m = s->queue.first;

		s->queue.first = dgram_priv(m)->next;
		rte_pktmbuf_free(m);
	}
	s->queue = s->in_flight = s->lost = (struct dgram_chain){ NULL, NULL };
	s->peer->mbufs -= s->tx_queued + s->tx_held;
	s->tx_queued = s->tx_held = s->tx_in_flight = 0;
	dgram_window_release(s);
}

void dgram_session_reset(struct dgram_session *s)
{
	drop_sent(s);
	dgram_message_drop(s);
	dgram_reorder_release(s);
	dgram_credit_leave(s);
	s->rx_next = s->tx_una = s->tx_next = s->tx_edge = 1;
	s->rx_edge = s->rx_limit = s->rx_next + 1;
	s->rx_unacked = s->peer_wants = 0;
	s->newest_ns = 0;
	s->newest_number = s->sacked_edge = 0;
	s->backoff = 0;
	s->flags &= DGRAM_ACCEPTED | DGRAM_KNOWN | DGRAM_TAGGED;
}

static void put_free(struct dgram_session *s)
{
	struct dgram *d = s->dgram;

	s->state = DGRAM_FREE;
	s->hash_next = 0;
	if (d->free_last)
		d->free_last->hash_next = (uint32_t)(s - d->all) + 1;
	else
		d->free_first = s;
	d->free_last = s;
}

static struct dgram_session *take_free(struct dgram *d)
{
	struct dgram_session *s = d->free_first;

	if (!s)
		return d->sessions_made < d->options.sessions_max ? &d->all[d->sessions_made++] : NULL;
	d->free_first = s->hash_next ? &d->all[s->hash_next - 1] : NULL;
	if (!d->free_first)
		d->free_last = NULL;
	return s;
}

static uint32_t next_number(struct dgram *d, const struct dgram_session *s)
{
	const uint32_t index = (uint32_t)(s - d->all);
	const uint32_t before = s->number ? s->number : (uint32_t)dgram_draw(d);
	const uint32_t number = ((before >> DGRAM_INDEX_BITS) + 1) << DGRAM_INDEX_BITS | index;

	return number ? number : 1u << DGRAM_INDEX_BITS; /* 0 is not a valid number */
}

/* The largest body that the path carries and that fits into one mbuf. */
static uint32_t payload_of(struct dgram *d, struct net_udp_flow *flow, struct rte_mempool *pool)
{
	const uint32_t path = net_udp_flow_payload(d->net, flow) - (uint32_t)sizeof(struct wire_packet);

	return RTE_MIN(path, (uint32_t)rte_pktmbuf_data_room_size(pool) - DGRAM_BODY_OFF);
}

struct dgram_session *dgram_session_make(struct dgram *d, const struct net_udp_address *address)
{
	struct net_udp_flow flow;
	struct dgram_session *s;
	struct dgram_session old;

	if (net_udp_flow_init(d->net, &flow, address) < 0)
		return NULL;
	s = take_free(d);
	if (!s)
		return NULL;
	old = *s;
	*s = (struct dgram_session){ .dgram = d,
				     .number = next_number(d, s),
				     .token = dgram_draw(d),
				     .seal = d->seals ? &d->seals[s - d->all] : NULL,
				     .listed = old.listed,
				     .flow = flow,
				     .timer.fire = dgram_recovery_timer,
				     .life.fire = dgram_recovery_life,
				     .heard_ns = dgram_now(d) };
	memcpy(s->next, old.next, sizeof(s->next));
	s->payload = payload_of(d, &s->flow, net_pool(d->net));
	dgram_congestion_init(&s->congestion);
	dgram_peer_join(s);
	dgram_session_reset(s);
	if (++d->sessions == DGRAM_PREFETCH_FROM)
		net_udp_prefetch(d->net, d->port, dgram_prefetch_packet);
	return s;
}

void dgram_session_free(struct dgram_session *s)
{
	struct wheel *wheel = net_wheel(s->dgram->net);

	dgram_session_unhash(s);
	dgram_session_reset(s);
	dgram_seal_clear(s);
	dgram_peer_leave(s);
	wheel_cancel(wheel, &s->timer);
	wheel_cancel(wheel, &s->life);
	if (s->dgram->sessions-- == DGRAM_PREFETCH_FROM)
		net_udp_prefetch(s->dgram->net, s->dgram->port, NULL);
	put_free(s);
}

void dgram_session_end(struct dgram_session *s, int reason)
{
	const struct dgram_handler *handler = s->dgram->options.handler;
	void *user = s->user;

	dgram_session_free(s);
	handler->closed(user, reason);
}

/* ---- endpoints ---- */

static int check_dgram_options(const struct dgram_options *o, struct star_error *err)
{
	if (o->sessions_max < 1 || o->sessions_max > DGRAM_SESSIONS_MAX)
		return star_error_set(err, -EINVAL, "1 to %d sessions", DGRAM_SESSIONS_MAX);
	if (o->active_max < 1 || o->window_max < 2 || o->window_max > DGRAM_WINDOW_MAX ||
	    o->window_max & (o->window_max - 1))
		return star_error_set(err, -EINVAL, "a session's window must be a power of two up to %d packets",
				      DGRAM_WINDOW_MAX);
	if (o->credits < 1 || o->held_mbufs_max < 2 || o->message_max < sizeof(struct wire_frame))
		return star_error_set(err, -EINVAL, "no room for messages");
	if (o->rto_min_ns < 1 || o->rto_max_ns < o->rto_min_ns || o->lease_ns < 1 || o->heartbeat_ns < 1 ||
	    o->ack_delay_ns > WIRE_ACK_DELAY_US * DGRAM_US || o->target_delay_ns < 1 ||
	    o->target_delay_ns > UINT32_MAX / 8)
		return star_error_set(err, -EINVAL,
				      "times must be positive, acknowledgements no later than %d us, and "
				      "the target delay under 0.5 s",
				      WIRE_ACK_DELAY_US);
	if (rte_pktmbuf_data_room_size(net_pool(o->net)) < DGRAM_BODY_OFF + 1280)
		return star_error_set(err, -EINVAL, "mbufs are too small for packets");
	return 0;
}

static int bind_port(struct dgram *d, struct star_error *err)
{
	int status = -EADDRINUSE;

	d->port = d->options.port;
	if (d->port)
		status = net_udp_bind(d->net, d->port, dgram_receive, d);
	else
		for (unsigned i = 0; i < PORT_TRIES && status == -EADDRINUSE; i++) {
			d->port = (uint16_t)(FIRST_PORT + dgram_draw(d) % PORTS);
			status = net_udp_bind(d->net, d->port, dgram_receive, d);
		}
	if (status == 0)
		net_udp_watch(d->net, d->port, dgram_open_quoted);
	if (status < 0)
		return star_error_set(err, status, "UDP port %u cannot be used: %s", d->port,
				      status == -ENOSPC ? "too many ports" : "it is in use");
	return 0;
}

/* Creates rings for active_max sessions, in one allocation, as a free list. */
static bool make_pools(struct dgram *d)
{
	const struct dgram_options *o = &d->options;
	const size_t ring = o->window_max * sizeof(struct rte_mbuf *);
	const size_t window = sizeof(struct dgram_window) + ring, reorder = sizeof(struct dgram_reorder) + ring;

	d->windows_memory = calloc(o->active_max, window);
	d->reorders_memory = calloc(o->active_max, reorder);
	if (!d->windows_memory || !d->reorders_memory)
		return false;
	for (uint32_t i = 0; i < o->active_max; i++) {
		struct dgram_window *w = (struct dgram_window *)((char *)d->windows_memory + i * window);
		struct dgram_reorder *r = (struct dgram_reorder *)((char *)d->reorders_memory + i * reorder);

		w->next = d->windows;
		d->windows = w;
		r->next = d->reorders;
		d->reorders = r;
	}
	d->windows_free = o->active_max;
	return true;
}

static void release_dgram(struct dgram *d)
{
	secure_free(d->seals);
	free(d->windows_memory);
	free(d->reorders_memory);
	free(d->hash);
	free(d->peers);
	free(d->peers_hash);
	free(d->all);
	free(d);
}

struct dgram *dgram_create(const struct dgram_options *options, struct star_error *err)
{
	struct dgram *d;

	if (check_dgram_options(options, err) < 0)
		return NULL;
	d = calloc(1, sizeof(*d));
	if (!d) {
		star_error_set(err, -ENOMEM, "no memory for sessions");
		return NULL;
	}
	d->options = *options;
	d->net = options->net;
	d->window_mask = options->window_max - 1;
	d->hash_mask = (uint32_t)rte_align32pow2(options->sessions_max) - 1;
	d->favour_timer.fire = dgram_credit_timer;
	d->share = options->credits;
	d->hash = calloc(d->hash_mask + 1, sizeof(*d->hash));
	d->peers = calloc(options->sessions_max + 1, sizeof(*d->peers));
	d->peers_hash = calloc(d->hash_mask + 1, sizeof(*d->peers_hash));
	d->all = aligned_alloc(RTE_CACHE_LINE_SIZE,
			       RTE_ALIGN_CEIL(options->sessions_max * sizeof(*d->all), (size_t)RTE_CACHE_LINE_SIZE));
	if (options->tickets)
		d->seals = secure_alloc(options->sessions_max * sizeof(*d->seals));
	if (!d->hash || !d->peers || !d->peers_hash || !d->all || (options->tickets && !d->seals) || !make_pools(d)) {
		star_error_set(err, -ENOMEM, "no memory for %u sessions", options->sessions_max);
		goto fail;
	}
	memset(d->all, 0, options->sessions_max * sizeof(*d->all));
	if (bind_port(d, err) < 0)
		goto fail;
	return d;
fail:
	release_dgram(d);
	return NULL;
}

void dgram_destroy(struct dgram *d)
{
	if (!d)
		return;
	for (uint32_t i = 0; i < d->sessions_made; i++)
		if (d->all[i].state != DGRAM_FREE) {
			dgram_open_send_close(&d->all[i]);
			dgram_session_free(&d->all[i]);
		}
	wheel_cancel(net_wheel(d->net), &d->favour_timer);
	net_udp_unbind(d->net, d->port);
	release_dgram(d);
}

/* ---- what users call ---- */

struct dgram_session *dgram_open(struct dgram *d, const struct net_address *to, uint16_t port, void *user,
				 struct dgram_seal *seal, struct star_error *err)
{
	const struct net_udp_address address = { d->options.local, *to, d->port, port };
	struct dgram_session *s = dgram_session_make(d, &address);

	if (!s) {
		star_error_set(err, d->sessions == d->options.sessions_max ? -ENOSPC : -EHOSTUNREACH,
			       d->sessions == d->options.sessions_max ? "no session left" : "no route to the host");
		return NULL;
	}
	s->user = user;
	s->seal = seal;
	dgram_open_begin(s);
	return s;
}

void dgram_close(struct dgram_session *s)
{
	dgram_open_send_close(s);
	dgram_session_free(s);
}

uint32_t dgram_payload(const struct dgram_session *s)
{
	return s->payload;
}

struct rte_mbuf *dgram_alloc(struct dgram_session *s)
{
	struct rte_mbuf *m = net_alloc(s->dgram->net);

	if (likely(m))
		m->data_off = DGRAM_BODY_OFF;
	return m;
}

/* Queues the next packet of a message, which is one mbuf. When it is sent it gets its number, and its entries in the
 * lists of sent packets. */
static inline void queue_packet(struct dgram_session *s, struct rte_mbuf *m, uint16_t flags)
{
	struct dgram_priv *p = dgram_priv(m);

	RTE_ASSERT(m->data_off == DGRAM_BODY_OFF && m->data_len <= s->payload);
	p->next = NULL;
	p->sealed = 0;
	p->body_off = m->data_off;
	p->body_len = m->data_len;
	p->flags = flags;
	p->lost = p->transmissions = 0;
	if (s->queue.last)
		dgram_priv(s->queue.last)->next = m;
	else
		s->queue.first = m;
	s->queue.last = m;
	s->tx_queued++;
}

void dgram_send(struct dgram_session *s, struct rte_mbuf *message)
{
	const uint32_t queued = s->tx_queued;

	if (s->tx_queued + s->tx_held == 0)
		s->progress_ns = dgram_now(s->dgram);
	s->dgram->counters.messages_out++;
	if (likely(!message->next && message->nb_segs == 1)) {
		queue_packet(s, message, WIRE_PACKET_FIRST | WIRE_PACKET_LAST);
	} else {
		uint16_t flags = WIRE_PACKET_FIRST;

		for (struct rte_mbuf *m = message, *next; m; m = next, flags = 0) {
			next = m->next;
			m->next = NULL;
			m->nb_segs = 1;
			queue_packet(s, m, next ? flags : flags | WIRE_PACKET_LAST);
		}
	}
	s->peer->mbufs += s->tx_queued - queued;
	if (likely(s->state == DGRAM_OPEN))
		list_put(s, DGRAM_DUE);
}

struct rte_mbuf *dgram_room(struct dgram_session *s, uint32_t bytes)
{
	struct rte_mbuf *m = s->queue.last;
	const struct dgram_priv *p;
	uint32_t at;

	if (!m)
		return NULL;
	p = dgram_priv(m);
	at = wire_padded(p->body_len);
	if (p->flags != (WIRE_PACKET_FIRST | WIRE_PACKET_LAST) || at + bytes > s->payload ||
	    unlikely(rte_mbuf_refcnt_read(m) != 1))
		return NULL;
	rte_mbuf_refcnt_set(m, 2); /* if sent before the message is complete, it leaves as a copy (packet_of) */
	memset(rte_pktmbuf_mtod_offset(m, char *, p->body_len), 0, at - p->body_len);
	m->data_len = (uint16_t)at;
	m->pkt_len = at;
	return m;
}

bool dgram_append(struct dgram_session *s, struct rte_mbuf *m)
{
	if (unlikely(s->queue.last != m))
		return false;
	dgram_priv(m)->body_len = m->data_len;
	rte_mbuf_refcnt_set(m, 1);
	s->dgram->counters.messages_out++;
	return true;
}

uint32_t dgram_queued(const struct dgram_session *s)
{
	return s->tx_queued + s->tx_held;
}

uint64_t dgram_stalled_ns(const struct dgram_session *s)
{
	return dgram_queued(s) ? dgram_now(s->dgram) - s->progress_ns : 0;
}

void dgram_taken(struct dgram_session *s, uint32_t mbufs)
{
	s->dgram->held -= mbufs;
	s->dgram->held_whole -= mbufs;
}

bool dgram_turn(struct dgram *d, uint64_t now_ns)
{
	struct dgram_session *s;

	if (d->actives || d->lists[DGRAM_WAITS].first || d->lists[DGRAM_WANTS].first)
		dgram_credit_turn(d, now_ns);
	if (d->paced)
		dgram_pace_turn(d, now_ns);
	while ((s = d->lists[DGRAM_ACKS].first) && s->ack_ns <= now_ns) {
		list_take(d, DGRAM_ACKS);
		if (s->state != DGRAM_OPEN || !(s->flags & DGRAM_ACK_OWED))
			continue;
		/* The acknowledgement that was owed at that time has left with data; this one is for a later packet. */
		if (s->rx_unacked == 1 && now_ns - s->data_ns < d->options.ack_delay_ns)
			dgram_output_owe(s, s->data_ns);
		else
			output_urgent(s);
	}
	/* Each iteration sends something or removes a session from the list, so the output queue bounds the loop. */
	while ((s = list_take(d, DGRAM_DUE)))
		if (!dgram_output_session(s, now_ns)) {
			list_put(s, DGRAM_DUE);
			return true;
		}
	return false;
}

uint64_t dgram_next_ns(const struct dgram *d)
{
	const struct dgram_session *s = d->lists[DGRAM_ACKS].first;

	return RTE_MIN(dgram_pace_next_ns(d), s ? s->ack_ns : UINT64_MAX);
}

uint64_t dgram_heard_ns(const struct dgram_session *s)
{
	return s->heard_ns;
}

struct net *dgram_net(const struct dgram_session *s)
{
	return s->dgram->net;
}

struct net_udp_address dgram_address(const struct dgram_session *s)
{
	return (struct net_udp_address){ s->flow.path.local, s->flow.path.remote, s->flow.local_port,
					 s->flow.remote_port };
}

unsigned dgram_sessions(const struct dgram *d)
{
	return d->sessions;
}

void dgram_listen(struct dgram *d)
{
	d->options.closed = false;
}

void dgram_unlisten(struct dgram *d)
{
	d->options.closed = true;
}

void dgram_set_incarnation(struct dgram *d, uint32_t incarnation)
{
	d->options.incarnation = incarnation;
}

const struct dgram_counters *dgram_counters(const struct dgram *d)
{
	return &d->counters;
}
