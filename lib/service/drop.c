/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects are dropped between requests that must not be interrupted: when no large push has rows in the scratch memory,
 * and nothing is in the middle of changes over several slices. New requests of these kinds wait for it, as they do for
 * a snapshot's instant. Everything else in progress can be ended: before its next slice, a request checks that what it
 * works on still exists.
 */
#include "service/internal.h"

#include <errno.h>

static void drop_plan(struct service *service, uint32_t id)
{
	if (!service->plans[id])
		return;
	service->plans_taken[service->plans[id] - service->plans_memory] = false;
	service->plans[id] = NULL;
	service->plans_used--;
	service->direct[id] = (struct direct_table){ 0 };
}

static bool works_on(const struct plan *plan, const struct store_table *table)
{
	for (unsigned k = 0; k < plan->shape.keys_count; k++)
		if (plan->keys[k].table == table)
			return true;
	return false;
}

static void drop_table(struct service *service, uint32_t id)
{
	struct store_table *table = service->tables[id];
	struct accumulator *sums = &service->accumulators[id];

	if (!table)
		return;
	for (uint32_t i = 0; i < PROGRAMS_MAX; i++)
		if (service->plans_taken[i] && works_on(&service->plans_memory[i], table))
			drop_plan(service, object_id_of(service->plans_memory[i].object));
	if (service->snapshots.snapshot && !service->snapshots.pending)
		service_snapshot_give_up(service, -ESTALE);
	service->direct[id] = (struct direct_table){ 0 };
	service_sweep_forget(service, id);
	if (sums->sums)
		store_table_drop(sums->sums);
	*sums = (struct accumulator){ 0 };
	/* Another thread that reads statistics may still use it: its struct stays valid (store/table.c). */
	__atomic_store_n(&service->tables[id], NULL, __ATOMIC_RELEASE);
	store_table_drop(table);
}

void service_drop_turn(struct service *service)
{
	if (likely(!service->dropping_count) || service->large_owner || service->changing)
		return;
	for (uint32_t i = 0; i < service->dropping_count; i++) {
		drop_plan(service, service->dropping[i]);
		drop_table(service, service->dropping[i]);
	}
	service->dropping_count = 0;
	service->redefined++;
}

bool service_drop_is_due(const struct service *service, uint32_t id)
{
	for (uint32_t i = 0; i < service->dropping_count; i++)
		if (service->dropping[i] == id)
			return true;
	return false;
}

int service_drop(struct service *service, uint32_t id)
{
	if (id < 1 || id > WIRE_OBJECTS_MAX || (!service->tables[id] && !service->plans[id]))
		return 0;
	if (!service_drop_is_due(service, id))
		service->dropping[service->dropping_count++] = (uint16_t)id;
	service_drop_turn(service);
	return drop_waits(service) ? -EBUSY : 0;
}

int service_drop_left_behind(struct service *service, const struct object_spec *spec, struct star_error *err)
{
	if (service_drop(service, spec->id) == 0)
		return 0;
	return star_error_set(err, -EBUSY,
			      "\"%.80s\" gets the id of something that was dropped, and a large request is being "
			      "executed: try again",
			      spec->name);
}

bool service_drop_spares(const struct service *service, const struct rpc_request *request)
{
	const struct task *task = request->task;
	struct rpc_cursor at = request->payload;

	for (uint32_t i = 0; i < task->ops; i++) {
		struct wire_op op;

		rpc_cursor_copy(&at, &op, sizeof(op));
		if (op.kind == WIRE_RUN ? !service_plan(service, op.object) : !service_table(service, op.object))
			return false;
		if (i + 1 < task->ops)
			rpc_cursor_skip(&at, wire_padded(op.body_bytes));
	}
	return true;
}
