/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/line_quota.h"

#include <stdlib.h>
#include <string.h>

void control_line_guest_limit(struct line_guest *guest, const struct secure_quotas *quotas)
{
	guest->connections_max = quotas->max[SECURE_QUOTA_CONTROL_CONNECTIONS];
	if (guest->requests_max != quotas->max[SECURE_QUOTA_CONTROL_REQUESTS])
		guest->bucket.filled_ns = 0; /* a full second of the new rate */
	guest->requests_max = quotas->max[SECURE_QUOTA_CONTROL_REQUESTS];
}

struct line_guest *control_line_guest_find(struct line_guest **guests, const struct secure_key *principal,
					   const struct secure_quotas *quotas)
{
	struct line_guest *g = *guests;

	while (g && strcmp(g->principal, principal->principal) != 0)
		g = g->next;
	if (g)
		return g;
	g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	memcpy(g->principal, principal->principal, sizeof(g->principal));
	g->role = principal->role;
	control_line_guest_limit(g, quotas);
	g->next = *guests;
	*guests = g;
	return g;
}

bool control_line_guest_enter(struct line_guest *guest)
{
	if (guest->connections_max && guest->connections >= guest->connections_max) {
		guest->refused_connections++;
		return false;
	}
	guest->connections++;
	return true;
}

bool control_line_guest_ask(struct line_guest *guest, uint64_t now_us)
{
	if (guest->requests_max) {
		secure_bucket_fill(&guest->bucket, guest->requests_max, now_us * 1000);
		if (guest->bucket.left <= 0) {
			guest->refused_requests++;
			return false;
		}
		guest->bucket.left--;
	}
	guest->requests++;
	return true;
}

void control_line_guests_free(struct line_guest **guests, bool (*stays)(void *ctx, const struct line_guest *guest),
			      void *ctx)
{
	while (*guests) {
		struct line_guest *g = *guests;

		if (stays && (g->connections || stays(ctx, g))) {
			guests = &g->next;
			continue;
		}
		*guests = g->next;
		free(g);
	}
}
