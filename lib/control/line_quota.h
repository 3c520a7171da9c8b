/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What principals use of a line server, and may (secure/quota.h): how many connections each has, and how many requests
 * a second it sends. A principal is remembered when it has no connection any more, or each further one would have a
 * second's worth of its own. The server's thread only.
 */
#ifndef CONTROL_LINE_QUOTA_H
#define CONTROL_LINE_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "secure/keys.h"
#include "secure/quota.h"

struct line_guest {
	struct line_guest *next;
	char principal[SECURE_NAME_MAX + 1];
	enum secure_role role;
	uint64_t connections_max, requests_max; /* 0: no quota */
	struct secure_bucket bucket;
	uint32_t connections;
	uint64_t requests; /* that it was let send */
	uint64_t refused_connections, refused_requests;
};

/* The principal's place, with its quotas as they are now where it is new; NULL: out of memory. */
struct line_guest *control_line_guest_find(struct line_guest **guests, const struct secure_key *principal,
					   const struct secure_quotas *quotas);
void control_line_guest_limit(struct line_guest *guest, const struct secure_quotas *quotas);
/* One connection more; false: it is over its quota. */
bool control_line_guest_enter(struct line_guest *guest);
/* One request more; false: it is over its quota. */
bool control_line_guest_ask(struct line_guest *guest, uint64_t now_us);
/* Frees those that are not to stay and have no connection; NULL: all. */
void control_line_guests_free(struct line_guest **guests, bool (*stays)(void *ctx, const struct line_guest *guest),
			      void *ctx);

#endif
