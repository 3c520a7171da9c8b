/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eviction in slices. Passes that were requested continue at once, one slice per turn. Tables are also swept by steps
 * to live, when the store sees that enough steps have passed. Then at most 64 rows are checked per 100 us that have
 * passed, up to a second's worth after a sleep, which takes about 3 % of the time. An idle reactor wakes up every
 * second anyway (reactor/idle.c), so none is woken for it.
 */
#include "service/internal.h"

#include <errno.h>

enum {
	SWEEP_ROWS = 64,   /* per slice */
	RECLAIM_STEPS = 8, /* also per slice: some microseconds */
	SWEEP_EVERY_NS = 100000,
	SLEEP_NS = 1000000000,
	TABLES_PER_SLICE = 16, /* checked, in turn, for one that is being swept */
};

void service_sweep_note(struct service *service, uint32_t id)
{
	const struct object_spec *spec = store_table_spec(service->tables[id]);
	bool known = false;

	for (uint32_t i = 0; i < service->evicting_count; i++)
		known |= service->evicting[i] == id;
	if (!known && spec->steps_to_live)
		service->evicting[service->evicting_count++] = (uint16_t)id;
}

static uint32_t take_out_id(uint16_t *ids, uint32_t count, uint32_t id)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < count; i++)
		if (ids[i] != id)
			ids[left++] = ids[i];
	return left;
}

void service_sweep_forget(struct service *service, uint32_t id)
{
	service->evicting_count = take_out_id(service->evicting, service->evicting_count, id);
	service->asked_count = take_out_id(service->asked, service->asked_count, id);
	__atomic_store_n(&service->asked_left[id], 0, __ATOMIC_RELAXED);
}

static void publish(struct service *service, uint32_t id)
{
	__atomic_store_n(&service->asked_left[id], store_sweep_left(service->tables[id]), __ATOMIC_RELAXED);
}

static int begin_sweep(struct service *service, uint32_t id, void (*begin_pass)(struct store_table *))
{
	if (id < 1 || id > WIRE_OBJECTS_MAX || !service->tables[id])
		return -ENOENT;
	begin_pass(service->tables[id]);
	publish(service, id);
	for (uint32_t i = 0; i < service->asked_count; i++)
		if (service->asked[i] == id)
			return 0;
	service->asked[service->asked_count++] = (uint16_t)id;
	return 0;
}

int service_sweep_begin(struct service *service, uint32_t id)
{
	return begin_sweep(service, id, store_sweep_begin);
}

int service_empty_begin(struct service *service, uint32_t id)
{
	return begin_sweep(service, id, store_empty_begin);
}

uint64_t service_sweep_left(const struct service *service, uint32_t id)
{
	return __atomic_load_n(&service->asked_left[id], __ATOMIC_RELAXED);
}

/* One slice of the requested passes; false: all have ended. */
static bool sweep_asked(struct service *service)
{
	uint32_t left = 0;

	if (!service->asked_count)
		return false;
	store_sweep(service->options.store, SWEEP_ROWS);
	for (uint32_t i = 0; i < service->asked_count; i++) {
		const uint16_t id = service->asked[i];

		publish(service, id);
		if (service->asked_left[id])
			service->asked[left++] = id;
	}
	service->asked_count = left;
	return true;
}

static bool is_sweeping(struct service *service)
{
	const uint32_t tables = RTE_MIN(service->evicting_count, (uint32_t)TABLES_PER_SLICE);
	bool sweeping = false;

	for (uint32_t i = 0; i < tables && !sweeping; i++) {
		service->evicting_at = (service->evicting_at + 1) % service->evicting_count;
		sweeping = store_sweep_left(service->tables[service->evicting[service->evicting_at]]) > 0;
	}
	return sweeping;
}

unsigned service_sweep(struct service *service, uint64_t now_ns)
{
	service_kept_expire(service->kept, now_ns);
	service_drop_turn(service);
	if (store_reclaim(service->options.store, RECLAIM_STEPS) || sweep_asked(service))
		return 1;
	if (!service->evicting_count || service->follows || now_ns - service->swept_ns < SWEEP_EVERY_NS)
		return 0;
	store_sweep(service->options.store, SWEEP_ROWS);
	if (!is_sweeping(service)) {
		service->swept_ns = now_ns;
		return 0;
	}
	if (now_ns - service->swept_ns > SLEEP_NS)
		service->swept_ns = now_ns - SLEEP_NS;
	service->swept_ns += SWEEP_EVERY_NS;
	return now_ns - service->swept_ns >= SWEEP_EVERY_NS; /* time that passed while asleep is made up for */
}
