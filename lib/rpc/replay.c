/* SPDX-License-Identifier: BSD-3-Clause */
#include "rpc/replay.h"

#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/hash.h"
#include "rpc/link.h"

enum { UNKNOWN = UINT8_MAX }; /* an outcome that no request has reported */

_Static_assert((WIRE_IN_FLIGHT_MAX & (WIRE_IN_FLIGHT_MAX - 1)) == 0, "outcomes are indexed by a mask");

/* Places are counted from 1; 0: none. */
struct entry {
	uint64_t session;
	uint64_t done; /* the highest sequence that is at its end, executed or refused */
	struct rpc_work *owner;
	uint32_t next;	       /* in its bucket */
	uint32_t newer : 28;   /* in the line of those that lost their owner */
	uint32_t refusals : 1; /* not all of the last requests were executed: their outcomes say which */
	uint32_t lined : 1;    /* it stands there, perhaps with a new owner by now */
	uint32_t busy : 1;     /* its former owner's request is being executed */
	uint32_t unknown : 1;  /* it went on here, and may have been forgotten */
};
_Static_assert(sizeof(struct entry) == 32, "two of them share a cache line");

/* What of a session is not durable: sequences from `first` on; 0: nothing. Those up to `next` are at its position,
 * those up to `last` at that one's. */
struct progress {
	uint64_t first, next, next_at, last, last_at;
	uint32_t life;
};

struct replay {
	uint64_t secret;
	uint32_t mask; /* of buckets */
	uint32_t sessions;
	uint32_t oldest, newest;
	bool forgot; /* a session was forgotten: of one that is not here nobody knows whether it ever was */
	uint32_t *buckets;
	struct entry *entries; /* [0] is nobody's */
	/* of each entry: how its last requests ended, enum wire_status or UNKNOWN, by sequence. Not touched as long as
	 * all are executed. */
	uint8_t (*outcomes)[WIRE_IN_FLIGHT_MAX];
	struct progress *progress; /* of each entry; not touched but where replies are retained */
};

struct replay *rpc_replay_create(uint32_t sessions, uint64_t secret)
{
	struct replay *r = calloc(1, sizeof(*r));
	uint32_t buckets = 1;

	if (!r)
		return NULL;
	while (buckets < sessions)
		buckets *= 2;
	r->secret = secret;
	r->mask = buckets - 1;
	r->sessions = sessions;
	r->buckets = calloc(buckets, sizeof(*r->buckets));
	r->entries = calloc((size_t)sessions + 1, sizeof(*r->entries));
	r->outcomes = calloc((size_t)sessions + 1, sizeof(*r->outcomes));
	r->progress = calloc((size_t)sessions + 1, sizeof(*r->progress));
	base_cores_without_rest(r->entries, ((size_t)sessions + 1) * sizeof(*r->entries));
	base_cores_without_rest(r->outcomes, ((size_t)sessions + 1) * sizeof(*r->outcomes));
	base_cores_without_rest(r->progress, ((size_t)sessions + 1) * sizeof(*r->progress));
	if (!r->buckets || !r->entries || !r->outcomes || !r->progress) {
		rpc_replay_destroy(r);
		return NULL;
	}
	for (uint32_t i = 1; i <= sessions; i++)
		r->entries[i] = (struct entry){ .newer = i < sessions ? i + 1 : 0, .lined = 1 };
	r->oldest = 1;
	r->newest = sessions;
	return r;
}

void rpc_replay_destroy(struct replay *r)
{
	if (!r)
		return;
	free(r->buckets);
	free(r->entries);
	free(r->outcomes);
	free(r->progress);
	free(r);
}

static uint32_t *bucket_of(struct replay *r, uint64_t session)
{
	return &r->buckets[hash_mix(session ^ r->secret) & r->mask];
}

static uint32_t find_entry_of(struct replay *r, uint64_t session)
{
	uint32_t at = *bucket_of(r, session);

	while (at && r->entries[at].session != session)
		at = r->entries[at].next;
	return at;
}

/* The first of the line that has no owner; 0: all have. Those that have found one meanwhile leave it: each once for
 * each time that it lost its owner, so a walk over many has been paid for. */
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

/* At the end of the line. */
static void line_up(struct replay *r, uint32_t at)
{
	r->entries[at].lined = 1;
	if (r->newest)
		r->entries[r->newest].newer = at;
	else
		r->oldest = at;
	r->newest = at;
}

static uint8_t *outcome_of(struct replay *r, const struct entry *e, uint64_t sequence)
{
	return &r->outcomes[e - r->entries][sequence & (WIRE_IN_FLIGHT_MAX - 1)];
}

/* Nothing of the session has been executed or refused yet. */
static void begin_outcomes(struct replay *r, struct entry *e)
{
	if (e->refusals)
		memset(r->outcomes[e - r->entries], WIRE_OK, sizeof(*r->outcomes));
	e->refusals = 0;
	e->done = 0;
	if (unlikely(r->progress[e - r->entries].first))
		r->progress[e - r->entries].first = 0;
}

/* A later request than all before is at its end. Of those that were left out nothing is known. */
static void go_on_to(struct replay *r, struct entry *e, uint64_t sequence)
{
	const uint64_t left_out = sequence - e->done - 1;

	if (unlikely(left_out)) {
		for (uint64_t i = 1; i <= left_out && i < WIRE_IN_FLIGHT_MAX; i++)
			*outcome_of(r, e, sequence - i) = UNKNOWN;
		e->refusals = 1;
	}
	e->done = sequence;
}

static void set_outcome(struct replay *r, struct entry *e, uint64_t sequence, uint8_t outcome)
{
	static const uint8_t all_executed[WIRE_IN_FLIGHT_MAX];

	if (sequence > e->done)
		go_on_to(r, e, sequence);
	else if (e->done - sequence >= WIRE_IN_FLIGHT_MAX)
		return;
	if (likely(outcome == WIRE_OK && !e->refusals))
		return;
	*outcome_of(r, e, sequence) = outcome;
	e->refusals = 1;
	/* Now and then it is seen that the refusals are long over. */
	if ((sequence & (WIRE_IN_FLIGHT_MAX - 1)) == 0 &&
	    memcmp(r->outcomes[e - r->entries], all_executed, sizeof(all_executed)) == 0)
		e->refusals = 0;
}

/* How a request ended that is not later than the last one. */
static uint8_t outcome(struct replay *r, const struct entry *e, uint64_t sequence)
{
	if (e->done - sequence >= WIRE_IN_FLIGHT_MAX)
		return UNKNOWN;
	return e->refusals ? *outcome_of(r, e, sequence) : (uint8_t)WIRE_OK;
}

/* The oldest that nobody owns forgets its session; 0: there is none. */
static uint32_t take_oldest(struct replay *r, uint64_t session)
{
	const uint32_t at = oldest(r);
	struct entry *e = &r->entries[at];
	uint32_t *link;

	if (!at) {
		r->forgot = true; /* what is executed of this session is not remembered */
		return 0;
	}
	if (e->session) {
		r->forgot = true;
		for (link = bucket_of(r, e->session); *link != at;)
			link = &r->entries[*link].next;
		*link = e->next;
	}
	begin_outcomes(r, e);
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
	uint32_t at = find_entry_of(r, frame->session);
	const bool known = at != 0;
	struct rpc_work *former;
	struct entry *e;

	if (!known)
		at = take_oldest(r, frame->session);
	if (!at)
		return;
	e = &r->entries[at];
	if (!(frame->flags & WIRE_GOES_ON)) {
		begin_outcomes(r, e);
		e->unknown = 0;
	} else if (!known) {
		e->unknown = r->forgot;
	}
	w->refuses = e->done ? outcome(r, e, e->done) : (uint8_t)WIRE_OK;
	if (!wire_status_is_busy(w->refuses))
		w->refuses = WIRE_OK;
	former = e->owner;
	e->owner = w;
	w->replay = at;
	if (!former)
		return;
	e->busy |= is_executing(former); /* or one before it still is */
	if (!former->peer)		 /* gone already: it only finishes what it has begun */
		return;
	if (former->is_session)
		rpc_session_give_up(session_of(former));
	else
		link_abort(former);
}

/* Of what was executed elsewhere: what was refused since is tried again. */
static bool is_repeated(uint8_t before)
{
	return before == WIRE_OK || before == UNKNOWN;
}

enum replay_verdict rpc_replay_look(struct replay *r, struct rpc_work *w, enum wire_status *status)
{
	const struct wire_frame *frame = &w->request.frame;
	const struct entry *e;
	uint8_t before;

	if (unlikely(!w->replay) && frame->session)
		claim(r, w);
	e = &r->entries[w->replay];
	if (unlikely(e->session != frame->session || !w->replay)) /* a peer has one session */
		return frame->flags & WIRE_RESENT ? REPLAY_FORGOTTEN : REPLAY_RUN;
	if (unlikely(e->busy))
		return REPLAY_WAIT;
	if (likely(!(frame->flags & WIRE_RESENT)))
		return REPLAY_RUN;
	if (frame->sequence > e->done)
		return e->unknown ? REPLAY_FORGOTTEN : REPLAY_RUN;
	before = outcome(r, e, frame->sequence);
	*status = before;
	if (unlikely(frame->flags & WIRE_KEPT))
		return is_repeated(before) ? REPLAY_REPEATED : REPLAY_RUN;
	return before == WIRE_OK ? REPLAY_REPEATED : before == UNKNOWN ? REPLAY_FORGOTTEN : REPLAY_REFUSED;
}

void rpc_replay_done(struct replay *r, struct rpc_work *w, enum wire_status status)
{
	const struct wire_frame *frame = &w->request.frame;
	struct entry *e = &r->entries[w->replay];

	if (!w->replay || e->session != frame->session)
		return;
	set_outcome(r, e, frame->sequence, (uint8_t)status);
	if (unlikely(e->owner != w))
		e->busy = 0;
}

static struct rpc_outcome outcome_at(const struct replay *r, uint32_t at)
{
	const struct entry *e = &r->entries[at];

	return (struct rpc_outcome){ .session = at ? e->session : 0,
				     .sequence = e->done,
				     .ended = e->refusals ? r->outcomes[at] : NULL,
				     .forgot = r->forgot,
				     .unknown = e->unknown };
}

struct rpc_outcome rpc_replay_outcome(const struct replay *r, const struct rpc_work *w)
{
	const bool has = w->replay && r->entries[w->replay].session == w->request.frame.session;

	return outcome_at(r, has ? w->replay : 0);
}

bool rpc_replay_next(const struct replay *r, uint32_t *at, struct rpc_outcome *outcome)
{
	while (*at < r->sessions) {
		++*at;
		*outcome = outcome_at(r, *at);
		if (outcome->session)
			return true;
	}
	return false;
}

void rpc_replay_restore(struct replay *r, const struct rpc_outcome *outcome)
{
	uint32_t at = find_entry_of(r, outcome->session);
	struct entry *e;

	if (!at) {
		at = take_oldest(r, outcome->session);
		/* Nobody owns it: it stays in the line, behind those that have been there for longer. */
		if (at)
			line_up(r, at);
	}
	r->forgot |= outcome->forgot;
	if (!at)
		return;
	e = &r->entries[at];
	e->done = outcome->sequence;
	e->refusals = outcome->ended != NULL;
	e->unknown = outcome->unknown;
	if (outcome->ended)
		memcpy(r->outcomes[at], outcome->ended, sizeof(r->outcomes[at]));
	else
		memset(r->outcomes[at], WIRE_OK, sizeof(r->outcomes[at]));
}

static void look_at_progress(struct progress *p, uint32_t life, uint64_t durable)
{
	if (p->life != life)
		p->first = 0;
	p->life = life;
	if (p->first && p->next_at <= durable) {
		p->first = p->next < p->last ? p->next + 1 : 0;
		p->next = p->last;
		p->next_at = p->last_at;
	}
	if (p->first && p->next_at <= durable)
		p->first = 0;
}

bool rpc_replay_note(struct replay *r, struct rpc_work *w, uint32_t life, uint64_t until)
{
	const uint64_t sequence = w->request.frame.sequence;
	struct progress *p = &r->progress[w->replay];

	if (!w->replay || r->entries[w->replay].session != w->request.frame.session)
		return false;
	look_at_progress(p, life, 0);
	if (!p->first) {
		p->first = p->next = sequence;
		p->next_at = until;
	}
	if (sequence < p->first)
		p->first = sequence;
	p->last = sequence > p->next ? sequence : p->next;
	p->last_at = until;
	return true;
}

uint32_t rpc_replay_behind(struct replay *r, const struct rpc_work *w, uint32_t life, uint64_t durable)
{
	const uint64_t sequence = w->request.frame.sequence;
	struct progress *p = &r->progress[w->replay];

	if (!w->replay || r->entries[w->replay].session != w->request.frame.session)
		return UINT32_MAX;
	look_at_progress(p, life, durable);
	if (!p->first || sequence < p->first)
		return 0;
	return sequence - p->first < UINT32_MAX - 1 ? (uint32_t)(sequence - p->first) + 1 : UINT32_MAX;
}

uint32_t rpc_replay_ahead(struct replay *r, const struct rpc_work *w)
{
	const uint64_t sequence = w->request.frame.sequence;
	const struct entry *e = &r->entries[w->replay];
	uint64_t at = sequence;

	if (!w->replay || e->session != w->request.frame.session || e->done <= sequence ||
	    e->done - sequence > UINT32_MAX)
		return 0;
	/* Of earlier ones nothing else is known. */
	if (e->done - at >= WIRE_IN_FLIGHT_MAX)
		at = e->done - WIRE_IN_FLIGHT_MAX;
	while (at < e->done && is_repeated(outcome(r, e, at + 1)))
		at++;
	return (uint32_t)(at - sequence);
}

void rpc_replay_leave(struct replay *r, struct rpc_work *w)
{
	const uint32_t at = w->replay;
	struct entry *e = &r->entries[at];

	w->replay = 0;
	if (!at || e->owner != w)
		return;
	e->owner = NULL;
	if (!e->lined)
		line_up(r, at);
}
