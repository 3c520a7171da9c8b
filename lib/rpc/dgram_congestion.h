/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion control of a session over UDP: Swift (Kumar et al., "Swift: Delay is Simple and Effective for Congestion
 * Control in the Datacenter", SIGCOMM 2020, algorithm 1 and section 3.5), with DCTCP's answer to ECN marks (RFC 8257,
 * 3.3), and a start that doubles. Windows are counted in packets, and may be smaller than one: then packets are paced.
 *
 * While the window is as large as it may get and nothing speaks against it, an acknowledgement costs one comparison.
 *
 * Two rules differ from the paper. Losses lower the window only where the round trip is above its target too, or where
 * more than one packet of 32 of a round trip is lost (as BBR has a threshold of 2 %,
 * draft-cardwell-iccrg-bbr-congestion-control-02, 4.5.10): a link that damages a packet now and then is not congested.
 * And a path whose shortest round trip is near the target or above it has a higher target: what the paper's
 * configuration knows of its network is measured here.
 *
 * Pure data; one thread.
 */
#ifndef RPC_DGRAM_CONGESTION_H
#define RPC_DGRAM_CONGESTION_H

#include <stdbool.h>
#include <stdint.h>

#define CONGESTION_START 16.0f
#define CONGESTION_MIN 0.001f /* of the window */

struct dgram_congestion {
	float window;	     /* packets */
	uint32_t packets;    /* of it that may be in flight; 1 where it is smaller */
	uint32_t gap_ns;     /* between two packets; 0: no pacing */
	uint32_t min_rtt_ns; /* UINT32_MAX: unknown */
	uint64_t decreased_ns;
	/* of the round trip that ends when the number round_end is acknowledged: kept while there are losses or
	 * marks */
	uint32_t round_end;
	uint32_t round_acked, round_marked, round_lost;
	float marked_share; /* DCTCP's alpha */
	uint8_t max;	    /* the window is as large as it gets, and nothing was lost or marked: nothing is computed */
	uint8_t starting;
	uint8_t timeouts; /* one after the other */
};

/* What an acknowledgement tells, and what the session knows. */
struct congestion_ack {
	uint64_t now_ns;
	uint32_t rtt_ns, srtt_ns; /* rtt_ns: 0: not measured */
	uint32_t acked;		  /* packets */
	uint32_t una, next;	  /* numbers: the first one not acknowledged; the next to be sent */
	bool marked;
};

struct congestion_limits {
	uint32_t target_ns;
	uint32_t window_max;
};

void dgram_congestion_init(struct dgram_congestion *c);
/* Whether dgram_congestion_ack need not be called. */
static inline bool congestion_idle(const struct dgram_congestion *c, uint32_t rtt_ns, uint32_t target_ns, bool marked)
{
	return c->max && rtt_ns <= target_ns && !marked && rtt_ns >= c->min_rtt_ns;
}
/* There is nothing that could be congested: the whole window, without pacing. */
static inline void congestion_open(struct dgram_congestion *c, const struct congestion_limits *limits)
{
	c->packets = limits->window_max;
	c->gap_ns = 0;
}
void dgram_congestion_ack(struct dgram_congestion *c, const struct congestion_limits *limits,
			  const struct congestion_ack *ack);
/* This many packets were found to be lost. */
void dgram_congestion_lost(struct dgram_congestion *c, uint32_t packets, uint32_t next);
/* A retransmission timeout. */
void dgram_congestion_timeout(struct dgram_congestion *c, const struct congestion_limits *limits, uint64_t now_ns,
			      uint32_t srtt_ns);

#endif
