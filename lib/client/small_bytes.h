/* SPDX-License-Identifier: BSD-3-Clause */
/* The first bytes of requests and replies of small calls (small.h) in memory. wire/frame.h has their meaning. Pure
 * data. */
#ifndef CLIENT_SMALL_BYTES_H
#define CLIENT_SMALL_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "wire/frame.h"

/* The first bytes of a request, where it is sent from: a frame, its operation, and its key. */
struct small_head {
	uint32_t magic;
	uint8_t version, opcode, flags, status;
	uint64_t session, sequence;
	uint32_t epoch, incarnation, deadline_us, payload_bytes;
	uint8_t unused[20];
	uint32_t checksum;
	struct wire_op op;
	uint64_t key;
} __attribute__((packed, may_alias));
_Static_assert(offsetof(struct small_head, payload_bytes) == offsetof(struct wire_frame, payload_bytes) &&
		       offsetof(struct small_head, checksum) == offsetof(struct wire_frame, checksum) &&
		       offsetof(struct small_head, op) == sizeof(struct wire_frame),
	       "small_head begins as a wire_frame");

/* The first bytes of a reply: a frame, and the result's header. */
struct small_reply {
	uint64_t head; /* magic, version, opcode, flags, status */
	uint64_t session, sequence;
	uint32_t epoch, incarnation, deadline_us, payload_bytes;
	uint8_t unused[20];
	uint32_t checksum;
	uint64_t object_count, dim_bytes, version;
} __attribute__((packed, may_alias));
_Static_assert(offsetof(struct small_reply, payload_bytes) == offsetof(struct wire_frame, payload_bytes) &&
		       offsetof(struct small_reply, checksum) == offsetof(struct wire_frame, checksum) &&
		       sizeof(struct small_reply) == sizeof(struct wire_frame) + sizeof(struct wire_result),
	       "small_reply begins as a wire_frame");

#endif
