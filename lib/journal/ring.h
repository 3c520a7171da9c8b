/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a reactor hands to the thread that writes its journal, and to the one that sends it to a standby: a stream of
 * bytes through a ring of fixed size. One writer, the reactor (journal_take and what follows it); up to two readers,
 * these threads, each at its own pace. The ring's memory is mapped twice, one behind the other, so that each record
 * lies in one piece. Positions only grow.
 *
 * Nothing here allocates or waits. While a reader is behind (journal_is_behind) the reactor begins nothing new; what it
 * has begun to write has room. If there is none after all, or the reader does not come on for its wait_ns, that reader
 * is lost: the reactor goes on without it, and its thread says so. What it reads may be overwritten from then on while
 * there is another one, so a thread that has copied something looks whether it is lost before it believes that
 * (journal_is_cut_off). A ring without a reader is lost itself: nothing is written to it any more.
 */
#ifndef JOURNAL_RING_H
#define JOURNAL_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "star_error.h"
#include "wire/journal.h"

enum {
	JOURNAL_RING_MIN = 8 << 20,
	JOURNAL_SLICE_MAX = 4 << 20, /* what a slice of a request may write at most */
	JOURNAL_LAG_NS = 100000000,  /* the reactor waits when what it has written is not on disk after so long */
	/* What passes between two looks counts as waiting so much at most: the process may not have run, and its thread
	 * not either. */
	JOURNAL_LOOK_NS = 100000000,
};

enum journal_reader { JOURNAL_DISK, JOURNAL_LINK, JOURNAL_READERS };

struct journal_end {
	uint64_t at __attribute__((aligned(64))); /* it has all up to there; the reader's */
	bool off;				  /* it reads no more; the reader's */
	/* the reactor's, read by the reader */
	bool there;	  /* it holds the ring's tail */
	bool lost;	  /* it was not waited for any longer, ... */
	bool passes;	  /* ... and no reply waits for it */
	uint64_t wait_ns; /* for so long it is waited for */
};

/*
 * What is durable, for replies that wait for it: a restart or a standby goes back to the last mark that it has, so what
 * a reader has counts up to the last mark that lies whole before the place to which it has come. Replies wait for one
 * reader or for both. As long as there is room, reactors go on whatever these do: what they do not have is not told.
 * The reactor's.
 */
enum { JOURNAL_GATE_MARKS = 64 };
struct journal_gate {
	bool on;
	uint8_t readers;	       /* for which of them they wait, as bits: of those that still read */
	bool patient;		       /* no reply waits for the next mark: it need not come with the turn's end */
	bool late;		       /* the reader has not had what was written for JOURNAL_LAG_NS, ... */
	uint64_t waited_ns, looked_ns; /* ... and for how long replies have waited since, as of a ring */
	uint32_t first, count;
	uint64_t durable;		    /* behind the last mark that the reader has */
	uint64_t marks[JOURNAL_GATE_MARKS]; /* behind later ones; when there are more, the last place is the latest's */
};

struct journal_ring {
	/* constant */
	uint8_t *memory;
	uint64_t bytes; /* a power of two */
	/* NULL, or called by a reader whenever it has come on: a reactor that sleeps may wait for it. */
	void (*moved)(void *ctx, enum journal_reader reader);
	void *moved_ctx;
	/* the reactor's */
	uint64_t head __attribute__((aligned(64)));
	uint64_t tail_seen;
	uint64_t changes;	       /* goes up with all that is to be remembered, written or not */
	uint64_t marked;	       /* head behind the last mark */
	uint64_t waited_ns;	       /* how long it has waited for a reader, ... */
	uint64_t looked_ns;	       /* ... up to this time; 0: it does not wait */
	struct journal_record *record; /* a run that goes on, up to head; NULL: none */
	uint64_t lag_at,
		lag_since_ns; /* a position that a reader has not come to, and since when it has had to; 0: none */
	bool slow;	      /* it is time to wait for that */
	bool fenced;	      /* the lease was over at the last look: nothing may be changed */
	bool passes;	      /* lost, and the reactor goes on without */
	bool lost;	      /* no reader is there any more; read by others */
	/* the reactor's, read by others */
	uint64_t published __attribute__((aligned(64))); /* head, as far as readers may read */
	uint64_t waits;					 /* times that it has waited */
	uint64_t instant_id, instant_at; /* of the last checkpoint that was begun, where its record begins, ... */
	uint64_t sessions_of;		 /* ... and of which all sessions are written again */
	/* the readers': all of them have all up to there */
	uint64_t tail __attribute__((aligned(64)));
	/* Up to when changes may be made, because a standby has promised not to take over before; 0: always. While
	 * there is a lease, a reactor whose standby's reader is lost does not go on, but waits until it is told. */
	uint64_t lease_ns;
	struct journal_end ends[JOURNAL_READERS];
	struct journal_gate gate __attribute__((aligned(64)));
};

/* bytes: JOURNAL_RING_MIN at least, made a power of two. JOURNAL_DISK is there. NULL with err. */
struct journal_ring *journal_ring_create(uint64_t bytes, uint64_t wait_ns, struct star_error *err);
void journal_ring_destroy(struct journal_ring *ring);
/* Nobody reads it or writes to it: it begins again, empty, where it is, and with no reader. JOURNAL_DISK stays lost if
 * it was: its thread may not have seen it yet. */
void journal_ring_restart(struct journal_ring *ring);

/* On the reactor: a reader is there from now on, and gets what is written from now on. Or it is there no more. */
void journal_reader_begin(struct journal_ring *ring, enum journal_reader reader, uint64_t wait_ns);
void journal_reader_end(struct journal_ring *ring, enum journal_reader reader);
/* On the reactor: whether it reads, and will. */
static inline bool journal_reads(const struct journal_ring *ring, enum journal_reader reader)
{
	return ring->ends[reader].there && !__atomic_load_n(&ring->ends[reader].off, __ATOMIC_RELAXED);
}

/* Out of line: the readers' tail is looked at again. */
bool journal_has_room(struct journal_ring *ring, uint64_t bytes);

static inline uint8_t *journal_at(const struct journal_ring *ring, uint64_t position)
{
	return ring->memory + (position & (ring->bytes - 1));
}

/* Room for a record with n bytes of content, a multiple of 8; NULL: the ring is lost. Aligned to 8. */
static inline void *journal_take(struct journal_ring *ring, unsigned kind, unsigned flags, uint32_t content)
{
	const uint32_t bytes = (uint32_t)sizeof(struct journal_record) + content;
	struct journal_record *record = (struct journal_record *)journal_at(ring, ring->head);

	ring->record = NULL;
	ring->changes++;
	if (__builtin_expect(ring->lost, 0) ||
	    (__builtin_expect(ring->head + bytes - ring->tail_seen > ring->bytes, 0) && !journal_has_room(ring, bytes)))
		return NULL;
	*record = (struct journal_record){ .bytes = bytes, .kind = (uint16_t)kind, .flags = (uint16_t)flags };
	ring->head += bytes;
	return record + 1;
}

/* The same for n bytes more of the record that was taken last. */
static inline void *journal_take_more(struct journal_ring *ring, uint32_t bytes)
{
	void *at = journal_at(ring, ring->head);

	ring->changes++;
	if (__builtin_expect(ring->lost, 0) ||
	    (__builtin_expect(ring->head + bytes - ring->tail_seen > ring->bytes, 0) && !journal_has_room(ring, bytes)))
		return NULL;
	ring->record->bytes += bytes;
	ring->head += bytes;
	return at;
}

/* What was taken so far may be read. */
static inline void journal_publish(struct journal_ring *ring)
{
	ring->record = NULL;
	if (ring->published != ring->head)
		__atomic_store_n(&ring->published, ring->head, __ATOMIC_RELEASE);
}

/* Whether the reactor is to wait before it begins or goes on with anything that may write. */
bool journal_is_behind_now(struct journal_ring *ring, uint64_t now_ns);
/* As far as is known without a look, it is not. */
static inline bool journal_is_easy(const struct journal_ring *ring)
{
	return __builtin_expect((ring->head - ring->tail_seen + JOURNAL_SLICE_MAX <= ring->bytes && !ring->slow) ||
					ring->passes,
				1);
}
static inline bool journal_is_behind(struct journal_ring *ring, uint64_t now_ns)
{
	return !journal_is_easy(ring) && journal_is_behind_now(ring, now_ns);
}

/* Once a turn: whether what was published is on disk in time. */
void journal_look(struct journal_ring *ring, uint64_t now_ns);

/* The reader has all up to there. */
void journal_free_to(struct journal_ring *ring, enum journal_reader reader, uint64_t position);
static inline uint64_t journal_reader_at(const struct journal_ring *ring, enum journal_reader reader)
{
	return __atomic_load_n(&ring->ends[reader].at, __ATOMIC_ACQUIRE);
}
/* On the reader's thread, behind a copy of what it has read: that may have been overwritten. */
static inline bool journal_is_cut_off(const struct journal_ring *ring, enum journal_reader reader)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&ring->ends[reader].lost, __ATOMIC_ACQUIRE);
}

/* From now on the ring knows its marks: what was written before is durable when journal_durable says so of the head as
 * it is now, once there was a mark behind it. readers: 1 << JOURNAL_DISK, 1 << JOURNAL_LINK, or both; where replies
 * have waited for others, they wait for these. journal_ring_restart ends it. */
void journal_gate_begin(struct journal_ring *ring, unsigned readers);
/* Nothing waits any more. */
void journal_gate_end(struct journal_ring *ring);
/* Replies wait, in this turn: a reader that does not come on for wait_ns is given up, as by who waits for room. */
void journal_gate_wait(struct journal_ring *ring, uint64_t now_ns);
/* What is behind the last mark that the gate's readers have; UINT64_MAX: nothing is to wait, since none reads any more.
 */
uint64_t journal_durable(struct journal_ring *ring);
/* What a reply waits for that tells of what was written last: journal_durable is to say as much. 0: nothing. */
uint64_t journal_durable_at(const struct journal_ring *ring);

/* A mark, where there is anything new before it. */
void journal_mark(struct journal_ring *ring);
/* The instant of a checkpoint, or PAIR_INSTANT: of what a standby is given. */
void journal_instant(struct journal_ring *ring, uint64_t id);

#endif
