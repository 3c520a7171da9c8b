/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of sessions by itself: which sessions stay in it, which are forgotten, and that another table forgets the
 * same ones. */
#include <stdio.h>

#include "rpc/internal.h"
#include "tests/rpc/cases.h"

static const uint64_t lease_ns = REPLAY_LEASE_S * UINT64_C(1000000000);
static struct rpc_server nobody; /* which a table asks what is durable */

static enum replay_verdict look(struct replay *replay, struct rpc_work *work, uint64_t now_ns)
{
	enum wire_status status;

	work->server = &nobody;
	return rpc_replay_look(replay, work, now_ns, &status);
}

static struct rpc_work *of_session(struct rpc_work *work, uint64_t session, uint64_t sequence, unsigned flags)
{
	*work = (struct rpc_work){ .request.frame = {
					   .session = session, .sequence = sequence, .flags = (uint8_t)flags } };
	return work;
}

/* It comes, has a request executed, and stays. */
static void do_one(struct replay *replay, struct rpc_work *work, uint64_t session, uint64_t now_ns)
{
	CHECK_UINT(look(replay, of_session(work, session, 5, 0), now_ns), REPLAY_RUN);
	CHECK(work->replay != 0);
	rpc_replay_done(replay, work, WIRE_OK);
}

/* What is said of a session's request when it is sent again by somebody who then leaves. */
static enum replay_verdict ask_again(struct replay *replay, uint64_t session, uint64_t now_ns)
{
	struct rpc_work work;
	const enum replay_verdict verdict =
		look(replay, of_session(&work, session, 5, WIRE_GOES_ON | WIRE_RESENT), now_ns);

	rpc_replay_leave(replay, &work, REPLAY_ANYBODY, now_ns, false);
	return verdict;
}

/* The table by itself: places for four. */
void sessions_that_may_send_again_stay(void)
{
	enum { PLACES = 4 };
	struct replay *replay = rpc_replay_create(PLACES, 1);
	struct rpc_work works[PLACES], other;

	for (unsigned i = 0; i < PLACES; i++)
		do_one(replay, &works[i], 100 + i, 0);
	/* All have owners: however long ago they were heard. Nothing was forgotten: what is sent again never came. */
	CHECK_UINT(look(replay, of_session(&other, 999, 1, 0), 9 * lease_ns), REPLAY_FULL);
	CHECK_UINT(look(replay, of_session(&other, 999, 1, WIRE_GOES_ON | WIRE_RESENT), 9 * lease_ns), REPLAY_FULL);
	CHECK_UINT(other.replay, 0);
	/* One is lost at 10, the next a second later; each may come back for a lease. */
	rpc_replay_leave(replay, &works[1], REPLAY_ANYBODY, 10 * lease_ns, false);
	rpc_replay_leave(replay, &works[0], REPLAY_ANYBODY, 10 * lease_ns + 1000000000, false);
	CHECK_UINT(look(replay, of_session(&other, 999, 1, 0), 11 * lease_ns - 1), REPLAY_FULL);
	CHECK_UINT(rpc_replay_count(replay), PLACES);
	CHECK_UINT(ask_again(replay, 101, 11 * lease_ns - 1), REPLAY_REPEATED); /* and its lease begins again */
	CHECK_UINT(look(replay, of_session(&other, 999, 1, 0), 11 * lease_ns), REPLAY_FULL);
	/* The other one has stayed away: its place is given to a new one, and nobody knows it any more. */
	do_one(replay, &other, 999, 11 * lease_ns + 1000000000);
	CHECK_UINT(ask_again(replay, 100, 11 * lease_ns + 1000000000), REPLAY_FORGOTTEN);
	for (unsigned i = 1; i < PLACES; i++)
		CHECK_UINT(ask_again(replay, 100 + i, 11 * lease_ns + 1000000000), REPLAY_REPEATED);
	rpc_replay_destroy(replay);
}

/* One address that comes and goes leaves places to others, and those of others stay. */
void one_address_does_not_take_all_places(void)
{
	enum { SHARE = REPLAY_LEFT / REPLAY_SHARES, PLACES = SHARE + 2, OTHER = 8 };
	struct replay *replay = rpc_replay_create(PLACES, 1);
	struct rpc_work work, other;

	do_one(replay, &other, 1, 0);
	rpc_replay_leave(replay, &other, OTHER, 0, false);
	for (unsigned i = 0; i < 3 * SHARE; i++) {
		do_one(replay, &work, 100 + i, 0);
		rpc_replay_leave(replay, &work, 7, 0, false);
	}
	CHECK_UINT(rpc_replay_count(replay), PLACES);
	do_one(replay, &other, 2, 0);
	rpc_replay_leave(replay, &other, OTHER, 0, true);
	CHECK_UINT(ask_again(replay, 1, 0), REPLAY_REPEATED);
	CHECK_UINT(ask_again(replay, 100 + SHARE - 1, 0), REPLAY_REPEATED);
	CHECK_UINT(ask_again(replay, 100 + 3 * SHARE - 1, 0), REPLAY_FORGOTTEN);
	rpc_replay_destroy(replay);
}

/* Those that have had all answers go first, before any lease is over, the oldest first. */
void sessions_that_have_ended_go_first(void)
{
	enum { PLACES = 4 };
	struct replay *replay = rpc_replay_create(PLACES, 1);
	struct rpc_work works[PLACES], others[PLACES];

	for (unsigned i = 0; i < PLACES; i++)
		do_one(replay, &works[i], 100 + i, 0);
	rpc_replay_leave(replay, &works[3], REPLAY_ANYBODY, 1000, false);
	rpc_replay_leave(replay, &works[2], REPLAY_ANYBODY, 2000, true);
	rpc_replay_leave(replay, &works[1], REPLAY_ANYBODY, 3000, true);
	/* One of them comes back, and does not end in order this time. */
	CHECK_UINT(ask_again(replay, 102, 4000), REPLAY_REPEATED);
	do_one(replay, &others[0], 200, 5000);
	CHECK_UINT(look(replay, of_session(&others[1], 201, 1, 0), 5000), REPLAY_FULL);
	CHECK_UINT(ask_again(replay, 101, 5000), REPLAY_FORGOTTEN);
	CHECK_UINT(ask_again(replay, 102, 5000), REPLAY_REPEATED);
	CHECK_UINT(ask_again(replay, 103, 5000), REPLAY_REPEATED);
	rpc_replay_destroy(replay);
}

/* Its peer keeps what is not, and sends it again when it comes back, however late. */
void sessions_with_what_is_not_durable_stay(void)
{
	struct replay *replay = rpc_replay_create(2, 1);
	struct rpc_work works[2], other;

	nobody = (struct rpc_server){ .life = 3, .durable = 50 };
	for (unsigned i = 0; i < 2; i++)
		do_one(replay, &works[i], 100 + i, 0);
	CHECK(rpc_replay_note(replay, &works[0], nobody.life, 60));
	rpc_replay_leave(replay, &works[0], REPLAY_ANYBODY, 0, true);
	rpc_replay_leave(replay, &works[1], REPLAY_ANYBODY, 0, false);
	do_one(replay, &other, 999, 2 * lease_ns); /* in the place of the second, which has nothing */
	CHECK_UINT(look(replay, of_session(&works[1], 998, 1, 0), 9 * lease_ns), REPLAY_FULL);
	CHECK_UINT(ask_again(replay, 100, 9 * lease_ns), REPLAY_REPEATED);
	nobody.durable = 60;
	CHECK_UINT(look(replay, of_session(&works[1], 998, 1, 0), 10 * lease_ns), REPLAY_RUN);
	CHECK_UINT(ask_again(replay, 100, 10 * lease_ns), REPLAY_FORGOTTEN);
	nobody = (struct rpc_server){ 0 };
	rpc_replay_destroy(replay);
}

/* Its request runs on while its peer has come back by another connection and left that, too: what is sent again waits
 * for how it ends, so that its place is given to nobody before. */
void sessions_whose_request_still_runs_stay(void)
{
	struct replay *replay = rpc_replay_create(1, 1);
	struct rpc_stream runs = { .state = STREAM_READY };
	struct rpc_work back, other;

	CHECK_UINT(look(replay, of_session(&runs.work, 100, 5, 0), 0), REPLAY_RUN);
	runs.work.request.begun = true;
	CHECK_UINT(look(replay, of_session(&back, 100, 5, WIRE_GOES_ON | WIRE_RESENT), 0), REPLAY_WAIT);
	rpc_replay_leave(replay, &back, REPLAY_ANYBODY, 0, true);
	CHECK_UINT(look(replay, of_session(&other, 200, 1, 0), 0), REPLAY_FULL);
	CHECK_UINT(look(replay, of_session(&other, 200, 1, 0), 9 * lease_ns), REPLAY_FULL);
	CHECK_UINT(ask_again(replay, 100, 10 * lease_ns), REPLAY_WAIT);
	rpc_replay_done(replay, &runs.work, WIRE_OK);
	CHECK_UINT(ask_again(replay, 100, 10 * lease_ns), REPLAY_REPEATED);
	CHECK_UINT(look(replay, of_session(&other, 200, 1, 0), 10 * lease_ns), REPLAY_FULL);
	CHECK_UINT(look(replay, of_session(&other, 200, 1, 0), 11 * lease_ns), REPLAY_RUN);
	rpc_replay_destroy(replay);
}

/* What goes from one table into the other, as by a journal or to a standby: a request's outcome at its end. */
static void tell_other(struct replay *from, struct rpc_work *work, struct replay *to)
{
	const struct rpc_outcome outcome = rpc_replay_outcome(from, work);

	if (outcome.replaces)
		rpc_replay_restore(to,
				   &(struct rpc_outcome){
					   .session = outcome.replaces, .sequence = REPLAY_GONE, .forgot = true },
				   0);
	rpc_replay_restore(to, &outcome, 0);
}

/* Many sessions come and go, with and without changes, in places for few: a table built from these records answers as
 * the first one would. */
void both_tables_forget_the_same_sessions(void)
{
	enum { PLACES = 16, SESSIONS = 400 };
	struct replay *replay = rpc_replay_create(PLACES, 1), *other = rpc_replay_create(PLACES, 2);
	bool changed[SESSIONS];
	struct prng prng;
	uint64_t now_ns = 0;
	struct rpc_outcome outcome;
	uint32_t at = 0;
	unsigned known = 0;

	prng_seed(&prng, 5);
	for (unsigned i = 0; i < SESSIONS; i++) {
		struct rpc_work work;

		now_ns += lease_ns / 10;
		/* Somebody comes back now and then, and changes nothing: its lease is another one then. */
		if (prng_below(&prng, 4) == 0)
			ask_again(replay, 1000 + prng_below(&prng, i + 1), now_ns);
		if (look(replay, of_session(&work, 1000 + i, 5, 0), now_ns) == REPLAY_FULL) {
			changed[i] = false;
			continue;
		}
		rpc_replay_done(replay, &work, WIRE_OK);
		changed[i] = prng_below(&prng, 3) != 0;
		if (changed[i])
			tell_other(replay, &work, other);
		rpc_replay_leave(replay, &work, REPLAY_ANYBODY, now_ns, prng_below(&prng, 2));
	}
	while (rpc_replay_next(replay, &at, &outcome)) {
		if (outcome.sequence != 5 || !changed[outcome.session - 1000])
			continue; /* a pull's, say, of which is not told */
		CHECK_UINT(ask_again(other, outcome.session, now_ns), REPLAY_REPEATED);
		known++;
	}
	CHECK(known >= 3);
	printf("# %u of %u are known to both\n", known, rpc_replay_count(replay));
	rpc_replay_destroy(replay);
	rpc_replay_destroy(other);
}

/* Who was forgotten comes back, and what was done for it is told before what is in its former place is at its end: that
 * it was forgotten is not told behind it. */
void who_comes_back_is_not_forgotten_behind_it(void)
{
	struct replay *replay = rpc_replay_create(2, 1), *other = rpc_replay_create(2, 2);
	struct rpc_work works[2], large, back;

	for (unsigned i = 0; i < 2; i++) {
		do_one(replay, &works[i], 100 + i, 0);
		tell_other(replay, &works[i], other);
		rpc_replay_leave(replay, &works[i], REPLAY_ANYBODY, i, true);
	}
	CHECK_UINT(look(replay, of_session(&large, 200, 1, 0), 2), REPLAY_RUN);
	CHECK_UINT(look(replay, of_session(&back, 100, 6, WIRE_GOES_ON), 3), REPLAY_RUN);
	rpc_replay_done(replay, &back, WIRE_OK);
	tell_other(replay, &back, other);
	rpc_replay_done(replay, &large, WIRE_OK);
	tell_other(replay, &large, other);
	CHECK_UINT(look(other, of_session(&works[0], 100, 6, WIRE_GOES_ON | WIRE_RESENT), 3), REPLAY_REPEATED);
	CHECK_UINT(look(other, of_session(&works[1], 200, 1, WIRE_GOES_ON | WIRE_RESENT), 3), REPLAY_REPEATED);
	CHECK_UINT(rpc_replay_count(other), 2);
	rpc_replay_destroy(replay);
	rpc_replay_destroy(other);
}

/* A session counts for the address where it was last: one that comes back, and leaves from elsewhere, takes no place of
 * the first address. */
void who_moves_counts_at_the_new_address(void)
{
	enum { SHARE = REPLAY_LEFT / REPLAY_SHARES };
	struct replay *replay = rpc_replay_create(SHARE + 2, 1);
	struct rpc_work work, stays;

	for (unsigned crowd = 7; crowd <= 8; crowd++)
		for (unsigned i = 0; i < SHARE; i++) {
			CHECK_UINT(look(replay, of_session(&work, 100 + i, 5, WIRE_GOES_ON), 0), REPLAY_RUN);
			rpc_replay_done(replay, &work, WIRE_OK);
			rpc_replay_leave(replay, &work, crowd, 0, false);
		}
	do_one(replay, &work, 1, 0);
	rpc_replay_leave(replay, &work, 7, 0, false);
	do_one(replay, &stays, 2, 0);
	CHECK_UINT(look(replay, of_session(&work, 3, 1, 0), 0), REPLAY_FULL);
	CHECK_UINT(ask_again(replay, 1, 0), REPLAY_REPEATED);
	rpc_replay_destroy(replay);
}

/* A table that was only told that a session is forgotten, or that one may have been, does not take it for a new one
 * either.
 */
void what_may_be_forgotten_stays_unknown_elsewhere(void)
{
	struct replay *replay = rpc_replay_create(2, 1);
	struct rpc_work work;

	rpc_replay_restore(replay, &(struct rpc_outcome){ .session = 300, .sequence = 5, .unknown = true }, 0);
	CHECK_UINT(look(replay, of_session(&work, 300, 6, WIRE_GOES_ON | WIRE_RESENT), 0), REPLAY_FORGOTTEN);
	rpc_replay_restore(replay, &(struct rpc_outcome){ .session = 200, .sequence = REPLAY_GONE }, 0);
	CHECK_UINT(look(replay, of_session(&work, 200, 5, WIRE_GOES_ON | WIRE_RESENT), 0), REPLAY_FORGOTTEN);
	rpc_replay_destroy(replay);
}

/* Their owners on the former node could not come back while this one did not serve. */
void leases_begin_when_the_node_does(void)
{
	struct replay *replay = rpc_replay_create(1, 1);
	struct rpc_work work;

	rpc_replay_restore(replay, &(struct rpc_outcome){ .session = 100, .sequence = 5 }, 0);
	rpc_replay_begin(replay, 7 * lease_ns);
	CHECK_UINT(look(replay, of_session(&work, 200, 1, 0), 8 * lease_ns - 1), REPLAY_FULL);
	CHECK_UINT(ask_again(replay, 100, 8 * lease_ns - 1), REPLAY_REPEATED);
	CHECK_UINT(look(replay, of_session(&work, 200, 1, 0), 9 * lease_ns), REPLAY_RUN);
	rpc_replay_destroy(replay);
}
