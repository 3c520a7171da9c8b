/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * zmq-map, as ps-lite's worker speaks: keys and gradients are sent from where they lie, and the rows that come are
 * copied to where the caller wants them.
 */
#include "bench/peers/batches/batches.h"

#include <stdio.h>
#include <string.h>
#include <zmq.h>

static void *context, *dealer;
static uint64_t begun, ended;

static void zmq_open(const struct worker *w)
{
	const int patience_ms = TIMEOUT_S * 1000, linger = 0;
	char endpoint[128];

	snprintf(endpoint, sizeof(endpoint), "tcp://%s", w->address);
	context = zmq_ctx_new();
	dealer = context ? zmq_socket(context, ZMQ_DEALER) : NULL;
	if (!dealer || zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &patience_ms, sizeof(patience_ms)) < 0 ||
	    zmq_setsockopt(dealer, ZMQ_SNDTIMEO, &patience_ms, sizeof(patience_ms)) < 0 ||
	    zmq_setsockopt(dealer, ZMQ_LINGER, &linger, sizeof(linger)) < 0 || zmq_connect(dealer, endpoint) < 0)
		die("%s: %s", endpoint, zmq_strerror(zmq_errno()));
}

static void keep(void *data, void *hint)
{
}

static void send_part(const void *data, size_t bytes, bool more)
{
	zmq_msg_t part;

	if (zmq_msg_init_data(&part, (void *)(uintptr_t)data, bytes, keep, NULL) < 0 ||
	    zmq_msg_send(&part, dealer, more ? ZMQ_SNDMORE : 0) < 0)
		die("sending: %s", zmq_strerror(zmq_errno()));
}

static void zmq_begin(const struct batch *batch, uint32_t depth)
{
	const struct batch_head head = { .magic = BATCH_MAGIC,
					 .kind = batch->push ? BATCH_PUSH : BATCH_PULL,
					 .sequence = ++begun,
					 .count = batch->count,
					 .rate = batch->rate };

	if (zmq_send(dealer, &head, sizeof(head), ZMQ_SNDMORE) < 0)
		die("sending: %s", zmq_strerror(zmq_errno()));
	send_part(batch->keys, batch->count * sizeof(*batch->keys), batch->push);
	if (batch->push)
		send_part(batch->payload, batch->count * sizeof(*batch->payload), false);
}

/* The next part, which must be so long and the last one or not. */
static void take_part(void *to, size_t bytes, bool more)
{
	zmq_msg_t part;

	zmq_msg_init(&part);
	if (zmq_msg_recv(&part, dealer, 0) < 0)
		die("receiving: %s", zmq_strerror(zmq_errno()));
	if (zmq_msg_size(&part) != bytes || (zmq_msg_more(&part) != 0) != more)
		die("a part of %zu bytes where %zu are due", zmq_msg_size(&part), bytes);
	if (to)
		memcpy(to, zmq_msg_data(&part), bytes);
	zmq_msg_close(&part);
}

static void zmq_end(const struct batch *batch)
{
	struct batch_head head;

	take_part(&head, sizeof(head), !batch->push);
	if (head.sequence != ++ended || head.count != batch->count)
		die("a reply to batch %llu of %u keys, where batch %llu of %u is due",
		    (unsigned long long)head.sequence, head.count, (unsigned long long)ended, batch->count);
	if (batch->push)
		return;
	take_part(NULL, batch->count * sizeof(*batch->keys), true);
	take_part(batch->results, batch->count * sizeof(*batch->results), false);
}

static void zmq_close_all(void)
{
	zmq_close(dealer);
	zmq_ctx_term(context);
}

const struct side side_zmq = {
	.name = "zmq", .open = zmq_open, .begin = zmq_begin, .end = zmq_end, .close = zmq_close_all
};
