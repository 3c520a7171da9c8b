/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/rpc share, those of dgram_*.c apart. */
#ifndef RPC_INTERNAL_H
#define RPC_INTERNAL_H

#include <sys/queue.h>

#include "base/crc32.h"
#include "base/wheel.h"
#include "rpc/replay.h"
#include "rpc/rpc.h"

/* A request that is executed, or waits for its turn, and its reply: what streams and sessions have in common. */
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
		uint64_t starved_ns; /* since when the reply has found no mbufs; 0: it has not waited */
		uint64_t held_for;   /* while held.c has it: what its reply waits for */
	};
	uint32_t reply_bytes; /* of payload */
	uint8_t reply_status;
	uint8_t reply_due; /* the request is done, but there was no mbuf for its reply */
	uint8_t hopeless;  /* it needs more mbufs than there are */
	uint8_t is_session;
	/* a request was refused with this status (wire_status_is_busy): those sent behind it are refused, too
	 * (WIRE_BEHIND); WIRE_OK: none was */
	uint8_t refuses;
	/* enum wire_status with which the request is refused before the service sees it; WIRE_OK: it is not */
	uint8_t refusal;
	uint8_t ended;	  /* its peer has left in order, and has had all answers */
	uint8_t replayed; /* the reply says what became of the request when it was sent before */
	uint32_t replay;  /* its session's place in replay.c; 0: none yet */
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
	STREAM_BLOCKED,	 /* a request waits for the peer to read earlier replies */
	STREAM_DRAINING, /* an error was answered: input is ignored until the peer closes */
};

/* Over TCP. */
struct rpc_stream {
	struct rpc_work work;
	uint8_t state;
	uint8_t peer_finished;
	uint8_t waiting;    /* for the budget */
	uint8_t mute : 1;   /* nothing has come of it, or nothing behind its hello */
	uint8_t sealed : 1; /* its hello was taken: what comes and goes are records (sealed.h) */
	uint32_t mbufs;	    /* in the chain */
	/* received: a chain of mbufs, in order; the first starts at the current frame */
	struct rte_mbuf *head, *tail;
	uint32_t have;	  /* bytes in the chain */
	uint32_t granted; /* of them: given back to TCP's window, because the current frame needs them */
	/* the checksum of the current request's payload, as far as it has come */
	struct rte_mbuf *crc_at;
	union {
		struct {
			uint32_t crc, crc_done;
		};
		uint64_t arrived_ns; /* once the request is whole: when its last byte came */
	};
	uint32_t dropped; /* bytes of the current request's payload that were thrown away: work.refusal says why */
	uint16_t crowd;	  /* where its peer's address counts: in rpc_server's unread */
	/* mbufs of replies that the peer had not acknowledged at the last look; their bytes: request.unread_bytes */
	uint16_t unread;
	struct wheel_timer timer; /* stall, or draining */
	TAILQ_ENTRY(rpc_stream) wait_link;
};

/* An idle established connection is a TCP connection, at most twice four bytes of its table, and a stream; mbufs, and a
 * task for what is executed, it has only while there is something to do. */
_Static_assert(TCP_CONN_BYTES + 8 + sizeof(struct rpc_stream) <= 1024, "memory of an idle connection");

/* The number that a client has chosen for its session, and what it is here: where there are tickets, its principal's
 * own. */
struct rpc_bound {
	uint64_t chosen, session;
};

enum rpc_session_state {
	SESSION_FREE,
	SESSION_IDLE,
	SESSION_READY, /* as of a stream */
	SESSION_BLOCKED,
};

/* Over datagrams. */
struct rpc_session {
	struct rpc_work work;
	struct dgram_session *from; /* the session, even when it is gone: what it has brought is given back to it */
	uint8_t state;
	uint8_t tagged;	  /* no frame has a checksum: its packets have tags */
	uint16_t account; /* of the principal by whose ticket it was opened, and 1; 0: of none (quota.h) */
	uint32_t at;	  /* of the request that is executed, in the first mbuf's data */
	/* whole requests, the first one being executed: session.c keeps what it knows of them in the private area of
	 * their first mbuf */
	struct rte_mbuf *head, *tail;
	const struct secure_guest *guest; /* by whose ticket it was opened; NULL: by none */
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

/* What is ready, in the order in which it came. Of many, what the first ones need is being loaded, step by step, but
 * for the very next one's. */
enum { AHEAD = 6 };
struct work_queue {
	struct rpc_work *head, *tail;
	uint32_t count;
	struct {
		uint32_t first, count;
		struct {
			struct rpc_work *work;
			const struct rte_mbuf
				*m; /* of its payload: the next one to be loaded; its head is, or soon will be */
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
	struct work_queue small, bulk; /* bulk: of several mbufs each, which have just come */
	uint32_t bulk_run;	       /* of these executed since the last other one */
	struct replay *replay;
	struct rpc_seal *seals;		    /* of the streams; NULL: the data network is open */
	const struct secure_limits *limits; /* NULL: the same */
	struct secure_account *accounts;
	uint64_t welcomes;		 /* so far */
	struct wheel_timer review_timer; /* and of sealed.c, for those who were thrown out */
	uint32_t reviews, review_at, review_session;
	bool reviewing_sessions;
	struct dgram *dgram; /* NULL: there are no sessions */
	char *tasks;
	uint32_t task_bytes, tasks_max, tasks_used; /* used so far */
	uint32_t spent_offset;			    /* in a task: record.c's */
	void *free_tasks;			    /* of these; each begins with a pointer to the next */
	uint32_t pool_mbufs;			    /* of the stack's pool */
	uint32_t held_mbufs;
	uint32_t turn_mbufs;		/* of replies of this turn */
	struct crc32_length crc_length; /* stream.c: of the mbuf of a payload that was added to its checksum last */
	/* held.c: replies that wait, by what for */
	bool holds;
	uint32_t held;
	struct rpc_work *held_head, *held_tail;
	uint64_t durable; /* as it was told last */
	struct wheel_timer held_timer;
	bool retains;  /* what the peers keep does not wait */
	uint32_t life; /* how often replies have begun to wait */
	/* budget.c */
	struct rpc_stream *favoured; /* whose window is opened while mbufs are short */
	uint64_t favoured_ns;	     /* when it was last given something */
	struct wheel_timer favour_timer;
	TAILQ_HEAD(, rpc_stream) waiting;
	uint32_t unread[CROWDS]; /* by the hash of the streams' addresses: mbufs of replies that are not acknowledged */
	uint8_t short_of_mbufs;	 /* a reply found none, or waits for an address's share */
	uint64_t relieved_ns;
	struct rpc_counters counters;
};

/* server.c */
/* A request comes: nothing of the one before is left. */
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
/* A request is whole, and waits for its turn from now on. */
void rpc_work_arrived(struct rpc_work *work);
/* A request will be executed: says so to the service, as far as it lies in one piece. */
static inline void work_prefetch(const struct rpc_server *server, const struct rte_mbuf *m, uint32_t at, bool imminent)
{
	const struct rpc_service *service = &server->options.service;

	if (m && at < m->data_len && service->prefetch)
		service->prefetch(service->ctx, rte_pktmbuf_mtod_offset(m, const void *, at), m->data_len - at,
				  imminent);
}

/* The request is at its end, and remembered: its reply goes, and the next one's turn comes. */
void rpc_work_answer(struct rpc_work *work);

/* leave.c: it stays without an answer, and its peer's next one does not begin. */
void rpc_work_park(struct rpc_work *work);

/* held.c: false: the reply goes at once. */
bool rpc_work_hold(struct rpc_work *work);
void rpc_held_timer(struct wheel_timer *timer, uint64_t now_ns);
/* Says in a reply what of its session is durable. */
void rpc_work_tell(const struct rpc_work *work, struct wire_frame *frame);
/* And where nothing of it has to be kept, of a request that comes again: what else of it need not. */
void rpc_work_tell_ahead(const struct rpc_work *work, struct wire_frame *frame);

/* Drops the reply, and gives back what the execution of a request needs. */
void rpc_work_end(struct rpc_work *work);
/* What is said of a request that is over the node's limit, written to the text, which is returned. */
const char *rpc_work_over_limit(const struct rpc_server *server, char text[WIRE_ERROR_TEXT_MAX]);
/* Makes a free list of n structs of this many bytes that begin with a work; they are zeroed. */
struct rpc_work *rpc_work_list(struct rpc_server *server, void *structs, uint32_t n, size_t bytes);

/* stream.c */
extern const struct tcp_handler rpc_stream_handler;
/* The reply was sent, or will be by the next call: the next request's turn comes. */
void rpc_stream_next(struct rpc_stream *s);
void rpc_stream_free(struct rpc_stream *s);
/* The request at hand was executed: what it has taken goes back, though its reply waits. */
void rpc_stream_let_go(struct rpc_stream *s);

/* session.c */
extern const struct dgram_handler rpc_session_handler;
void rpc_session_next(struct rpc_session *s);
void rpc_session_free(struct rpc_session *s);
/* work_prefetch for the request behind the one that is being executed. */
void rpc_session_prefetch_next(const struct rpc_session *s);
/* Ends it: its peer does not read. */
void rpc_session_give_up(struct rpc_session *s);

/* When the request at hand came, which is whole. */
uint64_t rpc_session_arrived_ns(const struct rpc_session *s);
static inline uint64_t work_arrived_ns(struct rpc_work *work)
{
	return work->is_session ? rpc_session_arrived_ns(session_of(work)) : stream_of(work)->arrived_ns;
}

/* budget.c */
/* Gives TCP's window back what belongs to the current frame, n bytes long; what follows it waits, unread. */
void rpc_budget_grant(struct rpc_stream *s, uint32_t n);
/* The request is whole, or the stream has ended. */
void rpc_budget_leave(struct rpc_stream *s);
/* Fires while streams wait. */
void rpc_budget_timer(struct wheel_timer *timer, uint64_t now_ns);
/* Mbufs have become free: streams that wait go on. */
void rpc_budget_resume(struct rpc_server *server);
/* A reply found no mbuf, or waits for its share: ends streams, or a session, whose peers do not read. */
void rpc_budget_relieve(struct rpc_server *server);
/* Where a new stream counts. */
uint16_t rpc_budget_crowd(const struct rpc_server *server, const struct tcp_conn *conn);
/* A reply of n mbufs was given to TCP; */
void rpc_budget_sent(struct rpc_stream *s, uint32_t mbufs);
/* the peer has acknowledged some; */
void rpc_budget_read(struct rpc_stream *s);
/* the stream ends. */
void rpc_budget_forget(struct rpc_stream *s);
/* The peer's address has more mbufs unacknowledged than its share: the same part of the pool as with sessions
 * (dgram_over_share). */
static inline bool budget_over_share(const struct rpc_stream *s)
{
	const struct rpc_server *server = s->work.server;

	return server->unread[s->crowd] > server->pool_mbufs >> (1 + 2 * net_pressure(server->options.net));
}

/* reply.c */
void rpc_reply_drop(struct rpc_work *work);
/* The reply is to wait: it gets an mbuf of its own if it shares a packet, and there is one. */
void rpc_reply_part(struct rpc_work *work);
bool rpc_reply_send(struct rpc_work *work);

#endif
