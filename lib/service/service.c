/* SPDX-License-Identifier: BSD-3-Clause */
#include "service/internal.h"

#include <errno.h>
#include <stdlib.h>

#include "wire/layout.h"

struct service *service_create(const struct service_options *options, struct star_error *err)
{
	struct service *service =
		aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(sizeof(*service), RTE_CACHE_LINE_SIZE));

	if (!service) {
		star_error_set(err, -ENOMEM, "no memory for a shard's service");
		return NULL;
	}
	memset(service, 0, sizeof(*service));
	service->options = *options;
	service->small_push = store_push_create(SMALL_PUSH_KEYS, SLICE_BYTES, err);
	service->large_push = store_push_create(WIRE_KEYS_MAX, WIRE_PAYLOAD_MAX, err);
	if (!service->small_push || !service->large_push) {
		service_destroy(service);
		return NULL;
	}
	return service;
}

void service_destroy(struct service *service)
{
	if (!service)
		return;
	store_push_destroy(service->small_push);
	store_push_destroy(service->large_push);
	free(service);
}

struct rpc_service service_rpc(struct service *service)
{
	return (struct rpc_service){ .ctx = service, .task_bytes = sizeof(struct task), .execute = service_execute };
}

int service_install(struct service *service, const struct object_spec *spec, struct star_error *err)
{
	struct store_table *table;

	if (spec->id < 1 || spec->id > WIRE_OBJECTS_MAX)
		return star_error_set(err, -EINVAL, "\"%.80s\" has the id %u: 1 to %d are possible", spec->name,
				      spec->id, WIRE_OBJECTS_MAX);
	/* An id whose installation failed on another reactor was never told to workers, and may come again for something
	 * else: what was made here for it then stays behind, empty. */
	if (service->tables[spec->id] &&
	    object_spec_same(store_table_spec(service->tables[spec->id]), spec, NULL) == 0 &&
	    strcmp(store_table_spec(service->tables[spec->id])->name, spec->name) == 0)
		return 0;
	table = store_table_create(service->options.store, spec, err);
	if (!table)
		return err->code;
	/* With release, for service_store_stats on another thread: it must find the table finished. */
	__atomic_store_n(&service->tables[spec->id], table, __ATOMIC_RELEASE);
	return 0;
}

void service_set_layout(struct service *service, uint32_t epoch, uint32_t first_partition, uint32_t end_partition)
{
	service->epoch = epoch;
	service->first_partition = first_partition;
	service->end_partition = end_partition;
}

const struct service_counters *service_counters(const struct service *service)
{
	return &service->counters;
}

struct store_stats service_store_stats(const struct service *service)
{
	struct store_stats sum = { 0 };

	for (unsigned id = 1; id <= WIRE_OBJECTS_MAX; id++) {
		const struct store_table *table = __atomic_load_n(&service->tables[id], __ATOMIC_ACQUIRE);
		const struct store_stats *stats;

		if (!table)
			continue;
		stats = store_table_stats(table);
		sum.rows += stats->rows;
		sum.memory_bytes += stats->memory_bytes;
		sum.created += stats->created;
		sum.refused += stats->refused;
	}
	return sum;
}
