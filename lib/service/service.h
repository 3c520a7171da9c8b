/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data plane's operations on a shard: validates a request whole, then executes its operations in batches and
 * slices. One thread, the reactor's; it allocates at creation only. service_install, service_drop, service_set_layout,
 * service_sweep_begin, service_empty_begin, service_snapshot_begin, _give and _end, service_load and service_trim run
 * on that thread too: the control plane sends them as messages.
 */
#ifndef SERVICE_SERVICE_H
#define SERVICE_SERVICE_H

#include <rte_ring.h>
#include <stdint.h>

#include "rpc/rpc.h"
#include "star_error.h"
#include "store/snapshot.h"
#include "store/store.h"

/* Plain counters with one writer. X(name, what it counts). */
#define SERVICE_COUNTERS(X) \
	X(pulls, "pulls executed") \
	X(pushes, "pushes and assigns executed") \
	X(rows_pulled, "rows read by pulls") \
	X(rows_pushed, "rows written by pushes and assigns") \
	X(direct, "small requests executed on the fast path, without a task") \
	X(runs, "programs executed by tasks") \
	X(commits, "sums that were applied") \
	X(late, "pushes refused: their sums are closed")

struct service_counters {
#define X(name, text) uint64_t name;
	SERVICE_COUNTERS(X)
#undef X
};

struct journal_ring;

struct service_options {
	/* What a request's sender may do with tables, by their ids (secure/rights.h); NULL, or NULL of a request:
	 * everything. */
	const _Atomic(uint8_t) *(*rights)(const struct rpc_request *request);
	/* With rights: rpc_request_account, or NULL: nobody has quotas; and what is to be told of who is over one. */
	struct secure_account *(*account)(const struct rpc_request *request);
	void (*over_quota)(const struct rpc_request *request, enum wire_status status);
	uint32_t incarnation; /* 0: it comes with the first layout */
	uint32_t partitions;
	struct store *store;  /* the shard's */
	uint32_t payload_max; /* bytes of a request's or reply's payload, up to WIRE_PAYLOAD_MAX */
	double share;	      /* of all partitions, that the shard may be expected to have before there is a layout */
	uint64_t kept_bytes, kept_lease_ns; /* what programs may keep, and how long nobody may ask for it */
};

struct service;

struct service *service_create(const struct service_options *options, struct star_error *err);
void service_destroy(struct service *service);

/* What rpc_server_create is to be given. */
struct rpc_service service_rpc(struct service *service);

/* Makes a table, or a program ready to run, or does nothing when it is there. 0 or a negative errno. */
int service_install(struct service *service, const struct object_spec *spec, struct star_error *err);
/*
 * The object is unknown from now on: requests that name it are refused, those that wait or are in the middle of pulls
 * included, and of a table also its sums, what was kept of its keys, and programs that work on it. Its memory goes back
 * in service_sweep. A large push, or whatever else must come to its end once it has begun, does so before: -EBUSY: not
 * yet; the table is dropped as soon as that is done, without being asked again, and new ones wait for it. 0: it is
 * gone, or never was.
 */
int service_drop(struct service *service, uint32_t id);

/* The layout that requests must carry, and the partitions [first, end) that this shard owns. */
void service_set_layout(struct service *service, uint32_t epoch, uint32_t first_partition, uint32_t end_partition);

/* A slice of eviction, if it is time for one, and of what dropped tables give back: called once a turn, when requests
 * were served. 0: the next one may wait. */
unsigned service_sweep(struct service *service, uint64_t now_ns);

/* Asks for a full pass of eviction over a table, which goes on in service_sweep. 0, or -ENOENT. */
int service_sweep_begin(struct service *service, uint32_t id);
/* The same to delete all its rows: store_empty_begin. */
int service_empty_begin(struct service *service, uint32_t id);

/* ---- snapshots: the reactor fills blocks, another thread writes them down ---- */

struct service_block {
	/* CHECKPOINT_BLOCK_MAX bytes, aligned to 8: the payload lies behind room for a struct checkpoint_block */
	void *memory;
	uint32_t payload_bytes; /* perhaps 0 in the last one */
	uint64_t rows, deleted; /* in it */
	uint64_t step; /* the latest training step of the tables whose figures were written, in it and before it */
	bool last;
};

enum { SERVICE_BLOCKS_MAX = 8 };

/* Of one snapshot. Stays where it is from service_snapshot_begin to service_snapshot_end, and may be used again
 * then. */
struct service_snapshot {
	/* All are the reactor's at the begin. It puts filled ones into the ring, which has room for all; when they were
	 * written, service_snapshot_give has them filled again. */
	struct service_block *blocks[SERVICE_BLOCKS_MAX];
	unsigned blocks_count;
	struct rte_ring *full; /* of struct service_block * */
	uint64_t id;	       /* of the checkpoint; for the journal */
	/* it is given up when requests wait longer for room for copies; 0: they wait as long as they may */
	uint64_t wait_max_ns;
	/* Read by the other thread (service_snapshot_status): 0; negative: it was given up by the reactor, -EAGAIN
	 * since a delta is not possible any more, -ETIME since requests waited too long, -ENOBUFS since a row could not
	 * be copied. No more blocks come then, the last one is missing; service_snapshot_end need not be called.
	 * -ESTALE: a table was dropped. */
	int status;
};

/* Asks for a snapshot. Its instant is soon after: when no large push is between its first row and its end, to which new
 * ones wait. 0; -EBUSY: one is under way; -EAGAIN: a delta is not possible; -ENOTSUP: the store has no marks. */
int service_snapshot_begin(struct service *service, enum store_snapshot_kind kind, struct service_snapshot *snapshot);

/* Whether it is this one that is under way. */
bool service_snapshot_is(const struct service *service, const struct service_snapshot *snapshot);
/* After the last block, or to give it up: store_snapshot_end. Blocks that the reactor still had are the caller's
 * again. */
void service_snapshot_end(struct service *service, bool kept);

/* A block was written down: it is to be filled again. Without a snapshot nothing happens, and it is the caller's. On
 * the reactor's thread, as a message, which also ends its sleep when it waits for nothing else. */
void service_snapshot_give(struct service *service, struct service_block *block);

/* Its slice of a turn, if it is time for one; busy: requests were served in this turn, so seven eighths of the time are
 * theirs. 0: idle: there is nothing to do, or no block to do it in. */
unsigned service_snapshot_turn(struct service *service, uint64_t now_ns, bool busy);

static inline int service_snapshot_status(const struct service_snapshot *snapshot)
{
	return __atomic_load_n(&snapshot->status, __ATOMIC_ACQUIRE);
}

/* ---- the journal: lib/journal, wire/journal.h ---- */

/* All that changes from now on is written to the ring; NULL: not any more. */
void service_journal_begin(struct service *service, struct journal_ring *ring);
/* Another reader of that ring begins, which has nothing of what was written before: that does not count as written. */
void service_journal_joined(struct service *service);
/* A mark behind all that there is, if no request is executed in part; false: not now, or the ring is lost. */
bool service_journal_settle(struct service *service, uint64_t now_ns);
/* A standby's shard: what goes, goes because its primary says so. */
void service_set_follows(struct service *service, bool follows);
/* Once a turn, busy as for snapshots: a mark, where one is due and nothing is executed in part. 0: the next one
 * may wait. */
unsigned service_journal_turn(struct service *service, uint64_t now_ns, bool busy);
/* A session as it is now. */
void service_journal_outcome(struct service *service, const struct rpc_outcome *outcome);
/* The checkpoint whose instant has come, and behind which all sessions are to be written again; 0: none. And: they
 * were. */
uint64_t service_journal_sessions_due(const struct service *service);
void service_journal_sessions_done(struct service *service, uint64_t id);
/* A record of a journal that is applied: JOURNAL_CLEARED. */
int service_load_cleared(struct service *service, uint32_t id);
/* Behind the records of a life: store_load_life_end of all that is there. */
void service_load_life_end(struct service *service, uint32_t lives);
/* Requests carry this one: as in service_options, until the first layout. */
void service_set_incarnation(struct service *service, uint32_t incarnation);

/* Loads n records of a run into the object that it names (store_load), however many: before requests are served.
 * -ENOENT: no such object. */
int service_load(struct service *service, const struct checkpoint_run *run, const void *records, uint32_t n,
		 struct star_error *err);

/* After all was loaded: evicts up to `budget` rows that the object has beyond the shard's share (store_trim). How many;
 * 0: none is over. */
unsigned service_trim(struct service *service, uint32_t id, unsigned budget);

const struct service_counters *service_counters(const struct service *service);

struct kept_stats;
/* Of what programs keep. May be read by any thread. */
const struct kept_stats *service_kept_stats(const struct service *service);

/* The figures of all the shard's tables together; and those of one table, added to *sum, nothing without one. May be
 * read by any thread. */
struct store_stats service_store_stats(const struct service *service);
void service_table_stats(const struct service *service, uint32_t id, struct store_stats *sum);
/* One figure, a member of struct store_stats by its offset: of all tables together (of moved_max that makes no sense);
 * and of each of these, added to its sum, or of moved_max what is more. 0 without the table. By any thread. */
uint64_t service_figure(const struct service *service, size_t offset);
void service_table_figures(const struct service *service, const struct object_spec *const *tables, uint32_t count,
			   size_t offset, uint64_t *sums);
/* Rows that the passes of eviction which were asked for have still to look at: by any thread, about. */
uint64_t service_sweep_left(const struct service *service, uint32_t id);

#endif
