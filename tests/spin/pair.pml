/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two nodes of a pair, as lib/node/pair*.c and lib/pair/entry.c have them, and a client that pushes to them, as
 * lib/client/keep.c is. Each transition names the function that it stands for; docs/availability-design.rst has the list.
 *
 * Anything may happen at any time: a node is killed and begins again, is paused and goes on; the two are cut off from
 * each other, or from etcd; an operator has the standby take over; the client loses its connection, or dies. FAULTS is
 * how many of these a run has. A node that begins again has nothing: its checkpoint is empty.
 *
 * With ETCD there is a register. A change of it is a message: it may arrive late, after its sender has given up
 * waiting, was killed, or has done something else since; it takes place only if the register has not changed since it
 * was read. So whatever takes place makes all others void. An answer may be lost. Without ETCD an operator says who
 * takes over; with ALONE, besides, a primary goes on alone without having reached its standby (standby.alone_s is not
 * 0), and the operator promotes nobody while a primary lives that cannot be asked.
 *
 * SYNC or RETAINED say when a push is acknowledged; with neither there is no client, and the model is of the roles alone.
 * The client makes PUSHES pushes, one after the other. A node knows the highest that it has executed (its replay
 * table), which goes to the standby in the stream in which the rows do. A push that the client has let go, and has not
 * to send again, is promised.
 *
 * What is assumed: a lease that a standby has waited for is over at the primary, too; without ETCD, a node that was
 * told that no process runs on the other node knows that this one holds nothing. Nothing is promised if the node with
 * the only copy is killed (`lost`).
 * A node that was asked to take over from a healthy primary does not count as such before it serves (`planned`); with
 * ETCD, no node that takes over from a living primary does before the register says that it serves.
 *
 * Asserted, by `judge` and where it happens: no two nodes change anything at the same time; no node changes anything
 * unless it has the latest generation; a node that takes over has all that was promised; no push is executed twice; a
 * node that has acknowledged a push has it, and all before it; a node that begins with nothing does not get the
 * register while that names a standby which has the pushes; when nothing happens any more, there is one primary with a
 * standby that can take its place, and
 * the client is done. Without a cycle in its states (spin is asked), each run comes to that: promotion ends.
 */
mtype = { WAITING, PRIMARY, STANDBY, DEPOSED, PROMOTING }; /* enum pair_role */
/* enum node_pair_state. COVERING is NODE_PAIR_SYNCING when replies wait already, and the standby lacks what was told to
 * others before that. */
mtype = { SOLO, SYNCING, COVERING, PAIRED, LOST };
/* enum pair_claim. ALONE and KEEPS, and the three kinds of TAKE, write the same. */
mtype = { NOTHING, KEEPS, JOINED, TAKE, BEGINS, BACK, SERVES };

#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef PUSHES
#define PUSHES 2
#endif
#define NOBODY 2
#if defined(SYNC) || defined(RETAINED)
#define CLIENT
#endif

/* of a node; disk: what is remembered beyond a restart */
mtype role[2], disk[2], state[2];
byte gen[2];
bool up[2], paused[2];
bool promotable[2]; /* it may take over */
bool fresh[2];	    /* what it has, as a standby, is all that its primary has acknowledged, but for the last moments */
bool fenced[2];	    /* it changes something only under the lease */
bool agreed[2];	    /* its primary has stopped, or lost what it held, and says so */
bool planned[2];    /* that was well, and has it take over */
bool closed[2];	    /* it has stopped for the other one, and holds what it had */
bool conn;	    /* the connection on which the one follows the other */
bool cut;	    /* no new one comes about */
bool lease;
bool lost; /* the node with the only copy was killed */
byte latest, faults;

/* what is pushed: bit k - 1 of rows; the replay table; how far the standby has said to be; the same when replies began
 * to wait */
byte rows[2], high[2], tail[2], gated[2];

#ifdef ETCD
/* the register */
byte lead_of;
bool may_follow; /* its mode is paired */
bool taking;	 /* or taking: it has claimed the place, and never served */
byte reg_gen;
/* changes under way, those that are not waited for any more, and what a node was told */
mtype pend[2], stray[2];
bool unsure[2]; /* what it claimed may come true still */
bool away[2];	/* cut off from etcd */
#endif
mtype told[2];

/* of the client: pushes up to `acked` are acknowledged, up to `gone` let go; `again` is sent again next */
byte to = NOBODY, acked, gone, flying, again;
byte request, reply; /* on its way, or not executed; executed, and not answered */
bool dead;

#define other (1 - me)
#define linked (!cut && up[0] && up[1] && !paused[0] && !paused[1])
#define runs (up[me] && !paused[me])
#define holds(i) (role[i] == DEPOSED && closed[i])
#define may_change(i) (up[i] && !paused[i] && role[i] == PRIMARY && (!fenced[i] || lease))
#define waits(i) (state[i] == COVERING || state[i] == PAIRED || state[i] == LOST) /* replies do, at most (rpc_hold) */
#define fault faults < FAULTS
#define all_up_to(k) ((1 << (k)) - 1)
#ifdef ETCD
#define claim(what) (pend[me] == NOTHING && told[me] == NOTHING && !away[me] && runs)
#define idle_in_etcd (pend[me] == NOTHING && told[me] == NOTHING && !unsure[me])
#define reaches(i) (!away[i])
/* or may take its place back */
#define leads(i) (lead_of == i || taking && reg_gen == gen[i] + 1)
#define follows may_follow
#define has_claimed(i) (lead_of == i && !taking)
#define may_take(i) (may_follow || lead_of == i || disk[1 - (i)] == STANDBY)
#else
#define claim(what) (told[me] == NOTHING && runs)
#define idle_in_etcd (told[me] == NOTHING)
#define reaches(i) true
#define leads(i) true
#define follows true
#define has_claimed(i) false
#define may_take(i) true
#endif
#ifdef ALONE
#define may_promote (!up[other] || linked && role[other] != PRIMARY)
#else
#define may_promote true
#endif

inline claims(what)
{
#ifdef ETCD
	pend[me] = what
#else
	told[me] = what
#endif
}

/* The connection between the client and that node ends. */
inline hang_up(i)
{
	if
	:: to == i -> to = NOBODY; request = 0; reply = 0; again = 0
	:: else -> skip
	fi
}

inline forget(i)
{
	promotable[i] = false; fresh[i] = false; fenced[i] = false; agreed[i] = false; closed[i] = false; planned[i] = false;
	planned[1 - i] = false; rows[i] = 0; high[i] = 0; tail[i] = 0;
	gated[i] = 0; told[i] = NOTHING; conn = false;
#ifdef ETCD
	unsure[i] = false;
#endif
	hang_up(i)
}

/* node_pair_yield: remembered, then the process begins again. */
inline yield(i, generation)
{
	disk[i] = STANDBY; gen[i] = generation; role[i] = STANDBY; state[i] = SYNCING; forget(i)
}

/* node_pair_lead. `begins`: with a checkpoint, or nothing. */
inline serve(begins)
{
	assert(begins || lost || fresh[me]);
	conn = false;
	/* etcd has learned that it was alone, it was killed, and did not come to be: the other one has what there was */
	if
	:: begins && promotable[other] && fresh[other] && !lost -> assert(disk[me] == PRIMARY); loses()
	:: else -> skip
	fi;
	disk[me] = PRIMARY;
	assert(lost || (rows[me] & all_up_to(gone)) == all_up_to(gone));
	latest = gen[me]; role[me] = PRIMARY; state[me] = SOLO;
	promotable[me] = false; fresh[me] = false; fresh[other] = false; fenced[me] = false; agreed[me] = false; tail[me] = 0;
	gated[me] = 0; told[me] = NOTHING; planned[me] = false
#ifdef ETCD
	; unsure[me] = false
#endif
}

/* open_again: a primary that has closed has what it had, and serves once more */
inline serve_again()
{
	assert(lost || (rows[me] & all_up_to(gone)) == all_up_to(gone));
	disk[me] = PRIMARY; latest = gen[me]; role[me] = PRIMARY; state[me] = SOLO; closed[me] = false; fresh[other] = false;
	planned[other] = false; fenced[me] = false; tail[me] = 0; gated[me] = 0; told[me] = NOTHING
#ifdef ETCD
	; unsure[me] = false
#endif
}

/* go_alone: the register says so, or the other one has nothing, or the configuration lets it */
inline alone()
{
	state[me] = SOLO; fresh[other] = false; fenced[me] = false; tail[me] = 0; gated[me] = 0; told[me] = NOTHING
}

/* What was promised is lost with it; from here on only roles are looked at. */
inline loses()
{
	lost = true; rows[0] = 0; rows[1] = 0; high[0] = 0; high[1] = 0; tail[0] = 0; tail[1] = 0; gated[0] = 0; gated[1] = 0;
	acked = 0; gone = 0; flying = 0; again = 0; request = 0; reply = 0; to = NOBODY
}

#define heir(i) (up[i] && ((role[i] == PRIMARY || role[i] == DEPOSED) && gen[i] == latest && leads(i) || promotable[i] && fresh[i] && (agreed[i] || may_take(i))))

inline kill_node(i)
{
	if
	:: !heir(1 - i) && !lost -> assert(!planned[i] || has_claimed(i)); loses()
	:: else -> skip
	fi;
	up[i] = false; paused[i] = false; faults++; forget(i)
#ifdef ETCD
	;
	if
	:: stray[i] == NOTHING -> stray[i] = pend[i]
	:: else -> skip
	fi;
	pend[i] = NOTHING
#endif
}

/* node_pair_recall */
inline begin_again(i)
{
	up[i] = true; role[i] = (disk[i] == PRIMARY -> WAITING : STANDBY); state[i] = SYNCING
}

#ifdef ETCD
/* etcd_swap. A change takes place: all that is under way becomes void. */
inline change(what)
{
	if
	:: what == KEEPS ->
	   may_follow = false;
	   /* only a node that has its word may still take its place; and it may have died since */
	   if
	   :: disk[me] == PRIMARY && (!up[me] || role[me] != PRIMARY) && !agreed[other] && !lost -> loses()
	   :: else -> skip
	   fi
	:: what == JOINED -> may_follow = true
	:: what == SERVES ->
	   taking = false;
	   /* it has died since, and nobody knows that it never served */
	   if
	   :: !(up[me] && role[me] == PROMOTING) && !lost -> loses()
	   :: else -> skip
	   fi
	:: what == BACK ->
	   lead_of = me; may_follow = false; taking = false; reg_gen = reg_gen + 2;
	   /* it has died since, with what it had */
	   if
	   :: !(up[me] && holds(me)) && !lost -> loses()
	   :: else -> skip
	   fi
	:: else ->
	   assert(what == TAKE || !(lead_of == me && may_follow && up[other] && promotable[other] && fresh[other]));
	   assert(what == TAKE || !(lead_of == me && leads(other) && up[other] && holds(other)));
	   lead_of = me; may_follow = false; taking = (what == TAKE); reg_gen++;
	   /* the node that had claimed it has died since, and with it the only copy that may be served */
	   if
	   :: what == TAKE && !promotable[me] && !lost -> assert(disk[me] == PRIMARY); loses()
	   :: else -> skip
	   fi
	fi;
	pend[0] = NOTHING; pend[1] = NOTHING; stray[0] = NOTHING; stray[1] = NOTHING
}
#endif

proctype node(byte me)
{
end:	do
	/* ---- a standby comes ---- */
	/* join, and take_standby on the other node; one that waits for its old standby goes on alone (has_joined) */
	:: atomic { linked && !conn && role[me] == STANDBY && state[me] == SYNCING && role[other] == PRIMARY &&
		    gen[other] >= gen[me] && (state[other] == SOLO || state[other] == LOST) ->
		    gen[me] = gen[other]; disk[me] = STANDBY; state[other] = SYNCING; fenced[other] = false; tail[other] = 0;
		    gated[other] = 0; told[other] = NOTHING; rows[me] = 0; high[me] = 0; conn = true }
	/* take_records, load_block: what the primary has comes, up to some moment */
	:: atomic { linked && conn && role[me] == STANDBY && (role[other] == PRIMARY || role[other] == DEPOSED) &&
		    (rows[me] != rows[other] || high[me] != high[other]) -> rows[me] = rows[other]; high[me] = high[other] }
	/* take_frame, PAIR_ACK: the standby has said how far it is */
	:: atomic { linked && conn && role[me] == PRIMARY && waits(me) && tail[me] < high[other] -> tail[me] = high[other] }
	/* claim_pair: PAIR_WHOLE has come */
	:: atomic { linked && conn && role[me] == PRIMARY && state[me] == SYNCING && claim(JOINED) && leads(me) -> claims(JOINED) }
	/* note_whole: replies wait from now on */
	:: atomic { runs && conn && role[me] == PRIMARY && state[me] == SYNCING && told[me] == JOINED ->
		    told[me] = NOTHING; state[me] = COVERING; gated[me] = high[me] }
	/* look_covered, and the first PAIR_PONG after it */
	:: atomic { linked && conn && role[me] == PRIMARY && state[me] == COVERING && tail[me] >= gated[me] ->
		    state[me] = PAIRED; fenced[me] = true; lease = true }
	/* note_leased: the next ping says that the primary has a lease */
	:: atomic { linked && conn && role[me] == STANDBY && state[me] == SYNCING && state[other] == PAIRED ->
		    state[me] = PAIRED; promotable[me] = true; fresh[me] = true }
	/* set_lease: a ping was answered */
	:: atomic { linked && conn && role[me] == PRIMARY && state[me] == PAIRED && state[other] == PAIRED && !lease ->
		    lease = true }

	/* ---- it is gone ---- */
	/* check_rings, is_silent: one of them finds the connection silent for too long, and closes it */
	:: atomic { conn && runs && (!linked || role[me] == PRIMARY && state[me] == PAIRED && state[other] == LOST) -> conn = false }
	/* lose_standby */
	:: atomic { runs && role[me] == PRIMARY && !conn && (state[me] == COVERING || state[me] == PAIRED) ->
		    state[me] = LOST; told[me] = NOTHING }
	:: atomic { runs && role[me] == PRIMARY && !conn && state[me] == SYNCING -> alone() }
	/* follow */
	:: atomic { runs && role[me] == STANDBY && !conn && state[me] == PAIRED -> state[me] = LOST }
	/* may_be_alone */
#ifdef ETCD
	:: atomic { role[me] == PRIMARY && state[me] == LOST && lead_of == me && claim(KEEPS) -> claims(KEEPS) }
	:: atomic { runs && role[me] == PRIMARY && state[me] == LOST && told[me] == KEEPS -> alone() }
#endif
#ifdef ALONE
	:: atomic { runs && role[me] == PRIMARY && state[me] == LOST && !lease && (cut || paused[other]) -> alone() }
#endif
	/* is_harmless */
	:: atomic { linked && role[me] == PRIMARY && state[me] == LOST && role[other] == PRIMARY && gen[other] > gen[me] ->
		    yield(me, gen[other]) }
	:: atomic { linked && role[me] == PRIMARY && state[me] == LOST && role[other] == STANDBY && !promotable[other] ->
		    alone() }
#ifndef ETCD
	:: atomic { runs && role[me] == PRIMARY && state[me] == LOST && !up[other] && !cut && lease -> alone() }
#endif
	/* wait_alone: a standby that has lost its primary finds one, and begins again, if it has claimed nothing */
	:: atomic { linked && role[me] == STANDBY && !conn && state[me] == LOST && role[other] == PRIMARY && !agreed[me] &&
		    idle_in_etcd -> yield(me, gen[other]) }

	/* ---- it takes over ---- */
	/* depose of pair_standby.c, close_down: an operator says so, and the primary stops */
	:: atomic { fault && linked && role[me] == STANDBY && promotable[me] && state[me] != SYNCING &&
		    role[other] == PRIMARY && state[other] != SOLO && idle_in_etcd && reaches(me) ->
		    faults++; role[other] = DEPOSED; hang_up(other) }
	/* note_closed: what it had is sent by now, or some of it; the answer. It may be lost. */
	:: atomic { runs && role[me] == DEPOSED && !closed[me] ->
		    if
		    :: linked && promotable[other] && state[other] != SYNCING -> agreed[other] = true; planned[other] = true
		    :: promotable[other] && fault -> faults++
		    :: !linked || !promotable[other] -> skip
		    fi;
		    closed[me] = true; conn = false }
	/* node_pair_hold: it keeps what it had until the other one says that it serves; then node_pair_yield */
	:: atomic { linked && holds(me) && role[other] == PRIMARY && gen[other] > gen[me] -> yield(me, gen[other]) }
#ifdef ETCD
	/* claim_back */
	:: atomic { holds(me) && leads(me) && claim(BACK) -> disk[me] = PRIMARY; claims(BACK) }
	:: atomic { runs && holds(me) && told[me] == BACK -> gen[me] = reg_gen; serve_again() }
#else
	/* the other one says that it has nothing; or an operator says so of one that nobody knows to have served: in the
	 * model it has begun again, and says that it waits */
	:: atomic { linked && holds(me) && (role[other] == STANDBY && !promotable[other] || role[other] == WAITING) ->
		    gen[me] = (gen[other] > gen[me] -> gen[other] + 1 : gen[me] + 2); serve_again() }
#endif
	/* node_pair_promote, hear_out: the primary cannot be asked; the standby answers it no more */
	:: atomic { fault && runs && role[me] == STANDBY && promotable[me] && state[me] == PAIRED && may_promote && idle_in_etcd ->
		    faults++; state[me] = LOST }
	/* take_over: the primary has begun again, and knows that it has nothing (decide_role) */
	:: atomic { linked && role[me] == STANDBY && promotable[me] && state[me] == LOST && role[other] == WAITING && !agreed[me] &&
		    gen[other] <= gen[me] && reaches(other) && leads(other) && (follows || disk[other] == STANDBY) -> agreed[me] = true }
#ifdef ETCD
	/* take_place, swap_register: PAIR_CLAIM_AGREED, or PAIR_CLAIM_TOLD and PAIR_CLAIM_FOUND (replace_lost), for which the
	 * lease has to be over. The claim is remembered first, once (node_pair_remember). */
	:: atomic { role[me] == STANDBY && promotable[me] && state[me] == LOST && agreed[me] && lead_of == other &&
		    reg_gen <= gen[me] && claim(TAKE) ->
		    disk[me] = PRIMARY; claims(TAKE) }
	:: atomic { role[me] == STANDBY && promotable[me] && state[me] == LOST && !lease && lead_of == other && may_follow &&
		    reg_gen == gen[me] && claim(TAKE) -> disk[me] = PRIMARY; claims(TAKE) }
	/* its claim had come true, and the answer was lost: it claims again, and has it */
	:: atomic { runs && !away[me] && role[me] == STANDBY && promotable[me] && state[me] == LOST && (agreed[me] || !lease) &&
		    lead_of == me && told[me] == NOTHING -> role[me] = PROMOTING }
	/* or cannot come true any more */
	:: atomic { runs && !away[me] && role[me] == STANDBY && unsure[me] && pend[me] == NOTHING && stray[me] == NOTHING &&
		    lead_of == other -> unsure[me] = false; disk[me] = STANDBY }
	:: atomic { runs && !away[me] && role[me] == STANDBY && agreed[me] && lead_of == other && reg_gen > gen[me] &&
		    pend[me] == NOTHING && stray[me] == NOTHING -> agreed[me] = false; unsure[me] = false; disk[me] = STANDBY }
	:: atomic { runs && role[me] == STANDBY && told[me] == TAKE -> told[me] = NOTHING; role[me] = PROMOTING }
	/* make_good */
	:: atomic { role[me] == PROMOTING && lead_of == me && claim(SERVES) -> claims(SERVES) }
	:: atomic { runs && role[me] == PROMOTING && told[me] == SERVES -> gen[me] = reg_gen; serve(false) }
	/* its primary has taken its place back */
	:: atomic { runs && !away[me] && role[me] == PROMOTING && lead_of == other ->
		    role[me] = STANDBY; told[me] = NOTHING; agreed[me] = false; unsure[me] = false; disk[me] = STANDBY }
	/* look_deposed: its place is taken, and it closes and holds what it had */
	:: atomic { runs && !away[me] && role[me] == PRIMARY && lead_of == other && reg_gen > gen[me] ->
		    role[me] = DEPOSED; closed[me] = true; conn = false; told[me] = NOTHING; hang_up(me) }
	/* node_pair_hold: the other one's claim was made good, and it has died since */
	:: atomic { linked && !away[me] && holds(me) && lead_of == other && !taking && role[other] == WAITING ->
		    yield(me, reg_gen) }
	/* repair_of: the register says what it is not */
	:: atomic { role[me] == PRIMARY && state[me] == SOLO && lead_of == me && may_follow && claim(KEEPS) -> claims(KEEPS) }
	:: atomic { role[me] == PRIMARY && state[me] == PAIRED && lead_of == me && !may_follow && claim(JOINED) -> claims(JOINED) }
	/* node_pair_register_want: the former wish is dropped */
	:: atomic { runs && (told[me] == KEEPS && (role[me] != PRIMARY || state[me] != LOST) ||
		    told[me] == JOINED && (role[me] != PRIMARY || state[me] != SYNCING)) -> told[me] = NOTHING }
#else
	/* take_place: remembered first, once */
	:: atomic { runs && role[me] == STANDBY && promotable[me] && state[me] == LOST &&
		    (agreed[me] || !lease && (!linked || role[other] != PRIMARY) && may_promote) ->
		    gen[me]++; disk[me] = PRIMARY; role[me] = PROMOTING }
#endif
#ifndef ETCD
	:: atomic { runs && role[me] == PROMOTING -> serve(false) }
#endif

	/* ---- who has begun again finds out: find_out, decide_role, begin ---- */
#ifdef ETCD
	/* look_up; PAIR_CLAIM_VOIDS if it has claimed something */
	:: atomic { runs && !away[me] && role[me] == WAITING && lead_of == other ->
		    pend[me] = NOTHING; stray[me] = NOTHING; yield(me, reg_gen) }
	:: atomic { role[me] == WAITING && lead_of == me && claim(BEGINS) &&
		    ((linked && role[other] == STANDBY && !promotable[other]) || !may_follow && !taking && disk[me] == PRIMARY ||
		     (linked && role[other] == WAITING)) -> claims(BEGINS) }
	:: atomic { runs && role[me] == WAITING && told[me] == BEGINS -> gen[me] = reg_gen; serve(true) }
	/* node_pair_register_is_mine */
	:: atomic { runs && !away[me] && role[me] == STANDBY && state[me] == SYNCING && !conn && lead_of == me -> role[me] = WAITING }
#else
	:: atomic { linked && role[me] == WAITING && role[other] == PRIMARY && gen[other] >= gen[me] -> yield(me, gen[other]) }
	/* the other one has nothing, or an older generation */
	:: atomic { linked && role[me] == WAITING && (role[other] == STANDBY && !promotable[other] && state[other] == SYNCING ||
		    role[other] == WAITING && (gen[me] > gen[other] || gen[me] == gen[other] && me == 0)) ->
		    serve(true) }
#endif

	/* ---- requests ---- */
#ifdef CLIENT
	/* screen, rpc_replay_look, and the service; what it knows already is not executed */
	:: atomic { runs && role[me] == PRIMARY && to == me && request && request > high[me] && may_change(me) ->
		    assert(gen[me] == latest); assert(!(rows[me] & (1 << (request - 1))));
		    rows[me] = rows[me] | (1 << (request - 1)); high[me] = request; reply = request; request = 0 }
	:: atomic { runs && role[me] == PRIMARY && to == me && request && request <= high[me] -> reply = request; request = 0 }
#endif

#ifdef ETCD
	/* ---- etcd: run_register ---- */
	:: atomic { pend[me] != NOTHING ->
		    if
		    :: up[me] && told[me] == NOTHING && !away[me] -> told[me] = pend[me]
		    :: !up[me] || told[me] != NOTHING || away[me] || fault ->
		       if
		       :: up[me] && told[me] == NOTHING && !away[me] -> faults++
		       :: else -> skip
		       fi;
		       unsure[me] = unsure[me] || (up[me] && pend[me] == TAKE)
		    fi;
		    change(pend[me]) }
	:: atomic { fault && pend[me] != NOTHING && stray[me] == NOTHING && runs ->
		    faults++; unsure[me] = unsure[me] || pend[me] == TAKE; stray[me] = pend[me]; pend[me] = NOTHING }
	:: atomic { stray[me] != NOTHING -> change(stray[me]) }
	:: atomic { stray[me] != NOTHING -> stray[me] = NOTHING } /* it is lost */
#endif
	od
}

#ifdef CLIENT
/* What a reply of that node says (rpc_replay_behind), and what becomes of what is kept (release). */
inline lets_go(i, answered)
{
#ifdef RETAINED
	if
	:: !waits(i) -> durable = answered
	:: else -> durable = (tail[i] > gated[i] -> tail[i] : gated[i])
	fi;
	durable = (durable < answered -> durable : answered);
	gone = (durable > gone -> durable : gone)
#else
	gone = (answered > gone -> answered : gone)
#endif
}

/* rpc_replay_ahead: of what is kept a node without a standby says how far it has all of it (release_ahead). */
inline says_ahead(i, has)
{
#ifdef RETAINED
	do
	:: !waits(i) && has < acked && (rows[i] & all_up_to(has + 1)) == all_up_to(has + 1) -> has++
	:: else -> break
	od
#else
	skip
#endif
}

#define answers(i) (up[i] && !paused[i] && role[i] == PRIMARY)
#ifdef SYNC
#define leaves(i) (!waits(i) || tail[i] >= reply || gated[i] >= reply)
#else
#define leaves(i) true
#endif

/* client_keep_lost has put what is kept in its order; a node that changes nothing is of no use, and another try */
inline connects(i)
{
	faults = (may_change(i) || !answers(1 - i) -> faults : faults + 1);
	to = i;
	again = (gone < acked -> gone + 1 : 0)
}

proctype client()
{
	byte durable, said;

end:	do
	/* client_connect_start */
	:: atomic { !dead && !lost && to == NOBODY && answers(0) && (may_change(0) || !answers(1) || fault) ->
		    connects(0) }
	:: atomic { !dead && !lost && to == NOBODY && answers(1) && (may_change(1) || !answers(0) || fault) ->
		    connects(1) }
	/* client_keep_resend, before what was in flight, before what is new */
	:: atomic { !dead && to != NOBODY && !request && !reply && again -> request = again }
	:: atomic { !dead && to != NOBODY && !request && !reply && !again && (flying || acked < PUSHES) ->
		    flying = acked + 1; request = flying }
	/* the reply; with SYNC it waits (rpc_work_hold) */
	:: atomic { !dead && to != NOBODY && reply && answers(to) && leaves(to) ->
		    said = reply;
		    if
		    :: reply == again -> says_ahead(to, said); again = (again < acked -> again + 1 : 0) /* client_keep_resent */
		    :: else -> acked = reply; flying = 0; assert((rows[to] & all_up_to(reply)) == all_up_to(reply))
		    fi;
		    lets_go(to, said); reply = 0; durable = 0; said = 0;
		    again = (again && again <= gone -> (gone < acked -> gone + 1 : 0) : again) }
	/* client_keep_look: a ping */
	:: atomic { !dead && to != NOBODY && !request && !reply && !again && !flying && gone < acked && answers(to) &&
		    (!waits(to) || tail[to] > gone || gated[to] > gone) -> lets_go(to, acked); durable = 0 }
	/* its node does not answer, or changes nothing: it tries the other address */
	:: atomic { !dead && to != NOBODY && answers(1 - to) && (!answers(to) || !may_change(to) && may_change(1 - to)) ->
		    hang_up(to) }
	:: atomic { !dead && to != NOBODY && fault -> faults++; hang_up(to) }
	:: atomic { !dead && fault -> faults++; dead = true; hang_up(to) }
	od
}
#endif

active proctype world()
{
	atomic {
	role[0] = PRIMARY; disk[0] = PRIMARY; state[0] = SOLO; gen[0] = 1; up[0] = true;
	role[1] = STANDBY; disk[1] = STANDBY; state[1] = SYNCING; up[1] = true;
	told[0] = NOTHING; told[1] = NOTHING; latest = 1;
#ifdef ETCD
	pend[0] = NOTHING; pend[1] = NOTHING; stray[0] = NOTHING; stray[1] = NOTHING; reg_gen = 1;
#endif
	run node(0);
	run node(1);
#ifdef CLIENT
	run client();
#endif
	}
end:	do
	:: atomic { fault && up[0] -> kill_node(0) }
	:: atomic { fault && up[1] -> kill_node(1) }
	:: atomic { !up[0] -> begin_again(0) }
	:: atomic { !up[1] -> begin_again(1) }
	:: atomic { fault && up[0] && !paused[0] -> paused[0] = true; faults++ }
	:: atomic { fault && up[1] && !paused[1] -> paused[1] = true; faults++ }
	:: atomic { paused[0] -> paused[0] = false }
	:: atomic { paused[1] -> paused[1] = false }
	:: atomic { fault && !cut -> cut = true; faults++ }
	:: atomic { cut -> cut = false }
	:: atomic { lease && (!linked || !conn || role[0] == PRIMARY && state[1] != PAIRED || role[1] == PRIMARY && state[0] != PAIRED) ->
		    lease = false }
#ifdef ETCD
	:: atomic { fault && !away[0] -> away[0] = true; faults++ }
	:: atomic { fault && !away[1] -> away[1] = true; faults++ }
	:: atomic { away[0] -> away[0] = false }
	:: atomic { away[1] -> away[1] = false }
#endif
	od
}

#define well(i) (role[i] == PRIMARY && state[i] == PAIRED && role[1 - i] == STANDBY && promotable[1 - i] && latest == gen[i])
#ifdef ETCD
#define stands false
#else
/* What there was is lost, or who was to take over has died when it had written that down, and the other one lives: the
 * operator says which of them is to go on. */
#define outdated(i) (role[i] == PRIMARY && role[1 - i] == WAITING && gen[1 - i] > gen[i])
#define stands (lost || outdated(0) || outdated(1))
#endif
#ifdef CLIENT
#define served (dead || lost || acked == PUSHES && gone == PUSHES)
#else
#define served true
#endif

active proctype judge()
{
	do
	:: may_change(0) && may_change(1) -> assert(false)
	:: may_change(0) && gen[0] != latest -> assert(false)
	:: may_change(1) && gen[1] != latest -> assert(false)
	:: timeout -> break
	od;
	assert(well(0) || well(1) || stands);
	assert(served || stands)
}
