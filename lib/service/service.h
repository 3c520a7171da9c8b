/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data plane's operations on a shard: validates a whole request, then executes its operations in batches and
 * slices. One thread, the reactor's; memory is allocated at creation only. service_install, service_drop,
 * service_set_layout, service_sweep_begin, service_empty_begin, service_snapshot_begin, _give and _end, service_load
 * and service_trim also run on that thread: the control plane sends them as messages.
 */
#ifndef SERVICE_SERVICE_H
#define SERVICE_SERVICE_H

#include <rte_ring.h>
#include <stdint.h>

#include "rpc/rpc.h"
#include "service/counters.h"
#include "star_error.h"
#include "store/snapshot.h"
#include "store/store.h"

struct journal_ring;

struct service_options {
	/* What a request's sender may do with tables, by their ids (secure/rights.h). NULL, or a result of NULL:
	 * everything. */
	const _Atomic(uint8_t) *(*rights)(const struct rpc_request *request);
	/* With rights: rpc_request_account, or NULL: there are no quotas; and over_quota, which is called when a sender
	 * exceeds one. */
	struct secure_account *(*account)(const struct rpc_request *request);
	void (*over_quota)(const struct rpc_request *request, enum wire_status status);
	uint32_t incarnation; /* 0: it comes with the first layout */
	uint32_t partitions;
	struct store *store;  /* the shard's */
	uint32_t payload_max; /* bytes of a request's or reply's payload, up to WIRE_PAYLOAD_MAX */
	double share;	      /* the expected share of all partitions of this shard, before there is a layout */
	uint64_t kept_bytes, kept_lease_ns; /* memory for what programs keep, and for how long without being used */
};

struct service;

struct service *service_create(const struct service_options *options, struct star_error *err);
void service_destroy(struct service *service);

/* The service for rpc_server_create. */
struct rpc_service service_rpc(struct service *service);

/* Creates a table, or prepares a program; no effect if it exists. 0 or a negative errno. */
int service_install(struct service *service, const struct object_spec *spec, struct star_error *err);
/*
 * The object is unknown from now on: requests that name it are refused, including those that wait or are in the middle
 * of pulls. For a table this includes its sums, what was kept by its keys, and programs that work on it. service_sweep
 * frees its memory. A large push, or anything else that must be finished once it has begun, is finished first: -EBUSY:
 * not yet; the table is dropped as soon as that is done, without another call, and new requests wait for it. 0: it is
 * gone, or never existed.
 */
int service_drop(struct service *service, uint32_t id);

/* The layout that requests must carry, and the partitions [first, end) that this shard owns. */
void service_set_layout(struct service *service, uint32_t epoch, uint32_t first_partition, uint32_t end_partition);

/* Executes a slice of eviction, if it is due, and of freeing dropped tables: called once per turn, after requests. 0:
 * the next one may wait. */
unsigned service_sweep(struct service *service, uint64_t now_ns);

/* Requests a full pass of eviction over a table, which service_sweep executes. 0, or -ENOENT. */
int service_sweep_begin(struct service *service, uint32_t id);
/* The same to delete all rows: store_empty_begin. */
int service_empty_begin(struct service *service, uint32_t id);

/* ---- snapshots: the reactor fills blocks, another thread writes them to disk ---- */

struct service_block {
	/* CHECKPOINT_BLOCK_MAX bytes, aligned to 8: room for a struct checkpoint_block, then the payload */
	void *memory;
	uint32_t payload_bytes; /* may be 0 in the last one */
	uint64_t rows, deleted; /* in this block */
	uint64_t step; /* the latest training step of the tables whose totals were written in this block or before it */
	bool last;
};

enum { SERVICE_BLOCKS_MAX = 8 };

/* One snapshot. It must stay in place from service_snapshot_begin to service_snapshot_end, and may be reused then. */
struct service_snapshot {
	/* At the beginning all belong to the reactor. It puts filled ones into the ring, which has room for all; after
	 * a block was written, service_snapshot_give returns it to be filled again. */
	struct service_block *blocks[SERVICE_BLOCKS_MAX];
	unsigned blocks_count;
	struct rte_ring *full; /* of struct service_block * */
	uint64_t id;	       /* the checkpoint's; for the journal */
	/* the snapshot is abandoned when requests wait longer than this for room for copies; 0: they wait as long as
	 * they may */
	uint64_t wait_max_ns;
	/* Read by the other thread (service_snapshot_status): 0; negative: the reactor has abandoned it: -EAGAIN: a
	 * delta is no longer possible; -ETIME: requests waited too long; -ENOBUFS: a row could not be copied; -ESTALE:
	 * a table was dropped. Then no more blocks come, the last one is missing, and service_snapshot_end need not be
	 * called. */
	int status;
};

/* Requests a snapshot. Its instant is soon after: when no large push is in progress; new ones wait until then. 0;
 * -EBUSY: another one is in progress; -EAGAIN: a delta is not possible; -ENOTSUP: the store has no marks. */
int service_snapshot_begin(struct service *service, enum store_snapshot_kind kind, struct service_snapshot *snapshot);

/* Whether this snapshot is in progress. */
bool service_snapshot_is(const struct service *service, const struct service_snapshot *snapshot);
/* After the last block, or to abandon it: store_snapshot_end. Blocks that the reactor still had belong to the caller
 * again. */
void service_snapshot_end(struct service *service, bool kept);

/* A block was written to disk, and may be filled again. Without a snapshot nothing happens, and the block belongs to
 * the caller. On the reactor's thread, as a message, which also ends its sleep if it waits for nothing else. */
void service_snapshot_give(struct service *service, struct service_block *block);

/* Executes the snapshot's slice of a turn, if it is due; busy: requests were served in this turn, so seven eighths of
 * the time are theirs. 0: idle: there is nothing to do, or no block to fill. */
unsigned service_snapshot_turn(struct service *service, uint64_t now_ns, bool busy);

static inline int service_snapshot_status(const struct service_snapshot *snapshot)
{
	return __atomic_load_n(&snapshot->status, __ATOMIC_ACQUIRE);
}

/* ---- the journal: lib/journal, wire/journal.h ---- */

/* Changes are written to the ring from now on; NULL: no longer. */
void service_journal_begin(struct service *service, struct journal_ring *ring);
/* Another reader of the ring begins. It has nothing of what was written before, so that no longer counts as written. */
void service_journal_joined(struct service *service);
/* Writes a mark after everything so far, if no request is partly executed; false: not now, or the ring is lost. */
bool service_journal_settle(struct service *service, uint64_t now_ns);
/* For a standby's shard: rows are removed only when its primary says so. */
void service_set_follows(struct service *service, bool follows);
/* Once per turn, busy as for snapshots: writes a mark, if one is due and nothing is partly executed. 0: the next one
 * may wait. */
unsigned service_journal_turn(struct service *service, uint64_t now_ns, bool busy);
/* Writes the present state of a session. */
void service_journal_outcome(struct service *service, const struct rpc_outcome *outcome);
/* The checkpoint whose instant was written, and after which all sessions have to be written again; 0: none.
 * service_journal_sessions_done: they were. */
uint64_t service_journal_sessions_due(const struct service *service);
void service_journal_sessions_done(struct service *service, uint64_t id);
/* Applies a record of a journal: JOURNAL_CLEARED. */
int service_load_cleared(struct service *service, uint32_t id);
/* After the records of a life: store_load_life_end for all tables. */
void service_load_life_end(struct service *service, uint32_t lives);
/* Sets the incarnation that requests must carry, as in service_options, until the first layout. */
void service_set_incarnation(struct service *service, uint32_t incarnation);

/* Loads n records of a run into the object that it names (store_load), before requests are served. -ENOENT: no such
 * object. */
int service_load(struct service *service, const struct checkpoint_run *run, const void *records, uint32_t n,
		 struct star_error *err);

/* After loading: evicts up to `budget` rows that the object has beyond the shard's share (store_trim). Returns how
 * many; 0: none is left to evict. */
unsigned service_trim(struct service *service, uint32_t id, unsigned budget);

const struct service_counters *service_counters(const struct service *service);

struct kept_stats;
/* Figures of what programs keep. From any thread. */
const struct kept_stats *service_kept_stats(const struct service *service);

/* The figures of all the shard's tables together; and those of one table, added to *sum (nothing if there is no such
 * table). From any thread. */
struct store_stats service_store_stats(const struct service *service);
void service_table_stats(const struct service *service, uint32_t id, struct store_stats *sum);
uint64_t service_table_step(const struct service *service, uint32_t id); /* see store_table_step; the same */
/* One figure, a member of struct store_stats by its offset: for all tables together (not meaningful for moved_max); and
 * for each of these tables, added to its sum, or for moved_max the maximum. 0 without the table. From any thread. */
uint64_t service_figure(const struct service *service, size_t offset);
void service_table_figures(const struct service *service, const struct object_spec *const *tables, uint32_t count,
			   size_t offset, uint64_t *sums);
/* Approximate number of rows that requested passes of eviction still have to examine. From any thread. */
uint64_t service_sweep_left(const struct service *service, uint32_t id);

#endif
