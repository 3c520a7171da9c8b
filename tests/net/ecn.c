/* SPDX-License-Identifier: BSD-3-Clause */
/* Explicit congestion notification: who agrees to it, and what a receiver of marks says (RFC 3168; RFC 8257, 3.2). */
#include "net/tcp_internal.h"
#include "tests/net/cases.h"
#include "tests/net/script.h"

#define SEGMENT(...) (&(struct script_segment){ __VA_ARGS__ })

enum { ECT_0 = 2, CE = 3 };

static void begin(enum net_ecn ecn)
{
	struct net_options o = script_options();

	o.ecn = ecn;
	script_begin(&o);
}

void ecn_is_agreed_on_by_both(void)
{
	static const struct {
		enum net_ecn ecn;
		uint8_t flags, tos, answer;
	} cases[] = {
		{ NET_ECN_ACCEPT, S, 0, S | A },
		{ NET_ECN_ACCEPT, S | E | W, 0, S | A | E },
		{ NET_ECN_ASK, S | E | W, 0, S | A | E },
		{ NET_ECN_OFF, S | E | W, 0, S | A },
		{ NET_ECN_ACCEPT, S | E, 0, S | A },
		{ NET_ECN_ACCEPT, S | W, 0, S | A },
		{ NET_ECN_ACCEPT, S | E | W, ECT_0, S | A }, /* something on the way meddles with the bits */
		{ NET_ECN_ACCEPT, S | E | W, CE, S | A },
	};

	for (size_t i = 0; i < RTE_DIM(cases); i++) {
		begin(cases[i].ecn);
		script_in(SEGMENT(.flags = cases[i].flags, .tos = cases[i].tos));
		script_out(cases[i].answer, 0, 1, 0);
		script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1));
		script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .bytes = 10, .tos = CE));
		script_out(cases[i].answer & E ? A | E : A, 1, 11, 0); /* marks count only where it was agreed on */
		script_end();
	}
}

void our_own_opens_may_ask_for_ecn(void)
{
	static const struct {
		enum net_ecn ecn;
		uint8_t syn, answer;
		bool agreed;
	} cases[] = { { NET_ECN_ACCEPT, S, S | A, false },
		      { NET_ECN_OFF, S, S | A | E, false },
		      { NET_ECN_ASK, S | E | W, S | A, false },
		      { NET_ECN_ASK, S | E | W, S | A | E, true },
		      { NET_ECN_ASK, S | E | W, S | A | E | W, false } }; /* an echo of our own flags */

	for (size_t i = 0; i < RTE_DIM(cases); i++) {
		begin(cases[i].ecn);
		script_open();
		script_out(cases[i].syn, 0, 0, 0);
		script_in(SEGMENT(.flags = cases[i].answer, .ack = 1));
		script_out(A, 1, 1, 0);
		script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .bytes = 10, .tos = CE));
		script_out(cases[i].agreed ? A | E : A, 1, 11, 0);
		script_end();
	}
}

/* Something on the way may drop what asks for ECN: a SYN that is sent again does not ask. */
void a_syn_that_was_lost_asks_no_more(void)
{
	begin(NET_ECN_ASK);
	script_open();
	script_out(S | E | W, 0, 0, 0);
	script_wait(1100);
	script_out(S, 0, 0, 0);
	script_end();
}

static void connect_ecn(void)
{
	script_begin(NULL);
	script_connect(SEGMENT(.flags = S | E | W, .mss = 1000, .sack_permitted = true));
	for (uint32_t i = 0; i < 16; i++) /* past the quick ACKs */
		script_in(SEGMENT(.flags = A, .seq = 1 + 1000 * i, .ack = 1, .bytes = 1000));
	script_drop();
}

/* Every ACK says it until the sender says that it has heard. */
void a_mark_is_echoed_until_it_was_heard(void)
{
	connect_ecn();
	script_in(SEGMENT(.flags = A, .seq = 16001, .ack = 1, .bytes = 1000, .tos = CE));
	script_out(A | E, 1, 17001, 0);
	script_in(SEGMENT(.flags = A, .seq = 17001, .ack = 1, .bytes = 1000, .tos = ECT_0));
	script_in(SEGMENT(.flags = A, .seq = 18001, .ack = 1, .bytes = 1000, .tos = ECT_0));
	script_out(A | E, 1, 19001, 0);
	script_write(10);
	script_out(A | P | E, 1, 19001, 10);
	script_in(SEGMENT(.flags = A | W, .seq = 19001, .ack = 11, .bytes = 1000, .tos = ECT_0));
	script_out(A, 11, 20001, 0);
	script_in(SEGMENT(.flags = A | W, .seq = 20001, .ack = 11, .bytes = 1000, .tos = CE)); /* and marked again */
	script_out(A | E, 11, 21001, 0);
	script_in(SEGMENT(.flags = A, .seq = 21001, .ack = 11, .tos = CE)); /* an ACK alone is not marked */
	CHECK_UINT(script_counters()->tcp_ce_segs, 2);
	script_end();
}

/* RFC 8257, figure 1: the echo is that of what is acknowledged, and a change is told at once. */
void dctcp_hears_of_every_mark(void)
{
	connect_ecn();
	script.conn->flags |= TCP_ECN_EXACT; /* as its congestion control sets it */
	script_in(SEGMENT(.flags = A, .seq = 16001, .ack = 1, .bytes = 1000, .tos = ECT_0));
	script_quiet();
	script_in(SEGMENT(.flags = A, .seq = 17001, .ack = 1, .bytes = 1000, .tos = CE));
	script_out(A, 1, 17001, 0); /* what came before had no mark */
	script_out(A | E, 1, 18001, 0);
	script_in(SEGMENT(.flags = A, .seq = 18001, .ack = 1, .bytes = 1000, .tos = CE));
	script_quiet();
	script_in(SEGMENT(.flags = A, .seq = 19001, .ack = 1, .bytes = 1000, .tos = CE));
	script_out(A | E, 1, 20001, 0);
	script_in(SEGMENT(.flags = A, .seq = 20001, .ack = 1, .bytes = 1000, .tos = CE));
	script_quiet();
	script_in(SEGMENT(.flags = A | W, .seq = 21001, .ack = 1, .bytes = 1000, .tos = ECT_0));
	script_out(A | E, 1, 21001, 0);
	script_out(A, 1, 22001, 0);
	script_quiet();
	script_end();
}
