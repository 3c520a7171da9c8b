/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A part's bytes. Pure functions, but for what a channel has seen of its objects' versions: those are called with its
 * lock held.
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

/* Bodies without their padding; of a reply the most that it may have. */
static inline uint32_t op_request_bytes(const struct call_op *op, uint32_t count)
{
	const uint32_t row = (uint32_t)sizeof(uint64_t) + (op_pushes(op) ? op->row_bytes : 0);

	return count * row + (op->versions ? (uint32_t)wire_versions_bytes(count) : 0);
}

static inline uint32_t op_reply_bytes(const struct call_op *op, uint32_t count)
{
	return (op_pulls(op) ? count * op->row_bytes : 0) + (op->versions ? (uint32_t)wire_versions_bytes(count) : 0);
}

/* Bytes of a frame written where they are sent from: a copy by larger words would wait for the stores of single
 * fields. */
struct unaligned_frame {
	struct wire_frame frame;
} __attribute__((packed));
struct unaligned_op {
	struct wire_op op;
} __attribute__((packed));

/* Memory of a transport, a piece at a time. next makes at and end those of the next piece; it is called when a piece is
 * used up and there is more to come. A copy of a codec_in reads on from the same place by itself. */
struct codec_out {
	char *at, *end;
	void (*next)(struct codec_out *out);
	void *piece; /* the transport's */
};
struct codec_in {
	const char *at, *end;
	void (*next)(struct codec_in *in);
	const void *piece;
	bool streams; /* codec.c's: what is copied from it is too much for the caches */
};

/* Bytes, over as many pieces as it takes. */
void client_codec_put(struct codec_out *out, const void *from, size_t bytes);
void client_codec_put_zeros(struct codec_out *out, size_t bytes);
void client_codec_get(struct codec_in *in, void *to, size_t bytes);
void client_codec_skip(struct codec_in *in, size_t bytes);

/* Leaves of a part only what it pulls. False: it pulls nothing. */
bool client_codec_leave_pulls(struct part *part);
/* Has a part's runs bring what was kept, or is to be, and keep nothing. False: they cannot. */
bool client_codec_bring_all(struct part *part);
/* Writes the payload, request_bytes long: the pieces have room for it. */
void client_codec_request(const struct part *part, struct codec_out *out);
/* NULL if the payload is what was asked for, else what is wrong with it. Nothing is written anywhere. */
const char *client_codec_check(const struct part *part, struct codec_in in, uint32_t bytes);
/* Remembers what versions the objects had when these results were made; with the channel's lock held. */
void client_codec_remember(const struct part *part, struct codec_in in);
/* Copies the rows of a checked payload to the caller's memory. */
void client_codec_scatter(const struct part *part, struct codec_in in);
/* Of a part that is one slice of a view's: where the rows of a checked payload lie goes to the view. False: no memory
 * for that. */
bool client_codec_show(const struct part *part, struct codec_in in);
/* A reply's status as an errno. */
int client_codec_errno(unsigned status);

#endif
