/* SPDX-License-Identifier: BSD-3-Clause */
#include "rpc/replay.h"

#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/hash.h"
#include "rpc/link.h"

enum { UNKNOWN = UINT8_MAX }; /* no request has reported this outcome */
#define SECOND_NS UINT64_C(1000000000)

/* The lists of sessions without an owner, in the order in which they lost it. */
enum line {
	LINE_NONE,
	LINE_ENDED, /* forgotten before all others */
	LINE_LEFT,
	LINES
};

_Static_assert((WIRE_IN_FLIGHT_MAX & (WIRE_IN_FLIGHT_MAX - 1)) == 0, "outcomes are indexed by a mask");

/* Entries are counted from 1; 0: none. */
struct entry {
	uint64_t session;
	uint64_t done; /* the highest sequence that has ended: executed or refused */
	struct rpc_work *owner;
	uint32_t next;	       /* in its bucket */
	uint32_t line : 2;     /* enum line */
	uint32_t refusals : 1; /* some of the last requests were not executed; the outcomes say which */
	uint32_t busy : 1;     /* a request of its former owner is still being executed */
	uint32_t unknown : 1;  /* it was resumed here, and may have been forgotten before */
	uint32_t told : 1;     /* the standby or journal has been told of this session */
	uint32_t replaces : 1; /* ... or still has the session that used this entry before, and must forget it */
};
_Static_assert(sizeof(struct entry) == 32, "two of them share a cache line");

struct place {
	uint64_t replaced; /* with entry.replaces: the number of that earlier session */
	uint32_t older, newer;
	uint32_t left_s; /* when it lost its owner */
	uint32_t crowd;	 /* in LINE_LEFT: which count of left[] includes it */
};

/* The requests of a session that are not durable yet: sequences from `first` on; 0: none. Those up to `next` are
 * durable at position next_at, those up to `last` at last_at. */
struct progress {
	uint64_t first, next, next_at, last, last_at;
	uint32_t life;
};

struct replay {
	uint64_t secret;
	uint32_t mask; /* of buckets */
	uint32_t sessions;
	uint32_t used;	  /* entries up to this one have been used */
	uint32_t count;	  /* entries in use now */
	uint32_t since_s; /* leases begin at this time at the earliest */
	struct {
		uint32_t first, last;
	} lines[LINES];
	bool forgot; /* a session was forgotten, so an unknown session may be one of those */
	uint32_t *buckets;
	struct entry *entries;	      /* [0] is not used */
	struct place *places;	      /* one per entry */
	uint32_t left[REPLAY_CROWDS]; /* sessions in LINE_LEFT, counted by the addresses of their last owners */
	/* One per entry: how its last requests ended, by sequence: enum wire_status or UNKNOWN. Not touched while all
	 * are executed. */
	uint8_t (*outcomes)[WIRE_IN_FLIGHT_MAX];
	struct progress *progress; /* one per entry; touched only if replies are retained */
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
	r->places = calloc((size_t)sessions + 1, sizeof(*r->places));
	base_cores_without_rest(r->entries, ((size_t)sessions + 1) * sizeof(*r->entries));
	base_cores_without_rest(r->outcomes, ((size_t)sessions + 1) * sizeof(*r->outcomes));
	base_cores_without_rest(r->progress, ((size_t)sessions + 1) * sizeof(*r->progress));
	base_cores_without_rest(r->places, ((size_t)sessions + 1) * sizeof(*r->places));
	if (!r->buckets || !r->entries || !r->outcomes || !r->progress || !r->places) {
		rpc_replay_destroy(r);
		return NULL;
	}
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
	free(r->places);
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

/* Appends the entry to a list. */
static void line_up(struct replay *r, uint32_t at, enum line line, uint32_t crowd, uint64_t now_ns)
{
	const uint32_t last = r->lines[line].last;

	if (line == LINE_LEFT)
		r->left[crowd]++;
	r->places[at].crowd = crowd;
	r->entries[at].line = line;
	r->places[at].older = last;
	r->places[at].newer = 0;
	r->places[at].left_s = (uint32_t)(now_ns / SECOND_NS);
	if (last)
		r->places[last].newer = at;
	else
		r->lines[line].first = at;
	r->lines[line].last = at;
}

static void line_out(struct replay *r, uint32_t at)
{
	const enum line line = (enum line)r->entries[at].line;
	const struct place *p = &r->places[at];

	if (line == LINE_NONE)
		return;
	if (line == LINE_LEFT)
		r->left[p->crowd]--;
	if (p->older)
		r->places[p->older].newer = p->newer;
	else
		r->lines[line].first = p->newer;
	if (p->newer)
		r->places[p->newer].older = p->older;
	else
		r->lines[line].last = p->older;
	r->entries[at].line = LINE_NONE;
}

static uint8_t *outcome_of(struct replay *r, const struct entry *e, uint64_t sequence)
{
	return &r->outcomes[e - r->entries][sequence & (WIRE_IN_FLIGHT_MAX - 1)];
}

/* Resets the session: none of its requests has been executed or refused yet. */
static void begin_outcomes(struct replay *r, struct entry *e)
{
	if (e->refusals)
		memset(r->outcomes[e - r->entries], WIRE_OK, sizeof(*r->outcomes));
	e->refusals = 0;
	e->done = 0;
	if (unlikely(r->progress[e - r->entries].first))
		r->progress[e - r->entries].first = 0;
}

/* The newest request so far has ended. If sequences before it were skipped, nothing is known of these. */
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
	/* From time to time this checks whether the last refusal is long past. */
	if ((sequence & (WIRE_IN_FLIGHT_MAX - 1)) == 0 &&
	    memcmp(r->outcomes[e - r->entries], all_executed, sizeof(all_executed)) == 0)
		e->refusals = 0;
}

/* The outcome of a request that is not newer than the last one that has ended. */
static uint8_t outcome(struct replay *r, const struct entry *e, uint64_t sequence)
{
	if (e->done - sequence >= WIRE_IN_FLIGHT_MAX)
		return UNKNOWN;
	return e->refusals ? *outcome_of(r, e, sequence) : (uint8_t)WIRE_OK;
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

/* Forgets the session; its entry is in no list. */
static void forget(struct replay *r, uint32_t at)
{
	struct entry *e = &r->entries[at];
	uint32_t *link = bucket_of(r, e->session);

	while (*link != at)
		link = &r->entries[*link].next;
	*link = e->next;
	/* If the standby or journal was not told of this session, it still knows the one before it. */
	if (e->told) {
		r->places[at].replaced = e->session;
		e->replaces = 1;
	}
	begin_outcomes(r, e);
	e->session = 0;
	r->forgot = true;
	r->count--;
}

/* Finds a session that will not send its requests again. 0: there is none. */
static uint32_t find_evictable(struct replay *r, const struct rpc_server *server, uint64_t now_ns)
{
	const uint32_t now_s = (uint32_t)(now_ns / SECOND_NS);
	uint32_t at = r->lines[LINE_ENDED].first;

	if (at)
		return at;
	at = r->lines[LINE_LEFT].first;
	for (unsigned i = 0; at && i < REPLAY_UNDURABLE_MAX; i++, at = r->places[at].newer) {
		const uint32_t left_s = r->places[at].left_s > r->since_s ? r->places[at].left_s : r->since_s;
		struct progress *p = &r->progress[at];

		if (now_s - left_s < REPLAY_LEASE_S)
			return 0;
		if (p->first)
			look_at_progress(p, server->life, server->durable);
		if (!p->first && !r->entries[at].busy)
			return at;
	}
	return 0;
}

/* Finds an entry for this session; 0: there is none. any: every session without an owner may be replaced. */
static uint32_t place_session(struct replay *r, const struct rpc_server *server, uint64_t session, uint64_t now_ns,
			      bool any)
{
	uint32_t at = r->used < r->sessions ? ++r->used : any ? 0 : find_evictable(r, server, now_ns);
	struct entry *e;
	uint32_t *link;

	if (!at && any)
		at = r->lines[LINE_ENDED].first ? r->lines[LINE_ENDED].first : r->lines[LINE_LEFT].first;
	if (!at)
		return 0;
	line_out(r, at);
	e = &r->entries[at];
	if (e->session)
		forget(r, at);
	link = bucket_of(r, session);
	*e = (struct entry){ .session = session, .next = *link, .replaces = e->replaces };
	*link = at;
	r->count++;
	return at;
}

/* Whether it executes a request, or has yet to send the reply. */
static bool is_executing(struct rpc_work *w)
{
	if (!w->request.begun)
		return false;
	return w->is_session ? session_of(w)->state == SESSION_READY : stream_of(w)->state == STREAM_READY;
}

static void claim(struct replay *r, struct rpc_work *w, uint64_t now_ns)
{
	const struct wire_frame *frame = &w->request.frame;
	uint32_t at = find_entry_of(r, frame->session);
	const bool known = at != 0;
	struct rpc_work *former;
	struct entry *e;

	if (!known)
		at = place_session(r, w->server, frame->session, now_ns, false);
	if (!at)
		return;
	line_out(r, at);
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
	e->busy |= is_executing(former); /* or an earlier owner's request still is */
	if (!former->peer)		 /* closed already: it only finishes the request that it has begun */
		return;
	if (former->is_session)
		rpc_session_give_up(session_of(former));
	else
		link_abort(former);
}

/* For a request that was executed elsewhere: one that was refused there is tried again. */
static bool is_repeated(uint8_t before)
{
	return before == WIRE_OK || before == UNKNOWN;
}

/* For a request whose session has no entry, or not with this peer. */
static enum replay_verdict look_without(const struct replay *r, const struct rpc_work *w)
{
	const bool finds_none = w->request.frame.session && !w->replay;

	/* A repeated request of an unknown session: it has not been executed, unless sessions were forgotten. */
	if (w->request.frame.flags & WIRE_RESENT)
		return finds_none && !r->forgot ? REPLAY_FULL : REPLAY_FORGOTTEN;
	return finds_none ? REPLAY_FULL : REPLAY_RUN;
}

enum replay_verdict rpc_replay_look(struct replay *r, struct rpc_work *w, uint64_t now_ns, enum wire_status *status)
{
	const struct wire_frame *frame = &w->request.frame;
	const struct entry *e;
	uint8_t before;

	if (unlikely(!w->replay) && frame->session)
		claim(r, w, now_ns);
	e = &r->entries[w->replay];
	if (unlikely(e->session != frame->session || !w->replay)) /* a peer may have one session only */
		return look_without(r, w);
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

/* The session came back after it was forgotten, and has been reported since. */
static bool is_told(struct replay *r, uint64_t session)
{
	return r->entries[find_entry_of(r, session)].told;
}

/* The same, for the standby or journal. */
static struct rpc_outcome tell_outcome(struct replay *r, uint32_t at)
{
	struct rpc_outcome outcome = outcome_at(r, at);
	struct entry *e = &r->entries[at];

	if (!outcome.session)
		return outcome;
	e->told = 1;
	if (unlikely(e->replaces) && !is_told(r, r->places[at].replaced))
		outcome.replaces = r->places[at].replaced;
	e->replaces = 0;
	return outcome;
}

struct rpc_outcome rpc_replay_outcome(struct replay *r, const struct rpc_work *w)
{
	const bool has = w->replay && r->entries[w->replay].session == w->request.frame.session;

	return tell_outcome(r, has ? w->replay : 0);
}

bool rpc_replay_next(struct replay *r, uint32_t *at, struct rpc_outcome *outcome)
{
	while (*at < r->used) {
		++*at;
		*outcome = tell_outcome(r, *at);
		if (outcome->session)
			return true;
	}
	return false;
}

uint32_t rpc_replay_count(const struct replay *r)
{
	return r->count;
}

void rpc_replay_begin(struct replay *r, uint64_t now_ns)
{
	r->since_s = (uint32_t)(now_ns / SECOND_NS);
}

void rpc_replay_restore(struct replay *r, const struct rpc_outcome *outcome, uint64_t now_ns)
{
	uint32_t at = find_entry_of(r, outcome->session);
	struct entry *e = &r->entries[at];

	if (outcome->sequence == REPLAY_GONE) {
		r->forgot = true;
		if (!at || e->owner)
			return;
		line_out(r, at);
		forget(r, at);
		line_up(r, at, LINE_ENDED, REPLAY_ANYBODY, now_ns);
		return;
	}
	/* A node with more entries may report more sessions than fit here; then those that were reported first are
	 * replaced. */
	if (!at)
		at = place_session(r, NULL, outcome->session, now_ns, true);
	r->forgot |= outcome->forgot;
	if (!at)
		return;
	e = &r->entries[at];
	if (!e->owner) {
		line_out(r, at);
		line_up(r, at, LINE_LEFT, REPLAY_ANYBODY, now_ns);
	}
	e->told = 1;
	e->done = outcome->sequence;
	e->refusals = outcome->ended != NULL;
	e->unknown = outcome->unknown;
	if (outcome->ended)
		memcpy(r->outcomes[at], outcome->ended, sizeof(r->outcomes[at]));
	else
		memset(r->outcomes[at], WIRE_OK, sizeof(r->outcomes[at]));
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
	/* Nothing is known of earlier ones. */
	if (e->done - at >= WIRE_IN_FLIGHT_MAX)
		at = e->done - WIRE_IN_FLIGHT_MAX;
	while (at < e->done && is_repeated(outcome(r, e, at + 1)))
		at++;
	return (uint32_t)(at - sequence);
}

/* Whether the address has not used up its share of the entries that are kept for sessions without an owner. */
static bool has_share(const struct replay *r, uint32_t crowd)
{
	return crowd == REPLAY_ANYBODY || r->left[crowd] < REPLAY_LEFT / REPLAY_SHARES;
}

void rpc_replay_leave(struct replay *r, struct rpc_work *w, uint32_t crowd, uint64_t now_ns, bool ended)
{
	const uint32_t at = w->replay;
	struct entry *e = &r->entries[at];

	w->replay = 0;
	if (!at || e->owner != w)
		return;
	e->owner = NULL;
	if (!e->busy && !r->progress[at].first && (ended || !has_share(r, crowd)))
		line_up(r, at, LINE_ENDED, crowd, now_ns);
	else
		line_up(r, at, LINE_LEFT, crowd, now_ns);
}
