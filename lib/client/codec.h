/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encodes a part's request and decodes its reply. Pure functions, except those that read or write the versions that a
 * channel has seen: these are called with the channel's lock held.
 */
#ifndef CLIENT_CODEC_H
#define CLIENT_CODEC_H

#include "client/client.h"

static inline uint32_t op_request_key_bytes(const struct call_op *op)
{
	return (uint32_t)sizeof(uint64_t) + (op_pushes(op) ? op->row_bytes : 0) +
	       (op->versions ? (uint32_t)sizeof(uint32_t) : 0);
}

/* At most. */
static inline uint32_t op_reply_key_bytes(const struct call_op *op)
{
	return (op_pulls(op) ? op->row_bytes : 0) + (op->versions ? (uint32_t)sizeof(uint32_t) : 0);
}

/* Sizes of bodies without padding; for a reply the largest possible size. */
static inline uint32_t op_request_bytes(const struct call_op *op, uint32_t count)
{
	const uint32_t row = (uint32_t)sizeof(uint64_t) + (op_pushes(op) ? op->row_bytes : 0);

	return count * row + (op->versions ? (uint32_t)wire_versions_bytes(count) : 0);
}

static inline uint32_t op_reply_bytes(const struct call_op *op, uint32_t count)
{
	return (op_pulls(op) ? count * op->row_bytes : 0) + (op->versions ? (uint32_t)wire_versions_bytes(count) : 0);
}

/* For writing a frame directly where it is sent from. Filling a struct and copying it by larger words would stall on
 * the stores of single fields. */
struct unaligned_frame {
	struct wire_frame frame;
} __attribute__((packed));
struct unaligned_op {
	struct wire_op op;
} __attribute__((packed));

/* A transport's memory, piece by piece. next sets at and end to the next piece; it is called when a piece is used up
 * and more is needed. A copy of a codec_in can be read independently from the same position. */
struct codec_out {
	char *at, *end;
	void (*next)(struct codec_out *out);
	void *piece; /* the transport's */
};
struct codec_in {
	const char *at, *end;
	void (*next)(struct codec_in *in);
	const void *piece;
	bool streams; /* set by codec.c: there is so much to copy that the caches are bypassed */
};

/* Write and read bytes, over as many pieces as necessary. */
void client_codec_put(struct codec_out *out, const void *from, size_t bytes);
void client_codec_put_zeros(struct codec_out *out, size_t bytes);
void client_codec_get(struct codec_in *in, void *to, size_t bytes);
void client_codec_skip(struct codec_in *in, size_t bytes);

/* Reduces a part to its pulls. false: it has none. */
bool client_codec_leave_pulls(struct part *part);
/* Makes a part's runs send everything, instead of keeping values or using kept ones. false: they do not have the
 * data. */
bool client_codec_bring_all(struct part *part);
/* Writes the payload, which has request_bytes; the pieces must have room. */
void client_codec_request(const struct part *part, struct codec_out *out);
/* Checks a reply's payload against the request. NULL if it is valid, else what is wrong with it. Writes nothing. */
const char *client_codec_check(const struct part *part, struct codec_in in, uint32_t bytes);
/* Records the objects' versions of these results. With the channel's lock held. */
void client_codec_remember(const struct part *part, struct codec_in in);
/* Copies the rows of a checked payload to the caller's memory. */
void client_codec_scatter(const struct part *part, struct codec_in in);
/* For a part that is one slice of a view: stores in the view where the rows of a checked payload are. false: no
 * memory. */
bool client_codec_show(const struct part *part, struct codec_in in);
/* The negative errno for a reply's status. */
int client_codec_errno(unsigned status);

#endif
