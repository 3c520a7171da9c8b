/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the service writes to the journal, beside what the store writes: how requests of sessions have ended, and marks.
 * At a mark no request is half executed. A restart restores the state at the last mark, so it has a request completely
 * or not at all, and likewise its outcome.
 */
#include "service/internal.h"

#include <errno.h>

#include "store/journal.h"
#include "wire/pair.h"

enum {
	MARK_NS = 200000,   /* while there are requests, a mark is written this often */
	HOLD_NS = 20000000, /* if no mark was possible for this long, large requests wait for one */
};

static bool is_journal_whole(const struct service *service)
{
	return !service->large_owner && !service->changing;
}

static void mark(struct service *service, uint64_t now_ns)
{
	store_journal_tables(service->options.store);
	journal_mark(service->journal);
	service->journal_holds = false;
	service->journal_marked_ns = now_ns;
}

void service_journal_begin(struct service *service, struct journal_ring *ring)
{
	service->journal = ring;
	service->journal_instant = 0;
	service->journal_holds = false;
	store_journal_begin(service->options.store, ring);
	if (ring && service->sums_opened)
		service_journal_sums(service);
}

void service_journal_joined(struct service *service)
{
	store_journal_begin(service->options.store, service->journal);
	if (service->sums_opened)
		service_journal_sums(service);
}

bool service_journal_settle(struct service *service, uint64_t now_ns)
{
	if (!is_journal_whole(service))
		return false;
	mark(service, now_ns);
	return !service->journal->lost;
}

void service_journal_outcome(struct service *service, const struct rpc_outcome *o)
{
	const unsigned flags = (o->ended ? JOURNAL_REFUSALS : 0) | (o->forgot ? JOURNAL_FORGOT : 0) |
			       (o->unknown ? JOURNAL_UNKNOWN : 0);
	struct journal_outcome *to;

	if (unlikely(o->replaces)) {
		to = journal_take(service->journal, JOURNAL_OUTCOME, JOURNAL_FORGOT, (uint32_t)sizeof(*to));
		if (!to)
			return;
		to->session = o->replaces;
		to->sequence = JOURNAL_GONE;
	}
	to = journal_take(service->journal, JOURNAL_OUTCOME, flags,
			  (uint32_t)sizeof(*to) + (o->ended ? WIRE_IN_FLIGHT_MAX : 0));
	if (!to)
		return;
	to->session = o->session;
	to->sequence = o->sequence;
	if (o->ended)
		memcpy(to->ended, o->ended, WIRE_IN_FLIGHT_MAX);
}

void service_ended(void *ctx, const struct rpc_outcome *outcome)
{
	struct service *service = ctx;

	/* A request in slices may have begun before its primary went on alone, without a stream. */
	if (!service->journal)
		return;
	if (outcome->session)
		service_journal_outcome(service, outcome);
	/* One large request may follow another without a turn between them. The time is that of the last slice; small
	 * requests, which have none, leave the mark to the end of the turn. */
	if (is_journal_whole(service) && (int64_t)(service->now_ns - service->journal_marked_ns) >= MARK_NS)
		mark(service, service->now_ns);
}

/* Whether an executed request has only looked rows up, though that may have created some. */
static bool only_pulls(const struct rpc_request *request)
{
	struct rpc_cursor at = request->payload;
	uint64_t done = 0;
	struct wire_op op;

	while (done < request->frame.payload_bytes) {
		rpc_cursor_copy(&at, &op, sizeof(op));
		if (op.kind != WIRE_PULL)
			return false;
		rpc_cursor_skip(&at, wire_padded(op.body_bytes));
		done += sizeof(op) + wire_padded(op.body_bytes);
	}
	return true;
}

uint64_t service_held_until(void *ctx, const struct rpc_request *request)
{
	const struct service *service = ctx;
	const uint64_t at = service->journal ? journal_durable_at(service->journal) : 0;

	return at && !(request && only_pulls(request)) ? at : 0;
}

unsigned service_journal_turn(struct service *service, uint64_t now_ns, bool busy)
{
	struct journal_ring *ring = service->journal;

	if (ring->head == ring->marked) { /* pulls write nothing */
		service->journal_marked_ns = now_ns;
		return 0;
	}
	if (busy)
		journal_look(ring, now_ns);
	if (is_journal_whole(service) &&
	    (!busy || (ring->gate.on && !ring->gate.patient) || now_ns - service->journal_marked_ns >= MARK_NS))
		mark(service, now_ns);
	else if (now_ns - service->journal_marked_ns >= HOLD_NS)
		service->journal_holds = true;
	journal_publish(ring);
	return ring->head != ring->marked;
}

void service_journal_instant(struct service *service, uint64_t id)
{
	store_journal_tables(service->options.store);
	journal_instant(service->journal, id);
	service->journal_instant = id;
}

uint64_t service_journal_sessions_due(const struct service *service)
{
	return service->journal_instant;
}

void service_journal_sessions_done(struct service *service, uint64_t id)
{
	struct journal_ring *ring = service->journal;
	struct journal_instant *instant = journal_take(ring, JOURNAL_SESSIONS, 0, sizeof(*instant));

	service->journal_instant = 0;
	if (!instant)
		return;
	instant->id = id;
	journal_publish(ring);
	/* They come after the last checkpoint's instant, too. */
	__atomic_store_n(&ring->sessions_of, id == PAIR_INSTANT ? ring->instant_id : id, __ATOMIC_RELEASE);
}

void service_journal_sums(struct service *service)
{
	journal_take(service->journal, JOURNAL_SUMS, 0, 0);
}

void service_load_life_end(struct service *service, uint32_t lives)
{
	for (uint32_t id = 1; id <= service->tables_last; id++)
		if (service->tables[id])
			store_load_life_end(service->tables[id], lives);
}

int service_load_cleared(struct service *service, uint32_t id)
{
	if (id < 1 || id > WIRE_OBJECTS_MAX || !service->tables[id])
		return -ENOENT;
	store_load_cleared(service->tables[id]);
	return 0;
}
