/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams to a node that requires tickets (secure/ticket.h): the first frame of each is a hello, the others are
 * records. On the stack's thread. */
#ifndef RPC_SEALED_H
#define RPC_SEALED_H

#include "rpc/internal.h"
#include "secure/ticket.h"

/* A stream's additional state; only if there are tickets. */
struct rpc_seal {
	struct secure_direction in, out;
	struct secure_guest guest;
	struct rpc_bound bound;
	uint16_t account; /* as in rpc_session */
	uint32_t charged; /* bytes of the current request that count as in flight */
};

/* Replaces the session number in a frame by one of the sender's principal. Session numbers are no secret; this way
 * nobody can use another principal's session. */
static inline void sealed_bind(struct rpc_bound *bound, const struct secure_guest *guest, struct wire_frame *frame)
{
	if (unlikely(frame->session != bound->chosen)) {
		bound->chosen = frame->session;
		bound->session = frame->session ? secure_guest_number(guest, frame->session) : 0;
	}
	frame->session = bound->session;
}

/* The state of n streams, zeroed. NULL: no memory. */
struct rpc_seal *rpc_sealed_create(uint32_t n);
void rpc_sealed_destroy(struct rpc_seal *seals);

static inline struct rpc_seal *seal_of(const struct rpc_stream *s)
{
	return &s->work.server->seals[s - s->work.server->streams];
}

/* NULL: a frame's header is that of a hello; else why not. */
const char *rpc_sealed_check(const struct wire_frame *frame);
/* The hello is complete: answers it. WIRE_OK, or the status with which it is refused, and why; WIRE_BUSY: there was no
 * mbuf. */
enum wire_status rpc_sealed_greet(struct rpc_stream *s, const char **why);

/* Starts looking, from time to time, for streams and sessions whose guests have lost their rights. (What they send is
 * refused in any case.) */
void rpc_sealed_watch(struct rpc_server *server);

/* A record's header has arrived. */
void rpc_sealed_begin(struct rpc_stream *s);
/* The record's payload has arrived, and was passed to secure_open_update. NULL: it is authentic, and its sender may
 * stay; else why not. */
const char *rpc_sealed_end(struct rpc_stream *s);
/* Makes a record of the reply, whose header is complete except for its tag. Returns the number of its mbufs after the
 * first. */
uint32_t rpc_sealed_reply(struct rpc_stream *s);

#endif
