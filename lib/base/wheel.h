/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hierarchical timer wheel: 4 levels of 256 slots, ticks of 2^16 ns (65.5 us), a range of some 78 hours. Timers are
 * members of other structs; arming and cancelling costs a few instructions and no memory. A wheel belongs to one
 * thread. After Varghese and Lauck, SOSP 1987, scheme 7.
 */
#ifndef BASE_WHEEL_H
#define BASE_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#define WHEEL_TICK_SHIFT 16
#define WHEEL_LEVELS 4
#define WHEEL_SLOTS 256

struct wheel_timer {
	struct wheel_timer *next;
	struct wheel_timer **link; /* what points at this one; NULL while not armed */
	uint64_t tick;
	void (*fire)(struct wheel_timer *timer, uint64_t now_ns);
};

struct wheel {
	uint64_t tick;	/* all timers of earlier ticks have fired */
	uint32_t armed; /* timers in the wheel */
	uint64_t occupied[WHEEL_LEVELS][WHEEL_SLOTS / 64];
	struct wheel_timer *slots[WHEEL_LEVELS][WHEEL_SLOTS];
};

void wheel_init(struct wheel *w, uint64_t now_ns);

/* Arms (or moves) a timer; it fires at the first advance at or after when_ns, never before it. */
void wheel_arm(struct wheel *w, struct wheel_timer *timer, uint64_t when_ns);
void wheel_cancel(struct wheel *w, struct wheel_timer *timer);

static inline bool wheel_armed(const struct wheel_timer *timer)
{
	return timer->link != 0;
}

/* Fires timers that are due at now_ns, at most max of them (the others at the next call); returns how many. While a
 * timer fires it may arm and cancel any timer, including itself. */
unsigned wheel_advance(struct wheel *w, uint64_t now_ns, unsigned max);

/* A time before which no timer is due, that is, until when a loop may sleep; UINT64_MAX: none is armed. */
uint64_t wheel_next(const struct wheel *w);

#endif
