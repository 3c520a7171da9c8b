/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stack has few mbufs compared with what its peers may send and not read. These rules keep one peer from taking all
 * of them:
 *
 * - Requests in progress may hold held_mbufs_max. From half of it on, TCP's window is opened for one stream at a time,
 *   until its request is complete, or nothing of it has arrived for a while; the other streams, and their peers, wait
 *   in the order in which they came.
 * - If the unread replies of an address (with IPv6 of a /64) hold half of the mbufs, its requests wait; less is enough
 *   when mbufs are short. When mbufs are short, and when there are none for replies, streams that do not read are
 *   closed: all of those of the address that has most.
 */
#include "net/siphash.h"
#include "rpc/link.h"

#define UNREAD_NS UINT64_C(2000000000) /* a peer that has read nothing for this long counts as not reading */
#define FAVOUR_NS UINT64_C(200000000)  /* a favoured stream that has sent nothing for this long gives way */
#define RELIEVE_NS UINT64_C(100000000) /* between two checks of all streams */

static bool tight(const struct rpc_server *server)
{
	return server->held_mbufs > server->options.held_mbufs_max / 2;
}

static void wait_for_mbufs(struct rpc_stream *s)
{
	struct rpc_server *server = s->work.server;

	if (s->waiting)
		return;
	s->waiting = 1;
	TAILQ_INSERT_TAIL(&server->waiting, s, wait_link);
	wheel_cancel(net_wheel(server->options.net), &s->timer); /* the delay is ours, so no stall */
	if (!wheel_armed(&server->favour_timer))
		wheel_arm(net_wheel(server->options.net), &server->favour_timer,
			  net_now_ns(server->options.net) + FAVOUR_NS);
}

void rpc_budget_grant(struct rpc_stream *s, uint32_t n)
{
	struct rpc_server *server = s->work.server;
	const uint32_t due = RTE_MIN(s->have, n);

	if (due <= s->granted)
		return;
	if (tight(server)) {
		if (server->favoured && server->favoured != s) {
			wait_for_mbufs(s);
			return;
		}
		server->favoured = s;
		server->favoured_ns = net_now_ns(server->options.net);
	}
	link_consumed(&s->work, due - s->granted);
	s->granted = due;
}

void rpc_budget_leave(struct rpc_stream *s)
{
	struct rpc_server *server = s->work.server;

	if (server->favoured == s)
		server->favoured = NULL;
	if (s->waiting) {
		s->waiting = 0;
		TAILQ_REMOVE(&server->waiting, s, wait_link);
		if (TAILQ_EMPTY(&server->waiting))
			wheel_cancel(net_wheel(server->options.net), &server->favour_timer);
	}
}

void rpc_budget_resume(struct rpc_server *server)
{
	struct net *net = server->options.net;

	while (!TAILQ_EMPTY(&server->waiting) && (!tight(server) || !server->favoured)) {
		struct rpc_stream *s = TAILQ_FIRST(&server->waiting);

		rpc_budget_leave(s);
		wheel_arm(net_wheel(net), &s->timer, net_now_ns(net) + server->options.stall_ns);
		rpc_budget_grant(s, s->state == STREAM_HEADER ? sizeof(struct wire_frame)
							      : s->work.request.frame.payload_bytes);
	}
}

/* While streams wait, checks whether the favoured one still makes progress. */
void rpc_budget_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct rpc_server *server = (struct rpc_server *)((char *)timer - offsetof(struct rpc_server, favour_timer));

	if (server->favoured && now_ns - server->favoured_ns >= FAVOUR_NS)
		server->favoured = NULL;
	rpc_budget_resume(server);
	if (!TAILQ_EMPTY(&server->waiting) && !wheel_armed(timer))
		wheel_arm(net_wheel(server->options.net), timer, now_ns + FAVOUR_NS);
}

/* The stream whose peer has read nothing for the longest time, if that is longer than *longest. */
static struct rpc_work *slowest_stream(const struct rpc_server *server, uint64_t *longest)
{
	struct rpc_work *worst = NULL;

	for (uint32_t i = 0; i < server->options.streams_max; i++) {
		struct rpc_stream *s = &server->streams[i];

		if (s->state != STREAM_FREE && s->work.conn && link_stalled_ns(&s->work) > *longest) {
			*longest = link_stalled_ns(&s->work);
			worst = &s->work;
		}
	}
	return worst;
}

static struct rpc_work *slowest_session(const struct rpc_server *server, uint64_t *longest)
{
	struct rpc_work *worst = NULL;

	for (uint32_t i = 0; i < server->options.datagrams.sessions_max; i++) {
		struct rpc_session *s = &server->sessions[i];

		if (s->state != SESSION_FREE && s->work.session && dgram_stalled_ns(s->work.session) > *longest) {
			*longest = dgram_stalled_ns(s->work.session);
			worst = &s->work;
		}
	}
	return worst;
}

/* Closes the streams of the address with the most unread mbufs; false: all peers read. */
static bool give_up_crowd(struct rpc_server *server)
{
	uint32_t worst = 0;
	bool some = false;

	for (uint32_t i = 1; i < CROWDS; i++)
		if (server->unread[i] > server->unread[worst])
			worst = i;
	for (uint32_t i = 0; i < server->options.streams_max; i++) {
		struct rpc_stream *s = &server->streams[i];

		if (s->state == STREAM_FREE || !s->work.conn || s->crowd != worst ||
		    link_stalled_ns(&s->work) <= UNREAD_NS)
			continue;
		server->counters.unread++;
		link_abort(&s->work);
		some = true;
	}
	return some;
}

void rpc_budget_relieve(struct rpc_server *server)
{
	const uint64_t now_ns = net_now_ns(server->options.net);
	uint64_t longest = UNREAD_NS;
	struct rpc_work *stream, *session;

	server->short_of_mbufs = 0;
	if (now_ns - server->relieved_ns < RELIEVE_NS)
		return;
	server->relieved_ns = now_ns;
	if (give_up_crowd(server))
		return;
	stream = slowest_stream(server, &longest);
	session = slowest_session(server, &longest);
	if (!stream && !session)
		return;
	server->counters.unread++;
	if (session)
		rpc_session_give_up(session_of(session));
	else
		link_abort(stream);
}

uint16_t rpc_budget_crowd(const struct rpc_server *server, const struct tcp_conn *conn)
{
	const struct rpc_transport *transport = server->options.transport;
	const struct tcp_address address = transport ? transport->address(conn) : tcp_address(conn);
	const struct net_address sharer = net_address_sharer(&address.remote);

	return (uint16_t)(siphash(server->options.datagrams.secret, sharer.halves, 2) & (CROWDS - 1));
}

static void set_unread(struct rpc_stream *s, uint32_t mbufs)
{
	mbufs = RTE_MIN(mbufs, (uint32_t)UINT16_MAX);
	s->work.server->unread[s->crowd] += mbufs - s->unread;
	s->unread = (uint16_t)mbufs;
}

void rpc_budget_sent(struct rpc_stream *s, uint32_t mbufs)
{
	set_unread(s, s->unread + mbufs);
	s->work.request.unread_bytes = link_queued(&s->work);
}

/* TCP reports bytes read; the same fraction of the mbufs counts as read. */
void rpc_budget_read(struct rpc_stream *s)
{
	const uint32_t bytes = link_queued(&s->work), before = s->work.request.unread_bytes;

	if (likely(bytes == 0))
		set_unread(s, 0);
	else if (bytes < before)
		set_unread(s, (uint32_t)(((uint64_t)s->unread * bytes + before - 1) / before));
	s->work.request.unread_bytes = bytes;
}

void rpc_budget_forget(struct rpc_stream *s)
{
	set_unread(s, 0);
}
