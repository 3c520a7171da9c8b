/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/nearest.h"

#include <string.h>

enum { LENGTH_MAX = 64 };

/* Wagner and Fischer, J. ACM 1974, with one row. */
static unsigned distance(const char *a, const char *b)
{
	const size_t a_bytes = strnlen(a, LENGTH_MAX), b_bytes = strnlen(b, LENGTH_MAX);
	unsigned row[LENGTH_MAX + 1];

	for (size_t j = 0; j <= b_bytes; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= a_bytes; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b_bytes; j++) {
			unsigned best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[b_bytes];
}

const char *nearest_name(const char *text, const void *names, size_t entry_bytes)
{
	const char *best = NULL, *name;
	unsigned least = 0;

	for (const char *entry = names; (name = *(const char *const *)entry); entry += entry_bytes) {
		const unsigned d = distance(text, name);

		if (!best || d < least) {
			best = name;
			least = d;
		}
	}
	return best;
}
