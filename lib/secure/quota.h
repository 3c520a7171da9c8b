/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much a principal may use of a node: lines "limit PRINCIPAL NAME=NUMBER..." of the file of rights (rights.h). Each
 * reactor has a share of every quota, and counts by itself. Limits are written by control threads and read by reactors;
 * each reactor has its own accounts.
 */
#ifndef SECURE_QUOTA_H
#define SECURE_QUOTA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(NAME, name in files, maximum). Those of the data network come first, in the order of wire_status; then those of the
 * control plane. */
#define SECURE_QUOTA_LIST(X) \
	X(CONNECTIONS, connections, UINT64_C(1) << 30) \
	X(SESSIONS, sessions, UINT64_C(1) << 30) \
	X(IN_FLIGHT, in_flight, UINT64_C(1) << 50) \
	X(REQUESTS, requests, UINT64_C(1000000000)) \
	X(NEW_ROWS, new_rows, UINT64_C(1000000000)) \
	X(MEMORY, memory, UINT64_C(1) << 50) \
	X(CONTROL_CONNECTIONS, control_connections, UINT64_C(1) << 30) \
	X(CONTROL_REQUESTS, control_requests, UINT64_C(1000000000))

enum secure_quota {
#define X(NAME, name, max) SECURE_QUOTA_##NAME,
	SECURE_QUOTA_LIST(X)
#undef X
		SECURE_QUOTAS,
	SECURE_QUOTAS_DATA = SECURE_QUOTA_CONTROL_CONNECTIONS,
	/* number of those of the data network */
};

/* A principal's quotas; 0: none. */
struct secure_quotas {
	uint64_t max[SECURE_QUOTAS];
};

/* The quotas of all principals that may get tickets, by account. */
enum { SECURE_ACCOUNTS = 4096 };
struct secure_limits {
	_Atomic(bool) any;
	_Atomic(uint64_t) max[SECURE_ACCOUNTS][SECURE_QUOTAS_DATA];
};

/* A token bucket with the size of one second. `left` below 0 is a debt, which is paid back first. */
struct secure_bucket {
	int64_t left;
	uint64_t filled_ns; /* 0: it is full */
};

/* What a principal uses of one reactor. */
struct secure_account {
	uint32_t connections, sessions;
	uint64_t in_flight; /* bytes of requests that are not answered */
	struct secure_bucket requests, rows;
	bool rows_limited;
	uint64_t now_ns;     /* of the current request */
	uint64_t memory_max; /* 0: none */
	uint64_t memory_ns;  /* when all tables were last added up */
	bool memory_full;
	/* For adding up tables in steps: the next table, and the total of those before it. */
	uint32_t memory_at;
	uint64_t memory_bytes;
	/* Since the reactor's start: requests that were accepted and rows that they have created (only if there are
	 * such quotas), and refusals by quota. */
	uint64_t served, made;
	uint64_t refused[SECURE_QUOTAS_DATA];
};

/* What a principal uses of a node, and refusals, by quota. Connections, sessions and bytes are current values; requests
 * and rows are counted since the node's start. */
struct secure_usage {
	uint64_t used[SECURE_QUOTAS], refused[SECURE_QUOTAS];
};

const char *secure_quota_name(enum secure_quota quota);
/* Parses "NAME=NUMBER", n bytes, and adds it. NULL, or what is wrong. */
const char *secure_quota_read(struct secure_quotas *quotas, const char *word, size_t n);

/* A reactor's share of a quota, which is never 0 if there is a quota. */
static inline uint64_t secure_quota_share(uint64_t max, uint32_t shares)
{
	return (max + shares - 1) / shares;
}
/* Refills a bucket for the time that has passed. a_second: tokens per second, not 0. */
void secure_bucket_fill(struct secure_bucket *bucket, uint64_t a_second, uint64_t now_ns);

#endif
