/* SPDX-License-Identifier: BSD-3-Clause */
/* When a reactor's stream gets its marks. */
#include "journal/ring.h"
#include "tests/service/cases.h"

enum { AFTER_NS = 250000, LATE = 1000 };

static struct journal_ring *ring;
static uint64_t now_ns;

/* A push of a row, and the end of its turn. Whether there is a mark behind it. */
static bool push_is_marked(struct peer *peer, uint64_t ns, bool busy)
{
	const uint64_t key = 1;
	const float gradient = 1;
	unsigned hurry;

	push(peer, COUNTS, &key, &gradient, 1);
	CHECK(ring->head != ring->marked);
	now_ns += ns;
	hurry = service_journal_turn(shard.service, now_ns, busy);
	CHECK_UINT(ring->published, ring->head);
	CHECK_UINT(hurry, ring->marked != ring->head); /* another turn follows */
	return ring->marked == ring->head;
}

static void settle(void)
{
	service_journal_turn(shard.service, now_ns, false);
	CHECK_UINT(ring->marked, ring->head);
	journal_free_to(ring, JOURNAL_DISK, ring->head);
	service_journal_turn(shard.service, now_ns, false);
}

/* Without durable replies, and where workers keep their pushes and no reply is held, marks come now and then, and at
 * the end of a turn that has nothing to do; where a reply waits for one, with the turn. */
void a_mark_waits_where_nobody_waits_for_it(void)
{
	static const struct {
		bool on, patient, waits;
	} kinds[] = { { false, false, true }, { true, false, false }, { true, true, true } };
	struct peer *peer = shard_simple(60);

	now_ns = RIG_S * LATE; /* whatever the link's time is */
	ring = journal_ring_create(1, RIG_S, NULL);
	if (!CHECK(ring))
		return;
	service_journal_begin(shard.service, ring);
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (kinds[i].on && !ring->gate.on)
			journal_gate_begin(ring, 1u << JOURNAL_DISK);
		ring->gate.patient = kinds[i].patient;
		settle();
		CHECK_INT(push_is_marked(peer, 1, true), !kinds[i].waits);
		settle();
		CHECK(push_is_marked(peer, 1, false));
		settle();
		CHECK(push_is_marked(peer, AFTER_NS, true));
	}
	service_journal_begin(shard.service, NULL);
	journal_ring_destroy(ring);
	shard_stop();
}

/* The record that the stream has at this position; then the position behind it. */
static const struct journal_record *next_record(uint64_t *at)
{
	const struct journal_record *record = (const struct journal_record *)journal_at(ring, *at);

	*at += record->bytes;
	return record;
}

static void outcome_is(uint64_t *at, unsigned flags, uint64_t session, uint64_t sequence)
{
	const struct journal_record *record = next_record(at);
	const struct journal_outcome *o = (const struct journal_outcome *)(record + 1);

	CHECK_UINT(record->kind, JOURNAL_OUTCOME);
	CHECK_UINT(record->flags, flags);
	CHECK_UINT(o->session, session);
	CHECK_UINT(o->sequence, sequence);
}

/* A node that goes on from the stream has a place for a session before it is told of it. */
void who_is_forgotten_is_told_of_first(void)
{
	uint64_t at;

	shard_simple(61);
	now_ns = RIG_S * LATE;
	ring = journal_ring_create(1, RIG_S, NULL);
	if (!CHECK(ring))
		return;
	service_journal_begin(shard.service, ring);
	settle();
	at = ring->head;
	service_journal_outcome(shard.service, &(struct rpc_outcome){ .session = 7, .sequence = 5 });
	service_journal_outcome(shard.service, &(struct rpc_outcome){ .session = 8, .sequence = 6, .replaces = 7 });
	outcome_is(&at, 0, 7, 5);
	outcome_is(&at, JOURNAL_FORGOT, 7, JOURNAL_GONE);
	outcome_is(&at, 0, 8, 6);
	CHECK_UINT(at, ring->head);
	service_journal_begin(shard.service, NULL);
	journal_ring_destroy(ring);
	shard_stop();
}
