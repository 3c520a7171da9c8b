/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much a principal may use of a node: lines "limit PRINCIPAL NAME=NUMBER..." of the file of rights (rights.h). A
 * reactor has its share of each, and counts by itself. Limits are written by control threads and read by reactors;
 * accounts are each reactor's own.
 */
#ifndef SECURE_QUOTA_H
#define SECURE_QUOTA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, its name in files, the most that may be said). Those of the data network come first, in the order of
 * wire_status; then those of the control plane, of which there is one a node. */
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
	SECURE_QUOTAS_DATA = SECURE_QUOTA_CONTROL_CONNECTIONS, /* of the data network */
};

/* 0: there is none. */
struct secure_quotas {
	uint64_t max[SECURE_QUOTAS];
};

/* Of all principals that have tickets, by their accounts. */
enum { SECURE_ACCOUNTS = 4096 };
struct secure_limits {
	_Atomic(bool) any;
	_Atomic(uint64_t) max[SECURE_ACCOUNTS][SECURE_QUOTAS_DATA];
};

/* A rate: what is left of one second's worth. Below 0: what was taken beyond it is paid back first. */
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
	uint64_t now_ns;     /* of the request at hand */
	uint64_t memory_max; /* 0: none */
	uint64_t memory_ns;  /* when all of it was looked at last */
	bool memory_full;
	/* Of the look that goes on: the next table, and what those before it have. */
	uint32_t memory_at;
	uint64_t memory_bytes;
	/* Since the reactor began: requests that it was let send and rows that they made, where there are such quotas;
	 * and how often it was over each. */
	uint64_t served, made;
	uint64_t refused[SECURE_QUOTAS_DATA];
};

/* What one uses of a node, and how often it was refused, by quota: connections, sessions and bytes are those of this
 * moment, requests and rows all since the node began. */
struct secure_usage {
	uint64_t used[SECURE_QUOTAS], refused[SECURE_QUOTAS];
};

const char *secure_quota_name(enum secure_quota quota);
/* "NAME=NUMBER", n bytes: adds it. NULL, or why it is none. */
const char *secure_quota_read(struct secure_quotas *quotas, const char *word, size_t n);

/* A share of it: never 0 where there is a quota. */
static inline uint64_t secure_quota_share(uint64_t max, uint32_t shares)
{
	return (max + shares - 1) / shares;
}
/* Fills it up by the time that has gone. a_second: not 0. */
void secure_bucket_fill(struct secure_bucket *bucket, uint64_t a_second, uint64_t now_ns);

#endif
