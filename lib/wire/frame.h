/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of the data plane: one frame header for streams and datagrams, the operations inside a request, and the
 * results inside a reply. Little endian, fixed width, naturally aligned. Pure data and pure functions.
 *
 * A request frame:  wire_frame, then payload: for each operation a wire_op and its body (padded with zeros to 8 bytes).
 * A reply frame:    wire_frame, then payload: for each operation, in order, a wire_result and its body (padded alike);
 *                   or, if status is not WIRE_OK, one sentence for people (no terminating zero) and nothing else.
 *
 * checksum is the CRC-32 (base/crc32.h) of header and payload with the checksum field taken as zero.
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define WIRE_MAGIC 0x52415453u /* "STAR" */

/* Every protocol limit. */
enum wire_limits {
	WIRE_VERSION = 1,
	WIRE_PAYLOAD_MAX = 4 << 20, /* bytes of one request's or reply's payload */
	WIRE_OPS_MAX = 64,	    /* operations in one request */
	WIRE_KEYS_MAX = 65536,	    /* keys in one request, all operations together */
	WIRE_DIM_MAX = 4096,	    /* elements of a row, or of a block of a variable */
	WIRE_NAME_MAX = 127,	    /* bytes of a table's or variable's name */
	WIRE_OBJECTS_MAX = 1024,    /* tables and variables of a cluster */
	WIRE_NODES_MAX = 1024,	    /* PS tasks of a cluster */
	WIRE_REACTORS_MAX = 64,	    /* reactors of a node */
	WIRE_PARTITIONS_MAX = 1 << 20,
	WIRE_ERROR_TEXT_MAX = 400, /* bytes of an error reply's sentence */
};

enum wire_opcode {
	WIRE_EXECUTE = 1, /* a request: execute operations */
	WIRE_REPLY = 2,
	WIRE_PING = 3, /* answered by a reply with an empty payload */
};

/* What a reply's status says. X(name, code, text). A client may try again after those marked "retry". */
#define WIRE_STATUS_LIST(X) \
	X(OK, 0, "ok") \
	X(BAD_FRAME, 1, "the frame is malformed")		  /* magic, version, length; the stream is closed */ \
	X(BAD_CHECKSUM, 2, "the frame's checksum does not match") /* the stream is closed */ \
	X(BAD_REQUEST, 3, "the request is malformed") \
	X(STALE_LAYOUT, 4, "the layout has changed") /* retry with the new layout */ \
	X(STALE_INCARNATION, 5, "the node was restarted; what it held is lost") \
	X(WRONG_SHARD, 6, "the key belongs to another reactor") \
	X(UNKNOWN_OBJECT, 7, "no such table or variable") \
	X(WRONG_DIM, 8, "the row size does not match the table's") \
	X(WRONG_TYPE, 9, "the element type does not match the table's") \
	X(NO_KEYS, 10, "the operation names no keys") \
	X(OVER_LIMIT, 11, "the request is over a limit") \
	X(NO_MEMORY, 12, "the parameter memory is full") \
	X(DEADLINE, 13, "the deadline passed before the request was executed") \
	X(BUSY, 14, "the node has no buffers left for this request") /* retry later */ \
	X(SHUTTING_DOWN, 15, "the node is shutting down")

enum wire_status {
#define X(name, code, text) WIRE_##name = code,
	WIRE_STATUS_LIST(X)
#undef X
};

struct wire_frame {
	uint32_t magic;
	uint8_t version;
	uint8_t opcode;
	uint8_t flags; /* 0 */
	uint8_t status;
	uint64_t session;  /* chosen at random by the client for each channel it opens */
	uint64_t sequence; /* of the request within its session, from 1; a reply repeats it */
	uint32_t epoch;	   /* of the layout the client used */
	uint32_t incarnation;
	uint32_t deadline_us; /* microseconds that the request may still take; 0: no limit of the client's */
	uint32_t payload_bytes;
	uint8_t auth_tag[16]; /* 0; room for an authentication tag */
	uint32_t reserved;    /* 0 */
	uint32_t checksum;
};
_Static_assert(sizeof(struct wire_frame) == 64, "wire_frame");
_Static_assert(offsetof(struct wire_frame, checksum) == 60, "wire_frame.checksum");

enum wire_op_kind {
	WIRE_PULL = 1, /* body: count keys (uint64). Result body: count rows of dim elements, in the keys' order */
	WIRE_PUSH = 2, /* body: count keys, then count gradient rows of dim elements (float32). Result body: empty */
};

enum wire_op_flags {
	WIRE_READ_ONLY = 1 << 0, /* pull: creates nothing; a row that is not there reads as its initial value */
};

struct wire_op {
	uint8_t kind;
	uint8_t dtype; /* enum star_dtype of the rows or gradients in this request; must be the object's */
	uint16_t flags;
	uint32_t object;     /* id in the catalogue */
	uint32_t count;	     /* keys, 1 to WIRE_KEYS_MAX */
	uint32_t dim;	     /* elements a row; must be the object's */
	uint32_t body_bytes; /* without the padding */
	float rate;	     /* push: learning rate, or 0 for the object's own */
	uint64_t step;	     /* the worker's training step */
};
_Static_assert(sizeof(struct wire_op) == 32, "wire_op");

struct wire_result {
	uint32_t object;
	uint32_t count;
	uint32_t dim;
	uint32_t body_bytes; /* without the padding */
};
_Static_assert(sizeof(struct wire_result) == 16, "wire_result");

static inline uint32_t wire_padded(uint32_t bytes)
{
	return (bytes + 7) & ~UINT32_C(7);
}

/* Body sizes of an operation's request and result; 64 bits, since count and dim may still be unchecked. */
static inline uint64_t wire_pull_request_bytes(uint64_t count)
{
	return count * sizeof(uint64_t);
}

static inline uint64_t wire_push_request_bytes(uint64_t count, uint64_t dim, unsigned element_bytes)
{
	return count * sizeof(uint64_t) + count * dim * element_bytes;
}

static inline uint64_t wire_pull_result_bytes(uint64_t count, uint64_t dim, unsigned element_bytes)
{
	return count * dim * element_bytes;
}

/* Checks magic, version, opcode and payload_bytes. Returns WIRE_OK or WIRE_BAD_FRAME; *why, if given, gets a sentence. */
enum wire_status wire_frame_check(const struct wire_frame *frame, const char **why);

/* The header's part of a checksum: CRC of the 64 bytes with the checksum field taken as zero. */
uint32_t wire_frame_crc(const struct wire_frame *frame);

/* The whole checksum, when the payload is one piece. */
uint32_t wire_checksum(const struct wire_frame *frame, const void *payload, size_t payload_bytes);

const char *wire_status_text(unsigned status);

#endif
