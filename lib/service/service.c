/* SPDX-License-Identifier: BSD-3-Clause */
#include "service/internal.h"

#include <errno.h>
#include <stdlib.h>

struct service *service_create(const struct service_options *options, struct star_error *err)
{
	/* Most of this is room for objects that a cluster does not have. Pages that calloc gets from the kernel are
	 * zero, and take no memory until they are written. */
	void *memory = calloc(1, sizeof(struct service) + RTE_CACHE_LINE_SIZE);
	struct service *service;

	if (!memory) {
		star_error_set(err, -ENOMEM, "no memory for a shard's service");
		return NULL;
	}
	service = RTE_PTR_ALIGN_CEIL(memory, RTE_CACHE_LINE_SIZE);
	service->memory = memory;
	service->options = *options;
	service->small = (struct prepared){ .push = store_push_create(SMALL_KEYS, SLICE_BYTES, err),
					    .versions = service->small_versions,
					    .sent = service->small_sent };
	service->large = (struct prepared){ .push = store_push_create(WIRE_KEYS_MAX, options->payload_max, err),
					    .versions = service->large_versions,
					    .sent = service->large_sent };
	service->sums = store_create_beside(options->store, err);
	service->kept = service_kept_create(options->kept_bytes, options->kept_lease_ns, err);
	if (!service->kept || !service->sums || !service->small.push || !service->large.push ||
	    service_plan_memory_create(service, err) < 0) {
		service_destroy(service);
		return NULL;
	}
	return service;
}

void service_destroy(struct service *service)
{
	if (!service)
		return;
	store_push_destroy(service->small.push);
	store_push_destroy(service->large.push);
	service_plan_memory_destroy(service);
	service_kept_destroy(service->kept);
	store_destroy(service->sums);
	free(service->memory);
}

struct rpc_service service_rpc(struct service *service)
{
	return (struct rpc_service){ .ctx = service,
				     .task_bytes = sizeof(struct task),
				     .execute = service_execute,
				     .direct = service_direct,
				     .prefetch = service_prefetch,
				     .ended = service_ended,
				     .held_until = service_held_until };
}

/* Until there is a layout, all nodes are assumed to have as many reactors as this one. */
static double share_of_memory(const struct service *service)
{
	return service->epoch ? (double)(service->end_partition - service->first_partition) /
					(double)service->options.partitions
			      : service->options.share;
}

int service_install(struct service *service, const struct object_spec *spec, struct star_error *err)
{
	struct store_table *table;

	if (spec->id < 1 || spec->id > WIRE_OBJECTS_MAX)
		return star_error_set(err, -EINVAL, "\"%.80s\" has the id %u: 1 to %d are possible", spec->name,
				      spec->id, WIRE_OBJECTS_MAX);
	if (spec->kind == OBJECT_PROGRAM)
		return service_plan_install(service, spec, err);
	table = service_table(service, object_wire_id(spec));
	if (table && !service_drop_is_due(service, spec->id) &&
	    wire_object_spec_same(store_table_spec(table), spec, NULL) == 0 &&
	    strcmp(store_table_spec(table)->name, spec->name) == 0)
		return 0;
	if (service_drop_left_behind(service, spec, err) < 0)
		return err->code;
	table = store_table_create(service->options.store, spec, share_of_memory(service), err);
	if (!table)
		return err->code;
	/* Release, for another thread that adds up statistics: it must see the table complete. */
	__atomic_store_n(&service->tables[spec->id], table, __ATOMIC_RELEASE);
	if (spec->id > service->tables_last)
		__atomic_store_n(&service->tables_last, spec->id, __ATOMIC_RELEASE);
	service_sweep_note(service, spec->id);
	service_direct_note(service, spec->id);
	return 0;
}

void service_set_layout(struct service *service, uint32_t epoch, uint32_t first_partition, uint32_t end_partition)
{
	service->epoch = epoch;
	service->first_partition = first_partition;
	service->end_partition = end_partition;
}

void service_set_follows(struct service *service, bool follows)
{
	service->follows = follows;
}

void service_set_incarnation(struct service *service, uint32_t incarnation)
{
	service->options.incarnation = incarnation;
}

const struct service_counters *service_counters(const struct service *service)
{
	return &service->counters;
}

const struct kept_stats *service_kept_stats(const struct service *service)
{
	return service_kept_read_stats(service->kept);
}

static void add_store_stats(struct store_stats *sum, const struct store_stats *stats)
{
	const uint64_t moved_max = sum->moved_max, moved = __atomic_load_n(&stats->moved_max, __ATOMIC_RELAXED);

#define X(name, text) sum->name += __atomic_load_n(&stats->name, __ATOMIC_RELAXED);
	STORE_STATS(X)
#undef X
	sum->moved_max = RTE_MAX(moved, moved_max);
}

static uint32_t last_table(const struct service *service)
{
	return __atomic_load_n(&service->tables_last, __ATOMIC_ACQUIRE);
}

static const struct store_table *table_of(const struct service *service, uint32_t id)
{
	return __atomic_load_n(&service->tables[id], __ATOMIC_ACQUIRE);
}

static uint64_t read_figure(const struct store_table *table, size_t offset)
{
	return table ? __atomic_load_n((const uint64_t *)((const char *)store_table_stats(table) + offset),
				       __ATOMIC_RELAXED)
		     : 0;
}

struct store_stats service_store_stats(const struct service *service)
{
	struct store_stats sum = { 0 };

	for (uint32_t id = 1; id <= last_table(service); id++)
		service_table_stats(service, id, &sum);
	return sum;
}

void service_table_stats(const struct service *service, uint32_t id, struct store_stats *sum)
{
	const struct store_table *table = table_of(service, id);

	if (table)
		add_store_stats(sum, store_table_stats(table));
}

uint64_t service_table_step(const struct service *service, uint32_t id)
{
	const struct store_table *table = table_of(service, id);

	return table ? store_table_step(table) : 0;
}

uint64_t service_figure(const struct service *service, size_t offset)
{
	uint64_t sum = 0;

	for (uint32_t id = 1; id <= last_table(service); id++)
		sum += read_figure(table_of(service, id), offset);
	return sum;
}

void service_table_figures(const struct service *service, const struct object_spec *const *tables, uint32_t count,
			   size_t offset, uint64_t *sums)
{
	for (uint32_t i = 0; i < count; i++) {
		const uint64_t value = read_figure(table_of(service, tables[i]->id), offset);

		sums[i] = offset == offsetof(struct store_stats, moved_max) ? RTE_MAX(sums[i], value) : sums[i] + value;
	}
}
