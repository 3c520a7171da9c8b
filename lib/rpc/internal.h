/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/rpc share, except for dgram_*.c (dgram_internal.h). Everything belongs to the stack's
 * thread. */
#ifndef RPC_INTERNAL_H
#define RPC_INTERNAL_H

#include <sys/queue.h>

#include "base/crc32.h"
#include "base/wheel.h"
#include "rpc/replay.h"
#include "rpc/rpc.h"

/* A request that is executed or waits for its turn, and its reply: what streams (TCP) and sessions (datagrams) have in
 * common. */
struct rpc_work {
	struct rpc_server *server;
	union { /* NULL once it is gone */
		void *peer;
		struct tcp_conn *conn;	       /* of a stream */
		struct dgram_session *session; /* of a session */
	};
	struct rpc_work *next; /* in a queue or a free list */
	struct rte_mbuf *reply_head, *reply_tail;
	union {
		uint64_t starved_ns; /* when the reply first found no mbufs; 0: it did not wait */
		uint64_t held_for;   /* while it is in held.c: the stream position that its reply waits for */
	};
	uint32_t reply_bytes; /* of payload */
	uint8_t reply_status;
	uint8_t reply_due; /* the request is done, but there was no mbuf for its reply yet */
	uint8_t hopeless;  /* its reply needs more mbufs than there are */
	uint8_t is_session;
	/* a request was refused with this status (wire_status_is_busy): those sent after it are refused too
	 * (WIRE_BEHIND); WIRE_OK: none was */
	uint8_t refuses;
	/* enum wire_status with which the request is refused before the service sees it; WIRE_OK: it is not */
	uint8_t refusal;
	uint8_t ended;	  /* its peer has closed in order, and has had all replies */
	uint8_t replayed; /* the reply has the result of the request from when it was sent before */
	uint32_t replay;  /* its session's index in replay.c; 0: none yet */
	struct rpc_request request;
};

static inline struct rpc_work *work_of(struct rpc_request *request)
{
	return (struct rpc_work *)((char *)request - offsetof(struct rpc_work, request));
}

enum rpc_stream_state {
	STREAM_FREE,
	STREAM_HEADER,	 /* waiting for a header */
	STREAM_PAYLOAD,	 /* waiting for the rest of a request */
	STREAM_READY,	 /* a request is being executed, or waits for its turn */
	STREAM_BLOCKED,	 /* a request waits until the peer has read earlier replies */
	STREAM_DRAINING, /* an error was answered: input is ignored until the peer closes */
};

/* A peer over TCP. */ struct rpc_stream {
	struct rpc_work work;
	uint8_t state;
	uint8_t peer_finished;
	uint8_t waiting;    /* for the budget */
	uint8_t mute : 1;   /* nothing has come from it, or nothing after its hello */
	uint8_t sealed : 1; /* its hello was accepted: all that follows are records (sealed.h) */
	uint8_t aside : 6;  /* bytes of the next header that are in work.request.frame; nothing is in the chain then */
	uint32_t mbufs;	    /* in the chain */
	/* received: a chain of mbufs, in order; the first starts at the current frame */
	struct rte_mbuf *head, *tail;
	uint32_t have;	  /* bytes in the chain */
	uint32_t granted; /* of these: TCP's window was opened again for them, for the current frame */
	/* the checksum of the current request's payload so far */
	struct rte_mbuf *crc_at;
	union {
		struct {
			uint32_t crc, crc_done;
		};
		uint64_t arrived_ns; /* once the request is whole: when its last byte came */
	};
	uint32_t dropped; /* bytes of the current request's payload that were dropped: work.refusal says why */
	uint16_t crowd;	  /* index of its peer's address in rpc_server.unread */
	/* mbufs of replies that the peer had not acknowledged when last checked; their bytes are
	 * request.unread_bytes */
	uint16_t unread;
	struct wheel_timer timer; /* stall, or draining */
	TAILQ_ENTRY(rpc_stream) wait_link;
};

/* An idle established connection takes a TCP connection, at most twice four bytes of its hash table, and a stream. It
 * has mbufs, and a task, only while a request is there. */
_Static_assert(TCP_CONN_BYTES + 8 + sizeof(struct rpc_stream) <= 1024, "memory of an idle connection");

/* The number that a client has chosen for its session, and the number used here. With tickets that depends on its
 * principal, so that nobody can use another principal's session. */
struct rpc_bound {
	uint64_t chosen, session;
};

enum rpc_session_state {
	SESSION_FREE,
	SESSION_IDLE,
	SESSION_READY, /* as for a stream */
	SESSION_BLOCKED,
};

/* A peer over datagrams. */
struct rpc_session {
	struct rpc_work work;
	/* the session that the messages came from, even when it is gone: they must be released to it */
	struct dgram_session *from;
	uint8_t state;
	uint8_t tagged;	  /* its frames have no checksum, because its packets have tags */
	uint16_t account; /* index + 1 of the account of its ticket's principal; 0: none (quota.h) */
	uint32_t at;	  /* offset of the current request in the first mbuf's data */
	/* complete requests, of which the first is being executed; session.c keeps their state in the private area of
	 * their first mbuf */
	struct rte_mbuf *head, *tail;
	const struct secure_guest *guest; /* whose ticket it was opened with; NULL: none */
	struct rpc_bound bound;
};

static inline struct rpc_stream *stream_of(struct rpc_work *work)
{
	return (struct rpc_stream *)work;
}

static inline struct rpc_session *session_of(struct rpc_work *work)
{
	return (struct rpc_session *)work;
}

enum { CROWDS = 1024 }; /* a power of two */

/* Requests that are ready, in the order in which they came. If there are many, memory that the first AHEAD after the
 * very next one will need is prefetched, step by step. */
enum { AHEAD = 6 };
struct work_queue {
	struct rpc_work *head, *tail;
	uint32_t count;
	struct {
		uint32_t first, count;
		struct {
			struct rpc_work *work;
			/* the mbuf of its payload that is prefetched next; its header is in the cache, or soon will
			 * be */
			const struct rte_mbuf *m;
			bool begun;
		} at[AHEAD];
	} ahead;
};

struct rpc_server {
	struct rpc_server_options options;
	uint32_t epoch, incarnation;
	bool leaves; /* leave.c */
	struct rpc_stream *streams;
	struct rpc_session *sessions;
	struct rpc_work *free_streams, *free_sessions;
	struct work_queue small, bulk; /* bulk: those of several mbufs */
	uint32_t bulk_run;	       /* bulk requests executed since the last small one */
	struct replay *replay;
	struct rpc_seal *seals;		    /* of the streams; NULL: no tickets are required */
	const struct secure_limits *limits; /* NULL: the same */
	struct secure_account *accounts;
	uint64_t welcomes;		 /* sent so far */
	struct wheel_timer review_timer; /* sealed.c: looks for peers whose rights were revoked */
	uint32_t reviews, review_at, review_session;
	bool reviewing_sessions;
	struct dgram *dgram; /* NULL: there are no sessions */
	char *tasks;
	uint32_t task_bytes, tasks_max, tasks_used; /* tasks_used: the most so far */
	uint32_t spent_offset;			    /* of record.c's data in a task */
	void *free_tasks;			    /* list of free tasks; each begins with a pointer to the next */
	uint32_t pool_mbufs;			    /* size of the stack's pool */
	uint32_t held_mbufs;
	uint32_t turn_mbufs;		/* of this turn's replies */
	struct crc32_length crc_length; /* stream.c: for the mbuf that was last added to a payload's checksum */
	/* held.c: replies that wait until they are durable, in order of position */
	bool holds;
	uint32_t held;
	struct rpc_work *held_head, *held_tail;
	uint64_t durable; /* the durable position that was reported last */
	struct wheel_timer held_timer;
	bool retains;  /* replies to requests that their peers keep do not wait */
	uint32_t life; /* counts how often replies began to wait */
	/* budget.c */
	struct rpc_stream *favoured; /* the one whose window is opened while mbufs are short */
	uint64_t favoured_ns;	     /* when its window was last opened */
	struct wheel_timer favour_timer;
	TAILQ_HEAD(, rpc_stream) waiting;
	uint32_t unread[CROWDS]; /* mbufs of replies that are not acknowledged, by a hash of the streams' addresses */
	uint8_t short_of_mbufs;	 /* a reply found no mbufs, or its address has used its share */
	uint64_t relieved_ns;
	struct rpc_counters counters;
};

/* server.c */
/* A request begins: clears what is left of the one before. */
static inline void rpc_work_begin(struct rpc_work *w)
{
	w->request.begun = false;
	w->request.changed = false;
	w->request.why = 0;
	w->request.failed = false;
	w->hopeless = 0;
	w->starved_ns = 0;
	w->reply_due = 0;
	w->refusal = WIRE_OK;
	w->replayed = 0;
}
/* A request is complete, and waits for its turn from now on. */
void rpc_work_arrived(struct rpc_work *work);
/* A request will be executed: lets the service prefetch for it, as far as it is contiguous. imminent: it is the next
 * one. */
static inline void work_prefetch(const struct rpc_server *server, const struct rte_mbuf *m, uint32_t at, bool imminent)
{
	const struct rpc_service *service = &server->options.service;

	if (m && at < m->data_len && service->prefetch)
		service->prefetch(service->ctx, rte_pktmbuf_mtod_offset(m, const void *, at), m->data_len - at,
				  imminent);
}

/* The request is done, and recorded in the replay table: sends its reply, and begins the peer's next request. */
void rpc_work_answer(struct rpc_work *work);

/* leave.c: the request gets no answer, and its peer's next one does not begin. */
void rpc_work_park(struct rpc_work *work);

/* held.c: keeps a reply until it is durable. false: it may be sent at once. */
bool rpc_work_hold(struct rpc_work *work);
void rpc_held_timer(struct wheel_timer *timer, uint64_t now_ns);
/* Writes into a reply how much of its session is durable. */
void rpc_work_tell(const struct rpc_work *work, struct wire_frame *frame);
/* If a request was sent again, and its session need not keep it: writes how many of the following ones it need not send
 * again. */
void rpc_work_tell_ahead(const struct rpc_work *work, struct wire_frame *frame);

/* Drops the reply, and frees what the execution of a request has used. */
void rpc_work_end(struct rpc_work *work);
/* The error message for a request over the node's limit. Returns text. */
const char *rpc_work_over_limit(const struct rpc_server *server, char text[WIRE_ERROR_TEXT_MAX]);
/* Makes a free list of n structs of this many bytes, each of which begins with a struct rpc_work and is zeroed. */
struct rpc_work *rpc_work_list(struct rpc_server *server, void *structs, uint32_t n, size_t bytes);

/* stream.c */
extern const struct tcp_handler rpc_stream_handler;
/* The reply was sent, or will be by the next call: begins the next request. */
void rpc_stream_next(struct rpc_stream *s);
void rpc_stream_free(struct rpc_stream *s);
/* The current request was executed: frees what it has used, although its reply waits. */
void rpc_stream_let_go(struct rpc_stream *s);

/* session.c */
extern const struct dgram_handler rpc_session_handler;
void rpc_session_next(struct rpc_session *s);
void rpc_session_free(struct rpc_session *s);
/* work_prefetch for the request after the current one. */
void rpc_session_prefetch_next(const struct rpc_session *s);
/* Ends it, because its peer does not read. */
void rpc_session_give_up(struct rpc_session *s);

/* When the current request was complete. */
uint64_t rpc_session_arrived_ns(const struct rpc_session *s);
static inline uint64_t work_arrived_ns(struct rpc_work *work)
{
	return work->is_session ? rpc_session_arrived_ns(session_of(work)) : stream_of(work)->arrived_ns;
}

/* budget.c */
/* Opens TCP's window for the current frame, which has n bytes. What follows it stays unread. */
void rpc_budget_grant(struct rpc_stream *s, uint32_t n);
/* The request is complete, or the stream has ended. */
void rpc_budget_leave(struct rpc_stream *s);
/* Fires while streams wait. */
void rpc_budget_timer(struct wheel_timer *timer, uint64_t now_ns);
/* Mbufs have become free: streams that wait continue. */
void rpc_budget_resume(struct rpc_server *server);
/* A reply found no mbuf, or its address has used its share: ends streams, or a session, whose peers do not read. */
void rpc_budget_relieve(struct rpc_server *server);
/* The index in `unread` for a new stream. */
uint16_t rpc_budget_crowd(const struct rpc_server *server, const struct tcp_conn *conn);
/* A reply of n mbufs was passed to TCP. */
void rpc_budget_sent(struct rpc_stream *s, uint32_t mbufs);
/* The peer has acknowledged some of its replies. */
void rpc_budget_read(struct rpc_stream *s);
/* The stream ends. */
void rpc_budget_forget(struct rpc_stream *s);
/* Whether the peer's address has more unacknowledged mbufs than its share, which is the same part of the pool as for
 * sessions (dgram_over_share). */
static inline bool budget_over_share(const struct rpc_stream *s)
{
	const struct rpc_server *server = s->work.server;

	return server->unread[s->crowd] > server->pool_mbufs >> (1 + 2 * net_pressure(server->options.net));
}

/* reply.c */
void rpc_reply_drop(struct rpc_work *work);
/* The reply has to wait: copies it to an mbuf of its own if it shares a packet, and if there is one. */
void rpc_reply_part(struct rpc_work *work);
bool rpc_reply_send(struct rpc_work *work);

#endif
