/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/wheel.h"

#include <string.h>

void wheel_init(struct wheel *w, uint64_t now_ns)
{
	memset(w, 0, sizeof(*w));
	w->tick = now_ns >> WHEEL_TICK_SHIFT;
}

/* Level l has timers that are due within 256^(l+1) ticks, by bits 8l to 8l+7 of the tick. */
static void place_timer(struct wheel *w, struct wheel_timer *timer)
{
	const uint64_t reach = (UINT64_C(1) << (8 * WHEEL_LEVELS)) - 1;
	uint64_t tick = timer->tick, distance;
	unsigned level = 0, slot;

	if (tick < w->tick)
		tick = w->tick;
	if (tick - w->tick > reach)
		tick = w->tick + reach; /* beyond the range: it is placed at the end, and then again by its own tick */
	distance = tick - w->tick;
	while (level < WHEEL_LEVELS - 1 && distance >> (8 * (level + 1)))
		level++;
	slot = tick >> (8 * level) & (WHEEL_SLOTS - 1);
	timer->next = w->slots[level][slot];
	if (timer->next)
		timer->next->link = &timer->next;
	timer->link = &w->slots[level][slot];
	w->slots[level][slot] = timer;
	w->occupied[level][slot / 64] |= UINT64_C(1) << slot % 64;
}

void wheel_arm(struct wheel *w, struct wheel_timer *timer, uint64_t when_ns)
{
	wheel_cancel(w, timer);
	timer->tick = (when_ns + (1u << WHEEL_TICK_SHIFT) - 1) >> WHEEL_TICK_SHIFT;
	place_timer(w, timer);
	w->armed++;
}

void wheel_cancel(struct wheel *w, struct wheel_timer *timer)
{
	if (!timer->link)
		return;
	*timer->link = timer->next;
	if (timer->next)
		timer->next->link = timer->link;
	timer->link = 0;
	w->armed--;
}

/* Removes a slot's list from the wheel; its timers stay linked to *list, so they can still be cancelled. */
static void detach_list(struct wheel *w, unsigned level, unsigned slot, struct wheel_timer **list)
{
	*list = w->slots[level][slot];
	if (*list)
		(*list)->link = list;
	w->slots[level][slot] = 0;
	w->occupied[level][slot / 64] &= ~(UINT64_C(1) << slot % 64);
}

static void unlink_first(struct wheel_timer **list)
{
	struct wheel_timer *timer = *list;

	*list = timer->next;
	if (timer->next)
		timer->next->link = list;
	timer->link = 0;
}

/* At a multiple of 256^level, the timers of that level's slot are distributed to the levels below. */
static void cascade(struct wheel *w)
{
	for (unsigned level = 1; level < WHEEL_LEVELS; level++) {
		struct wheel_timer *list;

		if (w->tick & ((UINT64_C(1) << (8 * level)) - 1))
			return;
		detach_list(w, level, w->tick >> (8 * level) & (WHEEL_SLOTS - 1), &list);
		while (list) {
			struct wheel_timer *timer = list;

			unlink_first(&list);
			place_timer(w, timer);
		}
	}
}

/* The first occupied slot of a level at or after slot `from`, or WHEEL_SLOTS. */
static unsigned next_occupied(const struct wheel *w, unsigned level, unsigned from)
{
	for (unsigned word = from / 64; word < WHEEL_SLOTS / 64; word++) {
		uint64_t bits = w->occupied[level][word];

		if (word == from / 64)
			bits &= ~UINT64_C(0) << from % 64;
		if (bits)
			return word * 64 + (unsigned)__builtin_ctzll(bits);
	}
	return WHEEL_SLOTS;
}

unsigned wheel_advance(struct wheel *w, uint64_t now_ns, unsigned max)
{
	const uint64_t due = now_ns >> WHEEL_TICK_SHIFT;
	unsigned fired = 0;

	while (w->tick <= due && fired < max) {
		const uint64_t tick = w->tick;
		const unsigned slot = tick & (WHEEL_SLOTS - 1);
		struct wheel_timer *list;

		if (w->armed == 0) {
			w->tick = due + 1;
			return fired;
		}
		detach_list(w, 0, slot, &list);
		/* Skips empty ticks up to the next occupied slot or cascade. The tick advances before anything fires,
		 * so a timer that is armed for "now" is still ahead. */
		w->tick = tick + (list ? 1 : next_occupied(w, 0, slot + 1) - slot);
		if (w->tick > due + 1)
			w->tick = due + 1;
		if (!(w->tick & (WHEEL_SLOTS - 1)))
			cascade(w);
		while (list) {
			struct wheel_timer *timer = list;

			unlink_first(&list);
			if (timer->tick > tick || fired == max) {
				place_timer(w, timer);
				continue;
			}
			w->armed--;
			fired++;
			timer->fire(timer, now_ns);
		}
	}
	return fired;
}

uint64_t wheel_next(const struct wheel *w)
{
	uint64_t earliest = UINT64_MAX;

	if (w->armed == 0)
		return UINT64_MAX;
	for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
		const uint64_t turn = w->tick >> (8 * level);
		const unsigned current = turn & (WHEEL_SLOTS - 1);
		/* Above level 0 the current slot was distributed already: its timers belong to the next round. */
		unsigned slot = next_occupied(w, level, current + (level > 0));
		uint64_t tick;

		if (slot == WHEEL_SLOTS) {
			slot = next_occupied(w, level, 0);
			if (slot == WHEEL_SLOTS)
				continue;
			slot += WHEEL_SLOTS;
		}
		tick = (turn - current + slot) << (8 * level);
		if (tick < earliest)
			earliest = tick;
	}
	return earliest == UINT64_MAX ? earliest : earliest << WHEEL_TICK_SHIFT;
}
