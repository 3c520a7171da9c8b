/* SPDX-License-Identifier: BSD-3-Clause */
/* What the RFCs leave to us, and is done as most peers and boxes on the way are used to from Linux; and what its
 * scripts found. */
#include "tests/net/cases.h"
#include "tests/net/script.h"

enum { ETH = 14, IP = 20, TCP = 20 };

/* The kinds of options that a SYN's answer has, in order; the number of them. */
static unsigned answered_kinds(const struct script_segment *syn, uint8_t *kinds)
{
	struct rte_mbuf *frame;
	unsigned count = 0;

	script_in(&(struct script_segment){
		.flags = S, .port = 50000, .mss = 1460 }); /* the link's addresses are known */
	script_drop();
	script_put(syn);
	while (net_output(script.net, &frame, 1)) {
		const uint8_t *at = rte_pktmbuf_mtod(frame, const uint8_t *) + ETH + IP + TCP;
		const uint8_t *end = rte_pktmbuf_mtod(frame, const uint8_t *) + frame->data_len;

		while (at < end) {
			kinds[count++] = *at;
			at += *at == 1 ? 1 : at[1];
		}
		rte_pktmbuf_free(frame);
	}
	return count;
}

void options_stand_where_everybody_has_them(void)
{
	static const struct {
		struct script_segment syn;
		uint8_t kinds[8];
		unsigned count;
	} cases[] = {
		{ { .flags = S, .mss = 1460 }, { 2 }, 1 },
		{ { .flags = S, .mss = 1460, .sack_permitted = true }, { 2, 1, 1, 4 }, 4 },
		{ { .flags = S, .mss = 1460, .stamped = true, .ts_value = 1 }, { 2, 1, 1, 8 }, 4 },
		{ { .flags = S, .mss = 1460, .scale = 8 }, { 2, 1, 3 }, 3 },
		{ { .flags = S, .mss = 1460, .sack_permitted = true, .scale = 8 }, { 2, 1, 1, 4, 1, 3 }, 6 },
		{ { .flags = S, .mss = 1460, .sack_permitted = true, .stamped = true, .ts_value = 1, .scale = 8 },
		  { 2, 4, 8, 1, 3 },
		  5 },
	};

	for (size_t i = 0; i < RTE_DIM(cases); i++) {
		uint8_t kinds[40] = { 0 };

		script_begin(NULL);
		if (!CHECK_UINT(answered_kinds(&cases[i].syn, kinds), cases[i].count) ||
		    memcmp(kinds, cases[i].kinds, cases[i].count) != 0)
			unit_fail(__FILE__, __LINE__, "case %zu: %u %u %u %u %u %u", i, kinds[0], kinds[1], kinds[2],
				  kinds[3], kinds[4], kinds[5]);
		script_end();
	}
}

static void check_burst(unsigned count, uint32_t seq, uint8_t last)
{
	for (unsigned i = 0; i < count; i++)
		script_out(A | (i + 1 == count ? last : 0), seq + 1000 * i, 1, 1000);
	script_quiet();
}

/* Where more waits behind it; a segment alone, or sent again, has none. */
void a_burst_ends_in_a_push(void)
{
	script_begin(NULL);
	script_connect(&(struct script_segment){ .mss = 1000, .sack_permitted = true });
	script_write(30000);
	check_burst(10, 1, P); /* the congestion window */
	script_in(&(struct script_segment){ .flags = A, .seq = 1, .ack = 2001, .window = 18000 });
	check_burst(4, 10001, P);
	script_in(&(struct script_segment){ .flags = A, .seq = 1, .ack = 14001, .window = 1000 });
	check_burst(1, 14001, 0); /* the peer's window */
	script_in(&(struct script_segment){ .flags = A, .seq = 1, .ack = 15001, .window = 3000 });
	check_burst(3, 15001, P);
	script_in(&(struct script_segment){ .flags = A, .seq = 1, .ack = 18001 });
	check_burst(12, 18001, P); /* the end of the queue */
	script_end();
}

/* ACKs are not delayed at first, whatever has been sent, until data has carried one. */
void acks_are_quick_until_a_reply_carries_one(void)
{
	script_begin(NULL);
	script_connect(&(struct script_segment){ .mss = 1000 });
	script_write(100);
	script_out(A | P, 1, 1, 100);
	for (uint32_t i = 0; i < 3; i++) {
		script_in(&(struct script_segment){ .flags = A, .seq = 1 + 10 * i, .ack = 101, .bytes = 10 });
		script_out(A, 101, 11 + 10 * i, 0);
	}
	script_put(&(struct script_segment){ .flags = A, .seq = 31, .ack = 101, .bytes = 10 });
	script_write(100);
	script_out(A | P, 101, 41, 100);
	script_in(&(struct script_segment){ .flags = A, .seq = 41, .ack = 201, .bytes = 10 });
	script_quiet();
	script_wait(2);
	script_out(A, 201, 51, 0);
	script_end();
}

/* A RST that answers data for nobody has the number that the peer expects, even where our FIN was lost. */
void data_for_nobody_is_answered_by_what_it_acknowledges(void)
{
	script_begin(NULL);
	script_connect(&(struct script_segment){ .mss = 1000 });
	tcp_close(script.conn);
	script_turn();
	script_out(A | F, 1, 1, 0);
	script_in(&(struct script_segment){ .flags = A, .seq = 1001, .ack = 1, .bytes = 10 }); /* in order or not */
	script_out(R, 1, 0, 0);
	CHECK_UINT(script.ends, 1);
	CHECK_UINT(net_connections(script.net), 0);
	script_quiet();
	script_end();
}

/* The ACK that ends a timeout's recovery is one of slow start: two segments may follow (RFC 5681, 3.1). */
void slow_start_goes_on_after_a_timeout(void)
{
	script_begin(NULL);
	script_connect(&(struct script_segment){ .mss = 1000 });
	script_write(1000);
	script_out(A | P, 1, 1, 1000);
	script_wait(250);
	script_out(A | P, 1, 1, 1000);
	script_in(&(struct script_segment){ .flags = A, .seq = 1, .ack = 1001 });
	script_write(10000);
	check_burst(2, 1001, P);
	script_end();
}
