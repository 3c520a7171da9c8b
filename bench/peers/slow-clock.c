/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time that passes more slowly, for LD_PRELOAD: valgrind runs a program that much slower than it is, and both sides of
 * a connection would take that for pauses and losses. Only what is asked of clock_gettime; sleeps and timeouts of the
 * kernel last as long as ever.
 */
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLOWER = 64 };

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *time)
{
	const long status = syscall(SYS_clock_gettime, clock, time);
	const uint64_t ns = ((uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec) / SLOWER;

	if (status == 0 && clock == CLOCK_MONOTONIC)
		*time = (struct timespec){ (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
	return (int)status;
}
