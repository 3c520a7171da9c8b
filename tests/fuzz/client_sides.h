/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both ends of a call, for the fuzz targets of libstar: a caller with its memory, and the node that answers. One table,
 * whose row of a key has known content.
 */
#ifndef TESTS_FUZZ_CLIENT_SIDES_H
#define TESTS_FUZZ_CLIENT_SIDES_H

#include <stdbool.h>

#include "client/client.h"
#include "tests/fuzz/fuzz.h"

enum sides_limits {
	SIDES_DIM = 4,
	SIDES_OPS_MAX = 3,
	SIDES_KEYS_MAX = 40, /* of an operation, times its scale */
	SIDES_SCALE_MAX = 10,
	SIDES_KEYS = SIDES_KEYS_MAX * SIDES_SCALE_MAX,
	SIDES_REPLY_BYTES = sizeof(struct wire_frame) +
			    SIDES_OPS_MAX * (sizeof(struct wire_result) + 8 + SIDES_KEYS * (4 + SIDES_DIM * 4)),
	SIDES_REQUEST_BYTES = sizeof(struct wire_frame) +
			      SIDES_OPS_MAX * (sizeof(struct wire_op) + 8 + SIDES_KEYS * (8 + 4 + SIDES_DIM * 4)),
};

/* A call and its caller's memory. */
struct asked {
	struct call *call; /* NULL: none */
	struct star_op ops[SIDES_OPS_MAX];
	struct star_view *views[SIDES_OPS_MAX];
	unsigned ops_count;
};

/* A request as the node has it. */
struct request {
	struct wire_frame frame;
	struct wire_op ops[SIDES_OPS_MAX];
	uint8_t keys[SIDES_OPS_MAX][SIDES_KEYS];
	uint32_t given[SIDES_OPS_MAX][SIDES_KEYS]; /* versions */
	unsigned ops_count;
};

void sides_table(struct star_table *table, struct star_cluster *cluster);

/* A call of operations that the input chooses. scale: 1, or more keys by so much; views: some pulls are views. It is
 * not submitted. */
void asked_make(struct asked *a, struct input *in, struct star_table *table, const struct route *route, uint32_t scale,
		bool views);
/* Of a call that has ended well: the caller has what it asked for. */
void asked_check(const struct asked *a);
/* Gives back the call and the caller's memory. What comes later has nowhere to go. */
void asked_free(struct asked *a);

/* Whether a request that libstar would send is at the front of the bytes, by its checksum. */
bool request_is_sound(const uint8_t *at, size_t bytes);

/* Reads a request off the front of the bytes; returns how many it took, 0 when it is not whole. */
size_t request_read(struct request *r, const uint8_t *at, size_t bytes);
/* Writes the right reply, without its checksum; returns its bytes. */
uint32_t request_reply(const struct request *r, uint8_t *reply);
/* A refusal. */
uint32_t request_refuse(const struct request *r, enum wire_status status, uint8_t *reply);
/* Damages a reply as the input wants it: in its bytes, its length or its header. Returns its bytes. */
uint32_t reply_spoil(struct input *in, uint8_t *reply, uint32_t bytes, uint8_t how);
void reply_sum(uint8_t *reply, uint32_t bytes, bool wrong);

#endif
