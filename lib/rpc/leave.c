/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node hands its role over to its standby. From then on it accepts no requests, and does not answer those that it
 * cannot begin any more: a refusal would send each worker to the control plane, which does not know yet who serves.
 * When the requests in progress are done, it closes all connections. So each worker notices at the moment when it can
 * act, and sends its unanswered requests again, to the other node.
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
		return; /* it does not listen yet */
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

/* True: check it again later. */
static bool hang_up_stream(struct rpc_stream *s, bool waits)
{
	if (s->state == STREAM_READY) {
		if (!waits && s->work.peer)
			link_abort(&s->work);
		return true;
	}
	if (s->state != STREAM_FREE && s->state != STREAM_DRAINING) {
		s->state = STREAM_DRAINING;
		link_close(&s->work); /* after the replies that are still to be sent */
	}
	return false;
}

/* The same for a session, whose pending replies would be lost with it. */
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
