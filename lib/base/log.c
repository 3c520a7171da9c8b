/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static enum log_level log_threshold = LOG_INFO;

void log_set_level(enum log_level level)
{
	__atomic_store_n(&log_threshold, level, __ATOMIC_RELAXED);
}

void log_write(enum log_level level, const char *format, ...)
{
	static const char *const names[] = { "debug", "info", "warning", "error" };
	struct timespec now;
	struct tm parts;
	char line[1024];
	va_list args;
	int used;

	if (level < __atomic_load_n(&log_threshold, __ATOMIC_RELAXED))
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &parts);
	used = (int)strftime(line, sizeof(line), "%H:%M:%S", &parts);
	used += snprintf(line + used, sizeof(line) - used, ".%03ld %s ", now.tv_nsec / 1000000, names[level]);
	va_start(args, format);
	used += vsnprintf(line + used, sizeof(line) - used, format, args);
	va_end(args);
	if (used > (int)sizeof(line) - 2)
		used = sizeof(line) - 2;
	line[used++] = '\n';
	if (write(STDERR_FILENO, line, used) < 0)
		return; /* nobody reads it: there is nowhere to say so */
}
