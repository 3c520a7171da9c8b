/* SPDX-License-Identifier: BSD-3-Clause */
/* CPU time: of this thread by getrusage, of the server's process and of its core by /proc. */
#include "app/starbench/starbench.h"

#include "base/clock.h"
#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static uint64_t ticks_us(uint64_t ticks)
{
	return ticks * 1000000u / (uint64_t)sysconf(_SC_CLK_TCK);
}

static uint64_t own_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000u +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* User and system time of all threads of a process: fields 14 and 15 of /proc/PID/stat (proc(5)). */
static uint64_t process_us(int pid)
{
	char path[64], text[1024];
	uint64_t user = 0, system = 0;
	const char *after;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	/* The name before it may contain anything. */
	after = base_read_line(path, text, sizeof(text)) ? strrchr(text, ')') : NULL;
	if (!after ||
	    sscanf(after + 1, "%*s %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64, &user, &system) != 2)
		return 0;
	return ticks_us(user + system);
}

/* Time that a core was not idle, softirqs included, by /proc/stat. */
static uint64_t core_us(int core)
{
	char name[32], text[512];
	uint64_t t[8], busy = 0;
	FILE *file = fopen("/proc/stat", "re");

	if (!file)
		return 0;
	snprintf(name, sizeof(name), "cpu%d ", core);
	while (fgets(text, sizeof(text), file))
		if (strncmp(text, name, strlen(name)) == 0 &&
		    sscanf(text + strlen(name),
			   "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64,
			   &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) == 8) {
			/* user, nice, system, irq, softirq; not idle, iowait, steal */
			busy = t[0] + t[1] + t[2] + t[5] + t[6];
			break;
		}
	fclose(file);
	return ticks_us(busy);
}

void cpu_read(const struct options *options, struct cpu_sample *sample)
{
	sample->server_us = options->server_pid ? process_us(options->server_pid) : 0;
	sample->core_us = options->server_core >= 0 ? core_us(options->server_core) : 0;
	sample->client_us = own_us();
	sample->ns = clock_ns();
}
