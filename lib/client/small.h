/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path for small calls: a pull or push of one row of a table. Its thread waits for it, at once or, over
 * datagrams, later, with others in flight. It is an ordinary call with one part, which is created, checked and split as
 * any other. But it is kept when it has ended (star_table.spare), so the next one of the same kind on the same table
 * reuses operation, part, and the bytes of frame and operation, and overwrites only what differs. A transport sends
 * these bytes, and compares the reply with the expected bytes, apart from the row. Everything unusual (a queue, a
 * refusal, a lost connection, another layout) takes the general path, for which it is a call like any other. small_sent
 * and small_take do for such a request what client_request_frame and client_reply_take (reply.c) do. The channel's
 * lock, if it has one, is held.
 */
#ifndef CLIENT_SMALL_H
#define CLIENT_SMALL_H

#include <string.h>

#include "base/crc32.h"
#include "client/client.h"

enum {
	SMALL_ROW_BYTES = 512,	/* of a row: the frame fits into a packet, and its checksum into one step */
	SMALL_AHEAD_MAX = 4096, /* how many that were in flight a cluster keeps; more are ordinary calls */
};

/* The bit of WIRE_RETAINS in small_reply.head. */
#define SMALL_RETAINS ((uint64_t)WIRE_RETAINS << 8 * offsetof(struct wire_frame, flags))

/* The arguments of the call. */
struct small_op {
	struct star_table *table;
	const uint64_t *keys; /* one */
	void *values;
	uint64_t step;
	float rate, scale;
	uint32_t flags; /* enum star_flags */
	enum star_op_kind kind;
};

/* Whether it can be a small call. Also false for calls that are invalid: the general path then says why. */
static inline bool small_is(const struct small_op *o)
{
	const struct star_table *t = o->table;

	if (!o->keys || !o->values)
		return false;
	if (o->kind == STAR_PULL)
		return t->small && !(o->flags & ~(uint32_t)STAR_READ_ONLY) && o->rate == 0 && o->scale == 0;
	return o->kind == STAR_PUSH && t->small_pushes && !o->flags && o->rate == 0 && o->scale == 0;
}

/* small.c: executes a call for which small_is is true. */
int client_small_execute(const struct small_op *o, uint64_t deadline_us, struct star_error *err);
/* Prepares a small call for which its thread waits later, with an unattended transport: it is ready to be submitted.
 * NULL: it has to be an ordinary call. */
struct call *client_small_begin(const struct small_op *o, uint64_t deadline_us);
/* The call has ended, and its results were read. */
void client_small_end(struct call *call);

/* ---- for transports ---- */

/* Whether a request may be sent at once: nothing else waits. */
static inline bool small_may_send(const struct channel *ch, uint64_t now_ns)
{
	return ch->state == CHANNEL_OPEN && TAILQ_EMPTY(&ch->queue) && !ch->refused && !ch->careful &&
	       channel_in_flight(ch) < IN_FLIGHT_MAX && now_ns >= ch->pause_until_ns;
}

/* Writes the request, small.request_bytes bytes, as the channel's next one. flags: enum wire_frame_flags in addition to
 * those that every request has. */
static inline void small_write(const struct call *call, const struct channel *ch, char *to, unsigned flags)
{
	const struct small *small = &call->small;
	struct small_head *at = (struct small_head *)to;
	uint32_t checksum;

	memcpy(at, &small->head, sizeof(*at));
	at->flags = (uint8_t)(flags | (ch->resumed ? WIRE_GOES_ON : 0) |
			      (ch->next_sequence != ch->first_sequence ? WIRE_BEHIND : 0));
	at->session = ch->session;
	at->sequence = ch->next_sequence;
	at->incarnation = ch->incarnation;
	at->key = *small->op->keys;
	if (small->pushes)
		memcpy(to + sizeof(*at), small->op->gradients, small->op->row_bytes);
	if (ch->tagged)
		return;
	checksum = base_crc32(to, small->request_bytes);
	memcpy(&at->checksum, &checksum, sizeof(checksum));
}

/* The request was written, and will be sent. */
static inline void small_sent(struct channel *ch, struct call *call, uint64_t now_ns)
{
	struct part *part = call->small.part;

	if (ch->next_sequence == ch->first_sequence)
		ch->heard_ns = now_ns;
	*channel_slot(ch, ch->next_sequence) = part;
	ch->resend = ++ch->next_sequence;
	if (ch->live++ == 0)
		ch->give_up_ns = now_ns + ch->cluster->connect_timeout_ns;
	part->state = PART_SENT;
}

/*
 * Whether a frame of small.reply_bytes is the expected reply, and the channel's next one. If so its row has been
 * copied. Otherwise nothing has changed, and the general path handles the reply.
 */
static inline bool small_take_row(const struct call *call, const struct channel *ch, char *frame)
{
	const struct small *small = &call->small;
	const struct small_reply *at = (const struct small_reply *)frame;
	uint32_t checksum = at->checksum, sum;

	if ((at->head & ~SMALL_RETAINS) != small->reply_head || at->session != ch->session ||
	    at->sequence != ch->first_sequence || at->payload_bytes != small->reply_bytes - sizeof(struct wire_frame) ||
	    at->object_count != small->object_count || at->dim_bytes != small->dim_bytes)
		return false;
	if (!ch->tagged) {
		memset(frame + offsetof(struct wire_frame, checksum), 0, sizeof(checksum));
		sum = base_crc32(frame, small->reply_bytes);
		memcpy(frame + offsetof(struct wire_frame, checksum), &checksum, sizeof(checksum));
		if (sum != checksum)
			return false;
	}
	if (!small->pushes)
		memcpy(small->op->results, frame + sizeof(*at), small->op->row_bytes);
	return true;
}

/* Removes the part from the channel: the call has succeeded. */
static inline void small_take(struct channel *ch, struct call *call, uint64_t now_ns)
{
	*channel_slot(ch, ch->first_sequence) = NULL;
	ch->first_sequence++;
	ch->heard_ns = now_ns;
	ch->answered = true;
	ch->careful = WIRE_OK;
	ch->attempts = ch->lost = 0;
	ch->live--;
	call->small.part->state = PART_TAKEN;
	call->small.plain = true;
}

#endif
