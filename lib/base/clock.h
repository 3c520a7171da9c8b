/* SPDX-License-Identifier: BSD-3-Clause */
/* Time. Everything below the reactor is handed its time; only loops and the control path read a clock. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

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

/* Cycles of the time stamp counter, for measurements. */
static inline uint64_t clock_cycles(void)
{
	return __builtin_ia32_rdtsc();
}

#endif
