/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of the control path: one line per event on standard error, as "2026-11-22T09:15:02.117Z level text", as
 * logfmt pairs, or, for systemd's journal, with a priority and without the time. Of each message (format string) at
 * most LOG_LINES_MAX lines are written in LOG_WINDOW_US; then the number of suppressed ones is logged. Thread-safe (one
 * write per line). After log_open a pipe, terminal or socket that nobody reads does not block the process: lines
 * without room are lost, and their number is logged. Never called in a reactor's turn, which `make lint` checks.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_LEVELS };
enum log_format { LOG_TEXT, LOG_LOGFMT };
enum { LOG_LINES_MAX = 100, LOG_WINDOW_US = 10000000 };

/* Sets the format, and finds out whether standard error is connected to the journal. Without this call lines are
 * text. */
void log_open(enum log_format format);
void log_set_level(enum log_level level);
enum log_level log_get_level(void);
/* debug, info, warning, error; NULL: there is no such level. */
const char *log_level_name(enum log_level level);
bool log_level_from(const char *name, enum log_level *level);
/* Logs how many lines were suppressed in windows that have ended at that time (clock_us). Call it from time to time,
 * and with UINT64_MAX at the end. */
void log_tell_held(uint64_t now_us);

/* The last events at info and above, whether or not they were written, for `starctl events`. */
enum { LOG_KEPT = 1024, LOG_KEPT_TEXT = 240 };
struct log_event {
	uint64_t ms; /* since 1970 */
	enum log_level level;
	char text[LOG_KEPT_TEXT];
};
/* Copies events since a time, at that level and above: the last `max` of them, oldest first. Returns how many. */
unsigned log_events(uint64_t since_ms, enum log_level level, struct log_event *to, unsigned max);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)

#endif
