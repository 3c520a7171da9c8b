/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion control of a session over UDP: Swift (Kumar et al., "Swift: Delay is Simple and Effective for Congestion
 * Control in the Datacenter", SIGCOMM 2020, algorithm 1 and section 3.5), with DCTCP's reaction to ECN marks (RFC 8257,
 * 3.3), and slow start. Windows are in packets, and may be smaller than one: then packets are paced.
 *
 * While the window is at its maximum and there is no sign of congestion, an acknowledgement costs one comparison.
 *
 * Two rules differ from the paper. Losses reduce the window only if the round-trip time is above its target too, or if
 * more than one packet of 32 in a round trip is lost: a link that damages a packet now and then is not congested. (BBR
 * has a threshold of 2 %: draft-cardwell-iccrg-bbr-congestion-control-02, 4.5.10.) And if a path's shortest round-trip
 * time is near the target or above it, the target is raised: what the paper's configuration knows about its network is
 * measured here.
 *
 * Pure functions over the session's state; on the stack's thread. */
#ifndef RPC_DGRAM_CONGESTION_H
#define RPC_DGRAM_CONGESTION_H

#include <stdbool.h>
#include <stdint.h>

#define CONGESTION_START 16.0f
#define CONGESTION_MIN 0.001f /* of the window */

struct dgram_congestion {
	float window;	     /* packets */
	uint32_t packets;    /* that may be in flight: the window, at least 1 */
	uint32_t gap_ns;     /* between two packets; 0: no pacing */
	uint32_t min_rtt_ns; /* UINT32_MAX: unknown */
	uint64_t decreased_ns;
	/* counts of the round trip that ends when the number round_end is acknowledged; only kept while there are
	 * losses or marks */
	uint32_t round_end;
	uint32_t round_acked, round_marked, round_lost;
	float marked_share; /* DCTCP's alpha */
	uint8_t max;	    /* the window is at its maximum, and nothing was lost or marked: nothing is computed */
	uint8_t starting;
	uint8_t timeouts; /* in a row */
};

/* What an acknowledgement says, and what the session knows. */
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
/* For a path without a network (memif): the whole window, without pacing. */
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
