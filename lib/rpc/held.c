/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies that wait until the change that they report is durable. While it waits, a request is in no other queue and
 * counts as being executed: the next request of its peer does not begin, and if its session goes on elsewhere, that one
 * waits for it, too. The durable position only grows, so replies leave in the order in which they came. If a client
 * keeps what is not durable (WIRE_KEEPS) and replies are retained, its replies leave at once, and say what is durable
 * so far (replay.c records it).
 */
#include "rpc/link.h"

enum {
	LEAVE_MAX = 64, /* per turn: sending a reply takes a fraction of a microsecond */
	LOOK_NS = 10000000,
};

bool rpc_work_hold(struct rpc_work *w)
{
	struct rpc_server *server = w->server;
	const struct rpc_service *service = &server->options.service;
	struct net *net = server->options.net;
	const bool keeps = server->retains && w->request.frame.flags & WIRE_KEEPS && !w->is_session;
	uint64_t until;
	bool noted = w->replayed; /* if it was, that was done when it was executed */

	if (!w->peer && !server->retains)
		return false;
	until = service->held_until(service->ctx, w->replayed ? NULL : &w->request);
	if (until <= server->durable)
		return false;
	if (server->retains && !w->replayed)
		noted = rpc_replay_note(server->replay, w, server->life, until);
	if (!w->peer || (keeps && noted))
		return false;
	if (w->is_session)
		rpc_reply_part(w);
	else
		rpc_stream_let_go(stream_of(w));
	w->held_for = until;
	w->next = NULL;
	if (server->held_tail)
		server->held_tail->next = w;
	else
		server->held_head = w;
	server->held_tail = w;
	__atomic_store_n(&server->held, server->held + 1, __ATOMIC_RELAXED);
	server->counters.held++;
	if (!wheel_armed(&server->held_timer))
		wheel_arm(net_wheel(net), &server->held_timer, net_now_ns(net) + LOOK_NS);
	return true;
}

/* Every turn checks; the timer only makes sure that there is a turn. */
void rpc_held_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct rpc_server *server = (struct rpc_server *)((char *)timer - offsetof(struct rpc_server, held_timer));

	if (server->held)
		wheel_arm(net_wheel(server->options.net), timer, now_ns + LOOK_NS);
}

static void leave(struct rpc_server *server, uint64_t durable, uint32_t max)
{
	struct rpc_work *w;

	for (; max > 0 && (w = server->held_head) && w->held_for <= durable; max--) {
		server->held_head = w->next;
		if (!server->held_head)
			server->held_tail = NULL;
		__atomic_store_n(&server->held, server->held - 1, __ATOMIC_RELAXED);
		w->starved_ns = 0;
		if (!w->replayed) /* recorded again: if its session goes on elsewhere, that one waits for it */
			rpc_replay_done(server->replay, w, w->reply_status);
		rpc_work_answer(w);
	}
}

void rpc_hold(struct rpc_server *server, bool holds, bool retains)
{
	/* Replies may change from waiting for one kind of durability to another; those that wait go on waiting. */
	const bool goes_on = server->holds && holds;

	server->holds = holds;
	server->retains = holds && retains;
	server->life += !goes_on;
	if (!goes_on)
		server->durable = 0;
	if (!holds)
		leave(server, UINT64_MAX, UINT32_MAX);
}

void rpc_release(struct rpc_server *server, uint64_t durable)
{
	server->durable = durable;
	leave(server, durable, LEAVE_MAX);
}

bool rpc_retains(const struct rpc_server *server)
{
	return server->retains;
}

void rpc_work_tell(const struct rpc_work *w, struct wire_frame *frame)
{
	struct rpc_server *server = w->server;

	frame->flags = WIRE_RETAINS;
	frame->behind = rpc_replay_behind(server->replay, w, server->life, server->durable);
}

void rpc_work_tell_ahead(const struct rpc_work *w, struct wire_frame *frame)
{
	frame->behind = rpc_replay_ahead(w->server->replay, w);
	frame->flags = frame->behind ? WIRE_AHEAD : 0;
}

uint32_t rpc_held(const struct rpc_server *server)
{
	return __atomic_load_n(&server->held, __ATOMIC_RELAXED);
}
