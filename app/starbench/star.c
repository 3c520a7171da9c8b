/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * StarServer's frames: a pull of one row. The table is created (or found) over the control address, which also returns
 * the layout: where each reactor listens, and which keys it owns.
 */
#include "app/starbench/starbench.h"

#include "base/crc32.h"
#include "base/hash.h"
#include "jsonrpc/jsonrpc.h"
#include "jsonrpc/object_json.h"
#include "tensor/dtype.h"
#include "wire/frame.h"
#include "wire/owner.h"
#include "wire/object.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PULL_DEADLINE_US = 1000000, CONTROL_DEADLINE_US = BENCH_TIMEOUT_S * 1000000 };

struct pull_request {
	struct wire_frame frame;
	struct wire_op op;
	uint64_t key;
};
_Static_assert(sizeof(struct pull_request) == 120, "pull_request");

struct pull_reply {
	struct wire_frame frame;
	struct wire_result result;
	uint8_t row[];
};
_Static_assert(sizeof(struct pull_reply) == 88, "pull_reply");

struct star {
	struct object_spec spec;
	struct layout *layout;
};

uint32_t star_request_bytes(void)
{
	return sizeof(struct pull_request);
}

uint32_t star_reply_bytes(uint32_t dim)
{
	return sizeof(struct pull_reply) + wire_padded(dim * (uint32_t)sizeof(float));
}

/* Creates the table and gets the layout. */
static int ask_control(struct bench *b, struct star *star, struct star_error *err)
{
	struct jsonrpc_client *client;
	json_t *answer;
	int outcome = 0;

	client = jsonrpc_connect_by(getenv("STAR_KEY"), b->options->control, CONTROL_DEADLINE_US, err);
	if (!client)
		return err->code;
	answer = jsonrpc_call(client, "create", jsonrpc_object_encode(&star->spec), CONTROL_DEADLINE_US, err);
	outcome = answer ? jsonrpc_object_decode(answer, &star->spec, err) : err->code;
	json_decref(answer);
	if (outcome)
		goto close;
	answer = jsonrpc_call(client, "layout", NULL, CONTROL_DEADLINE_US, err);
	star->layout = answer ? jsonrpc_layout_decode(answer, err) : NULL;
	if (!star->layout)
		outcome = err->code;
	json_decref(answer);
close:
	jsonrpc_close(client);
	return outcome;
}

/* One target for each reactor. */
static int make_targets(struct bench *b, const struct layout *layout, struct star_error *err)
{
	struct target *target;

	b->targets = calloc(layout->reactors, sizeof(*b->targets));
	if (!b->targets)
		return star_error_set(err, -ENOMEM, "out of memory for %u targets", layout->reactors);
	target = b->targets;
	for (uint32_t n = 0; n < layout->nodes_count; n++) {
		const struct layout_node *node = &layout->nodes[n];

		for (uint32_t r = 0; r < node->reactors; r++, target++) {
			char address[sizeof(node->data_host) + 8];
			int outcome;

			snprintf(address, sizeof(address), "%s:%u", node->data_host, node->data_port + r);
			outcome = bench_parse_address(address, &target->address, err);
			if (outcome)
				return outcome;
			target->incarnation = node->incarnation;
			b->targets_count++;
		}
	}
	return 0;
}

static struct target *key_target(const struct bench *b, const struct star *star, uint32_t key)
{
	return &b->targets[wire_key_owner(star->layout->partitions, star->layout->reactors, &star->spec,
					  hash_name(star->spec.name), b->keys[key])];
}

/* Gives each target the keys of its partitions. */
static int share_keys(struct bench *b, const struct star *star, struct star_error *err)
{
	for (uint32_t key = 0; key < b->options->keys; key++)
		key_target(b, star, key)->keys_count++;
	for (uint32_t t = 0; t < b->targets_count; t++) {
		struct target *target = &b->targets[t];

		if (!target->keys_count)
			return star_error_set(err, -EINVAL, "reactor %u of %u owns none of the %u keys: raise --keys",
					      t, b->targets_count, b->options->keys);
		target->keys = calloc(target->keys_count, sizeof(*target->keys));
		if (!target->keys)
			return star_error_set(err, -ENOMEM, "out of memory for %u keys", target->keys_count);
		target->keys_count = 0;
	}
	for (uint32_t key = 0; key < b->options->keys; key++) {
		struct target *target = key_target(b, star, key);

		target->keys[target->keys_count++] = key;
	}
	return 0;
}

static int star_bench_open(struct bench *b, struct star_error *err)
{
	struct star *star = calloc(1, sizeof(*star));
	int outcome;

	if (!star)
		return star_error_set(err, -ENOMEM, "out of memory");
	b->state = star;
	star->spec = (struct object_spec){ .kind = OBJECT_TABLE, .dtype = STAR_FLOAT32, .dim = b->options->dim };
	wire_object_spec_defaults(&star->spec, OPTIM_SGD);
	star->spec.initializer = OBJECT_UNIFORM;
	star->spec.scale = 0.5f;
	star->spec.seed = 1;
	snprintf(star->spec.name, sizeof(star->spec.name), "starbench-%u", b->options->dim);
	outcome = wire_object_spec_check(&star->spec, err);
	if (!outcome)
		outcome = ask_control(b, star, err);
	if (!outcome)
		outcome = make_targets(b, star->layout, err);
	if (!outcome)
		outcome = share_keys(b, star, err);
	b->request_bytes = star_request_bytes();
	b->reply_bytes = star_reply_bytes(b->options->dim);
	return outcome;
}

static void star_bench_close(struct bench *b)
{
	struct star *star = b->state;

	if (star)
		free(star->layout);
	free(star);
}

static void star_prepare(struct bench *b, struct connection *c, uint8_t *out)
{
	const struct star *star = b->state;
	struct pull_request *request = (struct pull_request *)out;

	*request = (struct pull_request){
		.frame = {
			.magic = WIRE_MAGIC,
			.version = WIRE_VERSION,
			.opcode = WIRE_EXECUTE,
			.session = c->session,
			.epoch = star->layout->epoch,
			.incarnation = c->target->incarnation,
			.deadline_us = PULL_DEADLINE_US,
			.payload_bytes = sizeof(*request) - sizeof(request->frame),
		},
		.op = {
			.kind = WIRE_PULL,
			.result_dtype = STAR_FLOAT32,
			.object = star->spec.id,
			.count = 1,
			.dim = star->spec.dim,
			.body_bytes = sizeof(request->key),
		},
	};
}

/* The checksum in one pass over the whole frame, which is cheaper than combining those of header and payload. */
static void star_request(struct bench *b, struct connection *c, uint32_t key, uint8_t *out)
{
	struct pull_request *request = (struct pull_request *)out;

	request->frame.sequence = c->sent + 1;
	request->key = b->keys[key];
	request->frame.checksum = 0;
	request->frame.checksum = base_crc32(request, sizeof(*request));
}

static int refused(struct bench *b, const struct wire_frame *frame, const uint8_t *sentence, uint32_t bytes)
{
	if (frame->payload_bytes > WIRE_ERROR_TEXT_MAX)
		return bench_wrong(b, "an error reply of %u bytes: over the protocol's limit", frame->payload_bytes);
	if (bytes < frame->payload_bytes)
		return 0;
	return bench_wrong(b, "the node answered: %s (%.*s)", wire_status_text(frame->status),
			   (int)frame->payload_bytes, (const char *)sentence);
}

static int check_reply_header(struct bench *b, struct connection *c, const struct wire_frame *frame)
{
	const char *why;

	if (wire_frame_check(frame, &why) != WIRE_OK)
		return bench_wrong(b, "a reply with %s", why);
	if (frame->opcode != WIRE_REPLY)
		return bench_wrong(b, "opcode %u where a reply is expected", frame->opcode);
	if (frame->status != WIRE_OK)
		return 0; /* its message says more, and the answer to a refused frame may lack the sequence */
	if (frame->sequence != c->answered + 1)
		return bench_wrong(b, "a reply to request %" PRIu64 " where %" PRIu64 " is expected", frame->sequence,
				   c->answered + 1);
	if (sizeof(*frame) + frame->payload_bytes != b->reply_bytes)
		return bench_wrong(b, "a reply of %u bytes where %u are expected", frame->payload_bytes,
				   b->reply_bytes - (uint32_t)sizeof(*frame));
	return 0;
}

static int check_row(struct bench *b, struct pull_reply *reply)
{
	const struct star *star = b->state;
	const struct wire_result *result = &reply->result;
	const uint32_t row_bytes = star->spec.dim * (uint32_t)sizeof(float);

	if (result->object != star->spec.id || result->count != 1 || result->dim != star->spec.dim ||
	    result->body_bytes != row_bytes)
		return bench_wrong(b, "a result of object %u, %u rows of %u elements, %u bytes", result->object,
				   result->count, result->dim, result->body_bytes);
	if (b->options->checksum) {
		const uint32_t said = reply->frame.checksum;
		uint32_t is;

		reply->frame.checksum = 0;
		is = base_crc32(reply, b->reply_bytes);
		if (said != is)
			return bench_wrong(b, "a reply's checksum is %#x and should be %#x", said, is);
	}
	return 0;
}

/* Checks a whole reply except for the value of its row. */
static int check_reply(struct bench *b, struct connection *c, uint8_t *in, uint32_t bytes)
{
	struct pull_reply *reply = (struct pull_reply *)in;

	if (bytes < sizeof(reply->frame))
		return 0;
	if (check_reply_header(b, c, &reply->frame) < 0)
		return -1;
	if (reply->frame.status != WIRE_OK)
		return refused(b, &reply->frame, in + sizeof(reply->frame), bytes - (uint32_t)sizeof(reply->frame));
	if (bytes < b->reply_bytes)
		return 0;
	return check_row(b, reply) < 0 ? -1 : (int)b->reply_bytes;
}

/* The first pull creates the row; each later one must return the same value. */
static uint32_t star_fill(struct bench *b, struct connection *c, uint32_t key, uint8_t *out)
{
	star_prepare(b, c, out);
	star_request(b, c, key, out);
	return b->request_bytes;
}

static int star_filled(struct bench *b, struct connection *c, uint32_t key, uint8_t *in, uint32_t bytes)
{
	const int used = check_reply(b, c, in, bytes);

	if (used > 0)
		memcpy(&b->stamps[key], in + sizeof(struct pull_reply), sizeof(b->stamps[key]));
	return used;
}

static int star_reply(struct bench *b, struct connection *c, uint32_t key, uint8_t *in, uint32_t bytes)
{
	const int used = check_reply(b, c, in, bytes);

	if (used > 0 && memcmp(&b->stamps[key], in + sizeof(struct pull_reply), sizeof(b->stamps[key])) != 0)
		return bench_wrong(b, "the row of key %#" PRIx64 " has changed", b->keys[key]);
	return used;
}

const struct protocol protocol_star = {
	.name = "star",
	.open = star_bench_open,
	.close = star_bench_close,
	.fill = star_fill,
	.filled = star_filled,
	.prepare = star_prepare,
	.request = star_request,
	.reply = star_reply,
};
