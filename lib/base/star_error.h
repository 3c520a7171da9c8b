/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors of the control path: a call returns 0 or a negative errno, and fills a star_error with one sentence that
 * says what is wrong and what to do. Part of libstar's public interface. A star_error belongs to its caller: no
 * state is shared between threads.
 */
#ifndef STAR_ERROR_H
#define STAR_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

#define STAR_API __attribute__((visibility("default")))

struct star_error {
	int code; /* negative errno; 0 while nothing went wrong */
	char text[508];
};

/*
 * Fills *err (which may be NULL) and returns code, so that a caller can write `return star_error_set(err, -EINVAL,
 * "...")`. A text that is too long is truncated. Control characters other than tabs, which may come from the contents
 * of a file, become question marks.
 */
STAR_API int star_error_set(struct star_error *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif
#endif
