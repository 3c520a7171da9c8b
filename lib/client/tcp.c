/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport over kernel TCP: a connection to each reactor. */
#include "client/client.h"
#include "client/keep.h"
#include "client/seal.h"

#include <stdlib.h>

#include "base/clock.h"

static int tcp_attach(struct star_cluster *cluster, const struct config *config, struct star_error *err)
{
	return 0;
}

static void tcp_detach(struct star_cluster *cluster)
{
}

static int open_channel(struct channel *ch, struct star_error *err)
{
	return 0;
}

static void submit(struct call *call, struct waiter *self)
{
	struct waiter *k = call->waiter;
	struct part *part;
	uint32_t remaining = 1; /* one for this loop: the call is not finished before all parts were passed on */

	TAILQ_FOREACH(part, &call->parts, in_call)
	remaining++;
	call_begin(call, clock_ns());
	/* No other thread uses it yet. */
	call->remaining = remaining;
	atomic_store_explicit(&call->finished, CALL_RUNS, memory_order_relaxed);
	TAILQ_FOREACH(part, &call->parts, in_call)
	client_channel_submit(part->channel, part, self);
	pthread_mutex_lock(&k->lock);
	if (call->async) {
		TAILQ_INSERT_TAIL(&k->incoming, call, running);
		waiter_signal(k, self);
	}
	client_call_drop(call, self);
	pthread_mutex_unlock(&k->lock);
}

static void cancel(struct call *call, int code, struct waiter *self)
{
	struct part *part;

	/* Only this thread frees the call, so the list stays valid even if the last part is finished in this loop. */
	TAILQ_FOREACH(part, &call->parts, in_call)
	{
		struct star_error err;

		if (client_channel_cancel(part->channel, part, code, call->start_ns, &err))
			client_part_finish(part, &err, self);
	}
}

static void close_channel(struct channel *ch)
{
	client_keep_free(ch);
	client_channel_close(ch);
	client_seal_free(ch);
	free(ch->out);
	free(ch->in);
}

const struct transport client_transport_tcp = {
	.version = TRANSPORT_VERSION,
	.release = STAR_VERSION,
	.attach = tcp_attach,
	.detach = tcp_detach,
	.open = open_channel,
	.close = close_channel,
	.retire = client_channel_retire,
	.submit = submit,
	.small = client_small_tcp,
	.cancel = cancel,
	.wait = client_waiter_wait,
	.turn = client_waiter_turn,
};
