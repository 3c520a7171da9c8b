/* SPDX-License-Identifier: BSD-3-Clause */
/* The reactors of the double: one connection, one request after the other, checked, executed, then answered or not. */
#include "tests/client/peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/crc32.h"
#include "tensor/convert.h"
#include "wire/layout.h"
#include "secure/ticket.h"
#include "base/clock.h"

struct reply {
	char bytes[sizeof(struct wire_frame) + PEER_PAYLOAD_MAX + 4096];
	size_t used;
};

uint32_t peer_owner(const struct peer *p, const struct object_spec *spec, uint64_t key)
{
	return layout_owner(p->partitions, p->active_nodes * p->reactors_per_node,
			    layout_partition(hash_key(hash_name(spec->name), object_partition_key(spec, key)),
					     p->partitions));
}

static bool read_all(int fd, void *to, size_t bytes)
{
	for (size_t got = 0; got < bytes;) {
		ssize_t n = recv(fd, (char *)to + got, bytes - got, 0);

		if (n <= 0)
			return false;
		got += (size_t)n;
	}
	return true;
}

static bool write_all(int fd, const void *from, size_t bytes)
{
	for (size_t sent = 0; sent < bytes;) {
		ssize_t n = send(fd, (const char *)from + sent, bytes - sent, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		sent += (size_t)n;
	}
	return true;
}

struct peer_row *peer_row(struct peer_reactor *r, const struct object_spec *spec, uint64_t key)
{
	uint32_t at = (uint32_t)(hash_key(spec->id, key) % r->rows_size);

	while (r->rows[at].used && (r->rows[at].object != spec->id || r->rows[at].key != key))
		at = (at + 1) % r->rows_size;
	if (!r->rows[at].used || r->rows[at].deleted) {
		free(r->rows[at].values);
		r->rows[at] = (struct peer_row){ .used = true, .object = spec->id, .key = key };
		r->rows[at].values = malloc(spec->dim * sizeof(float));
		for (uint32_t e = 0; e < spec->dim; e++)
			r->rows[at].values[e] = peer_initial(spec->id, key, e);
	}
	return &r->rows[at];
}

/* Sums the gradients of duplicates first, as the store does: `applied` counts keys, not gradients. */
static void push(struct peer_reactor *r, const struct object_spec *spec, const struct wire_op *op, const char *body)
{
	const char *gradients = body + op->count * sizeof(uint64_t);
	const size_t row_bytes = dtype_row_bytes(op->dtype, spec->dim);
	struct peer_row **seen = calloc(op->count, sizeof(*seen));
	uint32_t *before = calloc(op->count, sizeof(*before));
	static float floats[WIRE_DIM_MAX], scratch[WIRE_DIM_MAX];
	static double aligned[WIRE_DIM_MAX];

	for (uint32_t i = 0; i < op->count; i++) {
		struct peer_row *row;
		uint64_t key;

		memcpy(&key, body + i * sizeof(key), sizeof(key));
		row = peer_row(r, spec, key);
		seen[i] = row;
		before[i] = row->applied;
		memcpy(aligned, gradients + i * row_bytes, row_bytes);
		tensor_convert_row(floats, STAR_FLOAT32, aligned, op->dtype, spec->dim, scratch);
		for (uint32_t e = 0; e < spec->dim; e++)
			row->values[e] -= floats[e] * (op->flags & WIRE_SCALE ? op->scale : 1);
	}
	for (uint32_t i = 0; i < op->count; i++)
		seen[i]->applied = before[i] + 1;
	r->pushes[spec->id]++;
	free(before);
	free(seen);
}

static void assign(struct peer_reactor *r, const struct object_spec *spec, const struct wire_op *op, const char *body)
{
	const size_t row_bytes = dtype_row_bytes(op->dtype, spec->dim);
	static float scratch[WIRE_DIM_MAX];
	static double aligned[WIRE_DIM_MAX];

	for (uint32_t i = 0; i < op->count; i++) {
		uint64_t key;

		memcpy(&key, body + i * sizeof(key), sizeof(key));
		memcpy(aligned, body + op->count * sizeof(key) + i * row_bytes, row_bytes);
		tensor_convert_row(peer_row(r, spec, key)->values, STAR_FLOAT32, aligned, op->dtype, spec->dim,
				   scratch);
	}
	r->pushes[spec->id]++;
}

static void put(struct reply *reply, const void *from, size_t bytes)
{
	memcpy(reply->bytes + reply->used, from, bytes);
	reply->used += bytes;
}

static uint32_t erase(struct peer_reactor *r, const struct object_spec *spec, const struct wire_op *op,
		      const char *body)
{
	uint32_t deleted = 0;

	for (uint32_t i = 0; i < op->count; i++) {
		struct peer_row *row;
		uint64_t key;

		memcpy(&key, body + i * sizeof(key), sizeof(key));
		row = peer_row(r, spec, key);
		deleted += !row->deleted;
		row->deleted = true;
	}
	return deleted;
}

/* For a row to which nothing was pushed, a look-up says that there is none. */
static uint32_t version_of(const struct peer_row *row, const struct wire_op *op)
{
	return op->flags & WIRE_READ_ONLY && !row->applied ? 0 : row->applied + 1;
}

/* The rows, or with versions only those that are not as given. */
static void pull(struct peer_reactor *r, const struct object_spec *spec, const struct wire_op *op, const char *body,
		 struct reply *reply)
{
	const bool conditional = op->flags & WIRE_VERSIONS;
	const char *given = body + op->count * sizeof(uint64_t);
	static const char zeros[8];
	static float scratch[WIRE_DIM_MAX];
	static double to[WIRE_DIM_MAX];
	uint64_t key;

	for (uint32_t i = 0; i < op->count && conditional; i++) {
		uint32_t version;

		memcpy(&key, body + i * sizeof(key), sizeof(key));
		version = version_of(peer_row(r, spec, key), op);
		put(reply, &version, sizeof(version));
	}
	if (conditional)
		put(reply, zeros, wire_versions_bytes(op->count) - op->count * sizeof(uint32_t));
	for (uint32_t i = 0; i < op->count; i++) {
		const struct peer_row *row;
		uint32_t version = 0;

		memcpy(&key, body + i * sizeof(key), sizeof(key));
		row = peer_row(r, spec, key);
		if (conditional)
			memcpy(&version, given + i * sizeof(version), sizeof(version));
		if (version && version == version_of(row, op))
			continue;
		tensor_convert_row(to, op->result_dtype, row->values, STAR_FLOAT32, spec->dim, scratch);
		put(reply, to, dtype_row_bytes(op->result_dtype, spec->dim));
	}
}

/* Checks one operation; returns the object, or NULL after *status was set. Never trusts: this is a test of a client. */
static const struct object_spec *check_op(struct peer_reactor *r, const struct wire_op *op, size_t left,
					  const char *body, enum wire_status *status)
{
	struct peer *p = r->peer;
	const struct object_spec *spec;
	const bool pushes = wire_op_brings_rows(op);
	const bool pulls = op->kind == WIRE_PULL || op->kind == WIRE_PUSH_PULL;

	if (op->object < 1 || op->object > p->objects_count) {
		*status = WIRE_UNKNOWN_OBJECT;
		return NULL;
	}
	spec = &p->objects[op->object - 1];
	if (op->count < 1 || op->count > WIRE_KEYS_MAX || op->dim != spec->dim || op->kind < WIRE_PULL ||
	    op->kind > WIRE_ASSIGN || (pushes ? !dtype_is_real(op->dtype) : op->dtype) || op->reserved ||
	    (pulls ? !dtype_is_real(op->result_dtype) : op->result_dtype) || (!pushes && op->version) ||
	    op->body_bytes != wire_op_bytes(op) || wire_padded(op->body_bytes) > left) {
		*status = WIRE_BAD_REQUEST;
		return NULL;
	}
	for (uint32_t i = op->body_bytes; i < wire_padded(op->body_bytes); i++)
		if (body[i])
			*status = WIRE_BAD_REQUEST;
	for (uint32_t i = 0; i < op->count; i++) {
		uint64_t key;

		memcpy(&key, body + i * sizeof(key), sizeof(key));
		if (peer_owner(p, spec, key) != r->index)
			*status = WIRE_WRONG_SHARD;
	}
	return *status == WIRE_OK ? spec : NULL;
}

/* Executes an operation, and puts its result. */
static void run(struct peer_reactor *r, const struct object_spec *spec, const struct wire_op *op, const char *body,
		struct reply *reply)
{
	struct wire_result result = { .object = op->object, .count = op->count, .dim = op->dim };
	const size_t at = reply->used;
	static const char zeros[8];

	put(reply, &result, sizeof(result));
	if (op->kind == WIRE_PUSH || op->kind == WIRE_PUSH_PULL)
		push(r, spec, op, body);
	if (op->kind == WIRE_ASSIGN)
		assign(r, spec, op, body);
	if (op->kind == WIRE_PULL || op->kind == WIRE_PUSH_PULL)
		pull(r, spec, op, body, reply);
	if (op->kind == WIRE_DELETE)
		result.count = erase(r, spec, op, body);
	result.version = r->pushes[spec->id];
	result.body_bytes = (uint32_t)(reply->used - at - sizeof(result));
	memcpy(reply->bytes + at, &result, sizeof(result));
	put(reply, zeros, wire_padded(result.body_bytes) - result.body_bytes);
}

static bool run_program(struct peer_reactor *r, const struct wire_op *op, const char *body, uint32_t left,
			struct reply *reply)
{
	struct wire_result result = { .object = op->object, .count = op->count, .dim = op->dim };
	const int64_t bytes = peer_run(r, op, body, left, reply->bytes + reply->used + sizeof(result));

	result.body_bytes = (uint32_t)bytes;
	memcpy(reply->bytes + reply->used, &result, sizeof(result));
	reply->used += sizeof(result) + wire_padded(result.body_bytes);
	return bytes >= 0;
}

/* With the peer's lock. */
static enum wire_status execute(struct peer_reactor *r, const struct wire_frame *frame, const char *payload,
				struct reply *reply)
{
	enum wire_status status = WIRE_OK;
	uint32_t keys = 0, ops = 0;
	bool pushes = false, apart = false;

	if (r->peer->repeats && frame->flags & WIRE_RESENT) {
		if (r->peer->moves)
			r->peer->published_epoch = ++r->peer->epoch;
		r->peer->moves = false;
		return WIRE_REPEATED;
	}
	if (frame->epoch != r->peer->epoch && !(frame->flags & WIRE_KEPT)) /* as a node does */
		return WIRE_STALE_LAYOUT;
	if (frame->incarnation != r->peer->incarnation[r->node])
		return WIRE_STALE_INCARNATION;
	reply->used = sizeof(struct wire_frame);
	for (size_t at = 0; at < frame->payload_bytes;) {
		const struct object_spec *spec;
		struct wire_op op;

		if (frame->payload_bytes - at < sizeof(op))
			return WIRE_BAD_REQUEST;
		memcpy(&op, payload + at, sizeof(op));
		at += sizeof(op);
		r->peer->last_op = op;
		if (op.kind == WIRE_RUN) {
			status = peer_run_keeps(r, &op);
			if (status != WIRE_OK)
				return status;
			if (!run_program(r, &op, payload + at, frame->payload_bytes - (uint32_t)at, reply))
				return WIRE_BAD_REQUEST;
			at += wire_padded(op.body_bytes);
			keys += op.count;
			ops++;
			continue;
		}
		spec = check_op(r, &op, frame->payload_bytes - at, payload + at, &status);
		if (!spec)
			return status;
		run(r, spec, &op, payload + at, reply);
		at += wire_padded(op.body_bytes);
		keys += op.count;
		ops++;
		pushes |= wire_op_brings_rows(&op);
		apart |= op.kind == WIRE_DELETE || op.flags & WIRE_VERSIONS;
	}
	r->peer->keys += keys;
	if (keys > WIRE_KEYS_MAX || ops > WIRE_OPS_MAX || ops < 1 ||
	    reply->used - sizeof(*frame) > r->peer->request_max[r->node])
		return WIRE_OVER_LIMIT;
	if (r->peer->moves_soon)
		r->peer->published_epoch = ++r->peer->epoch;
	r->peer->moves_soon = false;
	return pushes && apart ? WIRE_BAD_REQUEST : WIRE_OK;
}

/* Of a connection by ticket. */
struct peer_seal {
	struct secure_direction in, out;
	bool on;
};

static void seal_record(struct secure_direction *d, struct reply *reply, struct wire_frame *frame)
{
	memset(frame->auth_tag, 0, sizeof(frame->auth_tag));
	secure_seal_begin(d, frame, sizeof(*frame));
	secure_seal_update(d, reply->bytes + sizeof(*frame), reply->used - sizeof(*frame));
	secure_seal_end(d, frame->auth_tag);
	memcpy(reply->bytes, frame, sizeof(*frame));
}

static bool open_record(struct secure_direction *d, const struct wire_frame *frame, char *payload)
{
	struct wire_frame header = *frame;

	memset(header.auth_tag, 0, sizeof(header.auth_tag));
	secure_open_begin(d, &header, sizeof(header));
	secure_open_update(d, payload, frame->payload_bytes);
	return secure_open_end(d, frame->auth_tag);
}

/* Where it was made to: the reactor's, or the door's. */
static uint16_t port_of(int fd)
{
	struct sockaddr_in a = { 0 };
	socklen_t bytes = sizeof(a);

	getsockname(fd, (struct sockaddr *)&a, &bytes);
	return ntohs(a.sin_port);
}

/* Answers the hello; false: it is not taken, and the connection ends. */
static bool greet(struct peer_connection *c)
{
	const struct peer_reactor *r = c->reactor;
	struct peer *p = r->peer;
	const uint32_t port = port_of(c->fd);
	const struct secure_place place = { p->incarnation[r->node], port };
	struct {
		struct wire_frame frame;
		struct secure_hello hello;
	} in;
	struct {
		struct wire_frame frame;
		struct secure_welcome welcome;
	} out = { 0 };
	uint8_t secret[SECURE_HASH_BYTES], tag[SECURE_TAG_BYTES], right[SECURE_TAG_BYTES];
	struct secure_guest guest;
	bool good, over_quota;

	if (!read_all(c->fd, &in, sizeof(in)))
		return false;
	if (in.frame.opcode != WIRE_HELLO || in.frame.payload_bytes != sizeof(in.hello))
		peer_violation(p, "a connection begins without a hello");
	memcpy(tag, in.frame.auth_tag, sizeof(tag));
	memset(in.frame.auth_tag, 0, sizeof(in.frame.auth_tag));
	out.frame = in.frame;
	out.frame.opcode = WIRE_REPLY;
	pthread_mutex_lock(&p->lock);
	over_quota = p->over_quota && p->over_quota--;
	good = !over_quota && secure_tickets_open(p->tickets, &in.hello.ticket, clock_ns(), &guest, secret);
	secure_welcome_make(p->tickets, port, (uint64_t)(uintptr_t)c, &out.welcome);
	pthread_mutex_unlock(&p->lock);
	if (good) {
		secure_hello_tag(secret, place, &in.frame, sizeof(in.frame), &in.hello, right);
		if (!secure_same(tag, right, sizeof(tag)))
			peer_violation(p, "a hello's tag is wrong");
		out.frame.payload_bytes = sizeof(out.welcome);
		secure_welcome_tag(secret, &in.hello, &out.frame, sizeof(out.frame), &out.welcome, out.frame.auth_tag);
		secure_connection_keys(secret, place, &in.hello, &out.welcome,
				       secure_data_cipher((enum secure_data)peer_data), &c->seal->in, &c->seal->out);
		c->seal->on = true;
		return write_all(c->fd, (char *)&out, sizeof(out));
	}
	out.frame.status = over_quota ? WIRE_QUOTA_CONNECTIONS : WIRE_NO_TICKET;
	out.frame.payload_bytes = 0;
	write_all(c->fd, (char *)&out, sizeof(out.frame));
	return false;
}

static void seal(struct peer_connection *c, struct reply *reply, const struct wire_frame *request,
		 enum wire_status status)
{
	struct wire_frame frame = *request;

	frame.opcode = WIRE_REPLY;
	frame.status = (uint8_t)status;
	frame.payload_bytes = (uint32_t)(reply->used - sizeof(frame));
	frame.checksum = 0;
	if (c->reactor->peer->retains)
		peer_retained_say(c->reactor, &frame);
	if (c->seal) {
		seal_record(&c->seal->out, reply, &frame);
		return;
	}
	memcpy(reply->bytes, &frame, sizeof(frame));
	frame.checksum = base_crc32(reply->bytes, reply->used);
	memcpy(reply->bytes, &frame, sizeof(frame));
}

/* Somebody on the way changes a bit of it. */
static void tamper(struct peer *p, struct reply *reply)
{
	pthread_mutex_lock(&p->lock);
	if (p->tampered) {
		const size_t bit = (size_t)p->tampered * 2654435761u % (8 * reply->used);

		reply->bytes[bit / 8] ^= (char)(1 << bit % 8);
		p->tampered--;
	}
	pthread_mutex_unlock(&p->lock);
}

static void sentence(struct reply *reply, const char *text)
{
	reply->used = sizeof(struct wire_frame);
	put(reply, text, strlen(text));
}

/* A well-formed frame that lies. */
static void falsify(struct reply *reply, enum peer_fault fault)
{
	struct wire_result *result = (struct wire_result *)(reply->bytes + sizeof(struct wire_frame));
	struct wire_frame frame;

	memcpy(&frame, reply->bytes, sizeof(frame));
	if (fault == FAULT_SEQUENCE)
		frame.sequence += 1;
	else if (fault == FAULT_SESSION)
		frame.session ^= 1;
	else if (fault == FAULT_MAGIC)
		frame.magic ^= 1;
	else if (fault == FAULT_OPCODE)
		frame.opcode = WIRE_EXECUTE;
	else if (fault == FAULT_SHORT_PAYLOAD)
		reply->used -= 8;
	else if (fault == FAULT_WRONG_COUNT)
		result->count++;
	else if (fault == FAULT_WRONG_OBJECT)
		result->object++;
	else if (fault == FAULT_WRONG_BODY)
		result->body_bytes += 8;
	frame.payload_bytes = (uint32_t)(reply->used - sizeof(frame));
	if (fault == FAULT_HUGE_LENGTH)
		frame.payload_bytes = UINT32_MAX;
	frame.checksum = 0;
	memcpy(reply->bytes, &frame, sizeof(frame));
	frame.checksum = base_crc32(reply->bytes, reply->used) ^ (fault == FAULT_CHECKSUM);
	memcpy(reply->bytes, &frame, sizeof(frame));
}

static void hold(struct peer *p)
{
	pthread_mutex_lock(&p->lock);
	p->held++;
	pthread_cond_broadcast(&p->changed);
	while (!p->gate)
		pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

static bool dribble(int fd, const struct reply *reply)
{
	for (size_t at = 0; at < reply->used; at += 7)
		if (!write_all(fd, reply->bytes + at, reply->used - at < 7 ? reply->used - at : 7))
			return false;
	return true;
}

static bool close_with_reset(int fd)
{
	const struct linger at_once = { .l_onoff = 1 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	return false; /* shutdown alone would send a FIN: the caller closes */
}

/* Answers, or misbehaves; false: the connection ends. */
static bool answer(struct peer *p, int fd, struct reply *reply, enum peer_fault fault)
{
	const size_t half = reply->used / 2;

	switch (fault) {
	case FAULT_NONE:
	case FAULT_STATUS:
	case FAULT_LONG_SENTENCE:
		break;
	case FAULT_NO_ANSWER:
		return true;
	case FAULT_CLOSE:
		return false;
	case FAULT_CLOSE_IN_REPLY:
		write_all(fd, reply->bytes, half);
		return false;
	case FAULT_RESET:
		return close_with_reset(fd);
	case FAULT_CLOSE_AFTER:
		write_all(fd, reply->bytes, reply->used);
		return false;
	case FAULT_HOLD:
		hold(p);
		break;
	case FAULT_HOLD_IN_REPLY:
		write_all(fd, reply->bytes, half);
		hold(p);
		return write_all(fd, reply->bytes + half, reply->used - half);
	case FAULT_DRIBBLE:
		return dribble(fd, reply);
	case FAULT_TWICE:
		write_all(fd, reply->bytes, reply->used);
		break;
	case FAULT_GARBAGE:
		memset(reply->bytes, 0xa5, reply->used);
		break;
	default:
		falsify(reply, fault);
		break;
	}
	return write_all(fd, reply->bytes, reply->used);
}

static enum peer_fault choose(struct peer *p, const struct peer_reactor *r)
{
	if (p->fault_reactor >= 0 && (uint32_t)p->fault_reactor != r->index)
		return FAULT_NONE;
	if (p->fault_skip) {
		p->fault_skip--;
		return FAULT_NONE;
	}
	if (!p->fault_count)
		return FAULT_NONE;
	p->fault_count--;
	return p->fault;
}

static bool serve_one(struct peer_connection *c, struct wire_frame *frame, char *payload, struct reply *reply)
{
	struct peer *p = c->reactor->peer;
	enum wire_status status;
	enum peer_fault fault;

	pthread_mutex_lock(&p->lock);
	if (c->life != p->life) { /* it was another node's */
		pthread_mutex_unlock(&p->lock);
		return false;
	}
	fault = choose(p, c->reactor);
	p->requests++;
	if (frame->payload_bytes > p->largest_request)
		p->largest_request = frame->payload_bytes;
	/* Refusals change nothing; everything else is executed, answered or not, as a node does. */
	c->refuses &= (frame->flags & WIRE_BEHIND) != 0;
	if (c->refuses)
		status = WIRE_BUSY;
	else if (fault == FAULT_STATUS)
		status = (enum wire_status)p->status;
	else
		status = p->retains ? peer_retained_look(c->reactor, frame) : WIRE_OK;
	if (frame->opcode == WIRE_PING)
		reply->used = sizeof(*frame);
	else if (status == WIRE_OK && fault != FAULT_STATUS)
		status = execute(c->reactor, frame, payload, reply);
	if (p->retains && status == WIRE_OK)
		peer_retained_done(c->reactor, frame, payload);
	if (status != WIRE_OK)
		sentence(reply, fault == FAULT_STATUS ? p->sentence : wire_status_text(status));
	c->refuses |= status == WIRE_BUSY;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	if (status == WIRE_BAD_REQUEST || status == WIRE_WRONG_SHARD || status == WIRE_OVER_LIMIT)
		if (fault != FAULT_STATUS)
			peer_violation(p, "a request got: %s", wire_status_text(status));
	if (fault == FAULT_LONG_SENTENCE) {
		reply->used = sizeof(*frame) + 4000;
		memset(reply->bytes + sizeof(*frame), 'x', 4000);
		status = WIRE_NO_MEMORY;
	}
	seal(c, reply, frame, status);
	tamper(p, reply);
	return answer(p, c->fd, reply, fault);
}

static bool check_frame(struct peer *p, const struct wire_frame *frame, const char *payload, uint64_t session,
			uint64_t sequence)
{
	struct wire_frame copy = *frame;

	/* session 0: it is the connection's first. */
	const bool kept = p->retains && (frame->flags & WIRE_KEPT || frame->sequence > sequence);
	const bool pings = frame->opcode == WIRE_PING && p->retains;

	if ((frame->sequence != sequence && !kept) || (session && frame->session != session) ||
	    (!session && sequence > 1 && !(frame->flags & WIRE_GOES_ON)) ||
	    frame->flags & ~(WIRE_GOES_ON | WIRE_RESENT | WIRE_BEHIND | (p->retains ? WIRE_KEEPS | WIRE_KEPT : 0)) ||
	    frame->status || frame->behind || (!pings && frame->opcode != WIRE_EXECUTE) ||
	    !frame->deadline_us != (pings || frame->flags & WIRE_KEPT)) {
		peer_violation(p, "a header is wrong: sequence %llu, not %llu", (unsigned long long)frame->sequence,
			       (unsigned long long)sequence);
		return false;
	}
	if (p->tickets ? frame->checksum : wire_checksum(&copy, payload, frame->payload_bytes) != frame->checksum) {
		peer_violation(p, "a request's checksum does not match");
		return false;
	}
	return true;
}

/* A test may change it meanwhile. */
static uint32_t request_max(struct peer_reactor *r)
{
	uint32_t bytes;

	pthread_mutex_lock(&r->peer->lock);
	bytes = r->peer->request_max[r->node];
	pthread_mutex_unlock(&r->peer->lock);
	return bytes;
}

void *peer_serve_main(void *arg)
{
	struct peer_connection *c = arg;
	struct peer *p = c->reactor->peer;
	struct reply *reply = malloc(sizeof(*reply));
	char *payload = malloc(PEER_PAYLOAD_MAX);
	uint64_t session = 0, sequence = 0;
	struct wire_frame frame;
	struct linger linger;
	socklen_t bytes = sizeof(linger);

	c->seal = p->tickets ? aligned_alloc(64, sizeof(*c->seal)) : NULL;
	if (c->seal)
		c->seal->on = false;
	while ((!c->seal || c->seal->on || greet(c)) && read_all(c->fd, &frame, sizeof(frame))) {
		if (wire_frame_check(&frame, NULL) != WIRE_OK || frame.payload_bytes > request_max(c->reactor)) {
			peer_violation(p, "a request's frame is malformed");
			break;
		}
		if (!read_all(c->fd, payload, frame.payload_bytes))
			break;
		if (c->seal && !open_record(&c->seal->in, &frame, payload)) {
			peer_violation(p, "a request's tag is wrong");
			break;
		}
		if (!session && frame.flags & WIRE_GOES_ON)
			sequence = frame.sequence - 1;
		if (!check_frame(p, &frame, payload, session, ++sequence))
			break;
		sequence = frame.sequence;
		session = frame.session;
		if (!serve_one(c, &frame, payload, reply))
			break;
	}
	getsockopt(c->fd, SOL_SOCKET, SO_LINGER, &linger, &bytes);
	if (linger.l_onoff) {
		/* The number stays ours until peer_stop closes it: dup2 closes the connection behind it. */
		int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		dup2(other, c->fd);
		close(other);
	} else {
		shutdown(c->fd, SHUT_RDWR);
	}
	free(c->seal);
	free(payload);
	free(reply);
	return NULL;
}
