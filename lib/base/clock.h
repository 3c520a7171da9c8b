/* SPDX-License-Identifier: BSD-3-Clause */
/* Time. Code below the reactor gets the time as an argument; only loops and the control path read a clock. */
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

/* Microseconds since 1970, as in files. 0 if the clock is set to an earlier date, as on a machine without a battery. */
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

/* A time of clock_ns as a struct timespec. */
static inline struct timespec clock_timespec(uint64_t ns)
{
	return (struct timespec){ (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
}

/* Initializes a condition whose timed waits use CLOCK_MONOTONIC, which cannot be set back. */
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
 * Nanoseconds of CLOCK_MONOTONIC at a third of its cost: the clock is read every CLOCK_TRUST_CYCLES, and in between the
 * time is computed from the time stamp counter. So whatever that counter does (it may differ between cores, or change
 * its frequency), the error is never larger than that interval; and the time never goes back. One thread at a time.
 * Initialize it with zeros.
 */
struct clock {
	uint64_t cycles, ns; /* when it was read */
	uint64_t scale;	     /* nanoseconds per cycle, times 2^32; at most one nanosecond */
	uint64_t told;	     /* the last answer */
};

#define CLOCK_TRUST_CYCLES (UINT64_C(1) << 16)

static inline uint64_t clock_renew(struct clock *c)
{
	const uint64_t ns = clock_ns(), cycles = clock_cycles(), passed = cycles - c->cycles;

	/* After a second (or the first time) that says nothing about the frequency. */
	if (ns - c->ns < 1000000000u && passed >= CLOCK_TRUST_CYCLES)
		c->scale = ((ns - c->ns) << 32) / passed;
	if (c->scale >> 32) /* the counter has stopped, or is another core's */
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
