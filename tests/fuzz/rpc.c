/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests over streams: rpc's server, the real service and store, over a TCP that this file stands in for. The input
 * is a program: open a stream, write a request (right or wrong) or bytes, deliver segments of any length, run slices,
 * read replies, close, reset, take mbufs away, let time pass.
 *
 * Besides memory errors it finds: an mbuf or a stream that is missing in the end, a stream in which nothing can make
 * progress though its peer reads, a row that is seen half-updated, and a push that was applied not at all, twice or to
 * other rows. One more table has all policies at once; what becomes of its rows is not followed.
 */
#include <errno.h>
#include <string.h>

#include "store/store.h"
#include "tests/fuzz/rpc_world.h"

enum { STEPS_MAX = 300 };

static const uint32_t dims[TABLES] = { 4, 256, 1024 };

struct world w;
static uint8_t *arena;

/* ---- the peer's part ---- */

static void open_conn(struct tcp_conn *c, struct input *in)
{
	static const uint32_t sizes[] = { 64, 536, 1460, 1460 };
	uint8_t *out = c->out, *reply = c->in;

	if (c->open)
		return;
	*c = (struct tcp_conn){ .open = true, .mss = sizes[take8(in) % 4], .out = out, .in = reply };
	if (!w.handler->opened(w.ctx, c, &c->user))
		c->open = false;
}

/* Hands over a segment of at most n bytes; false when the window, the mbufs or the bytes are used up. */
static bool deliver(struct tcp_conn *c, uint32_t n)
{
	const uint32_t left = c->out_to - c->out_from, room = WINDOW - c->unread;
	struct rte_mbuf *m;

	n = RTE_MIN(RTE_MIN(n, c->mss), RTE_MIN(left, room));
	if (!c->open || c->finished || n == 0)
		return false;
	if (c->closing) { /* the stack answers data that nobody will read with a reset */
		conn_end(c, ECONNABORTED);
		return false;
	}
	m = rte_pktmbuf_alloc(w.pool);
	if (!m)
		return false;
	memcpy(rte_pktmbuf_append(m, (uint16_t)n), c->out + c->out_from, n);
	c->out_from += n;
	c->unread += n;
	w.handler->received(c->user, m);
	if (c->out_from == c->out_to)
		c->out_from = c->out_to = 0;
	return true;
}

/* A row has one value in all its elements: each gradient is like that, so anything else was seen half-updated. */
static void check_rows(const uint8_t *payload, uint32_t bytes)
{
	while (bytes) {
		struct wire_result result;
		float first = 0, value;
		bool floats;

		FUZZ_CHECK(bytes >= sizeof(result), "%u bytes behind the last result", bytes);
		memcpy(&result, payload, sizeof(result));
		payload += sizeof(result);
		bytes -= (uint32_t)sizeof(result);
		FUZZ_CHECK(wire_padded(result.body_bytes) <= bytes, "a result of %u bytes in %u", result.body_bytes,
			   bytes);
		floats = result.object <= TABLES && result.body_bytes == result.count * result.dim * sizeof(float);
		for (uint32_t i = 0; floats && i * sizeof(float) < result.body_bytes; i++) {
			memcpy(&value, payload + i * sizeof(float), sizeof(value));
			if (i % result.dim == 0)
				first = value;
			FUZZ_CHECK(value == first, "a row has %g and %g", first, value);
		}
		payload += wire_padded(result.body_bytes);
		bytes -= wire_padded(result.body_bytes);
	}
}

static void count(const struct sent *s)
{
	for (unsigned i = 0; i < s->pushes; i++)
		for (uint32_t k = 0; k < s->push[i].count; k++)
			w.sum[s->push[i].table][(s->push[i].key + (k & s->push[i].mask)) % KEYS] += s->push[i].gradient;
}

static void take_reply(struct tcp_conn *c, const struct wire_frame *frame)
{
	const char *why = "";

	FUZZ_CHECK(wire_frame_check(frame, &why) == WIRE_OK && frame->opcode == WIRE_REPLY, "a reply is bad: %s", why);
	FUZZ_CHECK(frame->checksum == wire_checksum(frame, c->in + sizeof(*frame), frame->payload_bytes),
		   "a reply's checksum");
	FUZZ_CHECK(!c->refused, "a reply after the last one");
	if (frame->status != WIRE_OK)
		FUZZ_CHECK(frame->payload_bytes <= WIRE_ERROR_TEXT_MAX, "a message of %u bytes", frame->payload_bytes);
	/* These end the stream, and need not say which request was meant; BUSY may or may not. */
	if (frame->status == WIRE_BAD_FRAME || frame->status == WIRE_BAD_CHECKSUM ||
	    (frame->status == WIRE_BUSY && (!c->sent_count || frame->sequence != c->sent[0].sequence))) {
		c->refused = true;
		return;
	}
	FUZZ_CHECK(c->sent_count, "a reply that nobody asked for");
	FUZZ_CHECK(frame->sequence == c->sent[0].sequence, "the reply to %llu, not %llu",
		   (unsigned long long)frame->sequence, (unsigned long long)c->sent[0].sequence);
	if (frame->status == WIRE_OK) {
		check_rows(c->in + sizeof(*frame), frame->payload_bytes);
		count(&c->sent[0]);
	}
	memmove(c->sent, c->sent + 1, --c->sent_count * sizeof(c->sent[0]));
}

/* The peer's reader: bytes to replies. */
static void take_bytes(struct tcp_conn *c, const uint8_t *bytes, uint32_t n)
{
	while (n) {
		struct wire_frame frame = { 0 };
		uint32_t whole = sizeof(frame), part;

		if (c->in_bytes >= sizeof(frame)) {
			memcpy(&frame, c->in, sizeof(frame));
			FUZZ_CHECK(frame.payload_bytes <= WIRE_PAYLOAD_DEFAULT, "a reply of %u bytes",
				   frame.payload_bytes);
			whole += frame.payload_bytes;
		}
		part = RTE_MIN(n, whole - c->in_bytes);
		memcpy(c->in + c->in_bytes, bytes, part);
		c->in_bytes += part;
		bytes += part;
		n -= part;
		memcpy(&frame, c->in, RTE_MIN(c->in_bytes, (uint32_t)sizeof(frame)));
		if (c->in_bytes >= sizeof(frame) && c->in_bytes == sizeof(frame) + frame.payload_bytes) {
			take_reply(c, &frame);
			c->in_bytes = 0;
		}
	}
}

/* Reads n segments; true when there was one. */
static bool read_replies(struct tcp_conn *c, uint32_t segments)
{
	bool some = false;

	for (; c->open && segments && c->queued; segments--) {
		struct rte_mbuf *m = c->queue[c->queue_head++ % SENT_MAX];

		some = true;
		c->queued -= m->data_len;
		c->moved_ns = w.now_ns;
		take_bytes(c, rte_pktmbuf_mtod(m, const uint8_t *), m->data_len);
		rte_pktmbuf_free(m);
	}
	if (some)
		w.handler->acknowledged(c->user);
	if (c->open && c->closing && !c->queued)
		conn_end(c, 0);
	return some;
}

/* ---- requests ---- */

static void put(struct tcp_conn *c, const void *bytes, uint32_t n)
{
	memcpy(c->out + c->out_to, bytes, n);
	c->out_to += n;
}

/* Any operation on the table with all policies, of any type, its gradients any bytes. */
static void put_wild_op(struct tcp_conn *c, struct input *in)
{
	const uint8_t kind = take8(in), dtype = take8(in), flags = take8(in), key = take8(in);
	struct wire_op op = { .kind = (uint8_t)(1 + kind % 4),
			      .flags = (uint8_t)(flags % 4),
			      .object = WILD,
			      .count = 1 + (flags >> 2) % 64,
			      .dim = WILD_DIM,
			      .step = take8(in) };
	uint64_t body;

	if (kind >= 0xc0) {
		c->out_to += rpc_run_write(c->out + c->out_to, in);
		return;
	}
	if (kind >= 0x80) { /* sums for a commit */
		op.kind = kind & 1 ? WIRE_COMMIT : WIRE_PUSH;
		op.flags = (!(kind & 1) ? WIRE_ACCUMULATE : kind & 2 ? WIRE_OPEN : 0) | (kind & 0x10 ? WIRE_SCALE : 0);
		op.version = kind >> 2 & 3;
		op.count = kind & 1 ? 1 : op.count;
		op.scale = kind & 0x10 ? 0.5f : 0;
	}
	if (op.kind == WIRE_PUSH || op.kind == WIRE_PUSH_PULL)
		op.dtype = (uint8_t)(dtype % 9);
	if (op.kind == WIRE_PULL || op.kind == WIRE_PUSH_PULL)
		op.result_dtype = (uint8_t)((dtype >> 4) % 9);
	body = RTE_MIN(wire_op_bytes(&op), (uint64_t)64 * (8 + 8 * WILD_DIM));
	op.body_bytes = (uint32_t)body;
	put(c, &op, sizeof(op));
	for (uint32_t i = 0; i < wire_padded(op.body_bytes); i += 8)
		put(c,
		    &(uint64_t){ i < 8 * op.count ? (uint64_t)(key + i / 8 % 16) : key * UINT64_C(0x0101010101010101) },
		    8);
}

/* An operation, mostly a right one; what it pushes is noted. */
static void put_op(struct tcp_conn *c, struct input *in, struct sent *sent)
{
	static const uint32_t masks[] = { 0xff, 0, 1, 7 }, counts[] = { 1, 2, 3, 15, 16, 17, 63, 64 };
	static const uint8_t zeros[8];
	const uint8_t how = take8(in), key = take8(in), wrong = take8(in), many = take8(in);
	/* Limits are where it is worth looking: 64 keys, and 64 KiB of gradients, are a small push. */
	const uint32_t t = how % TABLES, count = many < 0xa0 ? counts[many % 8] : many % 65, mask = masks[how >> 4 & 3];
	const bool pull = how & 0x80;
	const uint32_t body = count * (uint32_t)(sizeof(uint64_t) + (pull ? 0 : sizeof(float) * dims[t]));
	const float gradient = (float)(1 + key % 7);
	struct wire_op op = { .kind = pull ? WIRE_PULL : WIRE_PUSH,
			      .dtype = pull ? 0 : STAR_FLOAT32,
			      .result_dtype = pull ? STAR_FLOAT32 : 0,
			      .object = t + 1,
			      .count = count,
			      .dim = dims[t],
			      .body_bytes = body,
			      .rate = 1,
			      .flags = (pull && how & 0x40 ? WIRE_READ_ONLY : 0) | (pull ? 0 : WIRE_RATE) };

	if (how == 0x3f) {
		put_wild_op(c, in);
		return;
	}
	if (!pull)
		sent->push[sent->pushes++] = (struct push){ t, key, mask, count, gradient };
	if (!pull && wrong >= 0xd0 && wrong < 0xf0) { /* the rows in the same trip */
		op.kind = WIRE_PUSH_PULL;
		op.result_dtype = STAR_FLOAT32;
	}
	if (wrong >= 0xf0) /* no other header that could be executed is one byte away, but a pull to delete by */
		((uint8_t *)&op)[take8(in) % offsetof(struct wire_op, rate)] ^= (uint8_t)(1 + take8(in) % 255);
	put(c, &op, sizeof(op));
	for (uint32_t i = 0; i < count; i++)
		put(c, &(uint64_t){ (key + (i & mask)) % KEYS }, sizeof(uint64_t));
	for (uint32_t i = 0; !pull && i < count * dims[t]; i++)
		put(c, &gradient, sizeof(gradient));
	put(c, zeros, (0 - body) & 7);
}

/* A request of up to OPS_MAX operations. */
static void write_request(struct tcp_conn *c, struct input *in)
{
	const uint8_t how = take8(in), wrong = take8(in);
	const uint32_t from = c->out_to, most = OPS_MAX * (sizeof(struct wire_op) + 64 * (8 + 4 * 1024) + 8);
	struct sent *sent = &c->sent[c->sent_count];
	struct wire_frame frame = { .magic = WIRE_MAGIC,
				    .version = WIRE_VERSION,
				    .opcode = how & 0x80 ? WIRE_PING : WIRE_EXECUTE,
				    .session = 5,
				    .sequence = ++c->sequence,
				    .epoch = EPOCH,
				    .incarnation = INCARNATION };

	if (!c->open || c->sent_count == OUTSTANDING_MAX || OUT_MAX - from < sizeof(frame) + most)
		return;
	*sent = (struct sent){ .sequence = frame.sequence };
	put(c, &frame, sizeof(frame));
	for (unsigned i = 0; i < how % (OPS_MAX + 1u); i++)
		put_op(c, in, sent);
	frame.payload_bytes = c->out_to - from - (uint32_t)sizeof(frame);
	if (wrong >= 0x80 && wrong < 0xa0)
		frame.deadline_us = 1u << wrong % 32;
	else if (wrong >= 0xf8) /* seen by the service, or at once, by what it changes */
		((uint8_t *)&frame)[take8(in) % sizeof(frame)] ^= (uint8_t)(1 + take8(in) % 255);
	if (frame.opcode != WIRE_EXECUTE)
		sent->pushes = 0;
	frame.checksum = wire_checksum(&frame, c->out + from + sizeof(frame), c->out_to - from - sizeof(frame));
	if (wrong >= 0xf0 && wrong < 0xf8)
		frame.checksum ^= 1u << take8(in) % 32;
	if (wrong >= 0xf0)
		sent->sequence = frame.sequence;
	memcpy(c->out + from, &frame, sizeof(frame));
	c->sent_count++;
}

static void write_bytes(struct tcp_conn *c, struct input *in)
{
	uint32_t n = RTE_MIN(take8(in), input_left(in));

	if (!c->open || OUT_MAX - c->out_to < n)
		return;
	put(c, in->at, n);
	in->at += n;
}

/* ---- the program ---- */

static void take_mbufs(unsigned n)
{
	while (n-- && w.taken_count < MBUFS && (w.taken[w.taken_count] = rte_pktmbuf_alloc(w.pool)))
		w.taken_count++;
}

static void give_mbufs(unsigned n)
{
	while (n-- && w.taken_count)
		rte_pktmbuf_free(w.taken[--w.taken_count]);
}

static void pass_time(uint64_t ns)
{
	w.now_ns += ns;
	wheel_advance(&w.wheel, w.now_ns, 1000);
}

static void finish(struct tcp_conn *c)
{
	if (!c->open || c->finished || c->out_from != c->out_to)
		return;
	c->finished = true;
	w.handler->finished(c->user);
}

static void check_server(void)
{
	uint32_t held = 0;

	for (uint32_t i = 0; i < w.server->options.streams_max; i++) {
		const struct rpc_stream *s = &w.server->streams[i];
		uint32_t have = 0, mbufs = 0;

		if (s->state == STREAM_FREE)
			continue;
		for (const struct rte_mbuf *m = s->head; m; m = m->next, mbufs++)
			have += m->data_len;
		FUZZ_CHECK(have == s->have && mbufs == s->mbufs, "a stream has %u bytes in %u mbufs, not %u in %u",
			   have, mbufs, s->have, s->mbufs);
		FUZZ_CHECK(s->granted <= s->have, "%u bytes granted of %u", s->granted, s->have);
		FUZZ_CHECK(!s->work.conn || s->work.conn->unread == s->have - s->granted, "%u unread, not %u",
			   s->work.conn->unread, s->have - s->granted);
		held += mbufs;
	}
	FUZZ_CHECK(held == w.server->held_mbufs, "%u mbufs are held, not %u", held, w.server->held_mbufs);
}

static void step(struct input *in)
{
	const uint8_t op = take8(in);
	struct tcp_conn *c = &w.conns[(op >> 4) % CONNS];
	uint32_t n;

	switch (op & 15) {
	case 0:
		open_conn(c, in);
		break;
	case 1:
	case 2:
	case 3:
		write_request(c, in);
		break;
	case 4:
		write_bytes(c, in);
		break;
	case 5:
	case 6:
		n = 1 + take16(in);
		for (uint32_t segments = 1 + take8(in); segments && deliver(c, n); segments--)
			;
		break;
	case 7:
	case 8:
		rpc_run(w.server, 1 + take8(in) % 64, w.now_ns);
		service_sweep(w.service, w.now_ns);
		break;
	case 9:
		pass_time(UINT64_C(1000) << take8(in) % 24);
		break;
	case 10:
		read_replies(c, take8(in));
		break;
	case 11:
		finish(c);
		break;
	case 12:
		if (c->open)
			conn_end(c, ECONNRESET);
		break;
	case 13:
		take_mbufs(take16(in) % MBUFS);
		break;
	case 14:
		service_sweep_begin(w.service, WILD);
		give_mbufs(take16(in));
		break;
	case 15: /* damage on the way, which checksums of TCP did not find */
		if (c->open && c->out_to != c->out_from)
			c->out[c->out_from + take16(in) % (c->out_to - c->out_from)] ^= (uint8_t)(1 + take8(in) % 255);
		break;
	}
	check_server();
}

/* All peers send what they have, and read. */
static bool settle_turn(void)
{
	bool some = rpc_run(w.server, 16, w.now_ns) > 0;

	for (unsigned i = 0; i < CONNS; i++) {
		for (unsigned k = 0; k < 64 && deliver(&w.conns[i], 1460); k++)
			some = true;
		some |= read_replies(&w.conns[i], 64);
	}
	return some;
}

/* With mbufs there, and peers that read, every request is answered, and every byte taken. */
static void settle(void)
{
	unsigned idle = 0;

	give_mbufs(MBUFS);
	/* Bounded by what can be on its way; waiting costs time, not turns. */
	for (unsigned turn = 0; idle < 64; turn++) {
		FUZZ_CHECK(turn < 200000, "there is no end to it");
		idle = settle_turn() ? 0 : idle + 1;
		pass_time(idle ? UINT64_C(1000000000) : 1000000);
	}
	for (unsigned i = 0; i < CONNS; i++) {
		const struct tcp_conn *c = &w.conns[i];

		if (!c->open || c->closing || c->refused)
			continue;
		FUZZ_CHECK(c->out_from == c->out_to, "stream %u is stuck: %u bytes wait, and nothing moves", i,
			   c->out_to - c->out_from);
	}
}

/* What was answered is what was done. */
static void check_values(void)
{
	for (unsigned t = 0; t < TABLES; t++)
		for (uint64_t k = 0; k < KEYS; k++) {
			store_row row;
			float value;

			if (w.unknown[t][k])
				continue;
			store_find(w.tables[t], &k, 1, STORE_LOOK, 0, &row);
			if (row == STORE_NO_ROW) {
				FUZZ_CHECK(w.sum[t][k] == 0, "table %u has no row %u", t, (unsigned)k);
				continue;
			}
			value = *(const float *)store_values(w.tables[t], row, STAR_FLOAT32);
			FUZZ_CHECK(value == -w.sum[t][k], "row %u of table %u is %g, not %g", (unsigned)k, t,
				   (double)value, (double)-w.sum[t][k]);
		}
}

static void install(uint32_t id, unsigned dtype, uint32_t dim, const char *options)
{
	struct object_spec spec = { .id = id, .kind = OBJECT_TABLE, .dtype = (uint8_t)dtype, .dim = dim };
	struct star_error err = { 0 };

	snprintf(spec.name, sizeof(spec.name), "t%u", id);
	wire_object_spec_defaults(&spec, OPTIM_SGD);
	FUZZ_CHECK(wire_object_spec_options(&spec, options, &err) == 0 && service_install(w.service, &spec, &err) == 0,
		   "no table: %s", err.text);
}

/* A shard as after its start, but for the scratch of pushes and runs: to make that again would take most of the
 * time. */
enum { LEASE_NS = 1000000000 };

static void make_service(void)
{
	const struct prepared small = w.service->small, large = w.service->large;
	const uint64_t pools_max = w.service->pools_max;
	struct plan *plans = w.service->plans_memory;
	struct tile *tile = w.service->tile;
	const struct object_spec runs[] = { { .id = PROGRAM, .kind = OBJECT_PROGRAM, .program = rpc_program },
					    { .id = KEEPER, .kind = OBJECT_PROGRAM, .program = rpc_keeper },
					    { .id = TAKER, .kind = OBJECT_PROGRAM, .program = rpc_taker } };
	struct star_error err = { 0 };

	w.store = store_create(arena, ARENA_BYTES, &err);
	FUZZ_CHECK(w.store, "no store: %s", err.text);
	store_destroy(w.service->sums);
	service_kept_destroy(w.service->kept);
	memset(w.service, 0, sizeof(*w.service));
	w.service->sums = store_create_beside(w.store, &err);
	FUZZ_CHECK(w.service->sums, "no store of sums: %s", err.text);
	w.service->options = (struct service_options){ .incarnation = INCARNATION,
						       .partitions = 16,
						       .store = w.store,
						       .payload_max = WIRE_PAYLOAD_DEFAULT,
						       .share = 1,
						       .kept_bytes = KEPT_BYTES,
						       .kept_lease_ns = LEASE_NS };
	w.service->kept = service_kept_create(KEPT_BYTES, LEASE_NS, &err);
	FUZZ_CHECK(w.service->kept, "no memory");
	w.service->small = small;
	w.service->large = large;
	w.service->plans_memory = plans;
	w.service->pools_max = pools_max;
	w.service->tile = tile;
	for (uint32_t t = 0; t < TABLES; t++) {
		install(t + 1, STAR_FLOAT32, dims[t], "rate=1");
		w.tables[t] = w.service->tables[t + 1];
	}
	install(WILD, STAR_FLOAT16, WILD_DIM,
		"versions=1, filter=counter, filter_frequency=2, steps_to_live=3, l2_threshold=1, rows_max=30, "
		"full=evict_lru, "
		"nonfinite=clip, stochastic=1, staleness=1, schedule=cosine, schedule_steps=9");
	for (unsigned i = 0; i < RTE_DIM(runs); i++)
		FUZZ_CHECK(service_install(w.service, &runs[i], &err) == 0, "no program: %s", err.text);
	service_set_layout(w.service, EPOCH, 0, 16);
}

/* What rpc_tcp.c stands in for has of a stack. */
static struct net_memory memory;

static void begin(struct input *in)
{
	struct rpc_server_options options = { .port = 5555,
					      .streams_max = CONNS - 1,
					      .payload_max = WIRE_PAYLOAD_DEFAULT,
					      .send_queue_bytes = 4096 << take8(in) % 8,
					      .held_mbufs_max = 16 << take8(in) % 7,
					      .stall_ns = UINT64_C(30000000000) };
	struct star_error err = { 0 };
	struct service *service = w.service;
	uint8_t *out[CONNS], *reply[CONNS];

	for (unsigned i = 0; i < CONNS; i++) {
		out[i] = w.conns[i].out;
		reply[i] = w.conns[i].in;
	}
	w = (struct world){ .pool = w.pool, .service = service, .now_ns = 1000000000 };
	for (unsigned i = 0; i < CONNS; i++) {
		w.conns[i].out = out[i];
		w.conns[i].in = reply[i];
	}
	wheel_init(&w.wheel, w.now_ns);
	make_service();
	options.service = service_rpc(w.service);
	memory.pool = w.pool;
	options.net = (struct net *)&memory;
	w.server = rpc_server_create(&options, &err);
	FUZZ_CHECK(w.server, "no server: %s", err.text);
	rpc_server_set_layout(w.server, EPOCH, INCARNATION);
}

static void end_all(void)
{
	for (unsigned i = 0; i < CONNS; i++)
		if (w.conns[i].open)
			conn_end(&w.conns[i], ECONNRESET);
	while (rpc_run(w.server, 64, w.now_ns))
		;
	for (uint32_t i = 0; i < w.server->options.streams_max; i++)
		FUZZ_CHECK(w.server->streams[i].state == STREAM_FREE, "stream %u is in state %u in the end", i,
			   w.server->streams[i].state);
	FUZZ_CHECK(w.wheel.armed == 0, "%u timers are armed in the end", w.wheel.armed);
	rpc_server_destroy(w.server);
	for (unsigned i = 0; i < KEPT_BYTES / KEPT_BLOCK_BYTES; i += KEPT_EXPIRE)
		service_kept_expire(w.service->kept, w.now_ns + LEASE_NS);
	FUZZ_CHECK(service_kept_read_stats(w.service->kept)->entries == 0 &&
			   service_kept_read_stats(w.service->kept)->bytes == 0,
		   "something is kept for ever");
	store_destroy(w.store);
	fuzz_pool_whole(w.pool);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct star_error err = { 0 };

	fuzz_eal();
	w.pool = fuzz_pool(MBUFS);
	arena = malloc(ARENA_BYTES);
	w.store = arena ? store_create(arena, ARENA_BYTES, &err) : NULL;
	FUZZ_CHECK(w.store, "no memory");
	w.service = service_create(&(struct service_options){ .store = w.store,
							      .partitions = 16,
							      .payload_max = WIRE_PAYLOAD_DEFAULT },
				   &err);
	FUZZ_CHECK(w.service, "no memory");
	store_destroy(w.store); /* each input has one of its own */
	for (unsigned i = 0; i < CONNS; i++) {
		w.conns[i].out = malloc(OUT_MAX);
		w.conns[i].in = malloc(REPLY_MAX);
		FUZZ_CHECK(w.conns[i].out && w.conns[i].in, "no memory");
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, data + bytes };

	begin(&in);
	for (unsigned i = 0; i < STEPS_MAX && input_left(&in); i++)
		step(&in);
	settle();
	check_values();
	end_all();
	return 0;
}
