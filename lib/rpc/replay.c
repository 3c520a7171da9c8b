/* SPDX-License-Identifier: BSD-3-Clause */
#include "rpc/replay.h"

#include <stdlib.h>

#include "base/hash.h"
#include "rpc/internal.h"

/* Places are counted from 1; 0: none. */
struct entry {
	uint64_t session;
	uint64_t done; /* the highest sequence that was executed */
	struct rpc_work *owner;
	uint32_t next;	      /* in its bucket */
	uint32_t newer : 29;  /* in the line of those that lost their owner */
	uint32_t lined : 1;   /* it stands there, perhaps with a new owner by now */
	uint32_t busy : 1;    /* its former owner's request is being executed */
	uint32_t unknown : 1; /* it went on here, and may have been forgotten */
};
_Static_assert(sizeof(struct entry) == 32, "two of them share a cache line");

struct replay {
	uint64_t secret;
	uint32_t mask; /* of buckets */
	uint32_t oldest, newest;
	bool forgot; /* a session was forgotten: of one that is not here nobody knows whether it ever was */
	uint32_t *buckets;
	struct entry *entries; /* [0] is nobody's */
};

struct replay *replay_create(uint32_t sessions, uint64_t secret)
{
	struct replay *r = calloc(1, sizeof(*r));
	uint32_t buckets = 1;

	if (!r)
		return NULL;
	while (buckets < sessions)
		buckets *= 2;
	r->secret = secret;
	r->mask = buckets - 1;
	r->buckets = calloc(buckets, sizeof(*r->buckets));
	r->entries = calloc((size_t)sessions + 1, sizeof(*r->entries));
	if (!r->buckets || !r->entries) {
		replay_destroy(r);
		return NULL;
	}
	for (uint32_t i = 1; i <= sessions; i++)
		r->entries[i] = (struct entry){ .newer = i < sessions ? i + 1 : 0, .lined = 1 };
	r->oldest = 1;
	r->newest = sessions;
	return r;
}

void replay_destroy(struct replay *r)
{
	if (!r)
		return;
	free(r->buckets);
	free(r->entries);
	free(r);
}

static uint32_t *bucket_of(struct replay *r, uint64_t session)
{
	return &r->buckets[hash_mix(session ^ r->secret) & r->mask];
}

static uint32_t find(struct replay *r, uint64_t session)
{
	uint32_t at = *bucket_of(r, session);

	while (at && r->entries[at].session != session)
		at = r->entries[at].next;
	return at;
}

/* The first of the line that has no owner; 0: all have. Those that have found one meanwhile leave it: each once for each time that it
 * lost its owner, so a walk over many has been paid for. */
static uint32_t oldest(struct replay *r)
{
	uint32_t at;

	while ((at = r->oldest)) {
		struct entry *e = &r->entries[at];

		r->oldest = e->newer;
		if (!r->oldest)
			r->newest = 0;
		e->newer = 0;
		e->lined = 0;
		if (!e->owner)
			break;
	}
	return at;
}

/* The oldest that nobody owns forgets its session; 0: there is none. */
static uint32_t take(struct replay *r, uint64_t session)
{
	const uint32_t at = oldest(r);
	struct entry *e = &r->entries[at];
	uint32_t *link;

	if (!at)
		return 0;
	if (e->session) {
		r->forgot = true;
		for (link = bucket_of(r, e->session); *link != at;)
			link = &r->entries[*link].next;
		*link = e->next;
	}
	link = bucket_of(r, session);
	*e = (struct entry){ .session = session, .next = *link };
	*link = at;
	return at;
}

/* Whether it executes a request, or owes its reply. */
static bool is_executing(struct rpc_work *w)
{
	const uint8_t state = w->is_session ? session_of(w)->state : stream_of(w)->state;

	return w->request.begun && state == (w->is_session ? (int)SESSION_READY : (int)STREAM_READY);
}

static void claim(struct replay *r, struct rpc_work *w)
{
	const struct wire_frame *frame = &w->request.frame;
	uint32_t at = find(r, frame->session);
	const bool known = at != 0;
	struct rpc_work *former;
	struct entry *e;

	if (!known)
		at = take(r, frame->session);
	if (!at)
		return;
	e = &r->entries[at];
	if (!(frame->flags & WIRE_GOES_ON)) {
		e->done = 0;
		e->unknown = 0;
	} else if (!known) {
		e->unknown = r->forgot;
	}
	former = e->owner;
	e->owner = w;
	w->replay = at;
	if (!former)
		return;
	e->busy = is_executing(former);
	if (!former->peer) /* gone already: it only finishes what it has begun */
		return;
	if (former->is_session)
		rpc_session_give_up(session_of(former));
	else
		tcp_abort(former->conn);
}

enum replay_verdict replay_look(struct replay *r, struct rpc_work *w)
{
	const struct wire_frame *frame = &w->request.frame;
	const struct entry *e;

	if (unlikely(!w->replay) && frame->session)
		claim(r, w);
	e = &r->entries[w->replay];
	if (unlikely(e->session != frame->session || !w->replay)) /* a peer has one session */
		return frame->flags & WIRE_RESENT ? REPLAY_FORGOTTEN : REPLAY_RUN;
	if (unlikely(e->busy))
		return REPLAY_WAIT;
	if (likely(!(frame->flags & WIRE_RESENT)))
		return REPLAY_RUN;
	return frame->sequence <= e->done ? REPLAY_REPEATED : e->unknown ? REPLAY_FORGOTTEN : REPLAY_RUN;
}

void replay_done(struct replay *r, struct rpc_work *w, bool executed)
{
	const struct wire_frame *frame = &w->request.frame;
	struct entry *e = &r->entries[w->replay];

	if (!w->replay || e->session != frame->session)
		return;
	if (executed && frame->sequence > e->done)
		e->done = frame->sequence;
	if (unlikely(e->owner != w))
		e->busy = 0;
}

void replay_leave(struct replay *r, struct rpc_work *w)
{
	const uint32_t at = w->replay;
	struct entry *e = &r->entries[at];

	w->replay = 0;
	if (!at || e->owner != w)
		return;
	e->owner = NULL;
	if (e->lined)
		return;
	e->lined = 1;
	if (r->newest)
		r->entries[r->newest].newer = at;
	else
		r->oldest = at;
	r->newest = at;
}
