/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls, as the driver handles them: started, finished part by part, aborted. */
#include "client_dpdk/poller.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static void finish_call(struct poller *p, struct call *call)
{
	struct waiter *k = call->waiter;

	if (call->async && k == p->driver) {
		p->done = true;
		atomic_store_explicit(&call->finished, CALL_FINISHED, memory_order_relaxed);
		TAILQ_INSERT_TAIL(&k->own_finished, call, link);
	} else if (call->async) {
		pthread_mutex_lock(&k->lock);
		atomic_store(&call->finished, CALL_FINISHED);
		TAILQ_INSERT_TAIL(&k->finished, call, link);
		waiter_signal(k, NULL);
		pthread_mutex_unlock(&k->lock);
	} else if (call == p->awaited) {
		p->done = true;
		atomic_store_explicit(&call->finished, CALL_FINISHED, memory_order_relaxed);
	} else if (atomic_exchange(&call->finished, CALL_FINISHED) == CALL_ASLEEP) {
		/* The owner may have freed it: then this wakes no thread. */
		syscall(SYS_futex, &call->finished, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
}

void dpdk_part_end(struct poller *p, struct part *part, const struct star_error *err)
{
	struct call *call = part->call;

	client_call_fail(call, err);
	if (--call->remaining == 0)
		finish_call(p, call);
}

void dpdk_part_end_stale(struct poller *p, struct part *part)
{
	struct call *call = part->call;

	TAILQ_INSERT_TAIL(&call->stale, part, link);
	if (--call->remaining == 0)
		finish_call(p, call);
}

void dpdk_call_start(struct poller *p, struct call *call)
{
	struct part *part;
	uint32_t remaining = 1; /* one for the second loop */

	if (call->small.part && !call->retries && dpdk_message_send_small(call->small.part->channel->datagrams, call))
		return;
	TAILQ_FOREACH(part, &call->parts, in_call)
	remaining++;
	call->remaining = remaining;
	TAILQ_FOREACH(part, &call->parts, in_call)
	dpdk_stream_enqueue(part->channel->datagrams, part);
	if (--call->remaining == 0)
		finish_call(p, call);
}

void dpdk_call_abort(struct poller *p, struct call *call, int code)
{
	struct part *part;

	if (atomic_load(&call->finished) == CALL_FINISHED)
		return;
	call->remaining++; /* the loop's reference: the call stays until the loop has ended */
	TAILQ_FOREACH(part, &call->parts, in_call)
	{
		struct star_error err;

		if (dpdk_stream_cancel(part->channel->datagrams, part, code, &err))
			dpdk_part_end(p, part, &err);
	}
	if (--call->remaining == 0)
		finish_call(p, call);
}
