/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reactor's records of the requests that it has served: how long they took, in histograms; each of the last
 * OBSERVE_RECORDS, as a flight recorder; and a sample of their keys. All of it is in memory of fixed size.
 *
 * Threads: one writer, the reactor (the inline functions and observe_sent, observe_sample, observe_peer); any thread
 * may read by observe_read.h, without a lock and without an effect on the writer. Counters are plain words; a copy of
 * records is checked by the numbers of records before and after.
 *
 * Clocks: reading one would cost more than all of this, so none is read for a small request. A turn has the reactor's
 * two time stamps: its beginning, and the end of its transmit burst. What a larger request does in slices is timed
 * separately (observe_slice).
 */
#ifndef OBSERVE_OBSERVE_H
#define OBSERVE_OBSERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/loglinear.h"
#include "star_error.h"

/* The class of a request: enum wire_op_kind, and OBSERVE_OTHER: pings, requests of several kinds, and those that were
 * refused unread. X(name, number, text). */
#define OBSERVE_CLASSES(X) \
	X(OTHER, 0, "other") \
	X(PULL, 1, "pull") \
	X(PUSH, 2, "push") \
	X(PUSH_PULL, 3, "push_pull") \
	X(DELETE, 4, "delete") \
	X(ASSIGN, 5, "assign") \
	X(PROGRAM, 6, "program") \
	X(COMMIT, 7, "commit")
enum observe_class {
#define X(name, number, text) OBSERVE_##name = number,
	OBSERVE_CLASSES(X)
#undef X
		OBSERVE_CLASSES_COUNT,
};

/* X(name, what it is). */
#define OBSERVE_TIMES(X) \
	X(total, "from the receive burst with the end of a request to the transmit burst with its reply") \
	X(wait, "from that receive burst until the request began to be executed") \
	X(run, "execution; for small requests their share of the turn")
enum observe_time {
#define X(name, text) OBSERVE_##name,
	OBSERVE_TIMES(X)
#undef X
		OBSERVE_TIMES_COUNT,
};

/* By keys: 1; 2 to 63; 64 to 1023; and more. */
enum { OBSERVE_SIZES = 4, OBSERVE_SIZE_BITS_1 = 1, OBSERVE_SIZE_BITS_2 = 6, OBSERVE_SIZE_BITS_3 = 10 };

enum {
	OBSERVE_BITS = 6, /* a bucket is at most 1.6 % wide: its middle is within 0.8 %, two digits */
	OBSERVE_OCTAVES = 26,
	OBSERVE_BUCKETS = LOGLINEAR_BUCKETS(OBSERVE_BITS, OBSERVE_OCTAVES), /* for all that a record can hold */
	OBSERVE_RECORDS = 65536,					    /* powers of two */
	OBSERVE_SAMPLES = 16384,
	OBSERVE_PEERS = 4096,
	OBSERVE_TURN_MAX = 512, /* records of one turn */
	OBSERVE_RECENT = 1024,	/* and of those that are not counted yet: few enough to stay in the nearest caches */
	OBSERVE_UNIT_SHIFT = 4, /* times in records are in units of 16 ns */
	OBSERVE_KEYS_MAX = (1 << 21) - 1,
	OBSERVE_SLICES_MAX = 255,
	OBSERVE_SAMPLE_MASK = 127, /* of keys, one in 1 to 128 is recorded */
	OBSERVE_SAMPLES_EACH = 64  /* maximum per request: in larger ones each stands for more keys */
};
#define OBSERVE_SAMPLE_MEAN 64.5

/* What a request had to wait for, other than its turn. X(name, text). */
#define OBSERVE_REASONS(X) \
	X(BUFFERS, "no packet buffers for its reply") \
	X(SHARE, "unread replies of its peer's address exceeded their share of the packet buffers") \
	X(LARGE, "another large request was executed") \
	X(SNAPSHOT, "a checkpoint was written") \
	X(JOURNAL, "the journal's disk was behind") \
	X(DROP, "a table was dropped") \
	X(TASK, "too many requests were executed at once")
enum observe_reason_bit {
#define X(name, text) OBSERVE_BIT_##name,
	OBSERVE_REASONS(X)
#undef X
		OBSERVE_REASONS_COUNT,
};
enum observe_reason {
#define X(name, text) OBSERVE_WHY_##name = 1 << OBSERVE_BIT_##name,
	OBSERVE_REASONS(X)
#undef X
		OBSERVE_WAITS = 1 << 7, /* the present slice has only checked whether it has to wait any longer */
};

struct observe_record {
	uint64_t arrived_ns;	   /* CLOCK_MONOTONIC */
	uint32_t total, wait, run; /* in units of 16 ns: up to 68 s */
	uint32_t peer;		   /* as observe_peer.peer */
	uint32_t what;		   /* observe_what */
	uint16_t object;	   /* the id of its first operation's table or program; 0: none */
	uint8_t status;		   /* enum wire_status of its reply */
	uint8_t why;		   /* enum observe_reason */
};
_Static_assert(sizeof(struct observe_record) == 32, "observe_record");

struct observe_sample {
	uint64_t key;
	uint32_t object; /* as requests name it, with its generation */
	uint32_t weight; /* number of keys that it stands for, times OBSERVE_SAMPLE_MEAN */
};

/* The peer with a number, and since when. */
struct observe_peer {
	uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d */
	uint64_t opened_ns;
	uint32_t peer; /* rpc's number; 0: nobody */
	uint16_t port;
};

/* For a request of several slices. Starts as zeros. */
struct observe_spent {
	uint64_t wait_ns, run_ns;
	uint32_t slices;
};

/* A histogram of times in units of 16 ns. */
struct observe_histogram {
	uint64_t buckets[OBSERVE_BUCKETS];
};

struct observe {
	/* constant */
	uint64_t scale; /* nanoseconds a cycle, times 2^32 */
	/* the reactor's, for the present turn */
	uint64_t filled;	       /* number of records so far, including those of this turn, ... */
	uint64_t timed;		       /* ... and of those whose times are known */
	uint64_t turn_ns;	       /* its beginning */
	uint64_t slices_cycles, stamp; /* duration of slices; the end of the last one, if nothing came after it, or 0 */
	uint32_t large;		       /* number of its records with slices */
	int32_t until_sample;	       /* keys */
	uint32_t random;
	/* the reactor's, read by others */
	uint64_t head __attribute__((aligned(64))); /* number of records so far that are complete and counted */
	uint64_t sampled;			    /* number of samples so far */
	struct observe_histogram histograms[OBSERVE_CLASSES_COUNT][OBSERVE_SIZES][OBSERVE_TIMES_COUNT];
	/* a summary for readers that read all of them each second: the number in each octave, and the sum of the times
	 * in units */
	struct observe_brief {
		uint64_t octaves[OBSERVE_OCTAVES + 1], units;
	} briefs[OBSERVE_CLASSES_COUNT][OBSERVE_SIZES][OBSERVE_TIMES_COUNT];
	struct observe_record recent[OBSERVE_RECENT] __attribute__((aligned(64))); /* the reactor's; by their numbers */
	struct observe_record records[OBSERVE_RECORDS] __attribute__((aligned(64)));
	struct observe_sample samples[OBSERVE_SAMPLES];
	struct observe_peer peers[OBSERVE_PEERS];
};

/* cycles_hz: of the time stamp counter. NULL with err. */
struct observe *observe_create(uint64_t cycles_hz, struct star_error *err);
void observe_destroy(struct observe *observe);

/* The first request of a turn is about to begin; the turn began at that time. */
static inline void observe_turn(struct observe *o, uint64_t now_ns)
{
	o->turn_ns = now_ns;
}

static inline uint64_t observe_ns(const struct observe *o, uint64_t cycles)
{
	return (uint64_t)(((unsigned __int128)cycles * o->scale) >> 32);
}

/* The record of the next request: what is written into it counts with observe_commit. */
static inline struct observe_record *observe_next(struct observe *o)
{
	return &o->recent[o->filled % OBSERVE_RECENT];
}

static inline uint32_t observe_units(uint64_t ns)
{
	ns >>= OBSERVE_UNIT_SHIFT;
	return ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

static inline uint32_t observe_what(uint32_t keys, uint32_t slices, unsigned class)
{
	return keys << 11 | slices << 3 | class;
}
static inline uint32_t observe_keys(const struct observe_record *r)
{
	return r->what >> 11;
}
static inline unsigned observe_slices(const struct observe_record *r)
{
	return r->what >> 3 & OBSERVE_SLICES_MAX;
}
static inline enum observe_class observe_class(const struct observe_record *r)
{
	return (enum observe_class)(r->what & 7);
}

/* Writes a record's last four bytes at once. */
static inline void observe_end_of(struct observe_record *r, uint32_t object, uint32_t status, uint32_t why)
{
	const uint32_t all = object | status << 16 | why << 24;

	memcpy(&r->object, &all, sizeof(all));
}
_Static_assert(offsetof(struct observe_record, object) == 28 && offsetof(struct observe_record, status) == 30 &&
		       offsetof(struct observe_record, why) == 31,
	       "observe_end_of");

/* How long a request that has just begun has waited; slices of others in this turn count. */
static inline uint64_t observe_waited(const struct observe *o, uint64_t arrived_ns)
{
	const uint64_t waited = o->turn_ns > arrived_ns ? o->turn_ns - arrived_ns : 0;

	return o->slices_cycles ? waited + observe_ns(o, o->slices_cycles) : waited;
}

/* A slice of a request that arrived at that time ran from one time stamp to the other; counts: it did something. */
static inline void observe_slice(struct observe *o, struct observe_spent *spent, uint64_t arrived_ns, uint64_t begun,
				 uint64_t ended, bool counts)
{
	if (counts && spent->slices == 0)
		spent->wait_ns = observe_waited(o, arrived_ns);
	if (counts) {
		spent->run_ns += observe_ns(o, ended - begun);
		spent->slices++;
	}
	o->slices_cycles += ended - begun;
	o->stamp = ended;
}

/* Which of OBSERVE_SIZES. */
unsigned observe_size(uint32_t keys);

/* Counts the timed records. Called when a turn has served no request; otherwise it happens automatically. */
void observe_count(struct observe *o);
static inline void observe_idle(struct observe *o)
{
	if (o->head != o->timed)
		observe_count(o);
}

/* Completes the records of a turn, and ends it: the time stamp counter at its beginning, and at the end of its transmit
 * burst; 0: unknown. */
void observe_sent(struct observe *o, uint64_t begun, uint64_t ended);

/* The record of observe_next is complete, except for what is known at the turn's end. */
static inline void observe_commit(struct observe *o)
{
	o->filled++;
	if (__builtin_expect(o->filled - o->timed >= OBSERVE_TURN_MAX, 0))
		observe_sent(o, 0, 0);
}

/* Whether some of a request's keys should be recorded: observe_sample. */
static inline bool observe_wants_sample(struct observe *o, uint32_t keys)
{
	o->until_sample -= (int32_t)keys;
	return __builtin_expect(o->until_sample < 0, 0);
}

/* After observe_wants_sample returned true, if the keys are not available: those of a later request are recorded. */
void observe_pass(struct observe *o);
/* After observe_wants_sample returned true, otherwise: calls take for the keys to record, each with its number among
 * them. */
void observe_sample(struct observe *o, uint32_t keys, uint32_t object, uint64_t (*take)(void *ctx, uint32_t number),
		    void *ctx);

/* A peer has that number from now on. */
void observe_peer(struct observe *o, uint32_t peer, const uint8_t address[static 16], uint16_t port, uint64_t now_ns);
/* Its place in the table. */
static inline unsigned observe_peer_at(uint32_t peer)
{
	return (peer * UINT32_C(2654435769)) >> 20; /* Fibonacci hashing */
}
_Static_assert(OBSERVE_PEERS == 1 << 12, "observe_peer_at");

#endif
