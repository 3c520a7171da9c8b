/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heads of frames that come and go, copied for an administrator: what matches a filter goes into a ring of fixed
 * size, from which another thread takes it. What finds no room is counted. A reactor that captures nothing pays one
 * branch a burst.
 *
 * Threads: one writer, the reactor; one reader. Neither waits for the other.
 */
#ifndef REACTOR_CAPTURE_H
#define REACTOR_CAPTURE_H

#include <rte_mbuf.h>
#include <stdbool.h>
#include <stdint.h>

#include "star_error.h"

enum reactor_capture_limits {
	REACTOR_CAPTURE_SNAP_MIN = 64, /* bytes of a head */
	REACTOR_CAPTURE_SNAP_USUAL = 256,
	REACTOR_CAPTURE_SNAP_MAX = 9216,
	REACTOR_CAPTURE_RING_BYTES = 4 << 20, /* a power of two */
};

enum reactor_capture_way { REACTOR_CAPTURE_IN = 1, REACTOR_CAPTURE_OUT = 2 };

/* What is zero matches all. */
struct reactor_capture_filter {
	uint8_t host[16]; /* source or destination; IPv4 as ::ffff:a.b.c.d */
	uint16_t port;	  /* source or destination, of TCP or UDP */
	uint16_t type;	  /* of Ethernet, behind a VLAN tag */
	uint8_t protocol; /* of IP */
	uint8_t ways;	  /* enum reactor_capture_way */
};

struct reactor_capture_frame {
	uint64_t ns;	/* CLOCK_MONOTONIC */
	uint32_t bytes; /* of the frame */
	uint32_t taken; /* of them, here */
	uint16_t port;	/* DPDK's id */
	uint8_t way;
};

struct reactor_capture;

/* snap: bytes of a head, at most. NULL with err. */
struct reactor_capture *reactor_capture_create(const struct reactor_capture_filter *filter, uint32_t snap,
					       struct star_error *err);
void reactor_capture_destroy(struct reactor_capture *capture);

/* The reactor's. */
void reactor_capture_frames(struct reactor_capture *capture, uint16_t port, enum reactor_capture_way way,
			    struct rte_mbuf *const *frames, unsigned n);

/* The reader's: the next frame, oldest first; its head is good until reactor_capture_done. False: there is none. */
bool reactor_capture_next(const struct reactor_capture *capture, struct reactor_capture_frame *frame,
			  const uint8_t **head);
void reactor_capture_done(struct reactor_capture *capture);
/* Frames that matched, ever; and of them, those that found no room. */
void reactor_capture_count(const struct reactor_capture *capture, uint64_t *matched, uint64_t *dropped);

#endif
