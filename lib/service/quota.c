/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Quotas of new rows and of memory (secure/quota.h). How much a request creates is known only afterwards: it may exceed
 * the quota, and its principal's next requests wait until that is paid back. Memory means all memory of the tables in
 * which the principal may create rows, whoever created them: rows belong to tables, not to principals.
 */
#include "service/internal.h"

#include "secure/quota.h"

#define MEMORY_LOOK_NS UINT64_C(10000000)
enum { MEMORY_TABLES = 256 }; /* per request: some microseconds */

/* Continues with the tables at which the last request stopped. */
static void look_at_tables_memory(const struct service *service, const _Atomic(uint8_t) *rights,
				  struct secure_account *account)
{
	const uint32_t end = RTE_MIN(account->memory_at + MEMORY_TABLES, service->tables_last + 1);
	uint64_t bytes = account->memory_bytes;

	for (uint32_t id = account->memory_at; id < end && bytes < account->memory_max; id++)
		if (service->tables[id] && atomic_load_explicit(&rights[id], memory_order_relaxed) & SECURE_CREATE)
			bytes += store_table_stats(service->tables[id])->memory_bytes;
	if (end <= service->tables_last && bytes < account->memory_max) {
		account->memory_at = end;
		account->memory_bytes = bytes;
		return;
	}
	account->memory_at = 0;
	account->memory_bytes = 0;
	account->memory_ns = account->now_ns;
	account->memory_full = bytes >= account->memory_max;
}

uint8_t service_over_quota(const struct service *service, const struct rpc_request *request,
			   const _Atomic(uint8_t) *rights)
{
	struct secure_account *account = service->options.account ? service->options.account(request) : NULL;

	if (likely(!account))
		return 0;
	if (account->rows_limited && account->rows.left <= 0)
		return LACKS_NEW_ROWS;
	if (!account->memory_max || !rights)
		return 0;
	/* All tables are added up, which takes time: not for each request, and not all at once. */
	if (!account->memory_ns || account->now_ns - account->memory_ns >= MEMORY_LOOK_NS)
		look_at_tables_memory(service, rights, account);
	return account->memory_full ? LACKS_MEMORY : 0;
}

struct quota_count service_quota_count(const struct service *service, const struct rpc_request *request)
{
	struct quota_count count = { .account = service->options.account(request) };

	if (count.account)
		count.made = store_made(service->options.store);
	return count;
}

void service_quota_charge(const struct service *service, const struct quota_count *count)
{
	const uint64_t made = store_made(service->options.store) - count->made;

	count->account->made += made;
	if (count->account->rows_limited)
		count->account->rows.left -= (int64_t)made;
}
