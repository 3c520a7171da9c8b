/* SPDX-License-Identifier: BSD-3-Clause */
#include "rpc/quota.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

_Static_assert(WIRE_QUOTA_MEMORY - WIRE_QUOTA_CONNECTIONS == SECURE_QUOTAS_DATA - 1, "a status for each");
_Static_assert(SECURE_ACCOUNTS < UINT16_MAX, "as a stream's or session's");

#define READ(figure) __atomic_load_n(&(figure), __ATOMIC_RELAXED)

int rpc_quota_init(struct rpc_server *server)
{
	if (!server->options.tickets)
		return 0;
	server->limits = secure_tickets_limits(server->options.tickets);
	server->accounts = calloc(SECURE_ACCOUNTS, sizeof(*server->accounts)); /* most of its pages are never touched */
	return server->accounts ? 0 : -ENOMEM;
}

/* This reactor's share of a quota; 0: no limit. */
static uint64_t share_of(struct rpc_work *w, enum secure_quota quota)
{
	const uint64_t max =
		atomic_load_explicit(&w->server->limits->max[*quota_account(w) - 1][quota], memory_order_relaxed);

	return secure_quota_share(max, w->server->options.reactors ? w->server->options.reactors : 1);
}

static struct secure_account *account_of(struct rpc_work *w)
{
	return &w->server->accounts[*quota_account(w) - 1];
}

enum wire_status rpc_quota_enter(struct rpc_work *w, const struct secure_guest *guest)
{
	struct rpc_counters *counters = &w->server->counters;
	uint32_t *count;
	uint64_t max;

	*quota_account(w) = (uint16_t)(guest->account + 1);
	count = w->is_session ? &account_of(w)->sessions : &account_of(w)->connections;
	max = share_of(w, w->is_session ? SECURE_QUOTA_SESSIONS : SECURE_QUOTA_CONNECTIONS);
	if (likely(!max || *count < max)) {
		++*count;
		return WIRE_OK;
	}
	account_of(w)->refused[w->is_session ? SECURE_QUOTA_SESSIONS : SECURE_QUOTA_CONNECTIONS]++;
	*quota_account(w) = 0;
	*(w->is_session ? &counters->quota_sessions : &counters->quota_connections) += 1;
	return w->is_session ? WIRE_QUOTA_SESSIONS : WIRE_QUOTA_CONNECTIONS;
}

void rpc_quota_leave(struct rpc_work *w)
{
	if (!*quota_account(w))
		return;
	*(w->is_session ? &account_of(w)->sessions : &account_of(w)->connections) -= 1;
	*quota_account(w) = 0;
}

bool rpc_quota_take_bytes(struct rpc_work *w, uint32_t bytes)
{
	struct secure_account *account = account_of(w);
	const uint64_t max = share_of(w, SECURE_QUOTA_IN_FLIGHT);

	/* A single request is always let in, however large: otherwise it never would be. */
	if (max && account->in_flight && account->in_flight + bytes > max) {
		w->server->counters.quota_in_flight++;
		account->refused[SECURE_QUOTA_IN_FLIGHT]++;
		return false;
	}
	account->in_flight += bytes;
	return true;
}

void rpc_quota_give_bytes(struct rpc_work *w, uint32_t bytes)
{
	if (*quota_account(w))
		account_of(w)->in_flight -= bytes;
}

void rpc_quota_request(struct rpc_work *w)
{
	const uint64_t max = share_of(w, SECURE_QUOTA_REQUESTS);
	struct secure_account *account = account_of(w);
	struct secure_bucket *bucket = &account->requests;

	if (max) {
		secure_bucket_fill(bucket, max, net_now_ns(w->server->options.net));
		if (bucket->left > 0)
			bucket->left--;
		else if (w->refusal == WIRE_OK)
			w->refusal = WIRE_QUOTA_REQUESTS;
	}
	account->served += w->refusal == WIRE_OK;
	if (w->refusal != WIRE_QUOTA_REQUESTS)
		return;
	account->refused[SECURE_QUOTA_REQUESTS]++;
	w->server->counters.quota_requests++;
}

struct secure_account *rpc_request_account(const struct rpc_request *request)
{
	struct rpc_work *w = work_of((struct rpc_request *)(uintptr_t)request);
	struct secure_account *account;
	uint64_t rows;

	if (likely(!quota_any(w->server)) || !*quota_account(w))
		return NULL;
	account = account_of(w);
	account->now_ns = net_now_ns(w->server->options.net);
	rows = share_of(w, SECURE_QUOTA_NEW_ROWS);
	account->rows_limited = rows != 0;
	account->memory_max = share_of(w, SECURE_QUOTA_MEMORY);
	if (rows)
		secure_bucket_fill(&account->rows, rows, account->now_ns);
	return rows || account->memory_max ? account : NULL;
}

void rpc_request_over_quota(const struct rpc_request *request, enum wire_status status)
{
	struct rpc_work *w = work_of((struct rpc_request *)(uintptr_t)request);
	struct rpc_counters *counters = &w->server->counters;

	if (*quota_account(w))
		account_of(w)->refused[status == WIRE_QUOTA_MEMORY ? SECURE_QUOTA_MEMORY : SECURE_QUOTA_NEW_ROWS]++;
	*(status == WIRE_QUOTA_MEMORY ? &counters->quota_memory : &counters->quota_new_rows) += 1;
}

enum rpc_progress rpc_quota_refuse(struct rpc_work *w)
{
	const enum secure_quota quota = (enum secure_quota)(w->refusal - WIRE_QUOTA_CONNECTIONS);

	return rpc_reply_fail(&w->request, (enum wire_status)w->refusal,
			      "%s: %" PRIu64 " is this reactor's share (security.rights: limit ... %s=); retry later",
			      wire_status_text(w->refusal), share_of(w, quota), secure_quota_name(quota));
}

void rpc_quota_usage(const struct rpc_server *server, uint32_t account, struct secure_usage *sum)
{
	const struct secure_account *a = &server->accounts[account];

	sum->used[SECURE_QUOTA_CONNECTIONS] += READ(a->connections);
	sum->used[SECURE_QUOTA_SESSIONS] += READ(a->sessions);
	sum->used[SECURE_QUOTA_IN_FLIGHT] += READ(a->in_flight);
	sum->used[SECURE_QUOTA_REQUESTS] += READ(a->served);
	sum->used[SECURE_QUOTA_NEW_ROWS] += READ(a->made);
	for (unsigned q = 0; q < SECURE_QUOTAS_DATA; q++)
		sum->refused[q] += READ(a->refused[q]);
}

const char *rpc_quota_text(enum wire_status status)
{
	return status == WIRE_QUOTA_SESSIONS ? "the principal has as many sessions here as its quota allows "
					       "(security.rights: limit ... sessions=): close some, or raise it"
					     : "the principal has as many connections here as its quota allows "
					       "(security.rights: limit ... connections=): close some, or raise it";
}
