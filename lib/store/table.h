/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of this library know of a store, a table and a row. One thread. */
#ifndef STORE_TABLE_H
#define STORE_TABLE_H

#include "journal/ring.h"
#include "optim/optim.h"
#include "store/filter.h"
#include "store/index.h"
#include "store/initial.h"
#include "store/pool.h"
#include "store/snapshot_state.h"
#include "tensor/convert.h"

struct store {
	struct arena arena;
	struct arena *memory; /* of its tables: arena, or the one of the store that this one is beside */
	unsigned row_shift;
	struct store_table *tables; /* linked by next */
	uint64_t made;		    /* rows, of all tables: store_made */
	/* The sweep's table, or NULL: the first; and the rows of one of its segments that are still to be looked at. */
	struct store_table *sweeping;
	unsigned sweep_rows_count;
	store_row sweep_rows[INDEX_SEGMENT_ENTRIES];
	struct snapshot snapshot;
	struct journal_ring *journal; /* NULL: none */
	struct store_table
		*journal_tables; /* that have changed since they were written there; linked by journal_next */
	/* Rows in the types that are worked in, for conversions: nothing in them outlives a call. */
	double scratch[3][WIRE_DIM_MAX];
};

/*
 * Where in a row, in bytes, what begins; 0: the row has it not. A row begins with its key; what policies keep for a row
 * comes next, so that a look-up finds it in the line that has the key, then values, float32 masters of narrow values,
 * slots.
 */
struct table_layout {
	/* uint32_t each */
	uint16_t version;   /* goes up with each push: store_version */
	uint16_t rounds;    /* updates so far: the counter of stochastic rounding */
	uint16_t frequency; /* pulls and pushes: LFU */
	uint16_t used;	    /* LRU, LFU: store_table.tick of the last pull or push, or one more */
	uint16_t seen;	    /* steps to live: the low bits of the last training step; 0: none came yet */
	uint16_t words;	    /* the optimizer's */
	uint16_t values;
	uint32_t master;
	uint32_t slots;
	uint32_t bytes;
	uint32_t record_head; /* bytes before the values, in a row without padding, and ... */
	uint32_t record;      /* ... all of it, as it is in a checkpoint */
	bool as_it_lies;      /* which is how the row itself begins */
};

struct store_table {
	/* What every look-up reads. */
	struct store_index index;
	struct table_layout at;
	uint32_t dim;
	uint16_t find_lines;  /* cache lines of a row that a look-up loads */
	uint16_t value_lines; /* that have its values */
	uint16_t row_lines;   /* that a push loads before the row's turn */
	bool policies;	      /* a look-up has more to do than to find or make a row */
	/* What pushes need. */
	bool wide;	  /* float64: worked on as such; all other types as float32 */
	bool narrow;	  /* values are converted for the optimizer, and back unless a master is there */
	bool plain;	  /* float32 values as they lie, without versions, or with those of sums that do not count */
	bool is_long;	  /* values and slots begin cache lines, and the next row is loaded while one is worked on */
	bool filtered;	  /* keys need admission */
	bool evicts;	  /* makes room for new rows by evicting old ones */
	bool sums;	  /* of store/sums.h: a row's version is the number of pushes that it has had, ... */
	bool sums_by_row; /* ... if that is counted */
	struct optim optim;
	const struct converter *converter; /* of the stored type; NULL for integers */
	uint32_t rounding_key[2];	   /* of stochastic rounding */

	/* What new rows need. */
	struct initial initial;
	struct pool pool;
	uint64_t rows_max; /* this store's share; UINT64_MAX: none */

	/* Policies. tick goes up by two with each look-up; a row's `used` is odd when that, or one before it that was
	 * of a push still in flight, was for a push: together with pinned <= used it is held. */
	struct filter filter;
	uint32_t tick;
	uint32_t pinned;      /* while pushes_open */
	uint32_t pushes_open; /* operations between store_push_op and their end */
	uint64_t step;	      /* the latest training step that came */

	struct table_sweep {
		struct index_walk rows, counts;
		bool running;  /* a pass is under way */
		bool counting; /* over the keys that wait for admission */
		bool weigh;    /* by L2 weight as well: one that was asked for */
		bool empties;  /* all rows go, and what the filter has counted */
		uint32_t slot; /* of a Bloom filter, from which on it is to be cleared */
		uint64_t step; /* at which the last pass began */
	} sweep;
	/* Where rows that make room for far keys are looked for next, and where the segments begin that have some. */
	struct index_walk victims;
	uint64_t victims_from;
	struct table_snapshot snapshot;
	/* Of the journal: the object as requests name it, the tick that was written last, and whether the table is due
	 * to be. */
	uint32_t journal_object, journal_tick;
	struct store_table *journal_next;
	bool journal_due;
	uint64_t removed_before; /* rows, in the life that a checkpoint was taken of */
	/* A journal was applied: the least version that a push gives, above those of the moments that it has not; 0:
	 * none was. */
	uint32_t version_least;
	/* What has raised versions of rows, and is not in stats.pushes: parts of pushes, and a commit that goes on. */
	uint64_t uncounted;
	uint64_t given_back; /* of one that was dropped: up to where its index is */
	bool rows_given;     /* all rows, and their index */

	struct store_stats stats;
	uint64_t name_hash;
	struct store *store;
	struct store_table *next;
	struct object_spec spec;
};

enum { TABLE_LINE = 64 };

static inline uint8_t *table_row(const struct store_table *t, store_row row)
{
	return index_record(&t->index, row);
}

/* To the second-level cache: it has three times as many misses under way as the first, and the first would not hold a
 * batch's rows anyway. Measured: a third less time a row. Inlined always, since gcc drops calls of functions that do
 * nothing else. */
static inline __attribute__((always_inline)) void table_prefetch(const void *address)
{
	__builtin_prefetch(address, 0, 2);
}

/* The first lines of a row, in ascending order. */
static inline __attribute__((always_inline)) void table_load(const struct store_table *t, store_row row, unsigned lines)
{
	const uint8_t *record = table_row(t, row);

	for (unsigned i = 0; i < lines; i++)
		table_prefetch(record + (size_t)i * TABLE_LINE);
}

/* The same for a row that is read and then left alone: the caches keep what they have. */
static inline __attribute__((always_inline)) void table_load_once(const struct store_table *t, store_row row,
								  unsigned lines)
{
	const uint8_t *record = table_row(t, row);

	for (unsigned i = 0; i < lines; i++)
		__builtin_prefetch(record + (size_t)i * TABLE_LINE, 0, 0);
}

/* One of a row's uint32_t, by its place in table_layout. */
static inline uint32_t *row_word(uint8_t *row, uint32_t at)
{
	return (uint32_t *)(row + at);
}

static inline uint64_t row_key(const uint8_t *row)
{
	return *(const uint64_t *)row;
}

/* One of table_layout.used; held: the row is one of a push in flight. A clock of 31 bits: a row that was not used for
 * as many look-ups as it counts seems fresh again. */
enum { TABLE_TICK = 2 };
static inline bool table_holds(const struct store_table *t, uint32_t used)
{
	return t->pushes_open && used & 1 && t->tick + 1 - used <= t->tick + 1 - t->pinned;
}

/* The low half of a training step as rows keep it, in which 0 means that none came: then it is a step earlier. */
static inline uint32_t step_stamp(uint64_t step)
{
	return (uint32_t)step ? (uint32_t)step : UINT32_MAX;
}

/* A push of this step is applied: how stale it was, if it says so. */
static inline void table_note_staleness(struct store_table *t, bool has_version, uint64_t version)
{
	if (!has_version)
		return;
	t->stats.versioned++;
	if (t->stats.pushes > version)
		t->stats.staleness += t->stats.pushes - version;
}

/* table.c: everything that follows from the spec, which is checked, and from its optimizer alone; takes no memory. */
void store_table_settle(struct store_table *t, double share);

/* table.c: rows of the stored type from float32, and the values that an optimizer works on from a row. */
void store_table_store_floats(const struct store_table *t, void *values, const float *from);

/* find.c: above all versions that a row of the table can have had, which no push, or part of one, has raised twice; 1
 * where no row has gone. */
uint32_t store_table_first_version(const struct store_table *t);

/* find.c: takes a row out of the index and gives its memory back. */
void store_table_remove(struct store_table *t, uint64_t hash, store_row row);

/* find.c: memory for a row that there is not, and its place in the index, by store_index_insert or store_index_load; at
 * the cost of other rows if need be, and once there are rows_max of them. It has no content yet. STORE_NO_ROW, which is
 * counted: no room. */
typedef bool table_insert(struct store_index *ix, uint64_t hash, store_row row);
store_row store_table_place(struct store_table *t, uint64_t hash, uint64_t rows_max, table_insert *insert);

/* drop.c: gives back some of the memory of a table that nothing refers to. true: that was the last of it, but for the
 * table itself. */
bool store_table_give_back(struct store_table *t, unsigned steps);

/* evict.c: removes one row that may be removed and is worth least of a few, near the place of one with this hash, so
 * that it has one; or where none stands near, any. false when there is none. */
bool store_evict_near(struct store_table *t, uint64_t hash);
bool store_evict_one(struct store_table *t, uint64_t hash);

#endif
