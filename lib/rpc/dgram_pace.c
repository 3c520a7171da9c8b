/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timers shorter than the tick of the stack's wheel: a ring of slots of one microsecond, with one bit each that says
 * whether sessions wait there (as in Carousel: Saeed et al., SIGCOMM 2017). A time beyond the ring's range waits in its
 * last slot, and is checked again then.
 */
#include "rpc/dgram_internal.h"

enum { MASK = DGRAM_PACE_SLOTS - 1 };

void dgram_pace_at(struct dgram_session *s, uint64_t when_ns)
{
	struct dgram *d = s->dgram;
	uint64_t slot = (when_ns + (1u << DGRAM_PACE_SHIFT) - 1) >> DGRAM_PACE_SHIFT;
	unsigned at;

	if (s->listed & 1 << DGRAM_PACED)
		return;
	if (d->paced == 0)
		d->pace_slot = dgram_now(d) >> DGRAM_PACE_SHIFT;
	slot = RTE_MAX(slot, d->pace_slot);
	slot = RTE_MIN(slot, d->pace_slot + DGRAM_PACE_SLOTS - 1);
	at = (unsigned)(slot & MASK);
	s->listed |= 1 << DGRAM_PACED;
	s->next[DGRAM_PACED] = d->slots[at];
	d->slots[at] = s;
	d->slots_used[at / 64] |= UINT64_C(1) << at % 64;
	d->paced++;
}

/* The distance from pace_slot to the first used slot; there is one. */
static unsigned distance(const struct dgram *d)
{
	const unsigned from = (unsigned)(d->pace_slot & MASK);

	for (unsigned i = 0; i <= DGRAM_PACE_SLOTS / 64; i++) {
		const unsigned word = (from / 64 + i) % (DGRAM_PACE_SLOTS / 64);
		uint64_t bits = d->slots_used[word];

		if (i == 0)
			bits &= ~UINT64_C(0) << from % 64;
		if (bits)
			return (word * 64 + (unsigned)__builtin_ctzll(bits) - from) & MASK;
	}
	return 0;
}

/* Bounded by the slots, and by the sessions in them. */
void dgram_pace_turn(struct dgram *d, uint64_t now_ns)
{
	const uint64_t now_slot = now_ns >> DGRAM_PACE_SHIFT;

	while (d->paced) {
		const uint64_t slot = d->pace_slot + distance(d);
		const unsigned at = (unsigned)(slot & MASK);
		struct dgram_session *s = d->slots[at];

		if (slot > now_slot)
			break;
		d->pace_slot = slot;
		d->slots[at] = NULL;
		d->slots_used[at / 64] &= ~(UINT64_C(1) << at % 64);
		while (s) {
			struct dgram_session *next = s->next[DGRAM_PACED];

			s->listed &= (uint8_t) ~(1 << DGRAM_PACED);
			d->paced--;
			if (s->state == DGRAM_OPEN) {
				dgram_recovery_detect(s, now_ns);
				list_put(s, DGRAM_DUE);
			}
			s = next;
		}
	}
	if (d->paced == 0)
		d->pace_slot = now_slot;
}

uint64_t dgram_pace_next_ns(const struct dgram *d)
{
	return d->paced ? (d->pace_slot + distance(d)) << DGRAM_PACE_SHIFT : UINT64_MAX;
}
