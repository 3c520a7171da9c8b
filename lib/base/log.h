/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of the control path: one line an event on standard error, "time level text". Thread-safe (one write a
 * line). Never called in a reactor's turn: `make lint` sees to that.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_set_level(enum log_level level);
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)

#endif
