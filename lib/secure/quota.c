/* SPDX-License-Identifier: BSD-3-Clause */
#include "secure/quota.h"

#include <string.h>

#define SECOND_NS UINT64_C(1000000000)

static const struct {
	const char *name;
	uint64_t max;
} known[SECURE_QUOTAS] = {
#define X(NAME, word, most) { #word, most },
	SECURE_QUOTA_LIST(X)
#undef X
};

static const struct {
	const char *name;
	uint64_t factor;
} units[] = { { "", 1 },
	      { "k", 1000 },
	      { "M", 1000000 },
	      { "G", 1000000000 },
	      { "KiB", UINT64_C(1) << 10 },
	      { "MiB", UINT64_C(1) << 20 },
	      { "GiB", UINT64_C(1) << 30 },
	      { "TiB", UINT64_C(1) << 40 } };

const char *secure_quota_name(enum secure_quota quota)
{
	return known[quota].name;
}

/* Parses digits and a unit; 0: invalid, or too large. */
static uint64_t read_number(const char *at, size_t n, uint64_t max)
{
	uint64_t number = 0;
	size_t digits = 0;

	for (; digits < n && at[digits] >= '0' && at[digits] <= '9' && number <= max; digits++)
		number = 10 * number + (uint64_t)(at[digits] - '0');
	if (!digits || number > max)
		return 0;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strlen(units[i].name) == n - digits && memcmp(units[i].name, at + digits, n - digits) == 0)
			return number > max / units[i].factor ? 0 : number * units[i].factor;
	return 0;
}

const char *secure_quota_read(struct secure_quotas *quotas, const char *word, size_t n)
{
	const char *sign = memchr(word, '=', n);
	const size_t name = sign ? (size_t)(sign - word) : 0;

	for (unsigned i = 0; sign && i < SECURE_QUOTAS; i++) {
		if (strlen(known[i].name) != name || memcmp(known[i].name, word, name) != 0)
			continue;
		if (quotas->max[i])
			return "a quota is given twice";
		quotas->max[i] = read_number(sign + 1, n - name - 1, known[i].max);
		return quotas->max[i]
			       ? NULL
			       : "a quota is a number of 1 or more, such as 1000, 50k, 20M, or 512MiB, that is not too "
				 "large; for none, leave it out";
	}
	return "the quotas are connections, sessions, in_flight, requests, new_rows and memory, and "
	       "control_connections and control_requests, each as NAME=NUMBER";
}

void secure_bucket_fill(struct secure_bucket *b, uint64_t a_second, uint64_t now_ns)
{
	const uint64_t ns = now_ns - b->filled_ns;
	uint64_t come;

	if (!b->filled_ns) {
		*b = (struct secure_bucket){ .left = (int64_t)a_second, .filled_ns = now_ns ? now_ns : 1 };
		return;
	}
	if (ns / SECOND_NS > 1000000) { /* the whole debt has been paid */
		b->left = (int64_t)a_second;
		b->filled_ns = now_ns;
		return;
	}
	come = ns / SECOND_NS * a_second + ns % SECOND_NS * a_second / SECOND_NS;
	/* The time of an incomplete token is not lost. */
	b->filled_ns += come / a_second * SECOND_NS + come % a_second * SECOND_NS / a_second;
	b->left += (int64_t)come;
	if (b->left > (int64_t)a_second) {
		b->left = (int64_t)a_second;
		b->filled_ns = now_ns;
	}
}
