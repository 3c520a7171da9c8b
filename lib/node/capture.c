/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames captured by the reactors for an administrator (lib/reactor/capture.h): one call begins it, others fetch the
 * frames. There is one capture at a time; it ends when nobody has fetched anything for a while. On the executor's
 * thread, except for node_capture_watch.
 */
#include "node/capture.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "jsonrpc/member.h"
#include "reactor/capture.h"

enum {
	LEASE_US = 10000000,
	TAKE_BYTES = 2 << 20,
	TAKE_FRAMES = 20000,
	/* Reactors receive for each other, and may be preempted: a frame may be in its ring later than the reply to it
	 * is in another one. Frames younger than this are not returned yet, so that a file is in order. */
	ORDER_NS = 50000000,
};

struct node_capture {
	pthread_mutex_t lock; /* protects the members below */
	uint32_t id;	      /* of the capture that was begun last */
	bool on;
	uint64_t asked_us; /* when frames were last fetched */
	uint64_t end_ns;   /* younger frames do not belong to the capture; UINT64_MAX: it is running */
	struct reactor_capture *of[WIRE_REACTORS_MAX];
};

struct node_capture *node_capture_create(struct star_error *err)
{
	struct node_capture *c = calloc(1, sizeof(*c));

	if (c)
		pthread_mutex_init(&c->lock, NULL);
	else
		star_error_set(err, -ENOMEM, "out of memory");
	return c;
}

void node_capture_destroy(struct node_capture *c)
{
	for (unsigned i = 0; c && i < WIRE_REACTORS_MAX; i++)
		reactor_capture_destroy(c->of[i]);
	free(c);
}

/* ---- on and off ---- */

struct turn_on {
	struct reactor_message message;
	struct reactor_capture *capture;
};

static void set_on_reactor(void *ctx, struct reactor_message *message)
{
	const struct shard *shard = ctx;

	reactor_set_capture(shard->reactor, ((const struct turn_on *)message)->capture);
}

static int capture_set(struct shard *shard, struct reactor_capture *capture, struct star_error *err)
{
	struct turn_on question = { { .run = set_on_reactor }, capture };

	return node_ask_copy(shard, &question.message, sizeof(question), err);
}

/* If a reactor does not answer, it may still write to its ring: the ring is leaked. Under the lock. */
static void capture_end(struct node *node, struct node_capture *c)
{
	struct star_error err;

	for (unsigned i = 0; i < node->shards_count; i++) {
		if (c->of[i] && capture_set(&node->shards[i], NULL, &err) == 0)
			reactor_capture_destroy(c->of[i]);
		c->of[i] = NULL;
	}
	c->on = false;
}

static int capture_begin(struct node *node, struct node_capture *c, const struct reactor_capture_filter *filter,
			 uint32_t snap, int reactor, struct star_error *err)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < node->shards_count; i++) {
		if (reactor >= 0 && (unsigned)reactor != i)
			continue;
		c->of[i] = reactor_capture_create(filter, snap, err);
		rc = c->of[i] ? capture_set(&node->shards[i], c->of[i], err) : err->code;
	}
	if (rc < 0)
		capture_end(node, c);
	else
		c->on = true;
	return rc;
}

/* ---- what is asked for ---- */

static const struct {
	const char *name;
	uint16_t type;
	uint8_t protocol;
} protocols[] = {
	{ "tcp", 0, IPPROTO_TCP },	{ "udp", 0, IPPROTO_UDP }, { "icmp", 0, IPPROTO_ICMP },
	{ "icmp6", 0, IPPROTO_ICMPV6 }, { "arp", 0x0806, 0 },	   { "ip", 0x0800, 0 },
	{ "ip6", 0x86dd, 0 },
};

static int take_protocol(const char *name, struct reactor_capture_filter *filter, struct star_error *err)
{
	for (unsigned i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++) {
		if (strcmp(protocols[i].name, name) != 0)
			continue;
		filter->type = protocols[i].type;
		filter->protocol = protocols[i].protocol;
		return 0;
	}
	return star_error_set(err, -EINVAL, "unknown protocol \"%.20s\": use tcp, udp, icmp, icmp6, arp, ip or ip6",
			      name);
}

static int take_way(const char *name, struct reactor_capture_filter *filter, struct star_error *err)
{
	if (strcmp(name, "in") == 0)
		filter->ways = REACTOR_CAPTURE_IN;
	else if (strcmp(name, "out") == 0)
		filter->ways = REACTOR_CAPTURE_OUT;
	else
		return star_error_set(err, -EINVAL, "direction must be in or out, not \"%.20s\"", name);
	return 0;
}

static int take_host(const char *text, struct reactor_capture_filter *filter, struct star_error *err)
{
	struct net_address address;

	if (!net_address_parse(text, &address))
		return star_error_set(err, -EINVAL, "host must be an IPv4 or IPv6 address, not \"%.60s\"", text);
	memcpy(filter->host, address.bytes, sizeof(filter->host));
	return 0;
}

static int take_text(const json_t *params, const char *name, struct reactor_capture_filter *filter,
		     int (*take)(const char *text, struct reactor_capture_filter *filter, struct star_error *err),
		     struct star_error *err)
{
	const char *text;

	if (!json_object_get(params, name))
		return 0;
	return jsonrpc_member_string(params, name, 64, &text, err) < 0 ? err->code : take(text, filter, err);
}

static int take_number(const json_t *params, const char *name, uint32_t min, uint32_t max, uint32_t *value,
		       struct star_error *err)
{
	return json_object_get(params, name) ? jsonrpc_member_u32(params, name, min, max, value, err) : 0;
}

static int take_filter(const struct node *node, const json_t *params, struct reactor_capture_filter *filter,
		       uint32_t *snap, uint32_t *reactor, struct star_error *err)
{
	static const char *const members[] = { "host", "port", "proto", "direction", "snap", "reactor", NULL };
	uint32_t port = 0;

	if (jsonrpc_member_only(params, members, err) < 0 ||
	    take_number(params, "port", 1, UINT16_MAX, &port, err) < 0 ||
	    take_number(params, "snap", REACTOR_CAPTURE_SNAP_MIN, REACTOR_CAPTURE_SNAP_MAX, snap, err) < 0 ||
	    take_number(params, "reactor", 0, node->shards_count - 1, reactor, err) < 0 ||
	    take_text(params, "host", filter, take_host, err) < 0 ||
	    take_text(params, "proto", filter, take_protocol, err) < 0 ||
	    take_text(params, "direction", filter, take_way, err) < 0)
		return err->code;
	filter->port = (uint16_t)port;
	return 0;
}

static int64_t date_offset_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - (int64_t)clock_ns();
}

static json_t *begun_json(struct node *node, uint32_t id, uint32_t snap)
{
	json_t *ports = json_array();

	pthread_mutex_lock(&node->ports_lock);
	for (unsigned i = 0; i < node->ports_count; i++)
		json_array_append_new(ports, json_pack("{s:i, s:s}", "id", (int)node->ports[i].port->id, "name",
						       node->ports[i].port->name));
	pthread_mutex_unlock(&node->ports_lock);
	return json_pack("{s:I, s:i, s:I, s:o}", "capture", (json_int_t)id, "snap", (int)snap, "offset_ns",
			 (json_int_t)date_offset_ns(), "ports", ports);
}

int node_capture(void *ctx, const json_t *params, json_t **result, struct star_error *err)
{
	struct node *node = ctx;
	struct node_capture *c = node->capture;
	struct reactor_capture_filter filter = { 0 };
	uint32_t snap = REACTOR_CAPTURE_SNAP_USUAL, reactor = UINT32_MAX;
	const unsigned port = node->config->own.data.port;
	int rc;

	if (node->config->stack == CONFIG_STACK_KERNEL)
		return star_error_set(err, -ENOTSUP,
				      "this node uses the kernel's network stack (network.stack = \"kernel\"), so "
				      "capture its packets by tcpdump -i any -w FILE tcp portrange %u-%u",
				      port, port + node->shards_count - 1);
	if (take_filter(node, params, &filter, &snap, &reactor, err) < 0)
		return err->code;
	pthread_mutex_lock(&c->lock);
	if (c->on && clock_us() - c->asked_us < LEASE_US) {
		rc = star_error_set(
			err, -EBUSY,
			"another capture is running, and there can be only one at a time: try again when it has ended");
	} else {
		capture_end(node, c);
		rc = capture_begin(node, c, &filter, snap, reactor == UINT32_MAX ? -1 : (int)reactor, err);
	}
	if (rc == 0) {
		c->asked_us = clock_us();
		c->end_ns = UINT64_MAX;
		*result = begun_json(node, ++c->id, snap);
		log_info("frames are captured for an administrator");
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* ---- what was captured ---- */

static json_t *frame_json(const struct reactor_capture_frame *frame, unsigned reactor, const uint8_t *head)
{
	static const char digits[] = "0123456789abcdef";
	char text[2 * REACTOR_CAPTURE_SNAP_MAX];

	for (uint32_t i = 0; i < frame->taken; i++) {
		text[2 * i] = digits[head[i] >> 4];
		text[2 * i + 1] = digits[head[i] & 15];
	}
	return json_pack("[I, i, i, i, I, o]", (json_int_t)frame->ns, (int)reactor, (int)frame->port, (int)frame->way,
			 (json_int_t)frame->bytes, json_stringn_nocheck(text, 2 * (size_t)frame->taken));
}

/* The ring with the oldest frame that is not younger than until_ns; the number of rings if there is none. */
static unsigned oldest_ring(const struct node_capture *c, unsigned rings, uint64_t until_ns)
{
	struct reactor_capture_frame frame;
	unsigned oldest = rings;
	const uint8_t *head;

	for (unsigned i = 0; i < rings; i++) {
		if (!c->of[i] || !reactor_capture_next(c->of[i], &frame, &head) || frame.ns > until_ns)
			continue;
		oldest = i;
		until_ns = frame.ns;
	}
	return oldest;
}

/* Takes frames in the order of their times, up to a limit; true: there are more. */
static bool take_frames(struct node_capture *c, unsigned rings, uint64_t until_ns, json_t *frames)
{
	struct reactor_capture_frame frame;
	const uint8_t *head;
	size_t bytes = 0;
	unsigned ring;

	while ((ring = oldest_ring(c, rings, until_ns)) < rings) {
		if (bytes >= TAKE_BYTES || json_array_size(frames) >= TAKE_FRAMES)
			return true;
		reactor_capture_next(c->of[ring], &frame, &head);
		json_array_append_new(frames, frame_json(&frame, ring, head));
		bytes += frame.taken;
		reactor_capture_done(c->of[ring]);
	}
	return false;
}

static json_t *taken_json(const struct node *node, struct node_capture *c, bool *more)
{
	uint64_t matched = 0, dropped = 0, m, d;
	json_t *frames = json_array();

	*more = take_frames(c, node->shards_count, c->end_ns < UINT64_MAX ? c->end_ns : clock_ns() - ORDER_NS, frames);
	for (unsigned i = 0; i < node->shards_count; i++) {
		if (!c->of[i])
			continue;
		reactor_capture_count(c->of[i], &m, &d);
		matched += m;
		dropped += d;
	}
	return json_pack("{s:o, s:b, s:I, s:I}", "frames", frames, "more", *more, "matched", (json_int_t)matched,
			 "dropped", (json_int_t)dropped);
}

int node_capture_take(void *ctx, const json_t *params, json_t **result, struct star_error *err)
{
	static const char *const members[] = { "capture", "end", NULL };
	struct node *node = ctx;
	struct node_capture *c = node->capture;
	bool more;
	uint32_t id;
	int rc = 0;

	if (jsonrpc_member_only(params, members, err) < 0 ||
	    jsonrpc_member_u32(params, "capture", 1, UINT32_MAX, &id, err) < 0)
		return err->code;
	pthread_mutex_lock(&c->lock);
	if (!c->on || id != c->id) {
		rc = star_error_set(err, -ENOENT,
				    "this capture has ended: nothing was fetched for %d s, or another one was started",
				    LEASE_US / 1000000);
	} else {
		c->asked_us = clock_us();
		if (json_is_true(json_object_get(params, "end")) && c->end_ns == UINT64_MAX)
			c->end_ns = clock_ns();
		*result = taken_json(node, c, &more);
		if (c->end_ns < UINT64_MAX && !more)
			capture_end(node, c);
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

void node_capture_watch(struct node *node)
{
	struct node_capture *c = node->capture;

	pthread_mutex_lock(&c->lock);
	if (c->on && clock_us() - c->asked_us >= LEASE_US)
		capture_end(node, c);
	pthread_mutex_unlock(&c->lock);
}
