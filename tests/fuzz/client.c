/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libstar's way of replies, in one thread: calls go out on a socket pair, and the input says what the node at its other end
 * answers, in pieces of any length. What comes out right is in the caller's memory, and every call ends once.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/crc32.h"
#include "client/client.h"

enum {
	STEPS_MAX = 200,
	CALLS_MAX = 32,
	OPS_MAX = 3,
	KEYS_MAX = 40,
	DIM = 4,
	REQUESTS_MAX = 64,
	BYTES_MAX = 64 << 10,
	NOW = 3
};

/* A call and its caller's memory. */
struct asked {
	struct call *call;
	struct star_op ops[OPS_MAX];
	unsigned ops_count;
	bool seen;
};

/* A request as the node has it. */
struct request {
	struct wire_frame frame;
	struct wire_op ops[OPS_MAX];
	uint64_t first[OPS_MAX];	   /* keys: they go up from it */
	uint32_t given[OPS_MAX][KEYS_MAX]; /* versions */
	unsigned ops_count;
};

static struct world {
	struct star_cluster cluster;
	struct keeper keeper;
	struct channel *ch;
	struct star_table table;
	int fd; /* the node's end */
	struct asked calls[CALLS_MAX];
	unsigned calls_count;
	struct request requests[REQUESTS_MAX];
	unsigned requests_count;
	uint8_t bytes[BYTES_MAX];
	size_t bytes_count;
	bool wrong; /* an answer was sent that is not the right one */
} w;
static struct route *route;

static uint32_t min(size_t a, size_t b)
{
	return (uint32_t)(a < b ? a : b);
}

/* What the row of a key holds. */
static float value_of(uint64_t key, uint32_t i)
{
	return (float)(key * DIM + i);
}

/* ---- the caller ---- */

static enum star_op_kind kind_of(uint8_t how, unsigned i)
{
	if (!(how >> i & 8))
		return STAR_PULL;
	return how & 0x80 ? (i ? STAR_PUSH_PULL : STAR_DELETE) : STAR_PUSH;
}

static void ask(struct input *in)
{
	struct asked *a = &w.calls[w.calls_count];
	struct star_error err = { 0 };
	const uint8_t how = take8(in);

	/* A channel that has died would connect to a real address. */
	if (w.calls_count == CALLS_MAX || w.ch->state != CHANNEL_OPEN || w.ch->broken)
		return;
	a->ops_count = 1 + how % OPS_MAX;
	for (unsigned i = 0; i < a->ops_count; i++) {
		const uint32_t count = 1 + take8(in) % KEYS_MAX;
		const uint8_t first = take8(in);
		uint64_t *keys = malloc(count * sizeof(*keys));

		for (uint32_t k = 0; k < count; k++)
			keys[k] = (uint8_t)(first + k % 16);
		a->ops[i] =
			(struct star_op){ .kind = kind_of(how, i), .table = &w.table, .keys = keys, .count = count };
		if (a->ops[i].kind != STAR_DELETE)
			a->ops[i].values = calloc(count * DIM, sizeof(float));
		if (a->ops[i].kind == STAR_PUSH_PULL)
			a->ops[i].results = calloc(count * DIM, sizeof(float));
		if (a->ops[i].kind == STAR_PULL && how & 0x40) {
			a->ops[i].versions = calloc(count, sizeof(uint32_t));
			for (uint32_t k = 1; k < count; k += 2) /* these are known already */
				a->ops[i].versions[k] = NOW;
		}
	}
	w.calls_count++;
	a->call = call_create(&w.cluster, a->ops, a->ops_count, STAR_DEADLINE_DEFAULT_US, &err);
	FUZZ_CHECK(a->call && split_call(a->call, route, NULL, &err) == 0, "no call: %s", err.text);
	a->call->keeper = &w.keeper;
	call_submit(a->call, &w.keeper);
}

/* A call that has ended well has what it asked for. */
static void check_call(struct asked *a)
{
	if (a->call->finished != CALL_FINISHED || a->seen)
		return;
	a->seen = true;
	if (a->call->error.code || !TAILQ_EMPTY(&a->call->stale) || w.wrong)
		return;
	for (unsigned i = 0; i < a->ops_count; i++) {
		const struct star_op *op = &a->ops[i];
		const float *rows = op->kind == STAR_PUSH_PULL ? op->results : op->values;
		const bool pulls = op->kind == STAR_PULL || op->kind == STAR_PUSH_PULL;

		for (uint32_t k = 0; pulls && k < op->count * DIM; k++) {
			const bool known = op->versions && k / DIM % 2;

			FUZZ_CHECK(rows[k] == (known ? 0 : value_of(op->keys[k / DIM], k % DIM)),
				   "element %u of operation %u", k, i);
			FUZZ_CHECK(!op->versions || op->versions[k / DIM] == NOW, "version %u of operation %u", k / DIM,
				   i);
		}
	}
}

/* ---- the node ---- */

/* Reads a request off the front of the bytes; returns how many it took, 0 when it is not whole. */
static size_t take_request(const uint8_t *at, size_t bytes)
{
	struct request *r = &w.requests[w.requests_count];
	const char *why = "";
	size_t left;

	if (bytes < sizeof(r->frame))
		return 0;
	*r = (struct request){ 0 };
	memcpy(&r->frame, at, sizeof(r->frame));
	FUZZ_CHECK(wire_frame_check(&r->frame, &why) == WIRE_OK, "a request: %s", why);
	left = r->frame.payload_bytes;
	if (bytes < sizeof(r->frame) + left)
		return 0;
	FUZZ_CHECK(wire_checksum(&r->frame, at + sizeof(r->frame), left) == r->frame.checksum, "a request's checksum");
	for (const uint8_t *op = at + sizeof(r->frame); left; r->ops_count++) {
		struct wire_op *o = &r->ops[r->ops_count];

		FUZZ_CHECK(r->ops_count < OPS_MAX && left >= sizeof(*o), "%zu bytes behind the last operation", left);
		memcpy(o, op, sizeof(*o));
		FUZZ_CHECK(o->body_bytes == wire_op_bytes(o), "a body of %u bytes", o->body_bytes);
		FUZZ_CHECK(sizeof(*o) + wire_padded(o->body_bytes) <= left, "a body of %u bytes", o->body_bytes);
		memcpy(&r->first[r->ops_count], op + sizeof(*o), sizeof(r->first[0]));
		if (o->flags & WIRE_VERSIONS)
			memcpy(r->given[r->ops_count], op + sizeof(*o) + o->count * 8, o->count * sizeof(uint32_t));
		op += sizeof(*o) + wire_padded(o->body_bytes);
		left -= sizeof(*o) + wire_padded(o->body_bytes);
	}
	return sizeof(r->frame) + r->frame.payload_bytes;
}

static void read_requests(void)
{
	size_t at = 0, taken = 1;
	ssize_t n = recv(w.fd, w.bytes + w.bytes_count, BYTES_MAX - w.bytes_count, MSG_DONTWAIT);

	w.bytes_count += n > 0 ? (size_t)n : 0;
	while (taken && w.requests_count < REQUESTS_MAX) {
		taken = take_request(w.bytes + at, w.bytes_count - at);
		w.requests_count += taken > 0;
		at += taken;
	}
	w.bytes_count -= at;
	memmove(w.bytes, w.bytes + at, w.bytes_count);
}

static uint32_t make_result(const struct request *r, unsigned i, uint8_t *to)
{
	const struct wire_op *op = &r->ops[i];
	const bool pulls = op->kind == WIRE_PULL || op->kind == WIRE_PUSH_PULL, versions = op->flags & WIRE_VERSIONS;
	struct wire_result result = { .object = op->object, .count = op->count, .dim = op->dim };
	uint8_t *at = to + sizeof(result);

	for (uint32_t k = 0; k < op->count && versions; k++, at += sizeof(uint32_t))
		memcpy(at, &(uint32_t){ NOW }, sizeof(uint32_t));
	if (versions && op->count % 2)
		at = (uint8_t *)memset(at, 0, sizeof(uint32_t)) + sizeof(uint32_t);
	for (uint32_t k = 0; k < op->count * op->dim && pulls; k++) {
		if (versions && r->given[i][k / op->dim] == NOW)
			continue;
		memcpy(at, &(float){ value_of((uint8_t)(r->first[i] + k / op->dim % 16), k % op->dim) }, sizeof(float));
		at += sizeof(float);
	}
	result.body_bytes = (uint32_t)(at - to) - (uint32_t)sizeof(result);
	memcpy(to, &result, sizeof(result));
	return (uint32_t)(at - to);
}

/* The right reply to a request; returns its bytes. */
static uint32_t make_reply(const struct request *r, uint8_t *reply)
{
	struct wire_frame frame = { .magic = WIRE_MAGIC,
				    .version = WIRE_VERSION,
				    .opcode = WIRE_REPLY,
				    .session = r->frame.session,
				    .sequence = r->frame.sequence,
				    .epoch = r->frame.epoch,
				    .incarnation = r->frame.incarnation };
	uint8_t *at = reply + sizeof(frame);

	for (unsigned i = 0; i < r->ops_count; i++)
		at += make_result(r, i, at);
	frame.payload_bytes = (uint32_t)(at - reply) - (uint32_t)sizeof(frame);
	memcpy(reply, &frame, sizeof(frame));
	return sizeof(frame) + frame.payload_bytes;
}

/* Damages the reply as the input wants it: in its bytes, its length or its status. */
static uint32_t spoil(struct input *in, uint8_t *reply, uint32_t bytes, uint8_t how)
{
	struct wire_frame frame;

	w.wrong = true;
	if (how & 1)
		reply[take16(in) % bytes] ^= (uint8_t)(1 + take8(in) % 255);
	if (how & 2)
		bytes = min(take16(in), bytes - (uint32_t)sizeof(frame)) + (uint32_t)sizeof(frame);
	memcpy(&frame, reply, sizeof(frame));
	if (how & 2)
		frame.payload_bytes = bytes - (uint32_t)sizeof(frame);
	if (how & 4)
		frame.status = take8(in) % 20;
	if (how & 8)
		frame.sequence += (uint64_t)(int8_t)take8(in);
	memcpy(reply, &frame, sizeof(frame));
	return bytes;
}

static void send_bytes(struct input *in, const uint8_t *bytes, uint32_t n, bool in_pieces)
{
	while (n) {
		const uint32_t piece = in_pieces ? min(n, 1u + take8(in)) : n;

		if (send(w.fd, bytes, piece, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)piece)
			return;
		bytes += piece;
		n -= piece;
		if (w.ch->state == CHANNEL_OPEN)
			receive(w.ch, &w.keeper);
	}
}

static void reply(struct input *in)
{
	static uint8_t bytes[sizeof(struct wire_frame) +
			     OPS_MAX * (sizeof(struct wire_result) + 8 + KEYS_MAX * (4 + DIM * 4))];
	const uint8_t how = take8(in), wrong = take8(in);
	struct wire_frame frame;
	uint32_t n;

	read_requests();
	if (!w.requests_count)
		return;
	n = make_reply(&w.requests[0], bytes);
	if (wrong >= 0xa0)
		n = spoil(in, bytes, n, wrong);
	memcpy(&frame, bytes, sizeof(frame));
	memset(bytes + offsetof(struct wire_frame, checksum), 0, sizeof(frame.checksum));
	frame.checksum = crc32(bytes, n) ^ (wrong >= 0x98 && wrong < 0xa0);
	w.wrong |= wrong >= 0x98;
	memcpy(bytes + offsetof(struct wire_frame, checksum), &frame.checksum, sizeof(frame.checksum));
	memmove(w.requests, w.requests + 1, --w.requests_count * sizeof(w.requests[0]));
	send_bytes(in, bytes, n, how & 1);
}

static void send_raw(struct input *in)
{
	const uint32_t n = min(take8(in), input_left(in));
	const uint8_t *bytes = in->at;

	in->at += n;
	w.wrong = true;
	send_bytes(in, bytes, n, false);
}

static void step(struct input *in)
{
	switch (take8(in) % 8) {
	case 0:
	case 1:
	case 2:
		ask(in);
		break;
	case 3:
	case 4:
	case 5:
		reply(in);
		break;
	case 6:
		send_raw(in);
		break;
	case 7: /* the node is gone */
		if (take8(in) >= 0xf0)
			shutdown(w.fd, SHUT_RDWR);
		if (w.ch->state == CHANNEL_OPEN)
			receive(w.ch, &w.keeper);
		break;
	}
	for (unsigned i = 0; i < w.calls_count; i++)
		check_call(&w.calls[i]);
}

static void begin(void)
{
	struct star_error err = { 0 };
	int pair[2];

	w.calls_count = w.requests_count = 0;
	w.bytes_count = 0;
	w.wrong = false;
	memset(w.calls, 0, sizeof(w.calls));
	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0, "no socket pair");
	w.fd = pair[1];
	w.cluster.transport = &transport_tcp;
	w.ch = route->channels[0] = channel_create(&w.cluster, 0, 0, 7, "127.0.0.1", 1, &w.keeper, &err);
	FUZZ_CHECK(w.ch, "no channel: %s", err.text);
	w.ch->fd = pair[0];
	w.ch->state = CHANNEL_OPEN;
	w.ch->keeper = &w.keeper;
	w.ch->session = 5;
}

static void end(void)
{
	channel_die(w.ch, -ECONNRESET, "is gone", &w.keeper);
	for (unsigned i = 0; i < w.calls_count; i++) {
		struct asked *a = &w.calls[i];

		FUZZ_CHECK(a->call->finished == CALL_FINISHED && a->call->remaining == 0, "a call has %u parts left",
			   a->call->remaining);
		call_free(a->call);
		for (unsigned j = 0; j < a->ops_count; j++) {
			free((void *)(uintptr_t)a->ops[j].keys);
			free(a->ops[j].values);
			free(a->ops[j].results);
			free(a->ops[j].versions);
		}
	}
	FUZZ_CHECK(w.ch->live == 0, "%u parts live on", w.ch->live);
	channel_destroy(w.ch);
	close(w.fd);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct star_error err = { 0 };

	pthread_mutex_init(&w.cluster.lock, NULL);
	FUZZ_CHECK(keeper_init(&w.keeper, &w.cluster, false, &err) == 0, "no keeper: %s", err.text);
	w.table = (struct star_table){ .cluster = &w.cluster,
				       .spec = { .id = 1, .kind = OBJECT_TABLE, .dtype = 1, .dim = DIM, .name = "t" },
				       .name_hash = hash_name("t"),
				       .elements = DIM,
				       .row_bytes = DIM * sizeof(float) };
	object_spec_defaults(&w.table.spec, OPTIM_SGD);
	w.table.spec.versions = w.table.spec.staleness = 1;
	route = calloc(1, sizeof(*route) + sizeof(route->channels[0]));
	FUZZ_CHECK(route, "no memory");
	route->epoch = 3;
	route->partitions = 16;
	route->reactors = 1;
	route->payload_max = WIRE_PAYLOAD_DEFAULT;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, data + bytes };

	begin();
	for (unsigned i = 0; i < STEPS_MAX && input_left(&in); i++)
		step(&in);
	end();
	return 0;
}
