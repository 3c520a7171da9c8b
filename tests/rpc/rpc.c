/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/rpc/cases.h"

#include <stdio.h>

#include "base/crc32.h"

struct rig rig;
struct toy toy;

struct toy_task {
	uint32_t slices;
	uint8_t untouched[100]; /* so that tasks are not of a cache line's size */
};

static uint8_t reply_byte(const struct wire_frame *frame, uint32_t i)
{
	return (uint8_t)(hash_mix(frame->session + frame->sequence) >> i % 56) ^ (uint8_t)i;
}

/* Reads the payload by odd portions: in place, copied, and skipped by turns. */
static uint32_t read_payload(const struct rpc_request *request)
{
	static uint8_t bytes[WIRE_PAYLOAD_DEFAULT], scratch[64];
	struct rpc_cursor at = request->payload;
	const uint32_t n = request->frame.payload_bytes;

	for (uint32_t i = 0, part; i < n; i += part) {
		part = RTE_MIN(n - i, 1 + i * 7 % 61);
		if (i % 3 == 0) {
			memcpy(bytes + i, rpc_cursor_take(&at, part, 1u << i % 4, scratch), part);
		} else if (i % 3 == 1) {
			rpc_cursor_copy(&at, bytes + i, part);
		} else {
			struct rpc_cursor behind = at;

			rpc_cursor_skip(&behind, part);
			rpc_cursor_copy(&at, bytes + i, part);
			if (i + part < n)
				at = behind;
		}
	}
	return base_crc32(bytes, n);
}

static void write_reply(struct rpc_request *request, uint32_t bytes)
{
	const uint32_t crc = read_payload(request);
	uint8_t part[1000];
	uint32_t n = 0;

	memcpy(part, &crc, sizeof(crc));
	for (uint32_t i = sizeof(crc); i < bytes; i++) {
		if (i % sizeof(part) == 0) {
			rpc_reply_put(request, part, sizeof(part));
			n += sizeof(part);
		}
		part[i % sizeof(part)] = reply_byte(&request->frame, i);
	}
	rpc_reply_put(request, part, bytes - n);
	rpc_reply_pad(request);
}

static void drain(void)
{
	struct rte_mbuf *m;

	while (rte_mempool_avail_count(rig.link.pool[0]) > toy.leave && toy.drained_count < RTE_DIM(toy.drained) &&
	       (m = rte_pktmbuf_alloc(rig.link.pool[0])))
		toy.drained[toy.drained_count++] = m;
}

void toy_refill(void)
{
	while (toy.drained_count)
		rte_pktmbuf_free(toy.drained[--toy.drained_count]);
}

static enum rpc_progress execute(void *ctx, struct rpc_request *request, uint64_t now_ns)
{
	struct toy_task *task = request->task;
	struct rpc_cursor at = request->payload;
	struct order order;

	CHECK(ctx == &toy);
	CHECK_UINT(now_ns, rig.link.now_ns);
	rpc_cursor_copy(&at, &order, sizeof(order));
	if (toy.logged < RTE_DIM(toy.log))
		toy.log[toy.logged++] = request->frame.session;
	toy.slices++;
	if (toy.stale && !request->begun)
		return rpc_reply_fail(request, WIRE_STALE_LAYOUT, "there is none");
	if (task->slices == 0) {
		CHECK_UINT(task->untouched[0] | task->untouched[99], 0);
		toy.started++;
		task->untouched[0] = task->untouched[99] = 1;
	}
	task->slices++;
	if (order.begin_at && task->slices >= order.begin_at)
		request->begun = true;
	if (task->slices <= order.slices)
		return RPC_MORE;
	if (toy.drain)
		drain();
	if (order.fail) {
		toy.finished++;
		return rpc_reply_fail(request, WIRE_NO_KEYS, "refused, number %u", order.fail);
	}
	if (!rpc_reply_room(request, wire_padded(order.reply_bytes))) {
		toy.refused_room++;
		return RPC_MORE;
	}
	write_reply(request, order.reply_bytes);
	toy.finished++;
	request->changed = toy.changes;
	return RPC_DONE;
}

static void ended(void *ctx, const struct rpc_outcome *outcome)
{
	toy.outcomes++;
}

static uint64_t held_until(void *ctx, const struct rpc_request *request)
{
	return request ? ++toy.position : toy.position;
}

void toy_init(uint64_t seed, unsigned server_mbufs)
{
	memset(&toy, 0, sizeof(toy));
	rig_init(&rig, seed, server_mbufs);
}

void toy_start(void)
{
	const struct rpc_service service = { .ctx = &toy,
					     .task_bytes = sizeof(struct toy_task),
					     .execute = execute,
					     .ended = ended,
					     .held_until = held_until };

	rig_start(&rig, &service);
}

const void *toy_payload(uint64_t session, uint64_t sequence, struct order order, uint32_t data_bytes)
{
	static uint8_t payload[WIRE_PAYLOAD_DEFAULT];
	uint8_t *data = payload + sizeof(order);

	memcpy(payload, &order, sizeof(order));
	for (uint32_t i = 0; i < data_bytes; i++)
		data[i] = (uint8_t)(hash_mix(session ^ sequence) >> i % 50) ^ (uint8_t)(i * 3);
	return payload;
}

void toy_send(struct peer *peer, struct order order, uint32_t data_bytes)
{
	const struct wire_frame frame = peer_frame(peer, WIRE_EXECUTE);

	peer_send(peer, frame, toy_payload(frame.session, frame.sequence, order, data_bytes),
		  (uint32_t)sizeof(order) + data_bytes);
}

bool toy_await(struct peer *peer, uint64_t sequence, struct order order, uint32_t data_bytes)
{
	struct reply reply;
	uint32_t crc;

	if (!peer_await(peer, &reply) || !CHECK_UINT(reply.frame.session, peer->session) ||
	    !CHECK_UINT(reply.frame.sequence, sequence))
		return false;
	if (order.fail)
		return CHECK_UINT(reply.frame.status, WIRE_NO_KEYS) && CHECK_HAS(reply.text, "refused, number ");
	if (!CHECK_UINT(reply.frame.status, WIRE_OK) ||
	    !CHECK_UINT(reply.frame.payload_bytes, wire_padded(order.reply_bytes)))
		return false;
	if (peer->guest) /* the service knows its session by another number */
		reply.frame.session = secure_guest_number(peer->guest, peer->session);
	memcpy(&crc, reply.payload, sizeof(crc));
	if (!CHECK_UINT(crc, base_crc32(toy_payload(peer->session, sequence, order, data_bytes),
					sizeof(order) + data_bytes)))
		return false;
	for (uint32_t i = sizeof(crc); i < wire_padded(order.reply_bytes); i++)
		if (reply.payload[i] != (i < order.reply_bytes ? reply_byte(&reply.frame, i) : 0))
			return unit_fail(__FILE__, __LINE__, "byte %u of %u of the reply is %#x", i, order.reply_bytes,
					 reply.payload[i]);
	return true;
}

#define X(name) { #name, name },
const char *const unit_suite = "rpc";
const struct unit_case unit_cases[] = { RPC_CASES(X){ NULL, NULL } };
