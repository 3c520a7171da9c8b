/* SPDX-License-Identifier: BSD-3-Clause */
/* The structs of a store and a table, and the layout of a row, for the files of this library. One thread, the
 * store's. */
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
	struct arena *memory; /* for its tables: its own arena, or that of the store beside which it was created */
	unsigned row_shift;
	struct store_table *tables; /* linked by next */
	uint64_t made;		    /* rows created, of all tables: store_made */
	/* The table being swept (NULL: the first one), and the rows of one of its segments that are still to be
	 * visited. */
	struct store_table *sweeping;
	unsigned sweep_rows_count;
	store_row sweep_rows[INDEX_SEGMENT_ENTRIES];
	struct snapshot snapshot;
	struct journal_ring *journal; /* NULL: none */
	/* tables that have changed since they were written to the journal; linked by journal_next */
	struct store_table *journal_tables;
	/* For conversions of rows; nothing in it outlives a call. */
	double scratch[3][WIRE_DIM_MAX];
};

/*
 * Offsets in a row, in bytes; 0: the row does not have it. A row begins with its key, followed by what policies record,
 * so that a look-up finds that in the same cache line; then come values, float32 masters of narrow values, and slots.
 */
struct table_layout {
	/* uint32_t each */
	uint16_t version;   /* incremented by each push: store_version */
	uint16_t rounds;    /* updates so far: the counter of stochastic rounding */
	uint16_t frequency; /* pulls and pushes: LFU */
	uint16_t used;	    /* LRU, LFU: store_table.tick of the last pull or push, or one more */
	uint16_t seen;	    /* steps to live: the low bits of the last training step; 0: none yet */
	uint16_t words;	    /* counters of the optimizer */
	uint16_t values;
	uint32_t master;
	uint32_t slots;
	uint32_t bytes;
	uint32_t record_head; /* bytes before the values in a checkpoint's record, which has no padding */
	uint32_t record;      /* bytes of a checkpoint's record */
	bool as_it_lies;      /* the row itself begins with its record */
};

struct store_table {
	/* What every look-up reads. */
	struct store_index index;
	struct table_layout at;
	uint32_t dim;
	uint16_t find_lines;  /* cache lines of a row that a look-up loads */
	uint16_t value_lines; /* cache lines with its values */
	uint16_t row_lines;   /* cache lines that a push prefetches */
	bool policies;	      /* a look-up does more than find or create a row */
	/* What pushes need. */
	bool wide;     /* float64: computed in float64; all other types in float32 */
	bool narrow;   /* values are converted to float32 for the optimizer (unless there is a master), and back */
	bool plain;    /* float32 values without versions, or those of sums that do not count: no conversion */
	bool is_long;  /* values and slots begin at cache lines, and the next row is prefetched while one is computed */
	bool filtered; /* keys need admission */
	bool evicts;   /* makes room for new rows by evicting old ones */
	bool sums;     /* of store/sums.h: a row's version is the number of pushes to it */
	bool sums_by_row; /* that number is counted */
	struct optim optim;
	const struct converter *converter; /* of the stored type; NULL for integers */
	uint32_t rounding_key[2];	   /* of stochastic rounding */

	/* What new rows need. */
	struct initial initial;
	struct pool pool;
	uint64_t rows_max; /* this store's share; UINT64_MAX: no limit */

	/* Policies. tick increases by two with each look-up. A row's `used` is odd if the last look-up was for a push,
	 * or an earlier one was whose push is still in flight. A row is held if `used` is odd and not before
	 * `pinned`. */
	struct filter filter;
	uint32_t tick;
	uint32_t pinned;      /* tick of the oldest open push, while pushes_open */
	uint32_t pushes_open; /* operations between store_push_op and their end */
	uint64_t step;	      /* the latest training step seen */

	struct table_sweep {
		struct index_walk rows, counts;
		bool running;  /* a pass is under way */
		bool counting; /* over the keys that wait for admission */
		bool weigh;    /* also by L2 weight: a pass that was requested */
		bool empties;  /* all rows are removed, and the filter's counts */
		uint32_t slot; /* of a Bloom filter, from which on it has still to be cleared */
		uint64_t step; /* training step at which the last pass began */
	} sweep;
	/* For keys in whose neighbourhood nothing can be evicted: where the search for rows to evict continues, and
	 * where segments with rows begin. */
	struct index_walk victims;
	uint64_t victims_from;
	struct table_snapshot snapshot;
	/* For the journal: the object as requests name it, the tick that was last written, and whether the table's
	 * totals are due. */
	uint32_t journal_object, journal_tick;
	struct store_table *journal_next;
	bool journal_due;
	uint64_t removed_before; /* rows removed, according to the checkpoint that was loaded */
	/* After a journal was applied: the smallest version that a push may give, above those of the lost moments; 0:
	 * none was applied. */
	uint32_t version_least;
	/* What has incremented versions of rows and is not in stats.pushes: parts of pushes, and a commit in
	 * progress. */
	uint64_t uncounted;
	uint64_t given_back; /* of a dropped table: how much of its index was returned */
	bool rows_given;     /* all rows and the index were returned */

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

/* Prefetches to the second-level cache: it can have three times as many misses under way as the first-level cache,
 * which could not hold a batch's rows anyway. Measured: a third less time per row. Always inlined, because gcc drops
 * calls of functions that do nothing else. */
static inline __attribute__((always_inline)) void table_prefetch(const void *address)
{
	__builtin_prefetch(address, 0, 2);
}

/* Prefetches the first cache lines of a row, in ascending order. */
static inline __attribute__((always_inline)) void table_load(const struct store_table *t, store_row row, unsigned lines)
{
	const uint8_t *record = table_row(t, row);

	for (unsigned i = 0; i < lines; i++)
		table_prefetch(record + (size_t)i * TABLE_LINE);
}

/* The same for a row that is read only once, without displacing what is in the caches. */
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

/* Whether a row with this `used` (table_layout) is held by a push in flight. The clock has 31 bits: a row that was not
 * used for that many look-ups seems recently used again. */
enum { TABLE_TICK = 2 };
static inline bool table_holds(const struct store_table *t, uint32_t used)
{
	return t->pushes_open && used & 1 && t->tick + 1 - used <= t->tick + 1 - t->pinned;
}

/* The low 32 bits of a training step, as stored in rows. 0 means none, so a step whose low bits are 0 is stored as
 * UINT32_MAX. */
static inline uint32_t step_stamp(uint64_t step)
{
	return (uint32_t)step ? (uint32_t)step : UINT32_MAX;
}

/* Counts the staleness of a push that is applied, if its version is known. */
static inline void table_note_staleness(struct store_table *t, bool has_version, uint64_t version)
{
	if (!has_version)
		return;
	t->stats.versioned++;
	if (t->stats.pushes > version)
		t->stats.staleness += t->stats.pushes - version;
}

/* table.c: sets all members that follow from the spec, which has been checked. Allocates nothing. */
void store_table_settle(struct store_table *t, double share);

/* table.c: writes a row's values, in the stored type, from float32. */
void store_table_store_floats(const struct store_table *t, void *values, const float *from);

/* find.c: the version of a new row: above all versions that any row of the table can have had; 1 if no row was ever
 * removed. */
uint32_t store_table_first_version(const struct store_table *t);

/* find.c: removes a row from the index and frees its memory. */
void store_table_remove(struct store_table *t, uint64_t hash, store_row row);

/* find.c: allocates a row, and adds it to the index by store_index_insert or store_index_load. Evicts other rows if
 * necessary, or if there are rows_max. The row has no content yet. STORE_NO_ROW, which is counted: no room. */
typedef bool table_insert(struct store_index *ix, uint64_t hash, store_row row);
store_row store_table_place(struct store_table *t, uint64_t hash, uint64_t rows_max, table_insert *insert);

/* drop.c: frees some of the memory of a table to which nothing refers. true: only the table itself is left. */
bool store_table_give_back(struct store_table *t, unsigned steps);

/* evict.c: evicts the least valuable of a few rows that may be evicted: store_evict_near near the place of a row with
 * this hash, so that it gets one; store_evict_one, if there is none near, any. false: there is none. */
bool store_evict_near(struct store_table *t, uint64_t hash);
bool store_evict_one(struct store_table *t, uint64_t hash);

#endif
