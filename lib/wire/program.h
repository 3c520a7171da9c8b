/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs: the wire format of a step's subgraph on PS tasks (docs/programs.rst). A program is registered once, as an
 * object of the catalogue; a request then runs it by its id (WIRE_RUN) with feeds, and gets its fetches. It is a list
 * of nodes, each of which uses earlier ones: feeds, which a request carries, and steps. Input is not trusted: only
 * wire_program_check yields a shape. Pure functions, no allocation.
 *
 * Everything is organized by keys: a KEYS feed names rows of one table (or blocks of one variable), and what is aligned
 * with it has one row, or one segment number, for each of its keys. The client sends each reactor the keys that it
 * owns, with what is aligned with them.
 *
 * The body of a WIRE_RUN, each part padded with zeros to 8 bytes, numbers and rows of float32 little endian: for each
 * KEYS feed the number of keys (uint32); the SHARED feeds; the SEGMENT_ROWS feeds; then for each KEYS feed the keys
 * (uint64), and what is aligned with it, in the nodes' order: ROWS (float32), SEGMENTS (uint32; SEGMENTS16 and
 * SEGMENTS8: uint16 and uint8). Feeds that are PROGRAM_KEPT are omitted, unless the run has WIRE_ALONE.
 *
 * A run may leave something on each reactor for later runs of its step: an entry, which has the run's tag
 * (wire_op.version) and belongs to the request's session. An entry has the keys of one KEYS feed, and in up to
 * PROGRAM_PLACES_MAX places rows or segments of them.
 *
 * The body of its result, padded alike: for each KEYS feed with fetches, for each key a record of all that is fetched
 * of it, in the FETCH nodes' order; then each fetched POOL: the sums of this reactor, a row for each segment.
 */
#ifndef WIRE_PROGRAM_H
#define WIRE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/elementwise.h"

enum program_limits {
	PROGRAM_VERSION = 1,
	PROGRAM_NODES_MAX = 64,
	PROGRAM_KEYS_MAX = 32,	 /* KEYS feeds */
	PROGRAM_ALIGNED_MAX = 7, /* feeds that are aligned with one of them */
	PROGRAM_PLACES_MAX = 8,	 /* of what is kept with an entry's keys */
	PROGRAM_SEGMENTS_MAX = 65536,
	/* Limit for the elements of all nodes' rows together, so that one row of a program takes some tens of
	 * microseconds. The elements of expensive operations count several times: program_op_info.cost. */
	PROGRAM_ELEMENTS_MAX = 32768,
	PROGRAMS_MAX = 256, /* of a cluster */
	PROGRAM_NONE = 255, /* no node */
};

/*
 * The operations of programs: these, and all of tensor/elementwise.h. Everything that has to know the operands and the
 * result of an operation reads them from wire_program_op, which is made from these lists: the check, libstar, a shard's
 * plan and its execution. X(NAME, number, name, kind, fields of the node that it uses, flags that the node may have,
 * text)
 */
#define PROGRAM_FEEDS(X) \
	X(KEYS, 1, keys, FEED, PROGRAM_USES_DIM | PROGRAM_USES_OBJECT, PROGRAM_KEPT, \
	  "ids of the rows of `object`, whose rows have `dim` elements") \
	X(ROWS, 2, rows, FEED, PROGRAM_USES_DIM | PROGRAM_USES_A | PROGRAM_USES_KEPT_PLACE, PROGRAM_KEPT, \
	  "a row of `dim` for each key of a") \
	X(SEGMENTS, 3, segments, FEED, PROGRAM_USES_A | PROGRAM_USES_KEPT_PLACE, PROGRAM_KEPT, \
	  "a segment number for each key of a") \
	X(SHARED, 4, shared, FEED, PROGRAM_USES_DIM, 0, "one row of `dim`, which every reactor gets") \
	X(SEGMENT_ROWS, 5, segment_rows, FEED, PROGRAM_USES_DIM, 0, \
	  "a row of `dim` for each segment, which every reactor gets") \
	X(SEGMENTS16, 6, segments16, FEED, PROGRAM_USES_A | PROGRAM_USES_KEPT_PLACE, PROGRAM_KEPT, \
	  "SEGMENTS in two bytes each") \
	X(SEGMENTS8, 7, segments8, FEED, PROGRAM_USES_A | PROGRAM_USES_KEPT_PLACE, PROGRAM_KEPT, \
	  "the same in one byte each: of 256 segments at most")
#define PROGRAM_STEPS(X) \
	X(LOOKUP, 16, lookup, STORE, PROGRAM_USES_A, PROGRAM_READ_ONLY, \
	  "the rows of the keys a, as float32; missing ones are created, unless PROGRAM_READ_ONLY") \
	X(APPLY, 17, apply, STORE, PROGRAM_USES_A | PROGRAM_USES_B, 0, "pushes the rows b as gradients of the keys a") \
	X(POOL, 18, pool, RESULT, PROGRAM_USES_A | PROGRAM_USES_B, 0, \
	  "for each segment the sum of the rows of a that have its number in b") \
	X(UNPOOL, 19, unpool, SPREAD, PROGRAM_USES_A | PROGRAM_USES_B, 0, \
	  "for each key the row of a (a SEGMENT_ROWS) with the number in b") \
	X(FETCH, 20, fetch, RESULT, PROGRAM_USES_A, 0, "a becomes part of the result") \
	X(KEEP, 21, keep, RESULT, PROGRAM_USES_A | PROGRAM_USES_PLACE, 0, \
	  "a stays on the reactor: keys, which begin the run's entry, or rows or segments of them, in its place b")

enum program_op {
#define X(NAME, number, name, kind, uses, flags, text) PROGRAM_##NAME = number,
	PROGRAM_FEEDS(X) PROGRAM_STEPS(X)
#undef X
};

/* How a shard executes it. From SPREAD on: a step that computes rows. */
enum program_kind {
	PROGRAM_KIND_NONE, /* there is no such operation */
	PROGRAM_KIND_FEED,
	PROGRAM_KIND_STORE,
	PROGRAM_KIND_RESULT,
	PROGRAM_KIND_SPREAD,	/* gives rows by segment to their keys */
	PROGRAM_KIND_UNARY,	/* tensor_elementwise_unary */
	PROGRAM_KIND_BINARY,	/* tensor_elementwise_binary */
	PROGRAM_KIND_REDUCTION, /* tensor_elementwise_reduce, with two rows if it uses b */
};

enum program_uses {
	PROGRAM_USES_A = 1 << 0,
	PROGRAM_USES_B = 1 << 1,
	PROGRAM_USES_PLACE = 1 << 2,	  /* b is a place of the entry */
	PROGRAM_USES_KEPT_PLACE = 1 << 3, /* the same, of what is PROGRAM_KEPT */
	PROGRAM_USES_DIM = 1 << 4,
	PROGRAM_USES_OBJECT = 1 << 5, /* and its generation */
	PROGRAM_USES_CONSTANT = 1 << 6,
};

enum program_flags {
	PROGRAM_READ_ONLY = 1 << 0, /* of a LOOKUP */
	/* Of KEYS, and of ROWS and SEGMENTS of such: an earlier run has kept it in the entry (place b). */
	PROGRAM_KEPT = 1 << 1,
};

struct program_node {
	uint8_t op;	 /* enum program_op or elementwise_op */
	uint8_t a, b;	 /* earlier nodes; 0: none; b of KEEP and of KEPT feeds: a place */
	uint8_t flags;	 /* enum program_flags */
	uint16_t dim;	 /* of feeds with rows, and of KEYS; else 0 */
	uint16_t object; /* of KEYS: the table or variable; else 0 */
	union {
		float constant;	     /* of SCALE and OFFSET; else 0 */
		uint32_t generation; /* of KEYS: the object's (wire/object.h) */
	};
};
_Static_assert(sizeof(struct program_node) == 12, "program_node");

/* As sent: the first program_bytes of it. */
struct program {
	uint8_t version;
	uint8_t count; /* nodes */
	uint16_t reserved;
	struct program_node nodes[PROGRAM_NODES_MAX];
};
enum { PROGRAM_HEAD_BYTES = offsetof(struct program, nodes), PROGRAM_BYTES_MAX = sizeof(struct program) };

static inline uint32_t program_bytes(const struct program *program)
{
	return (uint32_t)(PROGRAM_HEAD_BYTES + program->count * sizeof(struct program_node));
}

/* What a value has a row for. */
enum program_axis {
	PROGRAM_NO_ROWS, /* keys, segments, apply, fetch */
	PROGRAM_BY_KEY,
	PROGRAM_ONCE, /* the same for all keys */
	PROGRAM_BY_SEGMENT,
	PROGRAM_POOLED, /* by segment, and of this reactor's keys only */
};

struct program_value {
	uint8_t axis;
	uint8_t keys; /* by key: the number of the KEYS feed */
	uint16_t dim;
};

/* A KEYS feed, and the nodes that belong to it. */
struct program_keys {
	uint8_t node, lookup, apply; /* PROGRAM_NONE: there is none */
	uint8_t aligned_count;
	uint8_t aligned[PROGRAM_ALIGNED_MAX]; /* nodes */
	bool segments;			      /* at least one of those is SEGMENTS */
	bool kept;			      /* they come from an entry */
	uint32_t record_bytes;		      /* of what is fetched, for each key */
	uint32_t elements;		      /* of all rows by key, as program_op_info.cost has them */
};

struct program_shape {
	uint32_t keys_count, fetches; /* FETCH nodes */
	bool segments;		      /* the number of segments is given with each request */
	bool applies;
	uint8_t entry;		/* the KEYS feed of which something is kept, by this run or an earlier one;
				 * PROGRAM_NONE: none */
	bool begins;		/* it begins the entry; otherwise it uses it */
	uint16_t takes, keeps;	/* a bit for each place */
	uint32_t once_bytes;	/* of SHARED feeds, each padded */
	uint32_t once_elements; /* of all rows that exist once */
	struct program_keys keys[PROGRAM_KEYS_MAX];
	struct program_value values[PROGRAM_NODES_MAX];
};

/*
 * Reads and checks a program in the form in which it is sent, n bytes. NULL: it is valid, and *program and *shape are
 * filled in. Otherwise what is wrong, and *node is the node concerned, or PROGRAM_NONE.
 */
const char *wire_program_read(const void *bytes, size_t n, struct program *program, struct program_shape *shape,
			      unsigned *node);
/* The same for a program in memory. */
const char *wire_program_check(const struct program *program, struct program_shape *shape, unsigned *node);

/* Whether one of its KEYS feeds names that object. */
bool wire_program_uses(const struct program *program, uint32_t object, uint32_t generation);

struct program_op_info {
	const char *name; /* "relu" */
	uint8_t kind;	  /* enum program_kind */
	uint8_t uses;	  /* enum program_uses */
	uint8_t flags;	  /* that its node may have: enum program_flags */
	uint8_t cost;	  /* of an element */
};

/* Of any number; if it is unknown, kind is PROGRAM_KIND_NONE and name is NULL. */
const struct program_op_info *wire_program_op(unsigned op);
/* The operation of that name; 0: unknown. */
unsigned wire_program_op_find(const char *name);

/* "program:" and 16 digits of a hash: the same program has the same name everywhere. */
enum { PROGRAM_NAME_BYTES = 8 + 16 + 1 };
void wire_program_name(const struct program *program, char name[static PROGRAM_NAME_BYTES]);

static inline bool program_has_entry(const struct program_shape *shape)
{
	return shape->entry != PROGRAM_NONE;
}

/* Bytes of a segment's number in such a feed; 0: it is no segment feed. */
static inline uint32_t program_segment_bytes(unsigned op)
{
	return op == PROGRAM_SEGMENTS ? 4 : op == PROGRAM_SEGMENTS16 ? 2 : op == PROGRAM_SEGMENTS8 ? 1 : 0;
}

/* The most compact feed for runs with at most `most` segments; two bytes are enough for any. */
static inline unsigned program_segments_op(uint32_t most)
{
	return most <= 256 ? PROGRAM_SEGMENTS8 : PROGRAM_SEGMENTS16;
}
_Static_assert(PROGRAM_SEGMENTS_MAX <= 65536, "SEGMENTS16 has the number of every segment");

/* Of something aligned with keys, rows or segments: bytes for each of them in a request. */
static inline uint32_t program_aligned_bytes(const struct program_node *feed)
{
	return feed->dim ? feed->dim * (uint32_t)sizeof(float) : program_segment_bytes(feed->op);
}

/* The same in an entry: rows of `dim` elements, or segments (0), which are uint32 there. */
static inline uint32_t program_kept_bytes(uint32_t dim)
{
	return dim ? dim * (uint32_t)sizeof(float) : (uint32_t)sizeof(uint32_t);
}

/* Bytes of a run's body before the first KEYS feed's keys; of a KEYS feed's part, for n keys; of its records; and of
 * what the nodes of op (SEGMENT_ROWS) have, or fetched pools, each padded. alone: KEPT feeds are included. */
uint64_t wire_program_head_bytes(const struct program *program, const struct program_shape *shape, uint32_t segments);
uint64_t wire_program_keys_bytes(const struct program *program, const struct program_shape *shape, unsigned keys,
				 uint32_t count, bool alone);
uint64_t wire_program_record_bytes(const struct program_shape *shape, unsigned keys, uint32_t count);
uint64_t wire_program_segment_bytes(const struct program *program, const struct program_shape *shape, unsigned op,
				    uint32_t segments);

/* Whole bodies. counts: for each KEYS feed, up to WIRE_KEYS_MAX; segments up to PROGRAM_SEGMENTS_MAX. */
uint64_t wire_program_request_bytes(const struct program *program, const struct program_shape *shape,
				    const uint32_t *counts, uint32_t segments, bool alone);
uint64_t wire_program_reply_bytes(const struct program *program, const struct program_shape *shape,
				  const uint32_t *counts, uint32_t segments);

static inline uint64_t program_padded(uint64_t bytes)
{
	return (bytes + 7) & ~UINT64_C(7);
}

#endif
