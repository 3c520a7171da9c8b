/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/sync.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "client/star.h"

enum {
	PRESENT = 0, /* the row of the current round */
	ROWS_PER_LOOK = 64,
	NAME_BYTES = 128,
	OPS = 16,	     /* of a call */
	LOST_KEPT = 1 << 16, /* rounds after which the row of an aborted round is deleted too */
	LOOKS_PER_LEASE = 16,
	PATIENCE = 2, /* leases for which a ticket may be outstanding although all workers are alive: its worker may
		       * have been restarted */
};

/*
 * Elements of a round's row. The last three are in the rounds' own sums, and are added to the row when these are
 * committed: the number of leaders that have opened the round, and the sums of the number of gradients that it needs,
 * and of its square, as these leaders had it.
 */
enum { TICKETS, DONE, OPENED, NEEDS, SQUARES };

/* Elements of the current round's row. */
enum { TAG, STEP, GLOBAL_STEP, NEED, BY_ROW };

/* Rounds after which the row of a committed one is deleted. Tests have a different number. */
#ifndef SYNC_ROWS_KEPT
#define SYNC_ROWS_KEPT 8
#endif

/* Above all tags: the row where worker i, as a leader, keeps the current round as it last wrote it. */
#define WRITTEN_BY(i) (UINT64_C(1) << 63 | (i))
/* Added to DONE by a worker that had a ticket but could not push everything. */
#define SPOILED -0x1p30
/* Tags, and everything else in a row, are integers that a double can represent. */
#define NUMBER_MAX 0x1p53

void train_sync_init(struct sync *s, const struct sync_options *options)
{
	*s = (struct sync){ .options = *options };
	pthread_mutex_init(&s->lock, NULL);
}

void train_sync_fini(struct sync *s)
{
	pthread_mutex_destroy(&s->lock);
}

int train_sync_attach(struct sync *s, struct star_cluster *cluster, struct peers *peers,
		      const struct remote_update *updates, uint32_t updates_count, struct star_error *err)
{
	char name[NAME_BYTES];
	struct star_spec spec = {
		.name = name, .dtype = "float64", .dim = SYNC_ROW, .initializer = "zeros", .optimizer = "sgd", .rate = 1
	};

	s->cluster = cluster;
	s->peers = peers;
	s->updates = updates;
	s->updates_count = updates_count;
	s->fresh = true;
	s->looked_ns = 0;
	snprintf(name, sizeof(name), "%s/rounds",
		 s->options.job); /* with a name of the same length as that of peers, which was created before */
	s->table = star_table_create(cluster, &spec, s->options.deadline_us, err);
	return s->table ? 0 : err->code;
}

/* ---- rows ---- */

static uint64_t whole_number(double x)
{
	return x > 0 && x < NUMBER_MAX ? (uint64_t)x : 0;
}

static int execute_op(struct sync *s, struct star_op *op, struct star_error *err)
{
	return star_execute(s->cluster, op, 1, s->options.deadline_us, err);
}

/* Adds to a round's row, and returns its new contents in row. -EREMOTEIO: it was added, but the reply was lost, and
 * with it the contents. */
static int add_to_row(struct sync *s, uint64_t tag, unsigned element, double what, double row[static SYNC_ROW],
		      struct star_error *err)
{
	double minus[SYNC_ROW] = { 0 };
	struct star_op op = {
		.kind = STAR_PUSH_PULL,
		.flags = STAR_AT_ONCE,
		.table = s->table,
		.keys = &tag,
		.count = 1,
		.values = minus,
		.results = row,
	};

	minus[element] = -what;
	return execute_op(s, &op, err);
}

/* The round must be repeated: the leader discards what was summed. */
static int spoil(struct sync *s, uint64_t tag, struct star_error *err)
{
	double row[SYNC_ROW];
	const int rc = add_to_row(s, tag, DONE, SPOILED, row, err);

	return rc == -EREMOTEIO ? 0 : rc;
}

static struct sync_round round_of(const double row[static SYNC_ROW])
{
	return (struct sync_round){ .tag = whole_number(row[TAG]),
				    .step = whole_number(row[STEP]),
				    .global_step = whole_number(row[GLOBAL_STEP]),
				    .need = (uint32_t)whole_number(row[NEED]),
				    .by_row = row[BY_ROW] != 0 };
}

/* Whether a round is committed, by its row after the rounds' sums have advanced. Leaders that disagree about the number
 * of gradients have spoiled it. */
static bool is_applied(const struct sync_round *round, const double row[static SYNC_ROW])
{
	return round->need > 0 && row[OPENED] > 0 && row[NEEDS] == row[OPENED] * round->need &&
	       row[SQUARES] == row[NEEDS] * round->need;
}

/* The same, from the row alone. */
static bool is_row_applied(const double row[static SYNC_ROW])
{
	const struct sync_round round = { .need = row[OPENED] > 0 ? (uint32_t)whole_number(row[NEEDS] / row[OPENED])
								  : 0 };

	return is_applied(&round, row);
}

/* Reads the current round, and the row of this worker's round. */
static int look_at_round(struct sync *s, struct sync_round *present, struct star_error *err)
{
	const uint64_t keys[2] = { PRESENT, s->round.tag }, now_ns = clock_ns();
	double rows[2][SYNC_ROW];
	int rc = star_pull(s->table, keys, 2, rows, STAR_READ_ONLY, s->options.deadline_us, err);

	if (rc < 0)
		return rc;
	*present = round_of(rows[0]);
	if (rows[1][TICKETS] != s->tickets || rows[1][DONE] != s->done || s->moved_ns == 0)
		s->moved_ns = now_ns;
	s->tickets = rows[1][TICKETS];
	s->done = rows[1][DONE];
	if (s->round.tag && is_applied(&s->round, rows[1]))
		s->applied = s->round.tag;
	if (s->looked_ns && now_ns - s->looked_ns < s->options.lease_us * 1000 / LOOKS_PER_LEASE)
		return 0;
	s->looked_ns = now_ns;
	return train_peers_look(s->peers, err);
}

static void go_to(struct sync *s, const struct sync_round *round)
{
	if (round->tag != s->round.tag)
		s->moved_ns = 0;
	s->round = *round;
}

/* ---- the leader ---- */

static bool leads(const struct sync *s)
{
	for (uint32_t i = 0; i < s->options.index; i++)
		if (train_peers_lives(s->peers, i))
			return false;
	return true;
}

/* The number of gradients that a round can get: from workers that have not finished. */
static uint32_t need(const struct sync *s)
{
	uint32_t there = 0;

	for (uint32_t i = 0; i < s->options.workers; i++)
		there += !train_peers_ended(s->peers, i);
	return there < s->options.wait_for ? there : s->options.wait_for;
}

uint64_t train_sync_step(const struct sync *s)
{
	for (uint32_t i = 0; i < s->updates_count; i++)
		if (s->updates[i].counter)
			return s->round.global_step + 1;
	return s->round.step + 1;
}

/* Commits the sums of everything that the graph updates, also if some objects have no sums with that tag. -EALREADY:
 * there were such objects. */
static int commit_all(struct sync *s, uint64_t tag, uint32_t flags, struct star_error *err)
{
	/* A round of the job's last run is also committed in the way in which it was opened. */
	const bool by_row = flags & STAR_OPEN ? s->options.by_row : s->round.by_row;
	struct star_op ops[OPS];
	uint32_t count = 0;
	int rc = 0, refused = 0;

	for (uint32_t i = 0; rc == 0 && i < s->updates_count; i++) {
		const struct remote_update *u = &s->updates[i];

		ops[count] = (struct star_op){
			.kind = STAR_COMMIT, .flags = flags, .table = u->table, .tag = tag, .step = train_sync_step(s)
		};
		if (flags == 0 && !u->counter) {
			ops[count].flags |= STAR_SCALE | (u->has_rate ? STAR_RATE : 0);
			ops[count].rate = u->rate;
			ops[count].scale = 1 / (float)s->round.need;
		}
		if (u->by_ids && by_row) { /* instead of by the number of gradients */
			ops[count].flags = (ops[count].flags & ~(uint32_t)STAR_SCALE) | STAR_BY_ROW;
			ops[count].scale = 0;
		}
		if (++count < OPS && i + 1 < s->updates_count)
			continue;
		rc = star_execute(s->cluster, ops, count, s->options.deadline_us, err);
		refused = rc == -EALREADY ? rc : refused;
		rc = rc == -EALREADY ? 0 : rc;
		count = 0;
	}
	return rc < 0 ? rc : refused;
}

/*
 * The rounds' own sums are committed or discarded before all others, and so decide: they have what the round's leaders
 * have opened it with, and either a commit adds that to its row, which is a single operation of one reactor, or it is
 * discarded. A later request changes nothing; its worker reads what the first one has done. -EALREADY: later rounds are
 * decided, or a node has lost its sums. rows: of this worker's round, and of an older one.
 */
static int decide(struct sync *s, uint64_t tag, uint32_t flags, double rows[static 2][SYNC_ROW], struct star_error *err)
{
	const uint64_t keys[2] = { s->round.tag, s->round.tag - SYNC_ROWS_KEPT };
	struct star_op ops[] = {
		{ .kind = STAR_COMMIT, .flags = flags, .table = s->table, .tag = tag },
		{ .kind = STAR_PULL,
		  .flags = STAR_READ_ONLY,
		  .table = s->table,
		  .keys = keys,
		  .count = 2,
		  .values = rows },
	};

	return star_execute(s->cluster, ops, 2, s->options.deadline_us, err);
}

/*
 * With `forget`, also deletes the row of a round that was committed long ago. So a worker that was stopped and finds no
 * row knows that its gradients were applied. Rows of aborted rounds are kept for longer than any worker can be stopped.
 */
static int write_present(struct sync *s, const struct sync_round *round, bool forget, struct star_error *err)
{
	const uint64_t keys[] = { PRESENT, WRITTEN_BY(s->options.index) };
	const uint64_t old[] = { s->round.tag - LOST_KEPT, s->round.tag - SYNC_ROWS_KEPT };
	double rows[2][SYNC_ROW] = { { (double)round->tag, (double)round->step, (double)round->global_step, round->need,
				       round->by_row } };
	struct star_op ops[] = {
		{ .kind = STAR_ASSIGN, .table = s->table, .keys = keys, .count = 2, .values = rows },
		{ .kind = STAR_DELETE, .table = s->table, .keys = old, .count = 1 + forget },
	};

	memcpy(rows[1], rows[0], sizeof(rows[0]));
	return star_execute(s->cluster, ops, 2, s->options.deadline_us, err);
}

/* The number of gradients is in the sums before any worker sees the round. */
static int open_round(struct sync *s, uint64_t tag, bool applied, bool forget, struct star_error *err)
{
	struct sync_round next = {
		.tag = tag, .step = s->round.step + applied, .need = need(s), .by_row = s->options.by_row
	};
	const double n = next.need;
	double minus[SYNC_ROW] = { [OPENED] = -1, [NEEDS] = -n, [SQUARES] = -n * n }, global_step = 0;
	struct star_op ops[2];
	uint32_t count = 0;
	int rc;

	/* The counter of steps on the PS tasks; there is at most one. */
	for (uint32_t i = 0; count == 0 && i < s->updates_count; i++)
		if (s->updates[i].counter)
			ops[count++] = (struct star_op){ .kind = STAR_PULL,
							 .table = s->updates[i].table,
							 .values = &global_step };
	ops[count++] = (struct star_op){ .kind = STAR_PUSH,
					 .flags = STAR_ACCUMULATE,
					 .table = s->table,
					 .keys = &tag,
					 .count = 1,
					 .values = minus,
					 .tag = tag };
	rc = star_execute(s->cluster, ops, count, s->options.deadline_us, err);
	if (rc < 0)
		return rc;
	next.global_step = whole_number(global_step);
	if (applied && s->options.boundary)
		s->options.boundary(s->options.arg, next.global_step);
	return write_present(s, &next, forget, err);
}

/*
 * A leader that was stopped for longer than its lease, and continues between two of its calls, writes an old round into
 * the row of the current one. Tags only increase, so the highest that any leader has written is the current one.
 */
static int find_present(struct sync *s, struct sync_round *present, struct star_error *err)
{
	const uint64_t shown = present->tag;

	for (uint32_t first = 0; first < s->options.workers; first += ROWS_PER_LOOK) {
		const uint32_t left = s->options.workers - first, count = left < ROWS_PER_LOOK ? left : ROWS_PER_LOOK;
		uint64_t keys[ROWS_PER_LOOK];
		double rows[ROWS_PER_LOOK][SYNC_ROW];
		int rc;

		for (uint32_t i = 0; i < count; i++)
			keys[i] = WRITTEN_BY(first + i);
		rc = star_pull(s->table, keys, count, rows, STAR_READ_ONLY, s->options.deadline_us, err);
		if (rc < 0)
			return rc;
		for (uint32_t i = 0; i < count; i++)
			if (whole_number(rows[i][TAG]) > present->tag)
				*present = round_of(rows[i]);
	}
	return present->tag == shown ? 0 : write_present(s, present, false, err);
}

static bool is_complete(const struct sync *s)
{
	return s->round.need && s->done >= s->round.need;
}

/*
 * Ends this worker's round: the mean of the gradients is applied if `apply`, or the sums are discarded; unless another
 * leader was first, has decided it, and has perhaps not finished. Then the round `next` begins, of the next step or the
 * same one.
 */
static int settle_round(struct sync *s, bool apply, uint64_t next, struct star_error *err)
{
	double rows[2][SYNC_ROW] = { 0 };
	int rc = apply ? decide(s, s->round.tag, 0, rows, err) : -EALREADY;
	bool applied;

	if (rc == -EALREADY)
		rc = decide(s, next, STAR_OPEN, rows, err);
	if (rc < 0)
		return rc;
	applied = is_applied(&s->round, rows[0]);
	rc = applied ? commit_all(s, s->round.tag, 0, err) : -EALREADY;
	if (rc == -EALREADY || (rc == 0 && next != s->round.tag + 1))
		rc = commit_all(s, next, STAR_OPEN, err);
	if (rc < 0)
		return rc;
	s->applied = applied ? s->round.tag : s->applied;
	return open_round(s, next, applied, is_row_applied(rows[1]), err);
}

/* By what the leaders have written, because row 0 alone may be outdated. */
static int go_to_present(struct sync *s, struct star_error *err)
{
	struct sync_round present;
	int rc = look_at_round(s, &present, err);

	if (rc == 0)
		rc = find_present(s, &present, err);
	if (rc < 0)
		return rc;
	if (present.tag == 0) /* rounds are lost, or there were none: steps continue */
		present.step = s->round.step;
	go_to(s, &present);
	return look_at_round(s, &present, err);
}

/*
 * The first time after connecting: nodes may have been restarted, and sums, rounds and decisions lost. A round that was
 * complete is first committed, if that is still possible. The next tag is higher than all earlier ones, including those
 * of an earlier run of which the row of the current round knows nothing. Once the rounds' sums have it, no other leader
 * decides an earlier round; and what another leader has written until then is found, and followed.
 */
static int take_over(struct sync *s, struct star_error *err)
{
	double rows[2][SYNC_ROW];
	uint64_t next;
	int rc = go_to_present(s, err);

	if (rc == 0 && is_complete(s))
		rc = decide(s, s->round.tag, 0, rows, err);
	if (rc < 0 && rc != -EALREADY)
		return rc;
	next = clock_date_us();
	next = next > s->round.tag ? next : s->round.tag + 1;
	rc = decide(s, next, STAR_OPEN, rows, err);
	if (rc == 0)
		rc = go_to_present(s, err);
	return rc == 0 ? settle_round(s, false, next, err) : rc;
}

/* Whether a gradient has been on its way for longer than its worker can be considered alive. */
static bool is_stuck(const struct sync *s)
{
	const uint64_t waited_ns = clock_ns() - s->moved_ns, lease_ns = s->options.lease_us * 1000;
	const double tickets = s->tickets < s->round.need ? s->tickets : s->round.need;
	bool died = false;

	if (s->done < 0)
		return true;
	for (uint32_t i = 0; i < s->options.workers; i++)
		died |= !train_peers_lives(s->peers, i) && !train_peers_ended(s->peers, i);
	return tickets > s->done && waited_ns >= (died ? lease_ns : PATIENCE * lease_ns);
}

/* Does what is necessary for this worker's round. */
static int lead(struct sync *s, const struct sync_round *present, struct star_error *err)
{
	int rc = 0;

	if (s->fresh) {
		rc = take_over(s, err);
		s->fresh = rc != 0;
	} else if (present->tag != s->round.tag) {
		s->fresh = present->tag < s->round.tag;
	} else if (s->late) { /* its sums are closed, and no other round has begun */
		s->fresh = true;
	} else if (is_complete(s)) {
		rc = settle_round(s, true, s->round.tag + 1, err);
	} else if (is_stuck(s) || need(s) < s->round.need) {
		rc = settle_round(s, false, s->round.tag + 1, err);
	}
	/* Another worker leads, or a node has lost its sums: then row 0 is right. */
	s->fresh |= rc == -EALREADY;
	return rc == -EALREADY ? 0 : rc;
}

/* ---- a worker's step ---- */

static int live(const struct sync *s)
{
	int n = 0;

	for (uint32_t i = 0; i < s->options.workers; i++)
		n += train_peers_lives(s->peers, i);
	return n;
}

/* Whether this worker can take part in the present round. */
static bool is_ours(const struct sync *s, const struct sync_round *present, uint64_t least)
{
	return present->tag >= least && present->tag != s->given_up && present->by_row == s->options.by_row &&
	       !(s->fresh && leads(s));
}

/* Reads the rounds, and leads if necessary, until the current round has at least that tag, and is not the one in which
 * this worker has failed. */
static int await_round(struct sync *s, uint64_t least, struct sync_round *present, uint64_t until_ns,
		       struct star_error *err)
{
	uint64_t told_ns = 0;
	unsigned pause_us = 0;

	for (;;) {
		int rc = look_at_round(s, present, err);

		if (rc < 0 || is_ours(s, present, least))
			return rc;
		if (leads(s)) {
			const uint64_t was = present->tag;

			rc = lead(s, present, err);
			if (rc == 0)
				rc = look_at_round(s, present, err);
			if (rc < 0)
				return rc;
			if (present->tag != was)
				continue;
		}
		/* This worker was stopped, and considered dead by the leader that began the round. */
		if (present->by_row != s->options.by_row)
			rc = train_peers_check(s->peers, err);
		if (rc < 0)
			return rc;
		if (clock_ns() >= until_ns)
			return star_error_set(err, -ETIME,
					      "step %" PRIu64
					      ": %.0f of %u gradients have arrived, %d workers are alive: the wait "
					      "for the others has timed out",
					      s->round.step, s->done, s->round.need, live(s));
		if (train_peers_quiet(&told_ns))
			fprintf(stderr,
				"step %" PRIu64 ": %.0f of %u gradients have arrived, %d workers are alive: waiting\n",
				s->round.step, s->done, s->round.need, live(s));
		train_peers_pause(&pause_us);
	}
}

int train_sync_begin(struct sync *s, uint64_t until_ns, struct star_error *err)
{
	struct sync_round present = { 0 };
	/* Before it leads or takes part. */
	int rc = train_peers_join(s->peers, until_ns, err);

	s->asked = s->unsure = s->admitted = s->late = s->counted = s->counts = false;
	if (rc == 0 && s->given_up) {
		s->round.tag = s->given_up;
		rc = spoil(s, s->given_up, err);
	}
	/* Tags only increase, as long as the PS tasks are not restarted. */
	if (rc == 0)
		rc = await_round(s, s->given_up || !s->round.tag ? 1 : s->round.tag, &present, until_ns, err);
	if (rc < 0)
		return rc;
	go_to(s, &present);
	s->given_up = 0;
	return 0;
}

int train_sync_admit(void *arg, struct remote_round *round, struct star_error *err)
{
	struct sync *s = arg;
	double row[SYNC_ROW];
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	if (!s->asked) {
		rc = add_to_row(s, s->round.tag, TICKETS, 1, row, err);
		s->admitted = rc == 0 && row[TICKETS] <= s->round.need;
		s->counts = rc == 0 && row[TICKETS] == 1;
		s->unsure = rc < 0;
		/* Whether this worker has a ticket is unknown. The others would wait for its gradients, or count no
		 * step. */
		if (rc == -EREMOTEIO)
			rc = spoil(s, s->round.tag, err);
		s->asked = rc == 0;
	}
	*round = (struct remote_round){ .tag = s->admitted ? s->round.tag : 0,
					.counts = s->counts,
					.global_step = (double)(s->round.global_step + 1) };
	pthread_mutex_unlock(&s->lock);
	return rc;
}

void train_sync_refused(void *arg)
{
	struct sync *s = arg;

	pthread_mutex_lock(&s->lock);
	s->late = true;
	pthread_mutex_unlock(&s->lock);
}

/* The round is over: finds out whether this worker's gradients were discarded with it. Only rows of committed rounds
 * are deleted. */
static int ask_whether_late(struct sync *s, const struct sync_round *round, struct star_error *err)
{
	double row[SYNC_ROW];
	int rc = star_pull(s->table, &round->tag, 1, row, STAR_READ_ONLY, s->options.deadline_us, err);

	/* This worker has added to DONE. If it is 0, the row was deleted, and another late worker has added its
	 * ticket. */
	s->late = rc == 0 && row[DONE] != 0 && !is_applied(round, row);
	return rc;
}

int train_sync_end(struct sync *s, uint64_t until_ns, struct star_error *err)
{
	const struct sync_round round = s->round;
	struct sync_round present;
	double row[SYNC_ROW];
	bool committed;
	int rc = 0;

	if (s->admitted && !s->late) {
		s->counted = true; /* or perhaps not, if this fails: then a gradient is missing, and the round is
				    * repeated */
		rc = add_to_row(s, s->round.tag, DONE, 1, row, err);
		/* A step of another worker has failed, or the row was deleted since. If the reply is lost, the outcome
		 * of the round is found when it is over. */
		s->late = rc == 0 && (row[DONE] <= 0 || row[TICKETS] < 1);
		rc = rc == -EREMOTEIO ? 0 : rc;
	}
	if (rc == 0)
		rc = await_round(s, s->round.tag + 1, &present, until_ns, err);
	if (rc == 0 && s->admitted && !s->late && s->applied != round.tag)
		rc = ask_whether_late(s, &round, err);
	if (rc < 0)
		return rc;
	committed = present.step > round.step;
	s->dropped += committed && !(s->admitted && !s->late);
	s->repeated += !committed;
	go_to(s, &present);
	return committed;
}

void train_sync_failed(struct sync *s)
{
	/* A ticket may also have been taken if the reply was lost. */
	s->given_up = (s->admitted && !s->counted) || (s->unsure && !s->asked) ? s->round.tag : 0;
	if (!s->given_up)
		s->round.tag = 0;
}
