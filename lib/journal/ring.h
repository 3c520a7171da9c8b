/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passes a reactor's changes to the thread that writes its journal, and to the one that sends them to a standby: a
 * stream of bytes through a ring of fixed size. One writer, the reactor (journal_take and the functions after it); up
 * to two readers, these threads, each at its own pace. The ring's memory is mapped twice in a row, so that each record
 * is contiguous. Positions only grow.
 *
 * Nothing here allocates or waits. While a reader is behind (journal_is_behind) the reactor starts nothing new; there
 * is room for what it has begun to write. If there is not after all, or the reader makes no progress for its wait_ns,
 * that reader is lost: the reactor continues without it, and the reader's thread reports that. What a lost reader reads
 * may be overwritten while there is another reader, so a thread that has copied something must check whether it is lost
 * before it uses the copy (journal_is_cut_off). A ring without a reader is lost itself: nothing is written to it any
 * more.
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
	JOURNAL_SLICE_MAX = 4 << 20, /* maximum that a slice of a request may write */
	JOURNAL_LAG_NS = 100000000,  /* the reactor waits if what it has written is not on disk after this time */
	/* The time between two checks counts as at most this much waiting: the process may not have run, and its thread
	 * neither. */
	JOURNAL_LOOK_NS = 100000000,
};

enum journal_reader { JOURNAL_DISK, JOURNAL_LINK, JOURNAL_READERS };

struct journal_end {
	uint64_t at __attribute__((aligned(64))); /* it has everything up to this position; the reader's */
	bool off;				  /* it no longer reads; the reader's */
	/* the reactor's, read by the reader */
	bool there;	  /* it exists and holds the ring's tail */
	bool lost;	  /* the reactor no longer waits for it, ... */
	bool passes;	  /* ... and neither does any reply */
	uint64_t wait_ns; /* how long the reactor waits for it */
};

/*
 * What is durable, for replies that wait for that. A restart or a standby goes back to the last mark that it has, so a
 * reader's progress counts up to the last mark that it has completely. Replies wait for one reader or for both. As long
 * as there is room, reactors continue whatever the readers do: changes that the readers do not have are not reported.
 * Owned by the reactor.
 */
enum { JOURNAL_GATE_MARKS = 64 };
struct journal_gate {
	bool on;
	uint8_t readers; /* the readers that replies wait for, as bits: of those that still read */
	/* no reply waits for the next mark: it need not be written at the end of the turn */
	bool patient;
	bool late;		       /* the reader has not got what was written for JOURNAL_LAG_NS, ... */
	uint64_t waited_ns, looked_ns; /* ... and how long replies have waited since, as for the ring */
	uint32_t first, count;
	uint64_t durable; /* position after the last mark that the readers have, or had before others joined them */
	uint64_t covered; /* after the last one that all of them have since then; 0: none yet */
	/* positions after later marks; if there are more, the last entry is the newest */
	uint64_t marks[JOURNAL_GATE_MARKS];
};

struct journal_ring {
	/* constant */
	uint8_t *memory;
	uint64_t bytes; /* a power of two */
	/* NULL, or called by a reader whenever it has made progress: a sleeping reactor may wait for it. */
	void (*moved)(void *ctx, enum journal_reader reader);
	void *moved_ctx;
	/* the reactor's */
	uint64_t head __attribute__((aligned(64)));
	uint64_t tail_seen;
	uint64_t changes;	       /* incremented with every change to record, written or not */
	uint64_t marked;	       /* head after the last mark */
	uint64_t waited_ns;	       /* how long the reactor has waited for a reader, ... */
	uint64_t looked_ns;	       /* ... up to this time; 0: it does not wait */
	struct journal_record *record; /* an open run that ends at head; NULL: none */
	uint64_t lag_at,
		lag_since_ns; /* a position that a reader has not reached, and since when it should have; 0: none */
	bool slow;	      /* the reactor has to wait for that */
	bool fenced;	      /* the lease had ended at the last check: nothing may be changed */
	bool passes;	      /* lost, and the reactor continues without it */
	bool lost;	      /* there are no readers any more; read by other threads */
	/* the reactor's, read by other threads */
	uint64_t published __attribute__((aligned(64))); /* the part of head that readers may read */
	uint64_t waits;					 /* number of times that it has waited */
	uint64_t instant_id, instant_at; /* of the last checkpoint that was started; where its record begins, ... */
	uint64_t sessions_of;		 /* ... and the checkpoint for which all sessions are written again */
	/* the readers': all of them have everything up to this position */
	uint64_t tail __attribute__((aligned(64)));
	/* Until when changes may be made, because a standby has promised not to take over before that; 0: always. While
	 * there is a lease, a reactor whose standby's reader is lost does not continue, but waits for an order. */
	uint64_t lease_ns;
	struct journal_end ends[JOURNAL_READERS];
	struct journal_gate gate __attribute__((aligned(64)));
};

/* bytes: at least JOURNAL_RING_MIN; rounded up to a power of two. JOURNAL_DISK is a reader. NULL with err. */
struct journal_ring *journal_ring_create(uint64_t bytes, uint64_t wait_ns, struct star_error *err);
void journal_ring_destroy(struct journal_ring *ring);
/* To be called when no thread reads or writes: makes the ring empty, at its present position, without readers.
 * JOURNAL_DISK stays lost if it was: its thread may not have noticed yet. */
void journal_ring_restart(struct journal_ring *ring);

/* On the reactor: a reader begins, and gets what is written from now on. Or it ends. */
void journal_reader_begin(struct journal_ring *ring, enum journal_reader reader, uint64_t wait_ns);
void journal_reader_end(struct journal_ring *ring, enum journal_reader reader);
/* Before it begins: it never does. Its thread, which may be late, finds itself cut off. */
void journal_reader_cut_off(struct journal_ring *ring, enum journal_reader reader);
/* On the reactor: whether it is reading. */
static inline bool journal_reads(const struct journal_ring *ring, enum journal_reader reader)
{
	return ring->ends[reader].there && !__atomic_load_n(&ring->ends[reader].off, __ATOMIC_RELAXED);
}

/* Out of line: reads the readers' tail again. */
bool journal_has_room(struct journal_ring *ring, uint64_t bytes);

static inline uint8_t *journal_at(const struct journal_ring *ring, uint64_t position)
{
	return ring->memory + (position & (ring->bytes - 1));
}

/* Takes room for a record with n bytes of content, a multiple of 8, aligned to 8; NULL: the ring is lost. */
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

/* The same for n more bytes of the record that was taken last. */
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

/* Readers may read what was taken so far. */
static inline void journal_publish(struct journal_ring *ring)
{
	ring->record = NULL;
	if (ring->published != ring->head)
		__atomic_store_n(&ring->published, ring->head, __ATOMIC_RELEASE);
}

/* Whether the reactor has to wait before it starts or continues anything that may write. */
bool journal_is_behind_now(struct journal_ring *ring, uint64_t now_ns);
/* It does not have to, as far as is known without checking. */
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

/* Once per turn: checks whether what was published is on disk in time. */
void journal_look(struct journal_ring *ring, uint64_t now_ns);

/* The reader has everything up to this position. */
void journal_free_to(struct journal_ring *ring, enum journal_reader reader, uint64_t position);
static inline uint64_t journal_reader_at(const struct journal_ring *ring, enum journal_reader reader)
{
	return __atomic_load_n(&ring->ends[reader].at, __ATOMIC_ACQUIRE);
}
/* On the reader's thread, after copying what it has read: whether that may have been overwritten. */
static inline bool journal_is_cut_off(const struct journal_ring *ring, enum journal_reader reader)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&ring->ends[reader].lost, __ATOMIC_ACQUIRE);
}

/* From now on the ring tracks its marks: what was written before is durable when journal_durable reaches the present
 * head, after another mark. readers: 1 << JOURNAL_DISK, 1 << JOURNAL_LINK, or both; replies that wait for others now
 * wait for these. journal_ring_restart ends it. */
void journal_gate_begin(struct journal_ring *ring, unsigned readers);
/* Nothing waits any more. */
void journal_gate_end(struct journal_ring *ring);
/* Replies wait in this turn: a reader without progress for wait_ns is given up, as if a writer waited for room. */
void journal_gate_wait(struct journal_ring *ring, uint64_t now_ns);
/* The position after the last mark that the gate's readers have; UINT64_MAX: nothing has to wait, since none reads any
 * more. */
uint64_t journal_durable(struct journal_ring *ring);
/* The same, but only what all of the gate's present readers have: if one was added, journal_durable still has what was
 * durable by the others alone. */
uint64_t journal_covered(struct journal_ring *ring);
/* What journal_durable has to reach before a reply may leave that reports what was written last. 0: nothing. */
uint64_t journal_durable_at(const struct journal_ring *ring);

/* Writes a mark, if there is anything new before it. */
void journal_mark(struct journal_ring *ring);
/* Writes the instant of a checkpoint, or PAIR_INSTANT: that of a standby's snapshot. */
void journal_instant(struct journal_ring *ring, uint64_t id);

#endif
