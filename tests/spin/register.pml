/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two nodes of a pair with a register in etcd, as lib/node/pair*.c and lib/pair/entry.c have them; pair.pml is the
 * pair without. A change of the register is a message: it may arrive late, after its sender has given up waiting, was
 * killed, or has done something else since; it takes place only if the register has not changed since it was read. So
 * whatever takes place makes all others void. An answer may be lost. Nodes are killed and begin again, are paused, and
 * are cut off from each other and from etcd, at any time. What is assumed: a lease that a standby has waited for is over
 * at the primary, too.
 *
 * Asserted: no two nodes change anything at the same time; nobody changes anything who is not of the latest generation;
 * a standby that takes over has what was acknowledged; who begins with nothing does not get the register while that has
 * a standby which has it.
 */
mtype = { WAITING, PRIMARY, STANDBY };
mtype = { SOLO, SYNCING, PAIRED, LOST };
mtype = { NOTHING, TO_SOLO, TO_PAIRED, TO_LEAD };

mtype role[2], disk[2], state[2];
byte gen[2];
bool up[2], paused[2], cut, lease;
bool copy[2];  /* it holds what its primary had, up to some moment */
bool fresh[2]; /* that is all that was acknowledged, but for the last moments */
byte latest, faults;

/* the register */
byte lead_of;
bool may_follow; /* its mode is paired */
byte reg_gen;
/* changes under way, those that are not waited for any more, and what a node was told */
mtype pend[2], stray[2], told[2];
bool unsure[2]; /* what it claimed may come true still */
bool away[2];	/* cut off from etcd */

#define other (1 - me)
#ifndef FAULTS
#define FAULTS 3
#endif
#define GENERATIONS 5 /* so that there is an end */
#define linked (!cut && up[0] && up[1] && !paused[0] && !paused[1])
#define runs (up[me] && !paused[me])
#define may_change(i) (up[i] && !paused[i] && role[i] == PRIMARY && \
		       (state[i] == SOLO || state[i] == SYNCING || lease))
#define claim(what) pend[me] == NOTHING && told[me] == NOTHING && !away[me] && runs

/* Serves from now on. `begins`: with a checkpoint, or nothing. */
inline serve(begins)
{
	assert(begins || fresh[me]);
	gen[me] = reg_gen;
	latest = gen[me];
	disk[me] = PRIMARY;
	role[me] = PRIMARY;
	state[me] = SOLO;
	copy[me] = true;
	fresh[me] = true;
	fresh[other] = false;
	told[me] = NOTHING;
	unsure[me] = false
}

inline yield(i)
{
	disk[i] = STANDBY;
	role[i] = STANDBY;
	state[i] = SYNCING;
	copy[i] = false;
	fresh[i] = false;
	told[i] = NOTHING;
	unsure[i] = false
}

inline alone()
{
	state[me] = SOLO;
	fresh[other] = false;
	told[me] = NOTHING
}

/* A change takes place: all that is under way becomes void. */
inline change(what)
{
	if
	:: what == TO_SOLO -> may_follow = false
	:: what == TO_PAIRED -> may_follow = true
	:: what == TO_LEAD -> assert(!(lead_of == me && may_follow && up[other] && fresh[other])); lead_of = me; may_follow = false; reg_gen++
	fi;
	pend[0] = NOTHING; pend[1] = NOTHING; stray[0] = NOTHING; stray[1] = NOTHING
}

proctype node(byte me)
{
	do
	/* the stream: a standby joins, and gets all */
	:: atomic { linked && role[me] == STANDBY && !copy[me] && role[other] == PRIMARY && gen[other] >= gen[me] &&
		    state[other] != SYNCING && state[other] != PAIRED ->
		    gen[me] = gen[other]; disk[me] = STANDBY; state[other] = SYNCING; state[me] = SYNCING; lease = false;
		    told[other] = NOTHING }
	/* etcd is to say so; only then the lease begins, and it may be promoted */
	:: atomic { linked && role[me] == PRIMARY && state[me] == SYNCING && role[other] == STANDBY &&
		    state[other] == SYNCING && lead_of == me && claim(TO_PAIRED) -> pend[me] = TO_PAIRED }
	:: atomic { linked && role[me] == PRIMARY && state[me] == SYNCING && role[other] == STANDBY &&
		    state[other] == SYNCING && told[me] == TO_PAIRED ->
		    told[me] = NOTHING; state[me] = PAIRED; state[other] = PAIRED; copy[other] = true; fresh[other] = true;
		    lease = true }
	:: atomic { linked && role[me] == PRIMARY && state[me] == PAIRED && state[other] == PAIRED -> lease = true }
	/* the connection is gone; a lease runs out by itself */
	:: atomic { runs && role[me] == PRIMARY && state[me] == PAIRED &&
		    (!linked || role[other] != STANDBY || state[other] == LOST) -> state[me] = LOST; told[me] = NOTHING }
	:: atomic { runs && role[me] == PRIMARY && state[me] == SYNCING &&
		    (!linked || role[other] != STANDBY || state[other] == LOST) -> alone() }
	:: atomic { runs && role[me] == STANDBY && state[me] == PAIRED && !linked -> state[me] = LOST }
	:: atomic { lease && (cut || paused[0] || paused[1] || !up[0] || !up[1]) -> lease = false }
	/* a primary that has lost its standby asks etcd, and the standby */
	:: atomic { role[me] == PRIMARY && state[me] == LOST && lead_of == me && claim(TO_SOLO) -> pend[me] = TO_SOLO }
	:: atomic { runs && role[me] == PRIMARY && state[me] == LOST && told[me] == TO_SOLO -> alone() }
	:: atomic { linked && role[me] == PRIMARY && state[me] == LOST ->
		    if
		    :: role[other] == PRIMARY && gen[other] > gen[me] -> yield(me)
		    :: role[other] == STANDBY && !copy[other] -> alone()
		    :: else -> skip
		    fi }
	/* the register says what it is not */
	:: atomic { runs && !away[me] && role[me] == PRIMARY && lead_of == other && reg_gen > gen[me] -> yield(me) }
	:: atomic { role[me] == PRIMARY && state[me] == SOLO && lead_of == me && may_follow && claim(TO_SOLO) ->
		    pend[me] = TO_SOLO }
	:: atomic { role[me] == PRIMARY && state[me] == PAIRED && lead_of == me && !may_follow && claim(TO_PAIRED) ->
		    pend[me] = TO_PAIRED }
	:: atomic { runs && role[me] == PRIMARY && state[me] != SYNCING && state[me] != LOST && told[me] != NOTHING ->
		    told[me] = NOTHING }
	/* a standby that has lost its primary finds one, and begins again, if it has claimed nothing */
	:: atomic { linked && role[me] == STANDBY && state[me] == LOST && role[other] == PRIMARY && !unsure[me] &&
		    pend[me] == NOTHING && told[me] == NOTHING -> yield(me) }
	/* a switch: the primary is asked to stop, and has sent all */
	:: atomic { linked && role[me] == STANDBY && state[me] == PAIRED && role[other] == PRIMARY && !away[me] ->
		    yield(other); lease = false; state[me] = LOST }
	/* a standby claims: its primary's lease is over, or that has begun again, or was asked to stop. It remembers it first */
	:: atomic { role[me] == STANDBY && copy[me] && state[me] == LOST && !lease && lead_of == other && may_follow &&
		    reg_gen == gen[me] && reg_gen < GENERATIONS && claim(TO_LEAD) -> disk[me] = PRIMARY; pend[me] = TO_LEAD }
	:: atomic { linked && role[me] == STANDBY && copy[me] && state[me] == LOST && !lease && lead_of == other &&
		    role[other] == WAITING && may_follow && reg_gen < GENERATIONS && claim(TO_LEAD) -> disk[me] = PRIMARY; pend[me] = TO_LEAD }
	/* its claim had come true, and the answer was lost: it claims again, and has it */
	:: atomic { runs && !away[me] && role[me] == STANDBY && copy[me] && state[me] == LOST && !lease && lead_of == me ->
		    serve(false) }
	/* or cannot come true any more */
	:: atomic { runs && !away[me] && role[me] == STANDBY && unsure[me] && pend[me] == NOTHING && stray[me] == NOTHING &&
		    lead_of == other -> unsure[me] = false; disk[me] = STANDBY }
	:: atomic { runs && role[me] == STANDBY && copy[me] && state[me] == LOST && !lease && told[me] == TO_LEAD -> serve(false) }
	/* who has begun again finds out: in etcd, then from the other one */
	:: atomic { runs && role[me] == WAITING && !away[me] && lead_of == other ->
		    pend[me] = NOTHING; stray[me] = NOTHING; gen[me] = reg_gen; yield(me) }
	:: atomic { role[me] == WAITING && lead_of == me && reg_gen < GENERATIONS &&
		    ((linked && role[other] == STANDBY && !copy[other]) || !may_follow ||
		     (linked && role[other] == WAITING)) && claim(TO_LEAD) -> pend[me] = TO_LEAD }
	:: atomic { runs && role[me] == WAITING && told[me] == TO_LEAD -> serve(true) }
	:: atomic { runs && !away[me] && role[me] == STANDBY && !copy[me] && !linked && lead_of == me -> role[me] = WAITING }
	/* etcd */
	:: atomic { pend[me] != NOTHING ->
		    if
		    :: up[me] && told[me] == NOTHING && !away[me] -> told[me] = pend[me]
		    :: unsure[me] = unsure[me] || (up[me] && pend[me] == TO_LEAD)
		    fi;
		    change(pend[me]) }
	:: atomic { pend[me] != NOTHING && stray[me] == NOTHING && runs ->
		    unsure[me] = unsure[me] || pend[me] == TO_LEAD; stray[me] = pend[me]; pend[me] = NOTHING }
	:: atomic { stray[me] != NOTHING -> change(stray[me]) }
	:: atomic { stray[me] != NOTHING -> stray[me] = NOTHING } /* it is lost */
	od
}

inline kill_node(i)
{
	up[i] = false; paused[i] = false; copy[i] = false; fresh[i] = false; told[i] = NOTHING; unsure[i] = false; faults++;
	if
	:: stray[i] == NOTHING -> stray[i] = pend[i]
	:: else -> skip
	fi;
	pend[i] = NOTHING
}

active proctype world()
{
	atomic {
	role[0] = PRIMARY; disk[0] = PRIMARY; state[0] = SOLO; gen[0] = 1; copy[0] = true; fresh[0] = true; up[0] = true;
	role[1] = STANDBY; disk[1] = STANDBY; state[1] = SYNCING; up[1] = true;
	pend[0] = NOTHING; pend[1] = NOTHING; stray[0] = NOTHING; stray[1] = NOTHING; told[0] = NOTHING; told[1] = NOTHING;
	latest = 1; reg_gen = 1;
	run node(0);
	run node(1);
	}
	do
	:: atomic { faults < FAULTS && up[0] -> kill_node(0) }
	:: atomic { faults < FAULTS && up[1] -> kill_node(1) }
	:: atomic { !up[0] -> up[0] = true; role[0] = (disk[0] == PRIMARY -> WAITING : STANDBY); state[0] = SYNCING }
	:: atomic { !up[1] -> up[1] = true; role[1] = (disk[1] == PRIMARY -> WAITING : STANDBY); state[1] = SYNCING }
	:: atomic { faults < FAULTS && up[0] && !paused[0] -> paused[0] = true; faults++ }
	:: atomic { faults < FAULTS && up[1] && !paused[1] -> paused[1] = true; faults++ }
	:: atomic { paused[0] -> paused[0] = false }
	:: atomic { paused[1] -> paused[1] = false }
	:: atomic { faults < FAULTS && !cut -> cut = true; faults++ }
	:: atomic { cut -> cut = false }
	:: atomic { faults < FAULTS && !away[0] -> away[0] = true; faults++ }
	:: atomic { faults < FAULTS && !away[1] -> away[1] = true; faults++ }
	:: atomic { away[0] -> away[0] = false }
	:: atomic { away[1] -> away[1] = false }
	od
}

ltl one_changes { [] !(may_change(0) && may_change(1)) }
ltl the_latest_changes { [] ((may_change(0) -> gen[0] == latest) && (may_change(1) -> gen[1] == latest)) }
