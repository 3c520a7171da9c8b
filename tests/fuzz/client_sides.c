/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fuzz/client_sides.h"

#include <string.h>

#include "base/crc32.h"

enum { NOW = 3 }; /* the version of every row */

/* What the row of a key holds. */
static float value_of(uint64_t key, uint32_t i)
{
	return (float)(key * SIDES_DIM + i);
}

void sides_table(struct star_table *table, struct star_cluster *cluster)
{
	*table = (struct star_table){
		.cluster = cluster,
		.spec = { .id = 1, .kind = OBJECT_TABLE, .dtype = 1, .dim = SIDES_DIM, .name = "t" },
		.name_hash = hash_name("t"),
		.elements = SIDES_DIM,
		.row_bytes = SIDES_DIM * sizeof(float)
	};
	wire_object_spec_defaults(&table->spec, OPTIM_SGD);
	table->spec.versions = table->spec.staleness = 1;
}

/* ---- the caller ---- */

static enum star_op_kind kind_of(uint8_t how, unsigned i)
{
	if (!(how >> i & 8))
		return STAR_PULL;
	return how & 0x80 ? (i ? STAR_PUSH_PULL : STAR_DELETE) : STAR_PUSH;
}

static void fill(struct asked *a, unsigned i, uint32_t count, uint8_t how, bool views)
{
	struct star_op *op = &a->ops[i];

	if (op->kind == STAR_PULL && views && !(how & 0x40)) {
		op->view = &a->views[i];
		return;
	}
	if (op->kind != STAR_DELETE)
		op->values = calloc(count * SIDES_DIM, sizeof(float));
	if (op->kind == STAR_PUSH_PULL)
		op->results = calloc(count * SIDES_DIM, sizeof(float));
	if (op->kind == STAR_PULL && how & 0x40) {
		op->versions = calloc(count, sizeof(uint32_t));
		for (uint32_t k = 1; k < count; k += 2) /* these are known already */
			op->versions[k] = NOW;
	}
}

void asked_make(struct asked *a, struct input *in, struct star_table *table, const struct route *route, uint32_t scale,
		bool views)
{
	struct star_error err = { 0 };
	const uint8_t how = take8(in);

	*a = (struct asked){ .ops_count = 1 + how % SIDES_OPS_MAX };
	for (unsigned i = 0; i < a->ops_count; i++) {
		const uint32_t count = (1 + take8(in) % SIDES_KEYS_MAX) * scale;
		const uint8_t first = take8(in);
		uint64_t *keys = malloc(count * sizeof(*keys));

		for (uint32_t k = 0; k < count; k++)
			keys[k] = (uint8_t)(first + k % 16);
		a->ops[i] = (struct star_op){ .kind = kind_of(how, i), .table = table, .keys = keys, .count = count };
		fill(a, i, count, how, views);
	}
	a->call = client_call_create(table->cluster, a->ops, a->ops_count, STAR_DEADLINE_DEFAULT_US, &err);
	FUZZ_CHECK(a->call && client_split_call(a->call, route, &err) == 0, "no call: %s", err.text);
}

static void check_view(const struct star_op *op)
{
	float row[SIDES_DIM];

	for (uint32_t k = 0; k < op->count; k++) {
		FUZZ_CHECK(star_view_copy(*op->view, k * sizeof(row), sizeof(row), row) == 0, "no row %u", k);
		for (uint32_t i = 0; i < SIDES_DIM; i++)
			FUZZ_CHECK(row[i] == value_of(op->keys[k], i), "element %u of row %u of a view", i, k);
	}
}

void asked_check(const struct asked *a)
{
	for (unsigned i = 0; i < a->ops_count; i++) {
		const struct star_op *op = &a->ops[i];
		const float *rows = op->kind == STAR_PUSH_PULL ? op->results : op->values;
		const bool pulls = op->kind == STAR_PULL || op->kind == STAR_PUSH_PULL;

		if (op->view) {
			check_view(op);
			continue;
		}
		for (uint32_t k = 0; pulls && k < op->count * SIDES_DIM; k++) {
			const bool known = op->versions && k / SIDES_DIM % 2;

			FUZZ_CHECK(rows[k] == (known ? 0 : value_of(op->keys[k / SIDES_DIM], k % SIDES_DIM)),
				   "element %u of operation %u", k, i);
			FUZZ_CHECK(!op->versions || op->versions[k / SIDES_DIM] == NOW, "version %u of operation %u",
				   k / SIDES_DIM, i);
		}
	}
}

void asked_free(struct asked *a)
{
	client_call_free(a->call);
	for (unsigned i = 0; i < a->ops_count; i++) {
		free((void *)(uintptr_t)a->ops[i].keys);
		free(a->ops[i].values);
		free(a->ops[i].results);
		free(a->ops[i].versions);
		star_view_release(a->views[i]);
	}
	a->call = NULL;
}

/* ---- the node ---- */

static void read_op(struct request *r, const uint8_t *op)
{
	const unsigned i = r->ops_count++;
	const struct wire_op *o = &r->ops[i];

	for (uint32_t k = 0; k < o->count; k++)
		r->keys[i][k] = op[sizeof(*o) + k * sizeof(uint64_t)]; /* little-endian, below 256 */
	if (o->flags & WIRE_VERSIONS)
		memcpy(r->given[i], op + sizeof(*o) + o->count * sizeof(uint64_t), o->count * sizeof(uint32_t));
}

bool request_is_sound(const uint8_t *at, size_t bytes)
{
	struct wire_frame frame;
	const char *why;

	if (bytes < sizeof(frame))
		return false;
	memcpy(&frame, at, sizeof(frame));
	return wire_frame_check(&frame, &why) == WIRE_OK && bytes - sizeof(frame) >= frame.payload_bytes &&
	       wire_checksum(&frame, at + sizeof(frame), frame.payload_bytes) == frame.checksum;
}

size_t request_read(struct request *r, const uint8_t *at, size_t bytes)
{
	const char *why = "";
	size_t left;

	if (bytes < sizeof(r->frame))
		return 0;
	r->ops_count = 0;
	memcpy(&r->frame, at, sizeof(r->frame));
	FUZZ_CHECK(wire_frame_check(&r->frame, &why) == WIRE_OK, "a request: %s", why);
	left = r->frame.payload_bytes;
	if (bytes < sizeof(r->frame) + left)
		return 0;
	FUZZ_CHECK(wire_checksum(&r->frame, at + sizeof(r->frame), left) == r->frame.checksum, "a request's checksum");
	for (const uint8_t *op = at + sizeof(r->frame); left;) {
		struct wire_op *o = &r->ops[r->ops_count];

		FUZZ_CHECK(r->ops_count < SIDES_OPS_MAX && left >= sizeof(*o), "%zu bytes behind the last operation",
			   left);
		memcpy(o, op, sizeof(*o));
		FUZZ_CHECK(o->count <= SIDES_KEYS, "%u keys", o->count);
		FUZZ_CHECK(o->body_bytes == wire_op_bytes(o), "a body of %u bytes", o->body_bytes);
		FUZZ_CHECK(sizeof(*o) + wire_padded(o->body_bytes) <= left, "a body of %u bytes", o->body_bytes);
		read_op(r, op);
		op += sizeof(*o) + wire_padded(o->body_bytes);
		left -= sizeof(*o) + wire_padded(o->body_bytes);
	}
	return sizeof(r->frame) + r->frame.payload_bytes;
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
		memcpy(at, &(float){ value_of(r->keys[i][k / op->dim], k % op->dim) }, sizeof(float));
		at += sizeof(float);
	}
	result.body_bytes = (uint32_t)(at - to) - (uint32_t)sizeof(result);
	memcpy(to, &result, sizeof(result));
	return (uint32_t)(at - to);
}

static struct wire_frame reply_frame(const struct request *r)
{
	return (struct wire_frame){ .magic = WIRE_MAGIC,
				    .version = WIRE_VERSION,
				    .opcode = WIRE_REPLY,
				    .session = r->frame.session,
				    .sequence = r->frame.sequence,
				    .epoch = r->frame.epoch,
				    .incarnation = r->frame.incarnation };
}

uint32_t request_reply(const struct request *r, uint8_t *reply)
{
	struct wire_frame frame = reply_frame(r);
	uint8_t *at = reply + sizeof(frame);

	for (unsigned i = 0; i < r->ops_count; i++)
		at += make_result(r, i, at);
	frame.payload_bytes = (uint32_t)(at - reply) - (uint32_t)sizeof(frame);
	memcpy(reply, &frame, sizeof(frame));
	return sizeof(frame) + frame.payload_bytes;
}

uint32_t request_refuse(const struct request *r, enum wire_status status, uint8_t *reply)
{
	struct wire_frame frame = reply_frame(r);

	frame.status = (uint8_t)status;
	memcpy(reply, &frame, sizeof(frame));
	return sizeof(frame);
}

uint32_t reply_spoil(struct input *in, uint8_t *reply, uint32_t bytes, uint8_t how)
{
	struct wire_frame frame;

	if (how & 1)
		reply[take16(in) % bytes] ^= (uint8_t)(1 + take8(in) % 255);
	if (how & 2) {
		const uint32_t payload = bytes - (uint32_t)sizeof(frame), n = take16(in);

		bytes = (n < payload ? n : payload) + (uint32_t)sizeof(frame);
	}
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

void reply_sum(uint8_t *reply, uint32_t bytes, bool wrong)
{
	const size_t at = offsetof(struct wire_frame, checksum);
	uint32_t checksum;

	memset(reply + at, 0, sizeof(checksum));
	checksum = base_crc32(reply, bytes) ^ wrong;
	memcpy(reply + at, &checksum, sizeof(checksum));
}
