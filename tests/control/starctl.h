/* SPDX-License-Identifier: BSD-3-Clause */
/* starctl as a function. */
#ifndef TESTS_CONTROL_STARCTL_H
#define TESTS_CONTROL_STARCTL_H

/* What one call printed. */
struct outcome {
	int status;
	char *out, *errors;
};

/* Words are separated by single blanks; "@" stands for the path. */
struct outcome starctl(const char *sockets, const char *words, const char *path);
void release(struct outcome *outcome);

#endif
