/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node leaves its place to another one, its standby. From then on nobody is taken, and what it can no longer begin is
 * not answered: a refusal would send each worker to the control plane, which does not know yet who serves. When what it
 * had begun is at its end, it hangs up on all. So each worker is told in the moment in which there is something to do,
 * and sends again, where the other node is, what has had no answer.
 */
#include "rpc/link.h"

void rpc_server_leave(struct rpc_server *server)
{
	const struct rpc_server_options *o = &server->options;

	if (server->leaves)
		return;
	server->leaves = true;
	if (server->dgram)
		dgram_unlisten(server->dgram);
	if (o->closed)
		return; /* it has not listened yet */
	if (o->transport)
		o->transport->unlisten(o->transport_ctx);
	else
		tcp_unlisten(o->net, o->port);
}

void rpc_work_park(struct rpc_work *w)
{
	rpc_work_end(w);
	if (w->is_session) {
		session_of(w)->state = SESSION_BLOCKED;
	} else {
		stream_of(w)->state = STREAM_BLOCKED;
		rpc_budget_resume(w->server);
	}
}

/* True: it is to be looked at again. */
static bool hang_up_stream(struct rpc_stream *s, bool waits)
{
	if (s->state == STREAM_READY) {
		if (!waits && s->work.peer)
			link_abort(&s->work);
		return true;
	}
	if (s->state != STREAM_FREE && s->state != STREAM_DRAINING) {
		s->state = STREAM_DRAINING;
		link_close(&s->work); /* behind the replies that it has yet to send */
	}
	return false;
}

/* The same. Its replies would go with it. */
static bool hang_up_session(struct rpc_session *s, bool waits)
{
	if (s->state == SESSION_FREE || !s->work.peer)
		return false;
	if (waits && (s->state == SESSION_READY || dgram_queued(s->work.session)))
		return true;
	rpc_session_give_up(s);
	return false;
}

bool rpc_server_hang_up(struct rpc_server *server, uint32_t *at, unsigned n, uint32_t *left)
{
	const uint32_t streams = server->options.streams_max;
	const uint32_t end = streams + (server->dgram ? server->options.datagrams.sessions_max : 0);

	uint32_t wait = 0;

	for (; n > 0 && *at < end; n--, ++*at)
		wait += *at < streams ? hang_up_stream(&server->streams[*at], left)
				      : hang_up_session(&server->sessions[*at - streams], left);
	if (left)
		*left += wait;
	return *at < end;
}
