/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two nodes of a pair as lib/node/pair*.c has them: roles and generations that are remembered beyond a restart, a
 * copy that a restart loses, the lease, going alone, asking, deposing, taking over, yielding. Anything may happen at any
 * time: a node is killed and begins again, is paused and goes on, the two are cut off from each other. What is assumed
 * is what the program rests on: a lease that a standby has waited for is over at the primary, too; and who has an answer
 * that no process is there knows that it holds nothing. With ALONE a primary goes on alone without having reached its
 * standby (standby.alone_s is not 0): then it is assumed, too, that the operator promotes nobody while a primary lives
 * that cannot be asked. Without it he may do so at any time.
 *
 * Asserted: no two nodes change anything at the same time; nobody changes anything who is not of the latest generation;
 * a node that serves has the copy, or began with none. tests/system/standby runs spin over it.
 */
mtype = { WAITING, PRIMARY, STANDBY };
mtype = { SOLO, SYNCING, PAIRED, LOST };

mtype role[2], disk[2], state[2];
byte gen[2];
bool up[2], copy[2]; /* copy: it holds what was acknowledged, but for the last moments */
bool paused[2], cut, lease;
byte latest, faults;

#define other (1 - me)
#ifdef ALONE
#define MAY_PROMOTE (!up[other])
#else
#define MAY_PROMOTE true
#endif
#define FAULTS 3
#define GENERATIONS 8 /* so that there is an end */
#define linked (!cut && up[0] && up[1] && !paused[0] && !paused[1])
#define may_change(i) (up[i] && !paused[i] && role[i] == PRIMARY && \
		       (state[i] == SOLO || state[i] == SYNCING || lease))

inline lead(i)
{
	gen[i]++;
	latest = gen[i];
	disk[i] = PRIMARY;
	role[i] = PRIMARY;
	state[i] = SOLO;
	copy[i] = true;
}

inline yield(i)
{
	disk[i] = STANDBY;
	role[i] = STANDBY;
	state[i] = SYNCING;
	copy[i] = false;
}

proctype node(byte me)
{
	do
	/* the stream: a standby joins, gets all, and the lease begins before it may be promoted */
	:: atomic { linked && role[me] == STANDBY && !copy[me] && role[other] == PRIMARY && gen[other] >= gen[me] &&
		    state[other] != SYNCING && state[other] != PAIRED ->
		    gen[me] = gen[other]; disk[me] = STANDBY; state[other] = SYNCING; state[me] = SYNCING; lease = false }
	:: atomic { linked && role[me] == PRIMARY && state[me] == SYNCING && role[other] == STANDBY &&
		    state[other] == SYNCING -> state[me] = PAIRED; state[other] = PAIRED; copy[other] = true; lease = true }
	:: atomic { linked && role[me] == PRIMARY && state[me] == PAIRED && state[other] == PAIRED -> lease = true }
	/* the connection is gone; a lease runs out by itself */
	:: atomic { up[me] && !paused[me] && role[me] == PRIMARY && (state[me] == PAIRED || state[me] == SYNCING) &&
		    (!linked || role[other] != STANDBY || state[other] == LOST) ->
		    if :: state[me] == PAIRED -> state[me] = LOST :: else -> state[me] = SOLO fi }
	:: atomic { up[me] && !paused[me] && role[me] == STANDBY && state[me] == PAIRED && !linked -> state[me] = LOST }
	:: atomic { up[me] && !paused[me] && role[me] == STANDBY && state[me] == SYNCING && !copy[me] && !linked -> skip }
	:: atomic { lease && (cut || paused[0] || paused[1] || !up[0] || !up[1]) -> lease = false }
	/* a primary that has lost its standby asks */
	:: atomic { up[me] && !paused[me] && role[me] == PRIMARY && state[me] == LOST && !cut && !paused[other] ->
		    if
		    /* refused: no process is there, nor was one promoted that has died since */
		    :: !up[other] && lease -> state[me] = SOLO
		    :: up[other] && role[other] == PRIMARY && gen[other] > gen[me] -> yield(me)
		    :: up[other] && role[other] == STANDBY && !copy[other] -> state[me] = SOLO
		    :: else -> skip
		    fi }
#ifdef ALONE
	/* or goes alone after standby.alone_s */
	:: atomic { up[me] && !paused[me] && role[me] == PRIMARY && state[me] == LOST && !lease && (cut || paused[other]) ->
		    state[me] = SOLO }
#endif
	/* a standby that has lost its primary finds one, and begins again */
	:: atomic { linked && role[me] == STANDBY && state[me] == LOST && role[other] == PRIMARY -> yield(me) }
	/* promotion, the other node being asked */
	:: atomic { linked && role[me] == STANDBY && copy[me] && state[me] != SYNCING && role[other] == PRIMARY && latest < GENERATIONS ->
		    gen[me] = gen[other]; yield(other); lease = false; lead(me) }
	/* ... or not to be reached: its lease is over */
	:: atomic { up[me] && !paused[me] && role[me] == STANDBY && copy[me] && state[me] != SYNCING && !lease && !linked &&
		    MAY_PROMOTE && latest < GENERATIONS -> lead(me) }
	/* who has begun again finds out */
	:: atomic { up[me] && !paused[me] && role[me] == WAITING && linked && latest < GENERATIONS ->
		    if
		    :: role[other] == PRIMARY && gen[other] >= gen[me] -> yield(me)
		    :: role[other] == STANDBY && copy[other] && gen[other] >= gen[me] && state[other] != SYNCING ->
		       yield(me); lead(other)
		    :: role[other] == STANDBY && !copy[other] -> lead(me)
		    :: role[other] == WAITING && gen[me] > gen[other] -> lead(me)
		    :: else -> skip
		    fi }
	od
}

active proctype world()
{
	atomic {
	role[0] = PRIMARY; disk[0] = PRIMARY; state[0] = SOLO; gen[0] = 1; copy[0] = true; up[0] = true;
	role[1] = STANDBY; disk[1] = STANDBY; state[1] = SYNCING; up[1] = true;
	latest = 1;
	run node(0);
	run node(1);
	}
	do
	:: atomic { faults < FAULTS && up[0] -> up[0] = false; paused[0] = false; copy[0] = false; faults++ }
	:: atomic { faults < FAULTS && up[1] -> up[1] = false; paused[1] = false; copy[1] = false; faults++ }
	:: atomic { !up[0] -> up[0] = true; role[0] = (disk[0] == PRIMARY -> WAITING : STANDBY); state[0] = SYNCING }
	:: atomic { !up[1] -> up[1] = true; role[1] = (disk[1] == PRIMARY -> WAITING : STANDBY); state[1] = SYNCING }
	:: atomic { faults < FAULTS && up[0] && !paused[0] -> paused[0] = true; faults++ }
	:: atomic { faults < FAULTS && up[1] && !paused[1] -> paused[1] = true; faults++ }
	:: atomic { paused[0] -> paused[0] = false }
	:: atomic { paused[1] -> paused[1] = false }
	:: atomic { faults < FAULTS && !cut -> cut = true; faults++ }
	:: atomic { cut -> cut = false }
	od
}

ltl one_changes { [] !(may_change(0) && may_change(1)) }
ltl the_latest_changes { [] ((may_change(0) -> gen[0] == latest) && (may_change(1) -> gen[1] == latest)) }
