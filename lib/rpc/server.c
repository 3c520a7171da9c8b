/* SPDX-License-Identifier: BSD-3-Clause */
/* The order in which requests are executed. */
#include "rpc/link.h"
#include "rpc/quota.h"
#include "rpc/record.h"
#include "rpc/sealed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/probe.h"

enum {
	BURST = 32, /* mbufs of replies that need not wait for later ones: no port sends more at once */
	/* bytes of an mbuf's data to prefetch; the hardware prefetcher loads the rest as it is read in order */
	BEGIN_BYTES = 256,
	AHEAD_FROM = 16, /* if this many are ready, they do not fit into the L1 cache */
	BULK_RUN = 3,
};

/* Gets the memory that a request needs while it is executed; false: all of it is in use. */
static bool task_take(struct rpc_work *w)
{
	struct rpc_server *server = w->server;
	char *task = server->free_tasks;

	if (task)
		memcpy(&server->free_tasks, task, sizeof(void *));
	else if (server->tasks_used < server->tasks_max) /* memory that was never used has not been touched yet */
		task = server->tasks + (size_t)server->tasks_used++ * server->task_bytes;
	else
		return false;
	memset(task, 0, server->options.service.task_bytes);
	if (server->options.observe)
		memset(task + server->spent_offset, 0, sizeof(struct observe_spent));
	w->request.task = task;
	return true;
}

static void task_give(struct rpc_server *server, void *task)
{
	memcpy(task, &server->free_tasks, sizeof(void *));
	server->free_tasks = task;
}

static void task_end(struct rpc_work *w)
{
	if (w->request.task)
		task_give(w->server, w->request.task);
	w->request.task = NULL;
}

void rpc_work_end(struct rpc_work *w)
{
	const uint32_t crowd = w->is_session ? (uint32_t)REPLAY_ANYBODY : stream_of(w)->crowd;

	rpc_replay_leave(w->server->replay, w, crowd, net_now_ns(w->server->options.net), w->ended);
	task_end(w);
	rpc_reply_drop(w);
}

static void work_enqueue(struct work_queue *queue, struct rpc_work *w)
{
	w->next = NULL;
	if (queue->tail)
		queue->tail->next = w;
	else
		queue->head = w;
	queue->tail = w;
	queue->count++;
}

static struct rpc_work *work_dequeue(struct work_queue *queue)
{
	struct rpc_work *w = queue->head;

	queue->head = w->next;
	if (!queue->head)
		queue->tail = NULL;
	queue->count--;
	if (queue->ahead.count) {
		queue->ahead.count--;
		queue->ahead.first = (queue->ahead.first + 1) % AHEAD;
	}
	return w;
}

/*
 * Requests that wait in a long queue fall out of the caches, and hold mbufs. Those with several mbufs, which are
 * pushes, go first while they are in the caches: then the small ones wait, and gradients are applied before rows are
 * read. If neither queue ever empties, one of BULK_RUN + 1 requests is a small one. A request that needs more than one
 * slice continues in the queue of small ones.
 */
void rpc_work_arrived(struct rpc_work *w)
{
	const struct rte_mbuf *payload = w->request.payload.m;

	work_enqueue(payload && payload->next ? &w->server->bulk : &w->server->small, w);
}

static void work_waits(struct rpc_work *w)
{
	work_enqueue(&w->server->small, w);
}

static struct work_queue *next_queue(struct rpc_server *server)
{
	return server->bulk.head && (server->bulk_run < BULK_RUN || !server->small.head) ? &server->bulk
											 : &server->small;
}

static struct rpc_work *take_next(struct rpc_server *server)
{
	struct work_queue *queue = next_queue(server);

	server->bulk_run = queue == &server->bulk ? server->bulk_run + 1 : 0;
	return work_dequeue(queue);
}

static void work_free(struct rpc_work *w)
{
	if (w->is_session)
		rpc_session_free(session_of(w));
	else
		rpc_stream_free(stream_of(w));
}

/* Sends the reply, and goes on to the peer's next request. */
static __rte_always_inline void answer_work(struct rpc_server *server, struct rpc_work *w, struct observe *observe)
{
	if (!w->peer) {
		server->counters.abandoned++;
		work_free(w);
		return;
	}
	w->reply_due = !rpc_reply_send(w);
	if (w->reply_due) {
		work_waits(w);
		return;
	}
	server->counters.requests++;
	if (observe)
		observe_commit(observe);
	if (w->is_session)
		rpc_session_next(session_of(w));
	else
		rpc_stream_next(stream_of(w));
}

/* Ends a request that has changed something. True: its reply waits. */
static __rte_noinline bool end_changed(struct rpc_work *w)
{
	struct rpc_server *server = w->server;

	if (!w->replayed) {
		const struct rpc_outcome outcome = rpc_replay_outcome(server->replay, w);

		server->options.service.ended(server->options.service.ctx, &outcome);
	}
	w->request.changed = false;
	return server->holds && rpc_work_hold(w);
}

/* Ends a request. */
static void finish_work(struct rpc_work *w)
{
	struct rpc_server *server = w->server;
	struct observe *observe = server->options.observe;

	if (unlikely(server->leaves) && w->reply_status == WIRE_STALE_LAYOUT && w->peer) {
		rpc_work_park(w);
		return;
	}
	if (PROBE_ON(request_end) && !w->reply_due)
		PROBE(request_end, w, w->request.frame.session, w->request.frame.sequence, w->reply_status,
		      w->reply_bytes);
	if (observe && w->peer)
		record_request(w);
	task_end(w);
	if (wire_status_is_busy(w->reply_status))
		w->refuses = w->reply_status;
	if (!w->replayed)
		rpc_replay_done(server->replay, w, w->reply_status);
	if (unlikely(w->request.changed) && end_changed(w))
		return;
	answer_work(server, w, observe);
}

void rpc_work_answer(struct rpc_work *w)
{
	answer_work(w->server, w, w->server->options.observe);
}

static enum rpc_progress starved(struct rpc_work *w)
{
	w->server->counters.starved++;
	if (w->hopeless)
		return rpc_reply_fail(
			&w->request, WIRE_OVER_LIMIT,
			"the reply needs more packet buffers than the node has: ask for fewer rows at once");
	return rpc_reply_fail(&w->request, WIRE_BUSY,
			      "the node has no buffers left for the reply: retry later, or ask for fewer rows at once");
}

/* The request was executed or refused before; the reply says which. */
static enum rpc_progress repeated(struct rpc_work *w, enum replay_verdict verdict, enum wire_status status)
{
	w->server->counters.repeated++;
	w->replayed = 1;
	/* Its changes may not be durable yet, even though only its first reply may have been lost. */
	w->request.changed = w->server->holds && verdict == REPLAY_REPEATED;
	if (verdict == REPLAY_REPEATED)
		return rpc_reply_fail(&w->request, WIRE_REPEATED, "it was executed when it was sent before");
	if (verdict == REPLAY_REFUSED)
		return rpc_reply_fail(&w->request, status, "%s (the request was refused when it was sent before)",
				      wire_status_text(status));
	return rpc_reply_fail(&w->request, WIRE_FORGOTTEN,
			      "the node does not remember whether it was executed when it was sent before");
}

/* A new session, or one that was forgotten. None of its requests may be executed: if one was sent again, nobody would
 * know that it had been executed. */
static enum rpc_progress no_session(struct rpc_work *w)
{
	w->server->counters.no_session++;
	return rpc_reply_fail(&w->request, WIRE_BUSY,
			      "the reactor remembers the sessions of %u workers, and may forget none yet, %d s after "
			      "they were lost: ask again later, or raise limits.connections of the node",
			      rpc_replay_count(w->server->replay), REPLAY_LEASE_S);
}

static enum rpc_progress refused(struct rpc_work *w)
{
	const struct rpc_server_options *o = &w->server->options;
	char text[WIRE_ERROR_TEXT_MAX];

	if (wire_status_is_quota(w->refusal))
		return rpc_quota_refuse(w);
	if (w->refusal == WIRE_OVER_LIMIT && w->request.frame.payload_bytes <= o->payload_max)
		return rpc_reply_fail(
			&w->request, WIRE_OVER_LIMIT,
			"the request needs more than %u packet buffers, half of what this reactor keeps for "
			"requests: split it, or give the node more",
			o->held_mbufs_max / 2);
	if (w->refusal == WIRE_OVER_LIMIT)
		return rpc_reply_fail(&w->request, WIRE_OVER_LIMIT, "%s", rpc_work_over_limit(w->server, text));
	return rpc_reply_fail(&w->request, WIRE_BUSY,
			      "the node has no buffers left for requests: retry, with smaller ones");
}

/* Checks a request before the service gets it. RPC_MORE: no answer, or not yet (*wait). */
static enum rpc_progress screen(struct rpc_work *w, uint64_t now_ns, bool *wait)
{
	struct rpc_server *server = w->server;
	struct rpc_request *r = &w->request;
	enum wire_status status = WIRE_OK;
	const enum replay_verdict verdict = rpc_replay_look(server->replay, w, now_ns, &status);

	*wait = verdict == REPLAY_WAIT;
	if (unlikely(*wait))
		return RPC_MORE;
	if (unlikely(verdict == REPLAY_FULL))
		return no_session(w);
	if (unlikely(verdict != REPLAY_RUN))
		return repeated(w, verdict, status);
	if (unlikely(w->refuses) && !(r->frame.flags & WIRE_BEHIND))
		w->refuses = WIRE_OK;
	if (unlikely(w->refuses))
		return rpc_reply_fail(r, (enum wire_status)w->refuses,
				      "the request before this one was refused (%s): retry",
				      wire_status_text(w->refuses));
	if (unlikely(now_ns > r->deadline_ns)) {
		server->counters.late++;
		return rpc_reply_fail(r, WIRE_DEADLINE, "the deadline passed before the request was executed");
	}
	if (unlikely(w->refusal))
		return refused(w);
	if (unlikely(w->starved_ns) && (w->hopeless || now_ns - w->starved_ns > server->options.stall_ns))
		return starved(w);
	return RPC_MORE;
}

static inline bool over_share(const struct rpc_work *w)
{
	return w->is_session ? dgram_over_share(w->session) : budget_over_share((const struct rpc_stream *)w);
}

/* The address has more unacknowledged replies than its share; false: the request has waited too long. */
static bool waits_for_share(struct rpc_work *w, uint64_t now_ns)
{
	w->server->short_of_mbufs = 1;
	w->request.why |= OBSERVE_WHY_SHARE;
	if (w->starved_ns == 0)
		w->starved_ns = now_ns;
	return now_ns - w->starved_ns <= w->server->options.stall_ns;
}

static enum rpc_progress run_slice(struct rpc_work *w, uint64_t now_ns)
{
	const struct rpc_service *service = &w->server->options.service;
	struct observe *observe = w->server->options.observe;
	struct rpc_request *r = &w->request;
	bool wait = false;

	if (r->frame.opcode == WIRE_PING) {
		w->replayed = 1; /* the ping may stand for a cancelled request: nobody will ask for its outcome */
		return RPC_DONE;
	}
	if (!r->begun && unlikely(over_share(w)) && waits_for_share(w, now_ns))
		return RPC_MORE;
	if (!r->begun && screen(w, now_ns, &wait) == RPC_DONE)
		return RPC_DONE;
	if (unlikely(wait))
		return RPC_MORE;
	if (!r->task) {
		PROBE(request_begin, w, r->frame.session, r->frame.sequence, r->frame.payload_bytes);
		if (service->direct && service->direct(service->ctx, r) == RPC_DONE) {
			if (observe)
				observe->stamp = 0;
			return RPC_DONE;
		}
		if (!task_take(w)) {
			r->why |= OBSERVE_WHY_TASK;
			return RPC_MORE;
		}
	}
	return observe ? rpc_record_slice(w, now_ns) : service->execute(service->ctx, r, now_ns);
}

/*
 * A request that waits in a long queue has fallen out of the caches since it arrived, with the state of its peer and
 * its payload. At each turn of another request it is prefetched one step further: the work itself; then the peer, and
 * the payload's first mbuf; then that mbuf's data, and the next mbuf; and so on. Each step reads only what an earlier
 * one has loaded.
 */
static void step_nearer(struct work_queue *queue, unsigned i)
{
	struct rpc_work *w = queue->ahead.at[i].work;
	const struct rte_mbuf *m = queue->ahead.at[i].m;

	if (!queue->ahead.at[i].begun) {
		queue->ahead.at[i].begun = true;
		queue->ahead.at[i].m = m = w->request.payload.m;
		if (w->peer && w->is_session)
			dgram_prefetch(w->session);
		else if (w->peer)
			link_prefetch(w);
	} else if (m) {
		net_fetch(rte_pktmbuf_mtod(m, const void *), RTE_MIN(m->data_len, (uint32_t)BEGIN_BYTES));
		queue->ahead.at[i].m = m = m->next;
	}
	if (m)
		net_fetch(m, sizeof(*m));
}

static void fetch_ahead(struct work_queue *queue)
{
	for (unsigned i = 0; i < queue->ahead.count; i++)
		step_nearer(queue, (queue->ahead.first + i) % AHEAD);
	while (queue->ahead.count < AHEAD) {
		const unsigned end = (queue->ahead.first + queue->ahead.count) % AHEAD;
		struct rpc_work *next =
			queue->ahead.count ? queue->ahead.at[(end + AHEAD - 1) % AHEAD].work->next : queue->head;

		if (!next)
			break;
		queue->ahead.at[end].work = next;
		queue->ahead.at[end].begun = false;
		queue->ahead.count++;
		net_fetch(next, sizeof(struct rpc_stream));
	}
}

/* Prefetches for the requests after w. */
static void look_ahead(struct rpc_server *server, struct rpc_work *w)
{
	const struct rpc_work *next = next_queue(server)->head;

	if (server->small.count >= AHEAD_FROM)
		fetch_ahead(&server->small);
	if (server->bulk.count >= AHEAD_FROM)
		fetch_ahead(&server->bulk);
	if (next)
		work_prefetch(server, next->request.payload.m, next->request.payload.offset, true);
	else if (w->is_session)
		rpc_session_prefetch_next(session_of(w));
}

unsigned rpc_run(struct rpc_server *server, unsigned max, uint64_t now_ns)
{
	unsigned slices = 0;

	server->turn_mbufs = 0;
	if (server->options.observe && next_queue(server)->head)
		observe_turn(server->options.observe, now_ns);
	for (; slices < max && server->turn_mbufs < BURST && next_queue(server)->head; slices++) {
		struct rpc_work *w = take_next(server);

		look_ahead(server, w);
		if (!w->peer && !w->request.begun)
			work_free(w); /* its peer closed before its turn came: nothing was changed */
		else if (!w->reply_due && run_slice(w, now_ns) == RPC_MORE)
			work_waits(w);
		else
			finish_work(w);
	}
	if (server->short_of_mbufs)
		rpc_budget_relieve(server);
	return slices;
}

void rpc_transmit(struct rpc_server *server, uint64_t now_ns)
{
	if (server->dgram)
		dgram_turn(server->dgram, now_ns);
}

bool rpc_datagrams_due(const struct rpc_server *server)
{
	return server->dgram && dgram_next_ns(server->dgram) != UINT64_MAX;
}

struct rpc_work *rpc_work_list(struct rpc_server *server, void *structs, uint32_t n, size_t bytes)
{
	struct rpc_work *list = NULL;

	for (uint32_t i = n; i-- > 0;) {
		struct rpc_work *w = (struct rpc_work *)((char *)structs + i * bytes);

		w->server = server;
		w->next = list;
		list = w;
	}
	return list;
}

const char *rpc_work_over_limit(const struct rpc_server *server, char text[WIRE_ERROR_TEXT_MAX])
{
	snprintf(text, WIRE_ERROR_TEXT_MAX,
		 "payload over the limit of %u MiB of this node (limits.request_mib): split the request",
		 server->options.payload_max >> 20);
	return text;
}

/* Sessions of datagrams at the same port. */
static int open_datagrams(struct rpc_server *server, struct star_error *err)
{
	struct dgram_options o = server->options.datagrams;

	server->sessions = calloc(o.sessions_max, sizeof(*server->sessions));
	if (!server->sessions)
		return star_error_set(err, -ENOMEM, "no memory for %u sessions", o.sessions_max);
	server->free_sessions = rpc_work_list(server, server->sessions, o.sessions_max, sizeof(*server->sessions));
	o.net = server->options.net;
	o.port = server->options.port;
	o.accepts = true;
	o.closed = server->options.closed;
	o.tickets = server->options.tickets;
	o.held_mbufs_max = server->options.held_mbufs_max;
	o.message_max = sizeof(struct wire_frame) + server->options.payload_max;
	o.handler = &rpc_session_handler;
	o.ctx = server;
	server->dgram = dgram_create(&o, err);
	return server->dgram ? 0 : err->code;
}

static int listen_for_streams(struct rpc_server *server, struct star_error *err)
{
	const struct rpc_server_options *o = &server->options;
	int status;

	if (o->transport) {
		status = o->transport->listen(o->transport_ctx, o->port, &rpc_stream_handler, server);
		return status < 0 ? star_error_set(err, status, "port %u cannot be listened at: %s", o->port,
						   strerror(-status))
				  : 0;
	}
	if (tcp_listen(o->net, o->port, &rpc_stream_handler, server) < 0)
		return star_error_set(err, -EADDRINUSE, "data port %u is in use by another service of this stack",
				      o->port);
	return 0;
}

int rpc_server_listen(struct rpc_server *server, struct star_error *err)
{
	int status;

	if (!server->options.closed && !server->leaves)
		return 0;
	status = listen_for_streams(server, err);
	if (status < 0)
		return status;
	if (server->dgram)
		dgram_listen(server->dgram);
	rpc_replay_begin(server->replay, net_now_ns(server->options.net));
	server->options.closed = server->leaves = false;
	return 0;
}

struct rpc_server *rpc_server_create(const struct rpc_server_options *options, struct star_error *err)
{
	const uint32_t spent_offset = RTE_ALIGN_CEIL(options->service.task_bytes + 1, (uint32_t)sizeof(uint64_t));
	const uint32_t task_bytes =
		RTE_ALIGN_CEIL(spent_offset + (uint32_t)sizeof(struct observe_spent), RTE_CACHE_LINE_SIZE);
	/* Each request in progress holds at least one buffer, so there cannot be more at once. */
	const uint32_t tasks =
		RTE_MIN(options->streams_max + options->datagrams.sessions_max, options->held_mbufs_max + 1);
	struct rpc_server *server = calloc(1, sizeof(*server));

	if (!server)
		goto fail;
	server->options = *options;
	server->pool_mbufs = net_pool(options->net)->size;
	TAILQ_INIT(&server->waiting);
	server->favour_timer.fire = rpc_budget_timer;
	server->held_timer.fire = rpc_held_timer;
	server->streams = calloc(options->streams_max, sizeof(*server->streams));
	server->tasks = calloc(tasks, task_bytes);
	server->tasks_max = tasks;
	server->task_bytes = task_bytes;
	server->spent_offset = spent_offset;
	server->replay = rpc_replay_create(options->streams_max + options->datagrams.sessions_max + REPLAY_LEFT,
					   options->datagrams.secret[0]);
	if (rpc_quota_init(server) < 0)
		goto fail;
	if (options->tickets)
		server->seals = rpc_sealed_create(options->streams_max);
	base_cores_without_rest(server->streams, options->streams_max * sizeof(*server->streams));
	base_cores_without_rest(server->tasks, (size_t)tasks * task_bytes);
	if (!server->streams || !server->tasks || !server->replay || (options->tickets && !server->seals))
		goto fail;
	server->free_streams = rpc_work_list(server, server->streams, options->streams_max, sizeof(*server->streams));
	if (server->seals)
		rpc_sealed_watch(server);
	if (!options->closed && listen_for_streams(server, err) < 0) {
		rpc_server_destroy(server);
		return NULL;
	}
	if (options->datagrams.sessions_max && open_datagrams(server, err) < 0) {
		rpc_server_destroy(server);
		return NULL;
	}
	return server;

fail:
	star_error_set(err, -ENOMEM, "no memory for %u streams", options->streams_max);
	rpc_server_destroy(server);
	return NULL;
}

void rpc_server_destroy(struct rpc_server *server)
{
	if (!server)
		return;
	if (server->options.net) {
		wheel_cancel(net_wheel(server->options.net), &server->favour_timer);
		wheel_cancel(net_wheel(server->options.net), &server->review_timer);
		wheel_cancel(net_wheel(server->options.net), &server->held_timer);
	}
	for (uint32_t i = 0; server->streams && i < server->options.streams_max; i++)
		if (server->streams[i].state != STREAM_FREE)
			rpc_stream_free(&server->streams[i]);
	for (uint32_t i = 0; server->sessions && i < server->options.datagrams.sessions_max; i++)
		if (server->sessions[i].state != SESSION_FREE)
			rpc_session_free(&server->sessions[i]);
	dgram_destroy(server->dgram);
	rpc_replay_destroy(server->replay);
	rpc_sealed_destroy(server->seals);
	free(server->sessions);
	free(server->streams);
	free(server->tasks);
	free(server->accounts);
	free(server);
}

const struct rpc_counters *rpc_counters(const struct rpc_server *server)
{
	return &server->counters;
}

const struct dgram *rpc_datagrams(const struct rpc_server *server)
{
	return server->dgram;
}

bool rpc_outcomes(struct rpc_server *server, uint32_t *at, unsigned n,
		  void (*visit)(void *ctx, const struct rpc_outcome *outcome), void *ctx)
{
	struct rpc_outcome outcome;

	for (; n > 0; n--) {
		if (!rpc_replay_next(server->replay, at, &outcome))
			return false;
		visit(ctx, &outcome);
	}
	return true;
}

void rpc_restore_outcome(struct rpc_server *server, const struct rpc_outcome *outcome)
{
	if (outcome->session)
		rpc_replay_restore(server->replay, outcome, net_now_ns(server->options.net));
}

void rpc_server_set_layout(struct rpc_server *server, uint32_t epoch, uint32_t incarnation)
{
	server->epoch = epoch;
	server->incarnation = incarnation;
	if (server->dgram)
		dgram_set_incarnation(server->dgram, incarnation);
}
