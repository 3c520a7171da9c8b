/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The format of the data plane: one frame header for streams and datagrams, the operations in a request, and the
 * results in a reply. Little endian, fixed width, naturally aligned. Pure data and pure functions.
 *
 * A request frame:  wire_frame, then the payload: for each operation a wire_op and its body (padded with zeros to 8
 * bytes).
 * A reply frame:    wire_frame, then the payload: for each operation, in order, a wire_result and its body (padded
 * alike); or, if status is not WIRE_OK, only an error message (without a terminating zero).
 *
 * checksum is the CRC-32 (base/crc32.h) of header and payload with the checksum field taken as zero.
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/dtype.h"

#define WIRE_MAGIC 0x52415453u /* "STAR" */

/* Every protocol limit. */
enum wire_limits {
	WIRE_VERSION = 4,
	WIRE_PAYLOAD_MAX = 64 << 20,	/* bytes of the payload of a request or reply, ... */
	WIRE_PAYLOAD_DEFAULT = 4 << 20, /* ... and a node's default limit */
	WIRE_OPS_MAX = 64,		/* operations in one request */
	WIRE_KEYS_MAX = 65536,		/* keys in one request, all operations together */
	WIRE_DIM_MAX = 4096,		/* elements of a row, or of a block of a variable */
	WIRE_NAME_MAX = 127,		/* bytes of a table's or variable's name */
	WIRE_OBJECTS_MAX = 16384,	/* tables, variables and programs of a cluster */
	WIRE_NODES_MAX = 1024,		/* PS tasks of a cluster */
	WIRE_REACTORS_MAX = 64,		/* reactors of a node */
	WIRE_PARTITIONS_MAX = 1 << 20,
	WIRE_ERROR_TEXT_MAX = 400, /* bytes of an error reply's message */
	WIRE_IN_FLIGHT_MAX = 256,  /* unanswered requests of a session: a node keeps the results of this many */
};

enum wire_opcode {
	WIRE_EXECUTE = 1, /* request to execute operations */
	WIRE_REPLY = 2,
	WIRE_PING = 3, /* answered by a reply with an empty payload */
	/* The first frame of a connection to a node that requires tickets (secure/ticket.h). All frames after it and
	 * its reply are records, whose tag is in auth_tag, and whose checksum is 0. Other nodes refuse it. */
	WIRE_HELLO = 4,
};

/* The status of a reply. X(name, code, text). A client may try again after those marked "retry". */
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
	X(SHUTTING_DOWN, 15, "the node is shutting down") \
	X(NOT_FINITE, 16, "a gradient is not finite") \
	X(REPEATED, 17, "the request was executed when it was sent before") /* only WIRE_RESENT ones */ \
	X(FORGOTTEN, 18, "it is unknown whether the request was executed when it was sent before") \
	X(CLOSED, 19, "the sums for which the gradients are meant are closed, or not open yet") \
	X(GONE, 20, "what an earlier request has kept for this one is missing") \
	X(NOT_KEPT, 21, "there is no memory for what the request is to keep") \
	X(NO_TICKET, 22, "the node requires a valid ticket") /* the stream is closed; retry with another ticket */ \
	X(NOT_ALLOWED, 23, "the key does not have the right") \
	/* a quota of the key's principal (secure/quota.h) is used up; retry later, except for MEMORY */ \
	X(QUOTA_CONNECTIONS, 24, "the principal has as many connections as its quota allows") \
	X(QUOTA_SESSIONS, 25, "the principal has as many sessions as its quota allows") \
	X(QUOTA_IN_FLIGHT, 26, "the principal has as many bytes in flight as its quota allows") \
	X(QUOTA_REQUESTS, 27, "the principal sends more requests a second than its quota allows") \
	X(QUOTA_NEW_ROWS, 28, "the principal makes more new rows a second than its quota allows") \
	X(QUOTA_MEMORY, 29, "the principal's tables have as much memory as its quota allows")

enum wire_status {
#define X(name, code, text) WIRE_##name = code,
	WIRE_STATUS_LIST(X)
#undef X
};

/* A channel that reconnects keeps its session and its numbering, and marks the requests that it sends again. */
enum wire_frame_flags {
	/* First request of a connection: the session continues, with what was executed in it. Without the flag a new
	 * session starts. */
	WIRE_GOES_ON = 1 << 0,
	/* The request was sent before. If it never arrived it is executed; otherwise the reply has the earlier result:
	 * REPEATED if it was executed, the status with which it was refused, or FORGOTTEN. */
	WIRE_RESENT = 1 << 1,
	/* An earlier request of the session is still unanswered. If that one is refused as BUSY, so are this one and
	 * those after it up to the first request without this flag: the client sends all of them again, in order. */
	WIRE_BEHIND = 1 << 2,
	/* The client keeps the request until it is durable, and sends it again if the node is lost before: on nodes
	 * with `retained` durability its reply need not wait. For pushes and assignments that are not sums, with pulls
	 * or without; requests that establish an order between sessions wait. */
	WIRE_KEEPS = 1 << 3,
	/* With WIRE_RESENT: it was answered as executed, perhaps by another node. It is executed if this node has not
	 * come as far in the session, in any epoch; otherwise it is REPEATED, however long ago it was. A session sends
	 * one such request at a time. */
	WIRE_KEPT = 1 << 4,
};

/* Flags of replies. Older clients ignore them. */
enum wire_reply_flags {
	/* `behind` says which requests of the session are not durable yet, and requests with WIRE_KEEPS do not wait.
	 * Without the flag there is nothing to keep. */
	WIRE_RETAINS = 1 << 5,
	/* In a reply REPEATED to a request with WIRE_KEPT, without WIRE_RETAINS: `behind` is the number of next
	 * requests of the session that would also be REPEATED. */
	WIRE_AHEAD = 1 << 6,
};

struct wire_frame {
	uint32_t magic;
	uint8_t version;
	uint8_t opcode;
	uint8_t flags; /* in requests: enum wire_frame_flags; in replies: enum wire_reply_flags */
	uint8_t status;
	/* chosen at random by the client for a channel, which keeps it when it reconnects; 0: none */
	uint64_t session;
	uint64_t sequence; /* the request's number in its session, from 1; the reply has the same */
	uint32_t epoch;	   /* of the layout that the client used */
	uint32_t incarnation;
	uint32_t deadline_us; /* remaining time of the request in microseconds; 0: no limit by the client */
	uint32_t payload_bytes;
	uint8_t auth_tag[16]; /* for records; otherwise 0 */
	/* with WIRE_RETAINS: how many of the session's last requests, up to this one, may not be durable; with
	 * WIRE_AHEAD: how many requests after this one were executed; otherwise 0 */
	uint32_t behind;
	uint32_t checksum;
};
_Static_assert(sizeof(struct wire_frame) == 64, "wire_frame");
_Static_assert(offsetof(struct wire_frame, checksum) == 60, "wire_frame.checksum");

/* "rows" are count rows of dim elements of a type, in the keys' order, each dtype_row_bytes long. Deletes, and pulls
 * with versions, are sent in requests without pushes, because the rows that a request's pushes work on are looked up
 * before its first operation. */
enum wire_op_kind {
	WIRE_PULL = 1, /* body: count keys (uint64). Result body: rows of result_dtype */
	WIRE_PUSH = 2, /* body: count keys, then gradient rows of dtype. Result body: empty */
	/* Both in one request: body as for a push; result body as for a pull, after the push was applied. */
	WIRE_PUSH_PULL = 3,
	WIRE_DELETE = 4, /* body: count keys. Result: count is the number of rows that existed; body: empty */
	/* body as for a push: replaces the rows' values; if a key occurs twice, its last ones; slots stay. For all
	 * types, with an optimizer or without. Counts as a push. Result body: empty */
	WIRE_ASSIGN = 5,
	/* Runs the program `object`: wire/program.h has its bodies. count is the number of keys of all its feeds, dim
	 * that of segments; rate, scale and step are for its pushes. */
	WIRE_RUN = 6,
	/* Applies what pushes with WIRE_ACCUMULATE have summed on this shard, by the optimizer once per row, and opens
	 * the next sums. version is the tag of the sums; the next ones get the next number. If these sums were the last
	 * that were committed, nothing happens, so a commit may be repeated. If sums with another tag are open, these
	 * were discarded or never opened, and the commit is refused. rate, scale (1 / n for a mean) and step are as for
	 * a push. With WIRE_BY_ROW each row's sum is also divided by the number of pushes that have added to the row.
	 * body: one key, any of the shard's; result body: empty. */
	WIRE_COMMIT = 7,
};

enum wire_op_flags {
	/* pull: creates nothing and counts nothing; a missing row reads as its initial value */
	WIRE_READ_ONLY = 1 << 0,
	/* pull of rows with versions: the keys are followed by count versions (uint32, padded to 8 bytes in total).
	 * Result body: count present versions (padded alike), then only those rows, in the keys' order, whose version
	 * differs from the given one, or for which 0 was given. A row's version is incremented by each push that is
	 * applied to it; 0: no such row. */
	WIRE_VERSIONS = 1 << 1,
	/* run of a program that applies: its pushes were applied when it was sent before, and are omitted */
	WIRE_APPLIED = 1 << 2,
	/* push: creates rows as a pull does, and adds to the sums with the tag `version`, which must be open; their
	 * commit applies them */
	WIRE_ACCUMULATE = 1 << 3,
	/* commit: discards what was summed, and opens sums with the tag `version`. Tags only grow; if it is open
	 * already, nothing happens */
	WIRE_OPEN = 1 << 4,
	/* run of a program that keeps something, or uses something kept: it does neither, and carries all of its feeds
	 * itself */
	WIRE_ALONE = 1 << 5,
	/* run of a program that uses something kept: the last one to do so, so it is freed after the request */
	WIRE_LAST = 1 << 6,
	/* push, commit, run that applies: `rate` is the learning rate; without the flag the object's own is used, and
	 * `rate` is 0 */
	WIRE_RATE = 1 << 7,
	/* push, commit, run that applies: each gradient is multiplied by `scale`; without the flag it is not, and
	 * `scale` is 0 */
	WIRE_SCALE = 1 << 8,
	/* push: `version` is the wire_result.version of the last pull on which the gradient is based; without the flag
	 * that is unknown */
	WIRE_PULLED = 1 << 9,
	/* push, push_pull, assign: one of several requests to this shard into which a push is split, and not the last.
	 * The push counts once, with the last: all of them are applied as the same push of the object. */
	WIRE_MORE = 1 << 10,
	/* commit with WIRE_OPEN: the sums count for each row how many pushes add to it; without the flag they do not.
	 * After a commit the setting stays. commit: divides by that count; refused if the sums do not count. */
	WIRE_BY_ROW = 1 << 11,
};

struct wire_op {
	uint8_t kind;
	uint8_t dtype;	      /* enum star_dtype of the gradients in this request; 0 if there are none */
	uint8_t result_dtype; /* of the rows in its result; 0 if there are none */
	uint8_t reserved;     /* 0 */
	uint32_t object;      /* id in the catalogue, with its generation: object_wire_id */
	uint32_t count;	      /* keys, 1 to WIRE_KEYS_MAX */
	uint32_t dim;	      /* elements per row; must be the object's (for a run: segments) */
	uint32_t body_bytes;  /* without the padding */
	float rate;	      /* WIRE_RATE */
	uint64_t step;	      /* the training step, from 1; 0: not counted */
	uint64_t version;     /* with WIRE_PULLED; for sums: their tag; for a run: its entry's; otherwise 0 */
	float scale;	      /* WIRE_SCALE */
	uint32_t flags;	      /* enum wire_op_flags */
};
_Static_assert(sizeof(struct wire_op) == 48, "wire_op");

struct wire_result {
	uint32_t object;
	uint32_t count;
	uint32_t dim;
	uint32_t body_bytes; /* without the padding */
	uint64_t version;    /* number of push operations that this shard has applied to the object so far */
};
_Static_assert(sizeof(struct wire_result) == 24, "wire_result");

/* Whether rate and scale are valid for an operation that pushes: finite, not negative, and 0 if not given. */
static inline bool wire_op_step_is_good(const struct wire_op *op)
{
	/* Written so that NaN fails; infinities are above the largest number. */
	return op->rate >= 0 && op->rate <= FLT_MAX && op->scale >= 0 && op->scale <= FLT_MAX &&
	       (op->rate == 0 || op->flags & WIRE_RATE) && (op->scale == 0 || op->flags & WIRE_SCALE);
}

/* Whether the operation's keys are followed by rows of its dtype. */
static inline bool wire_op_brings_rows(const struct wire_op *op)
{
	return op->kind == WIRE_PUSH || op->kind == WIRE_PUSH_PULL || op->kind == WIRE_ASSIGN;
}

/* Whether its result has rows of the result_dtype. */
static inline bool wire_op_returns_rows(const struct wire_op *op)
{
	return op->kind == WIRE_PULL || op->kind == WIRE_PUSH_PULL;
}

static inline uint32_t wire_padded(uint32_t bytes)
{
	return (bytes + 7) & ~UINT32_C(7);
}

/* Bytes of count versions in a body. */
static inline uint64_t wire_versions_bytes(uint64_t count)
{
	return (count * sizeof(uint32_t) + 7) & ~UINT64_C(7);
}

/* For all operations but runs: the size of an operation's body, and the maximum size of its result's (a pull with
 * versions may return less). count is up to WIRE_KEYS_MAX and dim to WIRE_DIM_MAX: check them first. */
static inline uint64_t wire_op_bytes(const struct wire_op *op)
{
	return op->count * (uint64_t)sizeof(uint64_t) +
	       (wire_op_brings_rows(op) ? op->count * dtype_row_bytes(op->dtype, op->dim) : 0) +
	       (op->flags & WIRE_VERSIONS ? wire_versions_bytes(op->count) : 0);
}

static inline uint64_t wire_op_result_bytes(const struct wire_op *op)
{
	return (wire_op_returns_rows(op) ? op->count * dtype_row_bytes(op->result_dtype, op->dim) : 0) +
	       (op->flags & WIRE_VERSIONS ? wire_versions_bytes(op->count) : 0);
}

/* Checks magic, version, opcode and payload_bytes. Returns WIRE_OK or WIRE_BAD_FRAME; *why, if given, gets a
 * message. */
enum wire_status wire_frame_check(const struct wire_frame *frame, const char **why);

/* The header's part of a checksum: CRC of the 64 bytes with the checksum field taken as zero. */
uint32_t wire_frame_crc(const struct wire_frame *frame);

/* The whole checksum, when the payload is one piece. */
uint32_t wire_checksum(const struct wire_frame *frame, const void *payload, size_t payload_bytes);

const char *wire_status_text(unsigned status);

static inline bool wire_status_is_quota(unsigned status)
{
	return status >= WIRE_QUOTA_CONNECTIONS && status <= WIRE_QUOTA_MEMORY;
}
/* Nothing was executed, but the same request may succeed later; requests sent after it are refused too. */
static inline bool wire_status_is_busy(unsigned status)
{
	return status == WIRE_BUSY || (status >= WIRE_QUOTA_IN_FLIGHT && status <= WIRE_QUOTA_NEW_ROWS);
}

#endif
