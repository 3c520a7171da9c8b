/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run keeps for later runs of its step, and what it uses of earlier ones: entries (kept.h). */
#include "service/internal.h"

static enum rpc_progress refuse_gone(struct rpc_request *request, const char *what)
{
	const struct task *task = request->task;

	return rpc_reply_fail(
		request, WIRE_GONE,
		"program %u takes what an earlier run has kept under tag %llu, and %s: run the step again",
		task->op.object, (unsigned long long)task->op.version, what);
}

static enum rpc_progress refuse_room(struct rpc_request *request)
{
	const struct task *task = request->task;

	return rpc_reply_fail(request, WIRE_NOT_KEPT,
			      "program %u keeps something for later runs, and the reactor has no room for it, or the "
			      "session has its share: raise limits.kept_mib, or have fewer steps in flight",
			      task->op.object);
}

/* Why an entry cannot be used; NULL: it can. */
static const char *look_at_entry(const struct rpc_request *request, const struct kept_entry *entry)
{
	const struct task *task = request->task;
	const struct plan *plan = task->run.plan;
	const struct program_keys *keys = &plan->shape.keys[task->run.keys];

	if (!entry)
		return "nothing is there";
	if (entry->owner && (entry->owner != task || plan->shape.keeps & (entry->grows | entry->takes)))
		return "another one works on it";
	if (entry->epoch != request->frame.epoch || entry->object != plan->keys[task->run.keys].object ||
	    entry->count != task->run.count)
		return "it is of another layout, another table or other keys";
	for (unsigned i = 0; i < keys->aligned_count; i++) {
		const struct program_node *node = &plan->program.nodes[keys->aligned[i]];

		if (node->flags & PROGRAM_KEPT && (!(entry->have >> node->b & 1) || entry->dims[node->b] != node->dim))
			return "rows or segments are missing, or are others";
	}
	return entry->have >> KEPT_KEYS & 1 ? NULL : "it is not finished";
}

/* Reserves room for what the run adds to the entry, which belongs to the request alone. */
static bool reserve(struct service *service, const struct task *task, struct kept_entry *entry)
{
	const struct plan *plan = task->run.plan;
	const uint64_t count = task->run.count;

	if (plan->shape.begins &&
	    !service_kept_reserve(service->kept, entry, KEPT_KEYS, count * sizeof(uint64_t), service->now_ns))
		return false;
	for (unsigned k = 0; k < plan->keeps_count; k++) {
		const struct program_node *keep = &plan->program.nodes[plan->keeps[k]];
		const uint16_t dim = plan->shape.values[keep->a].dim;

		if (!service_kept_reserve(service->kept, entry, keep->b, count * program_kept_bytes(dim),
					  service->now_ns))
			return false;
		entry->dims[keep->b] = dim;
	}
	return true;
}

static void open_entry(struct run *run, struct kept_entry *entry)
{
	const struct program_keys *keys = &run->plan->shape.keys[run->keys];

	run->entry = entry;
	run->kept_keys = service_kept_cursor(entry, KEPT_KEYS);
	for (unsigned i = 0; i < keys->aligned_count; i++)
		run->kept[i] = service_kept_cursor(entry, run->plan->program.nodes[keys->aligned[i]].b);
}

static bool has_entry(const struct run *run)
{
	return run->keys == run->plan->shape.entry && run->count && !run->alone;
}

enum rpc_progress service_run_entry_prepare(struct service *service, struct rpc_request *request)
{
	struct task *task = request->task;
	struct run *run = &task->run;
	const uint64_t session = request->frame.session, tag = task->op.version;
	struct kept_entry *entry;

	if (likely(!has_entry(run)))
		return RPC_MORE;
	if (run->plan->shape.begins) {
		entry = service_kept_begin(service->kept, session, tag, service->now_ns);
		if (!entry)
			return refuse_room(request);
		entry->epoch = request->frame.epoch;
		entry->object = run->plan->keys[run->keys].object;
		entry->count = run->count;
	} else {
		const char *why;

		entry = service_kept_find(service->kept, session, tag);
		why = look_at_entry(request, entry);
		if (why)
			return refuse_gone(request, why);
	}
	service_kept_own(service->kept, entry, task, &task->owned);
	entry->takes |= run->plan->shape.takes;
	entry->ends |= (task->op.flags & WIRE_LAST) != 0;
	if (!reserve(service, task, entry))
		return refuse_room(request);
	open_entry(run, entry);
	return RPC_MORE;
}

void service_run_entry_open(struct service *service, const struct rpc_request *request)
{
	struct run *run = &((struct task *)request->task)->run;

	if (unlikely(has_entry(run)))
		open_entry(run, service_kept_find(service->kept, request->frame.session,
						  ((struct task *)request->task)->op.version));
}
