/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface of this library to libstar. */
#include "client_dpdk/poller.h"

#include "secure/memory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"

enum {
	DATAGRAM_PULL_BYTES = 32 << 10, /* a request costs less than over TCP: more of them, with less time to wait */
	SMALL_BYTES = 512,		/* requests that are worth combining */
	DEFERRED_MAX = 12,		/* pulls of a row that fill a packet */
};

static struct poller *poller_of(const struct star_cluster *cluster)
{
	return cluster->transport_state;
}

/* What half of the mbufs can hold, one for each packet; at least what any node accepts. */
static uint32_t sendable(const struct config *config)
{
	enum { HEADERS = 80 }; /* of IPv6, UDP and a session's packet, and more */
	const uint64_t bytes = (uint64_t)config->mbufs / 2 * (config->ports[0].mtu - HEADERS);

	if (bytes < WIRE_PAYLOAD_DEFAULT)
		return WIRE_PAYLOAD_DEFAULT;
	return bytes < WIRE_PAYLOAD_MAX ? (uint32_t)bytes : WIRE_PAYLOAD_MAX;
}

static int dpdk_attach(struct star_cluster *cluster, const struct config *config, struct star_error *err)
{
	struct poller *p = dpdk_poller_get(config, err);

	if (!p)
		return err->code;
	cluster->transport_state = p;
	cluster->payload_max = sendable(config);
	cluster->pull_bytes = DATAGRAM_PULL_BYTES;
	return 0;
}

static void dpdk_detach(struct star_cluster *cluster)
{
	dpdk_poller_put(cluster->transport_state);
}

static int open_channel(struct channel *ch, struct star_error *err)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s)
		return star_error_set(err, -ENOMEM, "out of memory for a connection");
	s->ch = ch;
	s->poller = poller_of(ch->cluster);
	ch->datagrams = s;
	return 0;
}

static void close_channel(struct channel *ch)
{
	struct stream *s = ch->datagrams;
	struct poller *p = s->poller;

	dpdk_poller_lock(p);
	dpdk_stream_close(s);
	if (s->dirty)
		TAILQ_REMOVE(&p->dirty, s, link);
	dpdk_poller_flush(p);
	dpdk_poller_leave(p);
	secure_free(s->seal);
	free(s);
}

static void retire(struct channel *ch)
{
	struct stream *s = ch->datagrams;

	dpdk_poller_lock(s->poller);
	ch->retired = true;
	dpdk_stream_touch(s);
	dpdk_poller_flush(s->poller);
	dpdk_poller_leave(s->poller);
}

/* An asynchronous call has a deadline, which its I/O thread must know. */
static void announce(struct waiter *k, struct call *call, struct waiter *self)
{
	if (k == self) {
		TAILQ_INSERT_TAIL(&k->own_incoming, call, running);
		return;
	}
	pthread_mutex_lock(&k->lock);
	TAILQ_INSERT_TAIL(&k->incoming, call, running);
	atomic_store_explicit(&k->news, true, memory_order_relaxed);
	pthread_mutex_unlock(&k->lock);
}

/*
 * Whether a written call need not be sent now: its I/O thread drives next; or so many are in flight that the node is
 * busy, and the caller comes back, for replies or with more calls. At most a fifth of the calls in flight wait in this
 * way. If the caller never comes back, an I/O thread sends them (rule 4).
 */
static bool may_defer(const struct poller *p, const struct call *call, const struct waiter *self)
{
	const struct part *part = TAILQ_FIRST(&call->parts);

	if (self)
		return true;
	return part && part == TAILQ_LAST(&call->parts, parts) && part->request_bytes <= SMALL_BYTES &&
	       p->deferred < DEFERRED_MAX && channel_in_flight(part->channel) >= 5 * (p->deferred + 1);
}

/* A caller that waits keeps the lock until it has the reply. */
static void submit(struct call *call, struct waiter *self)
{
	struct star_cluster *cluster = call->cluster;
	struct poller *p = poller_of(cluster);
	struct waiter *k = call->waiter;
	const bool async = call->async, waits = call->waits;
	bool defer;

	atomic_store_explicit(&call->finished, CALL_RUNS, memory_order_relaxed);
	if (async) { /* before it can be finished */
		call_begin(call, clock_ns());
		announce(k, call, self);
	}
	if (dpdk_poller_try(p, NULL, waits ? call : NULL)) {
		call_begin(call, dpdk_poller_begin(p));
		/* If the caller does not wait, it does not own the call from here on. */
		defer = !waits && may_defer(p, call, self);
		dpdk_call_start(p, call);
		if (defer)
			p->deferred++;
		else
			dpdk_poller_flush(p);
		atomic_store_explicit(&p->busy_ns, p->now_ns, memory_order_relaxed);
		if (waits) {
			call->driven = true;
			return;
		}
		dpdk_poller_tell_watcher(p, cluster);
		dpdk_poller_leave(p);
	} else {
		call_begin(call, clock_ns());
		dpdk_poller_post(p, call);
	}
	if (async && k != self)
		waiter_wake(k);
}

static void small(struct call *call, struct waiter *self)
{
	if (dpdk_poller_small(call))
		return;
	if (!call->start_ns)
		submit(call, self);
	dpdk_poller_wait(self, call);
}

static void cancel(struct call *call, int code, struct waiter *self)
{
	struct poller *p = poller_of(call->cluster);

	dpdk_poller_lock(p);
	dpdk_call_abort(p, call, code);
	dpdk_poller_flush(p);
	dpdk_poller_leave(p);
}

__attribute__((visibility("default"))) extern const struct transport star_transport_dpdk;

const struct transport star_transport_dpdk = {
	.version = TRANSPORT_VERSION,
	.release = STAR_VERSION,
	.unattended = true,
	.attach = dpdk_attach,
	.detach = dpdk_detach,
	.open = open_channel,
	.close = close_channel,
	.retire = retire,
	.submit = submit,
	.small = small,
	.cancel = cancel,
	.wait = dpdk_poller_wait,
	.turn = dpdk_poller_turn,
};
