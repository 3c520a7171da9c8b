/* SPDX-License-Identifier: BSD-3-Clause */
/* Time. Everything below the reactor is handed its time; only loops and the control path read a clock. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Nanoseconds of CLOCK_MONOTONIC (the vDSO: no system call). */
static inline uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_us(void)
{
	return clock_ns() / 1000;
}

/* Microseconds since 1970, as files have them: by a clock that is set to before, as that of a machine without a battery
 * may be, 0. */
static inline uint64_t clock_date_us_of(const struct timespec *now)
{
	return now->tv_sec < 0 ? 0 : (uint64_t)now->tv_sec * 1000000 + (uint64_t)now->tv_nsec / 1000;
}

static inline uint64_t clock_date_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return clock_date_us_of(&now);
}

/* The same moment as the C library's calls take it: of clock_ns. */
static inline struct timespec clock_timespec(uint64_t ns)
{
	return (struct timespec){ (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
}

/* A condition whose waits end by this clock, which nobody sets back. */
static inline void clock_condition_init(pthread_cond_t *condition)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

/* Cycles of the time stamp counter, for measurements and for struct clock. */
static inline uint64_t clock_cycles(void)
{
	return __builtin_ia32_rdtsc();
}

/*
 * Nanoseconds of CLOCK_MONOTONIC at a third of its cost: read again when CLOCK_TRUST_CYCLES have passed, and told by
 * the time stamp counter in between. So whatever that counter does (it differs from core to core, it changes its
 * frequency), this is never wrong by more than such a moment; and it never goes back. One thread at a time. Begins with
 * zeros.
 */
struct clock {
	uint64_t cycles, ns; /* when it was read */
	uint64_t scale;	     /* nanoseconds a cycle, times 2^32; one at most */
	uint64_t told;	     /* the last answer */
};

#define CLOCK_TRUST_CYCLES (UINT64_C(1) << 16)

static inline uint64_t clock_renew(struct clock *c)
{
	const uint64_t ns = clock_ns(), cycles = clock_cycles(), passed = cycles - c->cycles;

	/* After a second (or the first time) that says nothing about the frequency. */
	if (ns - c->ns < 1000000000u && passed >= CLOCK_TRUST_CYCLES)
		c->scale = ((ns - c->ns) << 32) / passed;
	if (c->scale >> 32) /* the counter has stood still, or is another core's */
		c->scale = 0;
	c->cycles = cycles;
	c->ns = ns;
	return ns;
}

static inline uint64_t clock_read(struct clock *c)
{
	const uint64_t cycles = clock_cycles() - c->cycles;
	const uint64_t ns = cycles < CLOCK_TRUST_CYCLES ? c->ns + (cycles * c->scale >> 32) : clock_renew(c);

	if (ns > c->told)
		c->told = ns;
	return c->told;
}

#endif
