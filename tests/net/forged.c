/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments of somebody who does not see the connection: RFC 5961, CVE-2016-5696, RFC 5927. */
#include <errno.h>

#include "net/internal.h"
#include "tests/net/cases.h"
#include "tests/net/link.h"
#include "tests/net/script.h"

#define SEGMENT(...) (&(struct script_segment){ __VA_ARGS__ })

/* TAS: any RST, unchecked, stalls a connection. */
void only_the_exact_reset_counts(void)
{
	static const struct {
		uint32_t seq;
		bool challenged;
	} cases[] = { { 2, true }, { 65535, true }, { 0, false }, { 70000, false }, { 0x80000000, false } };

	script_begin(NULL);
	script_connect(NULL);
	for (size_t i = 0; i < RTE_DIM(cases); i++) {
		script_wait(1000);
		script_in(SEGMENT(.flags = R, .seq = cases[i].seq));
		if (cases[i].challenged)
			script_out(A, 1, 1, 0);
		script_quiet();
		CHECK_UINT(script.ends, 0);
	}
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1, .bytes = 10)); /* it is as well as before */
	CHECK_UINT(script.received, 10);
	script_in(SEGMENT(.flags = R, .seq = 11));
	CHECK_UINT(script.ends, 1);
	CHECK_INT(script.reason, ECONNRESET);
	script_end();
}

void a_syn_in_the_window_is_challenged(void)
{
	script_begin(NULL);
	script_connect(NULL);
	for (uint32_t seq = 0; seq < 200; seq += 50) {
		script_wait(1000);
		script_in(SEGMENT(.flags = S, .seq = seq));
		script_out(A, 1, 1, 0);
	}
	CHECK_UINT(script.ends, 0);
	/* The peer has indeed started again: it answers our ACK by a RST that is exact. */
	script_in(SEGMENT(.flags = R, .seq = 1));
	CHECK_UINT(script.ends, 1);
	script_end();
}

/* RFC 5961, 5.2: between snd_una - the largest window and what was sent. */
void an_acknowledgement_must_be_likely(void)
{
	static const struct {
		uint32_t ack;
		bool likely;
	} cases[] = { { 1, true }, { 1001, true }, { 1002, false }, { 0x80000000, false }, { 1001 - 65536, false } };

	for (size_t i = 0; i < RTE_DIM(cases); i++) {
		script_begin(NULL);
		script_connect(SEGMENT(.mss = 1000));
		script_write(1000);
		script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1001));
		script_drop();
		script_in(SEGMENT(.flags = A, .seq = 1, .ack = cases[i].ack, .bytes = 10));
		CHECK_UINT(script.received, cases[i].likely ? 10 : 0);
		CHECK_UINT(script_counters()->tcp_challenge_acks, cases[i].likely ? 0 : 1);
		script_end();
	}
}

/* A connection answers twice a second, whatever happens to others; of the stack's answers in a second nobody knows how
 * many there will be, so that counting them tells nothing (CVE-2016-5696). */
void challenges_are_rare_and_tell_nothing(void)
{
	enum { PEERS = 2000, SECONDS = 4 };
	struct net_options o = script_options();
	uint64_t counts[SECONDS], before;

	o.connections_max = PEERS;
	o.half_open_max = PEERS;
	script_begin(&o);
	for (unsigned i = 0; i < PEERS; i++) {
		script_put(SEGMENT(.flags = S, .port = (uint16_t)(1000 + i)));
		script_drop();
		script_put(SEGMENT(.flags = A, .seq = 1, .ack = 1, .port = (uint16_t)(1000 + i)));
	}
	script_drop();
	CHECK_UINT(script.opens, PEERS);
	for (unsigned second = 0; second < SECONDS; second++) {
		script_wait(1000);
		before = script_counters()->tcp_challenge_acks;
		for (unsigned i = 0; i < PEERS; i++) {
			for (int k = 0; k < 3; k++)
				script_put(SEGMENT(.flags = S, .seq = 5, .port = (uint16_t)(1000 + i)));
			script_drop();
		}
		counts[second] = script_counters()->tcp_challenge_acks - before;
		CHECK(counts[second] >= 500 && counts[second] < 1500);
	}
	CHECK(counts[0] != counts[1] || counts[1] != counts[2] || counts[2] != counts[3]);
	script_end();
}

/* A window that comes from behind a hole is no later than what fills the hole. */
void a_window_behind_a_hole_hides_none(void)
{
	script_begin(NULL);
	script_connect(SEGMENT(.mss = 1000, .sack_permitted = true));
	script_in(SEGMENT(.flags = A, .seq = 30001, .ack = 1, .bytes = 10, .closed = true));
	script_drop();
	script_write(1000);
	script_quiet();
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1));
	script_out(A | P, 1, 1, 1000);
	script_end();
}

static bool icmp(uint32_t seq, enum net_icmp_error kind)
{
	const struct tcp_address a = tcp_address(script.conn);

	return tcp_icmp_error(script.net, &a.local, rte_cpu_to_be_16(a.local_port), &a.remote,
			      rte_cpu_to_be_16(a.remote_port), script.stack_iss + seq, kind, 1400);
}

static void icmp_ends_an_open(enum net_icmp_error kind, int reason)
{
	script_begin(NULL);
	script_open();
	script_drop();
	CHECK(!icmp(1, kind));
	CHECK(!icmp(0xffffffff, kind));
	CHECK_UINT(script.ends, 0);
	CHECK(icmp(0, kind));
	CHECK_UINT(script.ends, 1);
	CHECK_INT(script.reason, reason);
	CHECK_UINT(script_counters()->tcp_icmp_stale, 2);
	script_end();
}

/* What cannot be reached now may be later (RFC 9293, MUST-56): the open goes on, and its end has a reason (SHLD-25). */
static void icmp_leaves_an_open(enum net_icmp_error kind, int reason)
{
	script_begin(NULL);
	script_open();
	script_drop();
	CHECK(icmp(0, kind));
	CHECK_UINT(script.ends, 0);
	script_wait(1100);
	script_out(S, 0, 0, 0);
	script_wait(200000);
	CHECK_UINT(script.ends, 1);
	CHECK_INT(script.reason, reason);
	script_drop();
	script_end();

	script_begin(NULL);
	script_open();
	script_drop();
	CHECK(icmp(0, kind));
	script_in(SEGMENT(.flags = S | A, .ack = 1));
	script_out(A, 1, 1, 0);
	CHECK_UINT(script.opens, 1);
	script_end();
}

/* What a router says ends an open that has no answer, if it is not a passing state, and nothing else; and only when it
 * is about what is in flight. */
void icmp_ends_opens_only(void)
{
	icmp_ends_an_open(NET_ICMP_PORT_UNREACHABLE, ECONNREFUSED);
	icmp_ends_an_open(NET_ICMP_PROTOCOL_UNREACHABLE, ENOPROTOOPT);
	icmp_ends_an_open(NET_ICMP_PROHIBITED, EACCES);
	icmp_leaves_an_open(NET_ICMP_NET_UNREACHABLE, ENETUNREACH);
	icmp_leaves_an_open(NET_ICMP_HOST_UNREACHABLE, EHOSTUNREACH);
	icmp_leaves_an_open(NET_ICMP_TIME_EXCEEDED, EHOSTUNREACH);

	script_begin(NULL);
	script_connect(SEGMENT(.mss = 1000));
	script_write(1000);
	CHECK(!icmp(0, NET_ICMP_HOST_UNREACHABLE));
	CHECK(!icmp(1001, NET_ICMP_HOST_UNREACHABLE));
	CHECK(icmp(1, NET_ICMP_HOST_UNREACHABLE));
	CHECK_UINT(script.ends, 0);
	script_wait(200000); /* nothing comes: then it was the reason */
	CHECK_UINT(script.ends, 1);
	CHECK_INT(script.reason, EHOSTUNREACH);
	script_drop();

	script_connect(SEGMENT(.mss = 1000, .port = 40001));
	script_write(1000);
	CHECK(icmp(1, NET_ICMP_HOST_UNREACHABLE));
	script_in(SEGMENT(.flags = A, .seq = 1, .ack = 1001, .port = 40001)); /* it has passed */
	script_write(1000);
	script_wait(200000);
	CHECK_UINT(script.ends, 2);
	CHECK_INT(script.reason, ETIMEDOUT);
	script_drop();
	script_end();
}
