/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/nearest.h"

#include <string.h>

enum { LENGTH_MAX = 96 };

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	a = a < b ? a : b;
	return a < c ? a : c;
}

unsigned nearest_distance(const char *a, const char *b)
{
	unsigned rows[3][LENGTH_MAX + 1], *before = rows[0], *above = rows[1], *row = rows[2];
	size_t na = strnlen(a, LENGTH_MAX), nb = strnlen(b, LENGTH_MAX);

	for (size_t j = 0; j <= nb; j++)
		above[j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		unsigned *oldest = before;

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= nb; j++) {
			row[j] = min3(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < row[j])
				row[j] = before[j - 2] + 1;
		}
		before = above;
		above = row;
		row = oldest;
	}
	return above[nb];
}

const char *nearest_name(const char *text, const void *names, size_t entry_bytes)
{
	const char *best = NULL, *name;
	unsigned least = 0;

	for (const char *entry = names; (name = *(const char *const *)entry); entry += entry_bytes) {
		const unsigned d = nearest_distance(text, name);

		if (!best || d < least) {
			best = name;
			least = d;
		}
	}
	return best;
}
