/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams to a node that wants tickets (secure/ticket.h): the first frame of each is a hello, others are records. */
#ifndef RPC_SEALED_H
#define RPC_SEALED_H

#include "rpc/internal.h"
#include "secure/ticket.h"

/* What a stream has beside the others; only where there are tickets. */
struct rpc_seal {
	struct secure_direction in, out;
	struct secure_guest guest;
	struct rpc_bound bound;
	uint16_t account; /* as a session's */
	uint32_t charged; /* bytes of the request at hand that count as in flight */
};

/* Nobody gets at another principal's session by its number, which is there to be read. */
static inline void sealed_bind(struct rpc_bound *bound, const struct secure_guest *guest, struct wire_frame *frame)
{
	if (unlikely(frame->session != bound->chosen)) {
		bound->chosen = frame->session;
		bound->session = frame->session ? secure_guest_number(guest, frame->session) : 0;
	}
	frame->session = bound->session;
}

/* The seals of n streams, zeroed; NULL: no memory. */
struct rpc_seal *rpc_sealed_create(uint32_t n);
void rpc_sealed_destroy(struct rpc_seal *seals);

static inline struct rpc_seal *seal_of(const struct rpc_stream *s)
{
	return &s->work.server->seals[s - s->work.server->streams];
}

/* Whether a frame's header is that of a hello; NULL, or why not. */
const char *rpc_sealed_check(const struct wire_frame *frame);
/* The hello is there, whole: answers it. WIRE_OK, or as what it is refused, and why: WIRE_BUSY: there was no mbuf. */
enum wire_status rpc_sealed_greet(struct rpc_stream *s, const char **why);

/* Begins to look, from time to time, for streams and sessions whose guests may not stay any more: what they send is
 * refused in any case. */
void rpc_sealed_watch(struct rpc_server *server);

/* A record's header has come. */
void rpc_sealed_begin(struct rpc_stream *s);
/* Its payload has, and was given to secure_open_update. NULL: it is as it was sent, and its sender may stay. */
const char *rpc_sealed_end(struct rpc_stream *s);
/* Makes a record of the reply, whose header is complete but for its tag; returns its mbufs beyond the first. */
uint32_t rpc_sealed_reply(struct rpc_stream *s);

#endif
